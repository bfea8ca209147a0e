"""Further metrics for your own tasks: texts compared with all correct answers, and choices by four likelihoods.

A template includes them by ``include: ../_text_metrics_yaml`` or ``include: ../_choice_metrics_yaml``.
docs/plugins/meta/tasks.md defines each metric.

The text metrics are those of HELM (Liang et al. 2022), which lighteval also has. Docstrings say where lighteval
differs.
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
    """Normalise a text: remove case, ASCII punctuation, articles and extra white space, and split words at hyphens.

    A number becomes Python's notation, "7" as "7.0". Its decimal point is punctuation and removed before.
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
    """Whether the answer starts with the gold, as 0 or 1. An empty gold never matches (lighteval: always)."""
    return float(bool(answer and gold.strip()) and answer.strip().startswith(gold.strip()))


def _quasi_prefix(answer: str, gold: str) -> float:
    """As `_prefix` after `quasi`. A gold of only articles and punctuation counts as empty."""
    return float(bool(answer and quasi(gold)) and quasi(answer).startswith(quasi(gold)))


def _f1(answer: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall over words. Each occurrence counts (lighteval: once a word)."""
    ours, right = quasi(answer).split(), quasi(gold).split()
    common = (collections.Counter(ours) & collections.Counter(right)).total()
    return 2 * common / (len(ours) + len(right)) if common else 0.0


_TEXT_METRICS = {
    "exact_match": _exact,
    "quasi_exact_match": _quasi_exact,
    "prefix_match": _prefix,
    "quasi_prefix_match": _quasi_prefix,
    "f1": _f1,
}


def texts(doc: dict, results: list[str]) -> dict[str, float]:
    """Score every text metric from 0 to 1, the best over the doc's ``answers``."""
    answer, golds = results[0] or "", doc["answers"]
    scores = {name: max(metric(answer, gold) for gold in golds) for name, metric in _TEXT_METRICS.items()}
    return {**scores, **dict(zip(rouge.ALL, rouge.best(answer, golds, rouge.ALL), strict=True))}


# Choices


def choices(doc: dict, results: list[tuple[float, bool]]) -> dict[str, float]:
    """Score whether the right choice is the first with the highest likelihood, by four kinds of likelihood.

    - ``acc``: the plain likelihood.
    - ``acc_char``: per character of the choice.
    - ``acc_token``: per token, if prepare counted the tokens (``choice_tokens``).
    - ``acc_mutual_info``: the pointwise mutual information, log P(choice | question) - log P(choice), if lm-eval also
      asked without the question.

    A likelihood that is not finite makes the doc wrong.
    """
    count = len(doc["continuations"])
    likelihoods = [likelihood for likelihood, _ in results[:count]]
    scores = {
        "acc": _score_choice(doc, likelihoods),
        "acc_char": _score_choice(doc, _divide(likelihoods, doc["characters"])),
    }
    if doc.get("choice_tokens") is not None:
        scores["acc_token"] = _score_choice(doc, _divide(likelihoods, doc["choice_tokens"]))
    if len(results) == 2 * count:
        alone = [likelihood for likelihood, _ in results[count:]]
        scores["acc_mutual_info"] = _score_choice(
            doc, [likelihood - other for likelihood, other in zip(likelihoods, alone, strict=True)]
        )
    return scores


def _divide(likelihoods: list[float], lengths: list[int]) -> list[float]:
    return [likelihood / length for likelihood, length in zip(likelihoods, lengths, strict=True)]


def _score_choice(doc: dict, scores: list[float]) -> float:
    graded = all(math.isfinite(score) for score in scores)
    return float(graded and max(range(len(scores)), key=scores.__getitem__) == doc["gold_index"])
