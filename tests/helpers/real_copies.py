"""Copies of a real model for tests on real engines, kept in the cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from places import REPOSITORY


def make_copies(packages: str, what: str, *names: str) -> list[Path]:
    """Make copies of the model, or find them in the cache."""
    done = subprocess.run(
        [Path(os.environ["META_EVAL_ENGINE"], "bin/python"), REPOSITORY / "tools/real_model.py", what, "--only", *names],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}{os.pathsep}{packages}"},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return [Path(line) for line in done.stdout.splitlines()]
