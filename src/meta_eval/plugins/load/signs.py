"""What an answer under load is, beside the answer that the same request got alone.

Greedy answers of sound servers part from each other too: another batch size rounds otherwise, so that of two tokens
that are nearly as likely the other one is chosen. That is no fault. Such an answer goes on with tokens that are each
the likeliest after those before it, or nearly. An answer with a part of something else in it does not: some token of it
is unlikely. Other signs need no log-probabilities.

Rounding gives a sound server some signs, too: at a near tie with the end token an answer ends early. Which of two
answers does so is chance. So these weak signs are looked for in both directions, in the answer under load beside that
alone and in that alone beside it, and only their difference counts (`level_decision`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from meta_eval.plugins.load.thresholds import LOST_TEXT, SCRIPT_LETTERS
from meta_eval.sockets import Answer, parse_json

_Kind = Literal["same", "near tie", "parted", "corrupted", "failed"]
"""The same text as alone; parted from it at a near tie; parted, and nobody knows whether at a near tie; not the model's
answer to this request; no answer."""

OTHER_SIGN = "another request's text"
LOST = "lost text"
STOP = "went on behind its stop text"
_CUT = "cut off"
SHORTER = "a shorter prompt"
LONGER = "a longer prompt"
UNLIKELY = "an unlikely token"
_REFUSED = "refused"
BEGINNING = "lost beginning"
EMPTY = "empty"
JSON = "broken JSON"
SCRIPT = "another script"
_SHORT = "ended early"

# By each sign that rounding may give, too, the name that it has in the answer alone beside that under load.
MIRRORED = {sign: f"{sign} alone" for sign in (EMPTY, _SHORT, BEGINNING, JSON, SCRIPT)}

# The end token is not scored: the only signs of an answer whose tokens are all likely.
_OF_ENDS = frozenset((EMPTY, _SHORT))

# Parts of a text that are compared; the rest of a long one says no more.
_OF_PROMPT, _OF_ANSWER = 2_000, 6_000

_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class ScoredSign:
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

    kind: _Kind
    """How it differs from the answer alone."""

    signs: tuple[str, ...] = ()
    """Why it is corrupted, the surest first; else its weak signs, those of the answer alone by `MIRRORED`."""

    at: int = 0
    """The character at which it leaves the answer that was given alone, or at which the fault begins."""

    distance: float | None = None
    """`ScoredSign.distance`; None if it was not scored."""

    @property
    def direction(self) -> int:
        """1 if the answer under load alone has weak signs, -1 if that alone has, else 0; 0 if it is corrupted."""
        if self.kind == "corrupted":
            return 0
        return any(sign in MIRRORED for sign in self.signs) - any(sign in MIRRORED.values() for sign in self.signs)


def classify(
    alone: Sequence[Answer], answer: Answer, prompt: str, foreign: str | None, scored: ScoredSign | None, limit: float,
    *, by_chance: bool = False, stop: Sequence[str] = (),
) -> Seen:  # fmt: skip
    """Say what an answer under load is.

    Args:
        alone: The answers that the request got alone; at least one, each with a text.
        answer: The answer under load.
        prompt: The prompt.
        foreign: What the answer shares with another request alone; None for nothing.
        scored: How likely its tokens are; None if that is not known.
        limit: The largest distance of a near tie, nats.
        by_chance: Whether chance may explain that it shares this: then it is no sign of corruption.
        stop: The stop texts of the request.
    """
    task, doc = answer.task, answer.doc
    if answer.error is not None:
        return Seen(task, doc, "failed") if answer.retry else Seen(task, doc, "corrupted", (_REFUSED,))
    text, texts = answer.text or "", [given.text or "" for given in alone]
    if text in texts:
        return Seen(task, doc, "same")
    at = max(_find_parting(text, other) for other in texts)
    is_near = scored is not None and scored.distance <= limit
    signs = list(_list_sure_signs(alone, answer, None if by_chance else foreign, stop, is_near=is_near))
    ends_alike = any(_is_part(given.text or "", text, str.endswith) for given in alone)
    if scored is not None and not is_near:
        signs += [BEGINNING] * (ends_alike and BEGINNING not in signs)
        signs.append(UNLIKELY)
        at = max(at, scored.at)
    weak = _find_weak_signs(texts, text, prompt)
    if OTHER_SIGN in signs and foreign is not None:
        at = text.index(foreign)
    distance = scored.distance if scored else None
    if signs:
        return Seen(task, doc, "corrupted", (*signs, *(sign for sign in weak if sign in MIRRORED)), at, distance)
    if foreign is not None and not is_near:
        weak = (OTHER_SIGN, *weak)
    if is_near:
        weak = tuple(sign for sign in weak if any(sign in (end, MIRRORED[end]) for end in _OF_ENDS))
    return Seen(task, doc, "near tie" if is_near else "parted", weak, at, distance)


def _list_sure_signs(
    alone: Sequence[Answer], answer: Answer, foreign: str | None, stop: Sequence[str], *, is_near: bool
) -> Iterable[str]:
    text, texts = answer.text or "", [given.text or "" for given in alone]
    if foreign is not None and not is_near:
        yield OTHER_SIGN
    if any(_is_lost(given, answer, str.startswith) for given in alone):
        yield LOST
    if any(_is_lost(given, answer, str.endswith) for given in alone):
        yield BEGINNING
    if any(end in text and not any(end in other for other in texts) for end in stop if end):
        yield STOP
    if any(_is_cut(given, answer) for given in alone):
        yield _CUT
    if all(_count_more(given, answer) < 0 for given in alone):
        yield SHORTER
    if all(_count_more(given, answer) > 0 for given in alone):
        yield LONGER


def _find_parting(a: str, b: str) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _is_beginning(whole: str, text: str) -> bool:
    return len(text) < len(whole) and whole.startswith(text)


def _is_part(whole: str, text: str, lies_in: Callable[[str, str], bool]) -> bool:
    """Whether at least `LOST_TEXT` characters of a text are missing, before or behind. Fewer are no sign: the last
    token of one answer may be the end token of the other."""
    return len(whole) - len(text) >= LOST_TEXT and bool(text.strip()) and lies_in(whole, text)


def _is_lost(alone: Answer, answer: Answer, lies_in: Callable[[str, str], bool]) -> bool:
    """Whether the server wrote as many tokens as alone, and fewer of them arrived."""
    counts = alone.completion_tokens, answer.completion_tokens
    return None not in counts and counts[0] == counts[1] and _is_part(alone.text or "", answer.text or "", lies_in)


def _count_more(alone: Answer, answer: Answer) -> int:
    """How many tokens of the same prompt the server counted more; 0 if it does not count them."""
    return (
        (answer.prompt_tokens or 0) - (alone.prompt_tokens or 0) if alone.prompt_tokens and answer.prompt_tokens else 0
    )


def _is_cut(alone: Answer, answer: Answer) -> bool:
    """Whether it does not say that it ended by itself, as it did alone, or was cut before the limit of tokens."""
    if not _is_beginning(alone.text or "", answer.text or ""):
        return False
    if answer.finish_reason is None:
        return alone.finish_reason is not None
    counts = alone.completion_tokens, answer.completion_tokens
    return answer.finish_reason == "length" and None not in counts and (counts[1] or 0) < (counts[0] or 0)


def _find_weak_signs(texts: Sequence[str], text: str, prompt: str) -> tuple[str, ...]:
    """The weak signs of a text beside each text alone, and by `MIRRORED` those of each text alone beside it."""
    own = [set(_list_weak_signs(other, text, prompt)) for other in texts]
    theirs = [set(_list_weak_signs(text, other, prompt)) for other in texts]
    return (
        *(sign for sign in MIRRORED if all(sign in signs for signs in own)),
        *(name for sign, name in MIRRORED.items() if all(sign in signs for signs in theirs)),
    )


def _list_weak_signs(sound: str, text: str, prompt: str) -> Iterable[str]:
    if not text.strip() and sound.strip():
        yield EMPTY
    elif _is_part(sound, text, str.startswith):
        yield _SHORT
    elif _is_part(sound, text, str.endswith):
        yield BEGINNING
    if _is_json(sound) and not _is_json(text):
        yield JSON
    usual = _scripts(prompt) + _scripts(sound)
    if any(count >= (1 if script == "REPLACEMENT" else SCRIPT_LETTERS) and script not in usual
           for script, count in _scripts(text).items()):  # fmt: skip
        yield SCRIPT


def _is_json(text: str) -> bool:
    """Whether it is a JSON object or list, perhaps in a block of code."""
    inner = re.sub(r"^```\w*\s*", "", text.strip().removesuffix("```"))
    if not inner.startswith(("{", "[")):
        return False
    try:
        parse_json(inner.encode())
    except ValueError:
        return False
    return True


def _scripts(text: str) -> Counter[str]:
    """Letters by script: the first word of their Unicode name."""
    scripts = Counter[str]()
    for letter, count in Counter(text).items():
        if letter.isalpha() or letter == "\ufffd":
            scripts[_script(letter)] += count
    return scripts


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
            owner = self.find_owner(part)
            if owner is not None and owner != key:
                return part
        return None

    def find_owner(self, part: str) -> tuple[str, int] | None:
        """The only request that has a part: a doc, or ``""`` and the number of a made-up prompt; None for none."""
        return self._owner.get(hash(part))


def _list_parts(text: str, size: int) -> Iterable[str]:
    """All runs of so many characters that begin a word, or each that a text without spaces has."""
    starts = [match.end() for match in _SPACE.finditer(text)]
    begins = [0, *starts] if len(starts) * 15 > len(text) else range(len(text))
    return (text[at : at + size] for at in begins if at + size <= len(text))
