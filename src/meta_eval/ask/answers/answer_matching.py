"""Matches answers with requests, and reports problems before grading starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from meta_eval.ask.answers.answer_files import Answers
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import find_kind
from meta_eval.base.thresholds import NAMED
from meta_eval.harness.answer import Answer, AnswersError


@dataclass(slots=True)
class Matched:
    """The answers of a task.

    Attributes:
        docs: By doc, in the order of the task: the answer to each repeat. Only docs with all repeats answered.
        cut_by_us: Number of texts that continued after a stop sequence.
        cut_early: Number of texts that ended with ``length`` before max_tokens.
    """

    docs: dict[int, list[Answer]] = field(default_factory=dict)
    cut_by_us: int = 0
    cut_early: int = 0


@dataclass(slots=True)
class Problems:
    """Problems that prevent grading, by kind: their places, in the order of the pack."""

    missing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)
    requests: int = 0

    def check(self, answers: Answers, *, partial: bool) -> None:
        """Refuse answers that must not be graded.

        Args:
            answers: The answers that were matched.
            partial: Accept missing answers. Answers to something else are refused anyway.

        Raises:
            AnswersError: There is a problem.
        """
        problems = list(self._problems(partial))
        if not problems:
            return
        if answers.cut_off:
            lines = "line" if len(answers.cut_off) == 1 else "lines"
            problems.append(f"{len(answers.cut_off):,} {lines} cut off ({_first(answers.cut_off)})")
        hints = []
        if self.missing or self.failed:
            hints.append("Answer what is missing and append it, or grade what is there with --partial")
        if self.foreign:
            hints.append("Name the pack whose requests were answered with --pack")
        if self.doubled:
            hints.append("--prefer last takes the last of several answers")
        raise AnswersError(f"of {self.requests:,} requests: {'; '.join(problems)}", hint=". ".join(hints) or None)

    def _problems(self, partial: bool) -> Iterator[str]:
        if not partial:
            if self.missing:
                yield f"{len(self.missing):,} have no answer ({_first(self.missing)})"
            if self.failed:
                yield f"{len(self.failed):,} failed ({_first(self.failed)})"
        if self.doubled:
            yield f"{len(self.doubled):,} have answers that are not alike ({_first(self.doubled)})"
        if self.foreign:
            yield f"{len(self.foreign):,} answers are of another pack ({_first(self.foreign)})"
        if self.unfit:
            yield f"{len(self.unfit):,} answers are none to what was asked ({_first(self.unfit)})"


def match_answers(requests: Iterable[Request], answers: Answers, problems: Problems) -> Matched:
    """Find the answer to each request of a task.

    Args:
        requests: All requests of the task, in order.
        answers: All answers.
        problems: Collects the problems.
    """
    matched = Matched()
    has_all_answers: dict[int, bool] = {}
    for request in requests:
        problems.requests += 1
        answer = _answer(request, answers, problems)
        has_all_answers[request.doc] = has_all_answers.get(request.doc, True) and answer is not None
        if answer is not None:
            matched.docs.setdefault(request.doc, []).append(answer)
            if answer.text is not None:
                matched.cut_by_us += any(stop and stop in answer.text for stop in request.stop)
                tokens = answer.completion_tokens
                matched.cut_early += (
                    answer.finish_reason == "length" and tokens is not None and tokens < request.max_tokens
                )
    matched.docs = {doc: doc_answers for doc, doc_answers in matched.docs.items() if has_all_answers[doc]}
    return matched


def note_unknown_answers(answers: Answers, tasks: Iterable[str], unchosen: set[str], problems: Problems) -> None:
    """Report answers that belong to no request of the pack.

    Args:
        answers: All answers.
        tasks: The tasks that are graded.
        unchosen: Ids of their requests, and names of the pack's other tasks.
        problems: Collects the problems.
    """
    graded = set(tasks)
    for answer in (*answers.by_key.values(), *answers.failed.values()):
        task = answer.task
        if answer.id not in unchosen and (task in graded or task not in unchosen):
            problems.foreign.append(f"{answer.id} in {answer.where}")


def is_answered(request: Request, answers: Answers) -> bool:
    """Whether a request has an answer that can be graded."""
    return _answer(request, answers, Problems()) is not None


def _answer(request: Request, answers: Answers, problems: Problems) -> Answer | None:
    key = answers.key(request.id, request.sha256)
    if key in answers.failed:
        failed = answers.failed[key]
        problems.failed.append(f"{request.id}: {failed.error:.120}")
        return None
    answer = answers.by_key.get(key)
    if answer is None:
        if request.id in answers.otherwise:
            problems.foreign.append(f"{request.id} in {answers.otherwise[request.id]}: asked otherwise")
        else:
            problems.missing.append(request.id)
        return None
    if key in answers.doubled:
        problems.doubled.append(f"{request.id} in {' and '.join(answers.doubled[key])}")
        return None
    bound = answer.request_sha256 if answer.prompt_sha256 is None else answer.prompt_sha256 == request.prompt_sha256
    if not bound:
        problems.foreign.append(f"{request.id} in {answer.where}")
        return None
    wrong = find_kind(request.kind).explain_unfit(request, answer)
    if wrong:
        problems.unfit.append(f"{request.id} in {answer.where}: {wrong}")
        return None
    return answer


def _first(items: list[str]) -> str:
    more = f" and {len(items) - NAMED:,} more" if len(items) > NAMED else ""
    return f"{', '.join(items[:NAMED])}{more}"
