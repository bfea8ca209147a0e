"""Makes the probes: a few docs are asked again with the prompt changed as a wrong set-up would change it.

The effect separates causes with the same trace in a table (`meta_eval.plugins.tokens.probe_signatures`). Prompts are
chats of a known family, or plain text. A probe that does not apply, such as headers in plain text, is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from meta_eval.ask.canary import change_bos
from meta_eval.harness.families import list_families

NO_BOS, SECOND_BOS = "no BOS", "a second BOS"
NO_HEADERS, NO_SPECIAL, SPELLED, BARE = "no headers", "no special tokens", "special tokens as text", "outer turn off"
ALONE = "answer alone"

PROMPTS = (NO_BOS, SECOND_BOS, NO_HEADERS, NO_SPECIAL, SPELLED, BARE, ALONE)

# Tokens of an answer that are probed.
MAX_ANSWER_TOKENS = 64

# A prompt and an answer, as token ids.
Ids = tuple[list[int], list[int]]


def make_perturbations(
    prompt: str,
    ids: Sequence[int],
    answer: Sequence[int],
    bos: int | None,
    pieces: Callable[[str], list[int]],
    spelled: Callable[[str], list[int]],
) -> Iterator[tuple[str, Ids]]:
    """Make the probes of a doc by name, as far as they apply to its prompt.

    Args:
        prompt: The text, without BOS.
        ids: Its tokens, with BOS if there is one.
        answer: The tokens of the recorded answer; the first `MAX_ANSWER_TOKENS` are used.
        bos: The BOS; None if the tokenizer has none.
        pieces: Tokenizes a text, with special tokens recognised.
        spelled: Tokenizes a text, with special tokens treated as plain text.
    """
    answer_ids, prompt_ids = list(answer[:MAX_ANSWER_TOKENS]), list(ids)
    start = [] if bos is None else [bos]
    if bos is not None:
        yield NO_BOS, (change_bos(prompt_ids, bos, fewer=True), answer_ids)
        yield SECOND_BOS, (change_bos(prompt_ids, bos, fewer=False), answer_ids)
    for name, text in _texts(prompt):
        yield name, ([*start, *pieces(text)], answer_ids)
    if _any(token for family in list_families() for token in family.tokens).search(prompt):
        yield SPELLED, ([*start, *spelled(prompt)], answer_ids)
    if len(answer_ids) > 1:
        yield ALONE, (answer_ids[:1], answer_ids[1:])


def _texts(prompt: str) -> Iterator[tuple[str, str]]:
    """Make chat prompts without headers, without special tokens, and without the outermost turn."""
    for family in list_families():
        header, end = family.header_pattern, _any(family.ends)
        if not (first := header.match(prompt)):
            continue
        yield NO_HEADERS, end.sub("", header.sub("", prompt))
        yield NO_SPECIAL, _any(family.tokens).sub("", prompt)
        # A server may add a system turn, too.
        opening = next((turn for turn in header.finditer(prompt) if "system" not in turn.group()), first)
        inner = prompt[opening.end() :]
        ends = list(end.finditer(inner))
        if ends and header.fullmatch(inner[ends[-1].end() :].removeprefix(family.after_turn)):
            yield BARE, inner[: ends[-1].start()]


def _any(tokens: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tokens)))
