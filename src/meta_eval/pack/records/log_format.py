"""What formats of logs of other harnesses share: how a run is chosen among those that a place holds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from meta_eval.base.errors import SourceError
from meta_eval.pack.records.format import Place, Record, RecordFormat
from meta_eval.pack.records.log_record import LoggedTask, LogRecord, make_task_name
from meta_eval.pack.records.run_selection import choose_runs


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A run of a task that a place holds."""

    task: str
    """The task, as its harness names it."""

    read: Callable[[], LoggedTask]
    """Reads it."""

    time: str = ""
    """When it was run; empty if unknown."""

    results: Path | None = None
    """A file that names it alone; None if there is none."""


class LogFormat(RecordFormat):
    """A format in which a log is a run of one task."""

    @abstractmethod
    def list_logs(self, place: Place) -> Sequence[FoundLog]:
        """The runs of a place.

        Raises:
            DataError, SourceError: A file cannot be read.
        """

    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:
        """Open one run of each task. See `RecordFormat.open_run`."""
        runs: dict[str, list[FoundLog]] = {}
        for found in self.list_logs(place):
            runs.setdefault(make_task_name(found.task), []).append(found)
        chosen = choose_runs(runs, run, names, place.name)
        return LogRecord(place.name, [found.read() for found in chosen.values()])

    def open_runs(self, place: Place) -> Sequence[Record]:
        """Open every run. See `RecordFormat.open_runs`."""
        return [LogRecord(place.name, [found.read()]) for found in self.list_logs(place)]


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
