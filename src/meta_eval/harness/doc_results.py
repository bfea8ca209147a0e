"""A doc as a model answered it: its metrics, figures, verdicts under each filter, and the unit that it counts in.

A figure is a row of `FIGURES`. Runs, baselines, JSON and every view have it from there.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from meta_eval.base.errors import UserError
from meta_eval.base.inputs import PointerError
from meta_eval.base.thresholds import SAME_VALUE

# A sample as lm-eval writes it: a doc with its answers and metrics under one filter, by key.
Sample = Mapping[str, Any]

# Metrics of rolling likelihoods, which lm-eval averages over words or bytes instead of docs.
_WEIGHTED = frozenset(("word_perplexity", "byte_perplexity", "bits_per_byte"))

# Metrics of lm-eval and its tasks that are never shares from 0 to 1. Others are recognised by a value outside 0 to 1.
UNBOUNDED_METRICS = _WEIGHTED | {
    "perplexity", "bleu", "chrf", "chrf++", "ter", "brier_score", "mcc", "eqbench", "likelihood", "likelihood_diff",
    "bleurt", "pearsonr", "difference_male_female", "bias_score_disambig", "bias_score_ambig", "amb_bias_score",
    "disamb_bias_score",
    *(f"{name}_{which}" for name in ("bleu", "rouge1", "rouge2", "rougeL", "bleurt") for which in ("max", "diff")),
}  # fmt: skip

# Metrics where lower is better, if no results file says so (before 0.4.3 only a task's metric list has it).
LOWER_IS_BETTER = _WEIGHTED | {
    "perplexity", "ter", "wer", "cer", "brier_score", "likelihood_diff", "pct_stereotype", "unextracted", "ungraded",
    "self_judged", "loss", "nll", "mse", "rmse", "mae", "error", "error_rate", "edit_distance", "toxicity",
}  # fmt: skip


# Facts about an answer, which are counted and no score.
COUNTED = frozenset(("unextracted", "ungraded", "self_judged"))


@dataclass(frozen=True, slots=True)
class PerplexityParts:
    """A doc's contribution to a perplexity: its log-likelihood, and its number of words or bytes."""

    __pydantic_config__ = {"ser_json_inf_nan": "constants"}  # noqa: RUF012 (no field: how it is written as JSON)

    log_likelihood: float
    weight: float


# How lm-eval up to 0.4.11 writes numpy booleans.
_TRUTH = {"True": True, "False": False}

# score | (subtask, score) | verdict per instruction | (strict, loose) verdicts per instruction | perplexity parts
MetricValue = (
    float | tuple[str | None, float] | tuple[bool, ...] | tuple[tuple[bool, ...], tuple[bool, ...]] | PerplexityParts
)


def find_answer(sample: Sample) -> Mapping[str, Any]:
    """What a sample says of its answers beside their text and verdicts. A checkout before 1.0.0 wrote the same keys
    flat among the metrics, and how each of several answers ended as ``finish_reasons``."""
    return answer if isinstance(answer := sample.get("answer"), dict) else sample


def read_value(name: str, logged: Any) -> MetricValue | None:
    """Parse the logged value of a metric; None for a shape that only the metric's own aggregation understands."""
    if type(logged) is float:  # nearly always
        return logged
    return _weighted(logged) if name in _WEIGHTED else _value(logged)


def has_bad_perplexity(sample: Sample) -> bool:
    """Whether a rolling log-likelihood of a doc is no finite number."""
    parts = [] if _WEIGHTED.isdisjoint(sample) else [_weighted(sample[name]) for name in _WEIGHTED if name in sample]
    return any(part is not None and not math.isfinite(part.log_likelihood) for part in parts)


def _weighted(value: Any) -> PerplexityParts | None:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    log_likelihood, weight = to_plain_number(value[0]), _number(value[1])
    try:
        log_likelihood = float(log_likelihood)
    except (TypeError, ValueError, OverflowError):
        log_likelihood = math.nan
    if log_likelihood > SAME_VALUE:  # of more than certain there is no likelihood
        log_likelihood = math.nan
    return None if weight is None else PerplexityParts(log_likelihood, weight)


