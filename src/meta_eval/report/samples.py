"""The docs of a run, or of two, with all their texts: read from the samples files one after the other, never kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from meta_eval.judging.compare import Comparison
from meta_eval.judging.judge import TaskJudgement, reading_of, verdict_spec
from meta_eval.report.model import Answer, Sample
from meta_eval.results import answers as kept
from meta_eval.results.recorded import recorded_verdicts
from meta_eval.results.run import Run
from meta_eval.results.samples import open_samples
from meta_eval.results.scores import scores


def run_samples(judgements: Iterable[TaskJudgement]) -> Iterator[Sample]:
    """Every doc of a run that has a verdict, by task and doc id.

    Raises:
        ResultsError: A samples file has changed since it was read.
    """
    for judgement in judgements:
        result, entry = judgement.result, judgement.entry
        spec = verdict_spec(result, entry)
        if result is None or result.samples_file is None or spec is None:
            continue
        found = scores(result.docs, spec)
        if found is None:
            continue
        metric = (entry.recorded_metric if entry else None) or spec.partition(",")[0]
        recorded, _ = recorded_verdicts(result.docs, metric, reading_of(result, entry))
        with open_samples(result.samples_file) as sample:
            for position, verdict in zip(found.positions, found.raw, strict=True):
                doc = result.docs[position]
                whole = sample(_given(doc, spec))
                answer = _answer(doc, spec, verdict, whole)
                yield _sample(judgement.task, doc, whole, (answer,), recorded[position])


def compared_samples(comparison: Comparison, before: Run, after: Run) -> Iterator[Sample]:
    """Every doc of two runs with both answers.

    Raises:
        ResultsError: A samples file has changed since it was read.
    """
    for task in comparison.tasks:
        files = before.tasks[task.task].samples_file, after.tasks[task.task].samples_file
        first, second = [a for a, _ in task.pairs], [b for _, b in task.pairs]
        found = scores(first, task.verdict), scores(second, task.verdict)
        if files[0] is None or files[1] is None or found[0] is None or found[1] is None:
            continue
        recorded, _ = recorded_verdicts(first, task.verdict.partition(",")[0], task.reading)
        with open_samples(files[0]) as sample, open_samples(files[1]) as twin_sample:
            for position, a, b in zip(found[0].positions, found[0].raw, found[1].raw, strict=True):
                doc, twin = task.pairs[position]
                whole, other = sample(_given(doc, task.verdict)), twin_sample(_given(twin, task.verdict))
                answers = _answer(doc, task.verdict, a, whole), _answer(twin, task.verdict, b, other)
                yield _sample(task.task, doc, whole, answers, recorded[position])


def _given(doc: kept.Doc, spec: str) -> kept.Answer:
    return doc.answers[spec.partition(",")[2]]


def _sample(
    task: str, doc: kept.Doc, whole: Mapping[str, Any], answers: tuple[Answer, ...], recorded: float | None
) -> Sample:
    recorded_output = _columns(whole).get("recorded_output")
    return Sample(
        task=task,
        subtask=doc.subtask,
        doc=doc.doc_id,
        question_hash=doc.question_hash,
        question=_question(_columns(whole)),
        prompt=_prompt(whole),
        gold=doc.gold,
        answers=answers,
        meta=recorded,
        meta_text=recorded_output if isinstance(recorded_output, str) else None,
        metrics={
            f"{metric},{name}": [value.log_likelihood, value.weight] if isinstance(value, kept.Weighted) else value
            for name, answer in doc.answers.items()
            for metric, value in answer.metrics.items()
        },
    )


def _answer(doc: kept.Doc, spec: str, verdict: float, whole: Mapping[str, Any]) -> Answer:
    ours = _given(doc, spec)
    raised = {
        "unextracted": ours.metrics.get("unextracted") == 1,
        "limit hit": doc.limit_hit is True,
        "empty": doc.empty,
        "ungraded": ours.metrics.get("ungraded") == 1,
    }
    flags = tuple(flag for flag, is_so in raised.items() if is_so)
    return Answer(verdict, _text(whole), ours.extracted, flags)


def _question(doc: Mapping[str, Any]) -> str:
    """The question; of a dialog, which some subsets write as JSON, its last turn."""
    question = str(doc.get("question") or "")
    if question.startswith('{"dialog"'):
        try:
            return str(json.loads(question)["dialog"][-1]["body"])
        except (ValueError, LookupError, TypeError):
            pass
    return question


def _columns(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """The doc; of a task whose docs have no columns an empty one."""
    doc = whole["doc"]
    return doc if isinstance(doc, dict) else {}


def _prompt(whole: Mapping[str, Any]) -> str:
    """What the model was given; where each choice has a context of its own, all of them."""
    contexts = list(dict.fromkeys(str(request[0]) for request in kept.arguments(whole)))
    if len(contexts) > 1:
        return "\n\n".join(f"[{number}]\n{context}" for number, context in enumerate(contexts, start=1))
    return contexts[0] if contexts else str(_columns(whole).get("prompt", ""))


def _text(whole: Mapping[str, Any]) -> str:
    """What was generated; of a choice the log-likelihood of each continuation, a line each."""
    responses = [one[0] if isinstance(one, list) and one else one for one in whole["resps"]]
    requests = kept.arguments(whole)
    if responses and all(isinstance(one, list) and one for one in responses):
        return "\n".join(
            f"{one[0]}  {requests[number][1] if number < len(requests) and len(requests[number]) > 1 else number}"
            for number, one in enumerate(responses)
        )
    return "\n\n".join(str(one) for one in responses)
