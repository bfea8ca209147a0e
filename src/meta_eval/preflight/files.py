"""Do manifest and files agree, and is there room for what the run will write?"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from meta_eval.pack.manifest import MANIFEST, Manifest, TaskEntry
from meta_eval.preflight.check import Check, failed, not_checked, passed

_AGAIN = "Run `meta-eval prepare` again, or copy the pack whole"

# A token of Llama 3 is about 4.4 bytes of English; 5 leaves room for other text.
_BYTES_PER_TOKEN = 5
# JSON escapes, metrics, hashes and field names beside the texts, as measured on lm-eval's samples files.
_OVERHEAD = 1.3


def check_files(pack: Path, manifest: Manifest, *, hash_up_to: int | None) -> Iterator[Check]:
    """Every file is there and is what prepare wrote, and no YAML is there that lm_eval would take for a task.

    Args:
        pack: The folder.
        manifest: Its manifest.
        hash_up_to: Bytes; of larger files only the size is looked at. None for no limit.
    """
    good = True
    for name, entry in manifest.files.items():
        path = pack / name
        if not path.is_file():
            good = False
            yield failed("files", f"{path} is missing", _AGAIN)
        elif path.stat().st_size != entry.bytes or (
            (hash_up_to is None or entry.bytes <= hash_up_to) and _sha256(path) != entry.sha256
        ):
            good = False
            yield failed("files", f"{path} is not the file that prepare wrote: it was edited or is damaged", _AGAIN)
    for path in sorted(pack.rglob("*.yaml")):
        name = path.relative_to(pack).as_posix()
        if name not in manifest.files and "__pycache__" not in path.parts:
            good = False
            yield failed("files", f"{path} is not of this pack, and lm_eval takes it for a task", "Move it away")
    if good:
        yield passed("files", f"{len(manifest.files)} files as {MANIFEST} lists them")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_output(pack: Path, manifest: Manifest) -> Iterator[Check]:
    """Results can be written, and the samples files will fit."""
    output = Path(manifest.run.output_path).expanduser()
    folder = output.parent if output.suffix == ".json" else output
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        yield failed("output", f"{there} is a file, and results go into a folder", "Set output_path to a folder")
        return
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        yield failed(
            "output",
            f"{there} cannot be written ({error.strerror})",
            "Set output_path to a folder that can be: lm_eval would only log it, after all has been generated",
        )
        return
    yield passed("output", f"{folder} can be written")
    free = shutil.disk_usage(there).free
    if not manifest.run.log_samples:
        yield not_checked("disk", "log_samples is false, so that next to nothing is written")
        return
    needed = sum(_samples_bytes(pack, entry) for entry in manifest.tasks.values())
    if any(entry.docs_file is None for entry in manifest.tasks.values()):
        yield not_checked("disk", "rows stay on the hub (bundle: false), so that their size is unknown")
    elif needed > free:
        yield failed(
            "disk",
            f"samples may take up to {needed / 1e9:.1f} GB, and {there} has {free / 1e9:.1f} GB free",
            "Free some, or set output_path to a larger disk",
        )
    else:
        yield passed("disk", f"samples take up to {needed / 1e9:.2g} GB, {free / 1e9:.0f} GB are free")


def _samples_bytes(pack: Path, entry: TaskEntry) -> int:
    """An upper bound of the samples file: each line holds the doc, the prompt once more, and the answer twice."""
    import pyarrow.parquet as pq

    if entry.docs_file is None or not (pack / entry.docs_file).is_file():
        return 0
    answer = 2 * _BYTES_PER_TOKEN * entry.longest_prompt.max_gen_toks
    docs = 0
    try:
        with pq.ParquetFile(pack / entry.docs_file) as parquet:
            for batch in parquet.iter_batches(1024):
                docs += batch.nbytes + batch.column("prompt").nbytes + batch.num_rows * answer
    except Exception:  # the files check has said that it is damaged
        return 0
    return int(_OVERHEAD * docs * len(entry.filters))
