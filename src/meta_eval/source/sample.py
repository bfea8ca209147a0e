"""The sample that comes with meta-eval: rows of our own in the layout of Meta's evals datasets.

It lies in the package as YAML that people read and edit; ``sample_rows`` makes the rows of it. Nothing is fetched, and
nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from meta_eval.catalog.names import Identity
from meta_eval.errors import SourceError, suggestion
from meta_eval.source import sample_rows
from meta_eval.source.base import DataFile, EvalsDataset, Kind, OriginalDataset

DATASET_ID: Final = "sample"

_IDENTITIES: Final = (
    Identity("Llama-3.1-8B-Instruct", "3.1", "instruct"),
    Identity("Llama-3.1-8B", "3.1", "pretrain"),
    Identity("Llama-3.2-3B-Instruct", "3.2", "instruct"),
    Identity("Llama-3.2-3B", "3.2", "pretrain"),
    Identity("Llama-3.3-70B-Instruct", "3.3", "instruct"),
)


@dataclass(frozen=True, slots=True)
class SamplePart:
    """The part of the sample that stands for one model's evals dataset; see ``EvalsDataset`` for the fields."""

    identity: Identity
    data: tuple[DataFile, ...]
    revision: str
    subsets: tuple[str, ...]
    kind: Kind = "sample"
    dataset_id: str = DATASET_ID
    notices: tuple[str, ...] = ()

    def config_name(self, subset: str) -> str:
        """The name that the subset would have on the hub."""
        return f"{self.identity.model}-evals__{subset}__details"

    def fetch(self, subset: str) -> tuple[DataFile, ...]:
        """The one file of a subset.

        Raises:
            SourceError: The part has no such subset.
        """
        if subset not in self.subsets:
            raise SourceError(
                f"no subset {subset!r}{suggestion(subset, self.subsets)}",
                where=f"{self.dataset_id}/{self.identity.model}-evals",
                hint=f"It has {', '.join(self.subsets)}",
            )
        return (self.data[self.subsets.index(subset)],)

    def fetch_metrics(self) -> tuple[DataFile, ...]:
        """Nothing: the sample's rows are nobody's published number."""
        return ()


@dataclass(frozen=True, slots=True)
class SampleOriginal:
    """One original dataset of the sample; it has one table, whatever split is asked for."""

    dataset_id: str
    revision: str
    data: DataFile

    def fetch(self, split: str) -> tuple[DataFile, ...]:  # noqa: ARG002 (the interface has splits)
        """Its only file."""
        return (self.data,)


@cache
def parts() -> tuple[EvalsDataset, ...]:
    """The parts of the sample: 3.1 instruct, 3.1 base, 3.2 instruct, 3.2 base, 3.3 instruct.

    Raises:
        SourceError: The installed package lacks the sample.
    """
    return tuple(_part(identity) for identity in _IDENTITIES)


@cache
def original(name: str) -> OriginalDataset:
    """The original dataset that the sample's rows are joined with by the join of a name.

    Raises:
        SourceError: The installed package lacks the sample, or the sample lacks the original.
    """
    table = tables().get(("originals", name))
    if table is None:
        raise _incomplete(f"originals/{name}")
    data = _data_file(table)
    return SampleOriginal(f"{DATASET_ID}/originals/{name}", _revision((data,)), data)


@cache
def tables() -> Mapping[tuple[str, str], sample_rows.Table]:
    """All subsets and originals, by folder (``<model>-evals`` or ``originals``) and name.

    Raises:
        SourceError: The installed package lacks the sample.
    """
    folder = Path(str(files("meta_eval"))) / "sample"
    try:
        return {(table.folder, table.name): table for table in sample_rows.tables(folder)}
    except OSError as error:
        raise _incomplete(str(error.filename or folder)) from error


def _part(identity: Identity) -> SamplePart:
    folder = f"{identity.model}-evals"
    own = [tables()[key] for key in sorted(tables()) if key[0] == folder]
    data = tuple(_data_file(table) for table in own)
    return SamplePart(identity, data, _revision(data), tuple(table.name for table in own))


def _incomplete(where: str) -> SourceError:
    return SourceError(
        "the embedded sample is not there", where=where, hint="Install meta-eval again: its package is incomplete"
    )


def _data_file(table: sample_rows.Table) -> DataFile:
    content = table.content()
    name = f"{table.folder}/{table.name}.jsonl"
    return DataFile(table.source, name, hashlib.sha256(content).hexdigest(), content)


def _revision(data: tuple[DataFile, ...]) -> str:
    listing = "".join(f"{file.name}\t{file.sha256}\n" for file in data)
    return f"sha256:{hashlib.sha256(listing.encode()).hexdigest()}"
