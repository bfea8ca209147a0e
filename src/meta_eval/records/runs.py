"""Finding a recorded run: a folder is one by what its files hold, and of several runs of a task the user says which."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from meta_eval.boundary.inputs import expand, read_text, sha256_of
from meta_eval.boundary.names import RULE, is_name, split_excluded
from meta_eval.errors import ConfigError, SourceError, suggestion
from meta_eval.results.answers import ResultsError, parse
from meta_eval.results.find import Files, Found, find
from meta_eval.results.pieces import pieces
from meta_eval.results.provenance import Provenance, read_provenance
from meta_eval.results.results_file import ResultsFile, leaves, mapping
from meta_eval.results.run import one_model
from meta_eval.shown import quoted

# Every task of a record.
ALL = "recorded"

_MOST_NAME = 2**10  # bytes of a commit


@dataclass(frozen=True, slots=True)
class Record:
    """A recorded run.

    Attributes:
        name: The folder or file, as the user wrote it.
        revision: ``sha256:`` over the names and digests of its files.
        files: What was found; of each task the one run that is meant.
        groups: The tasks of each group that it ran, `ALL` among them.
    """

    name: str
    revision: str
    files: Files
    groups: Mapping[str, tuple[str, ...]]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Those with samples."""
        return tuple(self.files.tasks)

    def results(self, task: str) -> ResultsFile | None:
        """The results file of a task."""
        path = self.files.tasks[task][0].results
        return None if path is None else self.files.results[path]

    def provenance(self, task: str) -> Provenance:
        """Where a task's samples come from."""
        one = self.files.tasks[task][0]
        return read_provenance(self.results(task), (one.samples or Path()).parent.name, task)


def is_record(name: str) -> bool:
    """Whether a name of the configuration is a folder (or file) that lm-eval wrote samples into.

    By what the files hold: a file that is only named like samples is none, and a folder may have any name.
    """
    path = snapshot_in(expand(name, where="evals_dataset"))
    if not path.exists() or (path.is_file() and path.suffix not in (".json", ".jsonl")):
        return False
    try:
        found = find([path], skip_damaged=True)
    except ResultsError:
        return False
    return any(has_samples(one) for runs in found.tasks.values() for one in runs) or bool(found.results)


def has_samples(run: Found) -> bool:
    """Whether what is named like the samples of a run begins with a sample of lm-eval."""
    for piece in pieces(run.samples, run.offset) if run.samples else ():
        try:
            sample = parse(piece.content, piece.where, cut=False)
        except ResultsError:
            return False
        return {"doc_id", "doc", "resps", "arguments"} <= set(sample)
    return False


def open_record(name: str, run: str | None, wanted: Sequence[str] = ()) -> Record:
    """Open a recorded run on this machine.

    Args:
        name: The folder or file, as the user wrote it.
        run: The time of the run that is meant, as it stands in the names of its files; None where there is but one.
        wanted: The tasks that are asked for; with a name that is none, or without any, all of them are.

    Raises:
        ConfigError: There are several runs of a task and nobody says which, or there is none of this time.
        SourceError: It holds no samples.
        ResultsError: A results file is damaged, or the runs are of several models.
    """
    path = snapshot_in(expand(name, where="evals_dataset"))
    files = find([path])
    with_samples = {task: [one for one in runs if has_samples(one)] for task, runs in files.tasks.items()}
    if not any(with_samples.values()):
        raise SourceError(
            "holds results of lm_eval and no samples, so nobody knows what was asked and answered",
            where=name,
            hint="Run lm_eval with --log_samples",
        )
    chosen = choose({task: runs for task, runs in with_samples.items() if runs}, run, wanted, name)
    return make_record(name, {task: [one] for task, one in chosen.items()}, files.results, path)


def make_record(
    name: str,
    chosen: Mapping[str, Sequence[Found]],
    results: Mapping[Path, ResultsFile],
    path: Path,
    revision: str | None = None,
) -> Record:
    """A record of files that were found.

    Args:
        name: As the user wrote it.
        chosen: Of each task the one run that is meant.
        results: The results files, read.
        path: The folder or file that it is.
        revision: The commit of a dataset on the hub; None for a digest of the files.

    Raises:
        SourceError: A name is none of a task.
        ResultsError: The runs are of several models.
    """
    for task in chosen:
        if not is_name(task):
            raise SourceError(f"{quoted(task)} is no name of a task", where=name, hint=RULE)
    used = {one.results for runs in chosen.values() for one in runs}
    found = Files(chosen, {file: tree for file, tree in results.items() if file in used})
    one_model({task: _provenance(found, runs[0], task) for task, runs in chosen.items()})
    return Record(name, revision or _revision(path, found), found, groups_of(found))


class Listing(Protocol):
    """What a record offers: tasks and groups by name."""

    @property
    def name(self) -> str: ...
    @property
    def tasks(self) -> Collection[str]: ...
    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]: ...


