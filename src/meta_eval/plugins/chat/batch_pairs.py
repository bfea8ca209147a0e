"""Finds pairs of batch files, and reads them: requests, their results, and golds.

The content of a file decides what it is, and its custom_ids what it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from meta_eval.base.inputs import is_packed, parse_loose_json, refuse_repeated_names
from meta_eval.base.pack_names import RULE, is_name, join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.harness.sample_files import read_raw_samples
from meta_eval.plugins.chat.batch_files import (
    BatchRequest,
    BatchResult,
    find_kind,
    is_batch_request,
    is_batch_result,
    read_batch_request,
    read_batch_result,
)
from meta_eval.sockets import DataError, SourceError, UserError, log, parse_json

if TYPE_CHECKING:
    from meta_eval.sockets import Holding

# What the names of requests files end with, after the name of their task.
_ENDING = re.compile(r"(?<=.)[._-]+(?:batch[._-]*)?(?:requests?|inputs?|batch)$", re.IGNORECASE)

_SUFFIX = ".jsonl"

# What other files end with that golds may be kept in.
_OTHER_DATA = ("", ".csv", ".json", ".ndjson", ".parquet", ".tsv", ".txt")

_TAKE_OUT = 'Golds are lines {"custom_id": …, "gold": …} in a .jsonl file. Mend this one, or take it out of the folder'

_RESULTS = 'lines {"custom_id": …, "response": …}'

_MEND = "Mend the line, or take it out"

_Line = TypeVar("_Line")


@dataclass(frozen=True, slots=True)
class BatchPair:
    """The files of a task."""

    task: str
    """Its name, from the name of the requests file."""

    requests: Path
    """The requests."""

    results: tuple[Path, ...]
    """The results, in one or several files."""

    golds: Path | None
    """The right answers; None if there is no such file."""


def _find_kind(file: Path) -> Holding | None:
    """What the first line of a file says that it holds; None if it is no batch file."""
    return find_kind(_read_first(file))


def find_batch_files(path: Path, files: Sequence[str]) -> dict[Path, Holding]:
    """The batch files of a place.

    Args:
        path: A folder, or a file of results, which the files beside it belong to.
        files: The files below the folder.
    """
    if path.is_file():
        if _find_kind(path) != "answers":
            return {}
        beside = sorted(file for file in path.parent.glob(f"*{_SUFFIX}") if file.is_file())
        kinds = {file: _find_kind(file) for file in beside if file != path}
        return {path: "answers", **{file: kind for file, kind in kinds.items() if kind and kind != "answers"}}
    kinds = {path / file: _find_kind(path / file) for file in files if file.endswith(_SUFFIX)}
    return {file: kind for file, kind in kinds.items() if kind}


def pair_files(kinds: Mapping[Path, Holding], where: str) -> dict[str, BatchPair]:
    """Pair the files of requests with their results and golds, by custom_id.

    Args:
        kinds: The batch files.
        where: The place, for messages.

    Returns:
        The pairs by task.

    Raises:
        SourceError: Requests lack results, or results lack requests, or it is not clear which requests they answer. Or
            a file beside them may be one of a batch, and is not read.
    """
    unread = _refuse_unread(kinds)
    ids = {file: read_requests(file).keys() for file, kind in kinds.items() if kind == "requests"}
    others: dict[Path, dict[Holding, list[Path]]] = {file: {"answers": [], "golds": []} for file in ids}
    for file, kind in kinds.items():
        if kind != "requests":
            others[_find_requests(file, ids, kinds)][kind].append(file)
    pairs: dict[str, BatchPair] = {}
    for requests, of in others.items():
        if not of["answers"]:
            continue
        if len(of["golds"]) > 1:
            raise SourceError(f"has several files of golds: {_names(of['golds'])}", where=where, hint="Keep one")
        pair = BatchPair(_name_task(requests), requests, tuple(of["answers"]), next(iter(of["golds"]), None))
        if pair.task in pairs:
            files = _names([pairs[pair.task].requests, requests])
            raise SourceError(
                f"has two files of requests of the task {pair.task}: {files}", where=where, hint="Rename one"
            )
        pairs[pair.task] = pair
    if not pairs:
        unread = _refuse_unread(kinds, lacking=True)
        raise SourceError(
            "; ".join(filter(None, ("holds requests of a batch without their results", unread))), where=where,
            hint=f"Put the file of results beside it: {_RESULTS}" if unread else "Put the file of results beside it",
        )  # fmt: skip
    if unread:
        log.warning(f"{where}: {unread}")
    return pairs


def _refuse_unread(kinds: Mapping[Path, Holding], *, lacking: bool = False) -> str:
    """Refuse a file beside batch files that may be one of them, above all their golds, and is not read.

    Args:
        kinds: The batch files.
        lacking: Whether one is missing, so that any compressed file may be it.

    Returns:
        Which other files of JSON lines are not read, a clause; ``""`` without any.

    Raises:
        SourceError: There is such a file.
    """
    unread = []
    for file in sorted({entry for folder in {file.parent for file in kinds} for entry in folder.iterdir()} - {*kinds}):
        is_gold, is_archive = "gold" in file.name.lower(), is_packed(file) and _SUFFIX in file.suffixes
        if file.name.startswith("."):
            continue
        if is_archive and (is_gold or lacking):
            raise SourceError("is compressed, and not read so", where=str(file), hint="Unpack it")
        if is_gold and file.suffix in _OTHER_DATA and not file.is_dir():
            raise SourceError(f"is not read: its name does not end with {_SUFFIX}", where=str(file), hint=_TAKE_OUT)
        if file.suffix != _SUFFIX:
            continue
        try:
            first = next(read_raw_samples(file), None)
            content = None if first is None else parse_loose_json(first.content)
            is_strange = is_gold or (isinstance(content, Mapping) and bool(content.keys() & {"custom_id", "gold"}))
        except UserError as error:
            raise SourceError(error.what, where=str(file), hint="Mend it, or take it out of the folder") from None
        except ValueError:
            content, is_strange = None, True
        if is_strange and find_kind(content) is None:
            what = "is empty" if first is None else "begins with no request, result or gold of a batch"
            raise SourceError(what, where=str(file), hint=_TAKE_OUT)
        if first is not None and find_kind(content) is None:
            unread.append(file)
    if not unread:
        return ""
    have = "is not read: its first line has" if len(unread) == 1 else "are not read: their first lines have"
    return f"{join_names([file.name for file in unread], NAMED)} {have} neither a custom_id nor a gold"


def _find_requests(file: Path, ids: Mapping[Path, Collection[str]], kinds: Mapping[Path, Holding]) -> Path:
    """The file of requests that a file of results or golds belongs to."""
    first = _read_first(file)["custom_id"]
    fitting = [requests for requests, own in ids.items() if isinstance(first, str) and first in own]
    if not fitting:
        unread = _refuse_unread(kinds, lacking=True)
        raise SourceError(
            "; ".join(filter(None, ("has no file of requests beside it with its first custom_id", unread))),
            where=str(file), hint="Put the file that was sent into the same folder",
        )  # fmt: skip
    fitting = [requests for requests in fitting if requests.parent == file.parent] or fitting
    shared = {requests: _count_shared(requests.name, file.name) for requests in fitting}
    best = [requests for requests, length in shared.items() if length == max(shared.values())]
    if len(best) > 1:
        raise SourceError(
            f"may answer several files of requests with the same custom_ids: {_names(best)}", where=str(file),
            hint="Begin the names of files that belong together alike, or put them into folders of their own",
        )  # fmt: skip
    return best[0]


def _count_shared(name: str, other: str) -> int:
    """With how many equal characters two names begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False)))


