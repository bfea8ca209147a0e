"""What formats of logs of other harnesses share: how a run is chosen among those that a place holds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from meta_eval.base.errors import DataError, SourceError
from meta_eval.pack.records.format import Place, Record, RecordFormat
from meta_eval.pack.records.log_entries import advising
from meta_eval.pack.records.log_record import FoundLog, LoggedTask, LogRecord, make_task_name
from meta_eval.pack.records.run_selection import choose_runs

T = TypeVar("T")


def find_each(files: Mapping[str, T], find: Callable[[str, T], FoundLog]) -> dict[str, FoundLog]:
    """The run in each file. One of which not even the task can be read has the file's name, and is refused when read.

    Args:
        files: The files by their names.
        find: Finds the run in a file. It may raise what reading may.
    """
    return {file: _find_one(file, value, find) for file, value in files.items()}


def _find_one(file: str, value: T, find: Callable[[str, T], FoundLog]) -> FoundLog:
    try:
        return find(file, value)
    except (DataError, SourceError) as error:
        fault = error

    def refuse() -> LoggedTask:
        raise fault

    return FoundLog(file, refuse)


class LogFormat(RecordFormat):
    """A format in which a log is a run of one task."""

    @abstractmethod
    def list_logs(self, place: Place) -> Sequence[FoundLog]:
        """The runs of a place. They are read later, each with its own errors.

        Raises:
            DataError, SourceError: There is none, or it is unknown what there is.
        """

    @advising()
    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:
        """Open one run of each task. See `RecordFormat.open_run`."""
        runs: dict[str, list[FoundLog]] = {}
        for found in self.list_logs(place):
            runs.setdefault(make_task_name(found.task), []).append(found)
        chosen = choose_runs(runs, run, names, place.name)
        return LogRecord(place.name, [*chosen.values()])

    @advising()
    def open_runs(self, place: Place) -> Sequence[Record]:
        """Open every run. See `RecordFormat.open_runs`."""
        return [LogRecord(place.name, [found]) for found in self.list_logs(place)]


class OfModel(Protocol):
    """The run of a model."""

    @property
    def model(self) -> str: ...
    @property
    def time(self) -> str | None: ...


ModelRun = TypeVar("ModelRun", bound=OfModel)


def choose_by_model(runs: Sequence[ModelRun], run: str | None, place: str) -> ModelRun:
    """Choose the run of a model or of a time, or the only one.

    Args:
        runs: All of the place.
        run: The model or a part of its name, or the start of the time; None for the only run.
        place: Its name, for messages.

    Raises:
        SourceError: None fits, or several do.
    """
    fitting = [one for one in runs if run is None or one.model == run]
    fitting = fitting or [one for one in runs if run and (run in one.model or (one.time or "").startswith(run))]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(sorted({one.model for one in fitting or runs})[:6])
    raise SourceError(
        f"holds {len(fitting) or 'no'} runs" + (f" of {run!r}" if run else ""), where=place,
        hint="Name the place of one run, or a model: `evals_run: MODEL` for a pack, PLACE#MODEL for a comparison. "
        f"There are {listed}",
    )  # fmt: skip
