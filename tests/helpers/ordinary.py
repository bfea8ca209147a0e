"""A user without root's rights over files, for tests that root runs, as in CI."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from pathlib import Path

from forked import Forked

# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of linux/capability.h: to pass over the modes of files and folders.
_RIGHTS = (1, 2)
_DROP, _VERSION = 24, 0x20080522  # PR_CAPBSET_DROP of linux/prctl.h, _LINUX_CAPABILITY_VERSION_3
_CODE = (
    "import ordinary, runpy, sys\nordinary.give_up_root()\n"
    "runpy.run_module('meta_eval', run_name='__main__', alter_sys=True)"
)


def give_up_root() -> None:
    """Lose the right to pass over modes, in this process and in all that it starts; nothing where it is not there."""
    libc = ctypes.CDLL(None, use_errno=True)
    for right in _RIGHTS:
        libc.prctl(_DROP, right, 0, 0, 0)
    head, sets = struct.pack("Ii", _VERSION, 0), ctypes.create_string_buffer(24)
    libc.capget(head, sets)
    words = [
        word & ~sum(1 << right for right in _RIGHTS) if at < 3 else word
        for at, word in enumerate(struct.unpack("6I", sets.raw))
    ]
    libc.capset(head, struct.pack("6I", *words))


def ordinary(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``meta-eval`` in a process of its own, without root's rights over files."""
    running = Forked(
        ["-c", _CODE, *arguments], cwd, subprocess.PIPE, {**environment, "PYTHONPATH": str(Path(__file__).parent)},
        parent="all",
    )  # fmt: skip
    out, error = running.communicate()
    return subprocess.CompletedProcess(list(arguments), running.wait(), out, error)
