"""The interface of a source: a table of file names, and a function that fetches a file.

``source.rows`` reads the rows of its files, and ``row_checks`` checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from meta_eval.base.errors import suggest_name
from meta_eval.pack.hub import DataFile
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.sockets import SourceError, locating

SourceKind = Literal["hub", "folder", "sample"]


@dataclass(frozen=True, slots=True)
class Subset:
    """A details subset: its config name, and its files by name inside the dataset."""

    config: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class EvalsDataset:
    """A specific version of an evals dataset."""

    kind: SourceKind
    """The kind of its source."""

    dataset_id: str
    """The hub id, the folder as the user wrote it, or ``sample``."""

    revision: str
    """The hub's commit; for files on disk ``sha256:…`` over names and contents."""

    identity: Identity
    """The model that it belongs to."""

    subsets: tuple[str, ...]
    """The names of its details subsets, sorted (``mmlu_pro``, not the whole config name)."""

    table: Mapping[str, Subset] = field(repr=False)
    """The subsets by name; it may contain others that are incomplete."""

    fetch_file: Callable[[str], DataFile] = field(repr=False)
    """Fetches a file to this machine, by name."""

    warnings: tuple[str, ...] = ()
    """Warnings for the user, each a sentence."""

    metrics: tuple[str, ...] = field(default=(), repr=False)
    """The files of Meta's reported scores (the ``__metrics`` config)."""

    def config_name(self, subset: str) -> str:
        """The ``dataset_name`` under which lm-eval finds a subset on the hub.

        Raises:
            SourceError: There is no such subset.
        """
        return self._entry(subset).config

    def fetch(self, subset: str) -> tuple[DataFile, ...]:
        """Fetch the data files of a subset to this machine.

        Raises:
            SourceError: There is no such subset, or a file is missing, gated, cut off or corrupt.
        """
        return tuple(self.fetch_file(name) for name in self._entry(subset).files)

    def fetch_metrics(self) -> tuple[DataFile, ...]:
        """Fetch the data files of the ``__metrics`` config to this machine; empty if there is no such config.

        Raises:
            SourceError: A file is missing, gated, cut off or corrupt.
        """
        return tuple(self.fetch_file(name) for name in self.metrics)

    def _entry(self, subset: str) -> Subset:
        if subset not in self.table:
            raise SourceError(
                f"has no subset {subset!r}{suggest_name(subset, self.subsets)}",
                where=self.dataset_id,
                hint=f"It offers: {', '.join(self.subsets)}",
            )
        return self.table[subset]


@dataclass(frozen=True)
class OriginalDataset:
    """A specific version of an original dataset (IFEval, MATH). ``files_of`` is its rule for splits."""

    dataset_id: str
    revision: str
    files_of: Callable[[str], tuple[str, ...]] = field(repr=False)
    fetch_file: Callable[[str], DataFile] = field(repr=False)

    def fetch(self, split: str) -> tuple[DataFile, ...]:
        """Fetch the data files of a split to this machine.

        Raises:
            SourceError: There is no such split, or a file is missing, gated, cut off or corrupt.
        """
        with locating(self.dataset_id):
            names = self.files_of(split)
        return tuple(map(self.fetch_file, names))
