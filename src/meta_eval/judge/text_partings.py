"""Finds where two greedy texts of a doc part, and measures how near the two tokens were.

Two correct implementations of the same greedy decoding part where two tokens are almost equally likely: rounding
decides. They go on with different texts from there, so only the first difference counts. A table of a trusted copy over
the texts of a side has the log-probability of both tokens at this place, from a single prefill per doc.

- **near tie**: the gap between the two tokens is at most `NEAR_TIE_NATS`. Rounding explains it.
- **change**: the gap is larger. A copy that chose the other token computes other numbers.
- **not measured**: no table has the text, or the table does not tell how likely the other token is. That also holds
  unless it is a near tie, for a text that a stop sequence may have ended, and for a token that both texts begin with.

A text that ends at its token limit does not part there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import ClassVar, Literal

import numpy as np

from meta_eval.base.thresholds import NEAR_TIE_NATS, SAMENESS_MIN_DOCS
from meta_eval.judge.decide import Sameness
from meta_eval.judge.token_table import Forced
from meta_eval.stats import Interval, score_interval, wilson_interval
from meta_eval.stats.first_divergence import FirstDivergence, measure_divergence, median_interval

_Kind = Literal["near tie", "change", "not measured"]
Tokenise = Callable[[str], Sequence[int]]


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts of a doc behind the same prompt."""

    task: str
    """The task."""

    doc: int
    """Lm-eval's number of the doc in A."""

    a: str
    b: str
    """The texts."""

    a_scoring: str | None = None
    b_scoring: str | None = None
    """The hashes of the requests that score them; None if unknown."""

    stop: tuple[str, ...] = ()
    """The stop sequences behind which they were cut."""

    max_tokens: int = 0
    """The largest number of tokens of a text; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class TextVocabulary:
    """How texts become tokens, and tokens texts; and the ids of special tokens, of which one ends a text."""

    encode: Tokenise
    decode: Callable[[Sequence[int]], str]
    special: frozenset[int] = frozenset()

    def find_ends(self, stop: Iterable[str]) -> tuple[frozenset[int], bool]:
        """The tokens that may end a text, and whether these are all: a stop sequence may also begin within a token."""
        stops = [list(self.encode(sequence)) for sequence in filter(None, stop)]
        return self.special | {ids[0] for ids in stops if ids}, all(self.special.issuperset(ids) for ids in stops)


@dataclass(frozen=True, slots=True)
class Parting:
    """The first place where two texts differ."""

    task: str
    """The task."""

    doc: int
    """Lm-eval's number of the doc in A."""

    at: int
    """The place, from 1: in tokens, or in characters without a tokenizer."""

    kind: _Kind
    """See this module."""

    before: tuple[int, ...]
    """The tokens, or characters, before this place: ids, or code points."""

    token_a: int | None
    token_b: int | None
    """A's and B's token there; None for a text that ends. Of several tokens that a text may have been written with, the
    likeliest.
    """

    logprob_a: float | None = None
    logprob_b: float | None = None
    """Their log-probabilities under the trusted copy, nats; None if not known."""

    gap: float | None = None
    """The difference of both, nats, at least 0; None if not measured."""

    at_least: bool = False
    """Whether the gap is only a lower bound, because the table does not keep the other token."""


@dataclass(frozen=True, slots=True)
class TextFigures:
    """The figures of a task, or of all."""

    name: str | None
    """The task; None for all."""

    docs: int
    """Number of pairs of texts."""

    identical: float
    """The share of equal texts, with its interval at `meta_eval.base.thresholds.LEVEL`."""

    identical_interval: Interval
    """See above."""

    first: FirstDivergence
    """The place of the first difference; texts without any are censored at their end."""

    median_interval: tuple[int | None, int | None]
    """The interval of its median; None for an end that lies beyond the last difference."""

    partings: int
    """Number of texts that part."""

    near_ties: int
    changes: int
    """Number of partings of these kinds. The others are not measured."""

    changed_interval: Interval
    """The interval of the share of docs whose texts part at a change."""

    json_also: ClassVar = ("not_measured", "near_tie_share")

    @property
    def not_measured(self) -> int:
        """Number of partings that are not measured."""
        return self.partings - self.near_ties - self.changes

    @property
    def near_tie_share(self) -> float | None:
        """The share of measured partings that are near ties; None without any."""
        measured = self.near_ties + self.changes
        return self.near_ties / measured if measured else None


