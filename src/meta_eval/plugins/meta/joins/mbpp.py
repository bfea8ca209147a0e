"""MBPP and MBPP+: the code and the tests of each problem, which the evals dataset leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval.plugins.meta.joins.join import Original, RowJoin, need_texts
from meta_eval.sockets import DataError


class _Mbpp(RowJoin):
    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        """Read any form of MBPP. ``full`` has setup code as text; ``sanitized`` and MBPP+ have a list of imports."""
        need_texts(original, ("code",))
        tests, imports = original.get("test_list"), original.get("test_imports") or []
        if not isinstance(tests, list) or not tests or not all(isinstance(test, str) for test in tests):
            raise DataError("should hold test_list (a list of strings, at least one)")
        return {
            "task_id": str(original.get("task_id")),
            "original_prompt": original.get("text") or original.get("prompt"),
            "code": original["code"],
            "test_list": tests,
            "test_setup": "\n".join([*imports, original.get("test_setup_code") or ""]).strip(),
        }

    def evidence(self, original: Mapping[str, Any]) -> tuple[str, ...]:
        """The first test. It distinguishes problems that MBPP words alike."""
        return str(original.get("text") or original.get("prompt")), str((original.get("test_list") or [""])[0])


class _MbppPlus(_Mbpp):
    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        need_texts(original, ("test",))
        return {**super().bring(original), "test": original["test"]}


MBPP = _Mbpp("mbpp", Original(id="google-research-datasets/mbpp"), split="test", key_columns=("text", "prompt"))
MBPP_PLUS = _MbppPlus("mbpp_plus", Original(id="evalplus/mbppplus"), split="test", key_columns=("prompt", "text"))
