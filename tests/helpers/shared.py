"""Folders that several test files read and none changes. The first worker of a test run makes them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from golden import all_tasks, prepare_sample, replay
from packs import Doc, edit_docs, prepare, some_templates
from runs import run_lm_eval


def once(temporary: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the shared folder of a name. ``make`` fills it for all workers."""
    run = temporary.getbasetemp()
    folder = (run.parent if "PYTEST_XDIST_WORKER" in os.environ else run) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            half = folder.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir()
            make(half)
            half.rename(folder)
    return folder


def shared_templates(temporary: pytest.TempPathFactory, *names: str) -> Path:
    """Return a folder of some shipped templates. To read all of them is a fourth of what prepare takes."""
    made = once(temporary, f"templates_{'_'.join(names)}", lambda folder: some_templates(folder, *names))
    return made / "meta_template"


def whole_pack(temporary: pytest.TempPathFactory) -> Path:
    """Return a pack of every task of the sample, moved after prepare. Copy it to change it.

    The endless program of the sample runs several times, so it gets a second of CPU time instead of five.
    """

    def make(folder: Path) -> None:
        edit_docs(prepare(folder / "work_dir", ",".join(all_tasks())), "meta_human_eval", _end_sooner)

    return once(temporary, "whole", make) / "work_dir"


# Tasks that differ in kind: with subtasks, with several metrics, by likelihood, and with letters.
REPLAYED = ("meta_bbh", "meta_gpqa_cot", "meta_ifeval", "meta_mmlu_pretrain", "meta_mmlu_pro_instruct")


def replayed_pack(temporary: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a pack of these tasks, moved after prepare, and what lm-eval itself wrote of a replay of it."""

    def make(folder: Path) -> None:
        prepare_sample(folder / "work_dir", REPLAYED)
        run_lm_eval(folder / "work_dir", REPLAYED, folder / "out")

    folder = once(temporary, "replayed_pack", make)
    return folder / "work_dir", folder / "out"


def _end_sooner(docs: list[Doc]) -> None:
    (endless,) = (doc for doc in docs if doc["entry_point"] == "halvings")
    endless["cpu_s"] = 1


def whole_replay(temporary: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the results of stock lm-eval's evaluator on it, run in another folder, as in its files."""
    pack = whole_pack(temporary)

    def make(folder: Path) -> None:
        with chdir(folder):
            samples = replay(pack, all_tasks())
        (folder / "results.json").write_text(json.dumps(samples, default=str), encoding="utf-8")

    result: dict[str, Any] = json.loads(
        (once(temporary, "replayed", make) / "results.json").read_text(encoding="utf-8")
    )
    return result
