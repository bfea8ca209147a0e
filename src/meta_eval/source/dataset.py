"""The interface of a source: a table of file names, and a way to fetch a file.

A source hands out local files and says exactly which version they are; it never reads a row. Reading is
``meta_eval.source.rows``, checking is ``meta_eval.pack.row_checks``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Literal

from meta_eval.boundary.inputs import open_data
from meta_eval.catalog.dataset_names import Identity
from meta_eval.messages.errors import SourceError, locating, suggestion

Kind = Literal["hub", "folder", "sample"]


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file on this machine.

    Attributes:
        path: Where it lies, or what it is made of; parquet (also when it is named ``.parquet.gzip``) or JSON lines.
        name: Its path inside the dataset, with ``/``: the same on every machine.
        sha256: Hex digest of its content.
        content: What is in it, where it is made on the spot and lies nowhere.
    """

    path: Path
    name: str
    sha256: str
    content: bytes | None = None

    def open(self) -> BinaryIO:
        """Its bytes.

        Raises:
            OSError: It cannot be opened.
        """
        return open_data(self.path) if self.content is None else BytesIO(self.content)


@dataclass(frozen=True, slots=True)
class Subset:
    """One details subset: its config name and its files, by name inside the dataset."""

    config: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class EvalsDataset:
    """One evals dataset at one version.

    Attributes:
        kind: Where it comes from.
        dataset_id: The hub id, the folder as the user wrote it, or ``sample``.
        revision: The hub's commit; for files on disk ``sha256:…`` over names and contents.
        identity: What it is an evals dataset of.
        subsets: The details subsets that it offers, sorted (``mmlu_pro``, not the whole config name).
        table: Each of them; it may name others that are not whole.
        fetch_file: The file of a name, on this machine.
        notices: What a user must know of it, one sentence each.
        metrics: The files of Meta's reported numbers (the ``__metrics`` config).
    """

    kind: Kind
    dataset_id: str
    revision: str
    identity: Identity
    subsets: tuple[str, ...]
    table: Mapping[str, Subset] = field(repr=False)
    fetch_file: Callable[[str], DataFile] = field(repr=False)
    notices: tuple[str, ...] = ()
    metrics: tuple[str, ...] = field(default=(), repr=False)

    def config_name(self, subset: str) -> str:
        """The ``dataset_name`` under which lm-eval finds a subset on the hub.

        Raises:
            SourceError: There is no such subset.
        """
        return self._entry(subset).config

    def fetch(self, subset: str) -> tuple[DataFile, ...]:
        """The data files of one subset, on this machine.

        Raises:
            SourceError: There is no such subset, or a file is missing, gated, cut off or corrupt.
        """
        return tuple(self.fetch_file(name) for name in self._entry(subset).files)

    def fetch_metrics(self) -> tuple[DataFile, ...]:
        """The data files of the ``__metrics`` config, on this machine; none where the dataset has none.

        Raises:
            SourceError: A file is missing, gated, cut off or corrupt.
        """
        return tuple(self.fetch_file(name) for name in self.metrics)

    def _entry(self, subset: str) -> Subset:
        if subset not in self.table:
            raise SourceError(
                f"has no subset {subset!r}{suggestion(subset, self.subsets)}",
                where=self.dataset_id,
                hint=f"It offers: {', '.join(self.subsets)}",
            )
        return self.table[subset]


@dataclass(frozen=True)
class OriginalDataset:
    """An original dataset (IFEval, MATH) at one version: ``files_of`` is its rule for splits."""

    dataset_id: str
    revision: str
    files_of: Callable[[str], tuple[str, ...]] = field(repr=False)
    fetch_file: Callable[[str], DataFile] = field(repr=False)

    def fetch(self, split: str) -> tuple[DataFile, ...]:
        """The data files of one split, on this machine.

        Raises:
            SourceError: There is no such split, or a file is missing, gated, cut off or corrupt.
        """
        with locating(self.dataset_id):
            names = self.files_of(split)
        return tuple(map(self.fetch_file, names))


@dataclass(frozen=True)
class Repository:
    """The files of a dataset of the hub at one commit, whatever they hold.

    Attributes:
        dataset_id: The hub id.
        revision: The commit.
        names: Every file of it; without a network those that the cache holds.
        fetch_file: The file of a name, on this machine.
        notices: What a user must know of it, one sentence each.
    """

    dataset_id: str
    revision: str
    names: tuple[str, ...] = field(repr=False)
    fetch_file: Callable[[str], DataFile] = field(repr=False)
    notices: tuple[str, ...] = ()
