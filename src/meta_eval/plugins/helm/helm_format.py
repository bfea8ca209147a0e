"""The record format of HELM's runs: a folder with ``scenario_state.json`` and ``per_instance_stats.json``.

The first has requests and completions, the second the metrics of each instance. ``run_spec.json`` names the run, and
``stats.json`` has means. Instances that a perturbation changed are left out: they are no answers to the questions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from meta_eval.base.display import quoted
from meta_eval.pack.records.log_entries import parse_log
from meta_eval.pack.records.log_format import find_each
from meta_eval.sockets import (
    SURE,
    DataError,
    FoundLog,
    LogEntry,
    LogFormat,
    LoggedTask,
    Place,
    RecordedDoc,
    SourceError,
    find_logs,
    plural,
    read_log,
    read_regular,
    record_answer,
)

STATE, STATS = "scenario_state.json", "per_instance_stats.json"

# What HELM counts of an answer and is no metric of it.
_COUNTED = re.compile(
    r"num_.*|.*_cost|.*_runtime.*|batch_size|finish_reason_.*|prompt_truncated|max_prob|logprob|.*perplexity|bits_per_byte"
    r"|logprob_per_byte|predicted_index|.*@\d+"
)

# HELM's main metrics, in this order. Which one is main, only the schema of its site says.
_MAIN = (
    "math_equiv_chain_of_thought", "math_equiv", "final_number_exact_match", "chain_of_thought_correctness",
    "ifeval_strict_accuracy", "omni_math_accuracy", "f1_score", "exact_match", "quasi_exact_match",
)  # fmt: skip

_ENDS = {"length": "length", "stop": "stop", "content_filter": "content_filter"}

# lm-eval's names of settings of generation.
_SETTINGS = {"temperature": "temperature", "max_tokens": "max_gen_toks", "top_p": "top_p"}

# What else changes what a model was asked, and stands in no request.
_ASKED = ("method", "num_outputs", "chain_of_thought_prefix", "chain_of_thought_suffix", "multi_label")

_MOST_BYTES = 2**29

# An instance and the number of its trial.
_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class HelmRun:
    """A run: a scenario with a model."""

    folder: Path
    file: str | None

    @property
    def spec(self) -> LogEntry:
        """``run_spec.json``; empty without it."""
        path = self.folder / "run_spec.json"
        return read_log(path) if path.is_file() else LogEntry({}, str(path))

    @property
    def task(self) -> str:
        """The run's name without its model."""
        name = self.spec.find_text("name") or self.folder.absolute().name
        parts = [part for part in name.split(",") if not re.match(r"(?:.*:)?model(?:_deployment)?=", part)]
        return ",".join(parts) or re.split(r"[:,-]model", name)[0]


class HelmFormat(LogFormat):
    """Runs of HELM. A run is a task."""

    name = "helm"
    reads = "runs of HELM (scenario_state.json)"
    settings: ClassVar[Mapping[str, str]] = {
        **{theirs: f"adapter_spec.{name}" for name, theirs in _SETTINGS.items()},
        "until": "adapter_spec.stop_sequences",
        **{name: f"adapter_spec.{name}" for name in _ASKED},
    }
    grader_settings: ClassVar[Mapping[str, str]] = {"metric_specs": "metric_specs", "annotators": "annotators"}

    def detect(self, place: Place) -> float:
        return SURE if _find_runs(place) else 0

    def list_logs(self, place: Place) -> Sequence[FoundLog]:
        runs = {run.file or STATE: run for run in _find_runs(place)}
        return [*find_each(runs, lambda _, run: FoundLog(run.task, partial(read_task, run))).values()]


def _find_runs(place: Place) -> list[HelmRun]:
    files = find_logs(place, lambda path: path.name == STATE)
    is_folder = place.path is not None and place.path.is_dir()
    return [HelmRun(path.parent, file if is_folder else None) for file, path in files.items()]


