"""What a comparison says of twenty drawn pairs is what it said before; CI compares all of them, and more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drawn_runs import SMALL_PAIRS, draw_pair
from outcome_cases import list_cases
from outcomes import OUTCOMES, digest, normalise, say

_CASES = list_cases(SMALL_PAIRS)


@pytest.mark.plugin("nightly")  # a JUnit file is said, too
@pytest.mark.plugin("tokens")
@pytest.mark.parametrize("name", _CASES)
def test_a_drawn_pair_has_the_outcome_that_it_had(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this fails, `python tests/helpers/outcomes.py --few --dump FOLDER` before and after shows what changed."""
    monkeypatch.chdir(tmp_path)
    assert digest(normalise(say(_CASES[name]))) == json.loads(OUTCOMES.read_text(encoding="utf-8"))[name]


def test_the_drawn_pairs_hold_what_a_comparison_reads() -> None:
    pairs = [draw_pair(number) for number in range(200)]
    tasks = [task for pair in pairs for task in pair.tasks]
    assert {task.kind for task in tasks} == {"texts", "choices", "rolling", "scores"}
    assert {len(task.filters) for task in tasks} == {1, 2}
    assert {task.answers for task in tasks} == {1, 4}
    assert {max(pair.runs) for pair in pairs} == {1, 2, 3}
    assert any(pair.group for pair in pairs) and any(pair.gate for pair in pairs)
    assert any(any(sum(side) for side in task.faults) for task in tasks)
