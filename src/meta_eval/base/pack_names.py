"""Allowed names of tasks, groups and files. They are safe for lm-eval, shells and file systems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

# All names of lm-eval's own tasks match. Excluded: path separators, the comma of --tasks, and special characters of
# shells, globs, tables and terminals. File names made from a name stay within 255 bytes.
_NAME = re.compile(r"\w[\w.:+-]*")
_MOST_BYTES = 160
# What no path of a pack has; half a surrogate pair stands for a byte that is no UTF-8.
_UNFIT = re.compile("[\0\n\\\\\ud800-\udfff]")
_PATTERN = re.compile(r"[*?\[]")
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


def expand_patterns(names: Sequence[str], existing: Iterable[str]) -> list[str]:
    """Put the tasks that match in the place of each pattern such as ``mmlu_*``, and of one after a minus.

    A pattern that nothing matches stays, and is refused as the name of nothing.

    Args:
        names: Names, patterns, and either after a minus.
        existing: The tasks that a pattern can mean.
    """
    if not any(map(_PATTERN.search, names)):
        return list(names)
    tasks = list(existing)
    expanded: list[str] = []
    for name in names:
        minus, pattern = ("-", name[1:].strip()) if name.startswith("-") else ("", name)
        matches = [task for task in tasks if fnmatchcase(task, pattern)] if _PATTERN.search(pattern) else []
        expanded += [f"{minus}{task}" for task in matches] or [name]
    return list(dict.fromkeys(expanded))


def join_names(names: Sequence[str], most: int = 5) -> str:
    """Name the first few, and count the rest: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def is_inside(path: str) -> bool:
    """Whether a relative path of a manifest stays inside its base folder."""
    parts = PurePosixPath(path).parts
    plain = not _UNFIT.search(path)
    return bool(parts) and plain and ".." not in parts and not path.startswith("/")


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"{text!r:.80} is not a valid name. {RULE}")
    return text


def _inside(path: str) -> str:
    if not is_inside(path):
        raise ValueError(f"{path!r:.80} points outside the pack")
    return path


TaskName = Annotated[str, AfterValidator(_name)]
PackPath = Annotated[str, AfterValidator(_inside)]
