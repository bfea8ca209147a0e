"""Our own rows in Meta's columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def make_row(
    question: str = "What is 2 + 2?",
    *,
    prompts: Sequence[str] | None = None,
    gold: Sequence[str] = ("B",),
    output: str | None = "The best answer is B.",
    subtask: str | None = "arithmetic",
    correct: bool | None = True,
    **other: Any,
) -> dict[str, Any]:
    """Make a row with all 17 columns and correct hashes."""
    final = (
        list(prompts) if prompts is not None else [f"<|start_header_id|>user<|end_header_id|>\n\n{question}<|eot_id|>"]
    )
    row = {
        "task_type": "Generative" if output is not None else "Choice",
        "task_name": "mmlu_pro_chat",
        "subtask_name": subtask,
        "input_question": question,
        "input_choice_list": {"A": "3", "B": "4", "C": None},
        "input_final_prompts": final,
        "input_correct_responses": list(gold),
        "output_prediction_text": [output] if output is not None else None,
        "output_parsed_answer": "B",
        "output_choice_completions": None,
        "output_choice_negative_log_likelihoods": None,
        "output_metrics": {"acc": 1.0},
        "is_correct": correct,
        "input_question_hash": sha256(question),
        "input_final_prompts_hash": [sha256(prompt) for prompt in final],
        "benchmark_label": "MMLU-Pro",
        "eval_config": {"max_gen_len": "1024", "num_few_shot": "5"},
    }
    return {**row, **other}


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path
