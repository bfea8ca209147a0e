"""Run programs that a model wrote, with their tests, and return verdicts. This is the client of `jail`.

These restrictions apply to a program:

* Everywhere: it has its own process without this process's environment, stdin, output and open files. Its tests have
  another process (see `apart`). CPU time, wall time, address space and open files are limited. It cannot write a byte
  to a file. It is killed at its end, and at the end of this process.
* On Linux with libseccomp, also for root and in a container: only the system calls of small programs are allowed. There
  are no sockets, new processes, other programs or privileges. It cannot signal, inspect or share anything with another
  process, and cannot create or change a file. More than `MOST_THREADS` of `jail` end it.
* On Linux with Landlock (5.13 and later, unless a container forbids it), or with bubblewrap if users may make
  namespaces: only the Python installation and the system's libraries can be read. Without both, a program can read what
  this user can read. That includes the environment of this user's processes.
* Elsewhere (macOS): only the first restriction. Python's own functions for sockets and processes are blocked too, which
  prevents accidents and nothing else.

If the first three restrictions do not all apply, nothing is run unless the user accepts it: see `ACCEPT`.
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

GRACE_S = 15.0  # beyond a program's own time, for a loaded machine
# The environment variable, and its value, that accepts weaker restrictions.
ACCEPT = ("META_EVAL_CODE_SANDBOX", "weak")
NEWEST_LANDLOCK = 7


class Program(NamedTuple):
    """The set-up, the code of the answer, and the tests.

    ``entry_point`` is the function that the tests call. ``helpers`` has the other definitions of the problem. Tests
    that need more of the program run in its process.
    """

    setup: str
    code: str
    tests: tuple[str, ...]
    entry_point: str = ""
    helpers: str = ""


class Limits(NamedTuple):
    """Limits of a program. ``wall_s`` is longer than ``cpu_s``, so a loaded machine does not fail right programs."""

    cpu_s: int
    wall_s: float
    memory_bytes: int = 4 << 30
    open_files: int = 64


class Verdict(NamedTuple):
    """The result of a program.

    - ``passed``: the number of tests that passed, counted from the first.
    - ``why``: why the next test did not pass.
    - ``failure``: why there is no verdict.
    - ``self_judged``: whether tests passed in the process of the program, which could have faked it.
    """

    passed: int
    why: str | None = None
    failure: str | None = None
    self_judged: bool = False


class SandboxError(RuntimeError):
    """Programs cannot be run here, or only with weaker restrictions."""


class Sandbox:
    """Run programs, several at a time, and remember their verdicts.

    Args:
        workers: Programs at a time. None means as many as there are cores.
        without: Restrictions to omit (``calls``, ``paths``, ``bubblewrap``), to test a machine that lacks them.
        landlock: The highest version of Landlock to use, to test an older kernel.
    """

    def __init__(
        self, workers: int | None = None, without: Sequence[str] = (), landlock: int = NEWEST_LANDLOCK
    ) -> None:
        self._workers = workers or _cores()
        self._means = _Means(tuple(without), landlock)
        self._known: dict[bytes, Verdict] = {}

    def run(self, programs: Sequence[Program], limits: Limits) -> list[Verdict]:
        """Return a verdict for each program, in order. Equal programs are run once."""
        keys = [hashlib.sha256(json.dumps([program, limits]).encode()).digest() for program in programs]
        new = {key: program for key, program in zip(keys, programs, strict=True) if key not in self._known}
        fresh = dict(zip(new, self._run_all(list(new.values()), limits), strict=True))
        # A program without a verdict is run again on the next request.
        self._known |= {key: verdict for key, verdict in fresh.items() if verdict.failure is None}
        return [fresh[key] if key in fresh else self._known[key] for key in keys]

    def check(self, *, needs_numpy: bool) -> dict[str, bool]:
        """Check that programs can be run, and that a test can fail.

        Returns:
            Whether each restriction applies: ``calls`` (seccomp), ``paths`` (Landlock) and ``bubblewrap``.

        Raises:
            SandboxError: Programs cannot be run, or the restrictions are too weak and not accepted by `ACCEPT`.
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
                    f"{what}. docs/method/grading.md says what they could do. Run this elsewhere, best in a virtual "
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
    """The restrictions to use if the machine supports them."""

    without: tuple[str, ...]
    landlock: int


class _Jail(Worker):
    """A supervisor process, which runs a program at a time. Only a single thread may use it."""

    def __init__(self, preload: list[str], means: _Means) -> None:
        self.kernel: dict[str, bool] = {}
        self._wall: list[str] = []
        self._files = []  # the program and its tests, each for the process that may read it
        self._means = means
        self._preload = preload
        # These variables are for the supervisor. A program sees only those of threads. The option -I would ignore
        # PYTHONHASHSEED. The order of a set of strings, and so a verdict, could then differ between runs.
        environment = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "TZ": "UTC"}
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        options = ["-s", "-P", "-B"]
        super().__init__(
            "the sandbox", _JAIL, options, self._described, self._hear, end_s=GRACE_S, env=environment, cwd="/"
        )

    def start(self) -> None:
        """Start the supervisor unless it runs, in namespaces if the machine allows them."""
        if self.runs():
            return
        for wall in [[]] if "bubblewrap" in self._means.without else [_wall(), []]:
            self._wall = wall
            self._files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 (as long as the process)
            self._popen["pass_fds"] = [file.fileno() for file in self._files]
            try:
                super().start(wall)
                return
            except (OSError, EOFError):  # users may not make namespaces here, as in many containers
                self.close()
                if not wall:
                    raise

    def _described(self) -> dict:
        """Return the settings of the supervisor."""
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
        """Call `run`, and return failures as verdicts in place of exceptions."""
        reply, failure = self.answer((program, limits), _seconds(limits))
        return Verdict(0, failure=failure) if failure else Verdict(**reply)

    def run(self, program: Program, limits: Limits) -> Verdict:
        """Run a program in the process that `start` started."""
        return Verdict(**self.ask((program, limits), _seconds(limits)))

    def ask(self, request: tuple[Program, Limits], limit_s: float) -> dict:
        """Write the program and its tests to separate files for their processes, then ask for the verdict."""
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
        """End the supervisor and with it its program."""
        super().close()
        for file in self._files:
            file.close()


def _seconds(limits: Limits) -> float:
    """Return the time limit of a reply. A program may run twice: apart from its tests, then with them."""
    return 2 * limits.wall_s + GRACE_S


@functools.cache
def sandbox() -> Sandbox:
    """Return the sandbox that all tasks share."""
    return Sandbox()


def _packages() -> list[str]:
    """Return the package folders of this process, without the user's other folders."""
    return [str(Path(entry).absolute()) for entry in sys.path if Path(entry).name.endswith("-packages")]


def _installation() -> list[str]:
    return sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix})


def _wall() -> list[str]:
    """Return the start of a command that runs in separate namespaces by bubblewrap, or [] if it is not installed."""
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
