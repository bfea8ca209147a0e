"""Compare answers by computer algebra, in processes that can be killed.

sympy and math-verify can run for ever, use all memory or crash on the text of a model. Their own time limits
(signal.alarm) work in the main thread only. So algebra.py runs in separate processes, as many as there are cores.
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

LIMIT_S = 5.0  # for a verdict; the recipe's limit
MEMORY_BYTES = 4 << 30
MOST_PROCESSES = 16  # each needs a second to start, and 0.15 GB
REQUESTS_A_PROCESS = 40  # a process with fewer does not repay its start

INSTALL = 'run: pip install "lm-eval[math]" "antlr4-python3-runtime==4.11.*"'

Request = tuple[str, str, str]
"""``sympy`` and two LaTeX expressions, or ``math_verify``, an expression and a whole output."""


class Grader:
    """Send requests to grading processes. It is thread-safe. Verdicts do not depend on the number of processes.

    Args:
        limit_s: CPU seconds of a process for a verdict, without its start. The limit of wall time is 4 times this plus
            10 s, so a busy machine gives the same verdicts.
        memory_bytes: Address space of a grading process.
        processes: The most processes at a time. None means the number of cores, at most `MOST_PROCESSES`.
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
        """Make workers for this process, again after a fork."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()  # the last used first: it already runs
            self._workers = [self._worker() for _ in range(self._processes)]
            for worker in self._workers:
                self._idle.put(worker)

    def _worker(self) -> Worker:
        return Worker(
            "the grading process",
            Path(__file__).resolve().with_name("algebra.py"),
            ["-I"],
            lambda: {
                # Isolated from the environment, but with the packages of this process.
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
        """Return the verdict on a comparison. Each comparison is computed once and remembered.

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
        """Compute many comparisons on all processes. `grade` then has their verdicts.

        Raises:
            ImportError: sympy's LaTeX parser or math-verify cannot work here.
        """
        new = {key: request for request in requests if (key := _key(request)) not in self._known}
        # Similar requests go to the same process in sequence, because a parser remembers token types. Each process has
        # a stretch. When it is done, it takes requests from the end of the longest remaining stretch.
        alike = sorted(new.items(), key=lambda item: (item[1][0], re.sub(r"\d+", "0", item[1][1]), item[1]))
        count = min(self._processes, -(-len(new) // REQUESTS_A_PROCESS))
        stretches = [deque(alike[len(alike) * n // count : len(alike) * (n + 1) // count]) for n in range(count)]
        errors: list[ImportError] = []

        def work(own: deque[tuple[bytes, Request]]) -> None:
            with self._borrowed() as worker, contextlib.suppress(IndexError):  # another thread took the last request
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
        """End the grading processes. A later call starts new processes."""
        self._own()
        for worker in self._workers:
            worker.close()


def _cores() -> int:
    """Return the number of cores that this process may use, or of all cores if the system does not tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _key(request: Request) -> bytes:
    return hashlib.sha256(json.dumps(request).encode()).digest()


def _refuse_missing(hello: dict) -> None:
    if hello["missing"]:
        raise ImportError(f"MATH cannot be graded here: {hello['missing']}. {INSTALL}")
