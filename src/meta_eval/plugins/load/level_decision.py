"""What the answers of a level say of the server, beside what it answers alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from meta_eval import stats
from meta_eval.base.thresholds import LEVEL
from meta_eval.plugins.load.signs import MIRRORED, OTHER_SIGN, Seen
from meta_eval.plugins.load.thresholds import AT_MOST, FALSE_ALARM, FOUND, SIGNS
from meta_eval.sockets import plural
from meta_eval.stats import Interval

LevelOutcome = Literal["same", "no fault seen", "worse", "undecided"]
"""What a server does under load, beside what it does alone. Without log-probabilities it is not known whether partings
are near ties, and the best that can be said is that no fault was seen."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of a level beside those alone, doc by doc."""

    docs: int
    """Docs with both verdicts."""

    lost: int
    """Right alone and wrong under load."""

    won: int
    """Wrong alone and right under load."""

    json_also: ClassVar = ("drop", "interval")

    @property
    def p(self) -> float:
        """The one-sided p value of a loss; see `sign_tail`."""
        return sign_tail(self.lost, self.won)

    @property
    def drop(self) -> float:
        """The share of docs by which the score is lower."""
        return (self.lost - self.won) / self.docs

    @property
    def interval(self) -> Interval:
        """Of the drop, two-sided; see `bound_drop`."""
        return bound_drop(self.lost, self.won, self.docs)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the answers of a level are, or those alone, asked again."""

    answers: int
    """Answers that there are, and requests that were refused."""

    same: int
    """Answers with the text of an answer alone."""

    near_ties: int
    """Answers that parted from it at a near tie."""

    parted: int
    """Answers that parted from it, nobody knows why."""

    corrupted: int
    """Answers that are corrupted."""

    failed: int
    """Requests without an answer."""

    signs: tuple[tuple[str, int], ...]
    """How many answers have each sign, the most frequent first."""

    weak: int = 0
    """Other answers under load with weak signs beside those alone."""

    weak_alone: int = 0
    """Answers alone with weak signs beside those under load."""

    shared: int = 0
    """Answers with text of another request in flight, which chance may explain."""

    json_also: ClassVar = ("interval",)

    @property
    def parting(self) -> float:
        """The share of answers that are not the same."""
        return 1 - self.same / self.answers if self.answers else 0.0

    @property
    def parting_interval(self) -> Interval:
        """Of `parting`."""
        return bound_share(self.answers - self.same, self.answers)

    @property
    def interval(self) -> Interval:
        """Of the share of corrupted answers."""
        return bound_share(self.corrupted, self.answers)


@dataclass(frozen=True, slots=True)
class LevelDecision:
    """A decision, and why."""

    outcome: LevelOutcome
    """What it is."""

    reason: str
    """Why, a clause."""

    smallest: float
    """The smallest share of corrupted answers that so many answers call worse with a probability of `FOUND`."""


def count(seen: Sequence[Seen]) -> Counts:
    """Count what answers are."""
    kinds = Counter(one.kind for one in seen)
    signs = Counter(sign for one in seen for sign in one.signs[:1])
    return Counts(
        len(seen) - kinds["failed"], kinds["same"], kinds["near tie"], kinds["parted"], kinds["corrupted"],
        kinds["failed"], tuple(signs.most_common()), sum(one.direction > 0 for one in seen),
        sum(one.direction < 0 for one in seen), sum(one.kind == "parted" and OTHER_SIGN in one.signs for one in seen),
    )  # fmt: skip


def decide(level: Counts, alone: Counts, verdicts: Verdicts | None, *, is_scored: bool = True) -> LevelDecision:
    """Decide whether a server answers worse under load than alone.

    Worse is a level by any of three tests, each with a p value of at most `FALSE_ALARM` on a sound server: corrupted
    answers, of which a sound server has none, beside those alone (the exact test of Fisher); answers with weak signs
    under load beside those that have them alone; and lost verdicts beside won ones (both `sign_tail`).

    Args:
        level: The answers of the level.
        alone: The answers alone, asked again, beside those asked first.
        verdicts: The verdicts; None if none are there.
        is_scored: Whether the server scores texts.
    """
    smallest = find_smallest_rate(level.answers, alone)
    if not level.answers:
        return LevelDecision("undecided", "no request was answered", smallest)
    if fault := _find_fault(level, alone, verdicts):
        return LevelDecision("worse", fault, smallest)
    if doubts := _list_doubts(level, alone, verdicts):
        return LevelDecision("undecided", "; ".join(doubts), smallest)
    none = f"no answer of {level.answers:,} is corrupted"
    if is_scored and not level.parted:
        return LevelDecision("same", none, smallest)
    return LevelDecision("no fault seen", f"{none}, and {plural(level.parted, 'parting')} not known", smallest)


def _find_fault(level: Counts, alone: Counts, verdicts: Verdicts | None) -> str | None:
    """Why a level is worse; None if it is not."""
    p = fisher_tail(level.corrupted, level.answers, alone.corrupted, alone.answers) if alone.corrupted else 0.0
    if level.corrupted >= SIGNS and p <= FALSE_ALARM:
        return f"{_answers(level.corrupted)} with a sure sign of a fault"
    if sign_tail(level.weak, level.weak_alone) <= FALSE_ALARM:
        signs = ", ".join(f"{sign} {number:,}" for sign, number in level.signs if sign in MIRRORED)
        return f"{_answers(level.weak)} with weak signs, and {level.weak_alone:,} alone beside them ({signs})"
    if verdicts is not None and verdicts.docs and verdicts.p <= FALSE_ALARM:
        return f"{verdicts.lost:,} verdicts lost and {verdicts.won:,} won"
    return None


def _list_doubts(level: Counts, alone: Counts, verdicts: Verdicts | None) -> list[str]:
    doubts = []
    suspect = bound_share(level.corrupted + level.shared, level.answers).upper
    if level.corrupted:
        doubts.append(
            f"{level.corrupted:,} of {level.answers:,} answers {'is' if level.corrupted == 1 else 'are'} corrupted"
        )
    elif suspect > AT_MOST:
        shared = f"{_answers(level.shared)} with another's text" if level.shared else "no corrupted answer"
        doubts.append(f"{shared}, but {level.answers:,} answers may hide {100 * suspect:.1f} %")
    weak = bound_drop(level.weak, level.weak_alone, level.answers).upper
    if level.weak and weak > AT_MOST:
        doubts.append(f"{_answers(level.weak)} with weak signs may hide {100 * weak:.1f} %")
    if alone.corrupted:
        doubts.append(f"{_answers(alone.corrupted)} alone with a sure sign of a fault")
    if level.failed > AT_MOST * (level.failed + level.answers):
        doubts.append(f"{level.failed:,} requests have no answer")
    if verdicts is not None and verdicts.docs and verdicts.interval.upper > AT_MOST:
        doubts.append(f"a loss of {100 * verdicts.interval.upper:.1f} points of verdicts is not ruled out")
    return doubts


def _answers(number: int) -> str:
    return f"{number:,} answer{'' if number == 1 else 's'}"


def find_smallest_rate(answers: int, alone: Counts) -> float:
    """The smallest share of corrupted answers of which `FOUND` of all draws show enough, to 0.1 %; 1 if none does.

    Args:
        answers: The answers of a level.
        alone: The answers alone. Where they have none that is corrupted, `SIGNS` are enough.
    """
    needed = SIGNS
    if alone.corrupted:
        while needed <= answers and fisher_tail(needed, answers, alone.corrupted, alone.answers) > FALSE_ALARM:
            needed += 1
    low, high = 0, 1000  # in 0.1 %; more are found of a larger share
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if binomial_tail(needed, answers, middle / 1000) >= FOUND else (middle, high)
    return high / 1000


def binomial_tail(least: int, draws: int, share: float) -> float:
    """The probability of at least so many of independent draws."""
    from scipy.stats import binom

    return float(binom.sf(least - 1, draws, share)) if draws else float(least <= 0)


def sign_tail(lost: int, won: int) -> float:
    """The one-sided p value of losses that are more frequent than gains: the exact test of signs."""
    return binomial_tail(lost, lost + won, 0.5)


def bound_drop(lost: int, won: int, docs: int) -> Interval:
    """The two-sided interval of the share lost less the share won; `meta_eval.stats.paired_drop` has the method."""
    same = docs - lost - won
    alone = [1.0] * lost + [0.0] * won + [1.0] * same
    loaded = [0.0] * lost + [1.0] * won + [1.0] * same
    return stats.paired_drop(alone, loaded).interval(LEVEL)


def fisher_tail(a: int, of_a: int, b: int, of_b: int) -> float:
    """The one-sided p value of a larger share of a: the probability of at least so many among all that there are."""
    from scipy.stats import hypergeom

    return float(hypergeom.sf(a - 1, of_a + of_b, a + b, of_a)) if of_b else 1.0


def bound_share(number: int, of: int) -> Interval:
    """The interval of a share at 95 % (Clopper and Pearson 1934). It holds for rare events too: 0 of 500 is not 0."""
    from scipy.stats import beta

    if not of:
        return Interval(0.0, 1.0)
    tail = (1 - LEVEL) / 2
    lower = float(beta.ppf(tail, number, of - number + 1)) if number else 0.0
    upper = float(beta.ppf(1 - tail, number + 1, of - number)) if number < of else 1.0
    if not number:  # one-sided: nothing is below 0
        upper = -math.expm1(math.log(1 - LEVEL) / of)
    return Interval(lower, upper)
