"""Sends what an engine in this process prints to a file."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

# Guards file descriptors 1 and 2, which threads share.
_turns = threading.RLock()


@contextlib.contextmanager
def redirect_output(file: Path) -> Iterator[None]:
    """Redirect output of this process and its children to a file, at the level of file descriptors: engines also print
    from C++.

    Output of other threads goes there too. Two engines take turns, so that the descriptors are restored.
    """
    with _turns:
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [os.dup(1), os.dup(2)]
        out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            os.dup2(out, 1)
            os.dup2(out, 2)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in enumerate(saved, 1):
                os.dup2(copy, number)
                os.close(copy)
            os.close(out)
