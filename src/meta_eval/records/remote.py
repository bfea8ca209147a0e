"""A recorded run of lm-eval in a dataset of the hub: of its files only those of the run that is meant are fetched.

The details of the Open LLM Leaderboard 2 are such datasets (``open-llm-leaderboard/<org>__<model>-details``): what
lm-eval wrote of each of its ``leaderboard_*`` tasks, in a folder for each model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from meta_eval.boundary.inputs import expand
from meta_eval.config import Config
from meta_eval.errors import SourceError
from meta_eval.notes import Progress, log
from meta_eval.records.runs import Record, choose, groups_of, make_record, select
from meta_eval.results.find import Files, Found, find, named_in
from meta_eval.results.results_file import ResultsFile, read_results_file
from meta_eval.source.base import Repository

# How the boards and lighteval name the datasets that hold details of runs.
_ID = re.compile(r"[^/\s]+/(?:details_[^/\s]+|[^/\s]+-details(?:-private)?)")


def is_details_id(name: str) -> bool:
    """Whether a name is the hub id of details of runs, as the boards and lighteval name them."""
    return _ID.fullmatch(name) is not None


def details_on_hub(config: Config, progress: Progress) -> Repository | None:
    """The dataset of the hub that the configuration names, if its id is one of details and nothing here is called so.

    Raises:
        SourceError: It is missing, gated or unreachable.
    """
    name = config.evals_dataset
    if not is_details_id(name) or expand(name).exists():
        return None
    from meta_eval.source.hub import open_repository

    progress(f"reading {name}")
    repository = open_repository(name, revision=config.evals_revision)
    for notice in repository.notices:
        log.warning(notice)
    return repository


def holds_samples(repository: Repository) -> bool:
    """Whether a dataset holds what lm-eval writes with ``--log_samples``."""
    return any(_task(name) for name in repository.names)


def open_on_hub(repository: Repository, run: str | None, wanted: Sequence[str], where: str) -> Record:
    """Open a recorded run on the hub, and fetch what it needs.

    Args:
        repository: The dataset.
        run: The time of the run that is meant; None where there is but one.
        wanted: The tasks and groups that are asked for.
        where: Where these stand, for messages.

    Raises:
        ConfigError: There is no such task or group; there are several runs of a task and nobody says which, or there
            is none of this time.
        SourceError: A file is missing, gated, cut off or corrupt.
        ResultsError: A results file is damaged, or the runs are of several models.
    """
    chosen = choose(_runs(repository), run, wanted, repository.dataset_id)
    known = Files({task: [one] for task, one in chosen.items()}, _results(repository, chosen))
    listed = Record(repository.dataset_id, repository.revision, known, groups_of(known))
    names, _ = select(listed, wanted, where)
    samples = {task: _fetched(repository, chosen[task].samples) for task in names}
    found = find(list(samples.values()))
    of_task = {
        task: [one for one in found.tasks[task] if one.samples is not None and one.samples.name == path.name]
        for task, path in samples.items()
    }
    folder = next(iter(samples.values())).parent
    return make_record(repository.dataset_id, of_task, found.results, folder, repository.revision)


def _runs(repository: Repository) -> dict[str, list[Found]]:
    """Of each task its runs, by the names of files; a path is here one inside the dataset."""
    found: dict[str, list[Found]] = {}
    results = {
        (PurePosixPath(name).parent, named[1]): Path(name)
        for name in repository.names
        if (named := named_in(PurePosixPath(name).name)) and named[0] is None
    }
    for name in sorted(repository.names):
        path = PurePosixPath(name)
        task, time = named_in(path.name) or (None, "")
        if task is not None:
            found.setdefault(task, []).append(Found(task, time, Path(name), results.get((path.parent, time))))
    return found


def _task(name: str) -> str | None:
    named = named_in(PurePosixPath(name).name)
    return named[0] if named else None


def _results(repository: Repository, chosen: Mapping[str, Found]) -> dict[Path, ResultsFile]:
    return {
        one.results: read_results_file(_fetched(repository, one.results))
        for one in {str(one.results): one for one in chosen.values()}.values()
        if one.results is not None
    }


def _fetched(repository: Repository, name: Path | None) -> Path:
    if name is None:
        raise SourceError("names no file", where=repository.dataset_id)
    return repository.fetch_file(name.as_posix()).path
