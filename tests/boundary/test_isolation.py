"""Code of templates and packs: what it prints, ends or interrupts does not pass for what meta-eval says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command import cli
from forked import forked, started
from marks import thorough
from packs import prepare, reseal
from places import TEMPLATES

from meta_eval.base.isolation import isolate_code
from meta_eval.base.process_guard import interrupt_on_sigterm

ENDS = {
    "exit": "import sys; sys.exit(0)",
    "quit": "raise SystemExit",
    "hard": "import os; os._exit(0)",
    "interrupt": "raise KeyboardInterrupt",
    "own": "class Gone(BaseException): pass\n    raise Gone",
}
# What would end the tests too, were it not contained, is tried in a process of its own.
Run = Callable[..., subprocess.CompletedProcess[str]]
OF_PROCESS: dict[str, Run] = {"hard": forked, "interrupt": forked}
PRINTS = """
import atexit, ctypes, os, subprocess, sys
print("touch /tmp/printed")
sys.__stdout__.write("touch /tmp/kept\\n")
os.write(1, b"touch /tmp/written\\n")
subprocess.run(["echo", "touch /tmp/started"])
ctypes.CDLL(None).puts(b"touch /tmp/c")
"""
# What outlives the call that started it: until the main thread has ended, and then when the interpreter ends.
LATER = """
import atexit, ctypes, os, subprocess, sys, threading
def talk(when):
    print("touch /tmp/printed", when, flush=True)
    sys.__stdout__.write("touch /tmp/kept\\n"); sys.__stdout__.flush()
    os.write(1, b"touch /tmp/written\\n")
    subprocess.run(["echo", "touch /tmp/started"])
    ctypes.CDLL(None).puts(b"touch /tmp/c")
    ctypes.CDLL(None).fflush(None)
def follow():
    main = threading.main_thread()
    while main.is_alive():
        talk("meanwhile")
        main.join(0.05)
    talk("afterwards")
    os._exit(0)
