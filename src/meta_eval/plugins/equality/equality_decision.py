"""Decides whether two sides are the same model: same, different or undecided, and how many answers would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_eval.judge.decide import Sameness
from meta_eval.plugins.equality.sides import PromptKey, Side
from meta_eval.plugins.equality.thresholds import (
    DIFFERENT,
    FROZEN,
    LONGEST,
    MIN_PROMPTS,
    MISSING,
    MOST_TIMES,
    NOT_SAME,
    POWER,
)
from meta_eval.plugins.equality.two_samples import (
    PowerResult,
    PromptSamples,
    TestResult,
    count_frozen,
    find_coupling,
    run_test,
    scale_up,
    simulate_power,
)
from meta_eval.reports.text import format_percent
from meta_eval.sockets import plural


@dataclass(frozen=True, slots=True)
class EqualityDecision:
    """A decision, and why."""

    outcome: Sameness
    """What it is."""

    reason: str
    """Why, a clause."""

    advice: str
    """What to do, a sentence; empty where nothing is to be done."""

    test: TestResult
    """The test."""

    power: PowerResult | None
    """How well a mixture would have been found; None where that is not asked."""

    answers: float
    """Answers of the side with fewer to a prompt, the mean."""

    needed: int | None
    """Answers of each side to each prompt that would do; None where none is known, or nothing more is needed."""


def decide(paired: Mapping[PromptKey, PromptSamples], a: Side, b: Side) -> EqualityDecision:
    """Decide by the test, and for *same* by its power.

    *Different*: p is at most `DIFFERENT`. *Same*: p is above `NOT_SAME`, and the test would find a mixture with
    `OTHER` of another model with a probability of at least `POWER` (`simulate_power`). Nothing is the same either where
    answers are missing or longer than `LONGEST`, are drawn with the same seeds on both sides, or belong to fewer than
    `MIN_PROMPTS` prompts.
    A side that answers most prompts always alike is no sample, and nothing is decided.

    Args:
        paired: The answers of both sides by prompt; at least one.
        a, b: The sides.
    """
    samples = [paired[key] for key in sorted(paired)]
    test = run_test(samples)
    answers = sum(min(len(one.a), len(one.b)) for one in samples) / len(samples)
    shown = f"p = {format_percent(test.p, 2)} %"
    doubt = _doubt_sampling(samples, a, b)
    if doubt is None and test.p <= DIFFERENT:
        reason = f"{shown}: the answers are not draws of the same distributions"
        return EqualityDecision("different", reason, _explain_difference(a, b), test, None, answers, None)
    doubt = doubt or _doubt_independence(samples, test)
    if doubt is not None:
        return EqualityDecision("undecided", f"{shown}, but {doubt[0]}", doubt[1], test, None, answers, None)
    power = simulate_power(samples)
    least = 2.0 if test.p <= NOT_SAME else 1.1
    needed = None if power.times is None else scale_up(answers, max(power.times, least))
    found = f"a mixture with 10 % of another model would be found in {format_percent(power.power, 0)} % of draws"
    if test.p <= NOT_SAME:
        doubt = _ask_more("that may be chance, or a small difference", needed)
    elif power.power < POWER:
        doubt = _ask_more(found, needed)
    else:
        needed, doubt = None, _doubt_coverage(samples, a, b)
    if doubt is not None:
        return EqualityDecision("undecided", f"{shown}, but {doubt[0]}", doubt[1], test, power, answers, needed)
    return EqualityDecision("same", f"{shown}, and {found}", "", test, power, answers, None)


# Why nothing is decided, a clause; and what to do, a sentence.
_Doubt = tuple[str, str]


def _doubt_sampling(samples: Sequence[PromptSamples], a: Side, b: Side) -> _Doubt | None:
    """Whether a side answers most prompts always alike, and otherwise than the other side."""
    for side, frozen in zip((a, b), count_frozen(samples), strict=True):
        if frozen >= FROZEN * len(samples):
            return (
                f"{side.label} gives {frozen:,} of {plural(len(samples), 'prompt')} a single text each, which is not "
                "what the other side mostly gives: it does not sample, or keeps its answers",
                "Find out whether it obeys temperature and seed, or has a cache of answers.",
            )
    return None


def _doubt_independence(samples: Sequence[PromptSamples], test: TestResult) -> _Doubt | None:
    """Whether the answers of both sides were drawn together, in the same order or another."""
    if min(find_coupling(samples), test.closeness_p) > DIFFERENT:
        return None
    return (
        "the answers of both sides are alike more often than chance explains: they are a copy, or were drawn with the "
        "same seeds",
        "Name two runs with different seeds, or ask both endpoints.",
    )


def _doubt_coverage(samples: Sequence[PromptSamples], a: Side, b: Side) -> _Doubt | None:
    """Whether too few prompts or answers are there for anything to be the same."""
    if len(samples) < MIN_PROMPTS:
        return f"there are only {plural(len(samples), 'prompt')}", f"Ask at least {MIN_PROMPTS} prompts."
    for side in (a, b):
        if side.missing > MISSING:
            missing = f"{format_percent(side.missing, 0)} % of the answers of {side.label} are missing"
            return missing, "Rerun the same command: what is missing is asked again."
        long = sum(len(text) > LONGEST for text in side.all_texts) / max(1, len(side.all_texts))
        if long > MISSING:
            return (
                f"{format_percent(long, 0)} % of the answers of {side.label} are longer than {LONGEST:,} characters, "
                "and no more of them is compared",
                "Ask for fewer --max-tokens.",
            )
    return None


def _ask_more(reason: str, needed: int | None) -> _Doubt:
    """A doubt that more answers settle: with how many, and how to ask them."""
    if needed is None:
        return f"{reason}, and {MOST_TIMES} times as many answers would not do", "Ask more prompts, and more answers."
    enough = f"about {needed:,} answers of each side to each prompt would do"
    return f"{reason}; {enough}", f"Add --samples {needed}, or more --prompts. Recorded answers need more repeats."


def _explain_difference(a: Side, b: Side) -> str:
    """What differs at a glance, and what else makes answers differ."""
    return (
        f"median characters: {a.length:,.0f} and {b.length:,.0f}; percent of answers without a double: "
        f"{100 * a.distinct:,.0f} and {100 * b.distinct:,.0f}. Other weights, another precision, temperature, "
        "template, system prompt, filter or limit all do this: see whether both were asked alike."
    )
