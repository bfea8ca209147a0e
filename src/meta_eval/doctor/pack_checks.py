"""Checks a pack and this machine in seconds, without a GPU."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from meta_eval.base.display import plural
from meta_eval.base.errors import PackError
from meta_eval.base.inputs import open_parquet
from meta_eval.doctor.check import CheckedPack, Finding, failed, not_checked, passed, run_checks
from meta_eval.doctor.environment_checks import check_environment, check_version
from meta_eval.doctor.lm_eval_probe import start_probe
from meta_eval.doctor.prompt_checks import check_prompts, read_prompts
from meta_eval.pack import integrity
from meta_eval.pack.manifest import MANIFEST, Manifest, TaskEntry, read_manifest

_AGAIN = "Run `meta-eval prepare` again, or copy the pack whole"

# English has about 4.4 bytes per token of Llama 3. The rest is a reserve for other text.
_BYTES_PER_TOKEN = 5
# Factor for JSON escapes, metrics, hashes and field names, measured on lm-eval's samples files.
_OVERHEAD = 1.3


def check_files(pack: Path, manifest: Manifest, *, hash_up_to: int | None) -> Iterator[Finding]:
    """Check that every file is there and unchanged, and that no extra file would run with them.

    Args:
        pack: The pack.
        manifest: Its manifest.
        hash_up_to: Size limit in bytes. For larger files only the size is compared. None means no limit.
    """
    try:
        changes = integrity.find_changes(pack, manifest, hash_up_to=hash_up_to)
    except PackError as error:
        yield failed("files", f"{error.where}: {error.what}", "Make it readable")
        return
    for name, what in changes.items():
        yield failed("files", f"{pack / name} {what}", _AGAIN if name in manifest.files else "Move it away")
    if not changes:
        yield passed("files", f"{plural(len(manifest.files), 'file')} as {MANIFEST} lists them")


def check_output(pack: Path, manifest: Manifest) -> Iterator[Finding]:
    """Check that results can be written and the samples files will fit."""
    output = Path(manifest.run_settings.output_path)
    folder = output.parent if output.suffix == ".json" else output
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        yield failed("output", f"{existing} is a file, and results go into a folder", "Set output_path to a folder")
        return
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        yield failed(
            "output",
            f"{existing} cannot be written ({error.strerror})",
            "Set output_path to a folder that can be: lm_eval would only log it, after all has been generated",
        )
        return
    yield passed("output", f"{folder} can be written")
    free = shutil.disk_usage(existing).free
    if not manifest.run_settings.log_samples:
        yield not_checked("disk", "log_samples is false, so almost nothing is written")
        return
    needed = sum(_samples_bytes(pack, entry) for entry in manifest.tasks.values())
    if any(entry.docs_file is None for entry in manifest.tasks.values()):
        yield not_checked("disk", "rows stay on the hub (bundle: false), so their size is unknown")
    elif needed > free:
        yield failed(
            "disk",
            f"samples may take up to {needed / 1e9:.1f} GB, and {existing} has {free / 1e9:.1f} GB free",
            "Free some, or set output_path to a larger disk",
        )
    else:
        yield passed("disk", f"samples take up to {needed / 1e9:.2g} GB, {free / 1e9:.0f} GB are free")


def _samples_bytes(pack: Path, entry: TaskEntry) -> int:
    """An upper bound of the samples file's size. Each line holds the doc, the prompt again, and the answer twice."""
    if entry.docs_file is None or not (pack / entry.docs_file).is_file():
        return 0
    answer = 2 * _BYTES_PER_TOKEN * entry.longest_prompt.max_gen_toks
    docs = 0
    try:
        with open_parquet(pack / entry.docs_file) as parquet:
            for batch in parquet.iter_batches(1024):
                docs += batch.nbytes + batch.column("prompt").nbytes + batch.num_rows * answer
    except Exception:  # the file check reports damage
        return 0
    return int(_OVERHEAD * docs * len(entry.filters))


def check_written_pack(pack: Path) -> list[Finding]:
    """Check a pack that prepare has just written, in a few milliseconds: manifest, files, and the version of lm_eval.

    Only sizes are compared for large files.
    """
    manifest = _read_manifest(pack)
    if isinstance(manifest, Finding):
        return [manifest]
    return [_describe(manifest), *check_files(pack, manifest, hash_up_to=1 << 18), check_version(manifest)]


def check_pack(pack: Path) -> Iterator[Finding]:
    """Check a pack and this machine, in the order in which to fix failures.

    Args:
        pack: The pack.
    """
    manifest = _read_manifest(pack)
    if isinstance(manifest, Finding):
        yield manifest
        return
    yield _describe(manifest)
    checked = CheckedPack(pack, manifest, {name: read_prompts(pack, entry) for name, entry in manifest.tasks.items()})
    with start_probe() as probe:
        file_checks = list(check_files(pack, manifest, hash_up_to=None))
        yield from file_checks
        unchanged = not any(check.status == "failed" for check in file_checks)
        if unchanged and probe is not None:
            probe.ask(pack, manifest)
        # Meanwhile lm_eval loads the pack.
        others = [
            *check_prompts(checked),
            *check_output(pack, manifest),
            *run_checks(checked),
        ]
        if unchanged:
            yield from check_environment(manifest, probe)
        else:
            yield not_checked("scoring", "the pack was edited, so its code is not run")
    yield from others


def _read_manifest(pack: Path) -> Manifest | Finding:
    try:
        return read_manifest(pack)
    except PackError as error:
        return failed("manifest", f"{error.where}: {error.what}", error.hint or "Run `meta-eval prepare` again")


def _describe(manifest: Manifest) -> Finding:
    return passed("manifest", f"{plural(len(manifest.tasks), 'task')}, prepared by meta-eval {manifest.meta_eval}")
