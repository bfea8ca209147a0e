"""The record format of details in parquet: those of the first Open LLM Leaderboard and of lighteval.

Both writers name files alike: ``details_<task>_<time>.parquet``, in a folder of the run. The board wrote
``<run>/details_harness|arc:challenge|25_<run>.parquet``, lighteval writes
``details/<model>/<run>/details_gsm8k|5_<run>.parquet``. Names of downloads may be quoted (``%7C``), or have ``_`` for
characters that a file system refuses.

Recorded token ids show whether the record was made with the model's tokenizer, and whether a BOS preceded its prompts.
The harness of 2023 added no BOS; today every engine does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from meta_eval import stats
from meta_eval.base.hashing import hash_file, hash_text
from meta_eval.base.inputs import describe_error, open_parquet
from meta_eval.harness.output_index import RESTORE_NAME, TaskOutput, explain_wrong_time
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.records.log_entries import advising
from meta_eval.pack.records.recorded_docs import WARNING_TEXTS, RecordedDocs
from meta_eval.pack.records.run_selection import choose_runs, make_config_name, normalise_time
from meta_eval.pack.records.task_code import make_grader_code
from meta_eval.pack.records.task_groups import ALL
from meta_eval.plugins.boards.board_row import choose_columns, read_board_row
from meta_eval.plugins.boards.details_row import NESTED, DetailsDoc, read_lighteval_row
from meta_eval.sockets import (
    SURE,
    DataError,
    Grader,
    LogEntry,
    Place,
    Reading,
    Record,
    RecordedScore,
    RecordedTask,
    RecordFormat,
    SourceError,
    UserError,
    locating,
    log,
    read_log,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FILE = re.compile(
    r"details_(?P<task>.+)_(?P<time>\d{4}[-_]\d\d[-_]\d\dT\d\d[:_-]\d\d[:_-]\d\d(?:\.\d+)?)\.(?P<ending>parquet|json)",
    re.DOTALL,
)
_RESULTS = re.compile(r"results_(?P<time>\d{4}-\d\d-\d\dT.+)\.json")
_MODEL = re.compile(r"details_+(?P<model>.+?)(?:_+(?:private|public))?")

# What to do about a task that is damaged, or that nothing here grades.
_HINT = "Use the details of another run, or leave the task out"


class DetailsFormat(RecordFormat):
    """The format "details" of recorded runs: a parquet file for each task."""

    name = "details"
    reads = "details of the leaderboards and of lighteval"
    settings: ClassVar[Mapping[str, str]] = {
        **{name: f"model_config.generation_parameters.{name}" for name in (
            "temperature", "top_p", "top_k", "min_p", "max_new_tokens", "min_new_tokens", "stop_tokens",
            "repetition_penalty", "frequency_penalty", "presence_penalty", "length_penalty", "early_stopping",
            "truncate_prompt", "response_format",
        )},
        **{name: f"model_config.{name}" for name in (
            "system_prompt", "override_chat_template", "add_special_tokens", "max_length",
        )},
    }  # fmt: skip

    def detect(self, place: Place) -> float:
        return SURE if any(map(_match, place.files)) else 0

    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:
        return DetailsRecord(place, run, names)


@dataclass(frozen=True, slots=True)
class Details:
    """The details of one task of one run."""

    name: str
    """The task as a pack names it, and as the hub names its configuration: ``harness_arc_challenge_25``."""

    source_name: str
    """As the file names it: ``harness|arc:challenge|25``."""

    shots: str | None
    """Number of examples before each question, as the file names it."""

    time: str
    """Of the run."""

    file: str
    """The name of the file inside the record."""


class DetailsRecord(Record):
    """A recorded run in the format "details", with the selected file of each task."""

    def __init__(self, place: Place, run: str | None, task_names: Sequence[str]) -> None:
        listed = list(_list_details(place.files))
        by_name_and_time = {(details.name, details.time): details for details in listed}
        for details in listed:
            if (taken := by_name_and_time[details.name, details.time]) is not details:
                log.warning(f"{place.name}: {taken.file} counts, and {details.file} of the same task and time does not")
        if not by_name_and_time:  # the leaderboard's first details, of July 2023
            raise SourceError(
                "holds details as JSON, which meta-eval does not read", where=place.name,
                hint="Use details in parquet, such as open-llm-leaderboard-old/details_ORG__MODEL",
            )  # fmt: skip
        runs: dict[str, list[TaskOutput]] = {}
        for details in sorted(
            by_name_and_time.values(), key=lambda details: (details.name, details.time), reverse=True
        ):
            runs.setdefault(details.name, []).append(TaskOutput(details.name, details.time, samples=Path(details.file)))
        groups = _groups(by_name_and_time.values())
        names = [task for name in map(make_config_name, task_names) for task in groups.get(name, (name,))]
        chosen = choose_runs(dict(sorted(runs.items())), run, names, place.name)
        self._place = place
        self._details = {task: by_name_and_time[task, run.time] for task, run in chosen.items()}
        chosen_groups = {
            group: tuple(member for member in members if member in chosen) for group, members in groups.items()
        }
        self.name, self.tasks = place.name, tuple(self._details)
        self.groups = {**{group: members for group, members in chosen_groups.items() if members}, ALL: self.tasks}
        times = {details.time for details in self._details.values()}
        configs, self._damage = _read_configs(place.files, times, place.fetch)
        self._model = _model(place.name, configs)
        self._settings = LogEntry(configs[0], place.name).find_settings(DetailsFormat.settings) if configs else None

    @advising(_HINT)
    def read(self, task: str, reading: Reading) -> RecordedTask:
        from meta_eval.plugins.boards.graded_docs import read_details

        details = self._details[task]
        if (damage := self._damage.get(details.time)) is not None:
            raise damage
        check = TokenCheck(reading.tokenizer())
        with locating(f"{self.name}, {task}"):
            graded = read_details(self._samples(details, check), details.source_name, check.compare)
        graded.docs.warnings.update(check.warnings)
        warnings = [
            f"{count:,} docs {WARNING_TEXTS[key]}"
            for key, count in graded.docs.warnings.items()
            if key in WARNING_TEXTS
        ]
        if check.first is not None:
            warnings.append(f"the first doc with other token ids: {check.first}")
        if graded.not_regraded:
            warnings.append(f"recorded and not graded again: {', '.join(graded.not_regraded)}")
        return RecordedTask(
            rows=graded.docs,
            output_type="generate_until" if graded.delimiter is None else "multiple_choice",
            revision=self._revision(details),
            entry=RecordEntry(
                model=self._model, time=details.time, results_file=details.file, lm_eval=None, backend=None,
                bos_text=None, chat_template=False, shots=details.shots, task_version=None,
                bos_in_prompts=check.with_bos,
            ),
            benchmark=details.source_name,
            scores=_scores(graded.metrics, graded.docs),
            specs=[f"{metric},none" for metric in graded.metrics],
            warnings=warnings,
            about=graded,
            settings=self._settings,
        )  # fmt: skip

    def grader(self, task: str, recorded: RecordedTask, reading: Reading) -> Grader:  # noqa: ARG002
        from meta_eval.plugins.boards.graded_docs import GradedDocs, choose_verdict_metric

        graded = recorded.about
        assert isinstance(graded, GradedDocs)  # noqa: S101 (what `read` left there)
        return Grader(
            make_grader_code(graded.grader, task),
            choose_verdict_metric(graded.metrics, task),
            delimiter=graded.delimiter,
        )

    def _samples(self, details: Details, check: TokenCheck) -> Iterator[DetailsDoc]:
        rows = read_details_rows(
            self._place.fetch(details.file),
            lambda names: choose_columns(names, tokens=check.tokenizer is not None),
            f"{self.name}, {details.name}, {details.file}",
        )
        for number, row in enumerate(rows):
            read = read_lighteval_row if row.keys() >= NESTED else read_board_row
            with locating(f"doc {number}", behind=", "):
                yield read(row, check.tokenizer)

    def _revision(self, details: Details) -> str:
        """The commit; for a local file ``sha256:`` over its name and content."""
        if self._place.repository is not None:
            return self._place.repository.revision
        line = f"{details.file}\t{hash_file(self._place.fetch(details.file))}\n"
        return f"sha256:{hash_text(line)}"


def _scores(metrics: Iterable[str], rows: RecordedDocs) -> dict[str, RecordedScore]:
    scores = {}
    for metric_key in (f"{metric},none" for metric in metrics):
        values = [row.metrics[metric_key] for row in rows.rows if metric_key in row.metrics]
        scores[metric_key] = RecordedScore(stats.mean(values))
    return scores


def read_details_rows(
    path: Path, columns: Callable[[Sequence[str]], Sequence[str]], where: str
) -> Iterator[dict[str, Any]]:
    """The rows of a details file.

    Args:
        path: The file.
        columns: Chooses the columns to read.
        where: Its name, for messages.

    Raises:
        SourceError: It is not a parquet file.
    """
    import pyarrow as pa

    try:
        with open_parquet(path) as file:
            for some in file.iter_batches(256, columns=list(columns(file.schema_arrow.names))):
                yield from some.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SourceError(
            f"is not a readable parquet file: {describe_error(error)}", where=where,
            hint="Fetch it again",
        ) from None  # fmt: skip


def _match(file: str) -> re.Match[str] | None:
    return _FILE.fullmatch(unquote(PurePosixPath(file).name))


def _list_details(names: Sequence[str]) -> Iterator[Details]:
    for file in names:
        match = _match(file)
        if match is None or match["ending"] == "json":
            continue
        if wrong := explain_wrong_time(match["time"]):
            raise SourceError(wrong, where=file, hint=RESTORE_NAME)
        source_name = match["task"]
        parts = source_name.split("|" if "|" in source_name else "_")
        shots = next((part for part in reversed(parts[1:]) if part.isdecimal()), None)
        if "|" in source_name and len(parts) == 4:  # lighteval before 0.10: suite|task|shots|truncation of shots
            shots = parts[2]
        yield Details(make_config_name(source_name), source_name, shots, normalise_time(match["time"]), file)


def _groups(all_details: Any) -> dict[str, tuple[str, ...]]:
    """Group the subjects of a benchmark, such as ``hendrycksTest-anatomy`` and ``mmlu:anatomy``."""
    members_of: dict[str, dict[str, None]] = {}
    for details in all_details:
        group = re.sub(r"[-:][^|]+", "", details.source_name)
        members_of.setdefault(make_config_name(group), {})[details.name] = None
    names = {details.name for details in all_details}
    return {
        group: tuple(sorted(members))
        for group, members in members_of.items()
        if len(members) > 1 and group not in names
    }


def _read_configs(
    names: Sequence[str], times: set[str], fetch: Callable[[str], Path]
) -> tuple[list[Mapping[str, Any]], dict[str, UserError]]:
    """The configuration in each results file of some runs, and by time the error of one that cannot be read."""
    configs: list[Mapping[str, Any]] = []
    damage: dict[str, UserError] = {}
    for file in names:
        match = _RESULTS.fullmatch(PurePosixPath(file).name)
        if match is None or (time := normalise_time(match["time"])) not in times:
            continue
        path = fetch(file)
        try:
            tree = read_log(path).tree
        except (DataError, SourceError) as error:
            damage[time] = error
            continue
        config = tree.get("config") or tree.get("config_general")  # the leaderboard's first results have `config`
        if isinstance(config, dict):
            configs.append(config)
    return configs, damage


def _model(name: str, configs: Iterable[Mapping[str, Any]]) -> str | None:
    """The model of the details: from the run's results, or else from the name of the dataset or folder."""
    for config in configs:
        model = config.get("model_name") or LogEntry(config, name).find_settings({"": "model_config.model_name"}).get(
            ""
        )
        if isinstance(model, str) and model:
            return model
    for part in reversed(PurePosixPath(name.replace("\\", "/")).parts):
        match = _MODEL.fullmatch(part.rpartition("--")[2])
        if match:
            return match["model"].replace("__", "/", 1)
    return None


