"""Score short answers against several correct responses: SQuAD, QuAC, TriviaQA.

Each benchmark follows its official script. These rules differ:

=========  ==============================================  ======================================================
benchmark  normalisation                                   an answer's score
=========  ==============================================  ======================================================
SQuAD      lower case, no punctuation, no articles         best over the correct responses (evaluate-v2.0.py)
QuAC       as SQuAD                                        leave out each response in turn, take the best over the
                                                           others, and average; unless most responses are spans,
                                                           only the text CANNOTANSWER is right (scorer.py)
TriviaQA   punctuation and some quotes become spaces       best over the aliases (triviaqa_evaluation.py)
=========  ==============================================  ======================================================

DROP is in drop.py.
"""

import math
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows, spans = load.module(".._common.rows"), load.module(".._common.spans")
NO_MATCH = rows.NO_MATCH
mean = rows.mean
normalise, overlap = spans.normalise, spans.overlap

# Normalised texts that say that a question of SQuAD has no answer.
NO_ANSWER = frozenset(("unanswerable", "no answer", "noanswer", "not answerable", "cannot answer", "not in background"))
# The text that says so in QuAC, in answers and correct responses. In any other spelling it is ordinary text.
CANNOT_ANSWER = "CANNOTANSWER"


def normalise_alias(text: str) -> str:
    """Normalise as TriviaQA's script: punctuation separates words, and typographic quotes are punctuation."""
    return normalise(text, also="\u2018\u2019\u00b4`", instead=" ")


def no_answer(text: str) -> bool:
    return normalise(text) in NO_ANSWER


# Scoring. An answer in which the filter found nothing is wrong, whatever the gold.


def squad(doc: dict, results: list[str]) -> dict:
    """Score SQuAD v2: ``exact_match``, which Meta publishes, and ``f1``, both the best over the correct responses.

    If the question or the answer says that there is no answer, both are 1 only if the other says so too: "Not in
    background" shares no word with a span. A correct response that normalisation empties ("The") is ignored if there
    are others. If there are none, an answer that normalisation empties is right, as in the script.
    """
    answer = results[0]
    if answer == NO_MATCH:
        return {"exact_match": 0.0, "f1": 0.0, "unextracted": 1.0}
    unanswerable = any(map(no_answer, doc["answers"]))
    if unanswerable or no_answer(answer):
        right = float(unanswerable and no_answer(answer))
        return {"exact_match": right, "f1": right, "unextracted": 0.0}
    golds = [gold for gold in map(normalise, doc["answers"]) if gold] or [""]
    exact = float(normalise(answer) in golds)
    return {"exact_match": exact, "f1": max(exact, *(overlap(answer, gold) for gold in golds)), "unextracted": 0.0}


# The script's F1 leaves out questions on which people agree less than this (scorer.py, min_f1).
_AGREEMENT = 0.4


def quac(doc: dict, results: list[str]) -> dict:
    """Score QuAC in three ways, from 0 to 1:

    - ``f1``: by the script's rule, over all questions.
    - ``f1_best``: the best over the correct responses, as in SQuAD.
    - ``f1_filtered``: ``f1`` if people agree, else None, which `mean` skips. The script calls this F1.

    With a single correct response all three are the same. It is unknown which of them is Meta's F1.
    """
    answer = results[0].rstrip()  # the filter keeps spaces at the end of the line
    golds = [gold for gold in doc["answers"] if gold != CANNOT_ANSWER]
    answerable = 2 * len(golds) > len(doc["answers"])
    if answer == NO_MATCH:
        mean = best = 0.0
    elif answerable:
        scores = sorted((overlap(answer, gold) for gold in golds), reverse=True)
        best = scores[0]
        # The best response counts each time, except when it is left out itself.
        mean = ((len(scores) - 1) * best + scores[1]) / len(scores) if len(scores) > 1 else best
    else:
        mean = best = float(answer == CANNOT_ANSWER)
    agreed = not answerable or _human_f1(golds) >= _AGREEMENT
    return {
        "f1": mean,
        "f1_best": best,
        "f1_filtered": mean if agreed else None,
        "unextracted": float(answer == NO_MATCH),
    }


def _human_f1(golds: list[str]) -> float:
    """Return the mean F1 of each correct response with the best of the others. A single response gives 1."""
    if len(golds) == 1:
        return 1.0
    best = [
        max(overlap(gold, other) for at, other in enumerate(golds) if at != place) for place, gold in enumerate(golds)
    ]
    return math.fsum(best) / len(best)


def triviaqa(doc: dict, results: list[str]) -> dict:
    """Score TriviaQA: an answer is right if it is one of the aliases."""
    answer = results[0]
    is_extracted = answer != NO_MATCH
    right = is_extracted and normalise_alias(answer) in map(normalise_alias, doc["answers"])
    return {"exact_match": float(right), "unextracted": float(not is_extracted)}
