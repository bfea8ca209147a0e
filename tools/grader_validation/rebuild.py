"""An evals dataset in Meta's layout, made again of what others kept of its rows.

What they kept is a part: say question, prompt, output and verdict. The other columns are filled in as the cards of the
datasets describe them, so that prepare, verify and report can be run over real answers; nothing is to be concluded
from a column that was filled in.
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

# The 17 columns in their order. Choices and metrics are structs whose members differ by subset; null where unknown.
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
    """One row of a generative subset; ``other`` sets further columns by name."""
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
    """An evals dataset of one subset, the original that it is joined with, and an eval_config.yaml that names both."""
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
    """``<subset>.parquet`` in a folder whose name is an evals dataset's; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{subset}.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema(list(_TYPES.items()))), path)
    return path


def sha256(text: str) -> str:
    """As Meta hashes questions and prompts."""
    return hashlib.sha256(text.encode()).hexdigest()
