"""The socket for recorded runs: a format finds a run in a place and opens it; a record reads its tasks.

`evals_dataset` and `baseline` of the configuration use the same formats. A package adds one of its own by an entry
point of the group ``meta_eval.record_formats``; ``examples/csv_record.py`` is a small one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from meta_eval.pack.manifest import RecordEntry
from meta_eval.records.recorded_docs import RecordedDocs
from meta_eval.records.task_code import TaskCode
from meta_eval.source.dataset import Repository

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# The group that holds every task of a record.
ALL = "recorded"


@dataclass(frozen=True)
class Place:
    """Where a recorded run may lie.

    Attributes:
        name: As the user wrote it.
        path: The folder or file on this machine; None of a dataset on the hub.
        repository: The dataset on the hub; None of a folder or file.
    """

    name: str
    path: Path | None = None
    repository: Repository | None = None

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files below a folder or in a dataset, by their paths inside it, sorted; none of a file."""
        if self.repository is not None:
            return tuple(sorted(self.repository.names))
        if self.path is None or not self.path.is_dir():
            return ()
        return tuple(sorted(path.relative_to(self.path).as_posix() for path in self.path.rglob("*") if path.is_file()))

    def fetch(self, file: str) -> Path:
        """One of the files on this machine.

        Raises:
            SourceError: It cannot be had from the hub.
        """
        if self.repository is not None:
            return self.repository.fetch_file(file).path
        return (self.path or Path()) / file


@dataclass(frozen=True)
class Reading:
    """How the tasks of a record are read.

    Attributes:
        template_dir: The user's own tasks, which go before lm-eval's.
        allow_code: Whether a task may run programs that the model wrote.
        tokenizer: The tokenizer of the model that is evaluated; None where it is not on this machine.
        output_type: That of the task in a pack whose baseline is read; None where a pack is made of the record.
    """

    template_dir: Path
    allow_code: bool = False
    tokenizer: Callable[[], Tokenizer | None] = lambda: None
    output_type: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedScore:
    """A score that a record gives to a task.

    Attributes:
        value: From 0 to 1, or in the metric's own unit.
        averaging: How the docs were averaged: ``micro``, ``macro``, …; None where nobody says it.
        is_mean: Whether it is the plain mean over docs, so that each doc has a verdict.
    """

    value: float
    averaging: str | None = "micro"
    is_mean: bool = True


Score = RecordedScore  # the name by which formats of other packages import it


@dataclass(slots=True)
class RecordedTask:
    """One task of a record.

    Attributes:
        rows: Its docs, with what was asked and answered.
        output_type: lm-eval's name of how it was asked.
        revision: The commit, or ``sha256:`` over the files that were read.
        entry: Where it comes from.
        benchmark: The task's name as the record writes it.
        scores: The record's own scores, by ``metric,filter``.
        specs: Every ``metric,filter`` of the record, those without a score too.
        warnings: What is odd, one sentence each.
        about: What the format keeps for its own `Record.grader`.
    """

    rows: RecordedDocs
    output_type: str
    revision: str
    entry: RecordEntry
    benchmark: str
    scores: Mapping[str, RecordedScore] = field(default_factory=dict)
    specs: Sequence[str] = ()
    warnings: Sequence[str] = ()
    about: object = None


@dataclass(frozen=True, slots=True)
class Grader:
    """What grades the answers to a task as the record graded them.

    Attributes:
        code: The task's YAML with the modules that it names.
        verdict: The ``metric,filter`` that says whether one answer is right.
        filters: The names of the task's filters.
        delimiter: Between prompt and choice; None for the task's own.
    """

    code: TaskCode
    verdict: str
    filters: Sequence[str] = ("none",)
    delimiter: str | None = None


class Record(ABC):
    """A recorded run, opened.

    Attributes:
        name: The place, as the user wrote it.
        tasks: The tasks that it holds.
        groups: The tasks of each group; `ALL` holds every task.
    """

    name: str
    tasks: Collection[str]
    groups: Mapping[str, tuple[str, ...]]

    @abstractmethod
    def read(self, task: str, reading: Reading) -> RecordedTask:
        """Read a task.

        Raises:
            DataError: A doc cannot be asked again, or is not what its hash says.
            ResultsError, SourceError: A file cannot be read.
        """

    @abstractmethod
    def grader(self, task: str, recorded: RecordedTask, reading: Reading) -> Grader:
        """What grades a task that was read.

        Raises:
            ConfigError: It would run programs that the model wrote, and may not.
            SourceError: Nobody here has its code.
        """


class RecordFormat(ABC):
    """A way in which recorded runs are kept.

    Attributes:
        name: What it is called in messages.
    """

    name: ClassVar[str]

    @abstractmethod
    def detect(self, place: Place) -> bool:
        """Whether a place holds runs of this format. It looks and raises nothing; damage is told by `open_run`."""

    @abstractmethod
    def open_run(self, place: Place, run: str | None, wanted: Sequence[str]) -> Record:
        """Open the run that is meant.

        Args:
            place: One that `detect` takes.
            run: The time of the run, or its beginning; None where there is but one.
            wanted: The tasks and groups that are asked for.

        Raises:
            ConfigError: There are several runs of a task and nobody says which, or there is none of this time.
            SourceError: A file is missing, gated, cut off or corrupt.
        """
