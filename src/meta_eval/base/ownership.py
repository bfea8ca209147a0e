"""The rule for output folders: replace or remove only our own, unchanged files.

A list in the folder (in the format of sha256sum) names the files that a command wrote. A file with its listed SHA-256
is ours. Files that a user added or edited stay. If a new file would replace such a file, the command stops before it
changes anything.

New files are first staged inside the folder, under names that are neither tasks nor modules. When all are on disk, the
old files are removed and the new ones moved into place. Nobody sees a mixture. If a command is killed in between, the
next command that opens the folder finishes the work.

One process at a time holds the staging directory. It contains a lock file (flock(2)), numbered files, and the list of
complete files. It is removed at the end. If a process is killed, it stays until the next process takes over. A foreign
folder of the same name is refused, never emptied.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO

from meta_eval.base.errors import FULL_DISK, locating
from meta_eval.base.hashing import hash_file
from meta_eval.base.inputs import InputError, read_text
from meta_eval.base.logs import log
from meta_eval.base.outputs import OutputError, make_folder
from meta_eval.base.pack_names import is_inside, join_names

STAGING = ".meta-eval.new"
LIST, READY = "list", "ready"  # the list while it is written, and after all its files are on disk
_LOCK = "lock"
_TEXT = b"meta-eval writes files here. It removes this folder when it is done, or the next command does.\n"
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_SECONDS, _PAUSE = 600.0, 0.05


class NewFiles:
    """Files that are being written for a folder."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.names: list[str] = []

    def write(self, name: str, content: bytes) -> None:
        """Write a whole file. ``name`` is its path in the folder, with ``/``."""
        with self._staged(name).open("xb") as file:
            file.write(content)

    @contextmanager
    def create(self, name: str) -> Iterator[IO[str]]:
        """Open a UTF-8 text file for writing."""
        with self._staged(name).open("x", encoding="utf-8", newline="\n") as file:
            yield file

    def sums(self) -> dict[str, str]:
        """Sync all files to disk, and return the SHA-256 (hex) of each."""
        for number in range(len(self.names)):  # syncing the first file mostly syncs the others too
            sync_to_disk(self._place / str(number))
        return {name: hash_file(self._place / str(number)) for number, name in enumerate(self.names)}

    def _staged(self, name: str) -> Path:
        if not is_inside(name):
            raise ValueError(f"{name!r} points outside the folder")
        if name in self.names:
            raise ValueError(f"{name!r} is written twice")
        self.names.append(name)
        return self._place / str(len(self.names) - 1)


def is_staged(name: str) -> bool:
    """Whether a name is a staged file or the unfinished list of them."""
    return name == LIST or name.isdecimal()


