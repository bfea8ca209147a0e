"""The local files that a pack was made of, so that a later command sees that they changed.

A pack keeps their paths as the user wrote them, and their hashes. A file that is not there any more says nothing: a
pack is complete, and may lie on a machine without them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from meta_eval.base.errors import UserError
from meta_eval.base.hashing import hash_file
from meta_eval.base.inputs import expand_home
from meta_eval.base.pack_names import COPIED_SUFFIX
from meta_eval.pack.config import Config
from meta_eval.pack.manifest import FileEntry, Manifest, read_manifest
from meta_eval.pack.pack_options import DEFAULT_CONFIG

# Bytes; of a larger file the size alone is compared, so that every command stays quick.
_HASHED = 64 * 2**20

# A folder of more files is no folder of rows that somebody edits.
_MOST = 10_000


def collect_source_files(
    config: Config, manifest: Manifest, opened: Collection[str], others: Iterable[str]
) -> dict[str, FileEntry]:
    """Collect the local files that a pack was made of, by path.

    Args:
        config: The configuration that was prepared.
        manifest: Of the pack.
        opened: Real paths of all files that were opened meanwhile.
        others: Further files, as the user wrote them.
    """
    roots = [os.path.realpath(place) for place in (config.work_dir, Path(config.output_path).expanduser())]
    names = {
        name
        for name in _list_names(config, manifest, opened)
        if not any(Path(os.path.realpath(expand_home(name))).is_relative_to(root) for root in roots)
    }
    files = {}
    for name in sorted({*names, *others})[:_MOST]:
        with suppress(OSError):
            files[name] = _describe(expand_home(name))
    return files


def find_changed_sources(manifest: Manifest) -> list[str]:
    """The local files of which a pack was made, and that have other contents now."""
    changed = []
    for name, entry in islice(manifest.sources.items(), _MOST):
        with suppress(OSError, ValueError, UserError):
            path = expand_home(name)
            if path.is_file() and _describe(path) != entry:
                changed.append(name)
    return changed


def list_sources(pack: Path) -> list[Path]:
    """The local files that a pack was made of, and its configuration. No output may replace them. None of what is no
    pack, which its readers say."""
    with suppress(UserError):
        return [Path(DEFAULT_CONFIG), *map(expand_home, read_manifest(pack).sources)]
    return []


def _describe(path: Path) -> FileEntry:
    size = path.stat().st_size
    return FileEntry(sha256=hash_file(path) if size <= _HASHED else "", bytes=size)


def _list_names(config: Config, manifest: Manifest, opened: Collection[str]) -> Iterator[str]:
    """The opened files of the record and its baseline, and the templates of the tasks; each as its place is written."""
    for place in map(Path, (config.evals_dataset, *config.baseline)):
        root = expand_home(str(place))
        written, folder = (place, root) if root.is_dir() else (place.parent, root.parent)  # requests may lie beside it
        if root.exists():
            real = os.path.realpath(folder)
            # Texts: a search of the installed lm-eval opens thousands of files.
            files = [Path(name) for name in opened if name.startswith(f"{real.rstrip(os.sep)}{os.sep}")]
            yield from (
                str(written / path.relative_to(real)) for path in files if root.is_dir() or path.parent == Path(real)
            )
    templates = expand_home(config.template_dir)
    names = {*manifest.files, *(entry.template for entry in manifest.tasks.values())}
    for name in {name.removesuffix(COPIED_SUFFIX) for name in names}:
        if os.path.realpath(templates / name) in opened:
            yield str(Path(config.template_dir) / name)
