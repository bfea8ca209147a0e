"""Measures how far apart two models are on the same tokens, and whether that exceeds what the same weights differ by.

The difference of a token is the baseline's log-probability minus the copy's, in nats. Two figures summarise it:

- the **distance** is the mean absolute difference. It decides the outcome. It includes noise in both directions, which
  cancels in a signed mean.
- the **shift** is the signed mean. It is positive if the answers are less likely under the copy.

Both are means over docs, weighted by tokens up to twice the median, so that no long answer decides. The distance of a
model from itself is not 0: it is the noise (`meta_eval.plugins.tokens.yardstick`). With a measured noise the ratio to
it decides, by its 99 % interval over docs on a log scale (`meta_eval.stats.ratio`):

- **same**: the interval is below `FIDELITY_SAME_TIMES`, there are `FIDELITY_MIN_TOKENS`, and no task is different. The
  noise, overall and of each task, is not above `FIDELITY_NOISE_SEEN`.
- **different**: the interval is above `FIDELITY_DIFFERENT_TIMES`, overall or for a task (Holm over the tasks), and the
  noise covers how the copy was measured.
- **undecided**: neither.

Without a measured noise, or if it does not cover the copy, *different* needs a distance above `FIDELITY_NOISE_SEEN`. A
margin that the user names takes the place of the noise: then the distance is compared with it.

Each side of the interval has 0.5 %. A copy exactly at a limit is called different, or the same, once in two hundred
times. An identical model, with only its engine's noise, is called different much more rarely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from meta_eval.base.thresholds import SAMENESS_MIN_DOCS
from meta_eval.judge.decide import Sameness
from meta_eval.plugins.tokens.table_pairing import Pair
from meta_eval.plugins.tokens.thresholds import (
    FIDELITY_ALPHA,
    FIDELITY_DIFFERENT_TIMES,
    FIDELITY_LEVEL,
    FIDELITY_LEVEL_TEXT,
    FIDELITY_MIN_TOKENS,
    FIDELITY_NOISE_FLOOR,
    FIDELITY_NOISE_SEEN,
    FIDELITY_SAME_TIMES,
)
from meta_eval.plugins.tokens.token_columns import Vocabulary, find_copies, list_token_kinds
from meta_eval.plugins.tokens.yardstick import DocDistances, Noise, Yardstick, measure_docs
from meta_eval.stats import Interval, correct_by_holm
from meta_eval.stats.ratio import Mean, mean_of_tokens

CHANGES = 20


@dataclass(frozen=True, slots=True)
class TokenChange:
    """A place where the copy's likeliest token differs from the baseline's."""

    task: str
    """The task."""

    doc: int
    """lm-eval's number of the doc."""

    at: int
    """The place in the answer, from 1."""

    id: int
    """The recorded token."""

    baseline_id: int
    candidate_id: int
    """The likeliest token of the baseline and of the copy."""

    difference: float
    """The difference of the recorded token's log-probability, nats; positive if less likely under the copy."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The Kullback-Leibler divergence of the copy from the baseline, over the tokens that both tables keep at each
    place.
    """

    value: float
    """The mean over tokens, nats. All tokens that not both keep count as a single token, so this is a lower bound of
    the divergence (data processing inequality)."""

    interval: Interval | None
    """At `FIDELITY_LEVEL`; None for a single doc."""

    left_out: float
    """The mean probability of these other tokens under the baseline."""

    most_left_out: float
    """The largest such probability at any place."""

    k: int
    """Number of tokens that each table keeps at a place."""


@dataclass(frozen=True, slots=True)
class KindPair:
    """A kind of token: count, distance and shift in nats."""

    name: str
    tokens: int
    distance: float
    shift: float


