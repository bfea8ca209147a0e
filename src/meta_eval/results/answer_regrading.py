"""Grades every answer of a doc in the samples that lm_eval wrote itself.

With ``repeats: k`` lm_eval logs all k answers of a doc (``resps``), but one extraction and one verdict for each filter:
on the first answer (``take_first``) or on the most frequent one (``majority_vote``). The results file holds the task's
filters and metrics. If these are lm-eval's own filters and ``exact_match``, lm-eval's code grades the other answers
too: it has run the same patterns over the same texts before. Nothing is added for a filter whose logged verdict on a
first answer is another one, or for tasks with code of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from meta_eval.results.doc_results import DocResult
from meta_eval.results.several_answers import find_majority
from meta_eval.thresholds import SAME_VALUE

_METRIC, _FIRST = "exact_match", "take_first"
# Filters of lm-eval that treat every answer alone, without its doc.
_ALONE = frozenset(("regex", "remove_whitespace", "lowercase", "uppercase", "map"))
# Keys of a metric that are no settings of its function.
_NO_SETTINGS = frozenset(("metric", "aggregation", "higher_is_better", "hf_evaluate"))


class AnswerGrader:
    """Grades the answers of a task by what its results file says of it; see `make_answer_grader`."""

    def __init__(self, filters: Mapping[str, Sequence[Any]], settings: Mapping[str, Any]) -> None:
        self._filters, self._settings = filters, settings
        self._refuted: set[str] = set()

    def grade(self, sample: dict[str, Any]) -> None:
        """Add to a sample what `meta-eval grade` would: the verdict on each answer, and which one is the majority."""
        name, answers, gold = str(sample.get("filter")), _answers(sample), sample.get("target")
        if name not in self._filters or not answers or not isinstance(gold, (str, int)) or "each_answer" in sample:
            return
        extractions: Any = [answers]
        try:
            for step in self._filters[name]:
                extractions = list(step.apply(extractions, [sample.get("doc")]))
            verdicts = [self._is_right(str(extraction), str(gold)) for extraction in extractions[0]]
        except (ValueError, TypeError, LookupError, AttributeError, re.error):
            verdicts = []
        logged = sample.get(_METRIC)
        if not verdicts or not isinstance(logged, (int, float)) or abs(verdicts[0] - logged) > SAME_VALUE:
            self._refuted.add(name)
            return
        sample["each_answer"] = {_METRIC: verdicts}
        if list(extractions[0]) != answers:
            sample["majority_answer"] = find_majority(list(map(str, extractions[0])))

    def drop_refuted(self, docs: Iterable[DocResult]) -> None:
        """Remove the verdicts of filters that do not say what lm_eval logged."""
        for doc in docs:
            for name in self._refuted & doc.filter_results.keys():
                doc.filter_results[name].verdict_of_each.clear()
                doc.filter_results[name].majority = None

    def _is_right(self, extraction: str, gold: str) -> float:
        from lm_eval.api.metrics import exact_match_hf_evaluate

        return float(exact_match_hf_evaluate([extraction], [gold], **self._settings)[_METRIC])


def make_answer_grader(config: Mapping[str, Any]) -> AnswerGrader | None:
    """The grader of a task with several answers to each doc; None if it has one, or is not graded as above.

    Args:
        config: The task's configuration, as a results file has it.
    """
    repeats, listed = config.get("repeats"), config.get("metric_list")
    if not isinstance(repeats, int) or repeats < 2 or config.get("process_results") is not None:
        return None
    metrics = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    metric = next((entry for entry in metrics if entry.get("metric") == _METRIC), None)
    filters = {name: steps for name, steps in map(_read_filter, config.get("filter_list") or ()) if steps is not None}
    if metric is None or metric.get("hf_evaluate") or not filters:
        return None
    return AnswerGrader(filters, {key: value for key, value in metric.items() if key not in _NO_SETTINGS})


def _read_filter(entry: Any) -> tuple[str, list[Any] | None]:
    """The name of a filter, and its steps before it takes the first answer; None if it does anything else."""
    from lm_eval.api.registry import get_filter
    from lm_eval.filters import build_filter_ensemble  # noqa: F401 (registers lm-eval's filters)

    try:
        *steps, last = entry["filter"]
        if last["function"] != _FIRST or not {step["function"] for step in steps} <= _ALONE:
            return "", None
        made = [
            get_filter(step["function"])(**{key: value for key, value in step.items() if key != "function"})
            for step in steps
        ]
        return str(entry["name"]), made
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, re.error):
        return "", None


def _answers(sample: Mapping[str, Any]) -> list[str]:
    """The answers to a single request, if there are several; else none."""
    responses = sample.get("resps")
    if not isinstance(responses, list) or len(responses) != 1 or not isinstance(responses[0], list):
        return []
    texts = [text for text in responses[0] if isinstance(text, str)]
    return texts if len(texts) == len(responses[0]) > 1 else []
