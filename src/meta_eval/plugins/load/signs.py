"""What an answer under load is, beside the answer that the same request got alone.

Greedy answers of sound servers part from each other too: another batch size rounds otherwise, so that of two tokens
that are nearly as likely the other one is chosen. That is no fault. Such an answer goes on with tokens that are each
the likeliest after those before it, or nearly. An answer with a part of something else in it does not: some token of it
is unlikely (`scored_answers`). Other signs need no log-probabilities.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from meta_eval.plugins.load.thresholds import LOST_TEXT, SCRIPT_LETTERS
from meta_eval.sockets import Answer, parse_json

Kind = Literal["same", "near tie", "parted", "corrupted", "failed"]
"""The same text as alone; parted from it at a near tie; parted, and nobody knows whether at a near tie; not the model's
answer to this request; no answer."""

OTHER = "another request's text"
LOST = "lost text"
CUT = "cut off"
PROMPT = "another prompt"
UNLIKELY = "an unlikely token"
REFUSED = "refused"
EMPTY = "empty"
JSON = "broken JSON"
SCRIPT = "another script"
SHORT = "ended early"

# An answer of the model itself may have one of these by rounding: it counts beside those of answers alone.
_WEAK = frozenset((EMPTY, JSON, SCRIPT, SHORT))

# Parts of a text that are compared; the rest of a long one says no more.
_OF_PROMPT, _OF_ANSWER = 2_000, 6_000

_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Scored:
    """How likely the tokens of an answer are, asked alone."""

    distance: float
    """The largest distance of a token from the likeliest one, nats."""

    at: int
    """The character at which that token begins."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer under load, and what it is."""

    task: str
    """The task."""

    doc: int
    """lm-eval's number of the doc."""

    kind: Kind
    """See `Kind`."""

    signs: tuple[str, ...] = ()
    """Why it is corrupted, the surest first."""

    at: int = 0
    """The character at which it leaves the answer that was given alone, or at which the fault begins."""

    distance: float | None = None
    """`Scored.distance`; None if it was not scored."""

    @property
    def is_sure(self) -> bool:
        """Whether no rounding explains it."""
        return self.kind == "corrupted" and not _WEAK.issuperset(self.signs)


def classify(
    alone: Sequence[Answer], answer: Answer, prompt: str, foreign: str | None, scored: Scored | None, limit: float
) -> Seen:
    """Say what an answer under load is.

    Args:
        alone: The answers that the request got alone; at least one, each with a text.
        answer: The answer under load.
        prompt: The prompt.
        foreign: What the answer shares with another request alone; None for nothing.
        scored: How likely its tokens are; None if that is not known.
        limit: The largest distance of a near tie, nats.
    """
    task, doc = answer.task, answer.doc
    if answer.error is not None:
        return Seen(task, doc, "failed") if answer.retry else Seen(task, doc, "corrupted", (REFUSED,))
    text, texts = answer.text or "", [given.text or "" for given in alone]
    if text in texts:
        return Seen(task, doc, "same")
    at = max(_find_parting(text, other) for other in texts)
    is_near = scored is not None and scored.distance <= limit
    signs = []
    if foreign is not None and not is_near:
        signs.append(OTHER)
    if any(_is_lost(given, answer) for given in alone):
        signs.append(LOST)
    if any(_is_cut(given, answer) for given in alone):
        signs.append(CUT)
    if all(_has_other_prompt(given, answer) for given in alone):
        signs.append(PROMPT)
    if scored is not None and not is_near:
        signs.append(UNLIKELY)
        at = max(at, scored.at)
    if not is_near or not text.strip():
        signs += _list_weak_signs(texts, text, prompt)
    if OTHER in signs and foreign is not None:
        at = text.index(foreign)
    if not signs:
        return Seen(task, doc, "near tie" if is_near else "parted", (), at, scored.distance if scored else None)
    return Seen(task, doc, "corrupted", tuple(signs), at, scored.distance if scored else None)


def _find_parting(a: str, b: str) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _is_beginning(whole: str, text: str) -> bool:
    return len(text) < len(whole) and whole.startswith(text)


