"""Joins: add ground truth, or a whole table, from an original dataset to the rows of an evals dataset.

Each benchmark has a file, and a line here. Configuration (``originals``), templates (``join``) and the sample's files
take names and defaults from this registry.
"""

from __future__ import annotations

from collections.abc import Mapping

from meta_eval.plugins.meta.joins import gorilla, humaneval, ifeval, math, mbpp
from meta_eval.plugins.meta.joins.join import Join

JOINS: Mapping[str, Join] = {
    join.name: join
    for join in (
        ifeval.IFEVAL, math.MATH, humaneval.HUMANEVAL, humaneval.HUMANEVAL_PLUS, mbpp.MBPP, mbpp.MBPP_PLUS,
        gorilla.HUGGINGFACE, gorilla.TORCHHUB, gorilla.TENSORFLOWHUB,
    )
}  # fmt: skip
