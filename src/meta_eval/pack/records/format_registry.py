"""Lists the record formats, and finds the format of a place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from meta_eval.base.errors import ConfigError, SourceError, UserError, suggest_name
from meta_eval.base.extensions import ExtensionError, find_extensions, load_extension
from meta_eval.base.inputs import expand_home, explain_form, explain_locked, suggest_path, walk_files
from meta_eval.base.logs import log, report_progress
from meta_eval.pack.records.format import LM_EVAL, Place, RecordFormat
from meta_eval.pack.records.lm_eval_format import LmEvalFormat
from meta_eval.pack.records.run_selection import find_snapshot

FORMATS_GROUP = "meta_eval.record_formats"

# How leaderboards and lighteval name their datasets of details.
_DATASET = re.compile(r"[^/\s]+/(?:details_[^/\s]+|[^/\s]+-details(?:-private)?)")

# How files of questions and answers end.
_LINES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")


class AmbiguousPlaceError(ConfigError):
    """Two formats are equally sure that a place is theirs."""


def list_formats() -> Iterator[RecordFormat]:
    """All formats, sorted by name: lm-eval's and those of plug-ins.

    A name that several packages claim is left out with a warning, as is a format that is not there.
    """
    own = LmEvalFormat()
    extensions = find_extensions(FORMATS_GROUP, (own.name,))
    for name in sorted({own.name, *extensions}):
        if name == own.name:
            yield own
            continue
        extension = extensions[name]
        if (conflict := extension.find_conflict()) is not None:
            log.warning(f"no format of this name is used: {conflict}")
            continue
        try:
            record_format: RecordFormat = load_extension(extension, RecordFormat, name=(str,))
        except ExtensionError as error:
            log.warning(f"a format of records is not used: {error}")
            continue
        yield record_format


def find_format(place: Place) -> RecordFormat | None:
    """The format that is surest of a place; None if none reads it.

    Raises:
        AmbiguousPlaceError: Two are equally sure.
    """
    sure = {record_format: _ask(record_format, place) for record_format in list_formats()}
    best = max(sure.values())
    first, *others = [record_format for record_format, certainty in sure.items() if certainty == best]
    if best <= 0:
        return None
    if others:
        names = " and ".join(sorted(record_format.name for record_format in (first, *others)))
        raise AmbiguousPlaceError(
            f"the formats {names} both read it, and each is as sure as the other",
            where=place.name, hint="Name a folder or file with runs of one format",
        )  # fmt: skip
    return first


def _ask(record_format: RecordFormat, place: Place) -> float:
    certainty = record_format.detect(place)
    if not isinstance(certainty, int | float) or not 0 <= certainty <= 1:
        raise ExtensionError(f"detect gives {certainty!r}, and not a number from 0 to 1", where=record_format.name)
    return certainty


def list_words() -> list[str]:
    """The values of ``evals_dataset`` that are no place: ``lm-eval``, and those of formats."""
    return [*(word for record_format in list_formats() for word in record_format.words), LM_EVAL]


def explain_unreadable(name: str, *, where: str) -> UserError:
    """Why no format reads what the configuration names.

    Args:
        name: A path or an id.
        where: The key of the configuration.
    """
    path = expand_home(name, where=where)
    reads = "; ".join(record_format.reads for record_format in list_formats() if record_format.reads)
    readable = f"It reads {reads}. Other formats: docs/architecture.md#sockets"
    if path.is_dir():
        why, hint = explain_locked(path), None
        forms = () if why else ((file, explain_form(path / file)) for file in Place(name, path).files)
        file, form = next((found for found in forms if found[1]), (None, None))
        odd = None if why else next((file for file in walk_files(path) if not file.is_file()), None)
        if form is not None:
            why = f"{file} {form}"
        elif odd is not None:
            why = f"holds {odd.relative_to(path)}, which is no regular file: a broken link, a pipe or a device"
            hint = "Fetch or copy the file again"
        if why:
            return SourceError(why, where=name, hint=hint)
        what = "is neither a recorded run nor an evals dataset that meta-eval can read"
        return SourceError(what, where=name, hint=readable)
    if path.exists():
        if form := explain_form(path):
            return SourceError(form, where=name)
        own = "A task of lm-eval reads questions and answers of your own: set evals_dataset: lm-eval. "
        hint = f"{own if path.suffix in _LINES else ''}{readable}"
        return SourceError("is a file of no format that meta-eval can read", where=name, hint=hint)
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        what = f"there is no folder {name} here, and no format reads a dataset of this name on the hub"
        return ConfigError(f"{what}{suggest_path(path)}", where=where, hint=readable)
    words = list_words()
    return ConfigError(
        f"{name!r} is neither a file, a folder nor a hub id{suggest_name(name, words) or suggest_path(path)}",
        where=where,
        hint=f"Name a hub id (owner/name), a local folder, or {' or '.join(f'`{word}`' for word in words)}",
    )


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
    from meta_eval.pack.hub import open_repository

    report_progress(f"reading {name}")
    repository = open_repository(name, revision=revision)
    for warning in repository.warnings:
        log.warning(warning)
    return Place(name, None, repository)
