"""Runs as `lm_eval --log_samples` writes them for its own tasks, without a pack."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runs import write_lines

from meta_eval.harness.lm_eval_run import Run, read_run

TIME = "2026-03-01T10-00-00.000001"

# No two runs take the same time.
_SECONDS = itertools.count(12)
SETTINGS = {"until": ["Question:"], "do_sample": False, "temperature": 0.0, "max_gen_toks": 256}

Row = dict[str, Any]


def make_sample(number: int, filter_name: str, metrics: Mapping[str, Any], **parts: Any) -> Row:
    """A sample of a generated answer; ``parts`` replace its other fields, and ``text`` and ``extracted`` its answer."""
    doc = {"question": f"What is {number} and {number}?"}
    prompt = parts.pop("prompt", f"Question: {doc['question']}\nAnswer:")
    text, extracted = parts.pop("text", f"So it is #### {number}"), parts.pop("extracted", str(number))
    return {
        "doc_id": number, "doc": doc, "target": str(number),
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": SETTINGS}},
        "resps": [[text]], "filtered_resps": [extracted], "filter": filter_name, "metrics": list(metrics),
        "doc_hash": _digest(json.dumps(doc)), "prompt_hash": _digest(prompt), "target_hash": _digest(str(number)),
        **metrics, **parts,
    }  # fmt: skip


def make_choice(number: int, likelihoods: Sequence[Any], right: bool) -> Row:
    """A sample of a choice by likelihood."""
    requests = {f"gen_args_{place}": {"arg_0": "Q:", "arg_1": f" {place}"} for place in range(len(likelihoods))}
    pairs = [[value, "False"] for value in likelihoods]
    return make_sample(
        number, "none", {"acc": float(right)},
        arguments=requests, resps=[[pair] for pair in pairs], filtered_resps=pairs,
    )  # fmt: skip


def write_stock_run(
    folder: Path,
    tasks: Mapping[str, Sequence[Row]],
    *,
    averages: Mapping[str, Mapping[str, Any]] | None = None,
    **extra: Any,
) -> Path:
    """Write samples and results of tasks, and return the folder. ``averages`` by task replace those of the samples."""
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Any]] = {}
    for task, rows in tasks.items():
        write_lines(folder / f"samples_{task}_{TIME}.jsonl", rows)
        values: dict[str, list[float]] = {}
        for row in rows:
            for metric in row["metrics"]:
                values.setdefault(f"{metric},{row['filter']}", []).append(row[metric])
        given = (averages or {}).get(task)
        means = {key: sum(numbers) / len(numbers) for key, numbers in values.items()} if given is None else given
        results[task] = {"alias": task, **means}
    sizes = {task: len({row["doc_id"] for row in rows}) for task, rows in tasks.items()}
    tree = {
        "results": results, "configs": {task: {"task": task} for task in tasks},
        "n-samples": {task: {"original": size, "effective": size} for task, size in sizes.items()},
        "config": {"model": "hf", "model_args": {"pretrained": "org/Some-Model"}, "limit": None, "gen_kwargs": {}},
        "date": 1772359200.0, "lm_eval_version": "0.4.12", "model_name": "org/Some-Model",
        "total_evaluation_time_seconds": f"{next(_SECONDS)}.5", **extra,
    }  # fmt: skip
    (folder / f"results_{TIME}.json").write_text(json.dumps(tree))
    return folder


def read_stock_run(folder: Path, tasks: Mapping[str, Sequence[Row]], **options: Any) -> Run:
    """Write a run and read it."""
    return read_run([write_stock_run(folder, tasks, **options)])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
