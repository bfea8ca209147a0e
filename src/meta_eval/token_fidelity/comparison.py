"""Measures how far apart two models are on the same tokens, and whether that exceeds the margin.

The difference of a token is the baseline's log-probability minus the copy's, in nats. Two figures summarise it:

- the **distance** is the mean absolute difference. It decides the outcome. It includes noise in both directions, which
  cancels in a signed mean.
- the **shift** is the signed mean. It is positive if the answers are less likely under the copy.

The distance of a model from itself is not 0: another kernel or batch rounds differently. So the 99 % interval of the
distance is compared with a margin in nats per token. The interval is over docs and on a log scale
(`meta_eval.stats.ratio`):

- **same**: the interval is below the margin, and no task is different.
- **different**: the interval is above the margin, overall or for a task (Holm over the tasks).
- **undecided**: neither.

Each side of the interval has 0.5 %. A model with a true distance equal to the margin is called different, or the same,
once in two hundred times. An identical model, with only its engine's noise, is called different much more rarely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from meta_eval.stats import Interval, correct_by_holm
from meta_eval.stats.ratio import Mean, mean_of_tokens
from meta_eval.thresholds import FIDELITY_ALPHA, FIDELITY_LEVEL, FIDELITY_MARGIN, FIDELITY_MIN_DOCS
from meta_eval.token_fidelity.table_pairing import Pair
from meta_eval.token_fidelity.token_columns import Vocabulary, find_copies, list_token_kinds

Outcome = Literal["same", "different", "undecided"]


CHANGES = 20


@dataclass(frozen=True, slots=True)
class TokenChange:
    """A place where the copy's likeliest token differs from the baseline's.

    Attributes:
        task: The task.
        doc: lm-eval's number of the doc.
        at: The place in the answer, from 1.
        id: The recorded token.
        baseline_id, candidate_id: The likeliest token of the baseline and of the copy.
        difference: The difference of the recorded token's log-probability, nats; positive if less likely under the
            copy.
    """

    task: str
    doc: int
    at: int
    id: int
    baseline_id: int
    candidate_id: int
    difference: float


@dataclass(frozen=True, slots=True)
class Divergence:
    """The Kullback-Leibler divergence of the copy from the baseline, over the tokens that both tables keep at each
    place.

    Attributes:
        value: The mean over tokens, nats. All tokens that not both keep count as a single token, so this is a lower
            bound of the divergence (data processing inequality).
        interval: At `FIDELITY_LEVEL`; None for a single doc.
        left_out: The mean probability of these other tokens under the baseline.
        most_left_out: The largest such probability at any place.
        k: Number of tokens that each table keeps at a place.
    """

    value: float
    interval: Interval | None
    left_out: float
    most_left_out: float
    k: int


@dataclass(frozen=True, slots=True)
class KindPair:
    """A kind of token: count, distance and shift in nats."""

    name: str
    tokens: int
    distance: float
    shift: float


@dataclass(frozen=True, slots=True)
class Paired:
    """The comparison of a task, or of all.

    Attributes:
        name: The task; None for all.
        outcome: See this module.
        margin: Nats per token.
        distance: The distance; its ``interval`` at `FIDELITY_LEVEL` decides, and is None for a single doc.
        p: One-sided p value of a distance of at most the margin; Holm-corrected for several tasks.
        shift: The shift, with ``shift_interval`` at the same level and the two-sided p value ``shift_p`` of no shift.
        baseline_logprob, candidate_logprob: The mean log-probability under the baseline and the copy.
        changed: The share of tokens with another likeliest token, where both engines name it.
        untouched: The share of docs with every number bit-identical.
    """

    name: str | None
    outcome: Outcome
    margin: float
    distance: Mean
    interval: Interval | None
    p: float
    shift: Mean
    shift_interval: Interval | None
    shift_p: float
    baseline_logprob: float
    candidate_logprob: float
    changed: float | None
    untouched: float

    @property
    def docs(self) -> int:
        return self.distance.docs

    @property
    def tokens(self) -> int:
        return self.distance.tokens


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The comparison of a copy with a baseline.

    Attributes:
        outcome: The overall outcome; see this module.
        margin: Nats per token.
        all: All tokens.
        tasks: The tasks by name; empty for a single task.
        divergence: None unless both tables keep the likeliest tokens.
        kinds: The kinds of tokens, as in the figures.
        changes: The first few tokens with another likeliest token, by the loss of the recorded token.
        reasons: Reasons of the outcome, sentences without a full stop.
        notes: Notes about the tables.
        min_docs: With fewer docs the outcome is undecided.
    """

    outcome: Outcome
    margin: float
    all: Paired
    tasks: tuple[Paired, ...]
    divergence: Divergence | None
    kinds: tuple[KindPair, ...]
    changes: tuple[TokenChange, ...]
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())
    min_docs: int = FIDELITY_MIN_DOCS

    @property
    def is_enough(self) -> bool:
        """Whether there are enough docs for a decision."""
        return self.all.docs >= self.min_docs


