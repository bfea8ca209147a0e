"""MATH: adds the worked solution of each problem, which contains the gold answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval.plugins.meta.joins.join import Original, RowJoin
from meta_eval.sockets import DataError


class _Math(RowJoin):
    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(original.get("solution"), str):
            raise DataError("should hold solution (a string)")
        return {"solution": original["solution"], "level": original.get("level"), "type": original.get("type")}


MATH = _Math("math", Original(id="DigitalLearningGmbH/MATH-lighteval"), split="test", key_columns=("problem",))
