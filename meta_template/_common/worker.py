"""A separate Python process for work that may hang, exhaust memory or crash.

Its script writes a JSON object per line: the result of its start, then a reply to each request. It starts by exec at
the first request, because a fork would inherit CUDA. After a failure it is killed and starts again at the next request.
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
    """The client of such a process. It sends one request at a time. A fork of the client starts a process of its own.

    Args:
        name: Its name in messages, such as ``the sandbox``.
        script: Its file. The only argument is the settings as JSON.
        options: Python's options, such as ``-I``.
        settings: Makes the settings at each start.
        started: Receives the first reply. A ValueError means that the start failed.
        end_s: Seconds from the end of stdin until the process is killed.
        popen: Further arguments of ``subprocess.Popen``, such as ``env`` and ``cwd``.
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
        """Return the reply of `ask` and None, or an empty dict and the reason why there is no reply."""
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
        """Send a request to the running process and return its reply.

        Raises:
            TimeoutError: No reply within ``limit_s`` seconds.
            OSError, EOFError, ValueError: No reply for another reason.
        """
        process = self._process
        if process is None:
            raise EOFError("it was closed")
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        return _read_reply(process, limit_s)

    def runs(self) -> bool:
        """Whether this client has a process that it started and did not close."""
        return self._process is not None and self._owner == os.getpid()

    def start(self, wrapper: Sequence[str] = ()) -> None:
        """Start the process unless it is running.

        Args:
            wrapper: A command that runs the command in its last arguments.

        Raises:
            OSError, EOFError, ValueError: It does not start. Other errors of `started` pass through.
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
        self._started(_read_reply(self._process, START_LIMIT_S))

    def close(self) -> None:
        """End the process. The next request starts another."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):  # an unsent request
            process.stdin.close()
        try:
            process.wait(self._end_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _read_reply(process: subprocess.Popen[bytes], limit_s: float) -> dict:
    """Read a line of JSON. TimeoutError after ``limit_s`` seconds, EOFError if the process ended."""
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
