"""The record format of BFCL: ``result/MODEL/…_result.json`` with answers, ``score/MODEL/…_score.json`` with verdicts.

A score file has the accuracy, and then the answers that are wrong. All others of its results are right. A test is known
by its id, which is the same in every run: its question stands only with wrong answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from meta_eval.base.inputs import format_json
from meta_eval.base.pack_names import join_names
from meta_eval.pack.records.log_entries import advising, read_log_lines
from meta_eval.pack.records.log_format import choose_by_model
from meta_eval.sockets import (
    SURE,
    DataError,
    FoundLog,
    LogEntry,
    LoggedTask,
    LogRecord,
    Place,
    Record,
    RecordedDoc,
    RecordFormat,
    SourceError,
    peek_log,
    record_answer,
)

_FILE = re.compile(
    r"(?P<root>(?:.*/)?)(?P<kind>result|score)/(?P<model>[^/]+)/(?P<folder>(?:.*/)?)"
    r"(?P<version>BFCL_v\d+_|gorilla_openfunctions_v\d+_test_|)(?P<category>[^/]+?)_(?P=kind)\.json",
    re.DOTALL,
)


# Category, folder and version of a file.
_Name = tuple[str, str, str]


@dataclass(slots=True)
class BfclRun:
    """The files of a model."""

    model: str
    root: Path
    time: str | None = None
    results: dict[_Name, Path] = field(default_factory=dict)
    scores: dict[_Name, Path] = field(default_factory=dict)

    def find_score(self, name: _Name) -> Path | None:
        """The scores of results: of the same folder and version, of which the first scores say nothing."""
        category, folder, version = name
        first = (category, folder, "") if version.startswith("gorilla") else name
        return self.scores.get(name) or self.scores.get(first)


class BfclFormat(RecordFormat):
    """Results and scores of BFCL. A category is a task."""

    name = "bfcl"
    reads = "results and scores of BFCL"
    settings: ClassVar[Mapping[str, str]] = {
        "calls": "the end of the model's name: -FC for native calls, else calls as text"
    }

    def detect(self, place: Place) -> float:
        return SURE if any(run.results and _is_result(run) for run in find_bfcl_runs(place)) else 0

    @advising()
    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:  # noqa: ARG002
        return _make_record(
            place, choose_by_model([one for one in find_bfcl_runs(place) if one.results], run, place.name)
        )

    @advising()
    def open_runs(self, place: Place) -> Sequence[Record]:
        return [self.open_run(place, None, ())]


def _is_result(run: BfclRun) -> bool:
    start = peek_log(next(iter(run.results.values())))
    return not start.strip() or start.lstrip().startswith(b"{") or bool(run.scores)


def find_bfcl_runs(place: Place) -> list[BfclRun]:
    """The runs of a place: a folder with ``result`` and ``score``, one of these, or a model's folder in one."""
    path = place.path
    if path is None or not path.is_dir():
        return []
    parts = path.absolute().parts
    if path.name in ("result", "score"):
        return _list_runs(path.absolute().parent, None)
    if len(parts) > 1 and parts[-2] in ("result", "score"):
        return _list_runs(path.absolute().parent.parent, path.name)
    return _sort_files(path, place.files, None)


def _list_runs(root: Path, model: str | None) -> list[BfclRun]:
    folders = [root / kind / (model or "") for kind in ("result", "score")]
    below = (folder / file for folder in folders for file in Place("", folder).files)
    files = [file.relative_to(root).as_posix() for file in below if file.suffix == ".json"]
    return _sort_files(root, sorted(files), model)


def _sort_files(root: Path, files: Sequence[str], model: str | None) -> list[BfclRun]:
    runs: dict[tuple[str, str], BfclRun] = {}
    for file in files:
        match = _FILE.fullmatch(file)
        if match is None or (model is not None and match["model"] != model):
            continue
        key = match["root"], match["model"]
        run = runs.setdefault(key, BfclRun(match["model"], root / match["root"]))
        name = match["category"], match["folder"], match["version"]
        (run.results if match["kind"] == "result" else run.scores)[name] = root / file
    return list(runs.values())


