"""What code of templates and packs leaves at work keeps no command from ending, and keeps nobody waiting for stdout."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from accelerator import answer
from command import cli
from forked import Forked, started
from marks import few, thorough
from packs import prepare, reseal
from places import TEMPLATES, THOROUGH

THREAD = """
import threading, time
def forever():
    while True:
        time.sleep(1)
threading.Thread(target=forever).start()
"""
HOOK = """
import atexit, time
@atexit.register
def last():
    while True:
        try:
            time.sleep(1e6)
        except BaseException:
            pass
"""
OBJECT = """
import builtins, time
class Last:
    def __del__(self):
        time.sleep(1e6)
builtins.last = Last()
builtins.last.me = builtins.last
"""
POOL = """
import concurrent.futures, time
def work():
    time.sleep(1e6)
concurrent.futures.ThreadPoolExecutor(1).submit(work)
"""
MUCH = f"""
{OBJECT}
{THREAD.replace(").start()", ", daemon=True).start()")}
import multiprocessing, os, subprocess, sys
subprocess.Popen(["sleep", "1000"])
pool = multiprocessing.get_context("fork").Pool(1)
pool.apply_async(time.sleep, (1e6,))
if os.fork() == 0:
    time.sleep(1e6)
if os.fork() == 0:
    sys.exit(0)
os.fork()
"""
ENDED = "note: stopped programs that the code of a template or a pack left running: "
# What it leaves, the exit code, and what is said of it.
LEFT = {
    "a thread in code of its own": (THREAD, 2, "rows.py, line ", ", in forever: code of a template or a pack was still running 5 s"),
    "a thread in code of Python": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1e6,)).start()", 2, "error: work of a template, a pack or an engine was still running 60 s",
    ),
    "a thread of a pool": (POOL, 2, ", in work: code of a template or a pack was still running 5 s"),
    "an exit hook": (HOOK, 2, ", in last: code of a template or a pack was still running 5 s"),
    # All that ends by itself or is ended: an object that goes last, a daemon, programs, forks that go on, exit and stay.
    "much": (MUCH, 0, ENDED, "sleep 1000 (process "),
}  # fmt: skip
TRIED = LEFT if THOROUGH else {"a thread in code of its own": LEFT["a thread in code of its own"], "much": LEFT["much"]}


def templates(here: Path, code: str) -> Path:
    """What meta_gpqa needs, with code that runs when it is loaded."""
    for name in ("_common", "gpqa"):
        shutil.copytree(TEMPLATES / name, here / "meta_template" / name, ignore=shutil.ignore_patterns("__pycache__"))
    add(here / "meta_template", code)
    (here / "c.yaml").write_text("{model_name: m, evals_dataset: sample, tasks: meta_gpqa}\n")
    return here


def add(folder: Path, code: str) -> None:
    path = folder / "_common" / "rows.py"
    path.write_text(path.read_text() + "\n" + code + "\n")


@pytest.mark.plugin("meta")
@pytest.mark.parametrize("error", ["MemoryError", "ImportError('a.so: failed to map segment from shared object')"])
def test_a_template_is_not_blamed_where_memory_runs_out(error: str, tmp_path: Path) -> None:
    done = cli("prepare", "-c", "c.yaml", cwd=templates(tmp_path, f"raise {error}"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        "error: memory ran out. Free some or allow more (ulimit -v), and run the same command again\n"
    )


@dataclass(frozen=True)
class Running:
    """Processes at work, by name: all that wait for their end wait at the same time."""

    place: Path
    preparing: Mapping[str, Forked]
    others: Mapping[str, Forked]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("running")
    preparing = {
        name: started("prepare", "-c", "c.yaml", cwd=templates(place / name, code))
        for name, (code, *_) in TRIED.items()
    }
    pack = prepare(place / "work_dir", "meta_gpqa")
    asked, answers = place / "requests.jsonl", place / "answers.jsonl"
    assert cli("export", pack, "-o", asked).returncode == 0
    answer(pack, asked, answers)
    add(pack, THREAD)
    reseal(pack)
    commands: dict[str, list[str | Path]] = {
        "verify": [pack, "--min-agreement", "0"],
        "doctor": [pack],  # another process loads it, and is ended
        "export": [pack, "-o", asked],
        "grade": [answers, "--pack", pack, "-o", place / "out"],
    }
    others = {name: started(name, *options, cwd=place) for name, options in commands.items()}
    yield Running(place, preparing, others)
    for process in (*preparing.values(), *others.values()):
        process.kill()


@thorough
def test_prepare_ends_whatever_a_template_leaves_at_work(running: Running) -> None:
    for name, (_, code, *words) in TRIED.items():
        process = running.preparing[name]
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (name, err)
        assert [word for word in words if word not in err] == [], f"{name}: {err}"
        assert "Traceback" not in err, name
        assert out.startswith("lm_eval --model vllm "), name
        assert out.count("\n") == 1, name
        assert (running.place / name / "work_dir" / "manifest.json").exists(), name


@thorough
def test_so_does_every_other_command_on_a_pack(running: Running) -> None:
    for name, process in running.others.items():
        _, err = process.communicate(timeout=120)
        assert process.returncode == (0 if name == "doctor" else 2), f"{name}: {err}"
        assert name == "doctor" or ", in forever: code of a template or a pack was still running" in err, (
            f"{name}: {err}"
        )


FORKING = """
import os, signal
from meta_eval.base.sigterm import interrupt_on_sigterm

