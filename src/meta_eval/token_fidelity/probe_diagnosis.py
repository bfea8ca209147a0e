"""Causes that leave the same trace in a table, told apart by probes: a few docs behind prompts that were changed.

Four things tell:

- **As that mistake.** The copy finds a doc as the baseline finds it behind the prompt of a wrong set-up (one BOS more,
  special tokens spelled out): so that is how the copy was asked. Or it finds it as the baseline does where it is sent
  without the outermost turn, which comes from the engine then.
- **Not read.** The start of a prompt is turned round, and nothing changes for the copy, but much for the baseline.
- **Without context.** Behind a single token attention has one key, so that neither RoPE nor a prompt can matter, and
  weights and the numbers of a KV cache do.
- **Drawn anew.** The same text stands one place further, which a model hardly minds. An error of weights stays; what is
  rounded while the model computes, above all keys after RoPE, is rounded otherwise.

The thresholds lie between what the causes come to on tiny Llamas; benchmarks/README.md has how often each is named.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meta_eval.token_fidelity import causes
from meta_eval.token_fidelity.causes import Finding, find
from meta_eval.token_fidelity.perturbations import (
    ALONE,
    BARE,
    NO_BOS,
    NO_HEADERS,
    NO_SPECIAL,
    SECOND_BOS,
    SHIFTED,
    SPELLED,
    START,
)
from meta_eval.token_fidelity.probe_table import Probed, Probes
from meta_eval.token_fidelity.table_pairing import Pair
from meta_eval.token_fidelity.token_columns import Columns

# Docs that a probe must have to say anything, and the share of them that must be nearer behind it.
_FEWEST, _MOST_NEARER = 6, 0.75
# A mistake is the one that was made where both are at most so far apart behind it, as a part of how far they are
# without: rounding is all that is left. Of tiny Llamas at most 0.2; behind any other mistake they are farther apart.
_AS_FAR = 0.4
# A start is not read where turning it round changes at most this part of what it changes for the baseline.
_UNREAD, _FEWEST_UNREAD = 0.1, 2
# Without context the same: as a part of the whole distance. Of weights and numbers 1.3 and more, of all others 0.
_SAME_ALONE = 0.3
# From this token of an answer alone on, RoPE's base shows, and its scaling does not.
_SETTLED = 8
# How many times as far late positions are as early ones where RoPE's scaling is off; where early ends and late begins.
_LATER, _EARLY, _LATE = 3.0, 512, 1024
# The part of an error that is another one place further: of weights 0.2 to 0.35, of a KV cache 0.75 to 1.
DRAWN_ANEW = 0.55
# From here on nothing but rounding is drawn anew so much.
_SURELY_ANEW = 0.7

Floats = NDArray[np.float64]
Doc = tuple[str, int]

# Of which mistake the baseline behind a probe is the picture; and behind which the copy is repaired.
_PICTURES = {
    NO_BOS: causes.NO_BOS, SECOND_BOS: causes.MORE_BOS, NO_HEADERS: causes.PROMPT, NO_SPECIAL: causes.PROMPT,
    SPELLED: causes.PROMPT,
}  # fmt: skip
_REPAIRS = {BARE: causes.PROMPT}

_WORDS = {
    NO_BOS: "no BOS", SECOND_BOS: "two BOS", NO_HEADERS: "the heads of turns left out",
    NO_SPECIAL: "special tokens left out", SPELLED: "special tokens as text", BARE: "the outermost turn left out",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """A doc behind one prompt: the length of its own, and what the baseline and the copy find of n tokens, nats."""

    prompt_tokens: int
    before: Floats
    after: Floats

    @property
    def difference(self) -> Floats:
        """n."""
        return self.before - self.after


class Probing:
    """The probes that both sides were asked, beside the docs themselves.

    Args:
        both: The tables.
        before, after: Their probes.

    Attributes:
        table: The baseline's.
        distance: Of each of its tokens, nats.
    """

    def __init__(self, both: Pair, before: Probes, after: Probes) -> None:
        self.table, self.distance = both.before, np.abs(both.difference)
        self._probes = {
            key: Beside(one.prompt_tokens, one.logprobs.astype(float), after[key].logprobs.astype(float))
            for key, one in before.items()
            if key in after and _same(one, after[key])
        }
        asked = {key[:2] for key in self._probes}
        ours, theirs = answers(both.before, asked), answers(both.after, asked)
        lengths = {(one.task, one.doc): one.prompt_tokens for one in both.before.answers}
        self._whole = {doc: Beside(lengths[doc], values, theirs[doc]) for doc, values in ours.items()}

    def of(self, probe: str) -> Iterator[tuple[Beside, Beside]]:
        """Docs without and with a probe, the same tokens of both."""
        for (task, doc, name), one in self._probes.items():
            whole = self._whole.get((task, doc))
            if name == probe and whole is not None and len(whole.before) >= len(one.before):
                size = len(one.before)
                yield Beside(whole.prompt_tokens, whole.before[:size], whole.after[:size]), one

    @property
    def alone(self) -> list[Beside]:
        """Answers without their prompts, from the second token on."""
        return [one for (_, _, name), one in self._probes.items() if name == ALONE]

    @property
    def knows_starts(self) -> bool:
        """Whether it would show that the starts of prompts are not read."""
        return sum(name == START for *_, name in self._probes) >= _FEWEST_UNREAD

    @property
    def is_enough(self) -> bool:
        """Whether weights and prompts can be told apart."""
        return len(self.alone) >= _FEWEST


def _same(one: Probed, other: Probed) -> bool:
    return one.request_sha256 == other.request_sha256 and np.array_equal(one.token_ids, other.token_ids)


def answers(table: Columns, docs: Container[Doc]) -> dict[Doc, Floats]:
    """The log-probabilities of some answers of a table."""
    return {
        (own.task, own.doc): table.logprobs[table.row == row].astype(float)
        for row, own in enumerate(table.answers)
        if (own.task, own.doc) in docs
    }


def another_prompt(probes: Probing) -> Finding | None:
    """The mistake of which the copy's answers are the picture; None for no such."""
    found = []
    for name in (*_PICTURES, *_REPAIRS):
        part = _as_far(probes, name)
        if part is not None and part <= _AS_FAR:
            found.append((part, name))
    if not found:
        return None
    _, name = min(found)
    if name in _REPAIRS:
        return find(f"asked with {_WORDS[name]} it is what the baseline is: something adds it", _REPAIRS[name])
    return find(f"it is what the baseline is when that is asked with {_WORDS[name]}", _PICTURES[name])


