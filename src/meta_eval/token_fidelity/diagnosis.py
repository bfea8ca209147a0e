"""Where a copy differs from a baseline, and which mistakes of a set-up leave such a trace.

Each signature was made on purpose with a tiny Llama (tools/forced_tokens.py); docs/fidelity_check.md has how often each
is named and what it is taken for. The tokens of a table do not tell all of them apart: probes do
(`meta_eval.token_fidelity.probe_diagnosis`), and without them a finding names all that it may be.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from meta_eval.stats.ratio import Mean
from meta_eval.thresholds import FIDELITY_LEVEL
from meta_eval.token_fidelity import causes
from meta_eval.token_fidelity.causes import Finding, find
from meta_eval.token_fidelity.comparison import Against
from meta_eval.token_fidelity.probe_diagnosis import (
    DRAWN_ANEW,
    Probing,
    another_prompt,
    drawn_anew,
    numbers,
    unread,
    without_context,
)
from meta_eval.token_fidelity.table_pairing import Pair
from meta_eval.token_fidelity.token_columns import OPENING, Columns, Vocabulary

# The opening of an answer stands out where it is so many times as far as the rest, and may do so from the lower number
# on: rounding comes to twice.
_STANDS_OUT, _MAY_STAND_OUT = 4.0, 1.5
# Early positions and late ones, in tokens from the start of the prompt; and how many times as far the late ones are
# where positions are at fault. Rounding grows with the context too: up to fifteen times, as measured.
_EARLY, _LATE = 512, 2048
_LATER_FAR = 25.0
# Nats a token from which on, at early positions, more than rounding is at work; four-bit weights are below.
_GROSS = 0.1
# The share of answers that the copy would end before the baseline does.
_ENDS = 0.3
# Docs on either side of a length that tell a step.
_FEWEST = 3
# Of a model that is sound, though it would end its answers sooner: the share of likeliest tokens before these ends.
_SOUND = 0.4


def diagnose(
    found: Against, both: Pair, vocabulary: Vocabulary | None = None, probing: Probing | None = None
) -> Finding | None:
    """What sets the copy apart from the baseline; None for nothing.

    A prompt that was changed on its way is named whatever the verdict: it may hardly matter to these docs. Everything
    else needs a copy that is different, or bits that are the same.

    Args:
        found: The comparison.
        both: What was compared.
        vocabulary: Of the tokenizer: without it nobody knows which tokens end an answer.
        probing: The probes of both; None where not both were asked, and then more is named together.
    """
    made = None if probing is None else (unread(probing) or another_prompt(probing))
    if made is not None or found.outcome == "same":
        return made
    table, distance = both.before, np.abs(both.difference)
    step = None if probing is not None and probing.knows_starts else _step(table, distance)
    certain = step or _some_tasks(table, distance)
    if certain is not None or found.outcome == "not shown":
        return certain

    def mean(where: NDArray[np.bool_]) -> Mean | None:
        return table.mean(distance, where) if where.any() else None

    opening = _opening(table, mean, found.margin)
    if probing is None or not probing.is_enough:
        return (
            opening or _late(table, mean, found.margin) or _gross(both, mean, vocabulary) or _spread(table, mean, found)
        )
    return (
        without_context(probing, found.all.distance.value, found.margin)
        or (_chat(both, vocabulary) if drawn_anew(probing)[0] < DRAWN_ANEW else None)
        # It was asked with other numbers of BOS, too, and none of these is it.
        or (opening and find(opening.evidence, causes.PROMPT, causes.WEIGHTS))
        or numbers(probing, found.all.distance.value, found.margin)
    )


def _step(table: Columns, distance: NDArray[np.float64]) -> Finding | None:
    """All docs up to some length the same to the last bit, and none beyond."""
    sums, counts = table.sums(distance)
    lengths = np.array([one.prompt_tokens for one in table.answers])[counts > 0]
    touched = sums[counts > 0] > 0
    if min(touched.sum(), (~touched).sum()) < _FEWEST or lengths[touched].min() <= lengths[~touched].max():
        return None
    return find(
        f"the {int((~touched).sum()):,} docs with prompts of up to {int(lengths[~touched].max()):,} tokens do not "
        f"differ in a bit, and all of the {int(touched.sum()):,} of {int(lengths[touched].min()):,} and more do",
        causes.START,
    )


def _some_tasks(table: Columns, distance: NDArray[np.float64]) -> Finding | None:
    """Some tasks the same to the last bit, and in the others no doc: what their prompts have, and those have not."""
    sums, counts = table.sums(distance)
    same: list[str] = []
    hit: list[str] = []
    for task in table.tasks:
        touched = sums[[one.task == task and bool(count) for one, count in zip(table.answers, counts, strict=True)]] > 0
        if touched.all() and len(touched) >= _FEWEST:
            hit.append(task)
        elif not touched.any() and len(touched) >= _FEWEST:
            same.append(task)
        else:
            return None
    if not same or not hit:
        return None
    return find(
        f"no doc of {', '.join(same)} differs in a bit, and every doc of {', '.join(hit)} does",
        causes.PROMPT, causes.START,
        todo="Look for what the prompts of these have and of those have not, such as special tokens; send token ids",
    )  # fmt: skip


def _opening(table: Columns, mean: Callable[[NDArray[np.bool_]], Mean | None], margin: float) -> Finding | None:
    """The first tokens far away, the later ones nearer: something between prompt and answer, or before both."""
    first, later = mean(table.at < OPENING), mean(table.at >= OPENING)
    if first is None or later is None or not _above(first, margin) or first.value < _STANDS_OUT * later.value:
        return None
    hit: list[str] = []
    spared: list[str] = []
    for task in table.tasks:
        own = mean((table.at < OPENING) & table.of(task))
        interval = own.positive_interval(FIDELITY_LEVEL) if own else None
        if interval is not None and interval.upper < first.value / 2:
            spared.append(task)
        elif own is not None and _above(own, margin):
            hit.append(task)
    evidence = (
        f"the first {OPENING} tokens of an answer are off by {first.value:.2g} nats, later ones by {later.value:.2g}"
    )
    where = f"; so in {', '.join(hit)}, and hardly in {', '.join(spared)}" if hit and spared else ""
    return find(
        f"{evidence}{where}", causes.PROMPT, causes.NO_BOS, causes.START, causes.ATTENTION, todo=causes.SAME_IDS
    )


def _late(table: Columns, mean: Callable[[NDArray[np.bool_]], Mean | None], margin: float) -> Finding | None:
    """Early positions as near as rounding is, late ones far."""
    early, late = mean(table.position < _EARLY), mean(table.position >= _LATE)
    if early is None or late is None or not _above(late, margin) or early.value > margin:
        return None
    if late.value < _LATER_FAR * early.value:
        return None
    return find(
        f"tokens up to position {_EARLY:,} are off by {early.value:.2g} nats, from {_LATE:,} on by {late.value:.2g}",
        causes.ATTENTION, causes.START,
    )  # fmt: skip


def _gross(
    both: Pair, mean: Callable[[NDArray[np.bool_]], Mean | None], vocabulary: Vocabulary | None
) -> Finding | None:
    """Far away already at early positions, and all through the answers."""
    table = both.before
    early = _early(table, mean)
    if early < _GROSS:
        return None
    everywhere = f"tokens at every position are off, early ones by {early:.2g} nats"
    ends = _ends(both, vocabulary)
    if ends is not None and ends >= _ENDS:
        return find(
            f"{everywhere}, and {100 * ends:.0f} % of the answers would end sooner",
            causes.MODEL, causes.WEIGHTS, causes.ATTENTION,
        )  # fmt: skip
    kinds = (causes.WEIGHTS, causes.ATTENTION, *((causes.MODEL,) if ends is None else ()))
    return find(everywhere, *kinds)


def _early(table: Columns, mean: Callable[[NDArray[np.bool_]], Mean | None]) -> float:
    """How far tokens at early positions are, behind the opening of their answers; 0 where there are none."""
    early = mean((table.position < _EARLY) & (table.at >= OPENING)) or mean(table.at >= OPENING)
    return 0.0 if early is None else early.value


def _chat(both: Pair, vocabulary: Vocabulary | None) -> Finding | None:
    """A sound model that ends its answers sooner than the baseline."""
    ends = _ends(both, vocabulary)
    if vocabulary is None or ends is None or ends < _ENDS:
        return None
    goes_on = ~np.isin(both.after.top_ids, np.fromiter(vocabulary.special, np.int32, len(vocabulary.special)))
    sound = both.after.first[goes_on]
    if not len(sound) or sound.mean() < _SOUND:
        return None
    return find(
        f"{100 * ends:.0f} % of the answers would end sooner, and {100 * sound.mean():.0f} % of all other tokens are "
        "the likeliest ones",
        causes.MODEL,
    )


def _ends(both: Pair, vocabulary: Vocabulary | None) -> float | None:
    """The share of answers in which the copy would say a special token at a place where the baseline would not."""
    if vocabulary is None or not vocabulary.special:
        return None
    special = np.fromiter(vocabulary.special, np.int32, len(vocabulary.special))
    sooner = np.isin(both.after.top_ids, special) & ~np.isin(both.before.top_ids, special)
    hits, counts = both.before.sums(sooner)
    return float((hits[counts > 0] > 0).mean())


def _spread(table: Columns, mean: Callable[[NDArray[np.bool_]], Mean | None], found: Against) -> Finding:
    """Nothing stands out enough: what comes so is named with rounding."""
    groups = [causes.WEIGHTS, causes.ROUNDING, causes.MORE_BOS, causes.ATTENTION]
    first, later = mean(table.at < OPENING), mean(table.at >= OPENING)
    if first is not None and later is not None and first.value >= _MAY_STAND_OUT * later.value:
        groups += [causes.PROMPT, causes.NO_BOS]
    return find(
        f"the difference of {found.all.distance.value:.2g} nats a token is spread over all tokens, as rounding is; "
        f"the copy finds the answers {'less' if found.all.shift.value > 0 else 'more'} likely by "
        f"{abs(found.all.shift.value):.2g}",
        *groups,
        todo="Ask both with probes, which tell these apart; and both in one dtype, one after the other (an A/A pair)",
    )


def _above(one: Mean, margin: float) -> bool:
    interval = one.positive_interval(FIDELITY_LEVEL)
    return interval is not None and interval.lower > margin
