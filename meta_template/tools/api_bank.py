"""API-Bank: is a call the right one?

Meta asks for the exact value of an argument with one right value, and for ROUGE where any wording of the same meaning
will do, with golds that it corrected; neither its evaluation nor its golds are public. API-Bank's own evaluation runs
the call against a database of its own, which no pack can do; which arguments are free text is taken from there: those
that it compares by their share of common words (``content`` of agendas and reminders, ``meeting_topic``) or by what a
search finds for them (``keyword``, ``keywords``). Values are compared as texts: ``100`` is ``'100'``, ``1`` is not
``1.0``.
"""

import itertools
from statistics import fmean
from typing import Any

from .._common import rouge
from .calls import Call, render

FREE_TEXT = frozenset(("content", "keyword", "keywords", "meeting_topic"))


def grade(answer: list[Call], gold: list[Call]) -> tuple[bool, float]:
    """Whether one call is the gold exactly, and its score when free text is scored by ROUGE-L.

    The score is 0 unless the function, the names of its arguments and all arguments that are no free text are right,
    and then the mean ROUGE-L (F-measure, 0 to 1) of the free texts, 1 where there are none. API-Bank reads keyword
    arguments alone, so one that has no name is wrong.
    """
    exact, scores = True, []
    for ours, right in itertools.zip_longest(answer, gold, fillvalue=Call("")):
        if ours.name != right.name or ours.args or ours.kwargs.keys() != right.kwargs.keys():
            return False, 0.0
        for name, value in right.kwargs.items():
            given = _text(ours.kwargs[name])
            same = given == _text(value)
            exact = exact and same
            if name in FREE_TEXT and isinstance(value, str):
                # rouge-score sees ASCII letters and digits only, and would give equal texts without any a 0.
                scores.append(1.0 if same else rouge.best(given, [value])[0])
            elif not same:
                return False, 0.0
    return exact, fmean(scores or [1.0])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else render(value)
