"""ROUGE scores by the package rouge-score."""

import functools

ALL = ("rouge1", "rouge2", "rougeL")


@functools.cache
def _make_scorer(names: tuple[str, ...]):
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(names))


def best(output: str, references: list[str], names: tuple[str, ...] = ("rougeL",)) -> tuple[float, ...]:
    """Return the F-measure of each name, 0 to 1: the best over the references, without stemming."""
    scores = [_make_scorer(names).score(reference, output) for reference in references]
    return tuple(float(max(score[name].fmeasure for score in scores)) for name in names)