# All requests of the first docs are compared; of later docs only the first, as their requests share a prompt.
_WHOLE = 256


@dataclass(slots=True)
class TokenCheck:
    """The result of comparing the ids of a task."""

    tokenizer: Tokenizer | None
    """The model's; None where it is not on this machine."""

    docs: int = 0
    """How many docs were compared."""

    other: int = 0
    """How many of them have different ids."""

    without_bos: int = 0
    """How many were asked without the BOS that this tokenizer puts in front."""

    twice: int = 0
    """How many were asked with more than one BOS."""

    first: str | None = None
    """The first doc with different ids, and the difference."""

    _added: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.tokenizer is not None:
            plain = self.tokenizer.encode("a", add_special_tokens=False).ids
            with_special = self.tokenizer.encode("a").ids
            self._added = (
                with_special[: max(0, len(with_special) - len(plain))] if with_special[-len(plain) :] == plain else []
            )

    def compare(self, number: int, sample: DetailsDoc) -> None:
        """Compare the ids of a doc. A doc without ids, or with a truncated prompt, is skipped."""
        if self.tokenizer is None or sample.tokens is None or sample.truncated:
            return
        texts = sample.requests
        if len(texts) != len(sample.tokens):
            return
        some = slice(None if number < _WHOLE else 1)
        fronts, differs = Counter[int](), None
        for text, recorded in zip(texts[some], sample.tokens[some], strict=True):
            encoded = self.tokenizer.encode(text, add_special_tokens=False).ids
            front = 0
            while self._added and recorded[front : front + 1] == tuple(self._added[:1]):
                front += 1
            fronts[front] += 1
            recorded_ids = list(recorded[front:])
            # The last id is not an input of a likelihood; some writers omit it.
            if differs is None and recorded_ids not in (encoded, encoded[:-1]):
                differs = _difference(encoded, recorded_ids)
        self.docs += 1
        self.without_bos += bool(self._added) and 0 in fronts
        self.twice += any(front > 1 for front in fronts)
        if differs is not None:
            self.other += 1
            self.first = self.first or f"doc {number}: {differs}"

    @property
    def with_bos(self) -> bool | None:
        """Whether a BOS preceded the prompts; None if unknown, or if docs differ."""
        if not self._added or not self.docs or 0 < self.without_bos < self.docs:
            return None
        return not self.without_bos

    @property
    def warnings(self) -> dict[str, int]:
        """Warnings, by their names in a manifest."""
        counts = {
            "asked_without_bos": self.without_bos, "asked_with_two_bos": self.twice, "other_token_ids": self.other,
            "same_token_ids": self.docs - self.other,
        }  # fmt: skip
        return {name: count for name, count in counts.items() if count}


def _difference(encoded: list[int], recorded_ids: list[int]) -> str:
    place = next(
        (at for at, (token_id, other) in enumerate(zip(encoded, recorded_ids, strict=False)) if token_id != other), None
    )
    if place is None:
        return f"{len(encoded)} ids here and {len(recorded_ids)} then"
    return f"id {place} is {encoded[place]} here and was {recorded_ids[place]}"
