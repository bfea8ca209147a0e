"""A folder of our own beside a work_dir, where one process at a time builds what will take its place.

It holds a lock file, which is flock(2)ed, and what is not finished. It goes when its work is done; where a process was
killed it stays until the next one takes it over. A folder of that name that is not ours is refused, never emptied.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from meta_eval.errors import PackError
from meta_eval.notes import log

# What may stand in it: being built; whole, or what was in its place before; what was moved aside for a moment.
NEW, READY, OLD = "new", "ready", "old"

_LOCK = "lock"
_TEXT = b"meta-eval prepare builds a pack here. It removes this folder when it is done, or the next prepare does.\n"
_SECONDS = 600.0
_PAUSE = 0.05


@contextmanager
def workshop(target: Path) -> Iterator[Path]:
    """The folder, held until the block ends.

    Raises:
        PackError: Another process does not let go of it, it is not ours, or there are no locks here.
        OSError: The disk refuses.
    """
    place = target.parent / f".{target.name}.meta-eval"
    lock = _acquire(place, target)
    try:
        yield place
    finally:
        _leave(place)  # while it is held: who waits for this file finds it gone, and makes another
        os.close(lock)


def _acquire(place: Path, target: Path) -> int:
    end, said = time.monotonic() + _SECONDS, False
    while True:
        with suppress(FileExistsError):
            place.mkdir()
        try:
            _check_ours(place)
            lock = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # its holder has just finished
            continue
        if _locked(lock, place, target):
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), (place / _LOCK).lstat()):
                    if not os.fstat(lock).st_size:
                        os.write(lock, _TEXT)
                    return lock
            os.close(lock)
            continue
        os.close(lock)
        if not said:
            log.warning(f"another prepare is writing {target}; waiting for it")
            said = True
        if time.monotonic() > end:
            raise PackError(
                f"another prepare has held it for {_SECONDS:.0f} seconds",
                where=f"work_dir {target}",
                hint="End that one first",
            )
        time.sleep(_PAUSE)


def _locked(lock: int, place: Path, target: Path) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        os.close(lock)
        _leave(place)
        raise PackError(
            f"cannot be locked ({error.strerror}), and two prepares at once would damage it",
            where=f"work_dir {target}",
            hint="Set work_dir to a folder on a file system that has locks, and move the pack afterwards",
        ) from None
    return True


def _leave(place: Path) -> None:
    (place / _LOCK).unlink(missing_ok=True)
    with suppress(OSError):  # another has begun to use it, or something could not be removed
        place.rmdir()


def _check_ours(place: Path) -> None:
    """Whether all in it has a name that we give, beside a lock file of ours.

    Raises:
        PackError: It is somebody's folder.
    """
    names = {path.name for path in place.iterdir()} if place.is_dir() and not place.is_symlink() else {""}
    if names <= {_LOCK, NEW, READY, OLD}:
        if not names:
            return
        with suppress(FileNotFoundError, IsADirectoryError):
            lock = os.open(place / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if stat.S_ISREG(os.fstat(lock).st_mode) and os.read(lock, len(_TEXT) + 1) in (b"", _TEXT):
                    return
            finally:
                os.close(lock)
        if names == {_LOCK} and not (place / _LOCK).exists():  # its holder has just finished
            return
    place.lstat()  # its holder has just finished
    raise PackError(
        "is in the way: prepare builds a pack there, and did not make what it holds",
        where=str(place),
        hint="Move it away, or choose another work_dir",
    )
