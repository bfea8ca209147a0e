"""The socket for recorded runs: a format finds a run in a place and opens it; a record reads its tasks.

`evals_dataset` and `baseline` of the configuration use the same formats. A package adds a format by an entry point of
the group ``meta_eval.record_formats``. ``examples/csv_record.py`` is a small example. A format whose docs have tasks of
their own prepares these itself: `RecordFormat.open_tasks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from meta_eval.base.inputs import walk_files
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.records.recorded_docs import RecordedDocs
from meta_eval.pack.records.task_groups import ALL

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from meta_eval.pack.config import Config, ValuePlace
    from meta_eval.pack.hub import Repository
    from meta_eval.pack.records.task_code import TaskCode
    from meta_eval.pack.records.task_source import TaskSource


# The evals dataset of this name: the tasks of the installed lm-eval.
LM_EVAL = "lm-eval"

# How sure a format is of a place: the files have names or content of this format alone; a folder of another format may
# also hold them; such files may be anything; or nothing speaks against it, and any other format comes first.
SURE, ALMOST_SURE, LIKELY, GUESS = 0.9, 0.8, 0.5, 0.1


@dataclass(frozen=True)
class Place:
    """A place that may hold a recorded run."""

    name: str
    """As the user wrote it."""

    path: Path | None = None
    """The folder or file on this machine; None for a dataset on the hub."""

    repository: Repository | None = None
    """The dataset on the hub; None for a folder or file."""

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files below a folder or in a dataset, by their paths inside it, sorted; empty for a file.

        Raises:
            InputError: A folder below it may not be read.
        """
        if self.repository is not None:
            return tuple(sorted(self.repository.names))
        if self.path is None or not self.path.is_dir():
            return ()
        return tuple(sorted(path.relative_to(self.path).as_posix() for path in walk_files(self.path) if path.is_file()))

    def fetch(self, file: str) -> Path:
        """Fetch a file to this machine.

        Raises:
            SourceError: The hub does not give it.
        """
        if self.repository is not None:
            return self.repository.fetch_file(file).path
        return (self.path or Path()) / file


@dataclass(frozen=True)
class Reading:
    """How the tasks of a record are read."""

    template_dir: Path
    """The user's own tasks, which take precedence over lm-eval's."""

    allow_code: bool = False
    """Whether a task may run programs that the model wrote."""

    tokenizer: Callable[[], Tokenizer | None] = lambda: None
    """The tokenizer of the model that is evaluated; None where it is not on this machine."""

    output_type: str | None = None
    """The task's output type, when reading the baseline of a pack or a run to compare; None when making a pack of the
    record."""


@dataclass(frozen=True, slots=True)
class RecordedScore:
    """A score that a record gives to a task."""

    value: float
    """From 0 to 1, or in the metric's own unit."""

    averaging: str | None = "micro"
    """How the docs were averaged: ``micro``, ``macro``, …; None if unknown."""

    is_mean: bool = True
    """Whether it is the plain mean over docs, so that each doc has a verdict."""


Score = RecordedScore  # the name by which formats of other packages import it


@dataclass(slots=True)
class RecordedTask:
    """One task of a record."""

    rows: RecordedDocs
    """Its docs, with requests and answers."""

    output_type: str
    """lm-eval's ``output_type`` of the task."""

    revision: str
    """The commit, or ``sha256:`` over the files that were read."""

    entry: RecordEntry
    """Its origin, for the manifest."""

    benchmark: str
    """The task's name as the record writes it."""

    scores: Mapping[str, RecordedScore] = field(default_factory=dict)
    """The record's own scores, by ``metric,filter``."""

    specs: Sequence[str] = ()
    """Every ``metric,filter`` of the record, including those without a score."""

    warnings: Sequence[str] = ()
    """Warnings, each a sentence."""

    about: object = None
    """Data that the format keeps for its own `Record.grader`."""

    grader: str | None = None
    """The record's own grader in words; None if unknown. Two records with other words were graded in another way."""

    settings: Mapping[str, Any] | None = None
    """The values of `RecordFormat.settings`, without those of generation; None if unknown. Another value makes a
    comparison invalid."""

    grader_settings: Mapping[str, Any] = field(default_factory=dict)
    """The values of `RecordFormat.grader_settings`. Two records with other values were graded in another way."""


