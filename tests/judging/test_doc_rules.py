"""Alarms of docs with a fault: from which share on, what forbids SHIP, and what the run beside it takes off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import cli
from runs import write_run

NOT_EXTRACTED = {"unextracted": 1.0}
UNGRADED = {"ungraded": 1.0}
SELF_JUDGED = {"self_judged": 1.0}
EMPTY = {"resps": [[""]]}
CUT = {"finish_reason": "length"}
CUT_THINKING = {"finish_reason": None, "resps": [["<think>Let me see"]]}
NO_FAULT = {
    "finish_reason": "stop", "metrics": ["exact_match", "unextracted", "ungraded", "self_judged"], "unextracted": 0.0,
    "ungraded": 0.0, "self_judged": 0.0,
}  # fmt: skip


def write(folder: Path, faulty: range, fault: dict[str, Any]) -> None:
    """Write a run of 100 docs, of which these have a fault."""
    (path,) = write_run(folder, [1.0] * 60 + [0.0] * 40, line=NO_FAULT).glob("samples_*.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [line | fault if line["doc_id"] in faulty else line for line in lines]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "fault", "beside", "faulty", "veto"),
    [
        ("nothing extracted", NOT_EXTRACTED, 0, 5, None),
        ("nothing extracted", NOT_EXTRACTED, 0, 6, False),
        ("nothing extracted", NOT_EXTRACTED, 0, 20, False),
        ("nothing extracted", NOT_EXTRACTED, 0, 21, True),
        ("nothing extracted", NOT_EXTRACTED, 10, 14, None),
        ("nothing extracted", NOT_EXTRACTED, 10, 29, False),
        ("nothing extracted", NOT_EXTRACTED, 10, 31, True),
        ("limit hit", CUT, 4, 9, None),
        ("limit hit", CUT, 4, 10, True),
        ("limit hit", CUT, 30, 30, None),
        ("limit hit", CUT_THINKING, 4, 9, None),
        ("limit hit", CUT_THINKING, 4, 10, True),
        ("not graded", UNGRADED, 0, 1, None),
        ("not graded", UNGRADED, 0, 2, True),
        ("not graded", UNGRADED, 2, 3, None),
        ("not graded", UNGRADED, 2, 4, True),
        ("self-judged passes", SELF_JUDGED, 0, 1, False),
        ("self-judged passes", SELF_JUDGED, 0, 6, True),
        ("self-judged passes", SELF_JUDGED, 5, 5, None),
        ("self-judged passes", SELF_JUDGED, 5, 9, False),
        ("self-judged passes", SELF_JUDGED, 5, 11, True),
        ("empty answers", EMPTY, 0, 1, None),
        ("empty answers", EMPTY, 0, 2, False),  # more than 1 %, and no more than chance brings at 1 %
        ("empty answers", EMPTY, 0, 3, False),
        ("empty answers", EMPTY, 0, 4, True),
        ("empty answers", EMPTY, 50, 50, True),
        ("empty answers", CUT_THINKING, 0, 6, None),
    ],
)
def test_an_alarm_is_raised_from_a_share_of_docs_on(
    kind: str, fault: dict[str, Any], beside: int, faulty: int, veto: bool | None, tmp_path: Path
) -> None:
    write(tmp_path / "a", range(beside), fault)
    write(tmp_path / "b", range(100 - faulty, 100), fault)  # other docs: no model is cut more often beyond chance
    tree = json.loads(cli("compare", "a", "b", "--json", cwd=tmp_path).stdout)
    found = [task for alarm in tree["alarms"] if alarm["kind"] == kind for task in alarm["tasks"] if task["run"] != "A"]
    assert [(task["count"], task["of"], task["veto"]) for task in found] == (
        [] if veto is None else [(faulty, 100, veto)]
    )
