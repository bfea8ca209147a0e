"""``meta-eval`` in a process of its own, forked off a Python that has imported all that it needs.

File descriptors, exit status and end of the interpreter are those of any process; only the second of imports is spared.
As a script this is that Python: it is asked over a socket, and ends when the socket is closed.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_IMPORTED = ("lm_eval.evaluator", "lm_eval.tasks", "pandas", "pyarrow.compute", "meta_eval.cli", "meta_eval.pack.prepare", "meta_eval.verify.evaluate")  # fmt: skip


def forked(
    *arguments: str | Path, cwd: Path | str = ".", stdout: Any = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """As ``command.process``, with the environment of the test."""
    words = [str(argument) for argument in arguments]
    ask = {"words": words, "cwd": str(Path(cwd).absolute()), "environment": {**os.environ, "COLUMNS": "80"}}
    read, write = os.pipe()
    read_error, write_error = os.pipe()
    with open(os.devnull, "rb") as nothing, ThreadPoolExecutor(2) as pool:  # noqa: PTH123
        out = write if stdout == subprocess.PIPE else stdout.fileno()
        socket.send_fds(_parent(), [json.dumps(ask).encode()], [nothing.fileno(), out, write_error])
        os.close(write)
        os.close(write_error)
        texts = [pool.submit(_all_of, one) for one in (read, read_error)]
        code = int(_parent().recv(16))
    return subprocess.CompletedProcess(words, code, texts[0].result(), texts[1].result())


@functools.cache
def _parent() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    python = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()
    atexit.register(python.wait)
    atexit.register(ours.close)  # the first of the two: what is registered last is called first
    return ours


def _all_of(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


def _child(asked: socket.socket) -> bool:
    """Fork for each that is asked; False in the Python that forks, at its end."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, 1 << 20, 3)
        if not message:
            return False
        child = os.fork()
        if not child:
            asked.close()
            for place, descriptor in enumerate(descriptors):
                os.dup2(descriptor, place)
                os.close(descriptor)
            ask = json.loads(message)
            os.chdir(ask["cwd"])
            os.environ.clear()
            os.environ.update(ask["environment"])
            sys.argv = ["meta-eval", *ask["words"]]
            return True
        for descriptor in descriptors:
            os.close(descriptor)
        asked.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


if __name__ == "__main__":
    sys.path.pop(0)  # the helpers of tests
    for module in _IMPORTED:
        importlib.import_module(module)
    gc.freeze()
    if _child(socket.socket(fileno=int(sys.argv[1]))):
        runpy.run_module("meta_eval", run_name="__main__", alter_sys=True)
