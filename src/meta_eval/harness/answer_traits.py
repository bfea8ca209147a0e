"""What an answer looks like, whatever it says: traits that a change of engine, template or sampling gives to answers.

A trait is read from the text alone, in a time linear in it. None of them says that an answer is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from meta_eval.base.hashing import hash_texts

_END_OF_THOUGHTS = "</think>"
# Characters of the end of an answer that are looked at.
_END = 400
# The last words of an answer that repeats itself, and how many different ones they are at most.
_LAST_WORDS, _FEW_WORDS = 20, 3
# The same of the characters of a text without spaces.
_LAST_CHARACTERS, _FEW_CHARACTERS = 100, 3
# Prose has a mark within so many words.
_WORDS_WITHOUT_MARK = 40
_MARKS = re.compile(r"[^\w\s]|\n")


def _is_few(parts: Sequence[str], count: int, most: int) -> bool:
    """Whether there are so many parts, and of few kinds; most texts have more among the last of them."""
    return len(parts) == count and len(set(parts[-2 * most :])) <= most and len(set(parts)) <= most


def _repeats(text: str) -> bool:
    words = text[-_END:].rsplit(maxsplit=_LAST_WORDS)[-_LAST_WORDS:]
    return _is_few(words, _LAST_WORDS, _FEW_WORDS) or _is_few(
        text[-_LAST_CHARACTERS:], _LAST_CHARACTERS, _FEW_CHARACTERS
    )


def _is_salad(text: str) -> bool:
    end = text[-_END:].rstrip()
    return not _MARKS.search(end[::-1]) and len(end.split()) > _WORDS_WITHOUT_MARK  # most marks stand last


HOLDS_THOUGHTS = "hold thoughts up to </think>"
# What an answer does, and whether a text does so.
TRAITS: Mapping[str, Callable[[str], bool]] = {
    HOLDS_THOUGHTS: lambda text: _END_OF_THOUGHTS in text,
    "leave a fence of code open": lambda text: text.count("```") % 2 == 1,
    "repeat themselves to the end": _repeats,
    "are words without a sentence": _is_salad,
}


def find_traits(texts: Sequence[str]) -> tuple[str, ...]:
    """The traits of a doc's answers; of several answers those that one of them has."""
    return tuple([trait for trait, has in TRAITS.items() if True in map(has, texts)])


def hash_behind_thoughts(texts: Sequence[str]) -> str:
    """The hash of what answers say behind ``</think>``, as `sample_parser.hash_answers` would have it."""
    return hash_texts(text.rpartition(_END_OF_THOUGHTS)[2].strip() for text in texts)
