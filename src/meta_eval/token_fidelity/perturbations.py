"""The probes: a few docs are asked again with the prompt changed as a wrong set-up would change it.

What a change does tells causes apart that leave the same trace in a table
(`meta_eval.token_fidelity.probe_signatures`). Prompts are those of a chat of a known family, or plain text; what a
prompt has not, such as headers, is not probed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from meta_eval.catalog.families import list_families

NO_BOS, SECOND_BOS = "no BOS", "a second BOS"
NO_HEADERS, NO_SPECIAL, SPELLED, BARE = "no headers", "no special tokens", "special tokens as text", "outer turn off"
START, SHIFTED, ALONE = "start turned round", "one token twice", "answer alone"

PROMPTS = (NO_BOS, SECOND_BOS, NO_HEADERS, NO_SPECIAL, SPELLED, BARE, SHIFTED, ALONE)

# Of a prompt's tokens those at its start, BOS apart, whose order is turned round: the share of one in so many.
_START = 10
# Tokens that a prompt has at least for its start to be turned round.
_LONG = 40
# Tokens of an answer that are probed.
MOST = 64

# A prompt and an answer, as token ids.
Ids = tuple[list[int], list[int]]


def make_perturbations(
    prompt: str,
    ids: Sequence[int],
    answer: Sequence[int],
    bos: int,
    pieces: Callable[[str], list[int]],
    spelled: Callable[[str], list[int]],
) -> Iterator[tuple[str, Ids]]:
    """The variants of one doc by name, those that its prompt has.

    Args:
        prompt: The text, without BOS.
        ids: Its tokens, with BOS.
        answer: Those of the recorded answer; the first `MOST` are asked.
        bos: The BOS.
        pieces: The tokens of a text, special ones read as such.
        spelled: Likewise, special ones read as the text that they look like.
    """
    said, whole = list(answer[:MOST]), list(ids)
    yield NO_BOS, (change_bos(whole, bos, fewer=True), said)
    yield SECOND_BOS, (change_bos(whole, bos, fewer=False), said)
    for name, text in _texts(prompt):
        yield name, ([bos, *pieces(text)], said)
    if _any(token for family in list_families() for token in family.tokens).search(prompt):
        yield SPELLED, ([bos, *spelled(prompt)], said)
    middle = len(whole) // 2
    yield SHIFTED, ([*whole[:middle], whole[middle], *whole[middle:]], said)
    if len(said) > 1:
        yield ALONE, (said[:1], said[1:])


def turn_start_round(ids: Sequence[int]) -> list[int] | None:
    """A prompt whose start, BOS apart, is in the contrary order, so that whoever reads it finds other likelihoods."""
    most = max(4, len(ids) // _START)
    return None if len(ids) < _LONG else [ids[0], *reversed(ids[1 : 1 + most]), *ids[1 + most :]]


def change_bos(ids: Sequence[int], bos: int, *, fewer: bool) -> list[int]:
    """The same with one BOS less or one more."""
    return list(ids[1:]) if fewer else [bos, *ids]


def _texts(prompt: str) -> Iterator[tuple[str, str]]:
    """Chat prompts without their headers, without any special token, and without the outermost turn."""
    for family in list_families():
        before, after = map(re.escape, family.header)
        header, end = re.compile(f"{before}[^<]*{after}\n*"), _any(family.ends)
        if not (first := header.match(prompt)):
            continue
        yield NO_HEADERS, end.sub("", header.sub("", prompt))
        yield NO_SPECIAL, _any(family.tokens).sub("", prompt)
        inner = prompt[first.end() :]
        ends = list(end.finditer(inner))
        if ends and header.fullmatch(inner, ends[-1].end()):
            yield BARE, inner[: ends[-1].start()]


def _any(tokens: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tokens)))
