"""Runs an engine's server on a free port of this machine for the time of a run, and always stops it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from meta_eval.ask.engine_faults import diagnose_engine
from meta_eval.base.logs import log
from meta_eval.pack.backends.base import BackendError

_WATCHDOG = Path(__file__).with_name("watchdog.py")
# Where it is reached: from this machine alone.
HOST = "127.0.0.1"

# Seconds for loading weights, and for stopping: more than the watchdog's steps.
_TO_START = 1800.0
_TO_STOP = 45.0


class Served:
    """A server that we started.

    Args:
        program: Its name in messages.
        command: The command that starts it.
        url: Its address.
        name: Its name of the model.
        log_file: The file for its output.
        unset: Variables of our environment that it does not get.
    """

    def __init__(
        self, program: str, command: Sequence[str], url: str, name: str, log_file: Path, *, unset: Sequence[str] = ()
    ) -> None:
        self.url, self.name, self._program, self._log = url, name, program, log_file
        with log_file.open("wb") as out:
            # In a new session, so that Ctrl-C stops the client first and then the server.
            self._watchdog = subprocess.Popen(
                [sys.executable, "-I", str(_WATCHDOG), *command], stdin=subprocess.PIPE, stdout=out, stderr=out,
                start_new_session=True, env={name: value for name, value in os.environ.items() if name not in unset},
            )  # fmt: skip

    def wait(self) -> None:
        """Wait until it answers.

        Raises:
            BackendError: It ended, or takes too long.
        """
        until = time.monotonic() + _TO_START
        # No proxy: the server is on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while time.monotonic() < until:
            if (ended := self.ended()) is not None:
                raise ended
            try:
                with opener.open(f"{self.url.removesuffix('/v1')}/health", timeout=5):
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
        raise BackendError(
            f"{self._program} did not answer within {_TO_START / 60:.0f} minutes", where="serve",
            hint=f"Its log: {self._log}",
        )  # fmt: skip

    def ended(self) -> BackendError | None:
        """The error that it ended with; None while it runs."""
        if self._watchdog.poll() is None:
            return None
        status = self._watchdog.returncode
        killed = status < 0 or status > 128
        where = self._program if killed else f"{self._program}, which ended with {status}"
        return diagnose_engine(None, self._log, where=where, status=status)

    def stop(self) -> None:
        """Stop it and all its child processes."""
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        try:
            self._watchdog.wait(_TO_STOP)
        except subprocess.TimeoutExpired:
            log.warning(f"{self._program} does not exit; its watchdog is process {self._watchdog.pid}")


def start_server(
    command: Callable[[int], Sequence[str]], program: str, name: str, logs: Path, *, unset: Sequence[str] = ()
) -> Served:
    """Start a server on a free port of this machine, and wait until it answers.

    Args:
        command: Makes the command for a port.
        program: Its name in messages.
        name: Its name of the model.
        logs: The folder of ``serve.log``; an old log is renamed.
        unset: Variables of our environment that it does not get.

    Raises:
        BackendError: It cannot be started; the message has the tail of its log.
    """
    port = _free_port()
    log_file = logs / "serve.log"
    logs.mkdir(parents=True, exist_ok=True)
    if log_file.exists():
        log_file.replace(logs / "serve.before.log")
    served = Served(program, command(port), f"http://{HOST}:{port}/v1", name, log_file, unset=unset)
    try:
        served.wait()
    except BaseException:
        served.stop()
        raise
    return served


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
    return port
