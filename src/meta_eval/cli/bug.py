"""Reports of unexpected errors, which are bugs of meta-eval.

The report holds the places of the error (files, lines, functions) and the versions of libraries. It leaves out messages
of exceptions and values of variables, because they may quote gated rows, answers or tokens.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import tempfile
import traceback

from meta_eval.base.extensions import list_loaded
from meta_eval.base.version import __version__
from meta_eval.cli.console import err

EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h

_LIBRARIES = ("lm_eval", "datasets", "pyarrow", "pydantic", "rich", "typer", "PyYAML", "ruamel.yaml", "orjson")
_MOST_FRAMES = 60


def tell_bug(error: BaseException) -> int:
    """Tell the user that this is a bug of meta-eval, and write a report to attach.

    Returns:
        The exit code.
    """
    text = describe_bug(error)
    try:
        number, path = tempfile.mkstemp(prefix="meta-eval-bug-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        path = ""
        err.out(text)
    others = "".join(f", or of {name}" for name in list_loaded())
    err.print(
        f"a bug of meta-eval{others} ({type(error).__name__}): it is not your mistake. Please report it and attach "
        + (f"{path}, which holds no data and no secrets" if path else "the text above"),
        style="bold red",
        soft_wrap=True,
    )
    return EXIT_CODE


def describe_bug(error: BaseException) -> str:
    """List versions, and the traceback of each exception in the chain."""
    lines = [f"meta-eval {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"]
    lines += [f"{name} {version}" for name in _LIBRARIES if (version := _version(name))]
    lines.append(f"command: meta-eval {' '.join(word for word in sys.argv[1:2] if word.isidentifier() or '-' in word)}")
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        lines += ["", f"{type(cause).__module__}.{type(cause).__qualname__}"]
        frames = traceback.extract_tb(cause.__traceback__, limit=-_MOST_FRAMES)
        lines += [f"  {_place(frame.filename)}, line {frame.lineno}, in {frame.name}" for frame in frames]
        cause = cause.__cause__ or cause.__context__
    return "\n".join(lines) + "\n"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _place(filename: str) -> str:
    """The last three parts of a file's path. The rest could name the user."""
    return "/".join(filename.replace("\\", "/").split("/")[-3:])
