"""Runs programs that a model wrote, with their tests, and says which passed: the asking side of `jail`.

What holds while a program runs:

* Everywhere: a process of its own without this one's environment, stdin, output or open files, in an empty folder
  that is its home and is deleted afterwards; limits of CPU time, wall time, address space, file size and open files;
  killed when it is over, and when this process is.
* On Linux on x86_64 and aarch64, by a seccomp filter, for root too and in a container: no socket of any kind, no new
  process, no other program, no signal or look into another process, no change of modes, owners or times; and no
  privilege in any way.
* On Linux with Landlock (5.13 and later, where a container does not forbid it): nothing is written outside its folder,
  and nothing is read but the Python installation and the system's libraries. Without Landlock the filter refuses every
  change of a file, in its own folder too, but what this user can read, a program can read, and that includes the
  environment of this user's processes.
* Elsewhere (macOS): only the first of these, and Python's own ways to sockets and processes are blocked, which stops
  mistakes and nothing else. A warning says so.

This guards against what models write, not against somebody who attacks the kernel or the verdict: a program shares its
process with its tests, and one that looks for them can pass without solving anything.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .._common.worker import Worker

logger = logging.getLogger("meta_eval.code")

GRACE_S = 15.0  # beyond a program's own time: a loaded machine, and the deletion of its folder


class Program(NamedTuple):
    """What is run, in this order, in one name space: the set-up, the code of the answer, each of the tests."""

    setup: str
    code: str
    tests: tuple[str, ...]


class Limits(NamedTuple):
    """For one program. ``wall_s`` is longer than ``cpu_s`` so that a loaded machine does not fail right programs."""

    cpu_s: int
    wall_s: float
    memory_bytes: int = 4 << 30
    file_bytes: int = 16 << 20
    open_files: int = 64


class Verdict(NamedTuple):
    """``passed`` tests, from the first on; ``why`` the next did not pass; ``failure``, when nobody can tell."""

    passed: int
    why: str | None = None
    failure: str | None = None


class SandboxError(RuntimeError):
    """Programs cannot be run here at all."""


class Sandbox:
    """Runs programs, several at a time, and remembers what became of them.

    Args:
        workers: How many at a time; None for one a core.
        without: Means of the kernel to do without (``calls``, ``paths``), to see what holds where there are none.
    """

    def __init__(self, workers: int | None = None, without: Sequence[str] = ()) -> None:
        self._workers = workers or _cores()
        self._without = list(without)
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
            Which of the kernel's means hold: ``calls`` (seccomp) and ``paths`` (Landlock).

        Raises:
            SandboxError: They cannot.
        """
        jail = _Jail(["numpy"] if needs_numpy else [], self._without)
        try:
            jail.start()
            limits = Limits(cpu_s=10, wall_s=60)
            right = jail.run(Program("", "def f(n):\n    return n + 1\n", ("assert f(1) == 2",)), limits)
            wrong = jail.run(Program("", "def f(n):\n    return n\n", ("assert f(1) == 2",)), limits)
        except (OSError, EOFError, ValueError) as error:
            raise SandboxError(f"programs cannot be run here ({type(error).__name__}: {error})") from None
        finally:
            jail.close()
        if right.passed != 1 or wrong.passed or wrong.failure:
            raise SandboxError(f"programs cannot be run here: a right one gives {right}, a wrong one {wrong}")
        if not all(jail.kernel.values()):
            logger.warning(
                "programs that the model wrote run with less isolation than they should: %s; a virtual machine that "
                "holds nothing of value is the place for them",
                "this kernel filters no system calls, so that network and processes are open to a program that insists"
                if not jail.kernel["calls"]
                else "this kernel has no Landlock, so that programs can read what this user can read",
            )
        return jail.kernel

    def _run_all(self, programs: list[Program], limits: Limits) -> list[Verdict]:
        verdicts: dict[int, Verdict] = {}
        waiting = deque(range(len(programs)))
        preload = ["numpy"] if any("numpy" in text for one in programs for text in one.tests) else []
        jails = [_Jail(preload, self._without) for _ in range(min(self._workers, len(programs)))]

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


class _Jail(Worker):
    """One supervisor process, which runs one program at a time; used by one thread."""

    def __init__(self, preload: list[str], without: list[str]) -> None:
        self.kernel: dict[str, bool] = {}
        # The variables are for the supervisor: a program sees none of them. Not -I, which would ignore the first, and
        # then the order of a set of strings, and with it a verdict, could be another on each run.
        environment = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "TZ": "UTC"}
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment |= {"TMPDIR": tempfile.gettempdir()}
        environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        super().__init__(
            "the sandbox",
            Path(__file__).resolve().with_name("jail.py"),
            ["-s", "-P", "-B"],
            lambda: {
                "parent": os.getpid(),
                "preload": preload,
                "without": without,
                # Isolated from the environment, but with the packages that this process sees; no folder of the user's.
                "path": [str(Path(entry).absolute()) for entry in sys.path if Path(entry).name.endswith("-packages")],
                "readable": sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}),
            },
            self._hear,
            end_s=GRACE_S,  # it ends its program first, and deletes what that wrote
            env=environment,
            cwd=tempfile.gettempdir(),
        )

    def _hear(self, hello: dict) -> None:
        if hello["missing"]:
            raise ValueError(f"tests need what cannot be imported: {', '.join(hello['missing'])}")
        self.kernel = hello["kernel"]

    def verdict(self, program: Program, limits: Limits) -> Verdict:
        """`run`, where every failure is a verdict and not an exception."""
        reply, failure = self.answer(*_request(program, limits))
        return Verdict(0, failure=failure) if failure else Verdict(**reply)

    def run(self, program: Program, limits: Limits) -> Verdict:
        """Run one program in the process that `start` started."""
        return Verdict(**self.ask(*_request(program, limits)))


def _request(program: Program, limits: Limits) -> tuple[dict, float]:
    """What the supervisor is asked, and the seconds that its reply may take."""
    asked = {"setup": program.setup, "program": program.code, "tests": program.tests, **limits._asdict()}
    return asked, limits.wall_s + GRACE_S


@functools.cache
def sandbox() -> Sandbox:
    """The one that all tasks share."""
    return Sandbox()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
