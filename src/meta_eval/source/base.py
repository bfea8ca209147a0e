"""The interface between prepare and the places that rows come from.

A source hands out local files and says exactly which version they are; it never reads a row. Reading is
``meta_eval.source.rows``, checking is ``meta_eval.pack.checks``.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from meta_eval.catalog.names import Identity

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
        return self.path.open("rb") if self.content is None else BytesIO(self.content)


class EvalsDataset(Protocol):
    """One evals dataset at one version.

    Attributes:
        kind: Where it comes from.
        dataset_id: The hub id, the folder as the user wrote it, or ``sample``.
        revision: The hub's commit; for files on disk ``sha256:…`` over names and contents.
        identity: What it is an evals dataset of.
        subsets: The details subsets that it offers, sorted (``mmlu_pro``, not the whole config name).
        notices: What a user must know of it, one sentence each.
    """

    @property
    def kind(self) -> Kind: ...
    @property
    def dataset_id(self) -> str: ...
    @property
    def revision(self) -> str: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def subsets(self) -> tuple[str, ...]: ...
    @property
    def notices(self) -> tuple[str, ...]: ...

    def config_name(self, subset: str) -> str:
        """The ``dataset_name`` under which lm-eval finds a subset on the hub."""
        ...

    def fetch(self, subset: str) -> tuple[DataFile, ...]:
        """The data files of one subset, on this machine.

        Raises:
            SourceError: It is missing, gated, cut off or corrupt.
        """
        ...

    def fetch_metrics(self) -> tuple[DataFile, ...]:
        """The data files of Meta's reported numbers (the ``__metrics`` config), on this machine; none if it has none.

        Raises:
            SourceError: A file is missing, gated, cut off or corrupt.
        """
        ...


class OriginalDataset(Protocol):
    """An original dataset (IFEval, MATH) at one version, with the same fields as an evals dataset."""

    @property
    def dataset_id(self) -> str: ...
    @property
    def revision(self) -> str: ...

    def fetch(self, split: str) -> tuple[DataFile, ...]:
        """The data files of one split, on this machine.

        Raises:
            SourceError: It is missing, gated, cut off or corrupt.
        """
        ...
