"""Grades an answer in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


def score_named_answer(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Score 1 where the text names a right answer and none of the other choices, as whole words; else 0.

    Args:
        doc: ``answers`` are right, ``others`` are wrong.
        results: The text.
    """
    text = results[0]
    return {"acc": float(_names(text, doc["answers"]) and not _names(text, doc["others"]))}


def _names(text: str, words: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in words)
