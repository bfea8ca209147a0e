"""Checks a pack and this machine in seconds, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from meta_eval.base.display import plural
from meta_eval.base.errors import PackError
from meta_eval.doctor.check import CheckedPack, Finding, failed, not_checked, passed, run_checks
from meta_eval.doctor.environment_checks import check_environment, check_version
from meta_eval.doctor.file_checks import check_files, check_output
from meta_eval.doctor.lm_eval_probe import start_probe
from meta_eval.doctor.prompt_checks import check_prompts, read_prompts
from meta_eval.pack.manifest import Manifest, read_manifest


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
