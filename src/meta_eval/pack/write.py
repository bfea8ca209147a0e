"""Writing a pack whole or not at all.

The new pack is built beside work_dir, is on the disk (fsync) and takes its place in one step, under a lock. A kill at
any moment leaves the old pack or the new one; what is left lying beside it is swept up by the next prepare. Only what
prepare wrote and nobody changed is replaced: whatever else lies in work_dir moves along (`carry`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from meta_eval.errors import PackError
from meta_eval.pack.carry import carry_over, is_mounted, remove, walk
from meta_eval.pack.manifest import MANIFEST, Manifest, written_files
from meta_eval.pack.workshop import NEW, OLD, READY, workshop

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def check_target(work_dir: Path) -> None:
    """Refuse a work_dir that prepare must not replace.

    Raises:
        PackError: It is a file, a file system's root, holds files but no pack, or the working directory lies in it.
    """
    if not os.path.lexists(work_dir):
        return
    where = f"work_dir {work_dir}"
    if not work_dir.is_dir():
        raise PackError("is a file", where=where, hint="Set work_dir to a folder")
    inside = Path.cwd().resolve()
    if work_dir.resolve() in (inside, *inside.parents):
        raise PackError(
            "the working directory lies in it, and prepare replaces the whole folder",
            where=where,
            hint="Set work_dir to a folder of its own, such as ./work_dir",
        )
    if is_mounted(work_dir):
        raise PackError(
            "is where a file system is mounted, and prepare replaces the whole folder",
            where=where,
            hint=f"Set work_dir to a folder in it, such as {work_dir / 'work_dir'}",
        )
    try:
        holds = any(work_dir.iterdir())
    except OSError as error:
        raise PackError(f"cannot be read ({error.strerror})", where=where) from None
    if not holds:
        return
    if not (work_dir / MANIFEST).is_file():
        raise PackError(
            "holds files and no manifest.json, so prepare did not make it and will not replace it",
            where=where,
            hint="Set work_dir to another folder, or empty this one",
        )
    written_files(work_dir)


def write_pack(work_dir: Path, files: Mapping[str, bytes], manifest: Manifest) -> None:
    """Replace a work_dir by a new pack in one step.

    Args:
        work_dir: The folder; its parent is made if need be.
        files: Content by path inside the pack, the manifest apart.
        manifest: Written last.

    Raises:
        PackError: work_dir is not ours, another prepare does not end, or the disk refuses.
    """
    target = Path(os.path.realpath(work_dir))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with workshop(target) as place:
            new, ready, old = place / NEW, place / READY, place / OLD
            if os.path.lexists(old) and not os.path.lexists(target):
                old.rename(target)  # a kill fell between two renames
            _sweep(place, target)
            check_target(target)
            try:
                _fill(new, files, manifest)
                if (target / MANIFEST).is_file():
                    carry_over(target, new)
                _sync(new)
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise
            new.rename(ready)
            _take_place(ready, old, target)
            _sync_one(target.parent)
            _sweep(place, target)
    except OSError as error:
        raise PackError(f"cannot be written ({error})", where=f"work_dir {work_dir}") from None


def _sweep(place: Path, target: Path) -> None:
    """Remove what was replaced, and what killed prepares left; only what is called `NEW` holds nothing of a user's.

    What came into a pack between the look at it and its replacement goes to its successor.
    """
    remove(place / NEW)
    for whole in (place / READY, place / OLD):
        if os.path.lexists(whole):
            if (target / MANIFEST).is_file():
                carry_over(whole, target, late=True)
            whole.rename(place / NEW)
            remove(place / NEW)


def _fill(folder: Path, files: Mapping[str, bytes], manifest: Manifest) -> None:
    folder.mkdir()
    for name, content in {**files, MANIFEST: manifest.to_json().encode()}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)


def _sync(folder: Path) -> None:
    """Bring a folder and all in it onto the disk, so that the new name never stands for empty files after a crash."""
    for path in walk(folder):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            continue
        _sync_one(path)
    _sync_one(folder)


def _sync_one(path: Path) -> None:
    with suppress(PermissionError):  # a user's file that was brought along as it is
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:  # a folder, on some file systems
                raise
        finally:
            os.close(number)


def _take_place(ready: Path, old: Path, target: Path) -> None:
    """Put ``ready`` where ``target`` is; what was there is then ``ready`` or ``old``."""
    if not os.path.lexists(target):
        ready.rename(target)
    elif not _exchange(ready, target):
        # No exchange on this file system: two renames, between which the next prepare knows the way back.
        target.rename(old)
        ready.rename(target)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two paths in one atomic step; False where the system or the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        failed = libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _EXCHANGE)
    elif sys.platform == "darwin":
        failed = libc.renamex_np(*paths, _EXCHANGE)
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(other))
