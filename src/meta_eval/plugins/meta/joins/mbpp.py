"""MBPP and MBPP+: the code and the tests of each problem, which the evals dataset leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval.base.display import quoted
from meta_eval.plugins.meta.joins.join import COPY, Original, RowJoin, need_texts
from meta_eval.plugins.meta.joins.programs import need_tests, parse_program
from meta_eval.sockets import DataError


class _Mbpp(RowJoin):
    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        """Read any form of MBPP. ``full`` has setup code as text; ``sanitized`` and MBPP+ have a list of imports."""
        need_texts(original, ("code",))
        tests = _texts("test_list", original.get("test_list"))
        imports = _texts("test_imports", original.get("test_imports") or [])
        setup = original.get("test_setup_code")
        if not isinstance(setup, str | None):
            raise DataError(f"test_setup_code is {quoted(setup)} and should be a string or null", hint=COPY)
        need_tests("\n".join(tests), "test_list")
        test_setup = "\n".join([*imports, setup or ""]).strip()
        parse_program(test_setup, "the code of test_imports and test_setup_code")
        return {
            "task_id": str(original.get("task_id")),
            "original_prompt": original.get("text") or original.get("prompt"),
            "code": original["code"],
            "test_list": tests,
            "test_setup": test_setup,
        }

    def evidence(self, original: Mapping[str, Any]) -> tuple[str, ...]:
        """The first test. It distinguishes problems that MBPP words alike."""
        tests = original.get("test_list")
        first = tests[0] if isinstance(tests, list) and tests else ""
        return str(original.get("text") or original.get("prompt")), str(first)


class _MbppPlus(_Mbpp):
    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        need_texts(original, ("test",))
        need_tests(original["test"], "test")
        return {**super().bring(original), "test": original["test"]}


def _texts(column: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DataError(f"{column} is {quoted(value)} and should be a list of strings", hint=COPY)
    return value


MBPP = _Mbpp("mbpp", Original(id="google-research-datasets/mbpp"), split="test", key_columns=("text", "prompt"))
MBPP_PLUS = _MbppPlus("mbpp_plus", Original(id="evalplus/mbppplus"), split="test", key_columns=("prompt", "text"))
