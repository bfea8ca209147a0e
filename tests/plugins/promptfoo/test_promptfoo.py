"""Results of promptfoo: what is read of them, how two are compared, what becomes a pack, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from foreign_logs import BROKEN, check_mutations, list_unseen_settings, refuse, write_json, write_lines
from packs import prepare, read_docs

from meta_eval import compare, verify
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.plugins.promptfoo.promptfoo_format import PromptfooFormat


def result(number: int, passed: bool = True, *, provider: str = "openai:gpt", **others: Any) -> dict[str, Any]:
    question = f"What is {number} modulo {number + 1}?"
    asserts = [{"type": "equals", "value": str(number)}]
    return {
        "promptIdx": 0, "testIdx": number, "promptId": "p1", "success": passed, "score": float(passed),
        "prompt": {"raw": question, "label": "What is {{a}}?"}, "provider": {"id": provider, "label": ""},
        "testCase": {"vars": {"a": number}, "assert": asserts, "options": {}}, "vars": {"a": number},
        "response": {"output": str(number) if passed else "no", "tokenUsage": {"completion": 2, "total": 9}},
        "gradingResult": {"pass": passed, "score": float(passed), "reason": "", "componentResults": []},
        "namedScores": {}, "failureReason": 0 if passed else 1, "latencyMs": 5, "id": f"id-{provider}-{number}",
        **others,
    }  # fmt: skip


def log(rows: Sequence[dict[str, Any]], **config: Any) -> dict[str, Any]:
    passed = sum(row["success"] is True for row in rows)
    prompt = {
        "label": "What is {{a}}?", "provider": "openai:gpt",
        "metrics": {"testPassCount": passed, "testFailCount": len(rows) - passed, "testErrorCount": 0},
    }  # fmt: skip
    summary = {"version": 3, "timestamp": "2026-01-26T16:28:37.419Z", "prompts": [prompt], "results": list(rows)}
    return {"evalId": "eval-1", "results": summary, "config": config, "shareableUrl": None}


def write(path: Path, rows: Sequence[dict[str, Any]], **config: Any) -> Path:
    return write_json(path, log(rows, **config))


def read(path: Path) -> TaskRun:
    (task,) = read_any_run([path]).tasks.values()
    return task


def values(task: TaskRun, metric: str = "pass") -> list[Any]:
    return [doc.filter_results["none"].metrics.get(metric) for doc in task.docs]


def test_verdicts_tokens_model_and_settings_are_read(tmp_path: Path) -> None:
    settings = {"id": "openai:gpt", "config": {"temperature": 0.5, "max_tokens": 20}}
    task = read(write(tmp_path / "a.json", [result(1), result(2, False)], providers=["other", settings]))
    assert (task.task, values(task), values(task, "score")) == ("promptfoo", [1.0, 0.0], [1.0, 0.0])
    assert (task.provenance.model, task.provenance.date) == ("openai:gpt", "2026-01-26T16:28:37+00:00")
    assert task.provenance.decoding == {"temperature": 0.5, "max_gen_toks": 20, "until": []}
    assert [doc.figures["answer_tokens"] for doc in task.docs] == [2, 2]
    assert task.aggregates["pass,none"].value == 0.5


def test_named_scores_are_metrics(tmp_path: Path) -> None:
    task = read(write(tmp_path / "a.json", [result(1, namedScores={"tone": 0.25})]))
    assert values(task, "named/tone") == [0.25]


def test_results_in_lines_are_read(tmp_path: Path) -> None:
    assert values(read(write_lines(tmp_path / "a.jsonl", [result(1), result(2, False)]))) == [1.0, 0.0]


def test_equal_tests_are_repeated_answers(tmp_path: Path) -> None:
    rows = [result(1), {**result(1, False), "testIdx": 1}, result(2), {**result(2), "testIdx": 3}]
    task = read(write(tmp_path / "a.json", rows))
    assert values(task) == [0.5, 1.0]
    assert task.docs[0].filter_results["none"].verdict_of_each["pass"] == (1.0, 0.0)


@pytest.mark.parametrize(
    "fault",
    [
        {"failureReason": 2, "error": "quota"},
        {"failureReason": None, "error": "quota", "gradingResult": None},
        {"failureReason": None, "response": {"error": "quota"}, "gradingResult": None},
    ],
)
def test_a_provider_that_failed_is_no_verdict(tmp_path: Path, fault: dict[str, Any]) -> None:
    run = read_any_run([write(tmp_path / "a.json", [result(1), {**result(2, False), **fault}])])
    assert values(run.tasks["promptfoo"]) == [1.0]
    assert any("the first: the provider failed: quota" in note for note in run.notes)


def test_tests_are_paired_by_their_variables(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", [result(number) for number in range(40)])
    rows = [result(number, number % 4 > 0, provider="other:model") for number in range(39, -1, -1)]
    (task,) = compare(a, write(tmp_path / "b.json", rows)).tasks
    assert task.docs == 40 and task.drop is not None and task.drop.value == pytest.approx(0.25)


def test_a_changed_assertion_is_another_grader(tmp_path: Path) -> None:
    rows = [result(number) for number in range(40)]
    a = write(tmp_path / "a.json", rows)
    for row in rows:
        row["testCase"]["assert"].append({"type": "llm-rubric", "value": "is polite"})
    assert "the settings of metric pass differ" in compare(a, write(tmp_path / "b.json", rows)).summary


def test_several_prompts_are_tasks(tmp_path: Path) -> None:
    other = {**result(1, False), "promptIdx": 1, "promptId": "p2", "prompt": {"raw": "Say 1.", "label": "Say {{a}}."}}
    run = read_any_run([write(tmp_path / "a.json", [result(1), other])])
    assert {name: values(task) for name, task in run.tasks.items()} == {
        "promptfoo_prompt_1": [1.0], "promptfoo_prompt_2": [0.0],
    }  # fmt: skip


def test_of_several_providers_one_is_chosen(tmp_path: Path) -> None:
    rows = [
        result(number, number % 4 > 0 or name == "a:x", provider=name)
        for number in range(40)
        for name in ("a:x", "b:y")
    ]
    path = write(tmp_path / "both.json", rows)
    assert "holds 2 runs" in str(refuse(path)) and "There are a:x, b:y" in str(refuse(path))
    found = compare(f"{path}#a:x", f"{path}#b:y")
    assert not any(alarm.kind == "the same run twice" for alarm in found.alarms)
    assert any(alarm.kind == "the same run twice" for alarm in compare(f"{path}#a:x", f"{path}#a:x").alarms)
    (task,) = found.tasks
    assert task.drop is not None and task.drop.value == pytest.approx(0.25)
    assert "holds no runs of 'c'" in str(refuse(Path(f"{path}#c")))


# Packs


def test_results_that_equal_their_golds_become_a_pack(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", [result(1), result(2, False)])
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(path))
    assert verify(pack).passed and [doc["prompt"] for doc in read_docs(pack, "promptfoo")] == [
        "What is 1 modulo 2?", "What is 2 modulo 3?",
    ]  # fmt: skip


def test_prompts_of_messages_are_asked_as_messages(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1?"}]
    rows = [{**result(1), "prompt": {"raw": json.dumps(messages), "label": "x"}}]
    path = write(tmp_path / "a.json", rows)
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(path), backend="chat")
    assert [json.loads(doc["prompt"]) for doc in read_docs(pack, "promptfoo")] == [{"messages": messages}]


def test_a_rubric_becomes_no_pack(tmp_path: Path) -> None:
    row = result(1)
    row["testCase"]["assert"] = [{"type": "llm-rubric", "value": "is polite"}]
    with pytest.raises(UserError, match="was graded by promptfoo .*llm-rubric.* which meta-eval does not run"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(write(tmp_path / "a.json", [row])))


# Bad files

BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another version": (lambda tree: tree["results"].update(version=4), "is of version 4 of promptfoo's results"),
    "no results": (lambda tree: tree["results"].update(results=[]), "holds no results: its run still writes"),
    "results that are an object": (lambda tree: tree["results"].update(results={}), "results is an object, and must be"),
    "a result that is null": (lambda tree: tree["results"]["results"].append(None), "is null and no object"),
    "no provider": (lambda tree: tree["results"]["results"][0].pop("provider"), "has no id"),
    "a provider that is a list": (
        lambda tree: tree["results"]["results"][0].update(provider=[]), "provider is a list, and must be an object",
    ),
    "no verdict": (lambda tree: tree["results"]["results"][0].pop("success"), "success is None, and must be true or"),
    "a verdict that is a text": (
        lambda tree: tree["results"]["results"][0].update(success="yes"), "success is 'yes', and must be true or false",
    ),
    "a score that is a text": (lambda tree: tree["results"]["results"][0].update(score="1"), "score is '1', and must be"),
    "a named score that is a text": (
        lambda tree: tree["results"]["results"][0].update(namedScores={"a": "x"}), "a is 'x', and must be a number",
    ),
    "assertions that are a text": (
        lambda tree: tree["results"]["results"][0]["testCase"].update({"assert": "x"}), "assert is 'x', and must be a list",
    ),
    "variables that are a list": (
        lambda tree: tree["results"]["results"][0]["testCase"].update(vars=[1]), "vars is a list, and must be an object",
    ),
    "tokens that are a text": (
        lambda tree: tree["results"]["results"][0]["response"]["tokenUsage"].update(completion="2"),
        "completion is '2', and must be a whole number",
    ),
    "a huge number": (
        lambda tree: tree["results"]["results"][0].update(score=10**400), "score is 1000000",
    ),
    "only failures of providers": (
        lambda tree: [row.update(failureReason=2, error="quota") for row in tree["results"]["results"]],
        "no answer has a verdict; the first: the provider failed: quota",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_damaged_results_are_one_message(tmp_path: Path, name: str) -> None:
    edit, words = BAD[name]
    tree = log([result(1), result(2)])
    edit(tree)
    assert words in str(refuse(write_json(tmp_path / "a.json", tree)))


@pytest.mark.parametrize("name", BROKEN)
def test_a_line_that_is_no_result_is_one_message(tmp_path: Path, name: str) -> None:
    content, words = BROKEN[name]
    path = write_lines(tmp_path / "a.jsonl", [result(1)])
    path.write_bytes(path.read_bytes() + content.replace(b"\n", b" ") + b"\n")
    message = refuse(path)
    assert content.strip() in (b"",) or (words in str(message) and "line 2" in str(message))


@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_a_file_that_is_cut_off_is_one_message(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / "a.json", [result(number) for number in range(10)])
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "is cut off or not JSON" in str(refuse(path))


def test_no_wrong_value_anywhere_ends_in_more_than_a_message(tmp_path: Path) -> None:
    tree = log([result(1), result(2)], providers=[{"id": "openai:gpt", "config": {"temperature": 1}}])
    assert check_mutations(tree, lambda made: write_json(tmp_path / "a.json", made)) > 10


def test_a_change_of_each_compared_setting_is_named(tmp_path: Path) -> None:
    tree = log([result(1), result(2, False)], providers=[{"id": "openai:gpt", "config": {"temperature": 0.5}}])
    assert not list_unseen_settings(
        {**PromptfooFormat.settings, **PromptfooFormat.grader_settings}, tree,
        lambda name, made: write_json(tmp_path / name / "a.json", made),
    )  # fmt: skip
    rows = [result(1), result(2, False)]
    a = write(tmp_path / "a.json", rows)
    rows[0]["testCase"]["assert"].append({"type": "llm-rubric", "value": "is polite", "provider": "openai:judge"})
    assert "llm-rubric by openai:judge" in compare(a, write(tmp_path / "b.json", rows)).summary
