"""Lists the record formats, and finds the format of a place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from meta_eval.base.extensions import find_extensions, load_extension
from meta_eval.base.inputs import expand_home
from meta_eval.base.logs import log, report_progress
from meta_eval.pack.records.format import Place, RecordFormat
from meta_eval.pack.records.lm_eval.run_record import LmEvalFormat
from meta_eval.pack.records.run_selection import find_snapshot
from meta_eval.plugins.boards.details_record import DetailsFormat
from meta_eval.plugins.chat.batch_record import BatchFormat

ENTRY_POINTS = "meta_eval.record_formats"

# Details come first: their folders also hold results that look like lm-eval's. lm-eval takes any file of a known name.
_SHIPPED: tuple[type[RecordFormat], ...] = (DetailsFormat, BatchFormat, LmEvalFormat)

# How leaderboards and lighteval name their datasets of details.
_DATASET = re.compile(r"[^/\s]+/(?:details_[^/\s]+|[^/\s]+-details(?:-private)?)")


def list_formats() -> Iterator[RecordFormat]:
    """The formats that meta-eval ships, then those of other packages, sorted by name.

    A name that several packages claim is left out with a warning."""
    for shipped in _SHIPPED:
        yield shipped()
    for extension in find_extensions(ENTRY_POINTS).values():
        if (conflict := extension.find_conflict()) is not None:
            log.warning(f"no format of this name is used: {conflict}")
            continue
        record_format: RecordFormat = load_extension(extension, RecordFormat, name=(str,))
        yield record_format


def find_format(place: Place) -> RecordFormat | None:
    """The first format that reads a place; None if there is none."""
    return next((record_format for record_format in list_formats() if record_format.detect(place)), None)


def find_place(name: str, *, revision: str | None, key: str) -> Place:
    """Find the place that the configuration names: a local folder or file, or else a dataset of the hub.

    Only ids that look like details of a leaderboard or of lighteval are looked up on the hub.

    Args:
        name: A path or an id.
        revision: The commit or branch of a dataset; None for the newest.
        key: The key of the configuration, for messages.

    Raises:
        SourceError: The dataset is missing, gated or unreachable.
    """
    path = find_snapshot(expand_home(name, where=key))
    if path.exists() or not _DATASET.fullmatch(name):
        return Place(name, path)
    from meta_eval.pack.source.hub import open_repository

    report_progress(f"reading {name}")
    repository = open_repository(name, revision=revision)
    for warning in repository.warnings:
        log.warning(warning)
    return Place(name, None, repository)
