"""``meta-eval`` in a separate process that is forked off a Python with all its imports.

It has the file descriptors, exit status, signals and interpreter exit of any process but saves a second of imports. As
a script this file is the parent Python. It takes requests over a socket and ends with it. It may be the Python of
another environment and run other modules and scripts.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import resource
import runpy
import shlex
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from plugged import is_there

_LIGHT = (
    "pandas",
    "pyarrow.parquet",
    "pyarrow.compute",
    "meta_eval.cli.prepare",
    *(("meta_eval.plugins.meta.record_format",) if is_there("meta") else ()),
)
_IMPORTED = (
    *_LIGHT, "lm_eval.evaluator", "lm_eval.tasks", "meta_eval.harness.evaluator", "meta_eval.ask.grading",
    "meta_eval.ask.pipeline",
)  # fmt: skip
# A test may replace it.
_PYTHON = sys.executable
# More than any started process takes on a busy machine.
_LONGEST_S = 300


class Forked:
    """A forked process with some methods of `subprocess.Popen`. Its output is read after its end."""

    def __init__(
        self,
        words: list[str],
        cwd: Path | str,
        stdout: Any,
        environment: dict[str, str],
        most: int | None = None,
        *,
        parent: socket.socket,
    ):
        self._words = words
        ask = {"words": words, "cwd": str(Path(cwd).absolute()), "environment": environment, "most_bytes": most}
        self._reply, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        read, write = os.pipe()
        read_error, write_error = os.pipe()
        self.stdout, self.stderr = (open(end, encoding="utf-8") for end in (read, read_error))  # noqa: PTH123, SIM115
        out = write if stdout == subprocess.PIPE else stdout.fileno()
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            files = [nothing.fileno(), out, write_error, theirs.fileno()]
            socket.send_fds(parent, [json.dumps(ask).encode()], files)
        for end in (write, write_error):
            os.close(end)
        theirs.close()
        self.pid = int(self._read_line(_LONGEST_S))
        self.returncode: int | None = None

    def _read_line(self, timeout: float) -> bytes:
        self._reply.settimeout(timeout)
        return self._reply.recv(16)

    def poll(self) -> int | None:
        """Return the exit status, or minus the signal that ended it, or None while it runs."""
        try:
            return self.wait(0)
        except BlockingIOError:
            return None

    def wait(self, timeout: float = _LONGEST_S) -> int:
        """Wait for its end and return the same as `poll`.

        Raises:
            TimeoutError: It did not end.
        """
        if self.returncode is None:
            self.returncode = int(self._read_line(timeout))
        return self.returncode

    def communicate(self, timeout: float = _LONGEST_S) -> tuple[str, str]:
        """Return its stdout and stderr. It is killed if it does not end.

        Raises:
            TimeoutError: It did not end.
        """
        with ThreadPoolExecutor(2) as pool, self.stdout, self.stderr:
            texts = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except TimeoutError:
                self.kill()
                raise
            return texts[0].result(), texts[1].result()

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def started(
    *arguments: str | Path, cwd: Path | str = ".", stdout: Any = subprocess.PIPE, most_bytes: int | None = None,
    light: bool = False, **environment: str,
) -> Forked:  # fmt: skip
    """Start ``meta-eval`` with PYTHONPATH. No file of it grows beyond ``most_bytes``.

    ``light`` leaves out imports that read the environment, such as those for the hub.
    """
    words = ["-m", "meta_eval", *map(str, arguments)]
    ours = {**os.environ, "COLUMNS": "80", **environment}
    return Forked(words, cwd, stdout, ours, most_bytes, parent=parent(_PYTHON, *(_LIGHT if light else _IMPORTED)))


def forked(
    *arguments: str | Path, cwd: Path | str = ".", stdout: Any = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run as ``command.process``, with the environment of the test."""
    running = started(*arguments, cwd=cwd, stdout=stdout, **environment)
    out, error = running.communicate()
    return subprocess.CompletedProcess(list(map(str, arguments)), running.wait(), out, error)


def python(folder: Path) -> Path:
    """Write a Python for scripts that forks ``-m meta_eval …``. Run it with the arguments of `passed`."""
    folder.mkdir()
    program = folder / "python"
    front = Path(__file__).with_name("forked_python.py")
    program.write_text(f'#!/bin/sh\nexec {shlex.join([_PYTHON, "-IS", str(front)])} "$@"\n')
    program.chmod(0o755)
    (folder / "python3").symlink_to(_PYTHON)
    return program


def passed(environment: dict[str, str]) -> dict[str, Any]:
    """Return the arguments of `subprocess.Popen` with which such a program finds the parent Python from anywhere."""
    number = parent(_PYTHON, *_IMPORTED).fileno()
    return {"pass_fds": [number], "env": {**environment, "FORKED_BY": str(number)}}


@functools.cache
def parent(executable: str | Path, *modules: str, **environment: str) -> socket.socket:
    """Start a Python that imports ``modules`` and forks on request."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    python = subprocess.Popen(
        [executable, __file__, str(theirs.fileno()), *modules],
        pass_fds=[theirs.fileno()],
        env={**os.environ, **environment},
    )
    theirs.close()
    atexit.register(python.wait)
    atexit.register(ours.close)  # runs before the wait, because the last registered function runs first
    return ours


def _child(asked: socket.socket) -> bool:
    """Fork for each request. Return False in the parent at its end."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, 1 << 20, 4)
        if not message:
            return False
        between = os.fork()
        if not between:
            asked.close()
            _watch(descriptors[3])
            _become(json.loads(message), descriptors[:3])
            return True
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):  # no child is left
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def _watch(reply: int) -> None:
    """Fork and return in the child. The parent sends the child's id, then its exit status, and exits."""
    told = socket.socket(fileno=reply)
    child = os.fork()
    if not child:
        told.close()
        return
    os.closerange(0, reply)
    told.send(str(child).encode())
    told.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    os._exit(0)


def _become(ask: dict[str, Any], descriptors: list[int]) -> None:
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    if ask["most_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (ask["most_bytes"], ask["most_bytes"]))
    os.chdir(ask["cwd"])
    os.environ.clear()
    os.environ.update(ask["environment"])
    sys.path[:0] = [folder for folder in os.environ.get("PYTHONPATH", "").split(":") if folder]
    sys.argv = ask["words"]


def _work(words: list[str]) -> None:
    """Run ``python WORDS``: ``-m MODULE``, ``-c CODE`` or a script."""
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "-c", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, str(Path(words[0]).parent))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    sys.path.pop(0)  # tests/helpers
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.freeze()
    if _child(socket.socket(fileno=int(sys.argv[1]))):
        _work(sys.argv)
