"""Finds the results and samples files of lm_eval, and groups them by invocation.

There are five naming schemes:

- 0.4.0 to 0.4.2: results have the user's name, or ``results.json`` in a folder; samples are ``<model
  arguments>_<task>.jsonl``, despite the suffix a JSON array.
- May 2024, between 0.4.2 and 0.4.3: ``results_<time>.json`` and ``samples_<task>_<time>.json``, an array at first.
- Since 0.4.3: ``results_<time>.json`` and ``samples_<task>_<time>.jsonl``.
- The saved return value of ``simple_evaluate`` under any name, with samples in the results file.
- Since 0.4.9 with ``--output_path x.json``: ``x_<time>.json`` and ``samples_<task>_<time>.jsonl``.
"""

from __future__ import annotations

import glob
import os.path
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from meta_eval.base.inputs import explain_form, is_packed, open_regular, suggest_path, walk_files
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.results_file import ResultsFile, as_mapping, looks_like_results, read_results_file

# lm_eval writes hyphens for colons, lighteval also underscores.
_TIME_IN_NAME = re.compile(
    r"([0-9]{4})[-_]([0-9]{2})[-_]([0-9]{2})T([0-9]{2})[:_-]([0-9]{2})[:_-]([0-9]{2})(?:\.([0-9]+))?(?:Z|\+00:00)?"
)


def parse_time(text: str) -> datetime | None:
    """A time in UTC to the microsecond; None if the text is no time, or there is no such day or hour."""
    match = _TIME_IN_NAME.fullmatch(text)
    if match is None:
        return None
    *numbers, fraction = match.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    try:
        return datetime(year, month, day, hour, minute, second, int((fraction or "0")[:6].ljust(6, "0")), tzinfo=UTC)
    except ValueError:
        return None


def explain_wrong_time(text: str) -> str | None:
    """What is wrong with the time in a file's name, a clause; None if it exists."""
    return None if parse_time(text) else f"there is no time {text}, which stands in its name"


RESTORE_NAME = "Restore the file's original name"


# lm_eval writes the time with hyphens for colons.
_TIME = r"(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_{_TIME}\.jsonl?", re.DOTALL)
_RESULTS = re.compile(rf".+_{_TIME}\.json", re.DOTALL)
_NAMED_RESULTS = re.compile(rf"results_{_TIME}\.json")
_SUFFIXES = (".json", ".jsonl")
# The bytes of a file by which samples are recognised.
_PEEKED = 2**16

# Called with an unreadable results file and its error.
_Damaged = Callable[[Path, ResultsError], None]


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A task in a log of another harness."""

    samples: Sequence[Mapping[str, Any]]
    """What was asked and answered, a sample for each doc and filter, as lm-eval's evaluator makes them."""

    scores: Mapping[str, float]
    """The log's own means over docs, by ``metric,filter``."""

    provenance: Provenance
    """Where it comes from."""


@dataclass(slots=True)
class TaskOutput:
    """One task in one invocation of lm_eval."""

    task: str
    """Its name."""

    time: str
    """The time in the files' names, else that of the results; empty if unknown."""

    samples: Path | None = None
    """Its samples file, if any."""

    results: Path | None = None
    """The results file, if any."""

    offset: int | None = None
    """The byte offset of its samples, if they are inside the results file; else None."""

    damage: ResultsError | None = None
    """The error of an unreadable results file next to the samples."""

    of_log: LoggedRun | None = None
    """What was read of the file in ``samples``, if another harness wrote it; else None."""

    def take_results(self, results_file: ResultsFile) -> None:
        """Set the results file, and its embedded samples if there are no others."""
        self.results = results_file.path
        if self.samples is None and self.task in results_file.samples:
            self.samples, self.offset = results_file.path, results_file.samples[self.task]


@dataclass(frozen=True, slots=True)
class OutputIndex:
    """The invocations of each task, newest first; the parsed results files; errors of the others; and notes."""

    tasks: Mapping[str, Sequence[TaskOutput]]
    results: Mapping[Path, ResultsFile]
    damaged: Mapping[Path, ResultsError] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def unknown_damage(self) -> list[ResultsError]:
        """Errors of results files with unknown tasks: there are no samples of the same time next to them."""
        attributed = [output.damage for outputs in self.tasks.values() for output in outputs]
        return [error for error in self.damaged.values() if error not in attributed]


