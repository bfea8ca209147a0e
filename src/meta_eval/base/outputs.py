"""Writes output files: whole or not at all, and never over a file that meta-eval did not write."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from meta_eval.base.errors import FULL_DISK, UserError
from meta_eval.base.inputs import open_regular

# How much of a file is read from either end to find out who wrote it, in bytes.
_END = 4096


class OutputError(UserError):
    """A file cannot be written, or must not be replaced."""


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse, before any work, an output that is also an input, is no regular file, has no folder, or is named twice.

    Args:
        outputs: Files to be written.
        inputs: Files that are read, and folders. In a folder only JSON and JSON lines count, at any depth: lm_eval
            and verify leave nothing else to read there. In a pack every file counts.

    Raises:
        OutputError: An output must not be written.
    """
    # Unlike Path.resolve, realpath accepts links in a loop. Opening them reports the error.
    read = {Path(os.path.realpath(path)) for path in inputs if path is not None}
    seen: set[Path] = set()
    for path in outputs:
        if path is None:
            continue
        _check_kind(path)
        if path.is_dir() or not path.parent.is_dir():
            what = "is a folder, and a file is to be written" if path.is_dir() else "its folder does not exist"
            raise OutputError(what, where=str(path), hint=_hint(path))
        place = Path(os.path.realpath(path.parent), path.name)
        if place in seen:
            raise OutputError("would be written twice", where=str(path), hint="Give each output its own name")
        seen.add(place)
        data = place.suffix in (".json", ".jsonl")
        if any(
            place == source
            or (source in place.parents and place.exists() and (data or (source / "manifest.json").is_file()))
            for source in read
        ):
            raise OutputError(
                "is an input, and would be overwritten", where=str(path), hint="Give the output another name"
            )


def _check_kind(path: Path) -> None:
    if str(path) == "-":  # elsewhere a name of stdout, which has the result anyway
        raise OutputError("is no file", where="-", hint="Name a file, or read stdout without this option")
    try:
        mode = path.lstat().st_mode
    except OSError:  # missing, or writing will report it
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        what = "a link" if stat.S_ISLNK(mode) else "a device, pipe or socket"
        raise OutputError(
            f"is {what} and cannot be replaced by a file", where=str(path), hint="Name a file or a new path"
        )


def check_own(path: Path, mark: re.Pattern[str] | None) -> None:
    """Refuse, before any work, to replace a file that is not empty and that this kind of output did not write.

    Args:
        path: The file to be written.
        mark: What is found in the first and last 4,096 bytes of what this kind of output writes; None if nothing is.

    Raises:
        OutputError: It must not be replaced.
    """
    try:
        with open_regular(path, noted=False) as file:
            ends = file.read(_END)
            file.seek(max(len(ends), os.fstat(file.fileno()).st_size - _END))
            ends += file.read()
    except FileNotFoundError:
        return
    except PermissionError as error:
        what = f"cannot be written ({error.strerror})"
        raise OutputError(what, where=str(path), hint=_hint(path)) from None
    except OSError:  # it may be anything
        mark, ends = None, b"?"
    if ends and not (mark and mark.search(ends.decode("utf-8", "replace"))):
        what = "is no output of this kind that meta-eval wrote, so it is not replaced"
        raise OutputError(what, where=str(path), hint="Name another file, or move this one away")


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it.

    Raises:
        OSError: It cannot be made, or lies in more folders than Python counts.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except RecursionError:  # at about a thousand
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(folder)) from None


def write_file(path: Path, content: bytes) -> None:
    """Write a file, such as one in a folder of temporary files, and make the folders above it.

    Raises:
        OSError: It cannot be written. The error names the file, which Python's does only until it is open.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def replace_file(path: Path, *, private: bool = False) -> Iterator[IO[str]]:
    """A UTF-8 text file that replaces ``path`` when the block succeeds. Otherwise nothing remains.

    Args:
        path: The file.
        private: Whether only its owner may read it.

    Raises:
        OutputError: The file cannot be written, or ``path`` is not a regular file.
    """
    _check_kind(path)
    name = ""
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="\n", dir=path.parent, prefix=".meta-eval-", delete=False
        ) as file:
            name = file.name
            yield file.file
            file.flush()
            os.fsync(file.fileno())
        if not private:  # as temporary files are
            umask = os.umask(0)
            os.umask(umask)
            Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except OSError as error:
        _remove(name)
        hint = None if error.errno in FULL_DISK else _hint(path)
        raise OutputError(f"cannot be written ({error.strerror or error})", where=str(path), hint=hint) from None
    except BaseException:
        _remove(name)
        raise


def _hint(path: Path) -> str:
    if path.parent.exists():
        return "Name a file that you may write, in a folder that exists"
    return f"Make its folder first: mkdir -p {shlex.quote(str(path.parent))}"


def _remove(name: str) -> None:
    if name:
        Path(name).unlink(missing_ok=True)
