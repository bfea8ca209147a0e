"""The record format of EvalPlus: ``eval_results.json``, with the status of each program on HumanEval+ or MBPP+.

A problem is known by its task id, which is the same in every run. The first form, of 2023, has lists of statuses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from meta_eval.pack.records.log_format import find_each
from meta_eval.sockets import (
    SURE,
    DataError,
    FoundLog,
    LogEntry,
    LogFormat,
    LoggedTask,
    Place,
    RecordedDoc,
    SourceError,
    find_logs,
    peek_log,
    read_log,
    record_answer,
)

# What EvalPlus writes of a program that passes; before 2024 the second.
_PASS = ("pass", "success")

_NAME = re.compile(
    r"(?P<model>.+?)_(?:(?P<backend>[a-z-]+)_)?temp_(?P<temperature>\d+(?:\.\d+)?).*", re.DOTALL | re.ASCII
)
_ENDING = re.compile(r"[._-]?eval_results\.json")


class EvalplusFormat(LogFormat):
    """Results of EvalPlus. A file is a task."""

    name = "evalplus"
    reads = "results of EvalPlus (eval_results.json)"
    settings: ClassVar[Mapping[str, str]] = {"temperature": "the name of the file or folder"}
    grader_settings: ClassVar[Mapping[str, str]] = {"tests": "hash"}

    def detect(self, place: Place) -> float:
        return SURE if find_logs(place, is_evalplus_results) else 0

    def list_logs(self, place: Place) -> Sequence[FoundLog]:
        def find(file: str, path: Path) -> FoundLog:
            task = _read_task(place, file, path)
            return FoundLog(task.name, lambda: task, task.time or "")

        return [*find_each(find_logs(place, is_evalplus_results), find).values()]


def is_evalplus_results(path: Path) -> bool:
    """Whether a file is of EvalPlus: by how it begins."""
    if path.suffix != ".json":
        return False
    start = b"".join(peek_log(path).split())
    begins = start.startswith((b'{"date":', b'{"hash":', b'{"eval":'))
    return begins and b'"eval":{' in start and (b"_status" in start or b'"nfiles"' in start or b'"HumanEval/' in start)


def _read_task(place: Place, file: str, path: Path) -> LoggedTask:
    log = read_log(path)
    problems = log.find_entry("eval")
    if not problems.tree:
        raise SourceError("holds no results", where=str(path), hint="Use the file of a finished run")
    answers = [answer for key in problems.tree for answer in _read_problem(problems, key)]
    model, generation = _read_name(path)
    first = next(iter(problems.tree))
    benchmark = "humaneval" if first.startswith("HumanEval") else "mbpp" if first.startswith("Mbpp") else "evalplus"
    return LoggedTask(
        name=benchmark,
        answers=answers,
        harness="evalplus",
        model=model,
        time=_read_time(log.find_text("date")),
        file=file if place.path is not None and place.path.is_dir() else None,
        generation=generation,
        scores=_read_rates(log),
        grader="evalplus",
        grader_settings={"tests": log.find_text("hash")},
        has_stable_keys=True,
        warnings=[] if model else ["its file is not named by EvalPlus: the model is unknown"],
        obstacle="its results do not say what the model was sent",
    )


def _read_time(date: str | None) -> str | None:
    try:
        return datetime.strptime(date, "%Y-%m-%d %H:%M").isoformat() if date else None
    except ValueError:
        return None


def _read_name(path: Path) -> tuple[str | None, dict[str, Any] | None]:
    """The model and the temperature in a file's name, or in its folder's."""
    stem = _ENDING.sub("", path.name)
    match = _NAME.fullmatch(stem or path.absolute().parent.name)
    if match is None:
        return None, None
    temperature = float(match["temperature"])
    return match["model"].replace("--", "/"), {"until": [], "temperature": temperature}


def _read_rates(log: LogEntry) -> Mapping[str, float]:
    """EvalPlus's own pass@1, which is the mean over problems of the share of programs that pass."""
    rates = log.find_entry("pass_at_k")
    found = {name: rates.find_entry(name).find_number("pass@1") for name in ("plus", "base")}
    return {name: rate for name, rate in found.items() if rate is not None}


def _read_problem(problems: LogEntry, key: str) -> list[RecordedDoc]:
    where = f"{problems.where}, {key}"
    statuses: list[tuple[str | None, str | None, str | None]]
    if isinstance(problems.tree[key], dict):
        entry = problems.find_entry(key)
        base, plus = entry.find_list("base"), entry.find_list("plus")
        if plus and len(plus) != len(base):
            raise DataError(f"has {len(base)} statuses of base and {len(plus)} of plus", where=where)
        statuses = [(_first(some), _first(plus[number]) if plus else None, None) for number, some in enumerate(base)]
    else:
        rows = problems.find_entries(key)
        statuses = [
            (row.find_text("base_status"), row.find_text("plus_status"), row.find_text("solution")) for row in rows
        ]
    if not statuses:
        raise DataError("has no program", where=where)
    return [
        record_answer(
            key=key, repeat=repeat, question={"task_id": key}, prompt=None, gold="", answer=solution,
            verdicts=_make_verdicts(base_status, plus_status),
        )
        for repeat, (base_status, plus_status, solution) in enumerate(statuses)
    ]  # fmt: skip


def _first(status: object) -> str | None:
    """The status of a list with its details."""
    first = status[0] if isinstance(status, list) and status else status
    return first if isinstance(first, str) else None


def _make_verdicts(base: str | None, plus: str | None) -> dict[str, float]:
    """Whether a program passes all tests, and whether it passes those of the original benchmark."""
    if base is None:
        return {}
    passes = float(base in _PASS)
    return {"base": passes} if plus is None else {"plus": float(passes == 1 and plus in _PASS), "base": passes}
