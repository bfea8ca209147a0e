"""Drift within a run: docs that were asked in a random order, of which the late ones lost more than the early ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from command import cli
from runs import read_lines, write_run

DOCS = 200
RIGHT = [float(number % 5 > 0) for number in range(DOCS)]


@pytest.mark.parametrize(
    ("share_early", "share_late", "drifts"), [(0.0, 0.4, True), (0.4, 0.0, True), (0.2, 0.2, False), (0.0, 0.0, False)]
)
@pytest.mark.parametrize("known", [True, False])
def test_late_answers_that_lost_more_than_early_ones_are_drift(
    share_early: float, share_late: float, drifts: bool, known: bool, tmp_path: Path
) -> None:
    rng = random.Random(6)
    places = rng.sample(range(DOCS), DOCS)
    lost = [rng.random() < (share_early if place < DOCS // 2 else share_late) for place in places]
    write_run(tmp_path / "a", RIGHT)
    verdicts = [0.0 if gone else right for right, gone in zip(RIGHT, lost, strict=True)]
    (samples,) = write_run(tmp_path / "b", verdicts).glob("samples_*.jsonl")
    lines = [{**line, **({"random_place": places[line["doc_id"]]} if known else {})} for line in read_lines(samples)]
    samples.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    tree = json.loads(cli("compare", "a", "b", "--json", cwd=tmp_path).stdout)
    notes = [task["note"] for alarm in tree["alarms"] if alarm["kind"] == "drift" for task in alarm["tasks"]]
    assert len(notes) == (drifts and known)
    if notes:
        halves = [
            [100 * RIGHT[doc] * lost[doc] for doc in range(DOCS) if (places[doc] < DOCS // 2) is half]
            for half in (True, False)
        ]
        early, late = (sum(half) / len(half) for half in halves)
        assert f"in a random order, the first half lost {early:.1f} points and the second {late:.1f}" in notes[0]
