"""The command line of meta-eval, in this process or in a separate one as users start it.

The first is quick. The second also tests file descriptors, exit status and signals.
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


def cli(
    *arguments: str | Path, cwd: Path | str = ".", merged: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``meta-eval`` in this process, on a terminal of 80 columns; ``merged`` puts stderr into stdout in order."""
    from meta_eval.base.logs import log
    from meta_eval.cli import main
    from meta_eval.cli.console import notes

    words = [str(argument) for argument in arguments]
    out = StringIO()
    error = out if merged else StringIO()
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
    return subprocess.CompletedProcess(words, code, out.getvalue(), "" if merged else error.getvalue())


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file grow beyond ``size`` bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    # Python up to 3.12 keeps a compiled module that was cut by it, and each later import fails.
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiles
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def process(
    *arguments: str | Path, cwd: Path | str = ".", stdout: Any = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``meta-eval`` in a separate process, on a terminal of 80 columns."""
    return subprocess.run(
        [sys.executable, "-m", "meta_eval", *map(str, arguments)], cwd=cwd, stdout=stdout, stderr=subprocess.PIPE,
        text=True, check=False, env={**os.environ, "COLUMNS": "80", **environment},
    )  # fmt: skip