def _as_far(probes: Probing, name: str) -> float | None:
    """How far one side behind a probe is from the other without it, as a part of how far both are apart without."""
    left, apart = [], []
    for whole, one in probes.of(name):
        own, other = (one.before, whole.after) if name in _PICTURES else (one.after, whole.before)
        left.append(_mean(own - other))
        apart.append(_mean(whole.difference))
    if len(left) < _FEWEST or not sum(apart):
        return None
    nearer = np.mean(np.array(left) < np.array(apart))
    return sum(left) / sum(apart) if nearer >= _MOST_NEARER else None


def unread(probes: Probing) -> Finding | None:
    """Prompts whose start the copy does not read, and the baseline does: all from some length on."""
    changes = []
    for whole, one in probes.of(START):
        ours, theirs = _mean(one.before - whole.before), _mean(one.after - whole.after)
        changes.append((whole.prompt_tokens, ours > 0 and theirs <= _UNREAD * ours))
    return not_read(changes)


def not_read(docs: Sequence[tuple[int, bool]]) -> Finding | None:
    """Starts that are not read: of some docs the lengths of prompts, and whether another start changes nothing."""
    lengths = sorted(length for length, nothing in docs if nothing)
    if len(lengths) < _FEWEST_UNREAD or len(lengths) < sum(length >= lengths[0] for length, _ in docs):
        return None
    read = max((length for length, nothing in docs if not nothing), default=0)
    shorter = f", and of those of up to {read:,} it does" if read else ""
    return find(
        f"another start of its {len(lengths)} prompts of {lengths[0]:,} tokens and more changes nothing{shorter}",
        causes.START,
    )


def without_context(probes: Probing, apart: float, margin: float) -> Finding | None:
    """Attention or a prompt, of a copy that is different and yet the same behind a single token; None where it is not.

    Args:
        probes: What both were asked.
        apart: The distance of all tokens.
        margin: Nats a token.
    """
    alone = probes.alone
    first = float(np.mean([abs(one.difference[0]) for one in alone]))
    if first > _SAME_ALONE * apart:
        return None
    same = f"behind a single token it is the same to {first:.2g} nats"
    far = _mean(np.concatenate([one.difference[_SETTLED:] for one in alone]))
    if far > max(margin, _SAME_ALONE * apart):
        return find(f"{same}, and some tokens later off by {far:.2g}", causes.ATTENTION)
    table = probes.table
    # A template is wrong at early positions too, if only in the tasks that have one.
    early = max(_mean(probes.distance[(table.position < _EARLY) & table.of(task)]) for task in table.tasks)
    late = _mean(probes.distance[table.position >= _LATE])
    if late and early and early <= margin and late > _LATER * early:
        return find(
            f"{same}; up to position {_EARLY:,} it is off by {early:.2g} nats, from {_LATE:,} on by {late:.2g}",
            causes.ATTENTION, causes.START,
        )  # fmt: skip
    return find(
        f"{same}, and no number of BOS repairs it: it reads another prompt, or other parts of it",
        causes.PROMPT, causes.ATTENTION, causes.START,
    )  # fmt: skip


def numbers(probes: Probing, apart: float, margin: float) -> Finding:
    """Weights or the numbers of a KV cache, of a copy that is different without any context.

    Args:
        probes: What both were asked.
        apart: The distance of all tokens.
        margin: Nats a token. What is drawn anew and comes to less than half of it may be any engine's rounding.
    """
    anew, size = drawn_anew(probes)
    told = f"off by {apart:.2g} nats, also behind a single token; one place further {100 * anew:.0f} % of it is new"
    if anew < DRAWN_ANEW:
        return find(f"{told}: it lies in the weights, or in what is computed with them", causes.WEIGHTS)
    if anew >= _SURELY_ANEW and anew * size >= margin / 2:
        return find(f"{told}: it comes of rounding while the model computes", causes.ROUNDING)
    return find(
        f"{told}: it comes of rounding while the model computes, and some may lie in the weights",
        causes.ROUNDING, causes.WEIGHTS,
    )  # fmt: skip


def drawn_anew(probes: Probing) -> tuple[float, float]:
    """The part of the difference that is another one place further, and its mean size, nats a token."""
    anew = size = 0.0
    tokens = 0
    for name in (SECOND_BOS, SHIFTED):
        for whole, one in probes.of(name):
            anew += float(np.abs(whole.difference - one.difference).sum())
            size += float(np.abs(whole.difference).sum() + np.abs(one.difference).sum()) / 2
            tokens += len(one.before)
    return (anew / size, size / tokens) if size else (0.0, 0.0)


def _mean(values: Floats) -> float:
    """The mean size; 0 of none."""
    return float(np.abs(values).mean()) if len(values) else 0.0
