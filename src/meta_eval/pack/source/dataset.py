"""Data files and where they come from: local files and their exact version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from meta_eval.base.inputs import open_data


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file on this machine.

    Attributes:
        path: Its path, or the path of its source; parquet (even if named ``.parquet.gzip``) or JSON lines.
        name: Its path inside the dataset, with ``/``: the same on every machine.
        sha256: Hex digest of its content.
        content: Its content, if it exists only in memory.
    """

    path: Path
    name: str
    sha256: str
    content: bytes | None = None

    def open(self) -> BinaryIO:
        """Open it for reading bytes.

        Raises:
            OSError: It cannot be opened.
        """
        return open_data(self.path) if self.content is None else BytesIO(self.content)


@dataclass(frozen=True)
class Repository:
    """All files of a hub dataset at a commit.

    Attributes:
        dataset_id: The hub id.
        revision: The commit.
        names: All its files; without a network, the files in the cache.
        fetch_file: Fetches a file to this machine, by name.
        warnings: Warnings for the user, each a sentence.
    """

    dataset_id: str
    revision: str
    names: tuple[str, ...] = field(repr=False)
    fetch_file: Callable[[str], DataFile] = field(repr=False)
    warnings: tuple[str, ...] = ()
