"""API-Bank: compare calls with the gold's.

Meta compares arguments with a single right value exactly, and scores free text by ROUGE. It also corrected golds. Its
evaluation and golds are not public.

API-Bank's own evaluation runs the call against its database, which a pack cannot do. It says which arguments are free
text. It compares some by their share of common words: ``content`` of agendas and reminders, and ``meeting_topic``. It
uses others for a search: ``keyword`` and ``keywords``.

Values are compared as texts: ``100`` equals ``'100'``, but ``1`` does not equal ``1.0``.
"""

import itertools
from statistics import fmean
from typing import Any

from .._common import rouge
from .calls import Call, render

FREE_TEXT = frozenset(("content", "keyword", "keywords", "meeting_topic"))


def grade(answer: list[Call], gold: list[Call]) -> tuple[bool, float]:
    """Return whether calls equal the gold's exactly, and their score with free text by ROUGE-L.

    The score is 0 if a function, the name of an argument, or an argument that is not free text is wrong. Else it is the
    mean ROUGE-L (F-measure, 0 to 1) of the free texts, or 1 if there are none. Positional arguments are wrong, because
    API-Bank reads keyword arguments only.
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
                # rouge-score only reads ASCII letters and digits. Equal texts without them would get 0.
                scores.append(1.0 if same else rouge.best(given, [value])[0])
            elif not same:
                return False, 0.0
    return exact, fmean(scores or [1.0])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else render(value)