threading.Thread(target=follow).start()
subprocess.Popen(["sh", "-c", "sleep 1; echo touch /tmp/child"])
atexit.register(talk, "at exit")
"""
LATE = ("printed meanwhile", "printed afterwards", "printed at exit", "kept", "written", "started", "c", "child")


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """What meta_gpqa needs: a folder of few tasks is read in no time."""
    folder = tmp_path / "meta_template"
    for name in ("_common", "gpqa"):
        shutil.copytree(TEMPLATES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("once") / "work_dir", "meta_gpqa")


@pytest.fixture
def pack(prepared_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared_once, tmp_path / "work_dir"))


def put_into(folder: Path, function: str, code: str) -> None:
    """Code at the head of a function that templates share; at the top of the file where none is named."""
    path = folder / "_common" / "rows.py"
    text = path.read_text()
    if not function:
        path.write_text(text + "\n" + code + "\n")
        return
    head, definition, tail = text.partition(f"def {function}(")
    assert definition, function
    signature, _, body = tail.partition(":\n")
    path.write_text(f"{head}{definition}{signature}:\n    {code}\n{body}")


def prepared(templates: Path, *options: str, run: Run = forked, **keys: Any) -> subprocess.CompletedProcess[str]:
    return run(*preparing(templates, *options), cwd=templates.parent, **keys)


def preparing(templates: Path, *options: str) -> list[str | Path]:
    return [
        "prepare", "--set", "model_name=my/model", "--set", "evals_dataset=sample", "--set", "tasks=meta_gpqa",
        "--set", f"template_dir={templates}", "--config", templates.parent / "c.yaml", *options,
    ]  # fmt: skip


@pytest.mark.plugin("meta")
@pytest.mark.parametrize(
    "end", [*(end for end in ENDS if end not in OF_PROCESS), *(pytest.param(end, marks=thorough) for end in OF_PROCESS)]
)
@pytest.mark.parametrize("function", ["", "make_doc"])
def test_a_template_cannot_end_prepare(templates: Path, end: str, function: str) -> None:
    (templates.parent / "c.yaml").write_text("{}\n")
    put_into(templates, function, ENDS[end] if function else ENDS[end].replace("\n    ", "\n"))
    done = prepared(templates, run=OF_PROCESS.get(end, cli))
    assert (done.returncode, done.stdout) == (2, "")
    assert "_common/rows.py, line " in done.stderr
    assert f"in {function or '<module>'}: " in done.stderr
    assert "the program (" in done.stderr
    assert not (templates.parent / "work_dir").exists()


@pytest.mark.plugin("meta")
def test_nothing_that_a_template_prints_reaches_stdout(templates: Path) -> None:
    (templates.parent / "c.yaml").write_text("{}\n")
    put_into(templates, "", PRINTS)
    done = prepared(templates)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("lm_eval --model vllm ")
    assert done.stdout.count("\n") == 1
    for word in ("printed", "kept", "written", "started", "/c"):
        assert f"touch /tmp/{word.strip('/')}" in done.stderr


@thorough
def test_nothing_that_a_template_leaves_behind_prints_reaches_stdout(templates: Path) -> None:
    (templates.parent / "c.yaml").write_text("{}\n")
    put_into(templates, "", LATER)
    begins = {(): "lm_eval --model vllm ", ("--json",): '{"command": "lm_eval '}
    running = {
        options: started(*preparing(templates, "--set", f"work_dir=w{number}", *options), cwd=templates.parent)
        for number, options in enumerate(begins)
    }
    for options, process in running.items():
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert out.startswith(begins[options])
        assert out.count("\n") == 1
        assert [word for word in LATE if f"touch /tmp/{word}\n" not in err] == []


def test_nothing_that_a_pack_leaves_behind_prints_reaches_stdout_or_ends_verify(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "work_dir", "meta_gpqa,meta_mmlu_pro_instruct")
    ends = "import os, threading, time\nthreading.Thread(target=lambda: (time.sleep(0.02), os._exit(0))).start()\n"
    put_into(pack, "", LATER.replace("sleep 1", "sleep 0.1") + ends)
    reseal(pack)
    done = forked("verify", pack, "--json", "--min-agreement", "0.999999")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["passed"] is False


@pytest.mark.plugin("meta")
def test_a_full_disk_is_told_after_code_of_a_template_ran(templates: Path) -> None:
    (templates.parent / "c.yaml").write_text("{}\n")
    put_into(templates, "", LATER.replace("sleep 1", "sleep 0.1"))
    with Path("/dev/full").open("w") as full:
        done = prepared(templates, stdout=full)
    assert done.returncode == 2
    assert "error: stdout: cannot be written: No space left on device" in done.stderr


@thorough
def test_a_program_has_its_stdout_and_its_end_again(tmp_path: Path) -> None:
    code = (
        "import os\nfrom meta_eval import Config, prepare\n"
        "prepare(Config(model_name='m', evals_dataset='sample', tasks=('meta_gpqa',)))\n"
        "print('mine', flush=True)\nos.write(1, b'too')\nos._exit(5)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (5, "mine\ntoo"), done.stderr


def test_only_the_thread_that_runs_such_code_has_another_stdout_and_another_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ended: list[int] = []
    monkeypatch.setattr("meta_eval.base.isolation._leave", ended.append)

    def other() -> None:
        sys.stdout.write("mine\n")
        os.write(1, b"too\n")
        with suppress(SystemExit):
            os._exit(5)

    before = (os._exit, sys.stdout, sys.stderr)
    with ThreadPoolExecutor(1) as threads, isolate_code(tmp_path), isolate_code(tmp_path):
        threads.submit(other).result()
        sys.stdout.write("a template's\n")
        with pytest.raises(SystemExit):
            os._exit(6)
    assert (os._exit, sys.stdout, sys.stderr) == before
    assert ended == [5]
    assert capfd.readouterr() == ("mine\ntoo\n", "a template's\n")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("function", ["", "process_results"])
def test_a_scorer_cannot_end_verify_and_is_no_pass(pack: Path, end: str, function: str) -> None:
    put_into(pack, function, ENDS[end] if function else ENDS[end].replace("\n    ", "\n"))
    reseal(pack)
    done = OF_PROCESS.get(end, cli)("verify", pack, "--json", "--min-agreement", "0")
    assert done.returncode == 2
    assert "the program (" in done.stderr
    assert "_common/rows.py, line " in done.stderr


def test_nothing_that_a_scorer_prints_reaches_stdout(pack: Path) -> None:
    put_into(pack, "", PRINTS)
    reseal(pack)
    done = forked("verify", pack, "--min-agreement", "0.5", "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) >= {"tasks"}


@pytest.mark.parametrize("swallow", [False, True])
def test_ctrl_c_is_the_users(pack: Path, tmp_path: Path, swallow: bool) -> None:
    there = str(tmp_path / "there")
    wait = f"import os, time\n    if not os.path.exists({there!r}):\n        open({there!r}, 'w'); time.sleep(60)"
    put_into(pack, "", f"try:\n    {wait}\nexcept BaseException:\n    {'pass' if swallow else 'raise'}")
    reseal(pack)
    running = started("verify", pack)
    for _ in range(3000):
        if (tmp_path / "there").exists():
            break
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130


@pytest.mark.parametrize("swallow", [False, True])
def test_so_is_sigterm_where_it_interrupts(tmp_path: Path, swallow: bool) -> None:
    with interrupt_on_sigterm():
        with (
            pytest.raises(KeyboardInterrupt),
            isolate_code(tmp_path),
            suppress(KeyboardInterrupt if swallow else OSError),
        ):
            os.kill(os.getpid(), signal.SIGTERM)
        with isolate_code(tmp_path):
            """What is done to end in order is no second interruption."""
