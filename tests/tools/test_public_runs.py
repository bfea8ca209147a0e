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


def write_tool_calls(checkout: Path) -> None:
    """Write a checkout of sm120-quant-bench: the careful build calls where it should, the hasty one always."""
    tool = {"type": "function", "function": {"name": "rain", "parameters": {"type": "object", "properties": {}}}}
    questions = [
        {
            "id": f"q{n}",
            "user_message": f"Is it wet {n}?",
            "tools_offered": ["rain"],
            "category": "all",
            "expected": expected,
        }
        for n, expected in enumerate([{"tool": "rain", "args": {}}, {"tool": None, "args": {}}])
    ]
    call = {"id": "c", "type": "function", "function": {"name": "rain", "arguments": "{}"}}
    for folder in ("harness/toolcall", "harness/splits", "results/raw"):
        (checkout / folder).mkdir(parents=True)
    (checkout / "harness" / "toolcall" / "schemas.py").write_text(f"TOOLS = [{tool}]\n", encoding="utf-8")
    for path, lines in {
        "harness/splits/toolcall.jsonl": questions,
        **{
            f"results/raw/toolcall-{build}.jsonl": [
                {
                    "id": question["id"],
                    "response": {
                        "object": "chat.completion",
                        "model": build,
                        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
                        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}],
                    },
                }
                for question, message in zip(questions, messages, strict=True)
            ]
            for build, messages in {
                "careful": [{"content": "", "tool_calls": [call]}, {"content": "No."}],
                "hasty": [{"content": "", "tool_calls": [call]}] * 2,
            }.items()
        },
    }.items():
        (checkout / path).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


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
    write_tool_calls(data / "sm120-quant-bench")
    runs = [{"id": name, "checkout": "mine", "path": name} for name in ("one", "two", "other")]
    runs[1]["against"] = "one"
    listed = tmp_path / "runs.yaml"
    listed.write_text(
        yaml.safe_dump(
            {
                "repositories": {},
                "runs": [*runs, {"id": "absent", "checkout": "elsewhere", "path": "x"}],
                "tool_calls": [
                    {"id": "careful", "checkout": "sm120-quant-bench", "build": "careful"},
                    {"id": "hasty", "checkout": "sm120-quant-bench", "build": "hasty", "against": "careful"},
                ],
                "answers": [{"model": "first"}, {"model": "second", "against": "first"}],
            }
        ),
        encoding="utf-8",
    )
    command = [sys.executable, "tools/public_runs/try_runs.py", "--data", str(data), "--runs", str(listed), "--write"]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    written = yaml.safe_load(listed.read_text(encoding="utf-8"))
    entries = [entry for key in ("runs", "tool_calls", "answers") for entry in written[key]]
    return {entry.get("id") or entry["model"]: entry.get("outcome") for entry in entries}


@thorough
def test_each_run_has_its_outcome(outcomes: dict[str, Any]) -> None:
    assert outcomes["one"]["agreed"] == outcomes["one"]["docs"] == len(recorded_runs.ARC)
    assert outcomes["one"]["ours"] == outcomes["one"]["recorded"]
    assert outcomes["two"]["report"] == outcomes["two"]["compare"]
    assert outcomes["two"]["report"]["decision"] in ("SHIP", "DON'T SHIP", "UNDECIDED")
    message = outcomes["other"]["message"]
    assert message.startswith("error: mine/other: is neither a recorded run nor an evals dataset")
    assert outcomes["absent"] is None
    assert (outcomes["careful"]["ours"], outcomes["hasty"]["ours"]) == (100.0, 50.0)
    assert outcomes["hasty"]["report"]["drop"] == outcomes["hasty"]["compare"]["drop"] == 50.0
    first = outcomes["first"]
    assert (first["docs"], first["unread"], first["ours"], first["recorded"]) == (4, 2, 25.0, 25.0)
    # A random letter of two is right half of the time; "It is B" names a letter, "I do not know." a wrong one.
    assert (first["with_guesses"], first["any_letter"]) == (50.0, 50.0)
    assert outcomes["second"]["compare"]["drop"] == -25.0
