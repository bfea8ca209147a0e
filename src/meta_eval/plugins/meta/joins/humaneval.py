"""HumanEval and HumanEval+: the tests of each function, which the evals dataset leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval.plugins.meta.joins.join import Original, RowJoin, need_texts


class _HumanEval(RowJoin):
    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        need_texts(original, ("task_id", "prompt", "canonical_solution", "test", "entry_point"))
        return {
            "task_id": original["task_id"],
            "original_prompt": original["prompt"],
            "canonical_solution": original["canonical_solution"],
            "test": original["test"],
            "entry_point": original["entry_point"],
        }

    def evidence(self, original: Mapping[str, Any]) -> tuple[str, ...]:
        """The function stub that the prompt asks to complete."""
        return (str(original.get("prompt")),)


HUMANEVAL = _HumanEval("humaneval", Original(id="openai/openai_humaneval"), split="test", key_columns=("prompt",))
HUMANEVAL_PLUS = _HumanEval(
    "humaneval_plus", Original(id="evalplus/humanevalplus"), split="test", key_columns=("prompt",)
)