def handler_of_a_fork():
    if not (child := os.fork()):
        held = signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        os._exit(0 if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL and not held else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

before = signal.getsignal(signal.SIGTERM)
with interrupt_on_sigterm():
    assert handler_of_a_fork() == 0
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        raise SystemExit("it was not interrupted")
    except KeyboardInterrupt:
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # while it ends in order
    assert handler_of_a_fork() == 0
assert signal.getsignal(signal.SIGTERM) == before
"""


def test_a_forked_process_is_ended_by_sigterm_while_its_parent_is_interrupted_by_it() -> None:
    """In a process without threads, unlike this one."""
    subprocess.run([sys.executable, "-c", FORKING], check=True)


@thorough
@pytest.mark.parametrize("left", ["a thread in code of its own", "an exit hook"])
def test_who_waits_for_the_end_can_interrupt_it(tmp_path: Path, left: str) -> None:
    running = started("prepare", "-c", "c.yaml", cwd=templates(tmp_path, LEFT[left][0]))
    assert running.stdout.readline().startswith("lm_eval ")
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted: the command was done" in err
    assert "Traceback" not in err


def test_ctrl_c_twice_says_that_the_command_was_not_done(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "work_dir", "meta_gpqa")
    there = tmp_path / "there"
    add(pack, f"{THREAD}\nopen({str(there)!r}, 'w').write('here')\ntime.sleep(60)")
    reseal(pack)
    running = started("verify", pack)
    wait_for(lambda: there.exists() and there.read_text() != "")
    running.send_signal(signal.SIGINT)
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    *_, first, second = err.splitlines()
    assert first == "interrupted: no file is half-written"
    assert second == "interrupted: the command was at its end; what was still running was stopped"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the worker in /proc")
def test_ctrl_c_in_a_terminal_is_one_interrupt_however_slow_the_program_wakes(tmp_path: Path) -> None:
    """A terminal sends it to both processes. Here the worker has reported its end before the other one sees it."""
    pack = prepare(tmp_path / "work_dir", "meta_gpqa")
    there = tmp_path / "there"
    hook = "import atexit, time\natexit.register(time.sleep, 1.5)  # it still runs when it has reported"
    add(pack, f"{hook}\nopen({str(there)!r}, 'w').write('here')\ntime.sleep(60)")
    reseal(pack)
    running = started("verify", pack)
    wait_for(lambda: there.exists() and there.read_text() != "")
    worker = int(Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0])
    os.kill(running.pid, signal.SIGSTOP)
    for process in (worker, running.pid):
        os.kill(process, signal.SIGINT)
    time.sleep(0.7)
    os.kill(running.pid, signal.SIGCONT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err.splitlines()[-1] == "interrupted: no file is half-written"


SWALLOWED = """
import os, signal, time
from meta_eval.base.interrupts import take_interrupts
from meta_eval.base.sigterm import interrupt_on_sigterm

class Gone:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0.01)

