"""Details of runs in parquet: which files there are, and of several runs which is meant.

Both boards' and lighteval's writers name them alike: ``details_<task>_<time>.parquet``, in a folder of the run; of the
first Open LLM Leaderboard ``<run>/details_harness|arc:challenge|25_<run>.parquet``, of lighteval
``details/<model>/<run>/details_gsm8k|5_<run>.parquet``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from meta_eval.boundary.inputs import expand, open_parquet, parse_json, read_regular, reason, sha256_of
from meta_eval.errors import SourceError
from meta_eval.records.runs import ALL, choose, plain_time, snapshot_in
from meta_eval.results.find import Found
from meta_eval.source.base import Repository

_FILE = re.compile(r"details_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(?:\.\d+)?)\.parquet", re.DOTALL)
_RESULTS = re.compile(r"results_(?P<time>\d{4}-\d\d-\d\dT.+)\.json")
_MODEL = re.compile(r"details_+(?P<model>.+?)(?:_+private)?")
_MOST_RESULTS = 2**26


@dataclass(frozen=True, slots=True)
class Details:
    """The details of one task of one run.

    Attributes:
        name: The task as a pack names it, and as the hub names its configuration: ``harness_arc_challenge_25``.
        said: As the file names it: ``harness|arc:challenge|25``.
        shots: Examples in front of each question, as the file says it.
        time: Of the run.
        file: The name of the file inside the record.
    """

    name: str
    said: str
    shots: str | None
    time: str
    file: str


@dataclass(frozen=True)
class DetailsRecord:
    """Details of a run, of each task the ones that are meant.

    Attributes:
        name: The folder or hub id, as the user wrote it.
        revision: The commit, or of files here ``sha256:`` over their names and contents, of those that are asked for.
        tasks: By name.
        groups: The subjects of one benchmark, and all of it.
        model: Whose they are; None where nobody says it.
        fetch: The file of a name, on this machine.
    """

    name: str
    commit: str | None
    tasks: Mapping[str, Details]
    groups: Mapping[str, tuple[str, ...]]
    model: str | None
    fetch: Callable[[str], Path]

    def revision(self, names: Sequence[str]) -> str:
        """The commit, or of files here ``sha256:`` over the names and contents of those of some tasks."""
        if self.commit is not None:
            return self.commit
        files = sorted(self.tasks[name].file for name in names)
        lines = "".join(f"{file}\t{sha256_of(self.fetch(file))}\n" for file in files)
        return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def holds_details(names: Sequence[str]) -> bool:
    """Whether one of these files is named as details of a task are."""
    return any(_FILE.fullmatch(PurePosixPath(name).name) for name in names)


def files_in(folder: str) -> tuple[str, ...]:
    """The details below a folder and what lies beside them, by name inside it; none of what is no folder."""
    root = snapshot_in(expand(folder, where="evals_dataset"))
    if not root.is_dir():
        return ()
    found = [*root.rglob("details_*.parquet"), *root.rglob("results_*.json")]
    return tuple(sorted(path.relative_to(root).as_posix() for path in found if path.is_file()))


def open_details(
    place: str | Repository, names: Sequence[str], run: str | None, wanted: Sequence[str]
) -> DetailsRecord:
    """Open details of runs.

    Args:
        place: A folder, or a dataset of the hub.
        names: The names of its files.
        run: The time of the run that is meant, or its beginning; None where there is but one.
        wanted: The tasks that are asked for; with a name that is none, all of them are.

    Raises:
        ConfigError: There are several runs of a task and nobody says which, or there is none of this time.
        SourceError: A file is missing, gated, cut off or corrupt.
    """
    known = {(one.name, one.time): one for one in _found(names)}
    runs: dict[str, list[Found]] = {}
    for one in sorted(known.values(), key=lambda one: (one.name, one.time), reverse=True):
        runs.setdefault(one.name, []).append(Found(one.name, one.time, samples=Path(one.file)))
    if isinstance(place, str):
        root = snapshot_in(expand(place))
        name, commit = place, None

        def fetch(file: str) -> Path:
            return root / file
    else:
        name, commit, repository = place.dataset_id, place.revision, place

        def fetch(file: str) -> Path:
            return repository.fetch_file(file).path

    groups = _groups(known.values())
    asked = [task for one in wanted for task in groups.get(one, (one,))]
    chosen = choose(dict(sorted(runs.items())), run, asked, name)
    tasks = {task: known[task, one.time] for task, one in chosen.items()}
    there = {group: tuple(one for one in members if one in tasks) for group, members in groups.items()}
    return DetailsRecord(
        name, commit, tasks, {**{group: members for group, members in there.items() if members}, ALL: tuple(tasks)},
        _model(name, names, {one.time for one in tasks.values()}, fetch), fetch,
    )  # fmt: skip


def rows_of(
    path: Path, columns: Callable[[Sequence[str]], Sequence[str]], where: str, batch: int = 256
) -> Iterator[dict[str, Any]]:
    """The rows of a details file.

    Args:
        path: The file.
        columns: Which of its columns are wanted.
        where: Its name, for messages.
        batch: How many rows are held at a time.

    Raises:
        SourceError: It is no parquet file.
    """
    import pyarrow as pa

    try:
        with open_parquet(path) as file:
            for some in file.iter_batches(batch, columns=list(columns(file.schema_arrow.names))):
                yield from some.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SourceError(
            f"is no parquet file that can be read: {reason(error)}", where=where,
            hint="Fetch it again",
        ) from None  # fmt: skip


def _found(names: Sequence[str]) -> Iterator[Details]:
    for file in names:
        match = _FILE.fullmatch(PurePosixPath(file).name)
        if match is None:
            continue
        said = match["task"]
        parts = said.split("|")
        shots = next((part for part in reversed(parts[1:]) if part.isdecimal()), None)
        if len(parts) == 4:  # lighteval before 0.10: suite|task|shots|truncation of shots
            shots = parts[2]
        yield Details(re.sub(r"[^A-Za-z0-9_.]+", "_", said), said, shots, plain_time(match["time"]), file)


def _groups(known: Any) -> dict[str, tuple[str, ...]]:
    """The subjects of one benchmark: ``hendrycksTest-anatomy`` and ``mmlu:anatomy`` are of one each."""
    found: dict[str, dict[str, None]] = {}
    for one in known:
        group = re.sub(r"[-:][^|]+", "", one.said)
        found.setdefault(re.sub(r"[^A-Za-z0-9_.]+", "_", group), {})[one.name] = None
    names = {one.name for one in known}
    return {
        group: tuple(sorted(members)) for group, members in found.items() if len(members) > 1 and group not in names
    }


def _model(name: str, names: Sequence[str], times: set[str], fetch: Callable[[str], Path]) -> str | None:
    """Whose details they are: what the results of the run say, else the name of the dataset or folder."""
    for file in names:
        match = _RESULTS.fullmatch(PurePosixPath(file).name)
        if match is None or plain_time(match["time"]) not in times:
            continue
        try:
            tree = parse_json(read_regular(fetch(file), limit=_MOST_RESULTS))
            found = tree["config_general"].get("model_name") or tree["config_general"]["model_config"]["model_name"]
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
        if isinstance(found, str) and found:
            return found
    for part in reversed(PurePosixPath(name.replace("\\", "/")).parts):
        match = _MODEL.fullmatch(part.rpartition("--")[2])
        if match:
            return match["model"].replace("__", "/")
    return None