def select(record: Listing, names: Sequence[str], where: str) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The tasks that names mean, and the groups among them; a name after a minus is left out.

    Raises:
        ConfigError: The record has no such task or group.
    """
    wanted, excluded = split_excluded(names)
    (chosen, groups), (without, _) = _named(record, wanted, where), _named(record, excluded, where)
    return without_tasks(chosen, groups, without)


def without_tasks(
    names: Iterable[str], groups: Mapping[str, tuple[str, ...]], excluded: Collection[str]
) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Tasks and groups without some tasks; a group of which nothing is left is gone."""
    kept = {name: tuple(one for one in members if one not in excluded) for name, members in groups.items()}
    return [name for name in names if name not in excluded], {name: left for name, left in kept.items() if left}


def _named(record: Listing, names: Sequence[str], where: str) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    chosen: dict[str, None] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for name in names:
        if name in record.tasks:
            chosen[name] = None
        elif name in record.groups:
            groups[name] = record.groups[name]
            chosen.update(dict.fromkeys(record.groups[name]))
        else:
            known = [*record.groups, *record.tasks]
            raise ConfigError(
                f"{record.name} holds no task or group {name!r}{suggestion(name, known)}",
                where=where,
                hint=f"It holds {', '.join(known[:20])}; {ALL!r} is all of it",
            )
    return list(chosen), groups


def snapshot_in(path: Path) -> Path:
    """The snapshot of a folder of the hub's cache (``datasets--owner--name``): the only one, or that of ``main``.

    Raises:
        SourceError: It holds several, and none is that of ``main``.
    """
    snapshots = path / "snapshots"
    if not (path.name.startswith("datasets--") and snapshots.is_dir()):
        return path
    found = sorted(one for one in snapshots.iterdir() if one.is_dir())
    if len(found) == 1:
        return found[0]
    note = path / "refs" / "main"
    commit = read_text(note, limit=_MOST_NAME).strip() if note.is_file() else ""
    if snapshots / commit in found:
        return snapshots / commit
    raise SourceError(
        f"holds {len(found)} snapshots, and none of them is that of main", where=str(path), hint="Name one of them"
    )


def _provenance(files: Files, one: Found, task: str) -> Provenance:
    return read_provenance(files.results[one.results] if one.results else None, "", task)


def choose(runs: Mapping[str, Sequence[Found]], run: str | None, wanted: Sequence[str], name: str) -> dict[str, Found]:
    """Of each task the run that is meant; the newest is never guessed.

    Args:
        runs: Of each task its runs.
        run: The time of the one that is meant, or its beginning.
        wanted: See `open_record`.
        name: The record, for messages.

    Raises:
        ConfigError: There are several runs of a task and nobody says which, or there is none of this time.
    """
    asked = {task: runs[task] for task in wanted} if wanted and set(wanted) <= set(runs) else runs
    chosen = {task: _chosen(task, those, run, name) for task, those in asked.items()}
    if run is not None:
        chosen = {task: one for task, one in chosen.items() if _is_of(one, run)}
    if run is not None and not chosen:
        times = sorted({one.time for those in asked.values() for one in those})
        raise ConfigError(
            f"{name} holds no run of {quoted(run)}", where="evals_run", hint=f"It holds runs of {_listed(times)}"
        )
    return chosen


def _chosen(task: str, runs: Sequence[Found], run: str | None, name: str) -> Found:
    fitting = runs if run is None else [one for one in runs if _is_of(one, run)]
    if len(fitting) == 1 or (run is not None and not fitting):
        return (fitting or runs)[0]
    times = [one.time or str(one.results) for one in fitting]
    raise ConfigError(
        f"{name} holds {len(fitting)} runs of {task}: {_listed(sorted(times))}",
        where="evals_dataset",
        hint="Say which is meant: its time as evals_run, or its results file as evals_dataset",
    )


def _is_of(one: Found, run: str) -> bool:
    return bool(one.time) and plain_time(one.time).startswith(plain_time(run))


def plain_time(time: str) -> str:
    """A time as lm-eval writes it into names; files and splits of the hub have colons or underscores in it."""
    return time.replace(":", "-").replace("_", "-")


def _listed(names: Sequence[str], limit: int = 6) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _revision(path: Path, files: Files) -> str:
    """Over the names and contents of the files that are read, wherever the folder lies."""
    root = (path if path.is_dir() else path.parent).resolve()
    paths = {one.samples for runs in files.tasks.values() for one in runs} | set(files.results)
    lines = []
    for file in sorted(one for one in paths if one is not None):
        within = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name
        lines.append(f"{within}\t{sha256_of(file)}\n")
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def groups_of(files: Files) -> dict[str, tuple[str, ...]]:
    """The groups that the run had, with the tasks of them that left samples; of a name that is a task's none."""
    found: dict[str, tuple[str, ...]] = {}
    for results in files.results.values():
        children = mapping(results.tree.get("group_subtasks"))
        for name in children:
            members = tuple(one for one in leaves(name, children) if one in files.tasks)
            if members and name not in files.tasks and is_name(name):
                found[name] = members
    return {**found, ALL: tuple(files.tasks)}
