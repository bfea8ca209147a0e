"""The sandbox of the code tasks, tried for real: what a program can do to this machine, and to its own verdict."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from places import TEMPLATES
from template_modules import inner_module

FOLDER = TEMPLATES / "code"
FULL: tuple[str, ...] = ()
# What holds without a means of the kernel is tested too: not every kernel and container has both.
each_kernel = pytest.mark.parametrize("without", [FULL, ("paths",)], ids=["full", "no-landlock"])

RIGHT = "def f(n):\n    return n + 1\n"
TEST = "assert f(1) == 2"


RUNNER = inner_module(FOLDER / "runner.py")
# Short for programs that must fail, long for those that must not, however busy this machine is.
SHORT = RUNNER.Limits(cpu_s=1, wall_s=4)
LONG = RUNNER.Limits(cpu_s=20, wall_s=120)


def run(program: str, test: str = TEST, *, without: tuple[str, ...] = FULL, limits: Any = LONG, setup: str = "") -> Any:
    return RUNNER.Sandbox(1, without).run([RUNNER.Program(setup, program, (test,))], limits)[0]


def eventually(condition: Callable[[], Any], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


# Verdicts


def test_programs_get_their_verdicts_in_order() -> None:
    programs = [
        RUNNER.Program("", f"def f(n):\n    return n + {number}\n", (TEST, "assert f(2) == 3", "assert f(0) == 7"))
        for number in (0, 1, 2, 1)
    ]
    passed = [verdict.passed for verdict in RUNNER.Sandbox(3).run(programs, LONG)]
    assert passed == [0, 2, 0, 2]


FAILING = [
    ("def f(n): return n", "AssertionError in the tests, line 1"),
    ("def f(n): return undefined", "NameError in the tests, line 1"),
    ("f = 1 / 0", "ZeroDivisionError in the program"),
    ("def f(n:", "SyntaxError in the program"),
    ("import no_such_module", "ModuleNotFoundError in the program"),
    ("def g(n): return n + 1", "NameError in the tests, line 1"),
    ("n = input()", "EOFError in the program"),
    ("import sys\nsys.exit(0)\n" + RIGHT, "SystemExit in the program"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt in the program"),
    ("import os\nos._exit(0)", "ended before its tests were over"),
    ("import os\nos.closerange(0, 1000)\n" + RIGHT, "ended before its tests were over"),
    ("import os\nos.abort()", "killed by SIGABRT"),
    ("import ctypes\nctypes.string_at(0)", "killed by SIGSEGV"),
    ("class E(Exception):\n    def __str__(self): raise E\nraise E", "E in the program"),
    ("def f(n):\n    import sys\n    sys.exit(0)", "SystemExit in the tests, line 1"),
    ("f = bytearray(10 * 10**9)", "MemoryError in the program"),
    ("def f(n): return f(n)", "RecursionError in the tests, line 1"),
]
ENDLESS = [
    "while True: pass",
    "import time\ntime.sleep(1000)",
    "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "import time\nwhile True:\n    try: time.sleep(1000)\n    except BaseException: pass",
    "import signal\nfor n in (2, 15, 24): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
    "while True: print('x' * 10**6)",
    "import sys\nwhile True: sys.stderr.write('x' * 10**6)",
    "import threading\nthreading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()\nwhile True: pass",
]


@functools.cache
def at_once(programs: tuple[str, ...], limits: Any) -> list[Any]:
    """The verdicts on many programs, which run side by side."""
    return RUNNER.Sandbox(8).run([RUNNER.Program("", program, (TEST,)) for program in programs], limits)


@pytest.mark.parametrize("number", range(len(FAILING)), ids=[why for _, why in FAILING])
def test_a_program_that_fails_says_how(number: int) -> None:
    programs = tuple(program for program, _ in FAILING)
    assert at_once(programs, LONG)[number] == RUNNER.Verdict(0, FAILING[number][1])


@pytest.mark.parametrize(
    "number",
    range(len(ENDLESS)),
    ids=["loop", "sleep", "stubborn", "stubborn-sleep", "deaf", "flood", "flood-stderr", "thread"],
)
def test_a_program_without_end_is_ended(number: int) -> None:
    assert at_once(tuple(RIGHT + program for program in ENDLESS), SHORT)[number] == RUNNER.Verdict(0, "timeout")


@pytest.mark.parametrize(
    "program",
    [
        "import builtins, os, sys, json\n"
        "builtins.exec = builtins.compile = builtins.print = lambda *_, **__: None\n"
        "os._exit = os.write = sys.exit = json.dumps = lambda *_: None\n"
        "builtins.AssertionError = ValueError\n",
        "import os\nfor fd in range(20):\n    try: os.write(fd, b'passed\\n1\\n')\n    except OSError: pass\n",
        "import atexit, os\natexit.register(os._exit, 0)\n",
    ],
    ids=["monkeypatching", "forging", "atexit"],
)
def test_a_program_does_not_talk_itself_right(program: str) -> None:
    assert run(program + "def f(n): return 0") == RUNNER.Verdict(0, "AssertionError in the tests, line 1")


def test_what_floods_the_pipe_of_the_verdict_fails() -> None:
    assert run(RIGHT + "import os\nwhile True: os.write(3, b'x' * 10**4)").passed == 0


@pytest.mark.parametrize(
    ("setup", "test", "words"),
    [
        ("", "assert (", "SyntaxError"),
        ("import no_such_module", TEST, "no_such_module"),
        ("x = (", TEST, "SyntaxError"),
    ],
)
def test_what_is_not_the_programs_fault_is_no_verdict_on_it(setup: str, test: str, words: str) -> None:
    verdict = run(RIGHT, test, setup=setup)
    assert verdict.passed == 0
    assert words in verdict.failure


def test_every_program_is_ungraded_where_the_sandbox_does_not_start(tmp_path: Path) -> None:
    shutil.copytree(FOLDER.parent / "_common", tmp_path / "_common")
    (tmp_path / "code").mkdir()
    runner = inner_module(Path(shutil.copy(FOLDER / "runner.py", tmp_path / "code")))  # without the rest
    programs = [runner.Program("", RIGHT + f"# {number}", (TEST,)) for number in range(5)]
    verdicts = runner.Sandbox(2).run(programs, LONG)
    assert all("does not start" in verdict.failure for verdict in verdicts)
    with pytest.raises(runner.SandboxError, match="cannot be run here"):
        runner.Sandbox().check(needs_numpy=False)


def test_check_tells_what_holds_and_warns_of_what_does_not(caplog: pytest.LogCaptureFixture) -> None:
    assert set(RUNNER.Sandbox().check(needs_numpy=True)) == {"calls", "paths"}
    caplog.clear()
    assert RUNNER.Sandbox(1, ("calls", "paths")).check(needs_numpy=False) == {"calls": False, "paths": False}
    assert "less isolation" in caplog.text


# What a right program may need


@pytest.mark.parametrize(
    "program",
    [
        "import numpy as np\ndef f(n): return int(np.array([n]).sum()) + 1",
        "import asyncio\nasync def g(n): return n + 1\ndef f(n): return asyncio.run(g(n))",
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n    n: 'int'\ndef f(n): return D(n).n + 1",
        "from __future__ import annotations\ndef f(n: no_such_name): return n + 1",
        "import pickle\nclass C: pass\ndef f(n): return n + isinstance(pickle.loads(pickle.dumps(C())), C)",
        "import collections, decimal, fractions, heapq, itertools, json, math, re, sqlite3, statistics, string, typing\n"
        "def f(n): return n + 1",
        "import threading\ndef f(n):\n    r = []\n    t = threading.Thread(target=r.append, args=(n + 1,))\n"
        "    t.start()\n    t.join()\n    return r[0]",
        "def f(n):\n    return n + 1\nif __name__ == '__main__':\n    raise SystemExit",
    ],
    ids=["numpy", "asyncio", "dataclass", "future", "pickle", "stdlib", "thread", "main"],
)
def test_ordinary_python_works(program: str) -> None:
    assert run(program) == RUNNER.Verdict(1)


def test_the_order_of_a_set_is_the_same_in_every_run() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", "print(list({'ab', 'cd', 'ef', 'gh', 'ij'}))"],
        env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert run("def f(): return list({'ab', 'cd', 'ef', 'gh', 'ij'})", f"assert f() == {printed}").passed == 1


def test_one_program_leaves_nothing_for_the_next() -> None:
    first = RUNNER.Program("", "import math\nmath.pi = 3\nleft = 1\n" + RIGHT, (TEST,))
    second = RUNNER.Program("", "import math\ndef f(n): return n + (math.pi > 3)", (TEST, "assert 'left' not in dir()"))
    assert [verdict.passed for verdict in RUNNER.Sandbox(1).run([first, second], LONG)] == [1, 2]


# What a program can reach


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


@each_kernel
def test_no_network(without: tuple[str, ...], server: socket.socket) -> None:
    port = server.getsockname()[1]
    program = f"""
