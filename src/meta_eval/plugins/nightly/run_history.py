"""A history of runs: a folder with a JSON file for each run, which holds its verdicts and no text.

The files can lie in a repository, in a cache of CI or in a bucket. A file is never changed. Its name begins with the
time of the run, so a listing has the runs in order.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from meta_eval.base.hashing import hash_json
from meta_eval.base.inputs import MAX_FILE, describe_error
from meta_eval.base.model_errors import describe_first
from meta_eval.base.outputs import make_folder, replace_file
from meta_eval.base.secrets import hide_secrets
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.output_index import parse_time
from meta_eval.harness.scores import compute_scores
from meta_eval.judge.pair import find_verdict_metric
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.sockets import UserError, log, parse_json, read_regular

_FORMAT: Final = "meta-eval history"
_VERSION: Final = 1

# Characters kept of a doc's hash. Two docs of a task share them by chance in one of 10^14 pairs.
_HASH = 12

_EPOCH = datetime.fromtimestamp(0, tz=UTC)


class HistoryError(UserError):
    """A folder of past runs, or a file in it, cannot be used."""


def _need_time(text: str) -> str:
    if parse_time(text) is None:
        raise ValueError(f"there is no time {text}")
    return text


class TaskVerdicts(BaseModel):
    """The verdicts on a task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: str
    """Their ``metric,filter``."""

    docs: dict[str, Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]] = Field(min_length=1)
    """By doc, the quality of its answer from 0 to 1, higher is better. A doc is named by lm-eval's hash of it."""


