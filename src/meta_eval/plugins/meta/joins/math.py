"""MATH: adds the worked solution of each problem, which contains the gold answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval.base.display import quoted
from meta_eval.plugins.meta.joins.join import COPY, Original, RowJoin, need_texts
from meta_eval.sockets import DataError


class _Math(RowJoin):
    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        need_texts(original, ("solution",))
        for column in ("level", "type"):
            if not isinstance(original.get(column), str | None):
                raise DataError(f"column {column} is {quoted(original[column])} and should be a string", hint=COPY)
        return {"solution": original["solution"], "level": original.get("level"), "type": original.get("type")}


MATH = _Math("math", Original(id="DigitalLearningGmbH/MATH-lighteval"), split="test", key_columns=("problem",))
