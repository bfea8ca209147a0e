"""What a run has to ask: the requests of its tasks and of its shard that have no answer yet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from meta_eval.answers.answer_files import Answers
from meta_eval.answers.requests import Request, build_requests
from meta_eval.backends.base import Backend, BackendError
from meta_eval.messages.logs import log
from meta_eval.running.capabilities import find_refusals
from meta_eval.running.client import Client
from meta_eval.running.prefix_order import Beginnings, interleave_docs
from meta_eval.verification.evaluator import Evaluator


class PendingRequests:
    """Gone through as often as one likes, task by task, in each those together whose prompts begin alike; the requests
    are built anew each time and never all held.

    Args:
        evaluator: Of the pack.
        tasks: Which to ask, in order.
        limit: ``--limit`` of the pack.
        shard: ``(I, N)``: each N-th request from the I-th on, counted through all tasks.
        answers: What was answered before.
        lanes: How many servers are asked: as many stretches of a task are gone through side by side.

    Attributes:
        total: By task, the requests of this shard.
        left: Those of them that have no answer yet.
        kinds: By task, what its requests are: ``generate`` or ``choices``.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        tasks: Sequence[str],
        limit: float | None,
        shard: tuple[int, int],
        answers: Answers,
        *,
        lanes: int = 1,
    ) -> None:
        self._evaluator, self._tasks, self._limit, self._shard = evaluator, tuple(tasks), limit, shard
        self._lanes = max(lanes, 1)
        self._answered = {(answer.id, answer.request_sha256) for answer in answers.given.values()}
        self.total: dict[str, int] = {}
        self.left: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        self._hashes: dict[str, dict[str, str]] = {}
        self._order: dict[str, list[int]] = {}
        for name, requests in itertools.groupby(self._own(), key=lambda request: request.task):
            hashes, beginnings, left = self._hashes.setdefault(name, {}), Beginnings(), 0
            for request in requests:
                hashes[request.id] = request.sha256
                self.kinds[name] = request.kind
                beginnings.add(request.doc, request.prompt)
                left += not self.is_answered(request)
            self._order[name] = beginnings.order()
            self.total[name], self.left[name] = len(hashes), left

    def by_doc(self) -> dict[str, dict[int, list[Request]]]:
        """All requests, answered or not, by task and doc; of all docs at once, in memory."""
        requests: dict[str, dict[int, list[Request]]] = {}
        for request in self._own():
            requests.setdefault(request.task, {}).setdefault(request.doc, []).append(request)
        return requests

    def is_answered(self, request: Request) -> bool:
        """Whether it was answered before this run began, or noted since."""
        return (request.id, request.sha256) in self._answered

    def note(self, request: Request) -> None:
        """Mark a request as answered, so that iterating skips it."""
        self._answered.add((request.id, request.sha256))

    def leave_out(self, tasks: Iterable[str]) -> None:
        """Ask nothing of some tasks."""
        for name in tasks:
            del self.left[name], self._order[name]

    def docs_left(self, task: str) -> set[int]:
        """The docs of a task of which this shard asks something that is not answered."""
        hashes = self._hashes.get(task, {})
        return {int(key[0].split("/")[1]) for key in hashes.items() if key not in self._answered}

    def of_docs(self, docs: Mapping[str, Sequence[int]]) -> Iterator[Request]:
        """What is left of some docs, by task."""
        for name, numbers in docs.items():
            for request in build_requests(self._evaluator, name, self._limit, numbers):
                if request.id in self._hashes[name] and not self.is_answered(request):
                    yield request

    def hashes(self, task: str | None = None) -> dict[str, str]:
        """What is asked, by id its hash, of one task or of all."""
        some = self._hashes.values() if task is None else [self._hashes.get(task, {})]
        return {name: sha256 for hashes in some for name, sha256 in hashes.items()}

    def __iter__(self) -> Iterator[Request]:
        for name, order in self._order.items():
            left = self.docs_left(name)
            docs = [doc for doc in order if doc in left]
            yield from self.of_docs({name: list(interleave_docs(docs, self._lanes))})

    def _own(self) -> Iterator[Request]:
        number, of = self._shard
        return itertools.islice(self._all(), number, None, of)

    def _all(self) -> Iterable[Request]:
        for name in self._tasks:
            yield from build_requests(self._evaluator, name, self._limit)


def leave_out_tasks(
    wanted: PendingRequests, backend: Backend, client: Client | None = None, *, has_tokenizer: bool = True, whole: bool
) -> dict[str, str]:
    """Leave out the tasks that a backend cannot answer, and say so before the first request.

    Args:
        wanted: What is to be asked.
        backend: What is to answer.
        client: The same at work; None before it is started.
        has_tokenizer: Whether requests bring their token ids.
        whole: Whether no task may be missing.

    Returns:
        By task, why it was left out.

    Raises:
        BackendError: No task may be missing, or none is left and nothing was answered before.
    """
    names = [name for name, left in wanted.left.items() if left]
    kinds = find_refusals(backend, (wanted.kinds[name] for name in names), client, has_tokenizer=has_tokenizer)
    reasons = {name: kinds[wanted.kinds[name]] for name in names if wanted.kinds[name] in kinds}
    begun = any(wanted.left.get(name, total) < total for name, total in wanted.total.items())
    for why in sorted(set(reasons.values())):
        some = ", ".join(name for name in reasons if reasons[name] == why)
        what = "multiple choice" if kinds.get("choices") == why else "it"
        if whole or (len(reasons) == len(names) and not begun):
            raise BackendError(f"cannot be scored: {why}", where=some, hint="Name other tasks with --tasks")
        log.warning(f"{some}: left out, because {what} cannot be scored: {why}")
    wanted.leave_out(reasons)
    return reasons


def select_answers(answers: Answers, wanted: Mapping[str, str]) -> Answers:
    """The answers to some requests: a file of a run may hold those of other tasks, and of prompts that were changed.

    Args:
        answers: All that there are.
        wanted: Their hashes by id.
    """

    def asked(key: tuple[str, str | None]) -> bool:
        return wanted.get(key[0]) == key[1]

    return Answers(
        given={key: answer for key, answer in answers.given.items() if asked(key)},
        failed={key: answer for key, answer in answers.failed.items() if asked(key)},
        cut_off=answers.cut_off,
    )
