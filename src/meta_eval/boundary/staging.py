"""New files of a folder while they are made: a folder in it that one process at a time holds.

It holds a lock file, which is flock(2)ed, files under numbers, and the list of what is ready. It goes when the work is
done. Where a process was killed it stays until the next one takes it over. A folder of that name that is not ours is
refused, never emptied.
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

from meta_eval.boundary.hashing import hash_file
from meta_eval.boundary.outputs import OutputError
from meta_eval.boundary.pack_names import stays_inside
from meta_eval.messages.errors import locating
from meta_eval.messages.logs import log

STAGING = ".meta-eval.new"
LIST, READY = "list", "ready"  # while it is written, and when all that it names is on the disk
_LOCK = "lock"
_TEXT = b"meta-eval writes files here. It removes this folder when it is done, or the next command does.\n"
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_SECONDS, _PAUSE = 600.0, 0.05


class NewFiles:
    """Files that are being made for a folder."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.names: list[str] = []
        self.optional: set[str] = set()

    def write(self, name: str, content: bytes, *, optional: bool = False) -> None:
        """A file whole; ``name`` is its path in the folder, with ``/``.

        An optional one gives way to what somebody put there or edited.
        """
        self.optional |= {name} if optional else set()
        with self._staged(name).open("xb") as file:
            file.write(content)

    @contextmanager
    def create(self, name: str) -> Iterator[IO[str]]:
        """A file of text (UTF-8), piece by piece."""
        with self._staged(name).open("x", encoding="utf-8", newline="\n") as file:
            yield file

    def drop(self, name: str) -> None:
        """Forget a file; the last one takes its number."""
        number, last = self.names.index(name), len(self.names) - 1
        (self._place / str(number)).unlink()
        if number < last:
            (self._place / str(last)).rename(self._place / str(number))
            self.names[number] = self.names[last]
        del self.names[last]

    def sums(self) -> dict[str, str]:
        """The SHA-256 of each, hex; all are on the disk then."""
        for number in range(len(self.names)):  # the first takes most of the others along
            sync_to_disk(self._place / str(number))
        return {name: hash_file(self._place / str(number)) for number, name in enumerate(self.names)}

    def _staged(self, name: str) -> Path:
        if not stays_inside(name):
            raise ValueError(f"{name!r} points outside the folder")
        if name in self.names:
            raise ValueError(f"{name!r} is written twice")
        self.names.append(name)
        return self._place / str(len(self.names) - 1)


def is_staged(name: str) -> bool:
    """Whether a file of the folder is one that nobody needs until it is ready."""
    return name == LIST or name.isdecimal()


def sync_to_disk(path: Path) -> None:
    """Bring a file or folder onto the disk, so that no new name stands for an empty file after a crash.

    Raises:
        OSError: The disk refuses.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:  # a folder, on some file systems
            raise
    finally:
        os.close(number)


@contextmanager
def hold_staging(target: Path, where: str) -> Iterator[Path]:
    """The folder for new files, which one process at a time holds.

    Raises:
        OutputError: Another process does not let go of it, it is not ours, or there are no locks here.
        OSError: The disk refuses.
    """
    place = target / STAGING
    with locating(where):
        lock = _acquire(place)
    try:
        try:
            yield place
        finally:
            _leave(place)  # while it is held: who waits for this file finds it gone, and makes another
    finally:
        os.close(lock)


def _acquire(place: Path) -> int:
    end, said = time.monotonic() + _SECONDS, False
    while True:
        with suppress(FileExistsError):
            place.mkdir()
        try:
            _check_ours(place)
            lock = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # its holder has just finished
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
        if not said:
            log.warning(f"another meta-eval is writing {place.parent}; waiting for it")
            said = True
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
    """Remove what is staged, unless it is ready and somebody is to finish it."""
    with suppress(OSError):  # another has begun to use it, or something could not be removed
        if not (place / READY).exists():
            for path in place.iterdir():
                if is_staged(path.name):
                    path.unlink()
        (place / _LOCK).unlink(missing_ok=True)
        place.rmdir()


def _check_ours(place: Path) -> None:
    """Whether all in it has a name that we give, beside a lock file of ours.

    Raises:
        OutputError: It is somebody's folder.
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
        if not (place / _LOCK).exists():  # its holder has just finished
            return
    place.lstat()  # its holder has just finished
    raise OutputError(
        "holds files that meta-eval did not make, where it needs to write",
        where=str(place),
        hint="Move it away, or name another folder",
    )