def sync_to_disk(path: Path) -> None:
    """Sync a file or folder to disk. Without this, a crash could leave a new name with an empty file.

    Raises:
        OSError: Syncing fails.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:  # some file systems cannot sync a folder
            raise
    finally:
        os.close(number)


@contextmanager
def hold_staging(target: Path, where: str) -> Iterator[Path]:
    """Hold the staging directory of a folder. One process at a time holds it.

    Raises:
        OutputError: Another process holds it too long, it is not ours, or the file system has no locks.
        OSError: The file system refuses.
    """
    place = target / STAGING
    with locating(where):
        lock = _acquire(place)
    try:
        try:
            yield place
        finally:
            _leave(place)  # remove while held: waiting processes notice and make a new directory
    finally:
        os.close(lock)


def _acquire(place: Path) -> int:
    end, announced = time.monotonic() + _SECONDS, False
    while True:
        with suppress(FileExistsError):
            place.mkdir()
        try:
            _check_ours(place)
            lock = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # the holder has just finished
            continue
        if _is_locked(lock, place):
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), (place / _LOCK).lstat()):
                    if not os.fstat(lock).st_size:
                        os.write(lock, _TEXT)
                    return lock
            os.close(lock)
            continue
        os.close(lock)
        if not announced:
            log.warning(f"another meta-eval is writing {place.parent}; waiting for it")
            announced = True
        if time.monotonic() > end:
            raise OutputError(
                f"another meta-eval has been writing it for {_SECONDS:.0f} seconds",
                hint="Wait until it ends, or end it",
            )
        time.sleep(_PAUSE)


def _is_locked(lock: int, place: Path) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        os.close(lock)
        _leave(place)
        raise OutputError(
            f"cannot be locked ({error.strerror}), and two commands at once could damage it",
            hint="Name a folder on a file system with locks, and move it afterwards",
        ) from None
    return True


def _leave(place: Path) -> None:
    """Remove the staged files, unless they are complete and must be finished."""
    with suppress(OSError):  # another process uses it already, or a file could not be removed
        if not (place / READY).exists():
            for path in place.iterdir():
                if is_staged(path.name):
                    path.unlink()
        (place / _LOCK).unlink(missing_ok=True)
        place.rmdir()


def _check_ours(place: Path) -> None:
    """Check that the directory has our lock file and only names that we give.

    Raises:
        OutputError: It is a foreign folder.
    """
    names = {path.name for path in place.iterdir()} if place.is_dir() and not place.is_symlink() else {""}
    if all(name in (_LOCK, READY) or is_staged(name) for name in names):
        if not names:
            return
        with suppress(FileNotFoundError, IsADirectoryError):
            lock = os.open(place / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if stat.S_ISREG(os.fstat(lock).st_mode) and os.read(lock, len(_TEXT) + 1) in (b"", _TEXT):
                    return
            finally:
                os.close(lock)
        if not (place / _LOCK).exists():  # the holder has just finished
            return
    place.lstat()  # the holder has just finished
    raise OutputError(
        "holds files that meta-eval did not make, where it needs to write",
        where=str(place),
        hint="Move it away, or name another folder",
    )


_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_KIND = re.compile(r"[a-z_]{1,40}")


def list_name(kind: str) -> str:
    """The name of the list of files that a kind of command wrote."""
    return f".meta-eval.{kind}.sha256"


# The kind of command that writes packs.
PACK = "pack"


def was_edited(folder: Path, kind: str, name: str) -> bool:
    """Whether a file of a folder is listed there with other contents than it has.

    Raises:
        OutputError: The list is invalid.
        OSError: The file cannot be read.
    """
    listed = _read_list(folder / list_name(kind)).get(name)
    return listed is not None and hash_file(folder / name) != listed


def check_folder(
    folder: Path, kind: str, *, names: Iterable[str] = (), where: str | None = None, shared: bool = False
) -> None:
    """Refuse, before any work, a folder with foreign files that would be replaced or do not belong there.

    Args:
        folder: The folder. It may be missing.
        kind: The kind of command that will write.
        names: Files that it will always write.
        where: The folder's name in messages. None means its path.
        shared: Whether foreign files may be in the folder too.

    Raises:
        OutputError: It is not a folder, cannot be read, or holds such files.
    """
    where = where or str(folder)
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise OutputError("is not a folder", where=where, hint="Name a folder or a new path")
    try:
        existing = {path.name for path in folder.iterdir()} - {STAGING}
    except OSError as error:
        raise OutputError(f"cannot be read ({error.strerror})", where=where) from None
    if existing and list_name(kind) not in existing and not shared:
        raise OutputError(
            f"holds files and no {list_name(kind)}, so meta-eval did not write them and adds nothing",
            where=where,
            hint="Name another folder, or empty this one",
        )
    written_files = _read_list(folder / list_name(kind))
    target = Path(os.path.realpath(folder))
    with locating(where):
        _refuse([name for name in names if not _is_free(target, name, written_files.get(name, ""))])


@contextmanager
def replace_folder(
    folder: Path, kind: str, *, where: str | None = None, shared: bool = False, keep: bool = False
) -> Iterator[NewFiles]:
    """Collect files that replace ours in a folder when the block succeeds. Otherwise nothing changes.

    Args:
        folder: The folder. Created if missing.
        kind: The kind of command. Each kind replaces only its own files.
        where: The folder's name in messages. None means its path.
        shared: Whether foreign files may be in the folder too.
        keep: Whether our other files stay.

    Raises:
        OutputError: A foreign file is in the way, another command holds the folder too long, or writing fails.
    """
    target, where = Path(os.path.realpath(folder)), where or str(folder)
    check_folder(folder, kind, where=where, shared=shared)
    exists = target.is_dir()
    try:
        make_folder(target)
        with hold_staging(target, where) as place:
            _finish(target, place)
            check_folder(target, kind, where=where, shared=shared)
            new = NewFiles(place)
            yield new
            written_files = _read_list(target / list_name(kind))
            sums = new.sums()
            with locating(where):
                _refuse_clash(sums)
                _refuse([name for name in sums if not _is_free(target, name, written_files.get(name, ""), sums[name])])
            _write_list(place, kind, {**sums, **(written_files if keep else {}), **sums})
            _finish(target, place)
    except OSError as error:
        raise OutputError(
            f"cannot be written ({error.strerror or error})",
            where=where,
            hint=None if error.errno in FULL_DISK else "Make it writable, or name another folder",
        ) from None
    finally:
        if not exists:
            with suppress(OSError):  # not empty: the block succeeded
                target.rmdir()


def finish_folder(folder: Path) -> None:
    """Finish the write of a command that was killed while it moved complete files into place.

    Raises:
        OutputError: Another command holds the folder too long, or its staged files are not ours.
    """
    target = Path(os.path.realpath(folder))
    if (target / STAGING / READY).is_file():
        with suppress(OSError), hold_staging(target, str(folder)) as place:  # OSError: the folder is read-only
            _finish(target, place)


def _finish(target: Path, place: Path) -> None:
    """Move complete staged files into place, even if some are there already. Discard incomplete ones."""
    ready = place / READY
    if not ready.is_file():
        for path in place.iterdir():
            if is_staged(path.name):
                path.unlink()
        return
    kind, _, text = read_text(ready).partition("\n")
    new = _parsed(text, ready)
    if not _KIND.fullmatch(kind):
        raise OutputError("was not written by meta-eval", where=str(ready), hint=f"Delete {place}")
    written_files = _read_list(target / list_name(kind))
    edited = _remove_old(target, written_files, new) + _put_new(target, place, new)
    _remove_empty({target / name for name in written_files}, target)
    for parent in {(target / name).parent for name in new}:
        sync_to_disk(parent)
    (place / LIST).write_text(text, encoding="utf-8")
    (place / LIST).rename(target / list_name(kind))
    ready.unlink()
    if edited:
        log.warning(
            f"{target}: kept these files, because they were edited after meta-eval wrote them: {join_names(edited)}"
        )


def _remove_old(target: Path, written_files: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Remove old files, except files that a user changed."""
    edited = []
    for name, sha256 in written_files.items():
        if new.get(name) == sha256:
            continue
        if _has(target / name, sha256):
            _remove(target / name)
        elif os.path.lexists(target / name) and name not in new:
            edited.append(name)
    return edited


