"""``vllm serve`` for the time of a run: started on a free port of this machine, and ended with it, whatever happens."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from meta_eval.backends.base import BackendError
from meta_eval.backends.server import ADAPTER, serve_arguments
from meta_eval.backends.settings import RunSettings
from meta_eval.messages.logs import log
from meta_eval.running.engine_faults import diagnose_engine

_WATCHDOG = Path(__file__).with_name("watchdog.py")
_HOST = "127.0.0.1"

# Seconds that a server may take to load its weights, and that its end may take: what the watchdog gives it, and more.
_TO_START = 1800.0
_TO_STOP = 45.0


class Served:
    """A server that is ours.

    Args:
        program: What it is called in messages.
        command: What starts it.
        url: Where it will answer.
        name: What the model is called there.
        log_file: Where its words go.
    """

    def __init__(self, program: str, command: Sequence[str], url: str, name: str, log_file: Path) -> None:
        self.url, self.name, self._program, self._log = url, name, program, log_file
        with log_file.open("wb") as out:
            # In a session of its own, so that Ctrl-C ends first who asks, and then in order who answers.
            self._watchdog = subprocess.Popen(
                [sys.executable, "-I", str(_WATCHDOG), *command], stdin=subprocess.PIPE, stdout=out, stderr=out,
                start_new_session=True, env=_environment(),
            )  # fmt: skip

    def wait(self) -> None:
        """Until it answers.

        Raises:
            BackendError: It ended, or takes too long.
        """
        until = time.monotonic() + _TO_START
        # Not through a proxy of the environment: it is this machine's.
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
        """What it ended with; None while it runs."""
        if self._watchdog.poll() is None:
            return None
        return diagnose_engine(None, self._log, where=f"{self._program}, which ended with {self._watchdog.returncode}")

    def stop(self) -> None:
        """End it and all that it started."""
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        try:
            self._watchdog.wait(_TO_STOP)
        except subprocess.TimeoutExpired:
            log.warning(f"{self._program} does not exit; its watchdog is process {self._watchdog.pid}")


def start_vllm(settings: RunSettings, model: str, logs: Path) -> Served:
    """Start a server and wait until it answers.

    Args:
        settings: Of the pack; model_args are its flags.
        model: What to load.
        logs: Where ``serve.log`` goes; one that is there is put aside.

    Raises:
        BackendError: It cannot be started; with the tail of its log.
    """
    if settings.base_url:
        raise BackendError(
            "`serve: true` starts a server, and base_url names another", where="serve",
            hint="Remove one of the two",
        )  # fmt: skip
    if not settings.serve:
        log.warning(
            f"data_parallel_size: {settings.data_parallel_size} copies of the model run in one `vllm serve`, which "
            "this run starts and asks"
        )

    def command(port: int) -> Sequence[str]:
        try:
            return [*_vllm(), *serve_arguments(settings, model, port, host=_HOST)]
        except ValueError as error:
            raise BackendError(
                "is an lm-eval option, not a flag of `vllm serve`", where=f"model_args.{error}",
                hint="Remove it, or run the command that prepare prints",
            ) from None  # fmt: skip

    return start_server(command, "vllm serve", ADAPTER if "lora_local_path" in settings.model_args else model, logs)


def start_server(command: Callable[[int], Sequence[str]], program: str, name: str, logs: Path) -> Served:
    """Start a server on a free port of this machine, and wait until it answers.

    Args:
        command: What starts it on a port.
        program: What it is called in messages.
        name: What the model is called there.
        logs: Where ``serve.log`` goes; one that is there is put aside.

    Raises:
        BackendError: It cannot be started; with the tail of its log.
    """
    port = _free_port()
    log_file = logs / "serve.log"
    logs.mkdir(parents=True, exist_ok=True)
    if log_file.exists():
        log_file.replace(logs / "serve.before.log")
    served = Served(program, command(port), f"http://{_HOST}:{port}/v1", name, log_file)
    try:
        served.wait()
    except BaseException:
        served.stop()
        raise
    return served


def _vllm() -> list[str]:
    """vLLM of this environment, else the one that a shell would start."""
    if importlib.util.find_spec("vllm") is not None:
        return [sys.executable, "-P", "-m", "vllm.entrypoints.cli.main"]
    program = shutil.which("vllm")
    if program is None:
        raise BackendError("vllm is not installed", where="serve", hint="pip install 'meta-eval[vllm]'")
    return [program]


def _environment() -> dict[str, str]:
    """Ours, without the key of somebody's API, which this server would ask of us."""
    return {name: value for name, value in os.environ.items() if name != "VLLM_API_KEY"}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        port: int = listener.getsockname()[1]
    return port
