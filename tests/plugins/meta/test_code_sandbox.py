"""The sandbox of the code tasks, tried for real: what a program can do to this machine, and to its own verdict."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import code_tricks
import pytest
from code_tricks import FAKES, HARMS, HEAD, OUTSIDE, every_harm
from places import TEMPLATES, THOROUGH
from template_modules import inner_module

FOLDER = TEMPLATES / "code"
# What holds on other machines is tried too: means to do without, and the newest version of Landlock to use.
Means = tuple[tuple[str, ...], int]
FULL: Means = ((), 99)
MEANS = {
    "full": FULL,
    **{f"landlock-{abi}": (("bubblewrap",), abi) for abi in ((5, 4, 3, 2, 1) if THOROUGH else (1,))},
    "no-landlock": (("bubblewrap", "paths"), 0),
}


def walls() -> bool:
    """Whether bubblewrap is here and users may make namespaces, as in CI."""
    command = shutil.which("bwrap")
    return command is not None and not subprocess.call([command, "--unshare-all", "--ro-bind", "/", "/", "/bin/true"])


if WALLS := walls():
    MEANS["bubblewrap-alone"] = (("paths",), 0)

ENDLESSLY = "import os, threading, time\nwhile True:\n    try: {}\n    except (OSError, RuntimeError): pass"
RIGHT = "def f(n):\n    return n + 1\n"
TEST = "assert f(1) == 2"


RUNNER = inner_module(FOLDER / "runner.py")
# A Python that is not in somebody's home, for a test that becomes nobody.
ORDINARY = "/usr/bin/python3" if shutil.which("setpriv") and Path("/usr/bin/python3").exists() else ""
# Short for programs that must fail, long for those that must not, however busy this machine is.
SHORT = RUNNER.Limits(cpu_s=1, wall_s=4)
AT_ONCE = RUNNER.Limits(cpu_s=1, wall_s=0.1)  # for what never ends
LONG = RUNNER.Limits(cpu_s=20, wall_s=120)


def run(program: str, *tests: str, means: Means = FULL, limits: Any = LONG, setup: str = "") -> Any:
    return RUNNER.Sandbox(1, *means).run([RUNNER.Program(setup, program, tests or (TEST,), "f")], limits)[0]


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
        RUNNER.Program("", f"def f(n):\n    return n + {number}\n", (TEST, "assert f(2) == 3", "assert f(0) == 7"), "f")
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
    ("class E(Exception):\n    def __str__(self): raise E\nraise E", "Exception in the program"),
    (
        "import os\nclass E(ValueError): pass\nE.__name__ = open(os.__file__).read()[:99]\nraise E",
        "ValueError in the program",
    ),
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
def at_once(programs: tuple[str, ...], limits: Any, means: Means = FULL, tests: tuple[str, ...] = ()) -> list[Any]:
    """The verdicts on many programs, each of which has one test; what only waits runs side by side."""
    tests = tests or (TEST,) * len(programs)
    asked = [RUNNER.Program("", program, (test,), "f") for program, test in zip(programs, tests, strict=True)]
    return list(RUNNER.Sandbox(8 if limits is AT_ONCE else 1, *means).run(asked, limits))


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
    assert at_once(tuple(RIGHT + program for program in ENDLESS), AT_ONCE)[number] == RUNNER.Verdict(0, "timeout")


# One that is deaf to the first signal works for a second more.
@pytest.mark.parametrize("number", [0, 4] if THOROUGH else [0], ids=str)
def test_a_program_is_ended_when_its_seconds_of_work_are_over_however_long_it_may_wait(number: int) -> None:
    assert run(RIGHT + ENDLESS[number], limits=RUNNER.Limits(cpu_s=1, wall_s=120)) == RUNNER.Verdict(0, "timeout")


@functools.cache
def faked(name: str) -> dict[str, Any]:
    """What becomes of every program that fakes, with some means."""
    tests = (TEST, "assert f(5) == 6")
    tricks = FAKES if THOROUGH or name == "full" else OUTSIDE
    programs = [RUNNER.Program("", FAKES[trick], tests, "f") for trick in tricks]
    return dict(zip(tricks, RUNNER.Sandbox(1, *MEANS[name]).run(programs, SHORT), strict=True))


# Each trick with all means there are, and what the means decide of with each of them.
@pytest.mark.parametrize(
    ("trick", "name"),
    [(trick, name) for name in MEANS for trick in (FAKES if THOROUGH or name == "full" else OUTSIDE)],
)
def test_a_pass_cannot_be_faked_without_being_counted(trick: str, name: str) -> None:
    verdict = faked(name)[trick]
    assert verdict.passed == 0 or verdict.self_judged


def test_only_an_object_of_the_programs_own_passes_by_its_own_word() -> None:
    passed = {name for name, verdict in faked("full").items() if verdict.passed}
    assert passed <= {name for name, program in FAKES.items() if "__eq__" in program or "ANY" in program}
    assert "an int with another __eq__" in passed  # what every harness lets pass is named, not hidden


PASSING = [
    (RIGHT, TEST, False),
    ("import math\n" + RIGHT, "assert math.isclose(f(1), 2)", False),
    ("import numpy as np\ndef f(n): return {1: np.int64(2), 2: np.arange(3), 3: np.zeros((3, 0))}[n]",
     "assert f(1) == 2\nassert f(2).tolist() == [0, 1, 2]\nassert f(3).shape == (3, 0)", False),
    ("def f(*values, **named): return {(1, 2): {*values}, **named}", "assert f(1, a=None) == {(1, 2): {1}, 'a': None}",
     False),
    ("import collections\ndef f(n): return collections.Counter('aab')", "assert f(1).most_common(1) == [('a', 2)]",
     False),
    ("from fractions import Fraction as F\ndef f(n): return [F(n, 3), 1j, range(n), b'a']",
     "assert f(1) == [__import__('fractions').Fraction(1, 3), 1j, range(1), b'a']", False),
    ("def f(n): return n / 0", "try: f(1)\nexcept ZeroDivisionError: pass\nelse: assert False", False),
    ("class Pair:\n    def __init__(self, n): self.n = n\ndef f(pair): return pair.n", "assert f(Pair(2)) == 2", True),
    # Copies of a set keep its order, which Python does not promise. What was emptied has an order that no copy has.
    ("def f(values, frozen): return (*values, *frozen)",
     "values, frozen = {12, 13, 14, 15, 16}, frozenset(range(16, 9, -1))\nassert f(values, frozen) == (*values, *frozen)",
     False),
    ("def f(values): return tuple(values)",
     "values = {*range(99)}\nvalues -= {*range(99)} - {1, 8}\nassert f(values) == (1, 8)", True),
    ("def f(n): return (one for one in range(n))", "assert list(f(2)) == [0, 1]", True),
    ("def f(key): return key(1)", "assert f(lambda n: n + 1) == 2", True),
    ("def f(n): return n + 1\nsum = f", "assert sum(1) == 2", True),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PASSING)), ids=[program for program, *_ in PASSING])
def test_what_a_right_program_passes_by(number: int) -> None:
    programs, tests, self_judged = zip(*PASSING, strict=True)
    assert at_once(programs, LONG, tests=tests)[number] == RUNNER.Verdict(1, self_judged=self_judged[number])


def test_what_the_problem_gives_its_tests_is_not_the_programs_to_change() -> None:
    tests = ("assert root(f()) < 1",)
    helper = "def root(x): return x * x"
    cheat = RUNNER.Program("", "def root(x): return 0\ndef f(): return 9", tests, "f", helper)
    honest = RUNNER.Program("", f"{helper}\ndef f(): return 0.5", tests, "f", helper)
    assert RUNNER.Sandbox(1).run([cheat, honest], LONG) == [
        RUNNER.Verdict(0, "AssertionError in the tests, line 1"),
        RUNNER.Verdict(1),
    ]


def test_what_floods_the_pipe_of_its_answers_fails() -> None:
    assert run(RIGHT + "import os\nwhile True: os.write(4, b'x' * 10**4)", limits=SHORT).passed == 0


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
    programs = [runner.Program("", RIGHT + f"# {number}", (TEST,), "f") for number in range(5)]
    verdicts = runner.Sandbox(2).run(programs, LONG)
    assert all("does not start" in verdict.failure for verdict in verdicts)
    with pytest.raises(runner.SandboxError, match="cannot be run here"):
        runner.Sandbox().check(needs_numpy=False)


def test_check_tells_what_holds() -> None:
    holds = RUNNER.Sandbox(1, ("bubblewrap",)).check(needs_numpy=True)
    assert holds == {"calls": True, "paths": True, "bubblewrap": False}


@pytest.mark.skipif(not WALLS, reason="no bubblewrap here, or no namespaces")
@pytest.mark.parametrize("wall", [True, False])
def test_bubblewrap_does_the_holding_where_it_is(tmp_path: Path, wall: bool) -> None:
    """It is taken unasked, and holds what it should with neither seccomp nor Landlock; without it, nothing does."""
    if wall:
        assert RUNNER.Sandbox(1).check(needs_numpy=False) == {"calls": True, "paths": True, "bubblewrap": True}
    (tmp_path / "secret").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = struct.pack("=H", socket.AF_INET) + struct.pack(
            "!H4s8x", server.getsockname()[1], bytes([127, 0, 0, 1])
        )
        program = f"""
