"""The staging directory: new files of a folder, held by one process at a time.

It contains a lock file (flock(2)), numbered files, and the list of complete files. It is removed at the end. If a
process is killed, it stays until the next process takes over. A foreign folder of the same name is refused, never
emptied.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from meta_eval.base.errors import locating
from meta_eval.base.hashing import hash_file
from meta_eval.base.logs import log
from meta_eval.base.outputs import OutputError
from meta_eval.base.pack_names import is_inside

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
