"""Where a copy differs from a baseline, and which mistakes of a set-up leave such a trace.

Each signature was made on purpose with a tiny Llama (tools/forced_tokens.py); docs/fidelity_check.md has how often each
is named and what it is taken for. Tokens do not tell all of them apart: then a finding names all that it may be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meta_eval.fidelity.against import LEVEL, Against
from meta_eval.fidelity.columns import Columns, Vocabulary
from meta_eval.fidelity.pairing import Pair
from meta_eval.stats.ratio import Mean, mean_of_tokens

BOS = "no BOS"
TWO_BOS = "a second BOS"
TEMPLATE = "another chat template, or its special tokens read as text"
TRUNCATION = "prompts cut to fit, at their start"
ROPE = "RoPE scaling that is not the model's"
ROUNDING = "coarser numbers: quantised weights, a quantised KV cache"
DAMAGE = "other weights, or weights put together wrongly (a mis-sharded layer)"
POSITIONS = "another RoPE base"
CHAT = "a chat model under prompts for a base model"
TOKENIZER = "another tokenizer than the weights'"

# The opening of an answer is its first so many tokens; it stands out where it is so many times as far as the rest, and
# may do so from the lower number on: rounding comes to twice.
_OPENING, _STANDS_OUT, _MAY_STAND_OUT = 16, 4.0, 1.5
# Without a baseline: where the first token is so many times as far below the likeliest as later ones, and so many nats.
_FIRST_STANDS_OUT, _FIRST = 5.0, 0.5
# Early positions and late ones, in tokens from the start of the prompt; and how many times as far the late ones are
# where positions are at fault. Rounding grows with the context too: up to fifteen times, as measured.
_EARLY, _LATE = 512, 2048
_LATER_FAR = 25.0
# Where positions may be at fault beside rounding: from here on, so many times as far as early ones.
_LATISH, _MAY_BE_FAR = 1024, 8.0
# Nats a token from which on, at early positions, more than rounding is at work; four-bit weights are below.
_GROSS = 0.1
# The share of answers that the copy would end before the baseline does.
_ENDS = 0.3
# Docs on either side of a length that tell a step.
_FEWEST = 3
_SAME_IDS = "Compare the token ids that the engine was given with those of `meta-eval export`: one BOS, one template"
# The median rank of recorded tokens beyond which a model cannot have said them, and their mean log-probability.
_LOST_RANK, _LOST = 50, -6.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What the tokens show, and what may have caused it.

    Attributes:
        causes: Each of them would leave this trace; several where tokens cannot tell them apart.
        evidence: One sentence without a full stop.
        todo: What to look at, one sentence without a full stop.
    """

    causes: tuple[str, ...]
    evidence: str
    todo: str


def diagnose(found: Against, both: Pair, vocabulary: Vocabulary | None = None) -> Finding | None:
    """What sets the copy apart from the baseline; None where it is the same within the margin.

    Args:
        found: The comparison.
        both: What was compared.
        vocabulary: Of the tokenizer: without it nobody knows which tokens end an answer.
    """
    if found.outcome == "same":
        return None
    table, distance = both.before, np.abs(both.difference)
    certain = _step(table, distance) or _some_tasks(table, distance)
    if certain is not None or found.outcome == "not shown":
        return certain

    def mean(where: NDArray[np.bool_]) -> Mean | None:
        return mean_of_tokens(*table.sums(distance, where)) if where.any() else None

    return (
        _opening(table, mean, found.margin)
        or _late(table, mean, found.margin)
        or _gross(both, mean, vocabulary)
        or _spread(table, mean, found)
    )


def alone(table: Columns) -> Finding | None:
    """Without a baseline: tokens that the copy could not have said, or not begun with; None for neither."""
    return _lost(table) or _first_alone(table)


def _first_alone(table: Columns) -> Finding | None:
    first, later = table.at == 0, table.at >= _OPENING
    if not first.any() or not later.any():
        return None
    opening, rest = (mean_of_tokens(*table.sums(table.margins, where)) for where in (first, later))
    if not _above(opening, _FIRST) or opening.value < _FIRST_STANDS_OUT * rest.value:
        return None
    return Finding(
        (TEMPLATE, BOS),
        f"the first token of an answer is {opening.value:.2g} nats below the likeliest, later ones {rest.value:.2g}",
        _SAME_IDS,
    )


def _lost(table: Columns) -> Finding | None:
    known = table.ranks[table.ranks > 0]
    mean = float(table.logprobs.mean(dtype=float)) if len(table.logprobs) else 0.0
    rank = float(np.median(known)) if len(known) else 0.0
    if mean > _LOST or (len(known) and rank < _LOST_RANK):
        return None
    where = f", and half of them rank below place {rank:,.0f}" if len(known) else ""
    return Finding(
        (TOKENIZER, DAMAGE, POSITIONS),
        f"the recorded tokens have a mean log-probability of {mean:.1f} nats{where}: the copy could not have said them",
        "Compare the tokenizer's file with the one that the weights came with, and load the weights on one device",
    )


