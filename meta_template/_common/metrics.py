"""Further metrics, for tasks of your own: texts compared with all correct ones, choices by four kinds of likelihood.

A template chooses them by a line, ``include: ../_text_metrics_yaml`` or ``include: ../_choice_metrics_yaml``;
docs/guides/add_task.md says what each measures.

The forms of texts are those of HELM (Liang et al. 2022), which lighteval has too; where ours differ from lighteval's
they say so.
"""

import collections
import math
import re
import string
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rouge = load.module(".._common.rouge")

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_MARKS = str.maketrans("", "", string.punctuation)


# Texts


def quasi(text: str) -> str:
    """A text without case, ASCII punctuation, articles and surplus white space, words parted at hyphens too.

    A word that is a number is written as Python writes it, "7" as "7.0"; its point is punctuation and gone by then.
    """
    words = []
    for part in re.split("[ -]", text.lower()):
        word = part.translate(_NO_MARKS)
        try:
            word = str(float(word))
        except ValueError:
            word = " ".join(_ARTICLES.sub(" ", word).split())
        if word:
            words.append(word)
    return " ".join(words)


def _exact(answer: str, gold: str) -> float:
    return float(bool(answer) and answer.strip() == gold.strip())


def _quasi_exact(answer: str, gold: str) -> float:
    return float(bool(answer) and quasi(answer) == quasi(gold))


def _prefix(answer: str, gold: str) -> float:
    """Never of a gold that is empty, with which every text begins (lighteval: always)."""
    return float(bool(answer and gold.strip()) and answer.strip().startswith(gold.strip()))


def _quasi_prefix(answer: str, gold: str) -> float:
    """As `_prefix`; a gold of articles and punctuation alone is one of which nothing is left."""
    return float(bool(answer and quasi(gold)) and quasi(answer).startswith(quasi(gold)))


def _f1(answer: str, gold: str) -> float:
    """The harmonic mean of precision and recall over words, each as often as it occurs (lighteval: once)."""
    ours, right = quasi(answer).split(), quasi(gold).split()
    common = (collections.Counter(ours) & collections.Counter(right)).total()
    return 2 * common / (len(ours) + len(right)) if common else 0.0


_OF_TEXTS = {
    "exact_match": _exact,
    "quasi_exact_match": _quasi_exact,
    "prefix_match": _prefix,
    "quasi_prefix_match": _quasi_prefix,
    "f1": _f1,
}


def texts(doc: dict, results: list[str]) -> dict[str, float]:
    """Every metric of texts: the best over the doc's ``answers``, from 0 to 1."""
    answer, golds = results[0] or "", doc["answers"]
    scores = {name: max(metric(answer, gold) for gold in golds) for name, metric in _OF_TEXTS.items()}
    return {**scores, **dict(zip(rouge.ALL, rouge.best(answer, golds, rouge.ALL), strict=True))}


# Choices


def choices(doc: dict, results: list[tuple[float, bool]]) -> dict[str, float]:
    """Whether the right choice is the likeliest, by four kinds of likelihood; of equals the first counts.

    ``acc`` as it is; ``acc_char`` by character of the choice; ``acc_token`` by token, where prepare counted them
    (``choice_tokens``); ``acc_mutual_info`` less the likelihood without the question, where lm-eval asked for that too:
    log P(choice | question) - log P(choice), the pointwise mutual information. A likelihood that is no number makes the
    doc wrong.
    """
    count = len(doc["continuations"])
    likelihoods = [likelihood for likelihood, _ in results[:count]]
    scores = {
        "acc": _right(doc, likelihoods),
        "acc_char": _right(doc, _divided(likelihoods, doc["characters"])),
    }
    if doc.get("choice_tokens") is not None:
        scores["acc_token"] = _right(doc, _divided(likelihoods, doc["choice_tokens"]))
    if len(results) == 2 * count:
        alone = [likelihood for likelihood, _ in results[count:]]
        scores["acc_mutual_info"] = _right(
            doc, [likelihood - other for likelihood, other in zip(likelihoods, alone, strict=True)]
        )
    return scores


def _divided(likelihoods: list[float], lengths: list[int]) -> list[float]:
    return [likelihood / length for likelihood, length in zip(likelihoods, lengths, strict=True)]


def _right(doc: dict, scores: list[float]) -> float:
    graded = all(math.isfinite(score) for score in scores)
    return float(graded and max(range(len(scores)), key=scores.__getitem__) == doc["gold_index"])
