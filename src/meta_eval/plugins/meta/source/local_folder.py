"""Reads datasets in a local folder: a hub snapshot in its exact layout, or plain ``<subset>.parquet`` files.

The revision is ``sha256:`` and the digest of a line per data file, sorted by name. A line is the name inside the
dataset, a tab, the hex SHA-256 of the content, and a newline. Only data files count: renaming the folder or editing the
README keeps the revision. Computing it reads all data files once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_eval.base.hashing import hash_bytes, hash_file
from meta_eval.base.inputs import expand_home
from meta_eval.pack.hub import DataFile
from meta_eval.pack.records.format_registry import explain_unreadable
from meta_eval.plugins.meta.catalog.dataset_names import NOBODY, Identity, merge_identities
from meta_eval.plugins.meta.source import card as cards
from meta_eval.plugins.meta.source.dataset import EvalsDataset, OriginalDataset
from meta_eval.sockets import SourceError, locating, read_regular

_MOST_FILES = 100_000
_HINT = "Name a .parquet, .jsonl or .json file, or a folder of them"


def open_evals_dataset(folder: str, *, identity: Identity) -> EvalsDataset:
    """An evals dataset in a folder.

    Args:
        folder: The folder as the user wrote it.
        identity: The model that it belongs to. If unknown, config names such as
            ``Llama-3.1-8B-Instruct-evals__mmlu_pro__details`` or the folder's name may show it.

    Raises:
        SourceError: It is not a folder, cannot be read, or has no subset.
    """
    root = expand_home(folder)
    if root.exists() and not root.is_dir():
        raise explain_unreadable(folder, where="evals_dataset")
    with locating(folder):
        names = _names(root)
        card = _card(root, names)
        table, warnings = cards.find_subsets(card, names)
    present = set(names)
    metrics = tuple(name for name in cards.find_metrics(card, names) if name in present)
    complete = tuple(sorted(subset for subset, entry in table.items() if present.issuperset(entry.files)))
    if not complete:
        for entry in table.values():
            _Files({}, folder).get(next(name for name in entry.files if name not in present))
        raise explain_unreadable(folder, where="evals_dataset")
    if identity == NOBODY:
        identity = merge_identities(entry.config for entry in table.values())
        if identity.model is None:
            identity = merge_identities([root.resolve().name])
    with locating(folder):
        by_name = _hash(root, sorted({*metrics, *(name for subset in complete for name in table[subset].files)}))
    files = _Files(by_name, folder)
    return EvalsDataset("folder", folder, _revision(files), identity, complete, table, files.get, warnings, metrics)


def lists_subsets(root: Path, names: Sequence[str]) -> bool:
    """Whether the card of a folder with these files lists subsets, wherever their own files are.

    Raises:
        SourceError: The card cannot be read, or is ambiguous.
    """
    return bool(cards.find_subsets(_card(root, names), names)[0])


def open_original(folder_or_file: str) -> OriginalDataset:
    """Open an original dataset: a folder, or a single file that serves as every split.

    Raises:
        SourceError: It does not exist, cannot be read, or has no data file.
    """
    root = expand_home(folder_or_file)
    with locating(folder_or_file):
        if root.is_file():
            files = _Files(_hash(root.parent, [root.name]), folder_or_file)
            return OriginalDataset(folder_or_file, _revision(files), lambda _split: (root.name,), files.get)
        if root.exists() and not root.is_dir():
            raise SourceError("is neither a regular file nor a folder", hint=_HINT)
        names = _names(root)
        text = _card(root, names)
        files = _Files(_hash(root, [name for name in names if cards.is_data_file(name)]), folder_or_file)
        if not files.by_name:
            raise SourceError("holds no data file", hint=_HINT)
    return OriginalDataset(
        folder_or_file,
        _revision(files),
        lambda split: cards.split_files(text, names, split),
        files.get,
    )


@dataclass(frozen=True, slots=True)
class _Files:
    """The data files of a folder by name."""

    by_name: Mapping[str, DataFile]
    where: str

    def get(self, name: str) -> DataFile:
        if name not in self.by_name:
            raise SourceError(
                f"{name} is missing, and {cards.CARD} lists it",
                where=self.where,
                hint="Copy the file into the folder, or fetch the snapshot again",
            )
        return self.by_name[name]


def _names(root: Path) -> tuple[str, ...]:
    """All files below a folder, sorted. Hidden folders, where downloads keep metadata, are skipped."""
    if not root.is_dir():
        raise SourceError("there is no such folder", hint="Name a folder, or a dataset id on the hub")
    names: list[str] = []

    def refuse(error: OSError) -> None:
        raise _unreadable(error, root) from error

    for folder, subfolders, files in os.walk(root, onerror=refuse):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if len(names) > _MOST_FILES:
            raise SourceError(f"holds more than {_MOST_FILES:,} files", hint="Name the folder of one dataset")
        names += [(Path(folder) / name).relative_to(root).as_posix() for name in files if not name.startswith(".")]
    return tuple(sorted(names))


def _card(root: Path, names: Iterable[str]) -> str | None:
    if cards.CARD not in names:
        return None
    try:
        return read_regular(root / cards.CARD, limit=cards.MAX_CARD_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise _unreadable(error, root) from error


def _hash(root: Path, names: Iterable[str]) -> dict[str, DataFile]:
    files: dict[str, DataFile] = {}
    for name in names:
        try:
            digest = hash_file(root / name)
        except OSError as error:
            raise _unreadable(error, root) from error
        files[name] = DataFile(root / name, name, digest)
    return files


def _revision(files: _Files) -> str:
    lines = "".join(f"{name}\t{file.sha256}\n" for name, file in sorted(files.by_name.items()))
    return "sha256:" + hash_bytes(lines.encode("utf-8", "surrogateescape"))


def _unreadable(error: OSError, root: Path) -> SourceError:
    inside = os.path.relpath(error.filename, root) if error.filename else "."
    name = "" if inside == "." else f"{inside}: "
    return SourceError(f"cannot be read: {name}{error.strerror or error}", hint="Check the permissions and the disk")
