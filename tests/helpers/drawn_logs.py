"""Two runs of the same questions, as each harness logs them: B loses a little, and some of its answers are cut or empty."""

from __future__ import annotations

import html
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foreign_logs import write_json, write_lines

DOCS = 120


@dataclass(frozen=True)
class Asked:
    """A question and its answer."""

    doc: int
    question: str
    gold: str
    text: str
    right: bool
    cut: bool = False

    @property
    def end(self) -> str:
        """How the answer ended, as most harnesses name it."""
        return "length" if self.cut else "stop"


def draw_answers(side: int, share: float = 0.75, loss: float = 0.08, docs: int = DOCS) -> list[Asked]:
    """The questions with the answers of a side: 0 is A, 1 is B."""
    chance, asked = random.Random("logs"), []
    for doc in range(docs):
        question = f"What is {doc} and {doc + 1}?"
        gold, right, is_lost, luck = str(2 * doc + 1), chance.random() < share, chance.random() < loss, chance.random()
        one = Asked(doc, question, gold, gold if right else "1", right)
        if side:
            one = replace(one, text="2" if is_lost else one.text, right=right and not is_lost)
            one = replace(one, text="", right=False) if luck < 0.02 else one
            one = replace(one, text="Let me see, and", right=False, cut=True) if luck > 0.97 else one
        asked.append(one)
    return asked


def write_inspect(folder: Path, asked: Sequence[Asked], side: int = 0, **head: Any) -> Path:
    """A log of inspect_ai. ``head`` changes its ``eval``; ``steps``, ``system``, ``scorer`` and ``options`` the rest."""
    steps, system = head.pop("steps", [{"solver": "generate", "params": {}}]), head.pop("system", None)
    scorer, options = head.pop("scorer", "match"), head.pop("options", {})
    samples = []
    for one in asked:
        before = [{"role": "system", "content": system, "id": f"s{one.doc}"}] if system else []
        messages = [*before, {"role": "user", "content": one.question, "source": "input", "id": f"m{one.doc}"}]
        said = {"role": "assistant", "content": one.text, "source": "generate"}
        choice = {"message": said, "stop_reason": "max_tokens" if one.cut else "stop"}
        samples.append({
            "id": one.doc, "epoch": 1, "input": messages if system else one.question, "target": one.gold,
            "messages": [*messages, said], "output": {"choices": [choice], "usage": {"output_tokens": 3}},
            "scores": {scorer: {"value": "C" if one.right else "I", "answer": one.text}}, "metadata": {},
        })  # fmt: skip
    metrics = {"accuracy": {"name": "accuracy", "value": _mean(asked)}}
    return write_json(folder / "log.json", {
        "version": 2, "status": "success",
        "eval": {
            "created": f"2026-05-0{1 + side}T10:00:00+00:00", "task": "sums", "task_version": 1, "model": "org/m",
            "dataset": {"name": "d", "samples": len(samples)}, "config": {}, "packages": {"inspect_ai": "0.3.217"},
            "scorers": [{"name": scorer, "options": options, "metrics": [{"name": "accuracy"}]}], **head,
        },
        "plan": {"name": "plan", "steps": steps, "config": {"temperature": 0.0, "max_tokens": 64}},
        "results": {
            "total_samples": len(samples), "completed_samples": len(samples),
            "scores": [{"name": scorer, "scorer": scorer, "params": options, "metrics": metrics}],
        },
        "samples": samples,
    })  # fmt: skip


