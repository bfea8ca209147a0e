"""Recorded runs of others are tried as a user would, and each has its outcome."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import recorded_runs
import yaml
from marks import thorough
from places import REPOSITORY

TASKS = ("arc_challenge",)


def write_answers(folder: Path, model: str, texts: list[str]) -> None:
    """Write a file as MMLU-Pro's own script does."""
    rows = [
        {
            "question_id": n, "question": f"What is {n} + 1?", "options": [str(n), str(n + 1)], "answer": "B",
            "category": "math", "pred": {"(B)": "B", "(A)": "A"}.get(text[-4:-1]), "generated_text": text,
        }
        for n, text in enumerate(texts)
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"model_outputs_{model}_5shots.zip", "w") as archive:
        archive.writestr(f"model_outputs_{model}_5shots.json", json.dumps(rows))


@pytest.fixture
def outcomes(tmp_path: Path) -> dict[str, Any]:
    data = tmp_path / "data"
    folder = recorded_runs.task_folder(tmp_path / "tasks", TASKS, recorded_runs.SHAPES)
    for salt in ("one", "two"):
        recorded_runs.record(folder, data / "mine" / salt, TASKS, salt=salt)
    (data / "mine" / "other").mkdir()
    (data / "mine" / "other" / "scores.csv").write_text("a,b\n", encoding="utf-8")
    answers = data / "MMLU-Pro" / "eval_results"
    write_answers(answers, "first", ["The answer is (B).", "The answer is (A).", "It is B", "I do not know."])
    write_answers(answers, "second", ["The answer is (B).", "The answer is (B).", "Two.", "The answer is (A)."])
    runs = [{"id": name, "checkout": "mine", "path": name} for name in ("one", "two", "other")]
    runs[1]["against"] = "one"
    listed = tmp_path / "runs.yaml"
    listed.write_text(
        yaml.safe_dump(
            {
                "repositories": {},
                "runs": [*runs, {"id": "absent", "checkout": "elsewhere", "path": "x"}],
                "answers": [{"model": "first"}, {"model": "second", "against": "first"}],
            }
        ),
        encoding="utf-8",
    )
    command = [sys.executable, "tools/public_runs/try_runs.py", "--data", str(data), "--runs", str(listed), "--write"]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    written = yaml.safe_load(listed.read_text(encoding="utf-8"))
    return {entry.get("id") or entry["model"]: entry.get("outcome") for entry in written["runs"] + written["answers"]}


@thorough
def test_each_run_has_its_outcome(outcomes: dict[str, Any]) -> None:
    assert outcomes["one"]["agreed"] == outcomes["one"]["docs"] == len(recorded_runs.ARC)
    assert outcomes["one"]["ours"] == outcomes["one"]["recorded"]
    assert outcomes["two"]["report"] == outcomes["two"]["compare"]
    assert outcomes["two"]["report"]["decision"] in ("SHIP", "DON'T SHIP", "UNDECIDED")
    message = outcomes["other"]["message"]
    assert message.startswith("error: mine/other: is neither a recorded run nor an evals dataset")
    assert outcomes["absent"] is None
    first = outcomes["first"]
    assert (first["docs"], first["unread"], first["ours"], first["recorded"]) == (4, 2, 25.0, 25.0)
    # A random letter of two is right half of the time; "It is B" names a letter, "I do not know." a wrong one.
    assert (first["with_guesses"], first["any_letter"]) == (50.0, 50.0)
    assert outcomes["second"]["compare"]["drop"] == -25.0
