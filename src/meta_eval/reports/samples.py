"""Read the docs of one or two runs with all their texts from the samples files, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from meta_eval.base.inputs import parse_json
from meta_eval.harness import doc_results, sample_parser
from meta_eval.harness.metrics import PerplexityParts
from meta_eval.harness.sample_files import open_samples
from meta_eval.harness.scores import compute_scores
from meta_eval.judge.decision import TaskDecision
from meta_eval.reports.model import ShownAnswer, ShownSample

Counter = Callable[[str], int]


def read_samples(tasks: Iterable[TaskDecision], *, count_tokens: Counter | None = None) -> Iterator[ShownSample]:
    """Every doc that has a verdict, with the answer of the run, or of both runs, by task and doc id.

    Args:
        tasks: The tasks.
        count_tokens: Counts the tokens of an answer; without it they are not known.

    Raises:
        ResultsError: A samples file has changed since it was read.
    """
    for task in tasks:
        source = task.source
        if source is None or any(run.samples_file is None for run in source.runs):
            continue
        scores = [
            compute_scores([docs[which] for docs in source.docs], source.metric, run.lower_is_better)
            for which, run in enumerate(source.runs)
        ]
        if any(score is None or scores[0] is None or score.doc_indices != scores[0].doc_indices for score in scores):
            continue
        with ExitStack() as stack:
            read = [stack.enter_context(open_samples(run.samples_file or Path())) for run in source.runs]
            known_scores = [score for score in scores if score is not None]
            name = source.metric.partition(",")[2]
            for number, position in enumerate(known_scores[0].doc_indices):
                docs = source.docs[position]
                wholes = [sample(doc.filter_results[name]) for sample, doc in zip(read, docs, strict=True)]
                answers = tuple(
                    _answer(
                        doc,
                        doc.filter_results[name],
                        score.verdicts[number],
                        raw_sample,
                        count_tokens,
                        source.other_prompt_docs,
                    )
                    for doc, score, raw_sample in zip(docs, known_scores, wholes, strict=True)
                )
                yield _sample(
                    task.name,
                    docs[0],
                    wholes[0],
                    answers,
                    source.recorded[position],
                    count_tokens if len(docs) == 1 else None,
                    texts=source.texts,
                )


def _sample(
    task: str,
    doc: doc_results.DocResult,
    sample: Mapping[str, Any],
    answers: tuple[ShownAnswer, ...],
    recorded: float | None,
    count_tokens: Counter | None,
    *,
    texts: bool,
) -> ShownSample:
    recorded_text = _recorded(_columns(sample)) if texts else None
    return ShownSample(
        task=task,
        subtask=doc.subtask,
        doc=doc.doc_id,
        question_hash=doc.question_hash,
        question=_question(_columns(sample)),
        prompt=_prompt(sample),
        gold=doc.gold,
        answers=answers,
        recorded_verdict=recorded,
        recorded_text=recorded_text,
        recorded_tokens=None
        if recorded_text is None or answers[0].likelihoods
        else _tokens(recorded_text, count_tokens),
        metrics={
            f"{metric},{name}": [value.log_likelihood, value.weight] if isinstance(value, PerplexityParts) else value
            for name, answer in doc.filter_results.items()
            for metric, value in answer.metrics.items()
        },
    )


def _answer(
    doc: doc_results.DocResult,
    result: doc_results.FilterResult,
    verdict: float,
    sample: Mapping[str, Any],
    count_tokens: Counter | None,
    other_prompt_docs: Container[int],
) -> ShownAnswer:
    flagged = {
        "unextracted": result.is_unextracted is True,
        "limit hit": doc.limit_hit is True or doc.is_cut_thinking,
        "empty": doc.answer_empty,
        "ungraded": result.metrics.get("ungraded") == 1,
        "other prompt": doc.doc_id in other_prompt_docs,
    }
    flags = tuple(flag for flag, is_so in flagged.items() if is_so)
    text, likelihoods = _text(sample)
    tokens = None if likelihoods else _tokens(text, count_tokens)
    return ShownAnswer(
        verdict,
        text,
        result.extracted,
        flags,
        tokens,
        None if likelihoods else sample_parser.find_limit(sample),
        likelihoods,
    )


def _tokens(text: str, count_tokens: Counter | None) -> int | None:
    return count_tokens(text) if count_tokens else None


def _recorded(doc: Mapping[str, Any]) -> str | None:
    """Meta's recorded answer; of a choice the recorded log-likelihoods, as `_text` writes ours."""
    output = doc.get("recorded_output")
    if isinstance(output, str):
        return output
    costs, continuations = doc.get("recorded_negative_log_likelihoods"), doc.get("continuations")
    if not isinstance(costs, list) or not isinstance(continuations, list) or len(costs) != len(continuations):
        return None
    if not all(isinstance(cost, int | float) and not isinstance(cost, bool) for cost in costs):
        return None
    return "\n".join(f"{-cost}  {continuation}" for cost, continuation in zip(costs, continuations, strict=True))


def _question(doc: Mapping[str, Any]) -> str:
    """The question; of a dialog, which some subsets write as JSON, its last turn."""
    question = str(doc.get("question") or "")
    if question.startswith('{"dialog"'):
        try:
            return str(parse_json(question)["dialog"][-1]["body"])
        except (ValueError, LookupError, TypeError):
            pass
    return question


def _columns(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The doc; empty if the task's docs have no columns."""
    doc = sample["doc"]
    return doc if isinstance(doc, dict) else {}


def _prompt(sample: Mapping[str, Any]) -> str:
    """What the model was given; where each choice has a context of its own, all of them."""
    contexts = list(dict.fromkeys(str(request[0]) for request in sample_parser.read_arguments(sample)))
    if len(contexts) > 1:
        return "\n\n".join(f"[{number}]\n{context}" for number, context in enumerate(contexts, start=1))
    return contexts[0] if contexts else str(_columns(sample).get("prompt", ""))


def _text(sample: Mapping[str, Any]) -> tuple[str, bool]:
    """The generated text. For a choice the log-likelihood of each continuation, a line each, marked as a choice."""
    responses = [response[0] if isinstance(response, list) and response else response for response in sample["resps"]]
    requests = sample_parser.read_arguments(sample)
    if responses and all(isinstance(response, list) and response for response in responses):
        lines = (
            f"{response[0]}  {requests[number][1] if number < len(requests) and len(requests[number]) > 1 else number}"
            for number, response in enumerate(responses)
        )
        return "\n".join(lines), True
    return "\n\n".join("" if response is None else str(response) for response in responses), False
