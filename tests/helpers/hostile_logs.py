"""Runs of each harness whose docs have any texts, as small as their formats allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from foreign_logs import write_json, write_lines


def _inspect(folder: Path, texts: Sequence[str]) -> Path:
    samples = [
        {
            "id": number, "epoch": 1, "input": text, "target": "1", "scores": {"match": {"value": "C", "answer": text}},
            "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": text, "source": "generate"}],
            "output": {"choices": [{"message": {"role": "assistant", "content": text}, "stop_reason": "stop"}]},
        }
        for number, text in enumerate(texts)
    ]  # fmt: skip
    head = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "plan": {}, "results": {}}
    return write_json(folder / "log.json", {**head, "samples": samples})


def _promptfoo(folder: Path, texts: Sequence[str]) -> Path:
    rows = [
        {
            "promptIdx": 0, "testIdx": number, "promptId": "p", "provider": {"id": "m", "label": ""}, "score": 1.0,
            "prompt": {"raw": text, "label": "{{x}}"}, "vars": {"x": text}, "response": {"output": text}, "success": True,
            "gradingResult": {"pass": True, "reason": text},
        }
        for number, text in enumerate(texts)
    ]  # fmt: skip
    prompts = [{"raw": "{{x}}", "label": "{{x}}", "provider": "m"}]
    tree = {"version": 3, "prompts": prompts, "results": rows, "stats": {}}
    return write_json(folder / "results.json", {"evalId": "e", "results": tree, "config": {"providers": [{"id": "m"}]}})


def _nemo(folder: Path, texts: Sequence[str]) -> Path:
    head = {"benchmark": {"name": "t"}, "config": {"benchmark": "t", "model": "m"}, "n_results": len(texts)}
    write_json(folder / "eval-t.json", head)
    write_lines(folder / "results.jsonl", [
        {
            "problem_idx": number, "repeat": 0, "reward": 1.0, "prompt": text, "expected_answer": text,
            "model_response": text, "extracted_answer": text,
        }
        for number, text in enumerate(texts)
    ])  # fmt: skip
    return folder


def _helm(folder: Path, texts: Sequence[str]) -> Path:
    states, verdicts = [], []
    for number, text in enumerate(texts):
        references = [{"output": {"text": text}, "tags": ["correct"]}] * 2
        states.append({
            "instance": {"id": f"id{number}", "split": "test", "input": {"text": text}, "references": references},
            "request": {"prompt": text, "model": "m"}, "train_trial_index": 0, "output_mapping": {"A": text, "B": text},
            "result": {"success": True, "completions": [{"text": text, "logprob": -1.0}]},
        })  # fmt: skip
        stats = [{"name": {"name": "exact_match", "split": "test"}, "mean": 1.0, "count": 1}]
        verdicts.append({"instance_id": f"id{number}", "train_trial_index": 0, "stats": stats})
    adapter = {"method": "generation", "model": "m"}
    write_json(folder / "scenario_state.json", {"adapter_spec": adapter, "request_states": states})
    write_json(folder / "per_instance_stats.json", verdicts)
    write_json(folder / "stats.json", [])
    write_json(folder / "run_spec.json", {"name": "t:model=m", "metric_specs": []})
    return folder


_REPORT = (
    "<h3>Prompt conversation</h3>{messages}<h3>Results</h3><p>Correct Answer: {text}</p><p>Extracted Answer: {text}</p>"
    "<p>Score: 1.0</p>{text}"
)


def _simple_evals(folder: Path, texts: Sequence[str]) -> Path:
    tree: dict[str, Any] = {
        "score": 1.0, "metrics": {}, "htmls": [_REPORT.format(messages="", text=text) for text in texts],
        "convos": [[{"role": "user", "content": text}, {"role": "assistant", "content": text}] for text in texts],
    }  # fmt: skip
    return write_json(folder / "mmlu_m_20260301_100000_allresults.json", tree)


def _simple_evals_html(folder: Path, texts: Sequence[str]) -> Path:
    message = '<div class="message {role}"><div class="role">{role}</div><pre>{text}</pre></div>'
    reports = [
        _REPORT.format(
            messages="".join(message.format(role=role, text=text) for role in ("user", "assistant")), text=text
        )
        for text in texts
    ]
    head = "<html><style>.message.assistant {}</style><h1>Metrics</h1><b>Score</b></td><td>1.0</td>"
    path = folder / "mmlu_m_20260301_100000.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}{''.join(reports)}</html>", encoding="utf-8", errors="replace")
    return path


def _evalplus(folder: Path, texts: Sequence[str]) -> Path:
    graded = {"base_status": "pass", "plus_status": "pass"}
    tree = {f"HumanEval/{n}": [{"task_id": f"HumanEval/{n}", "solution": t, **graded}] for n, t in enumerate(texts)}
    return write_json(
        folder / "m_vllm_temp_0.0_eval_results.json", {"date": "2026-03-01 10:00", "hash": "a", "eval": tree}
    )


def _bfcl(folder: Path, texts: Sequence[str]) -> Path:
    ids = [f"simple_{number}" for number in range(len(texts))]
    rows = [{"id": own, "result": text} for own, text in zip(ids, texts, strict=True)]
    write_lines(folder / "result/m/BFCL_v4_simple_result.json", rows)
    head = {"accuracy": 0.0, "correct_count": 0, "total_count": len(texts)}
    wrong = [{"id": number, "valid": False, "prompt": {"id": own}} for number, own in enumerate(ids, 1)]
    write_lines(folder / "score/m/BFCL_v4_simple_score.json", [head, *wrong])
    return folder


def _evalscope(folder: Path, texts: Sequence[str]) -> Path:
    reviews, predictions = [], []
    for number, text in enumerate(texts):
        score = {"value": {"acc": 1.0}, "extracted_prediction": text, "prediction": text, "main_score_name": "acc"}
        reviews.append(
            {"index": number, "input": text, "target": text, "sample_score": {"score": score, "sample_id": number}}
        )
        choice = {"message": {"content": text}, "stop_reason": "stop"}
        messages = [{"role": "user", "content": text}, {"role": "assistant", "content": text, "source": "generate"}]
        predictions.append({"index": number, "model": "m", "model_output": {"choices": [choice]}, "messages": messages})
    write_lines(folder / "reviews/m/t_main.jsonl", reviews)
    write_lines(folder / "predictions/m/t_main.jsonl", predictions)
    write_json(folder / "reports/m/t.json", {"name": "m@t", "metrics": []})
    return folder


def _lm_eval(folder: Path, texts: Sequence[str]) -> Path:
    results = {"t": {"alias": "t", "acc,none": 1.0}}
    config = {"task": "t", "output_type": "generate_until", "metric_list": [{"metric": "acc"}]}
    tree = {
        "results": results,
        "configs": {"t": config},
        "n-samples": {"t": {"original": len(texts), "effective": len(texts)}},
    }
    write_json(folder / "results_2026-03-01T10-00-00.000000.json", {**tree, "config": {"model": "m"}, "date": 1.0})
    write_lines(folder / "samples_t_2026-03-01T10-00-00.000000.jsonl", [
        {
            "doc_id": number, "doc": {"q": text}, "target": "1", "arguments": {"gen_args_0": {"arg_0": text, "arg_1": {}}},
            "resps": [[text]], "filtered_resps": [text], "filter": "none", "metrics": ["acc"], "acc": 1.0,
        }
        for number, text in enumerate(texts)
    ])  # fmt: skip
    return folder


def _batch(folder: Path, texts: Sequence[str]) -> Path:
    asked, given = [], []
    for number, text in enumerate(texts):
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        asked.append(
            {"custom_id": f"{number} {text[:40]}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        )
        message = {"role": "assistant", "content": text}
        answer = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        given.append({"custom_id": asked[-1]["custom_id"], "response": {"status_code": 200, "body": answer}})
    write_lines(folder / "requests.jsonl", asked)
    write_lines(folder / "results.jsonl", given)
    return folder


def _details(folder: Path, texts: Sequence[str]) -> Path:
    import pyarrow as pa
    from board_shapes import Shape, choices_of_2023, write_shape

    shape = choices_of_2023()
    safe = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
    (row, *_) = shape.table.to_pylist()
    rows = [{**row, "example": text, "full_prompt": text, "choices": [text, "b", "c"]} for text in safe]
    folder.mkdir(parents=True, exist_ok=True)
    return write_shape(folder, Shape(shape.task, (), pa.Table.from_pylist(rows, schema=shape.table.schema)))


# By plug-in, or a name behind it, what writes a run with a doc of each text into a folder and returns the path to name.
WRITERS: dict[str, Callable[[Path, Sequence[str]], Path]] = {
    "lm_eval": _lm_eval, "inspect_ai": _inspect, "promptfoo": _promptfoo, "nemo_evaluator": _nemo, "helm": _helm,
    "simple_evals": _simple_evals, "simple_evals html": _simple_evals_html, "evalplus": _evalplus, "bfcl": _bfcl,
    "evalscope": _evalscope, "chat": _batch, "boards": _details,
}  # fmt: skip

# Beginnings that a reader might search an end for, repeated.
UNITS = (
    " ", "\n", "a", '"', "{", "<", "```", "<think>", "<p>Score: ", '<div class="message user">', "<pre>", "</p>",
    "attachment://a", "\\\"", "a{\n", "://", "-eyJ00000000", "#### 1", "<tool_call>", "é", "\ud83d",
)  # fmt: skip