def _write_promptfoo(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    rows = [
        {
            "promptIdx": 0, "testIdx": one.doc, "promptId": "p", "success": one.right, "score": float(one.right),
            "prompt": {"raw": one.question, "label": "{{q}}"}, "provider": {"id": "m", "label": ""},
            "vars": {"q": one.question}, "testCase": {"vars": {"q": one.question}, "assert": [{"type": "equals", "value": one.gold}]},
            "response": {"output": one.text, "tokenUsage": {"completion": 2, "total": 9}, "finishReason": one.end},
            "gradingResult": {"pass": one.right, "score": float(one.right), "reason": ""}, "id": f"id-{one.doc}",
        }
        for one in asked
    ]  # fmt: skip
    passed = sum(one.right for one in asked)
    counts = {"testPassCount": passed, "testFailCount": len(asked) - passed, "testErrorCount": 0}
    prompts = [{"raw": "{{q}}", "label": "{{q}}", "provider": "m", "metrics": counts}]
    results = {"version": 3, "timestamp": f"2026-05-0{1 + side}T10:00:00.000Z", "prompts": prompts, "results": rows}
    return write_json(
        folder / "results.json", {"evalId": "e", "results": results, "config": {"providers": [{"id": "m"}]}}
    )


def _write_nemo(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    scores = {"mean_reward": {"value": _mean(asked), "ci_lower": 0, "ci_upper": 1}}
    write_json(folder / "eval-sums.json", {
        "run_id": f"eval-2026050{1 + side}T100000Z-sums", "timestamp": f"2026-05-0{1 + side}T10:00:00+00:00",
        "sdk_version": "0.1", "config": {"benchmark": "sums", "model": "org/m"}, "n_results": len(asked),
        "benchmark": {"name": "sums", "samples": len(asked), "scores": scores},
    })  # fmt: skip
    write_lines(folder / "results.jsonl", [
        {
            "problem_idx": one.doc, "repeat": 0, "reward": float(one.right), "prompt": one.question,
            "model_response": one.text, "extracted_answer": one.text, "expected_answer": one.gold, "tokens": 9,
            "scoring_details": {"method": "x"}, "metadata": {"category": f"c{one.doc % 2}"},
        }
        for one in asked
    ])  # fmt: skip
    return folder


def _write_helm(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    states, verdicts = [], []
    for one in asked:
        references = [
            {"output": {"text": text}, "tags": ["correct"] if text == one.gold else []} for text in (one.gold, "1")
        ]
        reason = {"finish_reason": {"reason": "length"}} if one.cut else {}
        states.append({
            "instance": {"id": f"id{one.doc}", "split": "test", "input": {"text": one.question}, "references": references},
            "request": {"prompt": one.question, "model": "org/m", "temperature": 0.0, "max_tokens": 5},
            "train_trial_index": 0, "num_train_instances": 5,
            "result": {"success": True, "completions": [{"text": one.text, "logprob": -1.0, **reason}]},
        })  # fmt: skip
        stats = [{"name": {"name": "exact_match", "split": "test"}, "mean": float(one.right), "count": 1}]
        verdicts.append({"instance_id": f"id{one.doc}", "train_trial_index": 0, "stats": stats})
    adapter = {"method": "generation", "model": "org/m", "temperature": 0.0, "max_tokens": 5, "stop_sequences": ["\n"]}
    write_json(folder / "scenario_state.json", {"adapter_spec": adapter, "request_states": states})
    write_json(folder / "per_instance_stats.json", verdicts)
    name = {"name": "exact_match", "split": "test"}
    write_json(folder / "stats.json", [{"name": name, "mean": _mean(asked), "sum": _mean(asked), "count": 1}])
    spec = {"name": f"sums:model=org_m{side}", "adapter_spec": adapter, "metric_specs": [{"class_name": "M"}]}
    write_json(folder / "run_spec.json", spec)
    return folder


def _write_simple_evals(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    tree = {
        "score": _mean(asked), "metrics": {"score:std": 0.1}, "metadata": None,
        "htmls": [_report(one) for one in asked], "convos": [_conversation(one) for one in asked],
    }  # fmt: skip
    return write_json(folder / f"mmlu_org-m_2026050{1 + side}_100000_allresults.json", tree)


def _write_simple_evals_page(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    head = f"<html><style>.message.assistant {{}}</style><h1>Metrics</h1><b>Score</b></td><td>{_mean(asked)}</td>"
    path = folder / f"mmlu_org-m_2026050{1 + side}_100000.html"
    folder.mkdir(parents=True)
    path.write_text(f"{head}{''.join(map(_report, asked))}</html>", encoding="utf-8")
    return path


def _conversation(one: Asked) -> list[dict[str, str]]:
    return [{"role": "user", "content": one.question}, {"role": "assistant", "content": one.text}]


def _report(one: Asked) -> str:
    shown = "".join(
        f'<div class="message {message["role"]}"><div class="role">x</div><pre>{html.escape(message["content"])}</pre></div>'
        for message in _conversation(one)
    )
    lines = (f"Correct Answer: {one.gold}", f"Extracted Answer: {one.text}", f"Score: {float(one.right)}")
    return f"<h3>Prompt conversation</h3>{shown}<h3>Results</h3>{''.join(f'<p>{line}</p>' for line in lines)}"


def _write_evalplus(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    def program(one: Asked) -> dict[str, Any]:
        plus = "pass" if one.right else "fail"
        return {"task_id": f"HumanEval/{one.doc}", "solution": f"def f():\n    return {one.text}",
                "base_status": "pass" if one.right or one.doc % 3 else "fail", "plus_status": plus}  # fmt: skip

    programs = {f"HumanEval/{one.doc}": [program(one)] for one in asked}
    tree = {"date": f"2026-05-0{1 + side} 10:00", "hash": "abc", "eval": programs}
    return write_json(folder / "org--m_vllm_temp_0.0_eval_results.json", tree)


def _write_bfcl(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    del side
    rows = [
        {"id": f"simple_{one.doc}", "result": [{"add": f'{{"to": "{one.text}"}}'}] if one.text else "no call",
         "input_token_count": 9, "output_token_count": 3}
        for one in asked
    ]  # fmt: skip
    wrong = [
        {
            "id": f"simple_{one.doc}",
            "valid": False,
            "error": ["no"],
            "error_type": "x",
            "prompt": {"id": f"simple_{one.doc}"},
        }
        for one in asked
        if not one.right
    ]
    head = {"accuracy": _mean(asked), "correct_count": len(asked) - len(wrong), "total_count": len(asked)}
    write_lines(folder / "result/org_m/non_live/BFCL_v4_simple_result.json", rows)
    write_lines(folder / "score/org_m/non_live/BFCL_v4_simple_score.json", [head, *wrong])
    return folder


def _write_evalscope(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    reviews, predictions = [], []
    for one in asked:
        score = {"value": {"acc": float(one.right)}, "extracted_prediction": one.text, "prediction": one.text}
        reviews.append({
            "index": one.doc, "input": one.question, "target": one.gold,
            "sample_score": {"score": score, "sample_id": one.doc, "group_id": one.doc, "sample_metadata": {}},
        })  # fmt: skip
        messages = [
            {"id": f"u{one.doc}", "content": one.question, "source": None, "role": "user"},
            {"id": f"a{one.doc}", "content": one.text, "source": "generate", "role": "assistant"},
        ]
        choice = {"message": messages[1], "stop_reason": "max_tokens" if one.cut else "stop"}
        output = {"model": "m", "choices": [choice], "usage": {"output_tokens": 5}, "error": None}
        predictions.append({"index": one.doc, "model": "m", "model_output": output, "messages": messages})
    subsets = [{"name": "main", "score": _mean(asked), "num": len(asked)}]
    metric = {"name": "mean_acc", "num": len(asked), "score": _mean(asked),
              "categories": [{"name": ["default"], "subsets": subsets}]}  # fmt: skip
    root = folder / f"2026050{1 + side}_100000"
    write_lines(root / "reviews/m/sums_main.jsonl", reviews)
    write_lines(root / "predictions/m/sums_main.jsonl", predictions)
    report = {"name": "m@sums", "dataset_name": "sums", "score": _mean(asked), "metrics": [metric]}
    write_json(root / "reports/m/sums.json", report)
    return folder


def _write_batch(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    del side
    asks, given = [], []
    for one in asked:
        body = {"model": "m", "messages": _conversation(one)[:1], "temperature": 0, "max_tokens": 9}
        asks.append({"custom_id": f"q-{one.doc}", "method": "POST", "url": "/v1/chat/completions", "body": body})
        choice = {"index": 0, "message": _conversation(one)[1], "finish_reason": one.end}
        answer = {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
        given.append({"custom_id": f"q-{one.doc}", "response": {"status_code": 200, "body": answer}, "error": None})
    write_lines(folder / "sums_requests.jsonl", asks)
    write_lines(folder / "output.jsonl", given)
    return folder


def _write_csv(folder: Path, asked: Sequence[Asked], side: int) -> Path:
    """The format of examples/csv_record.py."""
    del side
    folder.mkdir(parents=True)
    rows = "".join(f'"{one.question}","{one.text}",{one.gold},{one.right:d}\n' for one in asked)
    (folder / "sums.csv").write_text(f"prompt,answer,gold,right\n{rows}", encoding="utf-8")
    return folder


def _mean(asked: Sequence[Asked]) -> float:
    return sum(one.right for one in asked) / len(asked)


# By plug-in, or a name behind it, what writes a run of a side into a folder and returns the path to name.
WRITERS: dict[str, Callable[[Path, Sequence[Asked], int], Path]] = {
    "bfcl": _write_bfcl, "chat": _write_batch, "csv": _write_csv, "evalplus": _write_evalplus,
    "evalscope": _write_evalscope, "helm": _write_helm, "inspect_ai": write_inspect,
    "nemo_evaluator": _write_nemo, "promptfoo": _write_promptfoo, "simple_evals": _write_simple_evals,
    "simple_evals html": _write_simple_evals_page,
}  # fmt: skip

_REACT = [{"solver": "react", "params": {"attempts": 3, "tools": ["bash", "python"]}}]
# Pairs of logs of inspect_ai that differ in one thing: what changes in A, and in B.
INSPECT_PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another solver": ({"steps": _REACT, "solver": "react"}, {"solver": "generate"}),
    "other arguments": (
        {"task_args": {"difficulty": "easy"}, "config": {"message_limit": 100}},
        {"task_args": {"difficulty": "hard"}, "config": {"message_limit": 20}},
    ),
    "another judge": (
        {"scorer": "model_graded_qa", "options": {"model": "openai/one"}},
        {"scorer": "model_graded_qa", "options": {"model": "openai/two"}},
    ),
    "a system message": ({}, {"system": "Be careful."}),
}  # fmt: skip
