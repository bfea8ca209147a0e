"""Reports of unexpected errors: a bug of meta-eval, with what is needed to fix it.

The report holds where it happened (files, lines, functions) and the versions of what took part. Messages of exceptions
and values of variables are left out, since rows of gated datasets, answers and tokens stand in them.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import tempfile
import traceback

from meta_eval.cli.console import err
from meta_eval.version import __version__

EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h

_LIBRARIES = ("lm_eval", "datasets", "pyarrow", "pydantic", "rich", "typer", "PyYAML", "ruamel.yaml", "orjson")
_MOST_FRAMES = 60


def tell_bug(error: Exception) -> int:
    """Tell the user that this is a bug of meta-eval, and which file to attach to a report.

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
    err.print(
        f"a bug of meta-eval ({type(error).__name__}): it is not your mistake. Please report it and attach "
        + (f"{path}, which holds no data and no secrets" if path else "the text above"),
        style="bold red",
        soft_wrap=True,
    )
    return EXIT_CODE


def describe_bug(error: BaseException) -> str:
    """Versions, and each exception of the chain with the places that it came through."""
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
    """The end of a file's path; its beginning would name the user and the project."""
    return "/".join(filename.replace("\\", "/").split("/")[-3:])