def _value(value: Any) -> MetricValue | None:
    if not isinstance(value, (list, tuple)) or not value:
        return _number(value)
    first, second = (value[0], value[1]) if len(value) == 2 else (value[0], None)
    if len(value) == 2 and (first is None or isinstance(first, str)):
        score = _number(second)
        return None if score is None else (first, score)
    if all(isinstance(flag, bool) for flag in value):
        return tuple(value)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)) and len(first) == len(second) > 0:
        flags = (*first, *second)
        return (tuple(first), tuple(second)) if all(isinstance(flag, bool) for flag in flags) else None
    return None


def to_plain_number(logged: Any) -> Any:
    """Convert a logged value to a Python number if it is a numpy number or lm-eval's text of one ("False")."""
    if isinstance(logged, str):
        return _TRUTH.get(logged, logged)
    return logged.item() if getattr(logged, "ndim", None) == 0 else logged


def _number(value: Any) -> float | None:
    """A number, possibly infinite or NaN; None for other JSON values."""
    value = to_plain_number(value)
    try:
        return float(value) if isinstance(value, (bool, int, float)) else None
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True)
class DocFigure:
    """A figure of an answer."""

    key: str
    """Its name for machines."""

    heading: str
    """Its name for people."""

    legend: str
    """What it is, with its unit, which no cell shows. It stands beside other legends, with a semicolon between."""

    read: Callable[[Mapping[str, Any], Sequence[str]], float | None]
    """Takes a sample of lm-eval and the texts of its answers, and gives a count, a size or a share: None where that is
    not known, and 0 where there is none of it. A choice by likelihood has no texts. The text of an answer with tool
    calls is the JSON of its message."""

    is_share: bool = False
    """Whether it is a share from 0 to 1, which is shown as a percentage."""


def _read_tokens(sample: Sample, answers: Sequence[str]) -> float | None:
    tokens = find_answer(sample).get("completion_tokens")
    return tokens / len(answers) if answers and type(tokens) is int and 0 <= tokens < 2**53 else None


def _read_seconds(sample: Sample, answers: Sequence[str]) -> float | None:
    seconds: Any = find_answer(sample).get("seconds")
    return seconds / len(answers) if answers and type(seconds) in (int, float) and 0 <= seconds < 2**53 else None


FIGURES = (
    DocFigure("answer_tokens", "answer tokens", "mean tokens of an answer, as the engine counted", _read_tokens),
    DocFigure("seconds", "seconds", "mean seconds of a request", _read_seconds),
)


def read_figures(sample: Sample, answers: Sequence[str]) -> dict[str, float]:
    """The figures of a sample, by key. Those that are not known are left out."""
    return {figure.key: value for figure in FIGURES if (value := figure.read(sample, answers)) is not None}


