"""A Python process that works at what must be able to fail: it may hang, take all memory or crash, and is then killed.

A script answers one JSON object a line, first of all with how its start went. It is started by exec when it is first
needed (a fork would inherit CUDA), and started again after it was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

START_LIMIT_S = 120.0  # importing sympy or numpy from a slow network disk
START_TRIES = 3


class Worker:
    """The asking side. One request at a time; after a fork each process starts one of its own.

    Args:
        name: What messages call it, ``the sandbox``.
        script: Its file, which gets the settings as JSON text in its one argument.
        options: Python's own, ``-I``.
        settings: Makes the settings when it is started.
        started: Called with its first reply; a ValueError says that the start failed.
        end_s: Seconds in which it may end by itself when its stdin closes, before it is killed.
        popen: More arguments of ``subprocess.Popen``: ``env``, ``cwd``.
    """

    def __init__(
        self,
        name: str,
        script: Path,
        options: Sequence[str],
        settings: Callable[[], dict],
        started: Callable[[dict], None],
        end_s: float = 0.0,
        **popen: object,
    ) -> None:
        self._name = name
        self._command = [*options, str(script)]
        self._settings = settings
        self._started = started
        self._end_s = end_s
        self._popen = popen
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._failed_starts = 0
        self.returncode: int | None = None  # of the last process that died by itself

    def answer(self, request: object, limit_s: float) -> tuple[dict, str | None]:
        """What `ask` replies, and None; or nothing, and why there is no reply."""
        if self._failed_starts >= START_TRIES:
            return {}, f"{self._name} does not start"
        try:
            self.start()
        except (OSError, EOFError, ValueError) as error:  # TimeoutError is an OSError
            self._failed_starts += 1
            self.close()
            return {}, f"{self._name} does not start ({type(error).__name__}: {error})"
        self._failed_starts = 0
        try:
            return self.ask(request, limit_s), None
        except TimeoutError:
            self.close()
            return {}, f"no verdict within {limit_s:g} s"
        except (OSError, EOFError, ValueError):
            process = self._process
            self.close()
            self.returncode = process and process.returncode
            return {}, f"{self._name} died (return code {self.returncode})"

    def ask(self, request: object, limit_s: float) -> dict:
        """The reply of the process that `start` started.

        Raises:
            OSError, EOFError, ValueError: There is none; TimeoutError, an OSError, when it does not come in time.
        """
        process = self._process
        if process is None:
            raise EOFError("it was closed")
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        return _reply(process, limit_s)

    def runs(self) -> bool:
        """Whether this process has started it and not ended it."""
        return self._process is not None and self._owner == os.getpid()

    def start(self, wrapper: Sequence[str] = ()) -> None:
        """Start the process where it does not run yet.

        Args:
            wrapper: The beginning of a command that runs the rest of it.

        Raises:
            OSError, EOFError, ValueError: It does not start. What `started` raises besides goes through.
        """
        if self.runs():
            return
        self._process = subprocess.Popen(
            [*wrapper, sys.executable, *self._command, json.dumps(self._settings())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the evaluation, which then ends this process
            **self._popen,
        )
        self._owner = os.getpid()
        self._started(_reply(self._process, START_LIMIT_S))

    def close(self) -> None:
        """End the process; a later request starts another."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):  # a request that never went out
            process.stdin.close()
        try:
            process.wait(self._end_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _reply(process: subprocess.Popen[bytes], limit_s: float) -> dict:
    """One line of the process, as JSON; TimeoutError when it does not come, EOFError when it cannot."""
    deadline = time.monotonic() + limit_s
    line = b""
    ready = select.poll()
    ready.register(process.stdout, select.POLLIN)
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not ready.poll(left * 1000):
            raise TimeoutError(f"silent for {limit_s:g} s")
        piece = os.read(process.stdout.fileno(), 1 << 16)
        if not piece:
            raise EOFError("it ended")
        line += piece
    return json.loads(line)
