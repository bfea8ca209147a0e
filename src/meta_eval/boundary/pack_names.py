"""Allowed names of tasks, groups and files: a single word to lm-eval, to a shell and to a file system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

# All names of lm-eval's own tasks fit. No separator of paths, no comma (which parts --tasks), nothing that a shell, a
# glob, a table or a terminal takes for a sign of its own; and ends in file names of at most 255 bytes.
_NAME = re.compile(r"\w[\w.:+-]*")
_MOST_BYTES = 160
RULE = "Names are made of letters, digits, '_', '-', '.', ':' and '+', and begin with a letter, a digit or '_'"

# After the name of a YAML that is copied: lm-eval reads it where another includes it, and never as a task.
COPIED_SUFFIX = ".lm_eval"


def is_name(name: object) -> bool:
    """Whether something may be the name of a task or a group."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and len(name.encode()) <= _MOST_BYTES


def split_excluded(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names that are wanted, and those to leave out, which a minus precedes: ``mmlu,-mmlu_law``."""
    excluded = [name[1:].strip() for name in names if name.startswith("-")]
    return [name for name in names if not name.startswith("-")], excluded


def join_names(names: Sequence[str], most: int = 5) -> str:
    """The first of some names, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def stays_inside(path: str) -> bool:
    """Whether a path, as a manifest writes it, stays inside the folder that it counts from."""
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
