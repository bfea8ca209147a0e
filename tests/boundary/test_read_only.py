"""Folders that the user may only read: what needs no write is done, and all else is one message with its place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import cli
from marks import few
from ordinary import ordinary
from places import REPOSITORY
from runs import write_run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="here nothing takes root's rights away")

DENIED, LOCKED = "Permission denied", "is not readable"
PART = "holds x/locked, which cannot be read: Permission denied"
# By command: its exit code, and what the last line says. `w` may be written, `locked` and `part/x/locked` not be read.
COMMANDS = {
    "prepare": (2, "work_dir: cannot be written (Permission denied)"),
    "prepare --set work_dir=new": (2, "new: cannot be written (Permission denied)"),
    "prepare --set work_dir=locked/x": (2, DENIED),
    "prepare --set work_dir=w/pack": (0, ""),
    "prepare --set evals_dataset=locked": (2, DENIED),
    "prepare --set template_dir=locked": (2, DENIED),
    "prepare --config locked/x.yaml": (2, DENIED),
    "verify work_dir": (2, "work_dir.verify: cannot be written (Permission denied)"),
    "verify locked": (2, LOCKED),
    "export work_dir --output new.jsonl": (2, "new.jsonl: cannot be written (Permission denied)"),
    "export work_dir --output requests.jsonl": (2, "requests.jsonl: cannot be written (Permission denied)"),
    "export work_dir --output locked/r.jsonl": (2, DENIED),
    "export work_dir --output w/r.jsonl": (0, ""),
    "grade requests.jsonl --pack work_dir": (2, "holds requests, not answers"),
    "grade locked --pack work_dir": (2, LOCKED),
    "report a": (0, ""),
    "report a --html new.html": (2, "new.html: cannot be written (Permission denied)"),
    "report a --markdown file": (2, "file: cannot be written (Permission denied)"),
    "report a --view json=locked/x.json": (2, DENIED),
    "report a --html w/x.html": (0, ""),
    "report locked": (2, LOCKED),
    "report a --pack locked": (2, LOCKED),
    "report a --gate locked/x.yaml": (2, "cannot be read: Permission denied"),
    "report a --pack work_dir": (0, ""),
    "compare a b": (0, ""),
    "compare a b --html new.html": (2, "new.html: cannot be written (Permission denied)"),
    "compare a b --html w/c.html": (0, ""),
    "compare a locked": (2, LOCKED),
    "compare a part": (2, PART),
    "report part": (2, PART),
    "prepare --set work_dir=w/p --set baseline=part": (2, PART),
    "prepare --set evals_dataset=part": (2, PART),
    "prepare --set template_dir=file": (2, ""),
    "prepare --set template_dir=part": (2, PART),
    "prepare --set evals_dataset=sample --set tasks=own --set template_dir=part": (2, PART),
    "init": (2, ".: cannot be written: Permission denied"),
    "init new": (2, "new: cannot be written: Permission denied"),
    "init file": (2, "is a file, not a folder"),
    "init locked": (2, LOCKED),
    "init w/i": (0, ""),
    "doctor locked": (2, LOCKED),
    "history add b": (2, "history: Permission denied"),
    "history add b --folder past": (2, "cannot be written (Permission denied)"),
    "history add b --folder locked": (2, LOCKED),
    "history add b --folder w/past": (0, ""),
    "history check --folder past": (3, ""),
    "history check --folder shut": (2, f".json: cannot be read: {DENIED}. Allow it (chmod"),
    "history add a --folder shut": (2, f".json: {DENIED}. Allow it (chmod"),
    "history check --folder past --html new.html": (2, "new.html: cannot be written (Permission denied)"),
    "run --set backend=recorded": (2, "cannot be written (Permission denied)"),
    "slurm": (2, "slurm: cannot be written (Permission denied)"),
}
# Of which plug-in a verb, or a value of it, is.
PLUGINS = {"history": "nightly", "slurm": "engines", "backend=recorded": "stand_in"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("read-only")
    for name in ("a", "b"):
        write_run(folder / name, [1.0] * 60 + [0.0] * 40)
    keys = {
        "model_name": "m", "evals_dataset": str(REPOSITORY / "tests/data/lm_eval_outputs/0.4.13"), "tasks": "tiny_free",
        "template_dir": str(REPOSITORY / "tools/lm_eval_tasks"), "base_url": "http://127.0.0.1:9/v1", "backend": "server",
    }  # fmt: skip
    (folder / "eval_config.yaml").write_text(json.dumps(keys), encoding="utf-8")
    (folder / "file").touch()
    for words in (
        "prepare",
        "export work_dir --output requests.jsonl",
        "history add a --folder past",
        "history add a --folder shut",
    ):
        cli(*words.split(), cwd=folder)
    for name in ("w", "locked", "part/x/locked"):
        (folder / name).mkdir(parents=True)
    write_run(folder / "part", [1.0] * 60 + [0.0] * 40)
    (folder / "locked" / "x.yaml").touch()
    modes = {path: path.stat().st_mode for path in (*folder.rglob("*"), folder) if path.name != "w"}
    for path, mode in modes.items():
        path.chmod(0 if path.name == "locked" or path.parent.name == "shut" else mode & ~0o222)
    yield folder
    for path, mode in reversed(modes.items()):
        path.chmod(mode)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[pytest.mark.plugin(of) for name, of in PLUGINS.items() if name in words.split()])
        for words in few(COMMANDS, 6)
    ],
)
def test_a_command_in_a_folder_that_may_only_be_read_is_done_or_one_message(words: str, place: Path) -> None:
    code, message = COMMANDS[words]
    before = {path: path.stat().st_mtime_ns for path in place.iterdir()}
    done = ordinary(*words.split(), cwd=place, **os.environ)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("error: ") == (code == 2) and "Traceback" not in done.stderr
    assert message in done.stderr.rpartition("error: ")[2]
    assert {path: path.stat().st_mtime_ns for path in place.iterdir() if path.name != "w"} == {
        path: time for path, time in before.items() if path.name != "w"
    }