import ctypes
libc = ctypes.CDLL(None)
def f(n):
    return [
        libc.open({os.fsencode(tmp_path / "secret")!r}, 0) >= 0, libc.open(b"/proc/{os.getpid()}/stat", 0) >= 0,
        libc.kill({os.getpid()}, 0) == 0, libc.connect(libc.socket(2, 1, 0), {place!r}, 16) == 0,
        libc.open({os.fsencode(tmp_path / "made")!r}, 0o101, 0o600) >= 0,
    ]
"""
        without = ("calls", "paths") if wall else ("calls", "paths", "bubblewrap")
        verdict = run(program, f"assert f(1) == {[not wall] * 5}", means=(without, 0))
    assert verdict.passed == 1, verdict
    assert (tmp_path / "made").exists() is not wall


@pytest.mark.parametrize(("lacking", "words"), [("calls", "libseccomp"), ("paths", "Landlock")])
def test_nothing_runs_where_less_holds_unless_somebody_accepts_it(
    lacking: str, words: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = RUNNER.Sandbox(1, (lacking, "bubblewrap"))
    monkeypatch.setenv("META_EVAL_CODE_SANDBOX", "yes")
    with pytest.raises(RUNNER.SandboxError, match=f"{words}.*META_EVAL_CODE_SANDBOX=weak"):
        sandbox.check(needs_numpy=False)
    monkeypatch.setenv("META_EVAL_CODE_SANDBOX", "weak")
    assert not sandbox.check(needs_numpy=False)[lacking]
    assert words in caplog.text


# What a right program may need


EVERYDAY = [
    "import numpy as np\ndef f(n): return int(np.array([n]).sum()) + 1",
    "import asyncio\nasync def g(n): return n + 1\ndef f(n): return asyncio.run(g(n))",
    "import dataclasses\n@dataclasses.dataclass\nclass D:\n    n: 'int'\ndef f(n): return D(n).n + 1",
    "from __future__ import annotations\ndef f(n: no_such_name): return n + 1",
    "import pickle\nclass C: pass\ndef f(n): return n + isinstance(pickle.loads(pickle.dumps(C())), C)",
    "import collections, decimal, fractions, heapq, itertools, json, math, re, sqlite3, statistics, string, typing\n"
    "def f(n): return n + 1",
    "import threading\ndef f(n):\n    r = []\n    t = threading.Thread(target=r.append, args=(n + 1,))\n"
    "    t.start()\n    t.join()\n    return r[0]",
    "import os, signal, sys, time\nsignal.alarm(9)\nsys.setrecursionlimit(9999)\ntime.sleep(0.001)\n"
    "def f(n): return n + (not os.path.exists('nothing'))",
    "def f(n):\n    return n + 1\nif __name__ == '__main__':\n    raise SystemExit",
]


KINDS = ["numpy", "asyncio", "dataclass", "future", "pickle", "stdlib", "thread", "system", "main"]


def everyday(name: str) -> dict[str, str]:
    """Where no rule limits what may be read, numpy is as readable as the rest: in CI alone it is imported there too."""
    programs = dict(zip(KINDS, EVERYDAY, strict=True))
    return {kind: text for kind, text in programs.items() if THOROUGH or (name, kind) != ("no-landlock", "numpy")}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in MEANS for kind in everyday(name)])
def test_ordinary_python_works(name: str, kind: str) -> None:
    programs = everyday(name)
    verdicts = at_once(tuple(programs.values()), LONG, MEANS[name])
    assert dict(zip(programs, verdicts, strict=True))[kind] == RUNNER.Verdict(1)


def test_the_order_of_a_set_is_the_same_in_every_run() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", "print(list({'ab', 'cd', 'ef', 'gh', 'ij'}))"],
        env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert run("def f(): return list({'ab', 'cd', 'ef', 'gh', 'ij'})", f"assert f() == {printed}").passed == 1


def test_one_program_leaves_nothing_for_the_next() -> None:
    first = RUNNER.Program("", "import math\nmath.pi = 3\nleft = 1\n" + RIGHT, (TEST,), "f")
    other = "import math\nleft = 'left' in dir()\ndef f(n): return n + (math.pi > 3)"
    second = RUNNER.Program("", other, (TEST, "assert not left"), "f")
    assert [verdict.passed for verdict in RUNNER.Sandbox(1).run([first, second], LONG)] == [1, 2]


# What a program can reach


@pytest.fixture
def harmed(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What is there to be harmed, which must stay as it was."""
    path = tmp_path / "file"
    path.write_text("untouched")
    path.chmod(0o640)
    os.utime(path, (1, 1))
    values = {"path": str(path), "folder": str(tmp_path), "socket": str(tmp_path / "socket")}
    values["abstract"] = f"\0meta-eval-{os.getpid()}"
    before = system_v()
    with subprocess.Popen(["sleep", "1000"]) as victim, contextlib.ExitStack() as stack:
        stack.callback(victim.kill)
        sockets = [stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) for _ in range(2)]
        for connection, name in zip(sockets, ("socket", "abstract"), strict=True):
            connection.bind(values[name])
            connection.setblocking(False)
        yield {"pid": victim.pid, **values}
        assert victim.poll() is None
        assert sorted(left.name for left in tmp_path.iterdir()) == ["file", "socket"]
        assert (path.read_text(), path.stat().st_mode & 0o777, path.stat().st_mtime) == ("untouched", 0o640, 1)
        for connection in sockets:
            with pytest.raises(BlockingIOError):
                connection.recv(1)
    assert system_v() == before