def _name_task(requests: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9_.]+", "_", _ENDING.sub("", requests.stem))
    if not is_name(name):
        raise SourceError(f"its name is no name of a task: {name!r}. {RULE}", where=str(requests), hint="Rename it")
    return name


def _names(files: Sequence[Path]) -> str:
    return ", ".join(str(file) for file in files)


def _read_first(file: Path) -> Any:
    """The first line of a file; None if it is not JSON, or cannot be read."""
    try:
        raw = next(read_raw_samples(file), None)
        return None if raw is None else parse_loose_json(raw.content)
    except (UserError, ValueError):
        return None


def read_requests(file: Path) -> dict[str, BatchRequest]:
    """Read the requests of a file by custom_id, in order.

    Raises:
        DataError: A line is not a request, or repeats a custom_id.
    """
    requests: dict[str, BatchRequest] = {}
    for where, request in _read_lines(file, is_batch_request, read_batch_request, "request"):
        _refuse_second(request.custom_id, requests, where)
        requests[request.custom_id] = request
    return requests


def read_golds(file: Path) -> dict[str, Mapping[str, Any]]:
    """Read the lines of a file of golds by custom_id.

    Raises:
        DataError: A line has no gold, or repeats a custom_id.
    """

    def read(content: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(content["custom_id"], str):
            raise ValueError("has a custom_id that is no text")
        return content

    def is_gold(content: object) -> bool:
        return isinstance(content, Mapping) and {"custom_id", "gold"} <= content.keys()

    golds: dict[str, Mapping[str, Any]] = {}
    for where, line in _read_lines(file, is_gold, read, "gold"):
        _refuse_second(line["custom_id"], golds, where)
        golds[line["custom_id"]] = line
    return golds


def _refuse_second(custom_id: str, known: Collection[str], where: str) -> None:
    if custom_id in known:
        raise DataError(
            f"repeats the custom_id {custom_id!r:.80}", where=where, hint="Keep one line of each, or rename one"
        )


@dataclass(slots=True)
class Results:
    """The results of a task."""

    answered: dict[str, BatchResult] = field(default_factory=dict)
    """By custom_id: the result of each request that was answered."""

    failed: dict[str, str] = field(default_factory=dict)
    """By custom_id: why a request failed."""

    models: dict[str, str] = field(default_factory=dict)
    """Each model, with the place of its first answer."""

    cut_off: list[str] = field(default_factory=list)
    """Places of lines that are not JSON."""


def read_batch_results(files: Sequence[Path]) -> Results:
    """Read the results of a task.

    Raises:
        DataError: A line is not a result, or a request has two different answers.
    """
    results, places = Results(), dict[str, str]()
    for file in files:
        for where, result in _read_lines(file, is_batch_result, read_batch_result, "result", results.cut_off):
            before = results.answered.get(result.custom_id)
            if result.completion is None:
                results.failed[result.custom_id] = result.error or ""
            elif before is None:
                results.answered[result.custom_id], places[result.custom_id] = result, where
                results.models.setdefault(result.completion.model or "", where)
            elif before.completion is None or before.completion.choices != result.completion.choices:
                raise DataError(
                    f"{result.custom_id!r:.80} has two different answers ({places[result.custom_id]} and {where})",
                    hint="Name the file of results of one run",
                )
    for custom_id in results.answered:
        results.failed.pop(custom_id, None)
    return results


def _read_lines(
    file: Path,
    fits: Callable[[object], bool],
    read: Callable[[Mapping[str, Any]], _Line],
    what: str,
    cut_off: list[str] | None = None,
) -> Iterator[tuple[str, _Line]]:
    """Read the lines of a file, each with its place. A line that is not JSON is put into ``cut_off``, or refused."""
    for raw in read_raw_samples(file):
        try:
            content = parse_json(raw.content)
        except ValueError:
            if cut_off is not None:
                cut_off.append(raw.where)
                continue
            content = None
        if not fits(content):
            raise DataError(f"is not a {what} of a batch file", where=raw.where, hint=_MEND)
        try:
            refuse_repeated_names(raw.content)
            yield raw.where, read(content)
        except ValueError as error:
            raise DataError(f"is not a {what} of a batch file: it {error}", where=raw.where, hint=_MEND) from None