import _socket, asyncio, socket
reached = []
def attempt(connect):
    try:
        connect()
        reached.append(connect)
    except OSError:
        pass
attempt(lambda: socket.create_connection(("127.0.0.1", {port})))
attempt(lambda: _socket.socket(2, 1, 0).connect(("127.0.0.1", {port})))
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {port})))
attempt(lambda: socket.socket(socket.AF_UNIX).connect("/nowhere"))
attempt(lambda: asyncio.run(asyncio.open_connection("127.0.0.1", {port})))
"""
    assert run(program, "assert reached == []", without=without) == RUNNER.Verdict(1)
    with pytest.raises(BlockingIOError):
        server.accept()


@each_kernel
def test_nothing_is_changed_outside_its_folder(without: tuple[str, ...], tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    victim.chmod(0o640)
    os.utime(victim, (1, 1))
    program = f"""
import os, shutil
there = {str(tmp_path)!r}
victim = there + "/victim"
def attempt(act):
    try:
        act()
    except OSError:
        pass
attempt(lambda: open(there + "/new", "w"))
attempt(lambda: open(victim, "a").write("x"))
attempt(lambda: open(victim, "r+").write("x"))
attempt(lambda: os.open(victim, os.O_RDONLY | os.O_TRUNC))
attempt(lambda: os.truncate(victim, 0))
attempt(lambda: os.remove(victim))
attempt(lambda: os.rename(victim, there + "/moved"))
attempt(lambda: os.rename(victim, "here"))
attempt(lambda: os.link(victim, "linked"))
attempt(lambda: os.chmod(victim, 0))
attempt(lambda: os.utime(victim, (9, 9)))
attempt(lambda: os.mkdir(there + "/folder"))
attempt(lambda: os.mkfifo(there + "/pipe"))
attempt(lambda: os.symlink(victim, there + "/link"))
attempt(lambda: os.symlink(victim, "through"))
attempt(lambda: open("through", "w").write("x"))
attempt(lambda: shutil.rmtree(there))
"""
    assert run(program, "", without=without) == RUNNER.Verdict(1)
    assert [path.name for path in tmp_path.iterdir()] == ["victim"]
    assert victim.stat().st_mode & 0o777 == 0o640
    assert victim.stat().st_mtime == 1
    assert victim.read_text() == "untouched"


def test_its_own_folder_is_empty_writable_and_gone_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program = """
import os, tempfile
empty = os.listdir(".") == []
with open("a", "w") as file:
    file.write("text")
