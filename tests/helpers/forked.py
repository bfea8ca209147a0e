"""``meta-eval`` in a separate process that is forked off a Python with all its imports.

It has the file descriptors, exit status, signals and interpreter exit of any process but saves a second of imports. So
have the workers of pytest. As a script this file is the parent Python, which takes requests over a socket and ends with
it: one of a process, which may be the Python of another environment and run other modules and scripts, or one that all
workers share, which forks a parent for each set of imports that is asked for.
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
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
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
    "meta_eval.ask.pipeline", "meta_eval.cli.report", "meta_eval.cli.run", "meta_eval.cli.verify", "scipy.special", "jinja2",
    "aiohttp",
)  # fmt: skip
# What most workers of pytest import sooner or later.
_TESTING = (
    *_IMPORTED, "pytest", "_pytest.pytester", "xdist.remote", "hypothesis.extra", "hypothesis.strategies", "scipy.optimize",
    "scipy.stats", "huggingface_hub.hf_api", "jsonschema", "langdetect", "math_verify", "nltk",
)  # fmt: skip
# Each holds what the one before it holds, so that its parent is forked off that one's.
_SETS = {"light": _LIGHT, "all": _IMPORTED, "testing": _TESTING}
# Names the socket of the shared parent, for workers and what they start.
FORKED_BY = "META_EVAL_FORKED_BY"
# The places of the tests that workers collect, as JSON, for the parent of workers.
_TESTS = "META_EVAL_TESTS"
# More than any started process takes on a busy machine.
_LONGEST_S = 300
# What a test forgot to end must not keep all others from ending.
_LONGEST_END_S = 10


class Forked:
    """A forked process with some methods of `subprocess.Popen`. Its output is read after its end."""

    def __init__(
        self,
        words: list[str],
        cwd: Path | str,
        stdout: Any,
        environment: dict[str, str],
        most: int | None = None,
        memory: int | None = None,
        *,
        parent: socket.socket | str,
    ):
        """``parent`` is the socket of a parent of ours, or the name of a set of imports of the shared one."""
        self._words = words
        ask = {"words": words, "cwd": str(Path(cwd).absolute()), "environment": environment, "most_bytes": most}
        ask["memory"] = memory
        if isinstance(parent, str):
            ask["imports"] = parent
            parent = connected(shared())
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
    memory: int | None = None, light: bool = False, **environment: str,
) -> Forked:  # fmt: skip
    """Start ``meta-eval`` with PYTHONPATH. No file of it grows beyond ``most_bytes``, and its address space by no more
    bytes than ``memory``.

    ``light`` leaves out imports that read the environment, such as those for the hub.
    """
    words = ["-m", "meta_eval", *map(str, arguments)]
    ours = {**os.environ, "COLUMNS": "80", **environment}
    return Forked(words, cwd, stdout, ours, most_bytes, memory, parent="light" if light else "all")


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
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-IS", str(front)])} "$@"\n')
    program.chmod(0o755)
    (folder / "python3").symlink_to(sys.executable)
    return program


def passed(environment: dict[str, str]) -> dict[str, Any]:
    """Return the arguments of `subprocess.Popen` with which such a program finds the parent Python from anywhere."""
    return {"env": {**environment, FORKED_BY: shared()}}


def worker_python(tests: list[str]) -> str:
    """Return the words of a Python for execnet that forks a worker of pytest off a Python that has imported tests."""
    os.environ[_TESTS] = json.dumps(tests)
    shared()
    return shlex.join([sys.executable, "-IS", str(Path(__file__).with_name("forked_python.py")), "testing"])


def connected(path: str) -> socket.socket:
    """Connect to the shared parent."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    return connection


@functools.cache
def shared() -> str:
    """Return the path of the socket of the shared parent, and start one where no process before us did.

    It ends with the process that started it.
    """
    if FORKED_BY in os.environ:
        return os.environ[FORKED_BY]
    folder = tempfile.mkdtemp(prefix="forked-")
    path = f"{folder}/socket"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    theirs, ours = os.pipe()
    words = [sys.executable, __file__, "shared", str(listener.fileno()), str(theirs)]
    python = subprocess.Popen(words, pass_fds=[listener.fileno(), theirs])
    listener.close()
    os.close(theirs)
    os.environ[FORKED_BY] = path
    process = os.getpid()

    def end() -> None:
        if os.getpid() == process:  # a fork of this process has the same handlers
            os.close(ours)
            python.wait()

    atexit.register(end)
    return path


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


