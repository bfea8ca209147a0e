"""Checks that a pack is unchanged since prepare, before any of its code runs. Only files that affect verdicts count.

The check finds edits, incomplete copies and foreign files. It is not a signature: someone who also changes the manifest
can change everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from meta_eval.base.errors import PackError
from meta_eval.base.hashing import hash_file
from meta_eval.base.inputs import POINTER, is_pointer
from meta_eval.base.ownership import PACK, was_edited
from meta_eval.base.pack_names import join_names
from meta_eval.pack.manifest import MANIFEST, Manifest
from meta_eval.pack.punkt import NLTK_DATA

MISSING = "is missing"
_EDITED = "is not the file that prepare wrote: it was edited or is damaged"
FOREIGN_TASK = "is not of this pack, and lm_eval takes it for a task"
FOREIGN_CODE = "is not of this pack, and its modules may import it"
FOREIGN_DATA = "is not of this pack, and nltk would score with it"

_CODE = (".py", ".pyc", ".so")


def find_changes(pack: Path, manifest: Manifest, *, hash_up_to: int | None = None) -> dict[str, str]:
    """Find the files that are not as prepare wrote them, by path inside the pack.

    Args:
        pack: The folder.
        manifest: Its manifest.
        hash_up_to: Bytes; larger files are compared by size only. None for no limit.

    Raises:
        PackError: A folder of the pack cannot be read.
    """
    changed = {MANIFEST: _EDITED} if was_edited(pack, PACK, MANIFEST) else {}
    for name, entry in manifest.files.items():
        path = pack / name
        if name.startswith(f"{NLTK_DATA}/") and not os.path.lexists(pack / NLTK_DATA):
            continue
        if not path.is_file():
            changed[name] = MISSING
        elif path.stat().st_size != entry.bytes or (
            (hash_up_to is None or entry.bytes <= hash_up_to) and hash_file(path) != entry.sha256
        ):
            changed[name] = f"is {POINTER}" if is_pointer(path) else _EDITED
    with_modules = {PurePosixPath(name).parent for name in manifest.files if name.endswith(".py")}
    for path in _walk(pack):
        name = path.relative_to(pack).as_posix()
        inner = PurePosixPath(name)
        if name in manifest.files or path.is_dir():
            continue
        if inner.suffix == ".yaml":
            changed[name] = FOREIGN_TASK
        elif inner.parts[0] == NLTK_DATA:
            changed[name] = FOREIGN_DATA
        elif inner.suffix in _CODE and inner.parent.name != "__pycache__" and with_modules & set(inner.parents):
            changed[name] = FOREIGN_CODE
    return changed


def check_unchanged(pack: Path, manifest: Manifest, *, edited: bool) -> tuple[str, ...]:
    """Refuse a changed pack, unless the user allows it.

    Args:
        pack: The folder.
        manifest: Its manifest.
        edited: Accept a changed pack.

    Returns:
        The changed files.

    Raises:
        PackError: It was changed, and ``edited`` is False.
    """
    changed = find_changes(pack, manifest)
    if changed and not edited:
        listed = "; ".join(f"{name} {what}" for name, what in sorted(changed.items())[:_MOST])
        more = f"; and {len(changed) - _MOST} more" if len(changed) > _MOST else ""
        keep = "or, to keep your change, add --edited: verify, its baseline and all reports then say so"
        of_docs = not changed.keys().isdisjoint(entry.docs_file for entry in manifest.tasks.values())
        raise PackError(
            f"was changed after prepare, so it was not run: {listed}{more}",
            where=str(pack),
            hint="Move these files away and run `meta-eval prepare`; "
            + ("other docs than the prepared ones are never run, with --edited neither" if of_docs else keep),
        )
    return tuple(sorted(changed))


def describe_edits(pack: Path, manifest: Manifest) -> str | None:
    """The report's note if code or tasks of a pack differ from what prepare wrote.

    Docs are not compared, because a run records which docs it had. Missing files are ignored: a copy of the manifest is
    enough for a report.
    """
    changed = find_changes(pack, manifest, hash_up_to=1 << 20) if pack.is_dir() else {}
    names = sorted(name for name, what in changed.items() if what != MISSING)
    if not names:
        return None
    return f"the pack {pack} was edited after prepare wrote it: {join_names(names)}"


_MOST = 5


def _walk(folder: Path) -> Iterator[Path]:
    """Everything below a folder; links are not followed.

    Raises:
        PackError: A folder cannot be read.
    """
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise PackError(f"cannot be read ({error.strerror})", where=str(folder), hint="Make it readable") from None
    for path in paths:
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
