"""The record format of batch files. What reads them is imported where a place has some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from meta_eval.base.inputs import open_regular
from meta_eval.sockets import SURE, Place, Record, RecordFormat, SourceError

# A first line that is longer is read whole.
_PEEKED = 2**16
_GZIP = b"\x1f\x8b"


class BatchFormat(RecordFormat):
    """Pairs of batch files: requests to a chat endpoint, and their results. A pair is a task."""

    name = "batch"
    reads = "batch files with their requests"
    settings: ClassVar[Mapping[str, str]] = {
        "body": "every field of body, but model, stream, stream_options, n, user, metadata, store, service_tier, "
        "safety_identifier, seed and those of a client"
    }

    def detect(self, place: Place) -> float:
        if place.path is None:
            return 0
        below = [place.path / file for file in place.files if file.endswith(".jsonl")]
        if not any(map(_may_be_batch, [place.path] if place.path.is_file() else below)):
            return 0
        from meta_eval.plugins.chat.batch_pairs import find_batch_files

        return SURE if find_batch_files(place.path, place.files) else 0

    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:  # noqa: ARG002
        from meta_eval.plugins.chat.batch_record import BatchRecord

        if run is not None:
            raise SourceError(f"{place.name} holds no runs with a time", where="evals_run", hint="Set it to null")
        return BatchRecord(place)


def _may_be_batch(file: Path) -> bool:
    """Whether the first line may have a custom_id, as every line of a batch file."""
    try:
        with open_regular(file) as opened:
            begin = opened.read(_PEEKED).lstrip()
    except OSError:
        return False
    return b"custom_id" in begin or b"\n" not in begin or begin.startswith(_GZIP)