def system_v() -> list[int]:
    return [len(Path(f"/proc/sysvipc/{name}").read_text().splitlines()) for name in ("shm", "sem", "msg")]


# In one program, which closes what a trick has opened: few files may be open at once.
@pytest.mark.parametrize("alone", [False, True] if THOROUGH else [False], ids=str)
@pytest.mark.parametrize("name", MEANS)
def test_no_harm_is_done(name: str, alone: bool, harmed: dict[str, Any]) -> None:
    if alone:
        programs = tuple(HEAD + program.format(**harmed) for program in HARMS.values())
        verdicts = at_once(programs, LONG, MEANS[name], ("assert gained == []",) * len(HARMS))
        none = RUNNER.Verdict(1, self_judged=True)
        assert [trick for trick, outcome in zip(HARMS, verdicts, strict=True) if outcome != none] == []
    else:
        program, tests = every_harm(**harmed)
        verdict = run(program, *tests, means=MEANS[name])
        assert verdict == RUNNER.Verdict(len(HARMS), self_judged=True), [*HARMS, ""][verdict.passed]


# What keeps a program from filling the disk is another with other means; processes and threads are the filter's to stop.
@pytest.mark.parametrize(
    ("act", "name"),
    [("write", name) for name in MEANS] + [("fork", name) for name in (MEANS if THOROUGH else ["full"])],
)
def test_bombs_do_not_go_off(act: str, name: str) -> None:
    bomb = {"fork": "os.fork()", "write": "open(str(time.time()), 'wb').write(bytes(10**6))"}[act]
    assert run(ENDLESSLY.format(bomb), means=MEANS[name], limits=SHORT if THOROUGH else AT_ONCE).why == "timeout"