@dataclass(frozen=True, slots=True)
class Grader:
    """The grader of a task, which grades answers as the record did."""

    code: TaskCode
    """The task's YAML with the modules that it names."""

    primary_metric: str
    """The ``metric,filter`` that says whether one answer is right."""

    filters: Sequence[str] = ("none",)
    """The names of the task's filters."""

    delimiter: str | None = None
    """Between prompt and choice; None for the task's own."""


class Record(ABC):
    """A recorded run, opened."""

    name: str
    """The place, as the user wrote it."""

    tasks: Collection[str]
    """The tasks that it holds."""

    groups: Mapping[str, tuple[str, ...]]
    """The tasks of each group; `ALL` holds every task."""

    @abstractmethod
    def read(self, task: str, reading: Reading) -> RecordedTask:
        """Read a task.

        Raises:
            DataError: A doc cannot be asked again, or does not match its hash.
            ResultsError, SourceError: A file cannot be read.
        """

    @abstractmethod
    def grader(self, task: str, recorded: RecordedTask, reading: Reading) -> Grader:
        """Find the grader of a task that was read.

        Raises:
            ConfigError: It would run programs that the model wrote, which is not allowed.
            SourceError: Its code is not installed here.
        """


class RecordFormat(ABC):
    """A format of recorded runs."""

    name: ClassVar[str]
    """Its name in messages."""

    reads: ClassVar[str] = ""
    """What it reads, for messages: "`lm_eval --log_samples` output"."""

    words: ClassVar[tuple[str, ...]] = ()
    """Words of ``evals_dataset`` that it reads and that are no place, such as ``sample``."""

    settings: ClassVar[Mapping[str, str]] = {}
    """The settings of its runs that a comparison compares, beside the prompts: the name in a report, and the place in
    the files, such as ``eval.config.message_limit``. Another value of one asks something else."""

    grader_settings: ClassVar[Mapping[str, str]] = {}
    """The settings of its graders that a comparison compares, likewise. Another value of one grades in another way."""

    holds_runs: ClassVar[bool] = True
    """Whether it opens runs, which ``baseline`` may name."""

    @abstractmethod
    def detect(self, place: Place) -> float:
        """How sure it is that a place is of this format: from 0, not at all, to 1, certainly.

        The shipped formats use the steps `SURE`, `ALMOST_SURE`, `LIKELY` and `GUESS`. The surest format reads the
        place, in whatever order formats are listed; two that are equally sure are an error. It raises nothing;
        `open_run` reports damage.
        """

    @abstractmethod
    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:
        """Open the run that is meant.

        Args:
            place: One that `detect` takes.
            run: The time of the run, or the start of that text; where files hold runs of several models, also the
                model. None if there is only one run.
            names: The requested tasks and groups.

        Raises:
            ConfigError: A task has several runs and ``run`` names none of them, or no run has this time.
            SourceError: A file is missing, gated, cut off or corrupt.
        """

    def open_runs(self, place: Place) -> Sequence[Record]:
        """Open every run of a place, for a comparison: here, the only one.

        Of several runs of a task, the one with the latest `RecordEntry.time` counts, or all as repeats.

        Args:
            place: A folder or file that `detect` takes.

        Raises:
            ConfigError, SourceError: As of `open_run`.
        """
        return [self.open_run(place, None, (ALL,))]

    def open_tasks(self, place: Place, config: Config, config_place: ValuePlace) -> TaskSource | None:  # noqa: ARG002
        """Open what a pack is made of; None for the run, with the graders that `Record` finds for it.

        Args:
            place: One that `detect` takes, as ``evals_dataset`` names it.
            config: What prepare was asked for.
            config_place: Where its values were written, for messages.

        Raises:
            ConfigError: A key of the configuration does not fit this format.
            SourceError: A file is missing, gated, cut off or corrupt.
        """
        return None
