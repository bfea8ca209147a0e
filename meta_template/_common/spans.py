"""Short texts as answers, compared with several correct ones: docs, SQuAD's normalisation and overlap of words."""

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
    """The columns that every doc of every task has; ``answers`` are the correct responses that are not empty.

    Raises:
        ValueError: There is none.
    """
    answers = [answer for answer in row["input_correct_responses"] if answer.strip()]
    if not answers:
        raise rows.refused(row, "all correct responses are empty")
    return {**rows.make_doc({**row, "input_correct_responses": answers}), "gold": answers[0]}


process_docs = rows.docs_by(make_doc)


# Normalisation


def normalise(text: str, *, also: str = "", instead: str = "") -> str:
    """Lower case, without articles, ``instead`` in place of each mark of ASCII punctuation or of ``also``."""
    marks = str.maketrans(dict.fromkeys(string.punctuation + also, instead))
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(marks)).split())


def overlap(answer: str, gold: str) -> float:
    """The harmonic mean of precision and recall over words, each as often as it occurs; 0 where no word is shared."""
    ours, right = normalise(answer).split(), normalise(gold).split()
    common = (collections.Counter(ours) & collections.Counter(right)).total()
    return 2 * common / (len(ours) + len(right)) if common else 0.0