@pytest.mark.parametrize("name", MEANS if THOROUGH else ["full"])
def test_a_bomb_of_threads_is_ended(name: str) -> None:
    bomb = ENDLESSLY.format("threading.Thread(target=time.sleep, args=(99,)).start()")
    assert run(bomb, means=MEANS[name]).why == "too many threads"


def test_a_program_that_is_killed_from_outside_is_not_called_wrong() -> None:
    verdicts: list[Any] = []
    long = "import time\ntime.sleep(60)\n" + RIGHT
    thread = threading.Thread(target=lambda: verdicts.append(run(long, means=(("bubblewrap",), 99))))
    before = set(descendants(os.getpid()))
    thread.start()
    assert eventually(lambda: len(set(descendants(os.getpid())) - before) >= 3)
    time.sleep(0.2)  # the processes of the program have left the supervisor's group by now
    for pid in [
        process
        for process in set(descendants(os.getpid())) - before
        if os.getpgid(process) == process and is_forked(process)
    ]:
        with contextlib.suppress(ProcessLookupError):  # ended with the other
            os.kill(pid, signal.SIGKILL)
    thread.join()
    assert "killed from outside" in verdicts[0].failure


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
    assert run(program, "assert 'secret' not in str(seen)") == RUNNER.Verdict(1, self_judged=True)