def average_figures(docs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each figure over the docs that have it, by key."""
    values: dict[str, list[float]] = {}
    for figures in docs:
        for key, value in figures.items():
            values.setdefault(key, []).append(value)
    return {key: fmean(of_key) for key, of_key in values.items()}


# More than any sample: four choices with contexts of 100,000 tokens take a tenth of it.
MAX_SAMPLE_BYTES = 64 * 2**20

# Characters kept of the end of an answer, and of an extraction.
MAX_TAIL_CHARS = 400
MAX_EXTRACTED_CHARS = 200


class ResultsError(UserError):
    """A file of lm_eval is truncated, damaged or contradictory, or does not belong to this pack."""


def make_unreadable_error(path: Path, error: OSError) -> ResultsError:
    """The error of a file that cannot be opened or read. A pipe, or links in a loop, are no file at all."""
    is_no_file = error.errno in (0, errno.ELOOP) and not isinstance(error, PointerError)
    hint = "Put the file itself there, or take this one away" if is_no_file else None
    return ResultsError(f"cannot be read ({error.strerror})", where=str(path), hint=hint)


def make_not_a_sample_error(what: str) -> ResultsError:
    """The error of a sample that lm_eval did not write."""
    return ResultsError(f"{what}: not a sample of lm_eval", hint="Name the --output_path of a run")


@dataclass(slots=True)
class FilterResult:
    """The result of a filter for an answer."""

    extracted: str | None
    """The extracted answer, cut to `MAX_EXTRACTED_CHARS` characters; for a choice by likelihood, the likeliest
    continuation. None if nothing was extracted, or the filter returns the whole output."""

    metrics: dict[str, MetricValue]
    """The metrics that lm_eval logged, by name; for several answers, the mean of those in ``verdict_of_each``."""

    offset: int
    """The start of the sample in the samples file, in bytes."""

    length: int
    """Its length, in bytes."""

    verdict_of_each: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """For several answers, the verdicts by metric. Empty for a single answer, or if the filter combines all (a majority
    vote)."""

    majority: int | None = None
    """For several answers, the place in ``verdict_of_each`` of the first one with the most frequent extraction. None
    for a single answer, or if the filter extracts nothing."""

    answers_given: int = 1
    """How many answers the filter gives to the metric, as far as its output shows."""

    is_timed_out: bool = False
    """Whether the program that was graded ran out of time, as the pack's sandbox reports it."""

    is_unextracted: bool | None = None
    """Whether the filter found nothing in the answer (`sample_parser.read_unextracted`); None if unknown."""


@dataclass(slots=True)
class DocResult:
    """A doc of a task, with a model's answer."""

    doc_id: int
    """lm-eval's number of it."""

    question_hash: str
    """Meta's SHA-256 of the question; lm-eval's hash of the doc where the task is none of Meta's."""

    prompt_hashes: tuple[str, ...]
    """Meta's SHA-256 of the prompt, or of the prompt with each choice; else lm-eval's hash of what the model was given.
    """

    prompt_matches: bool | None
    """Whether the model was given the doc's own prompt, to the letter; None for docs that are not of a pack of
    meta-eval, whose prompts nobody knows."""

    subtask: str | None
    """Its subtask."""

    cluster: str | None
    """What it shares with other docs of its task (a question in several languages, a passage, or all that it is): docs
    of one cluster are not independent of each other. None where it stands alone, or nobody knows."""

    gold: str
    """The right answer as the task writes it."""

    n_choices: int | None
    """How many answers there are to choose from; None for free answers."""

    recorded_is_correct: bool | None
    """Meta's verdict on its own model's answer, also where Meta's recipe carries it."""

    recorded_metrics: str | None
    """What Meta's metrics gave that answer, as JSON text."""

    answer_tail: str
    """The last `MAX_TAIL_CHARS` characters of the answer; of a choice by likelihood the empty text."""

    answer_empty: bool
    """Whether the answer is nothing but white space; of several answers, whether all are."""

    limit_hit: bool | None
    """Whether the answer was as long as it was allowed to be; None when that cannot be known. Of several answers,
    whether one was."""

    answer_length: int = 0
    """Characters of the answer; of several answers, of the longest. 0 for a choice by likelihood."""

    figures: dict[str, float] = field(default_factory=dict)
    """Figures of the answer (`meta_eval.harness.doc_results`), by key."""

    filter_results: dict[str, FilterResult] = field(default_factory=dict)
    """The results by filter."""

    sent_hash: str | None = None
    """lm-eval's hash of the model's input; None if no run is read."""

    cuts: tuple[bool | None, ...] = (None,)
    """Of each answer whether it was cut: at its limit, by a content filter, or before its first word. None where that
    cannot be known."""

    is_cut_thinking: bool = False
    """Whether an answer was cut before the end of its reasoning."""

    recorded_cut: bool | None = None
    is_recorded_cut_thinking: bool = False
    recorded_empty: bool = False
    recorded_length: int = 0
    """The same of the recorded answer in the doc, and whether it is empty, and its characters."""

    place: int | None = None
    """Its index in the random order of the run, from 0; None without a random order."""

    answer_hash: str | None = None
    """SHA-256 of all answers, or of all likelihoods to the last digit; None if they are unknown."""

    said_hash: str | None = None
    """The same of what stands behind ``</think>``; None if no answer holds that."""

    traits: tuple[str, ...] = ()
    """What its answers look like (`meta_eval.harness.answer_traits`)."""

    leading_bos: str = ""
    """The BOS texts that the prompt begins with; empty without one."""

    has_bad_likelihood: bool = False
    """Whether a log-likelihood is no finite number (NaN, infinite or missing), so that the doc has no answer whatever
    its verdict is."""

    tools_lost: bool = False
    """Whether it offers tools, and the endpoint left them out of its prompt."""

    def with_recorded(self, answers: dict[str, FilterResult]) -> DocResult:
        """The doc with the recorded answers by filter; the text of these answers is unknown."""
        return replace(
            self, filter_results=answers, answer_tail="", answer_empty=self.recorded_empty,
            answer_length=self.recorded_length, limit_hit=None, figures={}, cuts=(self.recorded_cut,),
            is_cut_thinking=self.is_recorded_cut_thinking, answer_hash=None, has_bad_likelihood=False, tools_lost=False,
        )  # fmt: skip

    @property
    def is_unanswered(self) -> bool:
        """Whether the model gave no answer: an empty text, or a likelihood that is no finite number."""
        return self.answer_empty or self.has_bad_likelihood

    @property
    def cut_share(self) -> float | None:
        """The share of its answers that were cut; None if unknown for an answer."""
        return None if None in self.cuts else self.cuts.count(True) / len(self.cuts)

    def shares_prompt_with(self, other: DocResult) -> bool:
        """Whether both have exactly the same prompt, as far as that is known."""
        if self.tools_lost != other.tools_lost:
            return False
        if ("",) in (self.prompt_hashes, other.prompt_hashes):  # of a log that does not say what was sent
            return True
        if None in (self.sent_hash, other.sent_hash):
            # A run that knows nothing of a pack has no mark, and hashes what it was given.
            own = self.prompt_hashes, self.prompt_matches is False
            return own == (other.prompt_hashes, other.prompt_matches is False)
        return (self.sent_hash, self.prompt_hashes) == (other.sent_hash, other.prompt_hashes)


def average_answers(docs: Iterable[DocResult]) -> None:
    """Give each doc the mean verdict of its answers, if all verdicts are known. A filter that takes the first answer
    ignores the others in lm-eval's own average; here they count.
    """
    for doc in docs:
        for result in doc.filter_results.values():
            for metric, verdicts in result.verdict_of_each.items():
                result.metrics[metric] = replace_verdict(result.metrics[metric], math.fsum(verdicts) / len(verdicts))


def replace_verdict(value: MetricValue, verdict: float) -> MetricValue:
    """Replace the verdict in a metric's value, 0 to 1; all verdicts on instructions become its rounded value."""
    if isinstance(value, float):
        return verdict
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], float):
        return value[0], verdict  # type: ignore[return-value]
    if isinstance(value, tuple):
        right = verdict >= 0.5
        parts: Any = [tuple(right for _ in part) if isinstance(part, tuple) else right for part in value]
        return tuple(parts)
    return value