os.makedirs("deep/er")
os.mkdir("shut", 0)
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/b", "w").close()
home = os.path.samefile(os.path.expanduser("~"), ".")
"""
    test = "assert empty and home and open('a').read() == 'text'"
    assert run(program, test, without=FULL) == RUNNER.Verdict(1)
    assert list(tmp_path.iterdir()) == []


def test_a_file_cannot_grow_without_end() -> None:
    program = "with open('big', 'wb') as file:\n    for _ in range(10**4):\n        file.write(bytes(10**6))"
    assert run(program, "").why == "OSError in the program"


@each_kernel
def test_no_process_is_made_and_none_is_harmed(without: tuple[str, ...]) -> None:
    victim = subprocess.Popen(["sleep", "1000"])
    program = f"""
import os, signal, subprocess, multiprocessing
done = []
def attempt(act):
    try:
        act()
        done.append(act)
    except OSError:
        pass
attempt(lambda: os.fork() or os._exit(0))
attempt(lambda: subprocess.run(["true"]))
attempt(lambda: os.posix_spawn("/bin/true", ["true"], {{}}))
attempt(lambda: os.execv("/bin/true", ["true"]))
attempt(lambda: multiprocessing.get_context("fork").Process(target=print).start())
attempt(lambda: os.kill({victim.pid}, signal.SIGKILL))
attempt(lambda: os.kill(-1, signal.SIGKILL))
attempt(lambda: os.kill(os.getppid(), signal.SIGKILL))
attempt(lambda: os.killpg(os.getpgid(os.getppid()), signal.SIGKILL))
attempt(lambda: os.setsid())
attempt(lambda: os.setpriority(os.PRIO_PROCESS, {victim.pid}, 19))
attempt(lambda: signal.pidfd_send_signal(os.pidfd_open({victim.pid}), signal.SIGKILL))
"""
    try:
        assert run(program, "assert done == []", without=without) == RUNNER.Verdict(1)
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


@pytest.mark.parametrize("without", [FULL, ("paths",)])
def test_a_fork_bomb_does_not_go_off(without: tuple[str, ...]) -> None:
    assert run("import os\nwhile True: os.fork()", without=without).why == "PermissionError in the program"
    stubborn = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert run(stubborn, without=without, limits=SHORT).why == "timeout"


def test_a_bomb_of_threads_ends_at_the_memory_limit() -> None:
    program = "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
    assert run(program).why == "RuntimeError in the program"


def test_no_environment_and_no_file_of_the_user_can_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "very-secret-token")
    (tmp_path / "token").write_text("very-secret-token")
    program = f"""
