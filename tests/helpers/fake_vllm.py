"""A program ``vllm`` whose ``vllm serve MODEL --port N …`` is the fake server with a separate engine process.

FAKE_VLLM_SECONDS is the time of each answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from places import HELPERS


def write_vllm(folder: Path) -> Path:
    """Write the program into a folder for PATH. It writes its arguments to ``arguments`` next to it."""
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
    # In its own process group, as a worker may be, and on request it ignores all signals but SIGKILL.
    deaf = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; " if "--deaf" in arguments else ""
    worker = [sys.executable, "-ISc", f"{deaf}import time; time.sleep(600)", *arguments]
    subprocess.Popen(worker, start_new_session=True, stderr=subprocess.DEVNULL)
    port, seconds = int(arguments[arguments.index("--port") + 1]), float(os.environ.get("FAKE_VLLM_SECONDS", "0"))
    with FakeServer(port=port, model=arguments[1], seconds=seconds):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1:])