def _put_new(target: Path, place: Path, new: Mapping[str, str]) -> list[str]:
    """Move staged files into place, but never over a file that someone has just written.

    An equal module is replaced too: it may import a changed module, and Python reloads only new files.
    """
    edited = []
    for number, (name, sha256) in enumerate(new.items()):
        staged, path = place / str(number), target / name
        if not staged.exists():
            continue
        if name.endswith(".py") and _has(path, sha256):
            staged.replace(path)
        elif os.path.lexists(path) or not _is_free(target, name):
            staged.unlink()
            edited += [] if _has(path, sha256) else [name]
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(path)
    return edited


def _write_list(place: Path, kind: str, sums: Mapping[str, str]) -> None:
    text = "".join(f"{sha256}  {name}\n" for name, sha256 in sums.items())
    with (place / LIST).open("w", encoding="utf-8") as file:
        file.write(f"{kind}\n{text}")
        file.flush()
        os.fsync(file.fileno())
    sync_to_disk(place)
    (place / LIST).rename(place / READY)
    sync_to_disk(place)


def _read_list(path: Path) -> dict[str, str]:
    """Read the SHA-256 of each listed file, by path. Empty if there is no list.

    Raises:
        OutputError: The list is invalid.
    """
    if not os.path.lexists(path):
        return {}
    try:
        return _parsed(read_text(path), path)
    except InputError as error:
        raise OutputError(error.what, where=str(path), hint="Move this folder away, or name another") from None


def _parsed(text: str, path: Path) -> dict[str, str]:
    lines = [_LINE.fullmatch(line) for line in text.split("\n") if line]
    hashes = {line[2]: line[1] for line in lines if line is not None and _may_be_ours(line[2])}
    if len(hashes) < len(lines):
        raise OutputError(
            "does not list the files that meta-eval wrote here, so none is replaced",
            where=str(path),
            hint="Move this folder away, or name another",
        )
    return hashes


def _may_be_ours(name: str) -> bool:
    """Whether a list may name this file. A cloned list is foreign and must not reach into ``.git``."""
    return is_inside(name) and not any(part.startswith(".") for part in PurePosixPath(name).parts[:-1])


def _has(path: Path, sha256: str) -> bool:
    """Whether a path is a regular file, not a link, with this content."""
    try:
        plain = stat.S_ISREG(path.lstat().st_mode) and Path(os.path.realpath(path.parent)) == path.parent
        return plain and hash_file(path) == sha256
    except OSError:
        return False


def _is_free(target: Path, name: str, *contents: str) -> bool:
    """Whether a file may be written: it is missing or has a known content, and is not a link."""
    path = target / name
    above = [folder for folder in path.parents if target in folder.parents and os.path.lexists(folder)]
    if any(folder.is_symlink() or not folder.is_dir() for folder in above):
        return False
    return not os.path.lexists(path) or any(_has(path, sha256) for sha256 in contents)


def _refuse(names: list[str]) -> None:
    """Raises:
    OutputError: The list of names is not empty.
    """
    if names:
        raise OutputError(
            f"{join_names(names)} would be replaced, but was edited or added by hand",
            hint="Move it away or delete it, or name another folder",
        )


def _refuse_clash(names: Iterable[str]) -> None:
    files = set(names)
    for name in files:
        if above := files & {parent.as_posix() for parent in PurePosixPath(name).parents}:
            raise OutputError(f"cannot be written: {above.pop()} is a file, and {name} needs it to be a folder")


def _remove(path: Path) -> None:
    """Remove a file of ours and its bytecode."""
    path.unlink()
    if path.suffix == ".py":
        compiled = re.compile(rf"{re.escape(path.stem)}\.[^./]+(\.opt-\w+)?\.pyc")
        with suppress(OSError):
            for bytecode in (path.parent / "__pycache__").iterdir():
                if compiled.fullmatch(bytecode.name):
                    bytecode.unlink()
        with suppress(OSError):
            (path.parent / "__pycache__").rmdir()


def _remove_empty(files: Iterable[Path], target: Path) -> None:
    """Remove folders of our files that are now empty."""
    folders = {folder for path in files for folder in path.parents if target in folder.parents}
    for folder in sorted(folders, reverse=True):  # inner folders first
        with suppress(OSError):  # not empty
            folder.rmdir()