take_interrupts(ctrl_c={ctrl_c})
try:
    with interrupt_on_sigterm():
        Gone()
        print("there", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print("ended in order", flush=True)
"""


@pytest.mark.parametrize(("name", "ctrl_c"), [("SIGTERM", True), ("SIGTERM", False), ("SIGINT", True)])
def test_an_interrupt_that_python_swallows_comes_again(name: str, ctrl_c: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED.format(name=name, ctrl_c=ctrl_c)], capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "there\nended in order\n", "")


WORKER = """
import signal, time
from meta_eval.base import worker
worker.TO_SAY = 0.4
worker.watch()
from meta_eval.base.interrupts import take_interrupts
take_interrupts(ctrl_c=True)
try:
    {code}
    print("there", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.6)
    print("ended in order", flush=True)
    worker.report_end(130)
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])", "interrupted: the command was too busy to end within 0 s, and was stopped"),
        ("pass", "ended in order"),
    ],
)  # fmt: skip
def test_a_worker_that_does_not_say_that_it_is_ending_is_killed(code: str, said: str) -> None:
    running = subprocess.Popen([sys.executable, "-c", WORKER.format(code=code)], stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert running.stderr.readline() == "there\n"
    running.send_signal(signal.SIGINT)
    assert running.stderr.read().splitlines() == [said]
    assert running.wait(10) == 130


@pytest.fixture
def at_work(tmp_path: Path) -> tuple[Forked, int]:
    """`verify` in the middle of a pack's code, and its worker."""
    pack = prepare(tmp_path / "work_dir", "meta_gpqa")
    there = tmp_path / "there"
    add(pack, f"import os, time\nopen({str(there)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    reseal(pack)
    running = started("verify", pack)
    wait_for(lambda: there.exists() and there.read_text() != "")
    return running, int(there.read_text())


def wait_for(true: Callable[[], bool]) -> None:
    for _ in range(3000):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it never was")


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_that_runs_out_of_memory_is_an_error_that_says_so(at_work: tuple[Forked, int]) -> None:
    running, worker = at_work
    os.kill(worker, signal.SIGKILL)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (2, "")
    assert "error: the process was ended by SIGKILL, often because memory ran out; code of " in err
    assert "/work_dir ran in it. The same command goes on from what was saved" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_ends_both(at_work: tuple[Forked, int], number: int, code: int) -> None:
    running, worker = at_work
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == code
    assert "Traceback" not in err and "no file is half-written" in err
    wait_for(lambda: not is_running(worker))


@thorough
def test_a_command_that_is_killed_takes_its_worker_with_it(at_work: tuple[Forked, int]) -> None:
    running, worker = at_work
    running.kill()
    running.communicate(timeout=60)
    wait_for(lambda: not is_running(worker))


@pytest.mark.parametrize("closed", few([">&- 2>&- <&-", ">&-", "2>&-", "<&-"], 4))
def test_closed_streams_are_nobody_elses(tmp_path: Path, closed: str) -> None:
    """What is closed is not the descriptor of a file that a command opens, and its words go nowhere else."""
    command = f'"{sys.executable}" -m meta_eval init project {closed}'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for file in (tmp_path / "project").rglob("*.yaml"):
        assert "wrote" not in file.read_text()


@thorough
def test_ctrl_c_in_a_terminal_reaches_a_command_once(tmp_path: Path) -> None:
    """The terminal interrupts the watching process and the worker; a second interruption would end it without order."""
    pack = prepare(tmp_path / "work_dir", "meta_gpqa")
    there, count = tmp_path / "there", tmp_path / "count"
    code = f"""
import os, signal, time
def press(number, frame):
    with open({str(count)!r}, "a") as file:
        file.write("x")
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, press)
open({str(there)!r}, "w").write("1")
time.sleep(60)
"""
    add(pack, code)
    reseal(pack)
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", _IN_TERMINAL, sys.executable, "-m", "meta_eval", "verify", str(pack)]
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    wait_for(lambda: there.exists() and there.read_text() != "")
    os.write(ours, b"\x03")
    running.wait(60)
    os.close(ours)
    assert count.read_text() == "x"


# It makes the terminal its own, as a shell does.
_IN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