@dataclass(frozen=True, slots=True)
class TextComparison:
    """The comparison of the texts of two runs."""

    figures: tuple[TextFigures, ...]
    """Of all, and of each task where there are several."""

    partings: tuple[Parting, ...]
    """The texts that part: changes first, the largest gap first."""

    outcome: Sameness
    """``different`` if a parting is a change; ``same`` if every parting is a near tie, or there is none; else
    ``undecided``.
    """

    reason: str
    """Why."""


def compare_greedy_texts(
    pairs: Sequence[TextPair],
    vocabulary: TextVocabulary | None = None,
    tables: Iterable[Mapping[str, Forced]] = (),
    min_docs: int = SAMENESS_MIN_DOCS,
) -> TextComparison:
    """Compare the texts of two runs.

    Args:
        pairs: The texts, at least one pair.
        vocabulary: The tokenizer; None counts characters, and measures no gap.
        tables: Scored texts of A or of B, by the hash of their request.
        min_docs: With fewer docs equal texts decide nothing.
    """
    words = vocabulary or TextVocabulary(lambda text: list(map(ord, text)), lambda ids: "".join(map(chr, ids)))
    known = list(tables) if vocabulary else []
    lengths: list[int] = []
    partings: list[Parting | None] = []
    for pair in pairs:
        ids = words.encode(pair.a), words.encode(pair.b)
        at = _find_parting(*ids) if pair.a != pair.b else None
        if at is not None and vocabulary and 0 < pair.max_tokens <= at == min(map(len, ids)):
            at = None  # cut there
        lengths.append(min(map(len, ids)) if at is None else at + 1)
        partings.append(None if at is None else _measure(pair, ids, at, known, words))
    tasks = sorted({pair.task for pair in pairs})
    names: list[str | None] = [None, *(tasks if len(tasks) > 1 else [])]
    figures = tuple(
        _figures(name, [place for place, pair in enumerate(pairs) if name in (None, pair.task)], lengths, partings)
        for name in names
    )
    shown = sorted((parting for parting in partings if parting is not None), key=_order)
    return TextComparison(figures, tuple(shown), *_decide(figures[0], min_docs))


