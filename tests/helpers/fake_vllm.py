"""A program ``vllm`` whose ``vllm serve MODEL --port N …`` is the fake server, with a process of its own as an engine."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from places import HELPERS


def write_vllm(folder: Path) -> Path:
    """The program in a folder that is to be on PATH; what it was started with goes to ``arguments`` beside it."""
    folder.mkdir()
    program = folder / "vllm"
    program.write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" >'{folder}/arguments'\n"
        f"PYTHONPATH='{HELPERS}' exec '{sys.executable}' '{Path(__file__)}' \"$@\"\n"
    )
    program.chmod(0o755)
    return folder


def main(arguments: list[str]) -> None:
    from fake_server import FakeServer

    if "--fail" in arguments:
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    # In a group of its own, as a worker may be, and deaf to what a terminal says.
    worker = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", worker, *arguments], start_new_session=True)
    port = int(arguments[arguments.index("--port") + 1])
    with FakeServer(port=port, model=arguments[1], seconds=0.2 if "--slow" in arguments else 0.0):
        print("ready", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1:])
