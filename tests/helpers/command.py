"""The command line of meta-eval: in this process, which is quick, or in one of its own, as users start it.

What only a process has is held by the second: what reaches its file descriptors, its exit status, signals.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch


def cli(*arguments: str | Path, cwd: Path | str = ".", **environment: str) -> subprocess.CompletedProcess[str]:
    """``meta-eval`` in this process, on a terminal of 80 columns."""
    from meta_eval.cli import main
    from meta_eval.cli.console import notes
    from meta_eval.messages.logs import log

    words = [str(argument) for argument in arguments]
    out, error = StringIO(), StringIO()
    with (
        chdir(cwd), redirect_stdout(out), redirect_stderr(error),
        patch.object(sys, "argv", ["meta-eval", *words]), patch.dict(os.environ, {"COLUMNS": "80", **environment}),
    ):  # fmt: skip
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            log.removeHandler(notes)
    assert isinstance(code, int)
    return subprocess.CompletedProcess(words, code, out.getvalue(), error.getvalue())


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file grows beyond so many bytes, as if the disk were full then."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def process(
    *arguments: str | Path, cwd: Path | str = ".", stdout: Any = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """``meta-eval`` in a process of its own, on a terminal of 80 columns."""
    return subprocess.run(
        [sys.executable, "-m", "meta_eval", *map(str, arguments)], cwd=cwd, stdout=stdout, stderr=subprocess.PIPE,
        text=True, check=False, env={**os.environ, "COLUMNS": "80", **environment},
    )  # fmt: skip
