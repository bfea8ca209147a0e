"""Two copies over the same tokens, paired: how far apart are they, and is that more than is allowed?

Each token has a difference of its log-probability, the baseline's less the copy's, in nats. Two figures of it:

- the **distance**, the mean of its absolute value. It is what decides: noise that makes some tokens likelier and others
  less likely is seen, which a mean with signs loses.
- the **shift**, the mean with its sign; positive where the copy finds the answers less likely.

The distance of one model from itself is not 0 but what its engine's rounding gives: another kernel, another batch. So
it is compared with a margin, in nats a token, and its interval decides, of 99 % and on the scale of its logarithm
(`meta_eval.stats.ratio`), over docs:

- **same**: all of it lies under the margin, and no task is shown to be different.
- **different**: all of it lies above the margin; or that is shown of a task (Holm over the tasks).
- **undecided**: neither.

A side of such an interval is 0.5 %, so that a model whose true distance is the margin is called different, or the same,
once in two hundred times; an identical one, whose distance is the engine's noise, much more seldom.
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
    """A token whose likeliest one is another for the copy than for the baseline.

    Attributes:
        task: The task.
        doc: lm-eval's number of the doc.
        at: The place in the answer, from 1.
        id: The recorded token.
        before, after: The likeliest token for the baseline, and for the copy.
        difference: Of the recorded token's log-probability, nats; positive where the copy finds it less likely.
    """

    task: str
    doc: int
    at: int
    id: int
    before: int
    after: int
    difference: float


@dataclass(frozen=True, slots=True)
class Divergence:
    """Kullback and Leibler's, of the copy from the baseline, over the tokens that both tables keep of each place.

    Attributes:
        value: The mean over tokens, nats: of the tokens that both keep and of all others taken as one, so that it is
            no more than the whole divergence (data processing).
        interval: At `FIDELITY_LEVEL`; None of a single doc.
        left_out: The mean probability, for the baseline, of all those others.
        most_left_out: The largest of any place.
        k: Tokens that each table keeps of a place.
    """

    value: float
    interval: Interval | None
    left_out: float
    most_left_out: float
    k: int


@dataclass(frozen=True, slots=True)
class KindPair:
    """Some of the tokens: how many, their distance and shift in nats."""

    name: str
    tokens: int
    distance: float
    shift: float


@dataclass(frozen=True, slots=True)
class Paired:
    """One task, or all.

    Attributes:
        name: The task; None for all.
        outcome: See this module.
        margin: Nats a token.
        distance: With its ``interval`` at `FIDELITY_LEVEL`, which decides; None of a single doc.
        p: One-sided, of a distance of at most the margin; of several tasks after Holm's correction.
        shift: With ``shift_interval``, at the same level, and ``shift_p``, two-sided, of none.
        before, after: The mean log-probability for the baseline, and for the copy.
        changed: The share of tokens whose likeliest one is another; of those where both engines name it.
        untouched: The share of docs of which every number is the same to the last bit.
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
    before: float
    after: float
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
    """A copy beside a baseline.

    Attributes:
        outcome: Of all; see this module.
        margin: Nats a token.
        all: All tokens.
        tasks: By name; empty where there is one.
        divergence: None where not both tables keep the likeliest tokens.
        kinds: Of tokens, as in the figures.
        changes: The tokens whose likeliest one changed, by how much less likely the recorded one became; the first few.
        reasons: Why it is what it is, sentences without a full stop.
        notes: What must be known of the tables.
        min_docs: Fewer docs decide nothing.
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
        """Whether there are docs enough to decide anything."""
        return self.all.docs >= self.min_docs


def compare_tables(
    both: Pair, margin: float = FIDELITY_MARGIN, vocabulary: Vocabulary | None = None, min_docs: int = FIDELITY_MIN_DOCS
) -> TableComparison:
    """Compare, and decide.

    Args:
        both: From `pairing.pair`.
        margin: The largest distance that is allowed, in nats a token.
        vocabulary: Of the tokenizer, where it is there.
        min_docs: Fewer decide nothing, of all or of a task.

    Raises:
        ValueError: The margin is not above 0, or there is no token.
    """
    if not margin > 0:
        raise ValueError("a margin is above 0")
    everything = np.ones(len(both.before.row), bool)
    names = both.before.tasks
    pooled = _paired(both, None, everything, margin)
    tasks = [_paired(both, name, both.before.of(name), margin) for name in names] if len(names) > 1 else []
    corrected = correct_by_holm([paired.p for paired in tasks])
    decided = tuple(_decided(paired, p, min_docs) for paired, p in zip(tasks, corrected, strict=True))
    outcome, reasons = _overall(pooled := _decided(pooled, pooled.p, min_docs), decided, min_docs)
    difference = both.difference
    return TableComparison(
        outcome=outcome,
        margin=margin,
        all=pooled,
        tasks=decided,
        divergence=_mean_divergence(both),
        kinds=tuple(
            KindPair(name, int(mask.sum()), float(np.abs(difference[mask]).mean()), float(difference[mask].mean()))
            for name, mask in list_token_kinds(both.before, vocabulary)
        ),
        changes=_changes(both, difference),
        reasons=reasons,
        notes=_notes(both),
        min_docs=min_docs,
    )


def _paired(both: Pair, name: str | None, where: NDArray[np.bool_], margin: float) -> Paired:
    table, difference = both.before, both.difference
    distance = table.mean(np.abs(difference), where)
    shift = table.mean(difference, where)
    sums, counts = table.sums(np.abs(difference), where)
    known = where & (both.before.top_ids >= 0) & (both.after.top_ids >= 0)
    moved = both.before.top_ids[known] != both.after.top_ids[known]
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
        before=float(both.before.logprobs[where].mean(dtype=float)),
        after=float(both.after.logprobs[where].mean(dtype=float)),
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


def _overall(whole: Paired, tasks: Sequence[Paired], min_docs: int) -> tuple[Outcome, tuple[str, ...]]:
    margin = f"{whole.margin:g}"
    apart = [paired for paired in tasks if paired.outcome == "different"]
    reasons = [
        f"{paired.name}: the distance of {paired.distance.value:.3g} nats a token is shown to be larger than {margin}"
        for paired in apart
    ]
    if whole.outcome == "different":
        reasons.insert(
            0, f"the distance of {whole.distance.value:.3g} nats a token is shown to be larger than {margin}"
        )
    if reasons:
        return "different", tuple(reasons)
    if whole.docs < min_docs:
        return "undecided", (f"{whole.docs} docs decide nothing: at least {min_docs} are needed",)
    if whole.outcome == "same":
        return "same", ()
    upper = whole.interval.upper if whole.interval else float("inf")
    return "undecided", (f"the distance may be as large as {upper:.3g} nats a token, and as small as "
                         f"{whole.interval.lower if whole.interval else 0:.3g}",)  # fmt: skip


def _mean_divergence(both: Pair) -> Divergence | None:
    if both.divergences is None:
        return None
    counts = np.array([answer.tokens for answer in both.before.answers])
    mean = mean_of_tokens(both.divergences[:, 0], counts, find_copies(both.before.answers))
    left_out = float(both.divergences[:, 1].sum() / counts.sum())
    return Divergence(mean.value, mean.positive_interval(FIDELITY_LEVEL), left_out, both.most_left_out, both.k)


def _changes(both: Pair, difference: NDArray[np.float64]) -> tuple[TokenChange, ...]:
    before, after = both.before, both.after
    moved = np.flatnonzero((before.top_ids >= 0) & (after.top_ids >= 0) & (before.top_ids != after.top_ids))
    changes = []
    for token in moved[np.argsort(-difference[moved], kind="stable")][:CHANGES].tolist():
        own = before.answers[int(before.row[token])]
        changes.append(
            TokenChange(
                task=own.task,
                doc=own.doc,
                at=int(before.at[token]) + 1,
                id=int(before.ids[token]),
                before=int(before.top_ids[token]),
                after=int(after.top_ids[token]),
                difference=float(difference[token]),
            )
        )
    return tuple(changes)


def _notes(both: Pair) -> tuple[str, ...]:
    notes = []
    for whose, count in (("the baseline", both.only_before), ("the copy", both.only_after)):
        if count:
            notes.append(
                f"{count:,} {'doc is' if count == 1 else 'docs are'} in the table of {whose} alone, and left out"
            )
    return tuple(notes)