def _step(table: Columns, distance: NDArray[np.float64]) -> Finding | None:
    """All docs up to some length the same to the last bit, and none beyond."""
    sums, counts = table.sums(distance)
    lengths = np.array([one.prompt_tokens for one in table.answers])[counts > 0]
    touched = sums[counts > 0] > 0
    if min(touched.sum(), (~touched).sum()) < _FEWEST or lengths[touched].min() <= lengths[~touched].max():
        return None
    return Finding(
        (TRUNCATION,),
        f"the {int((~touched).sum()):,} docs with prompts of up to {int(lengths[~touched].max()):,} tokens do not "
        f"differ in a bit, and all of the {int(touched.sum()):,} of {int(lengths[touched].min()):,} and more do",
        "Look for a context that is shorter than the pack's max_model_len, or for truncate_prompt_tokens",
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
    return Finding(
        (TEMPLATE,),
        f"no doc of {', '.join(same)} differs in a bit, and every doc of {', '.join(hit)} does",
        "Look for what the prompts of these have and of those have not, such as special tokens; send token ids",
    )


def _opening(table: Columns, mean: Callable[[NDArray[np.bool_]], Mean | None], margin: float) -> Finding | None:
    """The first tokens far away, the later ones nearer: something between prompt and answer, or before both."""
    first, later = mean(table.at < _OPENING), mean(table.at >= _OPENING)
    if first is None or later is None or not _above(first, margin) or first.value < _STANDS_OUT * later.value:
        return None
    hit: list[str] = []
    spared: list[str] = []
    for task in table.tasks:
        own = mean((table.at < _OPENING) & table.of(task))
        interval = own.positive_interval(LEVEL) if own else None
        if interval is not None and interval.upper < first.value / 2:
            spared.append(task)
        elif own is not None and _above(own, margin):
            hit.append(task)
    evidence = (
        f"the first {_OPENING} tokens of an answer are off by {first.value:.2g} nats, later ones by {later.value:.2g}"
    )
    where = f"; so in {', '.join(hit)}, and hardly in {', '.join(spared)}" if hit and spared else ""
    return Finding((TEMPLATE, BOS), f"{evidence}{where}", _SAME_IDS)


def _late(table: Columns, mean: Callable[[NDArray[np.bool_]], Mean | None], margin: float) -> Finding | None:
    """Early positions as near as rounding is, late ones far."""
    early, late = mean(table.position < _EARLY), mean(table.position >= _LATE)
    if early is None or late is None or not _above(late, margin) or early.value > margin:
        return None
    if late.value < _LATER_FAR * early.value:
        return None
    return Finding(
        (ROPE, TRUNCATION),
        f"tokens up to position {_EARLY:,} are off by {early.value:.2g} nats, from {_LATE:,} on by {late.value:.2g}",
        "Compare rope_parameters (rope_scaling) of its config.json with the model's, and its context with the pack's",
    )


def _gross(
    both: Pair, mean: Callable[[NDArray[np.bool_]], Mean | None], vocabulary: Vocabulary | None
) -> Finding | None:
    """Far away already at early positions, and all through the answers."""
    table = both.before
    early = mean((table.position < _EARLY) & (table.at >= _OPENING)) or mean(table.at >= _OPENING)
    if early is None or early.value < _GROSS:
        return None
    everywhere = f"tokens at every position are off, early ones by {early.value:.2g} nats"
    ends = _ends(both, vocabulary)
    if ends is not None and ends >= _ENDS:
        return Finding(
            (CHAT, DAMAGE),
            f"{everywhere}, and {100 * ends:.0f} % of the answers would end sooner",
            "Look whether these are the weights of the model that the pack is for: base or instruct",
        )
    return Finding(
        (DAMAGE, POSITIONS, CHAT) if ends is None else (DAMAGE, POSITIONS),
        everywhere,
        "Load the weights on one device, compare rope_theta, and the checksums of the weights' files",
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
    causes = [ROUNDING, DAMAGE, TWO_BOS]
    for near, far, times, more in (
        (table.position < _EARLY, table.position >= _LATISH, _MAY_BE_FAR, (ROPE,)),
        (table.at >= _OPENING, table.at < _OPENING, _MAY_STAND_OUT, (TEMPLATE, BOS)),
    ):
        one, other = mean(near), mean(far)
        if one is not None and other is not None and other.value >= times * one.value:
            causes.extend(more)
    return Finding(
        tuple(causes),
        f"the difference of {found.all.distance.value:.2g} nats a token is spread over all tokens, as rounding is; "
        f"the copy finds the answers {'less' if found.all.shift.value > 0 else 'more'} likely by "
        f"{abs(found.all.shift.value):.2g}",
        "Run the copy with weights and KV cache in bfloat16, one after the other; look for two BOS in its token ids",
    )


def _above(one: Mean, margin: float) -> bool:
    interval = one.positive_interval(LEVEL)
    return interval is not None and interval.lower > margin
