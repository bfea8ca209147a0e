"""What a user put into a pack, or changed there, brought along into the next one.

What goes is what the manifest lists and nobody changed, and the bytecode of it. All else is somebody's: files of any
kind, links, empty folders. A file is the same file afterwards (a hard link); only where a file system has none, a copy.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from meta_eval.boundary.inputs import sha256_of
from meta_eval.errors import PackError
from meta_eval.notes import log
from meta_eval.pack.manifest import MANIFEST, written_files

_MOUNTS = Path("/proc/self/mountinfo")
_BYTECODE = re.compile(r"(.*/|)__pycache__/([^./]+)\.[^./]+(?:\.opt-\w+)?\.pyc")


def carry_over(old: Path, new: Path, *, late: bool = False) -> None:
    """Bring along what is not there already.

    Args:
        old: A pack, or an empty folder that was given to prepare.
        new: Its successor: what prepare wrote is in it.
        late: ``new`` is in its place already: what has a name that prepare uses gets another name, instead of being
            refused.

    Raises:
        PackError: A folder cannot be read, is another file system's, or a file stands where prepare will write.
        OSError: The disk refuses.
    """
    written = written_files(old) if os.path.lexists(old / MANIFEST) else {}
    ours = {parent.as_posix() for name in written for parent in PurePosixPath(name).parents}
    changed: list[str] = []
    folders: list[str] = []
    for path in walk(old, skip=written):
        name = path.relative_to(old).as_posix()
        if name == MANIFEST or _is_bytecode(name, written):
            continue
        if name in written:
            if not _unchanged(path, written[name]):
                changed.append(name)
        elif path.is_dir() and not path.is_symlink():
            if name not in ours and not (
                path.name == "__pycache__" and path.parent.relative_to(old).as_posix() in ours
            ):
                if not (new / name).is_dir():
                    folders.append(name)
                _make_folder(new / name, path)
        elif not _same(path, new / name):
            if os.path.lexists(new / name):
                if not late:
                    raise _in_the_way(path)
                changed.append(name)
                continue
            _make_folder((new / name).parent, path)
            _bring(path, new / name)
    for name in changed:
        _keep_edit(old / name, new, name)
    for name in reversed(folders):
        shutil.copystat(old / name, new / name)


def walk(folder: Path, *, skip: Mapping[str, str] | None = None, mounts_too: bool = False) -> Iterator[Path]:
    """All that lies below a folder, each folder before what is in it; links are not followed.

    Args:
        folder: Where to begin.
        skip: Names, relative to it, whose inside is not looked into.
        mounts_too: Go into file systems that are mounted there.

    Raises:
        PackError: A folder cannot be read, or is where another file system is mounted.
    """
    device, mounts = folder.stat().st_dev, _mounts()
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            paths = sorted(here.iterdir(), reverse=True)
        except PermissionError:
            raise PackError(
                "cannot be read, and prepare must not lose what it holds",
                where=str(here),
                hint="Make it readable, move it away, or choose another work_dir",
            ) from None
        for path in paths:
            if not mounts_too and (path.lstat().st_dev != device or str(path) in mounts):
                raise PackError(
                    "is another file system, mounted inside work_dir, and prepare replaces the whole folder",
                    where=str(path),
                    hint="Unmount it, or choose another work_dir",
                )
        folders = [path for path in paths if stat.S_ISDIR(path.lstat().st_mode)]
        yield from reversed(paths)
        waiting += [path for path in folders if path.relative_to(folder).as_posix() not in (skip or {})]


def _mounts() -> frozenset[str]:
    """Where file systems are mounted; a folder bound elsewhere on its own file system shows only here."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return frozenset()
    return frozenset(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in lines)


def is_mounted(folder: Path) -> bool:
    """Whether a folder is where a file system is mounted."""
    return os.path.ismount(folder) or os.path.realpath(folder) in _mounts()


def remove(folder: Path) -> None:
    """Delete a folder of which everything is kept elsewhere.

    Raises:
        PackError: It holds what `walk` refuses, or cannot be removed.
    """
    if not os.path.lexists(folder):
        return
    list(walk(folder))
    shutil.rmtree(folder, ignore_errors=True)
    if folder.is_dir():  # a user's folder that was not to be written; what it held is a file of the new pack
        for path in [folder, *walk(folder)]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(folder)


def _unchanged(path: Path, sha256: str) -> bool:
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    return sha256_of(path) == sha256


def _is_bytecode(name: str, written: Mapping[str, str]) -> bool:
    """What Python wrote when it ran a module of the pack."""
    found = _BYTECODE.fullmatch(name)
    return found is not None and f"{found[1]}{found[2]}.py" in written


def _same(one: Path, other: Path) -> bool:
    try:
        if os.path.samestat(one.lstat(), other.lstat()):
            return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
    return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)


def _make_folder(folder: Path, path: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _in_the_way(path) from None


def _in_the_way(path: Path) -> PackError:
    return PackError(
        "was put there by hand, and prepare would write a file of this name",
        where=str(path),
        hint="Move it away, or choose another work_dir",
    )


def _keep_edit(path: Path, new: Path, name: str) -> None:
    """Bring what took the place of prepare's file along as ``NAME.edited``; each edit under a name of its own."""
    number = 1
    while True:
        kept = f"{name}.edited" if number == 1 else f"{name}.edited{number}"
        if _same(path, new / kept):
            return
        if not os.path.lexists(new / kept):
            break
        number += 1
    log.warning(f"{path} was edited by hand: the edit is kept as {kept}")
    _make_folder((new / kept).parent, path)
    if path.is_dir() and not path.is_symlink():
        (new / kept).mkdir()
        for inside in walk(path):
            to = new / kept / inside.relative_to(path)
            if inside.is_dir() and not inside.is_symlink():
                to.mkdir()
            else:
                _bring(inside, to)
    else:
        _bring(path, new / kept)


def _bring(path: Path, to: Path) -> None:
    try:
        os.link(path, to, follow_symlinks=False)
    except OSError:  # a file system without links
        if not (path.is_symlink() or path.is_file()):
            raise PackError(
                "is neither a file, a folder nor a link, and cannot be brought along",
                where=str(path),
                hint="Move it away",
            ) from None
        shutil.copy2(path, to, follow_symlinks=False)
