"""Output files: whole or not at all, and never in the place of something else than a file of text."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from meta_eval.messages.errors import UserError


class OutputError(UserError):
    """A file cannot be written, or must not be."""


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse, before any work, an output that is also an input, is not a regular file, or is named twice.

    Args:
        outputs: Files to be written.
        inputs: Files that are read, and folders: of these the JSON and JSON lines at any depth, which is all that
            lm_eval, prepare and verify leave there to be read.

    Raises:
        OutputError: One of them must not be written.
    """
    # Unlike Path.resolve, realpath takes links that lead to themselves; whoever opens them says so.
    read = {Path(os.path.realpath(path)) for path in inputs if path is not None}
    seen: set[Path] = set()
    for path in outputs:
        if path is None:
            continue
        _check_kind(path)
        place = Path(os.path.realpath(path.parent), path.name)
        if place in seen:
            raise OutputError("would be written twice", where=str(path), hint="Give each output its own name")
        seen.add(place)
        data = place.suffix in (".json", ".jsonl") and place.exists()
        if any(place == source or (data and source in place.parents) for source in read):
            raise OutputError(
                "is an input, and would be overwritten", where=str(path), hint="Give the output another name"
            )


def _check_kind(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError:  # not there, or to be found out when it is written
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        what = "a link" if stat.S_ISLNK(mode) else "a device, pipe or socket"
        raise OutputError(
            f"is {what} and cannot be replaced by a file", where=str(path), hint="Name a file or a new path"
        )


@contextmanager
def replace_file(path: Path) -> Iterator[IO[str]]:
    """A text file (UTF-8) that takes the place of ``path`` when the block ends well, and leaves no trace otherwise.

    Raises:
        OutputError: The disk refuses, or something else than a file is there.
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
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # a temporary file is private; a report is as open as any other file
        Path(name).replace(path)
    except OSError as error:
        _remove(name)
        raise OutputError(
            f"cannot be written ({error.strerror or error})",
            where=str(path),
            hint="Name a file in a folder that exists",
        ) from None
    except BaseException:
        _remove(name)
        raise


def _remove(name: str) -> None:
    if name:
        Path(name).unlink(missing_ok=True)
