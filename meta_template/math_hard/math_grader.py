"""Are two answers equal by computer algebra? Asked of processes that may be killed.

sympy and math-verify can run for ever, take all memory or crash on what a model writes, and their own time limits
(signal.alarm) work in the main thread only. So algebra.py does the work, in processes of their own, one for each core.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from .._common.worker import Worker
from .equivalence import Verdict

LIMIT_S = 5.0  # for one verdict; the recipe's limit
MEMORY_BYTES = 4 << 30
MOST_PROCESSES = 16  # each is at work for a second before its first verdict, and has 0.15 GB
REQUESTS_A_PROCESS = 40  # that are worth this second

INSTALL = 'run: pip install "lm-eval[math]" "antlr4-python3-runtime==4.11.*"'

Request = tuple[str, str, str]
"""``sympy`` and two LaTeX expressions, or ``math_verify``, an expression and a whole output."""


class Grader:
    """Asks the grading processes. Safe in any thread; a verdict does not depend on how many processes there are.

    Args:
        limit_s: Seconds that a process may work at one verdict, start-up not counted; of the clock, about four times
            as many, so that a machine with much else to do gives the same verdicts.
        memory_bytes: Address space of a grading process.
        processes: The most at once; None for one a core.
    """

    def __init__(
        self, limit_s: float = LIMIT_S, memory_bytes: int = MEMORY_BYTES, processes: int | None = None
    ) -> None:
        self._limit_s = limit_s
        self._orphan_s = 4 * limit_s + 10
        self._memory_bytes = memory_bytes
        self._processes = processes or min(_cores(), MOST_PROCESSES)
        self._known: dict[bytes, Verdict] = {}
        self._owner = -1
        self._own()

    def _own(self) -> None:
        """After a fork each process has workers of its own."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()  # the last that worked is warm
            self._workers = [self._worker() for _ in range(self._processes)]
            for worker in self._workers:
                self._idle.put(worker)

    def _worker(self) -> Worker:
        return Worker(
            "the grading process",
            Path(__file__).resolve().with_name("algebra.py"),
            ["-I"],
            lambda: {
                # Isolated from the environment, but with the very packages that this process sees.
                "path": [str(Path(entry).absolute()) for entry in sys.path if entry],
                "memory_bytes": self._memory_bytes,
                "limit_s": self._limit_s,
                "orphan_s": self._orphan_s,
            },
            _refuse_missing,
        )

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[Worker]:
        self._own()
        worker = self._idle.get()
        try:
            yield worker
        finally:
            self._idle.put(worker)

    def grade(self, method: str, gold: str, answer: str) -> Verdict:
        """Compare once, remember for ever.

        Args:
            method: ``sympy`` (two LaTeX expressions) or ``math_verify`` (an expression and a whole output).

        Raises:
            ImportError: sympy's LaTeX parser or math-verify cannot work here.
        """
        key = _key((method, gold, answer))
        if key not in self._known:
            with self._borrowed() as worker:
                self._known[key] = self._verdict(worker, (method, gold, answer))
        return self._known[key]

    def grade_all(self, requests: Iterable[Request]) -> None:
        """Have all processes work at many comparisons, each once; `grade` then knows the verdicts.

        Raises:
            ImportError: sympy's LaTeX parser or math-verify cannot work here.
        """
        new = {key: request for request in requests if (key := _key(request)) not in self._known}
        # What looks alike goes to the same process, one after the other, as a parser learns the shapes that it meets:
        # a stretch for each, and who is done takes from the end of the longest that is left.
        alike = sorted(new.items(), key=lambda item: (item[1][0], re.sub(r"\d+", "0", item[1][1]), item[1]))
        count = min(self._processes, -(-len(new) // REQUESTS_A_PROCESS))
        stretches = [deque(alike[len(alike) * n // count : len(alike) * (n + 1) // count]) for n in range(count)]
        errors: list[ImportError] = []

        def work(own: deque[tuple[bytes, Request]]) -> None:
            with self._borrowed() as worker, contextlib.suppress(IndexError):  # another took the last
                while not errors and any(stretches):
                    key, request = own.popleft() if own else max(stretches, key=len).pop()
                    try:
                        self._known[key] = self._verdict(worker, request)
                    except ImportError as error:
                        errors.append(error)

        threads = [threading.Thread(target=work, args=(own,), daemon=True) for own in stretches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _verdict(self, worker: Worker, request: Request) -> Verdict:
        reply, failure = worker.answer(request, self._orphan_s)
        if failure and worker.returncode == -signal.SIGPROF:
            failure, worker.returncode = f"no verdict within {self._limit_s:g} s", None
        return Verdict(False, failure) if failure else Verdict(**reply)

    def check(self) -> None:
        """Start a grading process.

        Raises:
            ImportError: sympy's LaTeX parser or math-verify cannot work here.
        """
        with self._borrowed() as worker:
            worker.start()

    def close(self) -> None:
        """End the grading processes; a later call starts others."""
        self._own()
        for worker in self._workers:
            worker.close()


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _key(request: Request) -> bytes:
    return hashlib.sha256(json.dumps(request).encode()).digest()


def _refuse_missing(hello: dict) -> None:
    if hello["missing"]:
        raise ImportError(f"MATH cannot be graded here: {hello['missing']}. {INSTALL}")
