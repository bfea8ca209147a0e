"""Docs, SQuAD's normalisation and word overlap for short answers that are compared with several correct texts."""

import collections
import re
import string
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


# Docs


def make_doc(row: dict) -> dict:
    """Make a doc with the common columns. ``answers`` are the correct responses that are not empty.

    Raises:
        ValueError: All correct responses are empty.
    """
    answers = [answer for answer in row["input_correct_responses"] if answer.strip()]
    if not answers:
        raise rows.refused(row, "all correct responses are empty")
    return {**rows.make_doc({**row, "input_correct_responses": answers}), "gold": answers[0]}


process_docs = rows.docs_by(make_doc)


# Normalisation


def normalise(text: str, *, also: str = "", instead: str = "") -> str:
    """Lower the case, remove articles and replace punctuation.

    Args:
        also: Further marks besides ASCII punctuation.
        instead: Replaces each mark.
    """
    marks = str.maketrans(dict.fromkeys(string.punctuation + also, instead))
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(marks)).split())


def overlap(answer: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall over words. Each occurrence counts."""
    ours, right = normalise(answer).split(), normalise(gold).split()
    common = (collections.Counter(ours) & collections.Counter(right)).total()
    return 2 * common / (len(ours) + len(right)) if common else 0.0