def test_a_program_ends_when_the_evaluation_is_killed() -> None:
    script = f"""
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location({str(FOLDER / "utils.py")!r}, {str(FOLDER.parent / "_common" / "load.py")!r})
spec.loader.exec_module(load := module_from_spec(spec))
runner = load.module(".runner")
program = runner.Program("", "while True: pass", ("",))
runner.Sandbox(1).run([program], runner.Limits(cpu_s=600, wall_s=600))
"""
    evaluation = subprocess.Popen([sys.executable, "-c", script])
    try:
        assert eventually(lambda: len(descendants(evaluation.pid)) >= 3)  # the supervisor, the program and its tests
        started = descendants(evaluation.pid)
    finally:
        evaluation.send_signal(signal.SIGKILL)
        evaluation.wait()
    assert eventually(lambda: not any(alive(pid) for pid in started))


@pytest.mark.skipif(os.getuid() != 0 or not ORDINARY, reason="takes root, setpriv and a Python that everybody may run")
def test_an_ordinary_user_is_held_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    for name in ("code", "_common"):
        shutil.copytree(FOLDER.parent / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(code_tricks.__file__, folder)
    script = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
sys.path.insert(0, sys.argv[1])
spec = spec_from_file_location(sys.argv[1] + "/code/utils.py", sys.argv[1] + "/_common/load.py")
spec.loader.exec_module(load := module_from_spec(spec))
runner = load.module(".runner")
from code_tricks import FAKES, HARMS, OUTSIDE, every_harm
sandbox = runner.Sandbox(2)
print(sandbox.check(needs_numpy=False)["calls"])
limits = runner.Limits(20, 120)
values = dict(pid=int(sys.argv[2]), path=sys.argv[3], folder="/tmp", socket="/nowhere", abstract="x")
harms, = sandbox.run([runner.Program("", *every_harm(**values), "f")], limits)
print([*HARMS, "none"][harms.passed])
tricks = FAKES if sys.argv[4] == "all" else OUTSIDE
fakes = [runner.Program("", FAKES[one], ("assert f(1) == 2", "assert f(5) == 6"), "f") for one in tricks]
print([name for name, one in zip(tricks, sandbox.run(fakes, runner.Limits(1, 4))) if one.passed and not one.self_judged])
"""
    (tmp_path / "script.py").write_text(script)
    path = tmp_path / "file"
    path.write_text("untouched")
    for place in (tmp_path, *tmp_path.parents[:3]):
        place.chmod(place.stat().st_mode | 0o755)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    os.chown(path, 65534, 65534)
    victim = subprocess.Popen([*nobody, "sleep", "1000"])
    try:
        command = [*nobody, ORDINARY, str(tmp_path / "script.py"), str(folder), str(victim.pid), str(path)]
        command.append("all" if THOROUGH else "some")
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert ran.stdout == "True\nnone\n[]\n", ran.stdout + ran.stderr
        assert victim.poll() is None
        assert path.read_text() == "untouched"
    finally:
        victim.kill()
        victim.wait()


def descendants(pid: int) -> list[int]:
    """The processes that come of one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    family = [pid]
    for parent_id in family:
        family += [child for child, parent in parents.items() if parent == parent_id]
    return family[1:]


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


def is_forked(pid: int) -> bool:
    """Whether a process is a program's or its tests': it runs what its parent, the supervisor, runs."""
    parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    return "jail.py" in Path(f"/proc/{parent}/cmdline").read_text()
