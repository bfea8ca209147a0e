"""Logs of other harnesses that are damaged: each must be read, or be refused in one message."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from places import THOROUGH

from meta_eval.base.errors import UserError
from meta_eval.harness.compared_settings import describe_changes, flatten_settings
from meta_eval.pack.records.record_runs import read_any_run

# Values of other types and sizes than a log has. The last are JSON that only Python writes.
WRONG: list[Any] = [
    None, True, 7, -1, 2.5, 10**30, "", "x", "\ud800", [], ["x"], [None], [[]], {}, {"x": 1}, float("nan"),
    float("inf"),
]  # fmt: skip

# What a file may hold instead of a log, and the words of its refusal.
BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is empty"),
    "white space": (b" \n\n ", "is empty"),
    "zeros": (b"\0" * 100, "is cut off or not JSON"),
    "an open brace": (b"{", "is cut off or not JSON"),
    "two values": (b'{"version": 2} {}', "is cut off or not JSON"),
    "a list": (b"[]", "is a list and no object"),
    "null": (b"null", "is null and no object"),
    "a number": (b"5", "is a number and no object"),
    "a text": (b'"x"', "is a text and no object"),
    "true": (b"true", "is true or false and no object"),
    "words": (b"Traceback (most recent call last):", "is cut off or not JSON"),
    "Python": (b"__import__('os').system('touch /tmp/executed')", "is cut off or not JSON"),
    "a page": (b"<!DOCTYPE html><html></html>", "is cut off or not JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "is not UTF-8"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "UTF-16"),
    "gzip": (gzip.compress(b"{}"), "compressed (gzip)"),
    "a deep list": (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "nested more than 100 deep"),
    "a deeper list": (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested more than 100 deep"),
    "a deep object": (b'{"a": ' * 150 + b"1" + b"}" * 150, "nested more than 100 deep"),
    "a name twice": (b'{"a": {"b": 1, "b": 2}}', "names 'b' twice in one object"),
    "a number of 5,000 digits": (b'{"a": ' + b"9" * 5000 + b"}", "is cut off or not JSON"),
    "a pickle": (b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00K\x01.", "byte 0 is not UTF-8"),
}


def refuse(path: Path, place: str | None = None) -> str | None:
    """Read a log for a comparison: the message of its refusal, which is one line; None if it is read.

    Args:
        path: The log.
        place: What the message begins with, if it is not the log.
    """
    try:
        read_any_run([path])
    except UserError as error:
        message = str(error)
        assert "\n" not in message and message.startswith(place or str(path)[:20]), message
        return message
    return None


def check_damage(folder: Path, file: str, damaged: str, kept: str) -> None:
    """Cut a file of a folder that holds two tasks: its own is left out by name, or skipped with a note.

    Args:
        folder: The folder.
        file: The file, by its path inside it.
        damaged: The task that is left out.
        kept: The other one.
    """
    path = folder / file
    path.write_bytes(path.read_bytes()[:-9])
    run, skipped = read_any_run([folder]), read_any_run([folder], skip_damaged=True)
    assert ([*run.tasks], [*run.faults]) == ([kept], [damaged]) and path.name in run.faults[damaged]
    assert ([*skipped.tasks], [*skipped.faults]) == ([kept], [])
    assert any(note.startswith("skipped: ") and path.name in note for note in skipped.notes)


def mutate(tree: Any, *, most_items: int = 1) -> Iterator[tuple[str, Any]]:
    """Copies of a tree, each with one member gone or replaced by a value of `WRONG`.

    Args:
        tree: The tree.
        most_items: Of a list, how many items are changed.
    """
    for path in list_paths(tree, most_items):
        yield f"{path} is gone", changed(tree, path, None, gone=True)
        for value in WRONG:
            yield f"{path} is {value!r:.20}", changed(tree, path, value)


def list_paths(tree: Any, most_items: int) -> Iterator[tuple[Any, ...]]:
    members = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree))[:most_items]
    for key, value in members:
        yield (key,)
        if isinstance(value, dict | list):
            yield from ((key, *path) for path in list_paths(value, most_items))


def changed(tree: Any, path: tuple[Any, ...], value: Any, *, gone: bool = False) -> Any:
    """A copy with another value at a path."""
    made = copy.deepcopy(tree)
    parent = made
    for key in path[:-1]:
        parent = parent[key]
    if gone:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return made


def check_mutations(tree: Any, write: Callable[[Any], Path], *, most_items: int = 1, step: int = 13) -> int:
    """Check that each damaged copy is read or refused in one message. Return how many were refused.

    Args:
        tree: An undamaged log.
        write: Writes a copy.
        most_items: See `mutate`.
        step: In plain `make test` one of so many copies is tried, in CI every second.
    """
    refused = 0
    for label, made in list(mutate(tree, most_items=most_items))[:: 2 if THOROUGH else step]:
        path = write(made)
        try:
            refused += refuse(path) is not None
        except Exception as error:
            raise AssertionError(f"{label}: {error!r}") from error
    return refused


def write_json(path: Path, tree: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def list_unseen_settings(
    settings: Mapping[str, str], tree: Any, write: Callable[[str, Any], Path], values: Mapping[str, Any] | None = None
) -> list[str]:
    """The compared settings of a format of which a change is not seen under their name.

    Args:
        settings: By name its place in the tree; a list on the way stands for its first item.
        tree: What a run is written of.
        write: Writes a tree into a folder of this name.
        values: Other values than 3, by name.
    """

    def read(path: Path) -> dict[str, Any]:
        ((_, task),) = read_any_run([path]).tasks.items()
        of = task.provenance
        grading = {name: value for text in of.grader.metrics.values() for name, value in json.loads(text).items()}
        return flatten_settings({**of.decoding, **of.settings, **grading})

    base, unseen = read(write("base", tree)), []
    for name, place in settings.items():
        made = copy.deepcopy(tree)
        parent = made
        for member in place.split(".")[:-1]:
            parent = parent.setdefault(member, {})
            parent = parent[0] if isinstance(parent, list) else parent
        parent[place.rpartition(".")[2]] = (values or {}).get(name, 3)
        changes = describe_changes(base, read(write(name, made)))
        if not any(change.startswith((f"{name}:", f"{name}.")) for change in changes):
            unseen.append(f"{name}: {changes}")
    return unseen
