"""The sample that comes with meta-eval: hand-written rows in the layout of Meta's evals datasets.

The package contains it as YAML, of which ``sample_rows`` makes rows. Nothing is downloaded or written.

``index.json`` beside the YAML has the hash of every table. The revisions are made of these, so a table is made only
when it is read. Rows that are not those of the index are refused; ``make generate`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Final

from meta_eval.base.hashing import hash_bytes, hash_text
from meta_eval.pack.hub import DataFile
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.source import sample_rows
from meta_eval.plugins.meta.source.dataset import EvalsDataset, OriginalDataset, Subset
from meta_eval.sockets import SourceError, read_regular

DATASET_ID: Final = "sample"

INDEX: Final = "index.json"

_IDENTITIES: Final = (
    Identity("Llama-3.1-8B-Instruct", "3.1", "instruct"),
    Identity("Llama-3.1-8B", "3.1", "pretrain"),
    Identity("Llama-3.2-3B-Instruct", "3.2", "instruct"),
    Identity("Llama-3.2-3B", "3.2", "pretrain"),
    Identity("Llama-3.3-70B-Instruct", "3.3", "instruct"),
)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A table of the sample, as the index has it."""

    source: str
    """The name of the YAML file that defines it."""

    sha256: str
    """Of its rows as JSON lines."""


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
    if f"originals/{name}" not in read_index():
        raise _incomplete(f"originals/{name}")
    revision = _revision("originals", (name,))  # the same for every split
    return OriginalDataset(
        f"{DATASET_ID}/originals/{name}", revision, lambda _: (name,), partial(_data_file, "originals")
    )


@cache
def read_index() -> Mapping[str, IndexEntry]:
    """All subsets and originals by ``<model>-evals/NAME`` or ``originals/NAME``, sorted.

    Raises:
        SourceError: The installed package lacks the sample.
    """
    try:
        return {name: IndexEntry(**entry) for name, entry in json.loads(read_regular(_folder() / INDEX)).items()}
    except OSError as error:
        raise _incomplete(str(error.filename or INDEX)) from error


def make_index() -> str:
    """The content of the index, of the rows that the YAML files define."""
    entries = {
        f"{folder}/{name}": asdict(IndexEntry(table.source.name, hash_bytes(table.content())))
        for (folder, name), table in sorted(read_tables().items())
    }
    return json.dumps(entries, indent=1) + "\n"


@cache
def read_tables() -> Mapping[tuple[str, str], sample_rows.SampleTable]:
    """All subsets and originals, by folder (``<model>-evals`` or ``originals``) and name.

    Raises:
        SourceError: The installed package lacks the sample.
    """
    sources = sample_rows.list_sources(_folder())
    return {key: table for source in sources for key, table in _read_source(source).items()}


@cache
def _read_source(source: str) -> Mapping[tuple[str, str], sample_rows.SampleTable]:
    """The tables that a YAML file defines."""
    try:
        return {(table.folder, table.name): table for table in sample_rows.make_tables(_folder() / source)}
    except OSError as error:
        raise _incomplete(str(error.filename or source)) from error


def _folder() -> Path:
    return Path(str(files("meta_eval.plugins.meta"))) / "sample"


def _part(identity: Identity) -> EvalsDataset:
    folder = f"{identity.model}-evals"
    names = tuple(name.partition("/")[2] for name in read_index() if name.startswith(f"{folder}/"))
    table = {name: Subset(f"{folder}__{name}__details", (name,)) for name in names}
    return EvalsDataset(
        "sample", DATASET_ID, _revision(folder, names), identity, names, table, partial(_data_file, folder)
    )


def _incomplete(where: str) -> SourceError:
    return SourceError(
        "the embedded sample is missing", where=where, hint="Reinstall meta-eval: the package is incomplete"
    )


def _data_file(folder: str, name: str) -> DataFile:
    """Make a table.

    Raises:
        SourceError: Its rows are not those of the index.
    """
    entry = read_index()[f"{folder}/{name}"]
    table = _read_source(entry.source).get((folder, name))
    content = table.content() if table else b""
    if table is None or hash_bytes(content) != entry.sha256:
        raise SourceError(
            "has other rows than the index of the sample says", where=f"{folder}/{name}",
            hint="Reinstall meta-eval; or, after a change of the sample, run `make generate`",
        )  # fmt: skip
    return DataFile(table.source, f"{folder}/{name}.jsonl", entry.sha256, content)


def _revision(folder: str, names: tuple[str, ...]) -> str:
    listing = "".join(f"{folder}/{name}.jsonl\t{read_index()[f'{folder}/{name}'].sha256}\n" for name in names)
    return f"sha256:{hash_text(listing)}"