def _import(modules: tuple[str, ...]) -> None:
    for module in modules:
        importlib.import_module(module)
    if modules == _TESTING:
        # Reads the tasks that lm-eval installs, thousands of files, once for all workers.
        importlib.import_module("meta_eval.pack.records.task_code").has_task("no such task")
        # Imports the tests, which pytest compiles; what is wrong with them each worker says.
        with Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(nothing):
            sys.modules["pytest"].main(["--collect-only", "-p", "no:cacheprovider", *json.loads(os.environ[_TESTS])])
    if "tqdm" in sys.modules:
        # Its own lock is one of multiprocessing, which a program gives back at its end; a forked one ends sooner.
        sys.modules["tqdm"].tqdm.set_lock(threading.RLock())
    gc.freeze()
    with importlib.import_module("meta_eval.base.garbage").collect_seldom():
        pass  # counts what is frozen, once for all forks


def _share(listener: socket.socket, life: int) -> None:
    """Hand each request to a parent with the imports that it names, until the other end of ``life`` is closed."""
    parents: dict[str, socket.socket] = {}
    while True:
        ready, _, _ = select.select([listener, life], [], [])
        if life in ready:
            break
        connection, _ = listener.accept()
        with connection:
            message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 4)
        imports = json.loads(message)["imports"]
        before: socket.socket | None = None
        for name, modules in _SETS.items():
            if name not in parents:
                parents[name], theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if before is not None:
                    socket.send_fds(before, [json.dumps({"modules": modules}).encode()], [theirs.fileno()])
                elif not os.fork():
                    for descriptor in (life, *descriptors):
                        os.close(descriptor)
                    for other in (listener, *parents.values()):
                        other.close()  # not its number: at its end the object would close what has that number by then
                    _import(modules)
                    _serve(theirs)
                    return
                theirs.close()
            before = parents[name]
            if name == imports:
                break
        socket.send_fds(parents[imports], [message], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
    shutil.rmtree(Path(listener.getsockname()).parent, ignore_errors=True)
    for asked in parents.values():
        asked.close()
    _reap()


def _serve(asked: socket.socket) -> None:
    if _child(asked):
        _work(sys.argv)
    else:
        _reap()


def _reap() -> None:
    """Wait a while for all children, so that their CPU time counts as this process's."""
    until = time.monotonic() + _LONGEST_END_S
    with contextlib.suppress(ChildProcessError):  # no child is left
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.02)


def _child(asked: socket.socket) -> bool:
    """Fork for each request. Return False in the parent at its end."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, 1 << 20, 4)
        if not message:
            return False
        ask = json.loads(message)
        between = os.fork()
        if not between:
            asked.close()
            if "modules" in ask:
                asked = socket.socket(fileno=descriptors[0])
                _import(tuple(ask["modules"]))
                continue
            _watch(descriptors[3])
            _become(ask, descriptors[:3])
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
        sys.dont_write_bytecode = True  # Python up to 3.12 keeps a compiled module that was cut by the limit
        resource.setrlimit(resource.RLIMIT_FSIZE, (ask["most_bytes"], ask["most_bytes"]))
    if ask.get("memory") is not None:
        pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
        most = pages * resource.getpagesize() + ask["memory"]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    os.chdir(ask["cwd"])
    os.environ.clear()
    os.environ.update(ask["environment"])
    sys.path[:0] = [folder for folder in os.environ.get("PYTHONPATH", "").split(":") if folder]
    sys.argv = ask["words"]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
    if sys.argv[1] == "shared":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it, which then ends it
        _share(socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3]))
    else:
        _import(tuple(sys.argv[2:]))
        _serve(socket.socket(fileno=int(sys.argv[1])))
