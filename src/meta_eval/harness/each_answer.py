"""The verdict on each of several answers to a doc: lm-eval's evaluator, one answer at a time.

lm-eval asks a task with ``repeats: k`` k times, and by default grades the first answer alone. Here every answer takes
its place once. What makes one answer of all, such as a majority vote, keeps its own verdict.

The majority of the answers is told for every filter that extracts: the first answer with the most frequent extraction,
as by lm-eval's ``majority_vote``. There "nothing found" is an extraction like others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from meta_eval.base.thresholds import SAME_VALUE
from meta_eval.harness.doc_results import COUNTED, to_plain_number
from meta_eval.harness.evaluator import Evaluated, Evaluator
from meta_eval.harness.replay import RecordedResponses
from meta_eval.harness.sample_parser import list_metrics, read_extraction

# Filters that see all answers, and one that wants so many of them that each must stand for all.
_OF_ALL, _OF_SEVERAL = "majority_vote", "take_first_k"


def add_each_answer(
    evaluator: Evaluator,
    name: str,
    answers: Sequence[RecordedResponses],
    evaluated: Evaluated,
    *,
    indices: Sequence[int] | None = None,
    allow_code: bool = False,
) -> None:
    """Add to the ``answer`` of each sample ``each_answer``, by metric the verdict on each answer, 0 to 1; and
    ``majority_answer``, the place of the most frequent one among them.

    Nothing is added where a doc has one answer, or where the answers are likelihoods.

    Args:
        evaluator: Of the pack.
        name: The task.
        answers: Those that were evaluated, one item a doc.
        evaluated: What lm-eval made of them.
        indices, allow_code: As of `Evaluator.evaluate`.

    Raises:
        PackError: lm-eval cannot evaluate them.
        TemplateError: The scorer raises.
    """
    counts = [len(doc_answers.get(0, ())) for doc_answers in answers]
    texts = all(isinstance(answer, str) for doc_answers in answers for answer in doc_answers.get(0, ()))
    if max(counts, default=0) < 2 or not texts:
        return
    verdicts: list[dict[str, list[float]]] = [{} for _ in evaluated.samples]
    extractions: list[list[str]] = [[] for _ in evaluated.samples]
    extracting: set[str] = set()
    for number in range(max(counts)):
        task = evaluator.load(name)
        if not _filters_with(task, _OF_SEVERAL):
            task.config.repeats = 1
        single = [{0: [doc_answers[0][number % count]]} for doc_answers, count in zip(answers, counts, strict=True)]
        graded = evaluator.evaluate(
            name, task=task, answers=single, indices=indices, allow_code=allow_code, hashed=False
        )  # fmt: skip
        for doc_verdicts, extracted, sample in zip(verdicts, extractions, graded.samples, strict=True):
            extracted.append(json.dumps(sample["filtered_resps"], default=str))
            extracting |= {sample["filter"]} if read_extraction(sample) is not None else set()
            for metric, share in _shares(sample).items():
                doc_verdicts.setdefault(metric, []).append(share)
    by_doc = dict(zip(indices if indices is not None else range(len(counts)), counts, strict=True))
    for filter_name, metric in _of_first_answers(evaluated, verdicts, _filters_with(evaluator.load(name), _OF_ALL)):
        for doc_verdicts, extracted, sample in zip(verdicts, extractions, evaluated.samples, strict=True):
            if sample["filter"] == filter_name:
                count = by_doc[sample["doc_id"]]
                answer = sample.setdefault("answer", {})
                answer.setdefault("each_answer", {})[metric] = doc_verdicts[metric][:count]
                if filter_name in extracting:
                    # The first of those with the most frequent extraction; of equally frequent ones, the first seen.
                    ((most, _),) = Counter(extracted[:count]).most_common(1)
                    answer["majority_answer"] = extracted.index(most)


def _of_first_answers(
    evaluated: Evaluated, verdicts: Sequence[dict[str, list[float]]], voting: set[str]
) -> list[tuple[str, str]]:
    """The filters and metrics that gave every doc the verdict on its first answer."""
    agree: dict[tuple[str, str], bool] = {}
    for doc_verdicts, sample in zip(verdicts, evaluated.samples, strict=True):
        for metric, share in _shares(sample).items():
            key = sample["filter"], metric
            same = metric in doc_verdicts and abs(doc_verdicts[metric][0] - share) <= SAME_VALUE
            agree[key] = agree.get(key, sample["filter"] not in voting) and same
    return [key for key, same in agree.items() if same]


def _shares(sample: dict[str, Any]) -> dict[str, float]:
    """The metrics of a sample that are a share, alone or behind a subtask."""
    shares = {}
    for metric in list_metrics(sample):
        value = to_plain_number(sample[metric])
        if isinstance(value, (list, tuple)) and len(value) == 2 and (value[0] is None or isinstance(value[0], str)):
            value = to_plain_number(value[1])
        if isinstance(value, (bool, int, float)) and 0 <= value <= 1 and metric not in COUNTED:
            shares[metric] = float(value)
    return shares


def _filters_with(task: Any, function: str) -> set[str]:
    """The filters of a task that have a step of this name."""
    return {
        str(entry.get("name"))
        for entry in task.config.filter_list or ()
        if any(step.get("function") == function for step in entry.get("filter", ()))
    }
