"""Allowed names of tasks, groups and files. They are safe for lm-eval, shells and file systems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

# All names of lm-eval's own tasks match. Excluded: path separators, the comma of --tasks, and special characters of
# shells, globs, tables and terminals. File names made from a name stay within 255 bytes.
_NAME = re.compile(r"\w[\w.:+-]*")
_MOST_BYTES = 160
RULE = "Names are made of letters, digits, '_', '-', '.', ':' and '+', and begin with a letter, a digit or '_'"

# Suffix of a copied YAML. lm-eval reads the file when another includes it, but never as a task.
COPIED_SUFFIX = ".lm_eval"


def is_name(name: object) -> bool:
    """Whether a value is an allowed name of a task or a group."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and len(name.encode()) <= _MOST_BYTES


def split_excluded(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split names into wanted and excluded ones, as in ``mmlu,-mmlu_law``."""
    excluded = [name[1:].strip() for name in names if name.startswith("-")]
    return [name for name in names if not name.startswith("-")], excluded


def join_names(names: Sequence[str], most: int = 5) -> str:
    """Name the first few, and count the rest: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def stays_inside(path: str) -> bool:
    """Whether a relative path of a manifest stays inside its base folder."""
    parts = PurePosixPath(path).parts
    plain = "\0" not in path and "\n" not in path and "\\" not in path
    return bool(parts) and plain and ".." not in parts and not path.startswith("/")


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"{text!r:.80} is not a valid name. {RULE}")
    return text


def _inside(path: str) -> str:
    if not stays_inside(path):
        raise ValueError(f"{path!r:.80} points outside the pack")
    return path


TaskName = Annotated[str, AfterValidator(_name)]
PackPath = Annotated[str, AfterValidator(_inside)]
