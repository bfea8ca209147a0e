"""The sample that comes with meta-eval: hand-written rows in the layout of Meta's evals datasets.

The package contains it as YAML, of which ``sample_rows`` makes rows. Nothing is downloaded or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.source import sample_rows
from meta_eval.plugins.meta.source.dataset import EvalsDataset, OriginalDataset, Subset
from meta_eval.sockets import DataFile, SourceError, hash_bytes, hash_text

DATASET_ID: Final = "sample"

_IDENTITIES: Final = (
    Identity("Llama-3.1-8B-Instruct", "3.1", "instruct"),
    Identity("Llama-3.1-8B", "3.1", "pretrain"),
    Identity("Llama-3.2-3B-Instruct", "3.2", "instruct"),
    Identity("Llama-3.2-3B", "3.2", "pretrain"),
    Identity("Llama-3.3-70B-Instruct", "3.3", "instruct"),
)


@cache
def list_parts() -> tuple[EvalsDataset, ...]:
    """The parts of the sample: 3.1 instruct, 3.1 base, 3.2 instruct, 3.2 base, 3.3 instruct.

    Raises:
        SourceError: The installed package lacks the sample.
    """
    return tuple(_part(identity) for identity in _IDENTITIES)


@cache
def open_sample_original(name: str) -> OriginalDataset:
    """Open the sample's original dataset for a join.

    Raises:
        SourceError: The installed package lacks the sample, or the sample lacks the original.
    """
    table = read_tables().get(("originals", name))
    if table is None:
        raise _incomplete(f"originals/{name}")
    data = _data_file(table)  # the same for every split
    return OriginalDataset(f"{DATASET_ID}/originals/{name}", _revision((data,)), lambda _: (name,), lambda _: data)


@cache
def read_tables() -> Mapping[tuple[str, str], sample_rows.SampleTable]:
    """All subsets and originals, by folder (``<model>-evals`` or ``originals``) and name.

    Raises:
        SourceError: The installed package lacks the sample.
    """
    folder = Path(str(files("meta_eval.plugins.meta"))) / "sample"
    try:
        return {(table.folder, table.name): table for table in sample_rows.make_tables(folder)}
    except OSError as error:
        raise _incomplete(str(error.filename or folder)) from error


def _part(identity: Identity) -> EvalsDataset:
    folder = f"{identity.model}-evals"
    data = {name: _data_file(read_tables()[of, name]) for of, name in sorted(read_tables()) if of == folder}
    table = {name: Subset(f"{folder}__{name}__details", (name,)) for name in data}
    revision = _revision(tuple(data.values()))
    return EvalsDataset("sample", DATASET_ID, revision, identity, tuple(data), table, data.__getitem__)


def _incomplete(where: str) -> SourceError:
    return SourceError(
        "the embedded sample is missing", where=where, hint="Reinstall meta-eval: the package is incomplete"
    )


def _data_file(table: sample_rows.SampleTable) -> DataFile:
    content = table.content()
    name = f"{table.folder}/{table.name}.jsonl"
    return DataFile(table.source, name, hash_bytes(content), content)


def _revision(data: tuple[DataFile, ...]) -> str:
    listing = "".join(f"{file.name}\t{file.sha256}\n" for file in data)
    return f"sha256:{hash_text(listing)}"