def find_shared_questions(tasks: Sequence[Sequence[DocResult]]) -> frozenset[str]:
    """The question hashes that docs of several tasks have."""
    seen: set[str] = set()
    twice: set[str] = set()
    for docs in tasks:
        here = {doc.question_hash for doc in docs}
        twice |= here & seen
        seen |= here
    return frozenset(twice)


def find_cluster_names(task: str, docs: Sequence[DocResult], shared: frozenset[str]) -> list[Hashable] | None:
    """The cluster of each doc; None where no doc shares anything with another.

    Args:
        task: Its name: docs of two tasks are related only through a common question.
        docs: The docs.
        shared: Question hashes that occur in several tasks of the report.
    """
    question_of_cluster: dict[str, str] = {}
    for doc in docs:
        if doc.cluster is not None and doc.question_hash in shared:
            question_of_cluster[doc.cluster] = min(
                question_of_cluster.get(doc.cluster, doc.question_hash), doc.question_hash
            )
    names: list[Hashable] = []
    for doc in docs:
        question = doc.question_hash if doc.cluster is None else question_of_cluster.get(doc.cluster)
        names.append(question if question in shared else (task, doc.doc_id if doc.cluster is None else doc.cluster))
    independent = all(doc.cluster is None and doc.question_hash not in shared for doc in docs)
    return None if independent else names