def explain_missing_samples(results: Path, task: str) -> tuple[str, str]:
    """Why a results file has no samples of a task beside it, a clause, and what to do."""
    packed = _find_packed(results.parent, f"samples_{task}_")
    time = results.stem.removeprefix("results_")
    if (results.parent / f"samples_{task}_{time}.jsonl").is_dir():
        return (
            f"has a folder samples_{task}_{time}.jsonl beside it, and no file of that name",
            "Copy the file of that name",
        )
    if packed is None and any(results.parent.glob(f"samples_*_{glob.escape(time)}.jsonl*")):
        return "has samples of other tasks beside it, and none of this one", f"Copy samples_{task}_{time}.jsonl, too"
    named = map(_SAMPLES.fullmatch, sorted(path.name for path in results.parent.glob("samples_*.jsonl")))
    times = [match["time"] for match in named if match and match["task"] == task]
    lone = next((at for at in times if not results.with_name(f"results_{at}.json").is_file()), None)
    if packed is None and lone is not None:
        return (
            f"has no samples of its time beside it, and samples_{task}_{lone}.jsonl has no results of its time",
            "Where both are of one run, give both their original names",
        )
    if packed is None:
        return "has no samples beside it: lm_eval was run without --log_samples", "Run it again with that option"
    return f"has its samples beside it compressed ({packed.name}), and they are not read so", "Unpack them"


def has_packed_samples(results: Path, task: str) -> bool:
    """Whether the samples of a task stand compressed beside a results file."""
    return _find_packed(results.parent, f"samples_{task}_") is not None


def _find_packed(folder: Path, beginning: str = "samples_") -> Path | None:
    """A compressed samples file in a folder."""
    return next(
        (path for path in sorted(folder.glob("samples_*")) if path.name.startswith(beginning) and is_packed(path)), None
    )


def index_outputs(paths: Sequence[Path], *, skip_damaged: bool = False) -> OutputIndex:
    """Find the tasks of all invocations in folders and files.

    Args:
        paths: Folders, searched to any depth, and files. For a results file, the samples next to it are included; for a
            samples file, its results file is.
        skip_damaged: Only record damage, even of a results file that is named in ``paths``.

    Raises:
        ResultsError: A path does not exist, lm_eval did not write a file, or a results file is damaged and is named in
            ``paths`` or alone in its folder.
    """
    faults: dict[Path, ResultsError] = {}
    results: dict[Path, ResultsFile] = {}
    distinct: dict[tuple[Path | str | None, ...], TaskOutput] = {}
    for path in paths:
        if path.is_dir():
            files = [file for file in walk_files(path) if file.suffix in _SUFFIXES]
            chosen = _group_by_run(files, results, faults.__setitem__)
        else:
            chosen = _index_file(path, results, faults, skip_damaged=skip_damaged)
        for task_files in chosen:
            real = (file and _identify(file) for file in (task_files.samples, task_files.results))
            distinct.setdefault((*real, task_files.task), task_files)
    tasks: dict[str, list[TaskOutput]] = {}
    for task_files in sorted(
        distinct.values(),
        key=lambda task_files: (task_files.time, str(task_files.samples or task_files.results)),
        reverse=True,
    ):
        tasks.setdefault(task_files.task, []).append(task_files)
    if faults and not tasks and not skip_damaged:
        raise next(iter(faults.values()))
    return OutputIndex(dict(sorted(tasks.items())), results, faults)


def _index_file(
    path: Path, results: dict[Path, ResultsFile], faults: dict[Path, ResultsError], *, skip_damaged: bool
) -> list[TaskOutput]:
    if not path.exists():
        raise ResultsError(
            f"there is no such file or folder{suggest_path(path)}",
            where=str(path),
            hint="Name a results folder, as `meta-eval run`, `meta-eval grade` or lm_eval --output_path writes it",
        )
    if not path.is_file():
        raise ResultsError(
            "is not a regular file", where=str(path), hint="Put the file itself there, or take this one away"
        )
    file = _name_file(path, _identify(path))
    match = _match_file_name(file)
    neighbours = [
        other
        for other in file.parent.iterdir()
        if other.suffix in _SUFFIXES and (f"_{match['time']}." in other.name if match else not _match_file_name(other))
    ]

    def damaged_here(which: Path, error: ResultsError) -> None:
        if which == file and not skip_damaged:  # damage of other files in the folder does not matter
            raise error
        if which == file:
            faults[which] = error

    chosen = [
        task_files
        for task_files in _group_by_run([file, *neighbours], results, damaged_here)
        if file in (task_files.samples, task_files.results)
    ]
    if not chosen and not _is_results(file) and not _may_hold_samples(file):
        what = explain_form(path) or "holds neither results nor samples of lm_eval"
        raise ResultsError(what, where=str(path), hint="Name a results folder")
    if not chosen and not _is_results(file):
        raise ResultsError(
            "is not named like lm_eval's files (results_<time>.json, samples_<task>_<time>.jsonl), and no "
            "results of lm_eval before 0.4.3 are next to it, so its task is unknown",
            where=str(path),
            hint="Name a results folder, or restore the file's original name",
        )
    return chosen


