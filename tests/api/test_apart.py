"""Calls of the API work in other processes: what code of packs does there changes nothing in the program."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from marks import few, thorough
from packs import prepare, reseal, some_templates

from meta_eval import Config, export, verify
from meta_eval import prepare as prepare_apart
from meta_eval.base import apart
from meta_eval.base.errors import PackError

SCORER = "_common/rows.py"


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("META_EVAL_WORKER")
    yield


@pytest.fixture(scope="module", autouse=True)
def no_worker_is_left() -> Iterator[None]:
    yield
    apart.end_workers()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("made") / "work_dir", "meta_gpqa")


@pytest.fixture
def pack(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "work_dir"))


def wait_for(true: Callable[[], bool]) -> None:
    for _ in range(3000):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it never was")


def add(pack: Path, code: str) -> Path:
    path = pack / SCORER
    path.write_text(path.read_text() + "\n" + code + "\n")
    reseal(pack)
    return pack


def templates_with(place: Path, code: str) -> Config:
    """A configuration whose templates run this code. A worker that prepares imports less than one that verifies."""
    place.mkdir()
    folder = some_templates(place, "gpqa")
    (folder / SCORER).write_text(f"{(folder / SCORER).read_text()}\n{code}\n")
    return Config(
        model_name="m", evals_dataset="sample", tasks=("meta_gpqa",), work_dir=str(place / "work_dir"),
        template_dir=str(folder),
    )  # fmt: skip


@pytest.mark.plugin("meta")
@pytest.mark.parametrize(
    "end", few(["import os; os._exit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"], 2)
)
def test_code_that_ends_its_process_is_an_error_and_the_next_call_works(made: Path, tmp_path: Path, end: str) -> None:
    with pytest.raises(Exception, match=r"ended the program \(exit code 0\)|was ended by SIGKILL"):
        prepare_apart(templates_with(tmp_path / "ends", end))
    assert verify(made, min_agreement=0.5).tasks


def test_a_result_is_that_of_a_call_in_the_program(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int]] = []
    apart_of_it = verify(pack, progress=lambda what, done=0, _total=0: steps.append((what, done)))
    monkeypatch.setenv("META_EVAL_WORKER", "0")
    assert verify(pack).tasks["meta_gpqa"].scores == apart_of_it.tasks["meta_gpqa"].scores
    assert ("meta_gpqa", 1) in steps


def test_a_note_is_a_log_record_of_the_program(pack: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    export(pack, tmp_path / "requests.jsonl")
    notes = [record for record in caplog.records if record.name == "meta_eval"]
    assert [record.levelno for record in notes] == [logging.WARNING]
    assert "the tokenizer of" in notes[0].getMessage()


def test_an_error_is_the_one_that_it_would_be_in_the_program(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="there is no such folder") as caught:
        verify(tmp_path / "nowhere")
    assert caught.value.where == str(tmp_path / "nowhere")


def test_code_that_prints_exits_and_leaves_threads_changes_nothing_here(
    pack: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = (os._exit, sys.stdout, sys.stderr, sys.dont_write_bytecode, threading.active_count())
    proof = verify(add(pack, "import sys, threading, time\nprint('rubbish', flush=True)\n"
                         "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nsys.exit(0)"))  # fmt: skip
    assert "ends the program (SystemExit: 0)" in str(proof.tasks["meta_gpqa"].reason)
    assert (os._exit, sys.stdout, sys.stderr, sys.dont_write_bytecode, threading.active_count()) == before
    assert capfd.readouterr().out == ""


@pytest.mark.plugin("meta")
def test_calls_in_threads_come_to_what_each_comes_to_alone(tmp_path: Path) -> None:
    what_breaks = "import builtins\nbuiltins.sorted = lambda *_, **__: []"  # what it breaks, it breaks for itself
    configs = [templates_with(tmp_path / "sound", ""), templates_with(tmp_path / "other", what_breaks)]
    with ThreadPoolExecutor(2) as threads:
        first, second = (threads.submit(prepare_apart, config) for config in configs)
        assert first.result().manifest.tasks["meta_gpqa"].docs > 0
        second.exception()
    assert sorted([2, 1]) == [1, 2]


PROGRAM = """
import sys
from meta_eval import verify
try:
    verify(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@thorough
def test_ctrl_c_ends_the_call_and_its_process(pack: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    wait = f"import os, time\nopen({str(there)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    environment = {name: value for name, value in os.environ.items() if name != "META_EVAL_WORKER"}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(add(pack, wait))], stdout=subprocess.PIPE, text=True, env=environment
    )
    wait_for(lambda: there.exists() and there.read_text() != "")
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=60)[0] == "interrupted\n"
    worker = int(there.read_text())
    wait_for(lambda: not Path(f"/proc/{worker}").exists())


@thorough
def test_a_program_that_is_killed_takes_its_worker_with_it(pack: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    wait = f"import os, time\nopen({str(there)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    environment = {name: value for name, value in os.environ.items() if name != "META_EVAL_WORKER"}
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(add(pack, wait))], env=environment)
    wait_for(lambda: there.exists() and there.read_text() != "")
    program.kill()
    program.wait()
    worker = int(there.read_text())
    wait_for(lambda: not Path(f"/proc/{worker}").exists())
