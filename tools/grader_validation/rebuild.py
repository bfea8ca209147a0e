"""Rebuild an evals dataset in Meta's layout from rows that others have published in part.

The published columns may be question, prompt, output and verdict. The other columns are filled in as the datasets'
cards describe them, so that prepare, verify and report can run over real answers. Draw no conclusion from a filled
column.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

_TEXTS = pa.list_(pa.string())
_NUMBERS = pa.list_(pa.float64())

# The 17 columns in order. Choices and metrics are structs whose members depend on the subset. Unknown values are null.
_TYPES: Mapping[str, pa.DataType] = {
    "task_type": pa.string(),
    "task_name": pa.string(),
    "subtask_name": pa.string(),
    "input_question": pa.string(),
    "input_choice_list": pa.null(),
    "input_final_prompts": _TEXTS,
    "input_correct_responses": _TEXTS,
    "output_prediction_text": _TEXTS,
    "output_parsed_answer": pa.string(),
    "output_choice_completions": _TEXTS,
    "output_choice_negative_log_likelihoods": pa.struct({"raw": _NUMBERS, "text": _NUMBERS, "token": _NUMBERS}),
    "output_metrics": pa.null(),
    "is_correct": pa.bool_(),
    "input_question_hash": pa.string(),
    "input_final_prompts_hash": _TEXTS,
    "benchmark_label": pa.string(),
    "eval_config": pa.struct({"max_gen_len": pa.string(), "num_few_shot": pa.string()}),
}


def details_row(
    task_name: str,
    *,
    question: str,
    prompt: str,
    output: str,
    is_correct: bool,
    golds: Sequence[str] = (),
    **other: Any,
) -> dict[str, Any]:
    """Make a row of a generative subset. ``other`` sets further columns by name."""
    row = {
        **dict.fromkeys(_TYPES),
        "task_type": "Generative",
        "task_name": task_name,
        "input_question": question,
        "input_final_prompts": [prompt],
        "input_correct_responses": list(golds),
        "output_prediction_text": [output],
        "output_parsed_answer": output,
        "is_correct": is_correct,
        "input_question_hash": sha256(question),
        "input_final_prompts_hash": [sha256(prompt)],
    }
    unknown = set(other) - set(_TYPES)
    if unknown:
        raise ValueError(f"no such column: {', '.join(sorted(unknown))}")
    return {**row, **other}


def write_evals(
    folder: Path,
    model: str,
    subset: str,
    rows: Sequence[Mapping[str, Any]],
    join: str,
    originals: Sequence[Mapping[str, Any]],
) -> None:
    """Write an evals dataset of a subset, its original for the join, and an eval_config.yaml of both."""
    dataset, original = folder / f"{model}-evals", folder / f"{join}_original.jsonl"
    write_details(dataset, subset, rows)
    original.write_text("".join(json.dumps(original) + "\n" for original in originals), encoding="utf-8")
    config = {
        "model_name": f"meta-llama/{model}",
        "evals_dataset": str(dataset),
        "tasks": f"meta_{subset.partition('__')[0]}",
        "originals": {join: {"id": str(original)}},
        "work_dir": str(folder / "work_dir"),
        "output_path": str(folder / "eval_results"),
    }
    (folder / "eval_config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")


def write_details(folder: Path, subset: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write ``<subset>.parquet`` into a folder with the name of an evals dataset, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{subset}.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema(list(_TYPES.items()))), path)
    return path


def sha256(text: str) -> str:
    """Hash a text as Meta hashes questions and prompts."""
    return hashlib.sha256(text.encode()).hexdigest()