def read_task(run: HelmRun) -> LoggedTask:
    """Read a run.

    Raises:
        SourceError, DataError: A file is missing or damaged.
    """
    state = read_log(run.folder / STATE)
    spec = state.find_entry("adapter_spec")
    requests: dict[_Key, list[LogEntry]] = {}
    perturbed: set[str] = set()
    for request in state.find_entries("request_states"):
        instance = request.find_entry("instance")
        key = instance.find_key("id")
        if key is None:
            raise DataError("has no id of its instance", where=request.where)
        if "perturbation" in instance:
            perturbed.add(key)
        elif request.find_text("request_mode") != "calibration":
            some = requests.setdefault((key, request.find_count("train_trial_index") or 0), [])
            if any(other.tree.get("reference_index") == request.tree.get("reference_index") for other in some):
                raise _refuse_second(key, request.where)
            some.append(request)
    if not requests:
        raise SourceError("holds no request", where=state.where, hint="Use the folder of a finished run")
    metrics = read_helm_metrics(run.folder)
    split_of = {key: some[0].find_entry("instance").find_text("split") for key, some in requests.items()}
    splits = set(split_of.values())
    answers = [
        _read_answer(key, some, metrics.get(key, {}), split_of[key] if len(splits) > 1 else None)
        for key, some in requests.items()
    ]
    times = [
        time
        for some in requests.values()
        if (time := some[0].find_entry("result").find_count("request_datetime")) is not None
    ]
    shots = {some[0].find_count("num_train_instances") for some in requests.values()}
    warnings = []
    if perturbed:
        warnings.append(f"perturbed copies of {plural(len(perturbed), 'instance')} are left out")
    if len(splits) > 1:
        counts = Counter(str(split_of[key]) for key in requests)
        listed = ", ".join(f"{split} {count:,}" for split, count in sorted(counts.items()))
        warnings.append(f"it has {len(splits)} splits ({listed}): each is a subtask, and the score is of all")
    return LoggedTask(
        name=run.task,
        answers=answers,
        harness="helm",
        model=spec.find_text("model") or spec.find_text("model_deployment"),
        time=_format_time(max(times)) if times else None,
        file=run.file,
        generation=_read_generation(spec),
        scores=_read_means(run.folder, splits) if len({trial for _, trial in requests}) == 1 else {},
        grader="helm",
        settings=spec.find_settings({name: name for name in _ASKED}),
        grader_settings=run.spec.find_settings(HelmFormat.grader_settings),
        shots=next(iter(shots)) if len(shots) == 1 else None,
        has_stable_keys=True,
        warnings=warnings,
        obstacle="its choices were compared by likelihood" if "separate" in str(spec.tree.get("method")) else None,
    )


def _format_time(seconds: int) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _read_list(path: Path) -> list[LogEntry]:
    """A file that is a list of objects.

    Raises:
        SourceError, DataError: It is not.
    """
    try:
        tree = parse_log(read_regular(path, limit=_MOST_BYTES), str(path))
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if not isinstance(tree, list):
        raise DataError("is no list", where=str(path), hint="Use the file as HELM wrote it")
    return [LogEntry.of(value, f"{path}, {number}") for number, value in enumerate(tree)]


def read_helm_metrics(folder: Path) -> dict[_Key, dict[str, float]]:
    """The metrics of each instance and trial, the main one first.

    Raises:
        SourceError, DataError: They are not there, or damaged.
    """
    path = folder / STATS
    if not path.is_file():
        raise SourceError(
            f"has no {STATS}: its run still writes, or was broken off", where=str(folder),
            hint="Use the folder of a finished run",
        )  # fmt: skip
    metrics: dict[_Key, dict[str, float]] = {}
    for entry in _read_list(path):
        key = entry.find_key("instance_id")
        if key is None:
            raise DataError("has no instance_id", where=entry.where)
        if "perturbation" in entry:
            continue
        values = metrics.setdefault((key, entry.find_count("train_trial_index") or 0), {})
        for name, mean in _list_means(entry.find_entries("stats")):
            if values.setdefault(name, mean) != mean:  # several metrics may give the same statistic
                raise _refuse_second(key, f"{entry.where}, {name}")
    return {key: dict(sorted(values.items(), key=_rank)) for key, values in metrics.items()}


