"""Meta's recorded answers as the pack's own graders judge them, doc by doc: what a run is paired with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from meta_eval.pack.manifest import Manifest
from meta_eval.results.answers import Doc


@dataclass(frozen=True, slots=True)
class Baseline:
    """By task the docs that have a recorded answer; and of the other tasks why there are none, a clause."""

    docs: Mapping[str, tuple[Doc, ...]]
    missing: Mapping[str, str]


def read_baseline(pack: Path, manifest: Manifest) -> Baseline:  # noqa: ARG001
    """The verdicts that verify kept of a pack."""
    return Baseline({}, dict.fromkeys(manifest.tasks, "verify has not been run on this pack"))
