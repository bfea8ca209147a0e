"""preflight: everything that can go wrong before the first token is generated, found in seconds and without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from meta_eval.errors import PackError
from meta_eval.pack.manifest import Manifest, read_manifest
from meta_eval.preflight import asking, environment, files, prompts
from meta_eval.preflight.check import Check, failed, not_checked, passed

__all__ = ["Check", "cheap", "preflight"]


def cheap(pack: Path) -> list[Check]:
    """What prepare ends with, in a few milliseconds: the manifest, the files, and the version of lm_eval.

    Large files are only measured, for prepare has just written them.
    """
    manifest = _manifest(pack)
    if isinstance(manifest, Check):
        return [manifest]
    return [
        _read(manifest),
        *files.check_files(pack, manifest, hash_up_to=1 << 18),
        environment.check_version(manifest),
    ]


def preflight(pack: Path) -> Iterator[Check]:
    """All checks, in the order in which a user should fix what they find.

    Args:
        pack: The folder that prepare wrote.
    """
    manifest = _manifest(pack)
    if isinstance(manifest, Check):
        yield manifest
        return
    yield _read(manifest)
    with asking.probing() as probe:
        found = list(files.check_files(pack, manifest, hash_up_to=None))
        yield from found
        whole = not any(check.status == "failed" for check in found)
        if whole and probe is not None:
            probe.ask(pack, manifest)
        # While lm_eval loads the pack.
        others = [
            *prompts.check_prompts(pack, manifest),
            *files.check_output(pack, manifest),
            *environment.check_engine(manifest),
        ]
        if whole:
            yield from environment.check_environment(manifest, probe)
        else:
            yield not_checked("scoring", "code of a pack that is not as prepare wrote it is not run")
    yield from others


def _manifest(pack: Path) -> Manifest | Check:
    try:
        return read_manifest(pack)
    except PackError as error:
        return failed("manifest", f"{error.where}: {error.what}", error.hint or "Run `meta-eval prepare` again")


def _read(manifest: Manifest) -> Check:
    return passed("manifest", f"{len(manifest.tasks)} tasks, prepared by meta-eval {manifest.meta_eval}")