def _is_lost(alone: Answer, answer: Answer) -> bool:
    """Whether the server wrote as many tokens as alone, and fewer of them arrived. A few characters are no sign: the
    last token of one answer may be the end token of the other."""
    counts = alone.completion_tokens, answer.completion_tokens
    if None in counts or counts[0] != counts[1] or not _is_beginning(alone.text or "", answer.text or ""):
        return False
    return len(alone.text or "") - len(answer.text or "") >= LOST_TEXT


def _has_other_prompt(alone: Answer, answer: Answer) -> bool:
    """Whether the server counted other tokens of the same prompt."""
    counts = alone.prompt_tokens, answer.prompt_tokens
    return None not in counts and counts[0] != counts[1]


def _is_cut(alone: Answer, answer: Answer) -> bool:
    """Whether it does not say that it ended by itself, as it did alone, or was cut before the limit of tokens."""
    if not _is_beginning(alone.text or "", answer.text or ""):
        return False
    if answer.finish_reason is None:
        return alone.finish_reason is not None
    counts = alone.completion_tokens, answer.completion_tokens
    return answer.finish_reason == "length" and None not in counts and (counts[1] or 0) < (counts[0] or 0)


def _list_weak_signs(texts: Sequence[str], text: str, prompt: str) -> Iterable[str]:
    if not text.strip() and all(other.strip() for other in texts):
        yield EMPTY
    elif any(_is_beginning(other, text) for other in texts):
        yield SHORT
    if all(map(_is_json, texts)) and not _is_json(text):
        yield JSON
    usual = Counter[str]()
    for other in (prompt, *texts):
        usual.update(_scripts(other))
    if any(count >= (1 if script == "REPLACEMENT" else SCRIPT_LETTERS) and script not in usual
           for script, count in _scripts(text).items()):  # fmt: skip
        yield SCRIPT


def _is_json(text: str) -> bool:
    """Whether it is a JSON object or list, perhaps in a block of code."""
    inner = re.sub(r"^```\w*\s*|\s*```$", "", text.strip())
    if not inner.startswith(("{", "[")):
        return False
    try:
        parse_json(inner.encode())
    except ValueError:
        return False
    return True


def _scripts(text: str) -> Counter[str]:
    """Letters by script: the first word of their Unicode name."""
    return Counter(_script(letter) for letter in text if letter.isalpha() or letter == "\ufffd")


@lru_cache(maxsize=10_000)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNNAMED").partition(" ")[0]


class OtherTexts:
    """Finds what an answer shares with the requests of others.

    Few-shot examples and instructions are in many prompts, and whole sentences in the answers to many questions. A run
    of characters therefore counts only if exactly one other request has it, in its prompt or in its answer alone.

    Args:
        prompts: By key the prompt.
        answers: By key the answers that it got alone.
        shared: The characters of a run.
        traffic: Prompts that no doc has.
    """

    def __init__(
        self,
        prompts: Mapping[tuple[str, int], str],
        answers: Mapping[tuple[str, int], Collection[str]],
        shared: int,
        traffic: Iterable[str] = (),
    ) -> None:
        self._shared = shared
        self._owner: dict[int, tuple[str, int] | None] = {}
        for key, prompt in prompts.items():
            for text in (prompt[-_OF_PROMPT:], *(answer[:_OF_ANSWER] for answer in answers.get(key, ()))):
                self._own(key, text)
        for number, prompt in enumerate(traffic):
            self._own(("", number), prompt)

    def _own(self, key: tuple[str, int], text: str) -> None:
        for part in set(_list_parts(text, self._shared)):
            number = hash(part)
            self._owner[number] = key if self._owner.get(number, key) == key else None

    def find(self, key: tuple[str, int], text: str) -> str | None:
        """The first part of an answer that exactly one other request has; None if there is none."""
        for part in _list_parts(text[:_OF_ANSWER], self._shared):
            owner = self._owner.get(hash(part))
            if owner is not None and owner != key:
                return part
        return None


def _list_parts(text: str, size: int) -> Iterable[str]:
    """All runs of so many characters that begin a word, or each that a text without spaces has."""
    starts = [match.end() for match in _SPACE.finditer(text)]
    begins = [0, *starts] if len(starts) * 15 > len(text) else range(len(text))
    return (text[at : at + size] for at in begins if at + size <= len(text))