def compare_tables(
    pair: Pair, margin: float = FIDELITY_MARGIN, vocabulary: Vocabulary | None = None, min_docs: int = FIDELITY_MIN_DOCS
) -> TableComparison:
    """Compare, and decide.

    Args:
        pair: From `table_pairing.pair_tables`.
        margin: The largest allowed distance, in nats per token.
        vocabulary: The tokenizer's, if available.
        min_docs: With fewer docs, overall or in a task, the outcome is undecided.

    Raises:
        ValueError: The margin is not above 0, or there is no token.
    """
    if not margin > 0:
        raise ValueError("a margin is above 0")
    everything = np.ones(len(pair.baseline.row), bool)
    names = pair.baseline.tasks
    pooled = _paired(pair, None, everything, margin)
    tasks = [_paired(pair, name, pair.baseline.of(name), margin) for name in names] if len(names) > 1 else []
    corrected = correct_by_holm([paired.p for paired in tasks])
    decided = tuple(_decided(paired, p, min_docs) for paired, p in zip(tasks, corrected, strict=True))
    outcome, reasons = _overall(pooled := _decided(pooled, pooled.p, min_docs), decided, min_docs)
    difference = pair.difference
    return TableComparison(
        outcome=outcome,
        margin=margin,
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


def _paired(pair: Pair, name: str | None, where: NDArray[np.bool_], margin: float) -> Paired:
    table, difference = pair.baseline, pair.difference
    distance = table.mean(np.abs(difference), where)
    shift = table.mean(difference, where)
    sums, counts = table.sums(np.abs(difference), where)
    has_top_ids = where & (pair.baseline.top_ids >= 0) & (pair.candidate.top_ids >= 0)
    moved = pair.baseline.top_ids[has_top_ids] != pair.candidate.top_ids[has_top_ids]
    return Paired(
        name=name,
        outcome="undecided",
        margin=margin,
        distance=distance,
        interval=distance.positive_interval(FIDELITY_LEVEL),
        p=distance.positive_p_value(margin),
        shift=shift,
        shift_interval=shift.interval(FIDELITY_LEVEL),
        shift_p=shift.p_value(),
        baseline_logprob=float(pair.baseline.logprobs[where].mean(dtype=float)),
        candidate_logprob=float(pair.candidate.logprobs[where].mean(dtype=float)),
        changed=float(moved.mean()) if len(moved) else None,
        untouched=float((sums[counts > 0] == 0).mean()),
    )


def _decided(paired: Paired, p: float, min_docs: int) -> Paired:
    outcome: Outcome = "undecided"
    if paired.interval is not None and paired.docs >= min_docs:
        if paired.interval.upper < paired.margin:
            outcome = "same"
        elif p < FIDELITY_ALPHA / 2:
            outcome = "different"
    return replace(paired, outcome=outcome, p=p)


def _overall(pooled: Paired, tasks: Sequence[Paired], min_docs: int) -> tuple[Outcome, tuple[str, ...]]:
    margin = f"{pooled.margin:g}"
    different = [paired for paired in tasks if paired.outcome == "different"]
    reasons = [
        f"{paired.name}: the distance of {paired.distance.value:.3g} nats a token is shown to be larger than {margin}"
        for paired in different
    ]
    if pooled.outcome == "different":
        reasons.insert(
            0, f"the distance of {pooled.distance.value:.3g} nats a token is shown to be larger than {margin}"
        )
    if reasons:
        return "different", tuple(reasons)
    if pooled.docs < min_docs:
        return "undecided", (f"too few docs: {pooled.docs}, and at least {min_docs} are needed",)
    if pooled.outcome == "same":
        return "same", ()
    upper = pooled.interval.upper if pooled.interval else float("inf")
    return "undecided", (f"the distance may be as large as {upper:.3g} nats a token, and as small as "
                         f"{pooled.interval.lower if pooled.interval else 0:.3g}",)  # fmt: skip


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