def _find_parting(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first place, from 0, where two lists differ; None if they are equal."""
    return next((at for at, (of_a, of_b) in enumerate(zip_longest(a, b)) if of_a != of_b), None)


def _measure(
    pair: TextPair, ids: tuple[Sequence[int], Sequence[int]], at: int, tables: Sequence[Mapping[str, Forced]],
    words: TextVocabulary,
) -> Parting:  # fmt: skip
    """Measure a parting with the first table that has the text of a side beyond this place."""
    tokens = [side[at] if at < len(side) else None for side in ids]
    parting = Parting(pair.task, pair.doc, at + 1, "not measured", tuple(ids[0][:at]), tokens[0], tokens[1])
    rests = [words.decode(side[at:]) for side in ids]
    ends, all_ends = words.find_ends(pair.stop)
    certain = all_ends if None in tokens else not _share_beginning(rests, tokens, words)
    for side, scoring in enumerate((pair.a_scoring, pair.b_scoring)):
        for table in tables:
            scored = table.get(scoring or "")
            if scored is None or at >= len(ids[side]) or not np.array_equal(scored.token_ids, ids[side]):
                continue
            other = tokens[1 - side]
            wanted = ends if other is None else {other, *_list_beginnings(scored, at, rests[1 - side], words)}
            measured = _measure_gap(parting, scored, at, side, wanted - {ids[side][at]})
            if measured.kind == "near tie" or (measured.kind == "change" and certain):
                return measured
    return parting


def _share_beginning(rests: Sequence[str], tokens: Sequence[int | None], words: TextVocabulary) -> bool:
    """Whether both texts go on with the token of either, so that they may part later."""
    spellings = [words.decode([token]) for token in tokens if token is not None]
    return any(rest.startswith(spelling) for rest, spelling in zip(reversed(rests), spellings, strict=True))


def _list_beginnings(scored: Forced, at: int, rest: str, words: TextVocabulary) -> Iterator[int]:
    """The kept tokens that the rest of a text begins with. An engine may have written it in other tokens than the
    tokenizer makes of it, such as `` f``, ``rozen`` for `` frozen``."""
    for token in _list_kept(scored, at):
        spelling = words.decode([token])
        if spelling and rest.startswith(spelling):
            yield token


def _list_kept(scored: Forced, at: int) -> dict[int, float]:
    """The tokens that a table keeps at a place, with their log-probabilities."""
    kept = {
        int(scored.token_ids[at]): float(scored.logprobs[at]),
        int(scored.top_ids[at]): float(scored.top_logprobs[at]),
    }
    if scored.top_k_ids is not None and scored.top_k_logprobs is not None:
        kept |= dict(zip(scored.top_k_ids[at].tolist(), scored.top_k_logprobs[at].tolist(), strict=True))
    return {token: logprob for token, logprob in kept.items() if token >= 0}


def _measure_gap(parting: Parting, scored: Forced, at: int, side: int, wanted: Set[int]) -> Parting:
    """Measure the gap in a table of a side, 0 for A and 1 for B. ``wanted`` are the tokens that the other side may have
    chosen; the likeliest counts."""
    own, kept = float(scored.logprobs[at]), _list_kept(scored, at)
    logprob, token = max(((kept[token], token) for token in wanted if token in kept), default=(None, None))
    bound = _bound_others(scored, at, kept) if logprob is None else logprob
    gap = round(abs(own - bound), 5)  # more digits than float32 has
    if logprob is None and (bound >= own or gap <= NEAR_TIE_NATS):
        return parting  # the other token may be near or far
    tokens = [parting.token_a, parting.token_b]
    if tokens[1 - side] is not None and token is not None:
        tokens[1 - side] = token
    logprobs = (own, logprob) if side == 0 else (logprob, own)
    return replace(
        parting, kind="near tie" if gap <= NEAR_TIE_NATS else "change", gap=gap, at_least=logprob is None,
        token_a=tokens[0], token_b=tokens[1], logprob_a=logprobs[0], logprob_b=logprobs[1],
    )  # fmt: skip


def _bound_others(scored: Forced, at: int, kept: Mapping[int, float]) -> float:
    """The largest log-probability that a token may have that the table does not keep at a place: what the kept tokens
    leave, and no more than the least likely of the table's top tokens."""
    top = scored.top_k_logprobs
    least = float(scored.top_logprobs[at]) if top is None or not top.shape[1] else float(top[at].min())
    left = 1 - math.fsum(map(math.exp, kept.values()))
    return min(least, math.log(max(left, 1e-12)))


def _figures(
    name: str | None, places: Sequence[int], lengths: Sequence[int], partings: Sequence[Parting | None]
) -> TextFigures:
    kinds = [None if (parting := partings[place]) is None else parting.kind for place in places]
    parted = [kind is not None for kind in kinds]
    times = [lengths[place] for place in places]
    equal = [float(not value) for value in parted]
    changes = kinds.count("change")
    return TextFigures(
        name=name,
        docs=len(places),
        identical=sum(equal) / len(equal),
        identical_interval=score_interval(equal),
        first=measure_divergence(np.array(times, np.int64), np.array(parted, bool)),
        median_interval=median_interval(times, parted),
        partings=sum(parted),
        near_ties=kinds.count("near tie"),
        changes=changes,
        changed_interval=wilson_interval(changes, len(places)),
    )


def _decide(pooled: TextFigures, min_docs: int) -> tuple[Sameness, str]:
    if pooled.changes:
        many = pooled.changes > 1
        return "different", f"{pooled.changes:,} parting{'s are' if many else ' is'} no near tie{'s' if many else ''}"
    if pooled.not_measured:
        return "undecided", f"{pooled.not_measured:,} of {pooled.partings:,} partings are not measured"
    if pooled.docs < min_docs:
        return "undecided", f"too few docs: {pooled.docs}, and at least {min_docs} are needed"
    if not pooled.partings:
        return "same", "every text is identical"
    return "same", "every parting is a near tie: nothing but rounding is seen"


def _order(parting: Parting) -> tuple[int, float, str, int]:
    rank = ("change", "not measured", "near tie").index(parting.kind)
    return rank, -(parting.gap or 0.0), parting.task, parting.doc
