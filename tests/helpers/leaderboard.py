"""Records of a run in the layout of the Open LLM Leaderboard 2, written by lm-eval over our own rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakehub import FakeHub
from recorded_runs import BBH, IFEVAL, MMLU_PRO, Shapes, record, task_folder

GPQA = [
    {
        "Question": f"Which pebble is number {n}?",
        "Incorrect Answer 1": "grey",
        "Incorrect Answer 2": "round",
        "Incorrect Answer 3": "wet",
        "Correct Answer": f"pebble {n}",
    }
    for n in range(6)
]
MUSR = [
    {
        "narrative": f"It rained on day {n}.",
        "question": "Who walked home?",
        "choices": str(["Ann", "Ben", "Cleo"]),
        "answer_index": n % 3,
        "answer_choice": ["Ann", "Ben", "Cleo"][n % 3],
    }
    for n in range(5)
]
MATH = [
    {"problem": f"What is {n} + 7?", "level": "Level 5", "type": "Algebra", "solution": f"It is $\\boxed{{{n + 7}}}$."}
    for n in range(4)
]

# All tasks of five of the six numbers. BBH has a single task of twenty-four and therefore no number.
TASKS: Shapes = {
    "leaderboard_bbh_navigate": (BBH, ("test",), 3),
    "leaderboard_gpqa_diamond": (GPQA[:2], ("train",), 0),
    "leaderboard_gpqa_extended": (GPQA, ("train",), 0),
    "leaderboard_gpqa_main": (GPQA[:4], ("train",), 0),
    "leaderboard_ifeval": (IFEVAL, ("train",), 0),
    "leaderboard_math_algebra_hard": (MATH, ("train", "test"), 4),
    "leaderboard_mmlu_pro": (MMLU_PRO, ("validation", "test"), 2),
    "leaderboard_musr_murder_mysteries": (MUSR, ("murder_mysteries",), 0),
    "leaderboard_musr_object_placements": (MUSR, ("object_placements",), 0),
    "leaderboard_musr_team_allocation": (MUSR, ("team_allocation",), 0),
}

DETAILS = "open-llm-leaderboard/org__Model-one-details"


def details(folder: Path) -> Path:
    """Write a folder like a details dataset's snapshot: ``org__Model-one/results_<time>.json`` with its samples."""
    tasks = task_folder(folder / "tasks", list(TASKS), TASKS)
    record(tasks, folder / "details", list(TASKS))
    return folder / "details"


def as_dataset(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name, with the card of a dataset on the hub."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {"README.md": b"---\ngated: auto\n---\n# Details of a run\n", **files}


def samples(folder: Path, task: str) -> list[dict[str, Any]]:
    (path,) = folder.rglob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@contextmanager
def hub_of(files: Mapping[str, Mapping[str, bytes]], cache: Path) -> Iterator[FakeHub]:
    """Serve a hub with these datasets, which is the only hub of this process."""
    from meta_eval.pack import hub

    with FakeHub() as fake, pytest.MonkeyPatch.context() as patch:
        for name, content in files.items():
            fake.add(name, content)
        client = partial(hub.HubClient, endpoint=fake.url, cache_dir=cache, sleep=lambda _: None)
        patch.setattr(hub, "HubClient", client)
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        patch.setattr("time.sleep", lambda seconds: None)  # the library's own waits cannot be set
        yield fake
