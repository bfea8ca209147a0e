"""Packs whose every byte says which generation they are of. As a script, a process that writes them."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
from runs import ASKED, RUN, entry

from meta_eval.base.ownership import STAGING
from meta_eval.pack.manifest import SCHEMA_VERSION, FileEntry, Manifest, VersionRange
from meta_eval.pack.pack_builder import write_pack


def manifest_of(files: dict[str, bytes]) -> Manifest:
    entries = {n: FileEntry(sha256=hashlib.sha256(c).hexdigest(), bytes=len(c)) for n, c in files.items()}
    return Manifest(
        schema_version=SCHEMA_VERSION, meta_eval="0", lm_eval=VersionRange(minimum="0", below="1"), prepared_from=ASKED, run_settings=RUN,
        originals={}, tasks={"meta_some": entry(1, docs_file=None)}, groups={}, command=(), files=entries,
    )  # fmt: skip


def write_generation(work_dir: Path, generation: int, names: int = 8) -> None:
    files = {f"folder{n % 4}/file{n}": f"{generation}\n".encode() * 200 for n in range(names)}
    write_pack(work_dir, files, manifest_of(files))


def started(work_dir: Path, *words: object) -> forked.Forked:
    """Start a process with the arguments of `main`. It is forked off a Python without threads, so it starts at once."""
    path = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    parent = forked.parent(sys.executable, "runs", "meta_eval.pack.pack_builder", PYTHONPATH=environment["PYTHONPATH"])
    arguments = [__file__, str(work_dir), *map(str, words)]
    return forked.Forked(arguments, ".", subprocess.PIPE, environment, parent=parent)


def main(work_dir: Path, generation: int, step: int | None) -> None:
    """Write generations, each two after the one before; with a step only one, until a kill at this step."""
    if step is None:
        while True:
            write_generation(work_dir, generation, names=40)
            generation += 2
    steps = iter(range(1000))

    def at_step(real: Callable[..., Any]) -> Callable[..., Any]:
        def killed(*words: Any, **keys: Any) -> Any:
            if (work_dir / STAGING / "ready").exists() and next(steps) >= step:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*words, **keys)

        return killed

    Path.unlink, Path.rename = at_step(Path.unlink), at_step(Path.rename)  # type: ignore[method-assign]
    write_generation(work_dir, generation, names=4)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