def _make_record(place: Place, run: BfclRun) -> LogRecord:
    counts = Counter(category for category, _, _ in run.results)
    if twice := sorted(category for category, count in counts.items() if count > 1):
        raise SourceError(
            f"holds results of {join_names(twice, 3)} of {run.model} more than once", where=place.name,
            hint="Keep the files of one run and take out those of others",
        )  # fmt: skip
    graded = [name for name in run.results if run.find_score(name) is not None]
    if not graded:
        raise SourceError(
            f"holds no scores of {run.model}, only results", where=place.name, hint="Run `bfcl evaluate` first"
        )
    ungraded = sorted(counts.keys() - {category for category, _, _ in graded})
    warnings = [f"no scores of {', '.join(ungraded[:6])}: left out"] if ungraded else []
    return LogRecord(
        place.name,
        [
            FoundLog(name[0], partial(_read_task, place, run, name, () if number else warnings))
            for number, name in enumerate(graded)
        ],
    )


def _read_task(place: Place, run: BfclRun, name: _Name, warnings: Sequence[str]) -> LoggedTask:
    category, answered, path = name[0], run.results[name], run.find_score(name)
    assert path is not None  # noqa: S101 (`_make_record` takes no other)
    results = list(read_log_lines(answered))
    head, *failures = list(read_log_lines(path)) or [LogEntry({}, str(path))]
    if not head.tree:
        raise SourceError("is empty", where=str(path), hint="Run `bfcl evaluate` again")
    accuracy = head.find_number("accuracy")
    right, total = head.find_count("correct_count"), head.find_count("total_count")
    if accuracy is None or right is None or total is None:
        raise DataError("begins with no accuracy and counts", where=str(path), hint="Run `bfcl evaluate` again")
    keys = [row.find_key("id") for row in results]
    known = set(keys)
    wrong = {_find_key(failure, keys, known) for failure in failures}
    if total - right != len(wrong):
        raise DataError(
            f"says that {total - right} answers are wrong, and lists {len(wrong)}", where=str(path),
            hint="Run `bfcl evaluate` again",
        )  # fmt: skip
    if total < len(known):  # whatever is not listed as wrong would count as right
        raise DataError(
            f"grades {total} answers, and {answered.name} has {len(known)}", where=str(path),
            hint="Run `bfcl evaluate` again",
        )  # fmt: skip
    if missing := sorted(wrong - known):
        raise DataError(
            f"grades {missing[0]}, which is not in {answered.name}", where=str(path),
            hint="Name results and scores of one run",
        )  # fmt: skip
    answers = [_read_answer(row, key, wrong) for row, key in zip(results, keys, strict=True)]
    in_folder = place.path is not None and answered.is_relative_to(place.path)
    return LoggedTask(
        name=category,
        answers=answers,
        harness="bfcl",
        model=run.model,
        file=str(answered.relative_to(place.path)) if place.path is not None and in_folder else None,
        scores={"valid": accuracy},
        grader=f"bfcl {category}",
        settings={"calls": "native (FC)" if run.model.endswith("-FC") else "as text"},
        missing=max(0, total - len(results)),
        has_stable_keys=True,
        warnings=warnings,
        obstacle="its results do not say what the model was sent",
    )


def _find_key(failure: LogEntry, keys: Sequence[str | None], known: Collection[str | None]) -> str:
    """The id of a wrong answer. Until August 2024 it is the place among the results, from 1."""
    written = failure.tree.get("id")
    prompt = failure.tree.get("prompt")
    if isinstance(written, int) and not isinstance(written, bool):
        own = prompt.get("id") if isinstance(prompt, dict) else None
        if isinstance(own, str) and own in known:
            return own
        key = keys[written - 1] if 1 <= written <= len(keys) else None
        return key if key is not None else str(written)
    key = failure.find_key("id")
    if key is None:
        raise DataError("has no id", where=failure.where)
    return key


def _read_answer(row: LogEntry, key: str | None, wrong: set[str]) -> RecordedDoc:
    if key is None:
        raise DataError("has no id", where=row.where)
    result = row.tree.get("result")
    return record_answer(
        key=key,
        question={"id": key},
        prompt=None,
        gold="",
        answer=result if isinstance(result, str) else "" if result is None else format_json(result),
        verdicts={"valid": float(key not in wrong)},
        completion_tokens=_sum_tokens(row.tree.get("output_token_count")),
    )


def _sum_tokens(counts: Any) -> int | None:
    """The tokens of all turns and steps; None if they are no numbers."""
    if isinstance(counts, bool):
        return None
    if isinstance(counts, int | float):
        return int(counts) if 0 <= counts < 2**53 else None
    if not isinstance(counts, list):
        return None
    sums = [_sum_tokens(count) for count in counts]
    return sum(count for count in sums if count is not None) if None not in sums else None