@dataclass(frozen=True, slots=True)
class Paired:
    """The comparison of a task, or of all."""

    name: str | None
    """The task; None for all."""

    outcome: Sameness
    """See this module."""

    limit: float | None
    """The distance above which a copy is different, nats per token; None without noise and margin."""

    distance: Mean
    """The distance, with its ``interval`` at `FIDELITY_LEVEL`; None for a single doc."""

    interval: Interval | None
    noise: Mean | None
    """The distance of the A/A pair; None without one for these docs."""

    times_noise: float | None
    """The ratio to the noise, with ``times_noise_interval``; None likewise."""

    times_noise_interval: Interval | None
    p: float
    """One-sided p value of what *different* needs to be above; Holm-corrected for several tasks."""

    shift: Mean
    """The shift, with ``shift_interval`` at the same level and the two-sided p value ``shift_p`` of no shift."""

    shift_interval: Interval | None
    shift_p: float
    baseline_logprob: float
    candidate_logprob: float
    """The mean log-probability under the baseline and the copy."""

    changed: float | None
    """The share of tokens with another likeliest token, where both engines name it."""

    untouched: float
    """The share of docs with every number bit-identical."""

    @property
    def docs(self) -> int:
        return self.distance.docs

    @property
    def tokens(self) -> int:
        return self.distance.tokens


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The comparison of a copy with a baseline."""

    outcome: Sameness
    """The overall outcome; see this module."""

    margin: float | None
    """The margin that the user named, nats per token; None for the noise."""

    varied: tuple[str, ...] | None
    """What differs in how the A/A pair was measured; None without such a pair."""

    covers: bool | None
    """Whether the A/A pair covers how the copy was measured; None likewise."""

    all: Paired
    """All tokens."""

    tasks: tuple[Paired, ...]
    """The tasks by name; empty for a single task."""

    divergence: Divergence | None
    """None unless both tables keep the likeliest tokens."""

    kinds: tuple[KindPair, ...]
    """The kinds of tokens, as in the figures."""

    changes: tuple[TokenChange, ...]
    """The first few tokens with another likeliest token, by the loss of the recorded token."""

    reasons: tuple[str, ...]
    """Reasons of the outcome, sentences without a full stop."""

    notes: tuple[str, ...] = field(default=())
    """Notes about the tables."""

    min_docs: int = SAMENESS_MIN_DOCS
    """With fewer docs the outcome is undecided."""

    @property
    def limit(self) -> float:
        """Nats per token above which a difference is more than rounding.

        A noise of batches alone does not show how much another kernel rounds, and any other weights round otherwise.
        """
        is_known = self.all.limit is not None and (self.margin is not None or self.varied)
        return self.all.limit if is_known and self.all.limit is not None else FIDELITY_NOISE_SEEN

    @property
    def is_enough(self) -> bool:
        """Whether there are enough docs for a decision."""
        return self.all.docs >= self.min_docs


def compare_tables(
    pair: Pair, yardstick: Yardstick = None, vocabulary: Vocabulary | None = None, min_docs: int = SAMENESS_MIN_DOCS
) -> TableComparison:
    """Compare, and decide.

    Args:
        pair: From `table_pairing.pair_tables`.
        yardstick: The noise, or a margin in nats per token; None for neither.
        vocabulary: The tokenizer's, if available.
        min_docs: With fewer docs, overall or in a task, the outcome is undecided.

    Raises:
        ValueError: The margin is not above 0, or there is no token.
    """
    if isinstance(yardstick, float) and not yardstick > 0:
        raise ValueError("a margin is above 0")
    docs = measure_docs(pair)
    names = pair.baseline.tasks
    pooled = _paired(pair, docs, None, yardstick)
    tasks = [_paired(pair, docs, name, yardstick) for name in names] if len(names) > 1 else []
    corrected = correct_by_holm([paired.p for paired in tasks])
    decided = tuple(_decided(paired, p, yardstick, min_docs) for paired, p in zip(tasks, corrected, strict=True))
    pooled = _decided(pooled, pooled.p, yardstick, min_docs)
    outcome, reasons = _overall(pooled, decided, yardstick, min_docs)
    difference = pair.difference
    noise = yardstick if isinstance(yardstick, Noise) else None
    return TableComparison(
        outcome=outcome,
        margin=yardstick if isinstance(yardstick, float) else None,
        varied=noise.varied if noise else None,
        covers=noise.covers if noise else None,
        all=pooled,
        tasks=decided,
        divergence=_mean_divergence(pair),
        kinds=tuple(
            KindPair(name, int(mask.sum()), float(np.abs(difference[mask]).mean()), float(difference[mask].mean()))
            for name, mask in list_token_kinds(pair.baseline, vocabulary)
        ),
        changes=_changes(pair, difference),
        reasons=reasons,
        notes=_notes(pair),
        min_docs=min_docs,
    )


def _paired(pair: Pair, docs: DocDistances, name: str | None, yardstick: Yardstick) -> Paired:
    table = pair.baseline
    where = np.ones(len(table.row), bool) if name is None else table.of(name)
    rows = (docs.tokens > 0) & (True if name is None else docs.tasks == name)
    distance, shift = docs.mean(docs.values, rows), docs.mean(docs.shifts, rows)
    has_top_ids = where & (table.top_ids >= 0) & (pair.candidate.top_ids >= 0)
    moved = table.top_ids[has_top_ids] != pair.candidate.top_ids[has_top_ids]
    noise, ratio = (docs.compare_with_noise(yardstick, rows) if isinstance(yardstick, Noise) else None) or (None, None)
    if isinstance(yardstick, float):
        limit, p = yardstick, distance.positive_p_value(yardstick)
    elif noise is not None and ratio is not None:
        limit, p = FIDELITY_DIFFERENT_TIMES * noise.value, ratio.positive_p_value(FIDELITY_DIFFERENT_TIMES)
    else:
        limit, p = None, 1.0
    if not (isinstance(yardstick, float) or (ratio is not None and isinstance(yardstick, Noise) and yardstick.covers)):
        p = distance.positive_p_value(FIDELITY_NOISE_SEEN)
    return Paired(
        name=name,
        outcome="undecided",
        limit=limit,
        distance=distance,
        interval=distance.positive_interval(FIDELITY_LEVEL),
        noise=noise,
        times_noise=ratio.value if ratio else None,
        times_noise_interval=ratio.positive_interval(FIDELITY_LEVEL) if ratio else None,
        p=p,
        shift=shift,
        shift_interval=shift.interval(FIDELITY_LEVEL),
        shift_p=shift.p_value(),
        baseline_logprob=float(table.logprobs[where].mean(dtype=float)),
        candidate_logprob=float(pair.candidate.logprobs[where].mean(dtype=float)),
        changed=float(moved.mean()) if len(moved) else None,
        untouched=float((docs.values[rows] == 0).mean()),
    )


def _decided(paired: Paired, p: float, yardstick: Yardstick, min_docs: int) -> Paired:
    outcome: Sameness = "undecided"
    if paired.interval is not None and paired.docs >= min_docs:
        if _is_same(paired, yardstick, min_docs):
            outcome = "same"
        elif p < FIDELITY_ALPHA / 2:
            outcome = "different"
    return replace(paired, outcome=outcome, p=p)


def _is_same(paired: Paired, yardstick: Yardstick, min_docs: int) -> bool:
    if paired.tokens < FIDELITY_MIN_TOKENS:
        return False
    if paired.interval is not None and paired.interval.upper <= FIDELITY_NOISE_FLOOR:
        return True
    if isinstance(yardstick, float):
        return paired.interval is not None and paired.interval.upper < yardstick
    times = paired.times_noise_interval
    return (
        times is not None
        and paired.noise is not None
        and paired.noise.docs >= min_docs
        and times.upper < FIDELITY_SAME_TIMES
        and paired.noise.value <= FIDELITY_NOISE_SEEN
    )


def _overall(
    pooled: Paired, tasks: Sequence[Paired], yardstick: Yardstick, min_docs: int
) -> tuple[Sameness, tuple[str, ...]]:
    different = [paired for paired in (pooled, *tasks) if paired.outcome == "different"]
    if different:
        return "different", tuple(_describe_excess(paired, yardstick) for paired in different)
    if pooled.docs < min_docs:
        return "undecided", (f"too few docs: {pooled.docs}, and at least {min_docs} are needed",)
    for paired in (pooled, *tasks):
        if paired.outcome == "undecided" and paired.noise is not None and _is_strange(paired.noise, min_docs):
            whose = f"{paired.name}: " if paired.name else ""
            reason = (
                f"{whose}the noise of {paired.noise.value:.3g} nats a token is above any noise seen "
                f"({FIDELITY_NOISE_SEEN:g}), so its table may be of other weights. Name a table of the "
                "baseline's weights with --noise, or a limit of your own with --margin"
            )
            return "undecided", (reason,)
    if pooled.outcome == "same":
        return "same", ()
    if pooled.tokens < FIDELITY_MIN_TOKENS:
        reason = f"too few tokens: {pooled.tokens}, and at least {FIDELITY_MIN_TOKENS} are needed to be the same"
        return "undecided", (reason,)
    return "undecided", (_describe_doubt(pooled, yardstick, min_docs),)


def _is_strange(noise: Mean, min_docs: int) -> bool:
    """Whether a noise is above any that was seen: its table may be of other weights, and nothing is the same by it."""
    return noise.docs >= min_docs and noise.value > FIDELITY_NOISE_SEEN


def _describe_excess(paired: Paired, yardstick: Yardstick) -> str:
    whose = f"{paired.name}: " if paired.name else ""
    if isinstance(yardstick, float):
        return f"{whose}the distance of {paired.distance.value:.3g} nats a token is above the margin of {yardstick:g}"
    if paired.times_noise is not None and isinstance(yardstick, Noise) and yardstick.covers:
        return (
            f"{whose}the distance is {paired.times_noise:.3g} times {name_noise(paired)}, above the limit of "
            f"{FIDELITY_DIFFERENT_TIMES:g}"
        )
    return (
        f"{whose}the distance of {paired.distance.value:.3g} nats a token is above any noise seen "
        f"({FIDELITY_NOISE_SEEN:g})"
    )


def name_noise(paired: Paired) -> str:
    """``the noise``, or of a noise that is smaller than any that counts, what the distance is divided by."""
    if paired.noise is None or paired.noise.value >= FIDELITY_NOISE_FLOOR:
        return "the noise"
    measured = f"{paired.noise.value:.2g}" if paired.noise.value else "none"
    return f"the least noise that counts, {FIDELITY_NOISE_FLOOR:g} nats (measured: {measured})"


def _describe_doubt(pooled: Paired, yardstick: Yardstick, min_docs: int) -> str:
    if isinstance(yardstick, float):
        lower, upper = (pooled.interval.lower, pooled.interval.upper) if pooled.interval else (0.0, float("inf"))
        return f"the distance is {lower:.4f} to {upper:.4f} nats a token, and the margin {yardstick:g} lies between"
    if pooled.noise is None or pooled.times_noise_interval is None or pooled.times_noise is None:
        return (
            "no noise was measured, so rounding cannot be told from another model. Measure the baseline once more with "
            "--again, or name a second table of it with --noise"
        )
    if pooled.noise.docs < min_docs:
        return f"too few docs with a noise: {pooled.noise.docs}, and at least {min_docs} are needed"
    times = pooled.times_noise_interval
    if isinstance(yardstick, Noise) and not yardstick.covers and times.lower > FIDELITY_DIFFERENT_TIMES:
        return (
            f"the distance is {pooled.times_noise:.3g} times the noise of another batch, but the copy was measured on "
            "another engine or with other settings. Measure the baseline's weights there, and name that table with "
            "--noise"
        )
    return (
        f"the distance is {times.lower:.3g} to {times.upper:.3g} times the noise ({FIDELITY_LEVEL_TEXT} interval), "
        f"neither below {FIDELITY_SAME_TIMES:g} nor above {FIDELITY_DIFFERENT_TIMES:g}"
    )


def _mean_divergence(pair: Pair) -> Divergence | None:
    if pair.divergences is None:
        return None
    counts = np.array([answer.tokens for answer in pair.baseline.answers])
    mean = mean_of_tokens(pair.divergences[:, 0], counts, find_copies(pair.baseline.answers))
    left_out = float(pair.divergences[:, 1].sum() / counts.sum())
    return Divergence(mean.value, mean.positive_interval(FIDELITY_LEVEL), left_out, pair.most_left_out, pair.k)


def _changes(pair: Pair, difference: NDArray[np.float64]) -> tuple[TokenChange, ...]:
    baseline, candidate = pair.baseline, pair.candidate
    moved = np.flatnonzero((baseline.top_ids >= 0) & (candidate.top_ids >= 0) & (baseline.top_ids != candidate.top_ids))
    changes = []
    for token in moved[np.argsort(-difference[moved], kind="stable")][:CHANGES].tolist():
        answer = baseline.answers[int(baseline.row[token])]
        changes.append(
            TokenChange(
                task=answer.task,
                doc=answer.doc,
                at=int(baseline.at[token]) + 1,
                id=int(baseline.ids[token]),
                baseline_id=int(baseline.top_ids[token]),
                candidate_id=int(candidate.top_ids[token]),
                difference=float(difference[token]),
            )
        )
    return tuple(changes)


def _notes(pair: Pair) -> tuple[str, ...]:
    notes = []
    for whose, count in (("the baseline", pair.only_baseline), ("the copy", pair.only_candidate)):
        if count:
            notes.append(
                f"{count:,} {'doc is' if count == 1 else 'docs are'} in the table of {whose} alone, and left out"
            )
    return tuple(notes)
