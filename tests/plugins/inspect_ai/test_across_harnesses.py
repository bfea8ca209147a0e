"""Runs of two harnesses: invalid, with what differs; or one message where nothing can be paired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import cli
from foreign_logs import write_json
from plugged import need
from runs import sample, write_lines, write_run

from meta_eval import compare
from meta_eval.errors import UserError
from meta_eval.judge.gate import Gate
from meta_eval.judge.judging_options import JudgingOptions


def inspect_log(
    path: Path, right: set[int], *, metric: str = "match", hint: str = "", task: str = "sums", system: str = "",
    target: str = "7",
) -> Path:  # fmt: skip
    samples = []
    for number in range(60):
        question = f"{hint}What is {number} and 7 modulo {number}?"
        asked = {"role": "user", "content": question, "source": "input", "id": f"m{number}"}
        before = [{"role": "system", "content": system}] if system else []
        said = {"role": "assistant", "content": "7" if number in right else "8", "source": "generate"}
        samples.append({
            "id": number, "epoch": 1, "input": [*before, asked] if system else question,
            "target": target.format(number), "messages": [*before, asked, said],
            "output": {"choices": [{"message": said, "stop_reason": "stop"}], "usage": {"output_tokens": 3}},
            "scores": {metric: {"value": "C" if number in right else "I", "answer": "7"}},
            "metadata": {}, "model_usage": {},
        })  # fmt: skip
    return write_json(path, {
        "version": 2, "status": "success",
        "eval": {
            "created": "2026-05-12T20:27:36+02:00", "task": task, "task_version": 1, "model": "org/model",
            "dataset": {"name": "sums", "samples": 60}, "config": {}, "packages": {"inspect_ai": "0.3.100"},
        },
        "plan": {"name": "plan", "steps": [], "config": {"temperature": 0.0, "max_tokens": 64}},
        "results": {"total_samples": 60, "completed_samples": 60, "scores": []},
        "samples": samples,
    })  # fmt: skip


def promptfoo_log(path: Path, right: set[int]) -> Path:
    need("promptfoo")
    rows = []
    for number in range(60):
        question = f"What is {number} and 7 modulo {number}?"
        passed = number in right
        rows.append({
            "promptIdx": 0, "testIdx": number, "promptId": "p1", "success": passed, "score": float(passed),
            "prompt": {"raw": question, "label": "What?"}, "provider": {"id": "openai:gpt", "label": ""},
            "testCase": {"vars": {"a": number}, "assert": [{"type": "equals", "value": "7"}], "options": {}},
            "vars": {"a": number}, "response": {"output": "7" if passed else "8", "tokenUsage": {"completion": 2, "total": 9}},
            "gradingResult": {"pass": passed, "score": float(passed), "reason": "", "componentResults": []},
            "namedScores": {}, "failureReason": 0 if passed else 1, "latencyMs": 5, "id": f"id-{number}",
        })  # fmt: skip
    prompt = {"label": "What?", "provider": "openai:gpt", "metrics": {"testPassCount": len(right), "testFailCount": 60 - len(right), "testErrorCount": 0}}  # fmt: skip
    summary = {"version": 3, "timestamp": "2026-01-26T16:28:37.419Z", "prompts": [prompt], "results": rows}
    return write_json(path, {"evalId": "eval-1", "results": summary, "config": {}, "shareableUrl": None})


def test_two_logs_of_one_harness_decide_as_two_runs_do(tmp_path: Path) -> None:
    found = compare(inspect_log(tmp_path / "a.json", set(range(50))), inspect_log(tmp_path / "b.json", set(range(20))))
    assert found.decision.outcome == "DON'T SHIP"
    assert found.decision.invalid is False


def test_two_harnesses_are_an_invalid_comparison_that_names_both_graders(tmp_path: Path) -> None:
    a, b = inspect_log(tmp_path / "a.json", set(range(50))), promptfoo_log(tmp_path / "b.json", set(range(50)))
    done = cli("compare", a, b, "--json")
    assert done.stdout, done.stderr
    tree: dict[str, Any] = json.loads(done.stdout)
    assert tree["decision"]["outcome"] == "UNDECIDED"
    (unlike,) = [alarm for alarm in tree["alarms"] if alarm["kind"] == "runs not alike"]
    assert "graded by inspect_ai (match) in A, by promptfoo" in json.dumps(unlike)
    assert done.returncode == 0
    assert cli("compare", a, b, "--max-drop", "1").returncode == 2


def test_questions_with_another_system_message_are_paired_without_a_decision(tmp_path: Path) -> None:
    a = inspect_log(tmp_path / "a.json", set(range(50)))
    b = inspect_log(tmp_path / "b.json", set(range(20)), system="Be careful.")
    found = compare(a, b, options=JudgingOptions(gate=Gate()))
    said = "runs not alike: sums (60 of 60 docs had another prompt in B; system message: none in A, Be careful. in B)"
    assert found.decision.reasons[0] == said and found.exit_code == 2
    (task,) = found.tasks
    assert (task.docs, task.drop.baseline, task.drop.candidate) == (60, pytest.approx(50 / 60), pytest.approx(20 / 60))


def test_questions_in_other_words_are_paired_by_number_and_gold_where_golds_differ(tmp_path: Path) -> None:
    a = inspect_log(tmp_path / "a.json", set(range(50)), target="gold {}")
    found = compare(a, inspect_log(tmp_path / "b.json", set(range(20)), hint="Think. ", target="gold {}"))
    assert found.tasks[0].docs == 60
    assert "last message: What is 0 and 7 modulo 0? in A, Think. What is 0 and 7 modulo 0? in B" in found.summary
    one_gold = [inspect_log(tmp_path / f"{name}.json", {1}, hint=hint) for name, hint in (("c", ""), ("d", "Think. "))]
    with pytest.raises(UserError, match="no doc in common"):
        compare(*one_gold)


def test_a_doc_of_lm_eval_is_paired_by_the_question_that_stands_in_its_prompt(tmp_path: Path) -> None:
    rows = []
    for number in range(59, -1, -1):
        question = f"What is {number} and 7 modulo {number}?"
        doc = {"question": question, "answer": "7"}
        rows.append(sample(59 - number, float(number < 20), None, None, "exact_match", "none", doc))
        rows[-1]["arguments"]["gen_args_0"]["arg_0"] = f"Answer in a word. {question}"
    folder = write_run(tmp_path / "b", [1.0] * 20 + [0.0] * 40, task="sums", metric="exact_match", filters=("none",))
    (path,) = folder.glob("samples_*")
    write_lines(path, rows)
    found = compare(inspect_log(tmp_path / "a.json", set(range(50))), folder)
    (task,) = found.tasks
    assert (task.docs, task.drop.candidate) == (60, pytest.approx(20 / 60))


def test_several_tasks_without_a_common_name_are_one_message(tmp_path: Path) -> None:
    inspect_log(tmp_path / "a" / "one.json", set(range(50)), task="one")
    inspect_log(tmp_path / "a" / "two.json", set(range(50)), task="two")
    done = cli("compare", tmp_path / "a", promptfoo_log(tmp_path / "b.json", set(range(50))))
    assert done.returncode == 2
    assert "A is a run of inspect_ai, B of promptfoo" in done.stderr
    assert "--tasks" in done.stderr