class PastRun(BaseModel):
    """A run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["meta-eval history"] = _FORMAT
    version: Literal[1] = _VERSION
    time: Annotated[
        str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z$"), AfterValidator(_need_time)
    ]
    """When it began, ISO 8601 in UTC."""

    name: Annotated[str, Field(max_length=200), AfterValidator(hide_secrets)] = ""
    """What it is a run of, such as a commit."""

    model: Annotated[str | None, AfterValidator(hide_secrets)] = None
    engine: Annotated[str | None, AfterValidator(hide_secrets)] = None
    """As its results name them."""

    tasks: dict[str, TaskVerdicts] = Field(min_length=1)
    """The verdicts by task."""

    new_level: bool = False
    """Whether the runs before it no longer count, because a change was accepted."""

    @property
    def label(self) -> str:
        """Its name, else its time."""
        return self.name or self.time


def read_past_run(results: Sequence[Path], *, name: str = "", new_level: bool = False) -> PastRun:
    """Read the verdicts of a run from its results.

    Args:
        results: As of `read_any_run`.
        name: What it is a run of.
        new_level: Whether a change is accepted with this run.

    Raises:
        ResultsError: They cannot be read.
        HistoryError: No task has verdicts on docs, or the name is unfit.
    """
    run = read_any_run(results)
    tasks = {task: verdicts for task, result in run.tasks.items() if (verdicts := _verdicts(result)) is not None}
    where = ", ".join(map(str, results))
    if not tasks:
        raise HistoryError("no task has verdicts on its docs", where=where, hint="Run lm_eval with --log_samples")
    if len(name) > 200 or not name.isprintable():
        raise HistoryError(f"{name!r:.40} is no name of a run", where="--name", hint="Name a commit")
    for task, fault in run.faults.items():
        log.warning(f"left out: {task or where}: {fault}")
    first = next(iter(run.tasks.values())).provenance
    return PastRun(
        time=_time(run), name=name, model=first.model, engine=first.engine or first.backend, tasks=tasks,
        new_level=new_level,
    )  # fmt: skip


def _verdicts(result: TaskRun) -> TaskVerdicts | None:
    metric = find_verdict_metric(result, None)
    scores = compute_scores(result.docs, metric, result.lower_is_better) if metric else None
    if metric is None or scores is None:
        return None
    names: Counter[str] = Counter()
    docs = {}
    for index, value in zip(scores.doc_indices, scores.verdicts, strict=True):
        name = (result.docs[index].question_hash or str(result.docs[index].doc_id))[:_HASH]
        names[name] += 1
        docs[name if names[name] == 1 else f"{name}#{names[name]}"] = float(value)
    return TaskVerdicts(metric=metric, docs=docs)


def _time(run: Run) -> str:
    """The newest time of its tasks, in UTC to the microsecond."""
    text = max(result.time for result in run.tasks.values())
    moment = parse_time(text) or _EPOCH  # results of before 0.4.2 may have no time
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def add_run(folder: Path, run: PastRun) -> Path:
    """Write a run into a history, and return its file. The same run again gives the same file.

    Raises:
        HistoryError: The file is there and was changed since, the same results are there under another name, or the run
            has too many docs.
        OutputError: It cannot be written.
    """
    make_folder(folder)
    content = run.model_dump(mode="json")
    text = json.dumps(content, separators=(",", ":")) + "\n"
    path = folder / f"{run.time[:19].replace(':', '-')}_{hash_json(content)[:8]}.json"
    if len(text) > MAX_FILE:
        raise HistoryError("has too many docs for a history", where=str(path), hint="Add results of fewer tasks")
    if os.path.lexists(path) and not _holds(path, text):
        raise HistoryError(
            "is of this run and was changed since, so it is not replaced", where=str(path),
            hint="Move it out of the folder, and add the run again",
        )  # fmt: skip
    begins = path.name.partition("_")[0]
    others = [(other, _read(other)) for other in sorted(folder.glob(f"{begins}_*.json")) if other != path]
    _refuse_same_results([*others, (path, run)])
    with replace_file(path) as out:
        out.write(text)
    return path


def find_newer(folder: Path, run: PastRun) -> PastRun | None:
    """The newest run of a history, by the names of its files, where it is newer than a run; None where it is not.

    Args:
        folder: The history.
        run: A run of it.
    """
    last = max((path.name.partition("_")[0] for path in folder.glob("*.json")), default="")
    newest = run
    for path in sorted(folder.glob(f"{escape(last)}*.json")):
        with suppress(HistoryError):  # `read_history` says what is wrong with it
            newest = max(newest, _read(path), key=lambda of: parse_time(of.time) or _EPOCH)
    return None if newest is run else newest


def _refuse_same_results(runs: Sequence[tuple[Path, PastRun]]) -> None:
    """Refuse results that stand in a history twice: a job that evaluates nothing would look like the runs before."""
    seen: dict[tuple[str, str], tuple[Path, PastRun]] = {}
    for path, run in runs:
        if parse_time(run.time) == _EPOCH:  # nobody knows its time
            continue
        key = run.time, hash_json({name: task.model_dump() for name, task in run.tasks.items()})
        if key in seen:
            first_path, first = seen[key]
            raise HistoryError(
                f"{run.label} has the results of {first.label}: the same time, {run.time}, and the same verdicts",
                where=str(path.parent),
                hint=f"Add the results of a new run. The first are in {first_path.name}",
            )
        seen[key] = path, run


def _holds(path: Path, text: str) -> bool:
    try:
        return read_regular(path) == text.encode()
    except FileNotFoundError:  # a link to nothing
        return False


def read_history(folder: Path) -> list[PastRun]:
    """Read a history, oldest run first. Runs of the same time are in the order of their files' paths.

    Raises:
        HistoryError: The folder has no run or the same results twice, or a file cannot be read.
    """
    files = list(folder.glob("*.json"))
    if not files:
        raise HistoryError(
            "holds no run", where=str(folder), hint="Add one: meta-eval history add RESULTS --folder FOLDER"
        )
    runs = [(path, _read(path)) for path in sorted(files)]
    runs.sort(key=lambda read: (parse_time(read[1].time) or _EPOCH, read[0]))
    _refuse_same_results(runs)
    return [run for _, run in runs]


def _read(path: Path) -> PastRun:
    try:
        tree = parse_json(read_regular(path, limit=MAX_FILE))
        if not isinstance(tree, Mapping) or tree.get("format") != _FORMAT:
            raise HistoryError("is no run of a history", where=str(path), hint="Move it out of the folder")
        if tree.get("version") != _VERSION:
            raise HistoryError("is of a newer version", where=str(path), hint="pip install --upgrade meta-eval")
        return PastRun.model_validate(tree)
    except ValidationError as error:
        what = describe_first(error)
    except (OSError, ValueError) as error:
        what = f"cannot be read: {describe_error(error)}"
        if isinstance(error, PermissionError):
            raise HistoryError(what, where=str(path)) from None
    raise HistoryError(what, where=str(path), hint="Fetch it again, or delete it")
