"""Which of the catalog's reasons for another score a task has in its manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from golden import shipped

from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.published_numbers import find_known_gaps

BATCHES = "batches requests"


@pytest.mark.parametrize(
    ("spec", "family", "words"),
    [
        ({"graded_by": "judge"}, None, ["asked sympy and then a model", BATCHES]),
        ({}, None, [BATCHES]),
        ({"subset": "math", "graded_by": "judge"}, "3.2", ["asked sympy", BATCHES, "with no shots"]),
        ({"subset": "gpqa"}, "3.1", [BATCHES, "several published numbers"]),
        ({"subset": "gpqa", "row_format": "assumed"}, "3.2", [BATCHES, "letter at once", "Nobody has compared"]),
    ],
)
def test_a_task_has_the_gaps_that_apply_to_it(spec: dict[str, Any], family: str | None, words: list[str]) -> None:
    task = shipped().tasks["meta_mmlu_pro_instruct"]
    chosen = {"subset": "x", "graded_by": "program", "row_format": "seen", **spec}
    gaps = find_known_gaps(replace(task, spec=task.spec.model_copy(update=chosen)), Identity(None, family, None))
    assert [word in gap.text for word, gap in zip(words, gaps, strict=True)] == [True] * len(words)
    assert [bool(gap.backends) for gap in gaps] == [word == BATCHES for word in words]


def test_what_others_measured_on_these_rows_follows() -> None:
    task = shipped().tasks["meta_math_hard"]
    *_, last = find_known_gaps(task, Identity("Llama-3.1-8B-Instruct", "3.1", "instruct"))
    assert last.text.startswith("Others measured 24.24 on these rows (")
