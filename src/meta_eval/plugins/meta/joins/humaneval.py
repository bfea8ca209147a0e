"""HumanEval and HumanEval+: the tests of each function, which the evals dataset leaves out."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from meta_eval.base.display import quoted
from meta_eval.plugins.meta.joins.join import COPY, Original, RowJoin, need_texts
from meta_eval.plugins.meta.joins.programs import parse_program
from meta_eval.sockets import DataError


class _HumanEval(RowJoin):
    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        need_texts(original, ("task_id", "prompt", "canonical_solution", "test", "entry_point"))
        name = original["entry_point"]
        if not re.search(rf"\bdef\s+{re.escape(name)}\s*\(", original["prompt"]):
            raise DataError(f"entry_point is {quoted(name)}, and prompt begins no such function", hint=COPY)
        nodes = parse_program(original["test"], "test").body
        check = next((node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "check"), None)
        if check is None or not check.args.args:
            raise DataError("test should define check(candidate), which is called with the function", hint=COPY)
        if not any(
            isinstance(node, ast.Name) and node.id in (check.args.args[0].arg, name) for node in ast.walk(check)
        ):
            raise DataError(f"check of test never uses {check.args.args[0].arg}, so it tests nothing", hint=COPY)
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
