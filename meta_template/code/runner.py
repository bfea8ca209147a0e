"""Runs programs that a model wrote, with their tests, and says which passed: the asking side of `jail`.

What holds while a program runs:

* Everywhere: a process of its own without this one's environment, stdin, output or open files; another for its tests
  (see `apart`); limits of CPU time, wall time, address space and open files, no byte in any file; killed when it is
  over, and when this process is.
* On Linux with libseccomp, for root too and in a container: no system call but those that a small program needs. So no
  socket, no new process, no other program, no signal or look into another process, nothing shared with one, no file
  made or changed, and no privilege in any way. More than a few threads end it.
* On Linux with Landlock (5.13 and later, where a container does not forbid it), or with bubblewrap where users may make
  namespaces: nothing is read but the Python installation and the system's libraries. Without both, what this user can
  read, a program can read, and that includes the environment of this user's processes.
* Elsewhere (macOS): only the first of these, and Python's own ways to sockets and processes are blocked, which stops
  mistakes and nothing else.

Where less than the first three holds, nothing is run unless the user accepts it: see `ACCEPT`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .._common.worker import Worker

logger = logging.getLogger("meta_eval.code")
_JAIL = Path(__file__).resolve().with_name("jail.py")

GRACE_S = 15.0  # beyond a program's own time: a loaded machine
# The variable, and what it must hold, to run programs where less holds them than should.
ACCEPT = ("META_EVAL_CODE_SANDBOX", "weak")
NEWEST_LANDLOCK = 7


class Program(NamedTuple):
    """The set-up, the code of the answer, and each of its tests.

    ``entry_point`` is the function that the tests call; ``helpers`` is what else the problem gives them. Tests that
    need more of the program run in one process with it.
    """

    setup: str
    code: str
    tests: tuple[str, ...]
    entry_point: str = ""
    helpers: str = ""


class Limits(NamedTuple):
    """For one program. ``wall_s`` is longer than ``cpu_s`` so that a loaded machine does not fail right programs."""

    cpu_s: int
    wall_s: float
    memory_bytes: int = 4 << 30
    open_files: int = 64


class Verdict(NamedTuple):
    """``passed`` tests, from the first on; ``why`` the next did not pass; ``failure``, when nobody can tell.

    ``self_judged``: what passed ran in one process with its tests, where a program can make them pass.
    """

    passed: int
    why: str | None = None
    failure: str | None = None
    self_judged: bool = False


class SandboxError(RuntimeError):
    """Programs cannot be run here at all."""


class Sandbox:
    """Runs programs, several at a time, and remembers what became of them.

    Args:
        workers: How many at a time; None for one a core.
        without: Means to do without (``calls``, ``paths``, ``bubblewrap``), to see what holds where there are none.
        landlock: Use no version of Landlock above this one, to see what holds on an older kernel.
    """

    def __init__(
        self, workers: int | None = None, without: Sequence[str] = (), landlock: int = NEWEST_LANDLOCK
    ) -> None:
        self._workers = workers or _cores()
        self._means = _Means(tuple(without), landlock)
        self._known: dict[bytes, Verdict] = {}

    def run(self, programs: Sequence[Program], limits: Limits) -> list[Verdict]:
        """A verdict for each program, in their order; equal ones are run once."""
        keys = [hashlib.sha256(json.dumps([program, limits]).encode()).digest() for program in programs]
        new = {key: program for key, program in zip(keys, programs, strict=True) if key not in self._known}
        fresh = dict(zip(new, self._run_all(list(new.values()), limits), strict=True))
        # What failed through no fault of the program is worth another attempt when it is asked for again.
        self._known |= {key: verdict for key, verdict in fresh.items() if verdict.failure is None}
        return [fresh[key] if key in fresh else self._known[key] for key in keys]

    def check(self, *, needs_numpy: bool) -> dict[str, bool]:
        """Prove that programs can be run, and that a test can fail.

        Returns:
            Which means hold: ``calls`` (seccomp), ``paths`` (Landlock) and ``bubblewrap``.

        Raises:
            SandboxError: They cannot, or less holds them than should and nobody accepted that.
        """
        jail = _Jail(["numpy"] if needs_numpy else [], self._means)
        try:
            jail.start()
            limits = Limits(cpu_s=10, wall_s=60)
            right = jail.run(Program("", "def f(n):\n    return n + 1\n", ("assert f(1) == 2",), "f"), limits)
            wrong = jail.run(Program("", "def f(n):\n    return n\n", ("assert f(1) == 2",), "f"), limits)
        except (OSError, EOFError, ValueError) as error:
            raise SandboxError(f"programs cannot be run here ({type(error).__name__}: {error})") from None
        finally:
            jail.close()
        if right.passed != 1 or wrong.passed or wrong.failure:
            raise SandboxError(f"programs cannot be run here: a right one gives {right}, a wrong one {wrong}")
        kernel = jail.kernel
        lacking = [] if kernel["calls"] else ["no filter of system calls, which takes Linux and libseccomp.so.2"]
        if not kernel["paths"] and not kernel["bubblewrap"]:
            lacking.append("nothing that limits what files they read, which takes Landlock (Linux 5.13) or bubblewrap")
        if lacking:
            what = f"programs that the model wrote are not held here as they should be: {'; '.join(lacking)}"
            if os.environ.get(ACCEPT[0]) != ACCEPT[1]:
                raise SandboxError(
                    f"{what}. docs/method/code_tasks.md says what they could do. Run this elsewhere, best in a virtual "
                    f"machine that holds nothing of value; to run it here all the same, set {ACCEPT[0]}={ACCEPT[1]}"
                )
            logger.warning("%s; accepted by %s=%s", what, *ACCEPT)
        return kernel

    def _run_all(self, programs: list[Program], limits: Limits) -> list[Verdict]:
        verdicts: dict[int, Verdict] = {}
        waiting = deque(range(len(programs)))
        preload = ["numpy"] if any("numpy" in text for program in programs for text in program.tests) else []
        jails = [_Jail(preload, self._means) for _ in range(min(self._workers, len(programs)))]

        def work(jail: _Jail) -> None:
            with contextlib.closing(jail), contextlib.suppress(IndexError):
                while True:
                    number = waiting.popleft()
                    verdicts[number] = jail.verdict(programs[number], limits)

        threads = [threading.Thread(target=work, args=(jail,), daemon=True) for jail in jails]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            waiting.clear()
            for jail in jails:
                jail.close()
        return [verdicts.get(number, Verdict(0, failure="its worker ended")) for number in range(len(programs))]


class _Means(NamedTuple):
    """What to hold programs by, as far as it is there."""

    without: tuple[str, ...]
    landlock: int


class _Jail(Worker):
    """One supervisor process, which runs one program at a time; used by one thread."""

    def __init__(self, preload: list[str], means: _Means) -> None:
        self.kernel: dict[str, bool] = {}
        self._wall: list[str] = []
        self._files = []  # what is run and what tests it, each for the one process that may know
        self._means = means
        self._preload = preload
        # The variables are for the supervisor: a program sees none of them. Not -I, which would ignore the first, and
        # then the order of a set of strings, and with it a verdict, could be another on each run.
        environment = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "TZ": "UTC"}
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        options = ["-s", "-P", "-B"]
        super().__init__(
            "the sandbox", _JAIL, options, self._described, self._hear, end_s=GRACE_S, env=environment, cwd="/"
        )

    def start(self) -> None:
        """Start the supervisor where it does not run yet, in namespaces where there can be any."""
        if self.runs():
            return
        for wall in [[]] if "bubblewrap" in self._means.without else [_wall(), []]:
            self._wall = wall
            self._files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 (as long as the process)
            self._popen["pass_fds"] = [file.fileno() for file in self._files]
            try:
                super().start(wall)
                return
            except (OSError, EOFError):  # users may make no namespaces here, as in many containers
                self.close()
                if not wall:
                    raise

    def _described(self) -> dict:
        """The settings of the supervisor."""
        return {
            "parent": 1 if self._wall else os.getpid(),  # bubblewrap's own first process is the parent there
            "preload": self._preload,
            "without": self._means.without,
            "landlock": self._means.landlock,
            "files": self._popen["pass_fds"],
            "path": _packages(),
            "readable": _installation(),
        }

    def _hear(self, hello: dict) -> None:
        if hello["missing"]:
            raise ValueError(f"tests need what cannot be imported: {', '.join(hello['missing'])}")
        self.kernel = {**hello["kernel"], "bubblewrap": bool(self._wall)}

    def verdict(self, program: Program, limits: Limits) -> Verdict:
        """`run`, where every failure is a verdict and not an exception."""
        reply, failure = self.answer((program, limits), _seconds(limits))
        return Verdict(0, failure=failure) if failure else Verdict(**reply)

    def run(self, program: Program, limits: Limits) -> Verdict:
        """Run one program in the process that `start` started."""
        return Verdict(**self.ask((program, limits), _seconds(limits)))

    def ask(self, request: tuple[Program, Limits], limit_s: float) -> dict:
        """Put the program and its tests where only their processes read them, then ask for the verdict."""
        program, limits = request
        code = {"setup": program.setup, "code": program.code, "entry_point": program.entry_point}
        tests = {"tests": program.tests, "helpers": program.helpers}
        for file, content in zip(self._files, (code, tests), strict=True):
            file.seek(0)
            file.truncate()
            file.write(json.dumps(content).encode())
            file.flush()
        return super().ask({"tests": len(program.tests), **limits._asdict()}, limit_s)

    def close(self) -> None:
        """End the supervisor, which ends its program."""
        super().close()
        for file in self._files:
            file.close()


def _seconds(limits: Limits) -> float:
    """How long a reply may take: a program may run twice, apart from its tests and then with them."""
    return 2 * limits.wall_s + GRACE_S


@functools.cache
def sandbox() -> Sandbox:
    """The one that all tasks share."""
    return Sandbox()


def _packages() -> list[str]:
    """The packages that this process sees; no folder of the user's own."""
    return [str(Path(entry).absolute()) for entry in sys.path if Path(entry).name.endswith("-packages")]


def _installation() -> list[str]:
    return sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix})


def _wall() -> list[str]:
    """The beginning of a command that runs in namespaces of its own, where bubblewrap is installed; else nothing."""
    command = shutil.which("bwrap")
    if command is None:
        return []
    system = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/nix/store"]
    seen = [*system, *_installation(), *_packages(), str(_JAIL.parent), str(Path(sys.executable).parent)]
    seen += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    binds = [word for path in seen if path.startswith("/") for word in ("--ro-bind-try", path, path)]
    own = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    return [command, *own, *binds, "--remount-ro", "/", "--chdir", "/"]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
