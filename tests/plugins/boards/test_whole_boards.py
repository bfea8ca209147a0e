"""Boards run whole: every task of them over rows of our own in the shape of its dataset, recorded, prepared, verified."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from leaderboard import TASKS as V2
from marks import thorough
from packs import prepare
from recorded_runs import BBH, Shapes, record, task_folder

from meta_eval import report, verify
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.records.lm_eval_tasks import find_lm_eval_tasks
from meta_eval.pack.records.task_code import find_code
from meta_eval.plugins.boards.boards import find_board

LETTERS = "ABCDE"
QUIZ = [
    {"choices": {"label": list(LETTERS), "text": [f"pebble {n} {k}" for k in range(5)]}, "answerKey": LETTERS[n % 5]}
    for n in range(8)
]
OTHERS: Shapes = {
    "race": (
        [
            {
                "article": f"It rained on day {n}. Ann walked home.",
                "problems": str([
                    {"question": "Who walked home?", "options": ["Ann", "Ben", "Cleo", "Dan"], "answer": "A"},
                    {"question": f"On day {n} it _ .", "options": ["rained", "snowed", "hailed", "burned"], "answer": "A"},
                ]),
            }
            for n in range(4)
        ],
        ("test",), 0,
    ),
    "piqa": ([{"goal": f"Dry cup {n}", "sol1": "use a towel", "sol2": "use rain", "label": n % 2} for n in range(5)], ("train", "validation"), 0),
    "social_iqa": (
        [
            {"context": f"Ann lost {n} keys.", "question": "What does Ann do?", "answerA": "sing", "answerB": "search",
             "answerC": "sleep", "label": str(1 + n % 3)}
            for n in range(6)
        ],
        ("train", "validation"), 0,
    ),
    "openbookqa": ([{**row, "question_stem": f"Number {n} is"} for n, row in enumerate(QUIZ)], ("train", "validation", "test"), 0),
    "commonsense_qa": ([{**row, "question": f"Which is {n}? "} for n, row in enumerate(QUIZ)], ("train", "validation"), 7),
    "gsm_plus": ([{"question": f"What is {n} + 2?", "solution": f"It is {n + 2}.\n#### {n + 2}"} for n in range(12)], ("test",), 8),
}  # fmt: skip


def shapes_of(board: str) -> Shapes:
    """The shapes of every task of a board. BBH asks each of its 24 tasks for one of the task's own choices."""
    tasks, _ = find_lm_eval_tasks([board], Path("nowhere"))
    known: Mapping[str, Any] = {**V2, **OTHERS}
    math = V2["leaderboard_math_algebra_hard"]
    shapes: dict[str, tuple[Any, tuple[str, ...], int]] = {}
    for name, shots in tasks.items():
        if name.startswith("leaderboard_bbh"):
            choices = find_code(name, Path("nowhere")).settings["doc_to_choice"]
            rows = [{"input": row["input"], "target": choices[n % len(choices)]} for n, row in enumerate(BBH)]
            shapes[name] = (rows, ("test",), shots or 0)
        else:
            rows, splits, _ = known.get(name, math if "math" in name else None)
            shapes[name] = (rows, splits, shots or 0)
    return shapes


@thorough
@pytest.mark.parametrize(("board", "parts"), [("llama3_others", 6), ("leaderboard_v2", 6)])
def test_a_board_is_run_prepared_verified_and_reported_whole(board: str, parts: int, tmp_path: Path) -> None:
    shapes = shapes_of(board)
    tasks = task_folder(tmp_path / "tasks", list(shapes), shapes)
    record(tasks, tmp_path / "run", list(shapes))
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(tmp_path / "run"))
    manifest = read_manifest(pack)
    assert set(manifest.tasks) == set(shapes) == set(manifest.groups[board])
    proof = verify(pack)
    assert proof.passed, {name: task.reason for name, task in proof.tasks.items() if task.reason}
    record(pack, tmp_path / "again", list(shapes))
    judged = report([tmp_path / "again"], pack=pack)
    shown = {average.metric: average.value for average in judged.group_averages if average.name == board}
    names = {part.name for part in find_board(board).parts}
    assert len(names) == parts and names <= set(shown)
    assert all(shown[name] == pytest.approx(shown[f"{name}, recorded"]) for name in names)
    assert ("mean" in shown) is find_board(board).mean


@thorough
def test_other_shots_are_not_called_that_board(tmp_path: Path) -> None:
    shapes = {
        name: (rows, splits, 3 if name == "commonsense_qa" else shots) for name, (rows, splits, shots) in OTHERS.items()
    }
    tasks = task_folder(tmp_path / "tasks", list(shapes), shapes)
    record(tasks, tmp_path / "run", list(shapes))
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(tmp_path / "run"))
    assert "commonsense_qa" not in read_manifest(pack).groups.get("llama3_others", ())
