"""Answers that are short texts, compared with several correct ones: SQuAD, QuAC, TriviaQA.

Each benchmark is scored after its own official script; the rules that differ:

=========  ==============================================  ======================================================
benchmark  normalisation                                   an answer's score
=========  ==============================================  ======================================================
SQuAD      lower case, no punctuation, no articles         the best over the correct responses (evaluate-v2.0.py)
QuAC       as SQuAD                                        each response left out once, the best of the others, the
                                                           mean of these; CANNOTANSWER is right or wrong, to the
                                                           letter, and decided by the majority (scorer.py)
TriviaQA   punctuation and some quotes become spaces       the best over the aliases (triviaqa_evaluation.py)
=========  ==============================================  ======================================================

DROP stands in drop.py.
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

# How SQuAD's readers write that a question has no answer, normalised.
NO_ANSWER = frozenset(("unanswerable", "no answer", "noanswer", "not answerable", "cannot answer", "not in background"))
# How QuAC does, for answers and correct responses alike; in other letters it is a text like any other.
CANNOT_ANSWER = "CANNOTANSWER"


def normalise_alias(text: str) -> str:
    """As TriviaQA's script: a mark of punctuation parts words, typographic quotes are punctuation too."""
    return normalise(text, also="\u2018\u2019\u00b4`", instead=" ")


def no_answer(text: str) -> bool:
    return normalise(text) in NO_ANSWER


# Scoring. What a filter found nothing in is wrong, whatever the gold.


def squad(doc: dict, results: list[str]) -> dict:
    """SQuAD v2: ``exact_match``, the published one, and ``f1``, both the best over the correct responses.

    A correct response of which normalisation leaves nothing ("The") does not count beside others; where there is no
    other, an answer of which nothing is left is right, as in the script.
    """
    answer = results[0]
    if answer == NO_MATCH:
        return {"exact_match": 0.0, "f1": 0.0, "unextracted": 1.0}
    if any(map(no_answer, doc["answers"])):
        right = float(no_answer(answer))
        return {"exact_match": right, "f1": right, "unextracted": 0.0}
    golds = [gold for gold in map(normalise, doc["answers"]) if gold] or [""]
    exact = float(normalise(answer) in golds)
    return {"exact_match": exact, "f1": max(exact, *(overlap(answer, gold) for gold in golds)), "unextracted": 0.0}


# Questions on which people's own answers share less than this leave QuAC's F1 (scorer.py, min_f1).
_AGREEMENT = 0.4


def quac(doc: dict, results: list[str]) -> dict:
    """QuAC: ``f1`` after its script, over all questions; ``f1_best``, the best over the correct responses as in SQuAD.

    ``f1_filtered`` is ``f1`` where people agree, and None where they do not, which `mean` passes over: what the script
    calls F1. With one correct response all are the same. Which one Meta's F1 is nobody has seen.
    """
    answer = results[0].rstrip()  # the filter leaves the rest of the line
    golds = [gold for gold in doc["answers"] if gold != CANNOT_ANSWER]
    answerable = 2 * len(golds) > len(doc["answers"])
    if answer == NO_MATCH:
        mean = best = 0.0
    elif answerable:
        scores = sorted((overlap(answer, gold) for gold in golds), reverse=True)
        best = scores[0]
        # Leaving out any response but the best leaves the best in.
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
    """How well each correct response is met by the best of the others; of a single one 1."""
    if len(golds) == 1:
        return 1.0
    best = [
        max(overlap(gold, other) for at, other in enumerate(golds) if at != place) for place, gold in enumerate(golds)
    ]
    return math.fsum(best) / len(best)


def triviaqa(doc: dict, results: list[str]) -> dict:
    """TriviaQA: right when the answer is one of the aliases."""
    answer = results[0]
    is_extracted = answer != NO_MATCH
    right = is_extracted and normalise_alias(answer) in map(normalise_alias, doc["answers"])
    return {"exact_match": float(right), "unextracted": float(not is_extracted)}
