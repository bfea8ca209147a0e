"""Are two answers equal by computer algebra? Asked of a process that may be killed.

sympy and math-verify can run for ever, take all memory or crash on what a model writes, and their own time limits
(signal.alarm) work in the main thread only. So algebra.py does the work, in a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from pathlib import Path

from .._common.worker import Worker
from .equivalence import Verdict

LIMIT_S = 5.0  # for one verdict; the recipe's limit
MEMORY_BYTES = 4 << 30

MEND = 'run: pip install "lm-eval[math]" "antlr4-python3-runtime==4.11.*"'


class Grader:
    """Asks the grading process. Safe in any thread.

    Args:
        limit_s: Seconds for one verdict, start-up not counted.
        memory_bytes: Address space of the grading process.
    """

    def __init__(self, limit_s: float = LIMIT_S, memory_bytes: int = MEMORY_BYTES) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._known: dict[bytes, Verdict] = {}
        self._worker = Worker(
            "the grading process",
            Path(__file__).resolve().with_name("algebra.py"),
            ["-I"],
            lambda: {
                # Isolated from the environment, but with the very packages that this process sees.
                "path": [str(Path(entry).absolute()) for entry in sys.path if entry],
                "memory_bytes": memory_bytes,
                "orphan_s": 2 * limit_s + 10,
            },
            _refuse_missing,
        )

    def grade(self, method: str, gold: str, answer: str) -> Verdict:
        """Compare once, remember for ever.

        Args:
            method: ``sympy`` (two LaTeX expressions) or ``math_verify`` (an expression and a whole output).

        Raises:
            ImportError: sympy's LaTeX parser or math-verify cannot work here.
        """
        request = [method, gold, answer]
        key = hashlib.sha256(json.dumps(request).encode()).digest()
        with self._lock:
            if key not in self._known:
                reply, failure = self._worker.answer(request, self._limit_s)
                self._known[key] = Verdict(False, failure) if failure else Verdict(**reply)
            return self._known[key]

    def check(self) -> None:
        """Start the grading process.

        Raises:
            ImportError: sympy's LaTeX parser or math-verify cannot work here.
        """
        with self._lock:
            self._worker.start()

    def close(self) -> None:
        """End the grading process; a later call starts another."""
        self._worker.close()


def _refuse_missing(hello: dict) -> None:
    if hello["missing"]:
        raise ImportError(f"MATH cannot be graded here: {hello['missing']}. {MEND}")