import os
seen = [str(dict(os.environ))]
for path in [f"/proc/{{pid}}/environ" for pid in ("self", os.getppid(), {os.getpid()})] + [{str(tmp_path / "token")!r}]:
    try:
        seen.append(open(path, "rb").read().decode("latin-1"))
    except OSError:
        pass
"""
    assert run(program, "assert 'secret' not in str(seen)") == RUNNER.Verdict(1)


@each_kernel
def test_no_privilege_is_left_and_none_can_be_got(without: tuple[str, ...]) -> None:
    program = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
gained = []
if libc.unshare(0x10000000) == 0: gained.append("namespace")
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0: gained.append("mount")
if libc.ptrace(16, os.getppid(), None, None) == 0: gained.append("ptrace")
if libc.prctl(39, 0, 0, 0, 0) != 1: gained.append("new privileges")
try:
    os.chroot(".")
    gained.append("chroot")
except OSError:
    pass
"""
    assert run(program, "assert gained == []", without=without) == RUNNER.Verdict(1)


def test_a_program_ends_when_the_evaluation_is_killed(tmp_path: Path) -> None:
    script = f"""
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location({str(FOLDER / "utils.py")!r}, {str(FOLDER.parent / "_common" / "load.py")!r})
spec.loader.exec_module(load := module_from_spec(spec))
runner = load.module(".runner")
program = runner.Program("", "open('started', 'w').close()\\nwhile True: pass", ("",))
runner.Sandbox(1).run([program], runner.Limits(cpu_s=600, wall_s=600))
"""
    evaluation = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        assert eventually(lambda: list(tmp_path.glob("meta-eval-code-*/*/started")))
        assert len(working_in(tmp_path)) >= 2  # the supervisor and the program
    finally:
        evaluation.send_signal(signal.SIGKILL)
        evaluation.wait()
    assert eventually(lambda: not working_in(tmp_path))
    assert eventually(lambda: not list(tmp_path.iterdir()))


def working_in(folder: Path) -> list[int]:
    """The processes whose working directory lies in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
        except OSError:
            continue
    return found
