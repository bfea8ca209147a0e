"""Finds the lm_eval of this machine: script, Python and version. Does not start it."""

from __future__ import annotations

import importlib.metadata
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from meta_eval.base.inputs import open_regular


@dataclass(frozen=True, slots=True)
class LmEval:
    """The ``lm_eval`` script, its Python, and whether it is on PATH."""

    script: Path
    python: str
    on_path: bool


def find_lm_eval() -> LmEval | None:
    """The script that a shell would start, or else the script beside meta-eval's own Python."""
    on_path = shutil.which("lm_eval")
    script = Path(on_path) if on_path else Path(sys.executable).with_name("lm_eval")
    return LmEval(script, _read_python(script), bool(on_path)) if script.is_file() else None


def _read_python(script: Path) -> str:
    """Read the interpreter from the script: ``#!/…/python``, or pip's form for paths that are too long."""
    try:
        with open_regular(script) as file:
            head = file.read(4096).decode("utf-8", "replace").splitlines()
    except OSError:
        head = []
    for line in head[:2]:
        words = shlex.split(line.removeprefix("#!").strip(), posix=True) if line.startswith(("#!", "'''exec'")) else []
        for word in words:
            if "python" in Path(word).name and Path(word).is_absolute():
                return word
    return str(script.with_name("python"))


def read_installed_version(python: str) -> str | None:
    """lm-eval's version in a Python environment, read from metadata."""
    if python == sys.executable or Path(python).parent == Path(sys.executable).parent:
        try:
            return importlib.metadata.version("lm_eval")
        except importlib.metadata.PackageNotFoundError:
            return None
    folders = [str(path) for path in Path(python).parent.parent.glob("lib*/python3*/*-packages")]
    return next(
        (installed.version for installed in importlib.metadata.distributions(name="lm_eval", path=folders)), None
    )
