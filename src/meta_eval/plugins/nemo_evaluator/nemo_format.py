"""The record format of NeMo Evaluator's bundles: ``results.jsonl`` with a line for each answer, beside ``eval-*.json``.

A folder holds a benchmark. ``problem_idx`` names the problem, ``repeat`` the answer to it, ``reward`` the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from meta_eval.base.inputs import format_json
from meta_eval.pack.records.log_entries import read_log_lines, to_number
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
    peek_log,
    read_log,
    record_answer,
)

RESULTS = "results.jsonl"

# What a run has graded so far, without prompts, for a later `nel eval resume`.
_PROGRESS = "verified_log.jsonl"

# An error of the infrastructure, which is no answer of the model.
_INFRA = "infra_error"

# lm-eval's names of settings of generation.
_SETTINGS = {"max_tokens": "max_gen_toks", "temperature": "temperature", "top_p": "top_p", "seed": "seed"}

# What else changes what a model was asked.
_ASKED = {name: f"config.{name}" for name in (
    "system_prompt", "prompt_template", "solver", "tools", "max_turns", "reasoning_effort", "top_k", "min_p",
    "frequency_penalty", "presence_penalty", "stop", "extra_body",
)}  # fmt: skip
_GRADED = {name: f"config.{name}" for name in ("judge", "scoring", "scorers")}


@dataclass(frozen=True, slots=True)
class _Bundle:
    """A benchmark of a run."""

    results: Path
    file: str | None
    head: LogEntry
    """``eval-*.json``; empty without one."""

    @property
    def name(self) -> str:
        benchmark, config = self.head.find_entry("benchmark"), self.head.find_entry("config")
        return benchmark.find_text("name") or config.find_text("benchmark") or self.results.absolute().parent.name

    @property
    def time(self) -> str | None:
        return self.head.find_time("timestamp")


class NemoFormat(LogFormat):
    """Bundles of NeMo Evaluator. A benchmark is a task."""

    name = "nemo_evaluator"
    reads = "bundles of NeMo Evaluator (results.jsonl)"
    settings: ClassVar[Mapping[str, str]] = {
        **{theirs: f"config.{name}" for name, theirs in _SETTINGS.items() if name != "seed"},
        **_ASKED,
    }
    grader_settings = _GRADED

    def detect(self, place: Place) -> float:
        return SURE if _find_results(place) or find_logs(place, _is_progress) else 0

    def list_logs(self, place: Place) -> Sequence[FoundLog]:
        if not (results := _find_results(place)):
            raise SourceError(
                f"holds no {RESULTS}: the run is unfinished", where=place.name, hint="End it: nel eval resume"
            )
        return [*find_each(results, partial(_find_bundle, place)).values()]


def _find_results(place: Place) -> dict[str, Path]:
    """The results of a place: a folder, its results, or the bundle beside them."""
    path = place.path
    if path is not None and path.is_file() and path.name.startswith("eval-") and path.suffix == ".json":
        beside = path.with_name(RESULTS)
        return {path.name: beside} if _is_results(beside) else {}
    return find_logs(place, _is_results)


def _is_results(path: Path) -> bool:
    if path.suffix != ".jsonl":
        return False
    start = b"".join(peek_log(path).split(b"\n", 1)[0].split())
    is_answer = start.startswith(b'{"problem_idx":') and (b'"reward":' in start or path.name == RESULTS)
    return is_answer and path.name != _PROGRESS


def _is_progress(path: Path) -> bool:
    return path.name == _PROGRESS and peek_log(path).startswith(b'{"problem_idx":')


def _find_bundle(place: Place, file: str, results: Path) -> FoundLog:
    is_folder = place.path is not None and place.path.is_dir()
    heads = sorted(results.parent.glob("eval-*.json"))
    if place.path in heads:
        heads = [head for head in heads if head == place.path]
    head = read_log(heads[-1]) if heads else LogEntry({}, str(results))
    bundle = _Bundle(results, file if is_folder else None, head)
    return FoundLog(bundle.name, partial(_read_task, bundle), bundle.time or "")


def _read_task(bundle: _Bundle) -> LoggedTask:
    head = bundle.head
    rows = list(read_log_lines(bundle.results))
    expected = head.find_count("n_results")
    if expected is not None and len(rows) < expected:
        raise DataError(
            f"holds {len(rows)} of {expected} results", where=str(bundle.results),
            hint="Use the file of a finished run, as it was written",
        )  # fmt: skip
    if not rows:
        raise SourceError("holds no results", where=str(bundle.results), hint="Use the file of a finished run")
    answers = [_read_answer(row) for row in rows]
    mean = head.find_entry("benchmark").find_entry("scores").find_entry("mean_reward").find_number("value")
    docs = len({answer.key for answer in answers})
    same_repeats = len(answers) % docs == 0 and max(answer.repeat for answer in answers) + 1 == len(answers) // docs
    return LoggedTask(
        name=bundle.name,
        answers=answers,
        harness="nemo_evaluator",
        model=head.find_entry("config").find_text("model"),
        time=bundle.time,
        file=bundle.file,
        generation=_read_generation(head.find_entry("config")),
        scores={"reward": mean} if mean is not None and same_repeats else {},
        grader=f"nemo_evaluator {bundle.name}",
        settings=head.find_settings(_ASKED) if head.tree else None,
        grader_settings=head.find_settings(_GRADED),
        warnings=[] if head.tree else ["has no bundle eval-*.json beside its results: model and settings are unknown"],
        obstacle="its log has the prompt, and not the messages that were sent",
    )


def _read_generation(config: LogEntry) -> dict[str, Any] | None:
    made = {theirs: config.tree[name] for name, theirs in _SETTINGS.items() if name in config}
    return {"until": [], **({} if "temperature" in made else {"do_sample": True}), **made} if made else None


def _read_answer(row: LogEntry) -> RecordedDoc:
    key = row.find_key("problem_idx")
    reward = row.find_number("reward")
    if key is None:
        raise DataError("has no problem_idx", where=row.where)
    if "reward" not in row:
        raise DataError("has no reward", where=row.where)
    prompt = row.tree.get("prompt")
    # Without its prompt a problem is its number, which is the same in every run.
    question = {"problem_idx": key} if not prompt else {"query": _to_text(prompt)}
    details = row.tree.get("scoring_details")
    details = details if isinstance(details, dict) else {}
    metadata = row.tree.get("metadata")
    category = metadata.get("category") if isinstance(metadata, dict) else None
    category = details.get("category") if category is None else category
    scorers = row.find_entry("scorer_rewards").tree
    others = {name: number for name, value in scorers.items() if (number := to_number(value)) is not None}
    return record_answer(
        key=key,
        repeat=row.find_count("repeat") or 0,
        question=question,
        gold=_to_text(row.tree.get("expected_answer")),
        prompt=_to_text(prompt) or None,
        answer=_to_text(row.tree["model_response"]) if "model_response" in row else row.find_text("extracted_answer"),
        verdicts={} if reward is None else {"reward": reward, **others},
        extracted=extracted if isinstance(extracted := row.tree.get("extracted_answer"), str) else None,
        fault="an error of the infrastructure" if details.get("error_category") == _INFRA else None,
        subtask=category if isinstance(category, str) else None,
    )


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else format_json(value)