def _refuse_second(key: str, where: str) -> DataError:
    return DataError(f"holds {quoted(key)} twice", where=where, hint="Use the files of one run, as HELM wrote them")


def _rank(item: tuple[str, float]) -> int:
    return _MAIN.index(item[0]) if item[0] in _MAIN else len(_MAIN)


def _list_means(stats: Sequence[LogEntry]) -> list[tuple[str, float]]:
    """Name and mean of the metrics among some statistics; none of perturbed instances, of parts of a split, or of
    nothing."""
    means = []
    for stat in stats:
        metric = stat.find_entry("name")
        name, mean = metric.find_text("name") or "", stat.find_number("mean")
        is_whole = "perturbation" not in metric and "sub_split" not in metric and stat.find_count("count") != 0
        if is_whole and mean is not None and name and not _COUNTED.fullmatch(name):
            means.append((name, mean))
    return means


def _read_means(folder: Path, splits: set[str | None]) -> Mapping[str, float]:
    """HELM's own means over the instances of a split; empty where there are several splits."""
    path = folder / "stats.json"
    if not path.is_file() or len(splits) != 1:
        return {}
    stats = [stat for stat in _read_list(path) if stat.find_entry("name").find_text("split") in splits]
    means = _list_means(stats)
    counts = Counter(name for name, _ in means)
    return {name: mean for name, mean in means if counts[name] == 1}


def _read_generation(spec: LogEntry) -> dict[str, Any]:
    stops = spec.find_list("stop_sequences")
    made = {theirs: spec.tree[name] for name, theirs in _SETTINGS.items() if name in spec}
    return {"until": [str(stop) for stop in stops], **({} if "temperature" in made else {"do_sample": True}), **made}


def _read_answer(
    key: _Key, requests: Sequence[LogEntry], metrics: Mapping[str, float], subtask: str | None
) -> RecordedDoc:
    first = requests[0]
    instance, request = first.find_entry("instance"), first.find_entry("request")
    references = instance.find_entries("references")
    texts = [reference.find_entry("output").find_text("text") or "" for reference in references]
    right = [
        text for text, reference in zip(texts, references, strict=True) if "correct" in reference.find_list("tags")
    ]
    letters = first.find_entry("output_mapping").tree
    if letters:
        all_right = {*right}
        golds = [letter for letter, text in letters.items() if isinstance(text, str) and text in all_right]
    else:
        golds = right
    result = first.find_entry("result")
    failed = result.tree.get("success") is False
    messages = request.find_list("messages")
    sent = [
        {"role": LogEntry.of(message, request.where).text("role"), "content": message.get("content") or ""}
        for message in messages
    ]
    answer, end = _read_completion(requests, texts)
    return record_answer(
        key=key[0],
        subtask=subtask,
        repeat=key[1],
        question={
            "query": instance.find_entry("input").find_text("text") or "",
            **({"references": texts} if texts else {}),
        },
        gold=golds[0] if golds else "",
        other_golds=tuple(golds[1:]),
        prompt=sent or request.find_text("prompt") or None,
        answer=answer,
        verdicts=dict(metrics),
        finish_reason=end,
        fault=f"its request failed: {result.tree.get('error')}" if failed or "result" not in first else None,
    )


def _read_completion(requests: Sequence[LogEntry], texts: Sequence[str]) -> tuple[str, str | None]:
    """The text of the answer and how it ended; of choices that were asked one by one, the likeliest."""
    outputs = [request.find_entry("result").find_entries("completions") for request in requests]
    if len(requests) > 1 or requests[0].find_count("reference_index") is not None:
        costs = [(some[0].find_number("logprob") if some else None) or float("-inf") for some in outputs]
        index = requests[costs.index(max(costs))].find_count("reference_index") or 0
        return (texts[index] if index < len(texts) else ""), "stop"
    if not outputs[0]:
        return "", None
    reason = outputs[0][0].find_entry("finish_reason").find_text("reason")
    # Of an end token HELM has the name.
    ended = "stop" if (reason or "").startswith("endof") else _ENDS.get(reason or "")
    return outputs[0][0].find_text("text") or "", ended