def _may_hold_samples(path: Path) -> bool:
    """Whether a file of another name begins like a samples file, or cannot be read here, like a pointer."""
    try:
        with open_regular(path) as file:
            return b'"doc_id"' in file.read(_PEEKED)
    except OSError:
        return True


def _group_by_run(files: Iterable[Path], results: dict[Path, ResultsFile], damaged: _Damaged) -> list[TaskOutput]:
    """The tasks of the invocations of some files, each with its samples and results."""
    # What has such a name and is no regular file is damage, which its reader tells.
    named: dict[Path, Path] = {}
    for path in files:
        if path.is_file() or _match_file_name(path):
            real = _identify(path)
            named.setdefault(real, _name_file(path, real))
    regular = sorted(named.values())
    by_run: dict[tuple[Path, str, str], TaskOutput] = {}
    for path in regular:
        match = _SAMPLES.fullmatch(path.name)
        if match and not _is_results(path) and _has_time(path, match["time"], damaged):
            by_run[path.parent, match["time"], match["task"]] = TaskOutput(match["task"], match["time"], samples=path)
    for path in filter(_is_results, regular):
        match = _match_file_name(path)
        if match and not _has_time(path, match["time"], damaged):
            continue
        try:
            results_file = results[path] = results.get(path) or read_results_file(path)
        except ResultsError as error:
            damaged(path, error)
            _mark(by_run, path, error)
            continue
        for task in results_file.tasks:
            if match:
                key = path.parent, match["time"], task
                by_run.setdefault(key, TaskOutput(task, match["time"])).take_results(results_file)
            else:
                old = path.with_name(_old_name(results_file, task))
                by_run[path, "", task] = TaskOutput(task, results_file.time, old if old in regular else None)
                by_run[path, "", task].take_results(results_file)
    return list(by_run.values())


def _has_time(path: Path, time: str, damaged: _Damaged) -> bool:
    """Whether the time in a file's name exists; what has another is never the newest by chance."""
    wrong = explain_wrong_time(time)
    if wrong:
        damaged(path, ResultsError(wrong, where=str(path), hint=RESTORE_NAME))
    return wrong is None


def _mark(by_run: Mapping[tuple[Path, str, str], TaskOutput], results: Path, error: ResultsError) -> None:
    """Record the error of a results file at the samples of its invocation."""
    match = _match_file_name(results)
    for (folder, time, _), output in by_run.items():
        if match and (folder, time) == (results.parent, match["time"]):
            output.damage = error


def _identify(path: Path) -> Path:
    """The same for every path to a file, with its original name, not the digest that a link in the hub's cache has."""
    return path.parent.resolve() / path.name


def _name_file(path: Path, real: Path) -> Path:
    """The path of a file for notes and pages: below this folder if it lies there, else as the user names it."""
    here = Path.cwd().resolve()
    return real.relative_to(here) if real.is_relative_to(here) else path


def find_common_folder(folders: Iterable[Path]) -> Path:
    """The folder that holds all; relative to this one, unless one of them is not."""
    folders = list(folders)
    common = os.path.commonpath([os.path.normpath(folder.absolute()) for folder in folders])
    return Path(common if any(folder.is_absolute() for folder in folders) else os.path.relpath(common))


def parse_file_name(name: str) -> tuple[str | None, str] | None:
    """Parse the task (None for results) and time from a file name of lm_eval; None for other names."""
    if samples := _SAMPLES.fullmatch(name):
        return samples["task"], samples["time"]
    results = _NAMED_RESULTS.fullmatch(name)
    return (None, results["time"]) if results else None


def _is_results(path: Path) -> bool:
    """Whether a file is a results file, by its name or its first bytes."""
    if _NAMED_RESULTS.fullmatch(path.name):
        return True
    # Samples have this suffix since 0.4.3; skip them quickly, as big folders have many.
    return not (path.suffix == ".jsonl" and _match_file_name(path)) and looks_like_results(path)


def _match_file_name(path: Path) -> re.Match[str] | None:
    """The parts of a name with a time in it."""
    return _SAMPLES.fullmatch(path.name) or _RESULTS.fullmatch(path.name)


def _old_name(results_file: ResultsFile, task: str) -> str:
    """The name of a task's samples file in lm-eval before 0.4.3."""
    arguments = as_mapping(results_file.tree.get("config")).get("model_args")
    name = re.sub("/|=", "__", arguments) if isinstance(arguments, str) else ""
    # The name of a task in a damaged file must not act as a path.
    return f"{name}_{task}.jsonl".replace("/", "__").replace("\0", "")
