"""Finding a recorded run: a folder is one by what its files hold, and of several runs of a task the user says which."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meta_eval.boundary.inputs import expand
from meta_eval.boundary.names import RULE, is_name
from meta_eval.errors import ConfigError, SourceError
from meta_eval.pack.integrity import sha256_of
from meta_eval.results.answers import ResultsError, parse
from meta_eval.results.find import Files, Found, find
from meta_eval.results.pieces import pieces
from meta_eval.results.provenance import Provenance, read_provenance
from meta_eval.results.results_file import ResultsFile, mapping
from meta_eval.results.run import one_model
from meta_eval.shown import quoted

# Every task of a record.
ALL = "recorded"


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
    path = expand(name, where="evals_dataset")
    if not path.exists() or (path.is_file() and path.suffix not in (".json", ".jsonl")):
        return False
    try:
        found = find([path], skip_damaged=True)
    except ResultsError:
        return False
    samples = [one.samples for runs in found.tasks.values() for one in runs if one.samples]
    return any(map(_is_sample, samples)) or bool(found.results)


def _is_sample(path: Path) -> bool:
    for piece in pieces(path):
        try:
            sample = parse(piece.content, piece.where, cut=False)
        except ResultsError:
            return False
        return {"doc_id", "doc", "resps", "arguments"} <= set(sample)
    return False


def open_record(name: str, run: str | None) -> Record:
    """Open a recorded run.

    Args:
        name: The folder or file, as the user wrote it.
        run: The time of the run that is meant, as it stands in the names of its files; None where there is but one.

    Raises:
        ConfigError: There are several runs of a task and nobody says which, or there is none of this time.
        SourceError: It holds no samples.
        ResultsError: A results file is damaged, or the runs are of several models.
    """
    path = expand(name, where="evals_dataset")
    files = find([path])
    with_samples = {
        task: [one for one in runs if one.samples and _is_sample(one.samples)] for task, runs in files.tasks.items()
    }
    if not any(with_samples.values()):
        raise SourceError(
            "holds results of lm_eval and no samples, so nobody knows what was asked and answered",
            where=name,
            hint="Run lm_eval with --log_samples",
        )
    chosen = {task: [_chosen(task, runs, run, name)] for task, runs in with_samples.items() if runs}
    if run is not None:
        chosen = {task: runs for task, runs in chosen.items() if _is_of(runs[0], run)}
        if not chosen:
            times = sorted({one.time for runs in with_samples.values() for one in runs})
            raise ConfigError(
                f"{name} holds no run of {quoted(run)}",
                where="evals_revision",
                hint=f"It holds runs of {_listed(times)}",
            )
    for task in chosen:
        if not is_name(task):
            raise SourceError(f"{quoted(task)} is no name of a task", where=name, hint=RULE)
    used = {one.results for runs in chosen.values() for one in runs}
    found = Files(chosen, {path: tree for path, tree in files.results.items() if path in used})
    one_model({task: _provenance(found, runs[0], task) for task, runs in chosen.items()})
    return Record(name, _revision(path, found), found, _groups(found))


def _provenance(files: Files, one: Found, task: str) -> Provenance:
    return read_provenance(files.results[one.results] if one.results else None, "", task)


def _chosen(task: str, runs: Sequence[Found], run: str | None, name: str) -> Found:
    """The run that is meant; the newest is never guessed."""
    fitting = runs if run is None else [one for one in runs if _is_of(one, run)]
    if len(fitting) == 1 or (run is not None and not fitting):
        return (fitting or runs)[0]
    times = [one.time or str(one.results) for one in fitting]
    raise ConfigError(
        f"{name} holds {len(fitting)} runs of {task}: {_listed(sorted(times))}",
        where="evals_dataset",
        hint="Say which is meant: its time as evals_revision, or its results file as evals_dataset",
    )


def _is_of(one: Found, run: str) -> bool:
    return bool(one.time) and one.time.startswith(run)


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


def _groups(files: Files) -> dict[str, tuple[str, ...]]:
    """The groups that the run had, with the tasks of them that left samples; of a name that is a task's none."""
    found: dict[str, tuple[str, ...]] = {}
    for results in files.results.values():
        children = mapping(results.tree.get("group_subtasks"))
        for name in children:
            members = tuple(dict.fromkeys(one for one in _leaves(name, children) if one in files.tasks))
            if members and name not in files.tasks and is_name(name):
                found[name] = members
    return {**found, ALL: tuple(files.tasks)}


def _leaves(name: str, children: Mapping[str, Any], above: tuple[str, ...] = ()) -> list[str]:
    listed = children.get(name)
    if not isinstance(listed, list) or not listed or name in above:
        return [name]
    return [leaf for one in listed if isinstance(one, str) for leaf in _leaves(one, children, (*above, name))]
