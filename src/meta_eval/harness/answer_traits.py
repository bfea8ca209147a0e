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


def _repeats(text: str) -> bool:
    words, end = text[-_END:].rsplit(maxsplit=_LAST_WORDS)[-_LAST_WORDS:], text[-_LAST_CHARACTERS:]
    return (len(words) == _LAST_WORDS and len(set(words)) <= _FEW_WORDS) or (
        len(end) == _LAST_CHARACTERS and len(set(end)) <= _FEW_CHARACTERS
    )


def _is_salad(text: str) -> bool:
    end = text[-_END:].rstrip()
    # Letters and digits alone are told in a fraction of the time.
    has_mark = not end.replace(" ", "").isalnum() and _MARKS.search(end)
    return not has_mark and len(end.split()) > _WORDS_WITHOUT_MARK


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
    return tuple(trait for trait, has in TRAITS.items() if any(map(has, texts)))


def hash_behind_thoughts(texts: Sequence[str]) -> str | None:
    """The hash of what answers say behind ``</think>``, as `sample_parser.hash_answers` would have it; None if no text
    holds that."""
    if not any(_END_OF_THOUGHTS in text for text in texts):
        return None
    return hash_texts(text.rpartition(_END_OF_THOUGHTS)[2].strip() for text in texts)
