"""Runs an engine's server on a free port of this machine for the time of a run, and explains failures of engines."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from meta_eval.base.inputs import open_regular
from meta_eval.base.logs import log
from meta_eval.base.secrets import redact_secrets
from meta_eval.pack.backends.base import BackendError

# Lines of a log to show, and bytes to search.
_LINES = 8
_BYTES = 1 << 18

# Text in the log of an engine, CUDA or the hub: its meaning, and the hint. The first match counts.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"GatedRepoError|gated repo|access to model .* is restricted",
        "the model is gated, and this machine has not been granted access",
        "Accept its licence on the hub, and log in with `hf auth login` or set HF_TOKEN",
    ),
    (
        r"RepositoryNotFoundError|is not a local folder and is not a valid model identifier|Invalid repository ID",
        "there is no such model, or it is private",
        "Check model_name; if it is private, log in with `hf auth login` or set HF_TOKEN",
    ),
    (
        r"No available memory for the cache blocks|larger than the available KV cache memory|"
        r"KV cache is needed.*larger than|max seq len .* is larger than the maximum number of tokens",
        "the memory that is left for the KV cache does not hold one context",
        "Lower max_model_len, or raise gpu_memory_utilization or tensor_parallel_size",
    ),
    (
        r"CUDA out of memory|OutOfMemoryError|out of memory|Free memory on device .* is less than desired",
        "the GPU has not enough free memory",
        "Lower gpu_memory_utilization where others use the card, or max_model_len; raise tensor_parallel_size; "
        "or pass model_args: {quantization: fp8}",
    ),
    (
        r"CUDA driver version is insufficient|no kernel image is available|forward compatibility was attempted|"
        r"CUDA error: system has unsupported|The NVIDIA driver on your system is too old",
        "this build of the engine and this machine's CUDA driver do not fit each other",
        "Install a build for the driver that `nvidia-smi` shows, or a newer driver",
    ),
    (
        r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver|"
        r"Device string must not be empty",
        "there is no GPU here that the engine can use",
        "Check nvidia-smi and CUDA_VISIBLE_DEVICES, or use another backend",
    ),
    (
        r"Address already in use|address already in use|EADDRINUSE",
        "the port is taken",
        "Stop what listens there, or let `serve: true` choose a free port",
    ),
    (
        r"No space left on device",
        "the disk is full",
        "Make room; what was answered before is kept",
    ),
    (
        r"User-specified max_model_len .* is greater than the derived max_model_len",
        "max_model_len is more than the model's own context",
        "Lower max_model_len",
    ),
)


def diagnose_engine(
    error: BaseException | None, log_file: Path | None, *, where: str, status: int | None = None
) -> BackendError:
    """Explain the death of an engine.

    Args:
        error: The exception; None if a process just ended.
        log_file: The engine's log, if any.
        where: The backend, for the message.
        status: The exit status of a process that ended.
    """
    tail = _tail(log_file)
    message = f"{type(error).__name__}: {error}" if error is not None else ""
    for text in (message, tail):
        for pattern, what, hint in _KNOWN:
            if re.search(pattern, text):
                return _with_log(what, hint, tail, log_file, where)
    if status is not None and (killed := _describe_signal(status)):
        return BackendError(f"ended ({status}: {killed})", where=where, hint=f"Its log: {log_file}")
    last = message or next((line for line in reversed(tail.splitlines()) if line.strip()), "it ended")
    return _with_log(_find_cause(last, tail)[:500], None, tail, log_file, where)


class counting_saved:  # noqa: N801 (it stands in a `with`, as a verb)
    """A block that adds to each `BackendError` raised in it how many answers are on disk, if any.

    Args:
        count: Tells how many, and of how many requests.
    """

    def __init__(self, count: Callable[[], tuple[int, int]]) -> None:
        self._count = count

    def __enter__(self) -> None:
        """Do nothing. Only errors matter."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, BackendError):
            return
        saved, total = self._count()
        if saved:
            rerun = f"{saved:,} of {total:,} answers are saved: rerun the same command"
            error.hint = f"{error.hint}. {rerun}" if error.hint else rerun
            error.args = (str(error),)


# What vLLM's processes say of the death of another one.
_POINTS_UP = "root cause"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# The last line of a traceback, without what a process writes before each line.
_RAISED = re.compile(
    r"^(?:\([^)\n]*\) |\[\w+\]: )?(?:ERROR .*?\] )?((?:\w+\.)*\w*(?:Error|Exception): .*)$", re.MULTILINE
)


def _find_cause(last: str, log_text: str) -> str:
    """What the engine's own process raised, if ``last`` is vLLM's line that points to it."""
    if _POINTS_UP not in last:
        return last
    raised = [text for text in _RAISED.findall(_COLOUR.sub("", log_text)) if _POINTS_UP not in text]
    return raised[-1] if raised else last


def _describe_signal(status: int) -> str | None:
    """What ended a process, by its exit status as a shell has it; None if it exited by itself. Its log then ends
    somewhere, and its last line is no cause."""
    number = -status if status < 0 else status - 128
    if number == signal.SIGKILL:
        return "killed, often for want of memory"
    try:
        return f"killed by {signal.Signals(number).name}" if number > 0 else None
    except ValueError:
        return None


def _with_log(what: str, hint: str | None, tail: str, log_file: Path | None, where: str) -> BackendError:
    lines = [line for line in tail.splitlines() if line.strip()][-_LINES:]
    if lines:
        log.warning(f"the last lines of the engine's log, {log_file}:")
        for line in lines:
            log.warning(line[:300])
    place = f"All of its log: {log_file}" if log_file is not None and log_file.exists() else None
    return BackendError(what, where=where, hint=". ".join(filter(None, (hint, place))) or None)


def _tail(log_file: Path | None) -> str:
    if log_file is None:
        return ""
    try:
        with open_regular(log_file) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _BYTES))
            return redact_secrets(file.read().decode("utf-8", "replace"))  # before a line is cut
    except OSError:
        return ""


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
