"""Grade texts as inspect_ai 0.3 does with its scorers ``match()`` and ``includes()``."""

import math
import re
import string
from typing import Any

_AROUND_TEXT = string.whitespace + string.punctuation
_AROUND_NUMBERS = "!?:;()[]{}'\"`"


def text_match(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Score ``match``: whether a gold is where it must be in the answer.

    Args:
        doc: ``golds`` are the right answers. ``location`` is ``begin``, ``end``, ``exact`` or ``any``, or ``includes``
            for a gold anywhere in the text as it stands. ``ignore_case`` and ``numeric`` are true or false: a gold that
            is a number is then compared with the first, the last, the only or any number of the answer.
        results: The answer.
    """
    return {"match": float(any(matches(results[0] or "", gold, doc) for gold in doc["golds"]))}


def matches(answer: str, gold: str, doc: dict[str, Any]) -> bool:
    location = doc["location"]
    if doc["ignore_case"]:
        answer, gold = answer.casefold(), gold.casefold()
    if location == "includes":
        return gold in answer
    answer, gold = answer.strip(), gold.strip()
    if doc["numeric"]:
        gold = _clean(gold)
        if (number := _read_number(gold)) is not None:
            return number in _find_numbers(_clean(answer), location)
    answer, gold = answer.strip(_AROUND_TEXT), gold.strip(_AROUND_TEXT)
    if location == "begin":
        return answer.startswith(gold)
    if location == "end":
        return answer.endswith(gold)
    return answer == gold if location == "exact" else gold in answer


def _clean(text: str) -> str:
    """A text without signs of currencies, separators of thousands, marks of format, and full stops of sentences."""
    text = re.sub(r"\\([$,£€*_])", r"\1", text)
    return re.sub(r"\.(?=\D|$)", "", re.sub(r"[$,£€*_]", "", text))


def _find_numbers(answer: str, location: str) -> list[str]:
    """The numbers of an answer that a gold may be, with five digits each."""
    if location == "exact":
        number = _read_number(answer, around="")
        return [] if number is None else [number]
    numbers = [number for word in answer.split() if (number := _read_number(word)) is not None]
    return numbers[:1] if location == "begin" else numbers[-1:] if location == "end" else numbers


def _read_number(word: str, *, around: str = _AROUND_NUMBERS) -> str | None:
    """A number with five digits; None for another word."""
    try:
        number = float(word.strip(around) if around else word)
    except ValueError:
        return None
    return format(number, ".5g") if math.isfinite(number) else None
