"""Selects the tasks and the run of a record. Several candidates are an error, never a guess."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from meta_eval.base.display import quoted
from meta_eval.base.errors import ConfigError, SourceError, suggest_name
from meta_eval.base.inputs import read_text
from meta_eval.base.pack_names import expand_patterns, join_names, split_excluded
from meta_eval.pack.records.task_groups import ALL

_MOST_NAME = 2**10  # bytes of a commit


class TaskIndex(Protocol):
    """The tasks and groups of a record, by name."""

    @property
    def name(self) -> str: ...
    @property
    def tasks(self) -> Collection[str]: ...
    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]: ...


def make_config_name(name: str) -> str:
    """Name a task as the hub names its configuration: ``harness_arc_challenge_25`` for ``harness|arc:challenge|25``."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name)


def select_tasks(record: TaskIndex, names: Sequence[str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Find the tasks of names and patterns, and the groups among the names. A minus leaves a name out.

    A name may also be written as in the record's files, with characters that names of tasks cannot have.

    Raises:
        ConfigError: The record has no such task or group.
    """
    included, excluded = split_excluded(expand_patterns(names, record.tasks))
    (chosen, groups), (without, _) = _select_named(record, included), _select_named(record, excluded)
    return leave_tasks_out(chosen, groups, without)


def leave_tasks_out(
    names: Iterable[str], groups: Mapping[str, tuple[str, ...]], excluded: Collection[str]
) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Leave tasks out of tasks and groups. Empty groups are dropped.

    Raises:
        ConfigError: No task is left.
    """
    left = [name for name in names if name not in excluded]
    if not left:
        raise ConfigError("leaves out every task it names")
    remaining = {
        name: tuple(member for member in members if member not in excluded) for name, members in groups.items()
    }
    return left, {name: members for name, members in remaining.items() if members}


def _select_named(record: TaskIndex, names: Sequence[str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    chosen: dict[str, None] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for written in names:
        known = written in record.tasks or written in record.groups
        name = written if known else make_config_name(written)
        if name in record.tasks:
            chosen[name] = None
        elif name in record.groups:
            groups[name] = record.groups[name]
            chosen.update(dict.fromkeys(record.groups[name]))
        else:
            existing = [*record.groups, *record.tasks]
            raise ConfigError(
                f"{record.name} has no task or group {written!r}{suggest_name(written, existing)}",
                hint=f"It holds {', '.join(existing[:20])}; {ALL!r} means all",
            )
    return list(chosen), groups


def find_snapshot(path: Path) -> Path:
    """Find the snapshot in a folder of the hub's cache (``datasets--owner--name``): the only one, or that of ``main``.

    Raises:
        SourceError: It holds several, and none is that of ``main``.
    """
    snapshots = path / "snapshots"
    if not (path.name.startswith("datasets--") and snapshots.is_dir()):
        return path
    folders = sorted(folder for folder in snapshots.iterdir() if folder.is_dir())
    if len(folders) == 1:
        return folders[0]
    note = path / "refs" / "main"
    commit = read_text(note, limit=_MOST_NAME).strip() if note.is_file() else ""
    if snapshots / commit in folders:
        return snapshots / commit
    raise SourceError(f"holds {len(folders)} snapshots, none of them of main", where=str(path), hint="Name one of them")


class TimedRun(Protocol):
    """A run of a task."""

    @property
    def time(self) -> str: ...
    @property
    def results(self) -> Path | None: ...


_Run = TypeVar("_Run", bound=TimedRun)


def choose_runs(
    runs: Mapping[str, Sequence[_Run]], run: str | None, names: Sequence[str], name: str
) -> dict[str, _Run]:
    """Choose the run of each task. Several candidates are an error: the newest is never guessed.

    Args:
        runs: The runs of each task.
        run: The time of the selected run, or the start of that text.
        names: The requested tasks and groups.
        name: The record, for messages.

    Raises:
        ConfigError: A task has several runs and ``run`` names none of them, or no run has this time.
    """
    chosen_runs = {task: runs[task] for task in names} if names and set(names) <= set(runs) else runs
    chosen = {task: _chosen(task, those, run, name) for task, those in chosen_runs.items()}
    if run is not None:
        chosen = {task: task_files for task, task_files in chosen.items() if _is_of(task_files, run)}
    if run is not None and not chosen:
        times = sorted({one.time or str(one.results) for those in chosen_runs.values() for one in those})
        raise ConfigError(
            f"{name} holds no run of {quoted(run)}", where="evals_run", hint=f"It holds runs of {join_names(times, 6)}"
        )
    return chosen


def _chosen(task: str, runs: Sequence[_Run], run: str | None, name: str) -> _Run:
    fitting = runs if run is None else [task_files for task_files in runs if _is_of(task_files, run)]
    if len(fitting) == 1 or (run is not None and not fitting):
        return (fitting or runs)[0]
    times = [task_files.time or str(task_files.results) for task_files in fitting]
    raise ConfigError(
        f"{name} holds {len(fitting)} runs of {task}: {join_names(sorted(times), 6)}",
        where="evals_dataset",
        hint="Set evals_run to the time of one"
        + (", or evals_dataset to its results file" if any(task_files.results for task_files in fitting) else ""),
    )


def _is_of(task_files: TimedRun, run: str) -> bool:
    return bool(task_files.time) and normalise_time(task_files.time).startswith(normalise_time(run))


def normalise_time(time: str) -> str:
    """Write a time as lm-eval does in file names. Files and splits of the hub have colons or underscores in it."""
    return time.replace(":", "-").replace("_", "-")
