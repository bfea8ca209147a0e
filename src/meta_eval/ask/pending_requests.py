"""The pending requests of a run: those of its tasks and shard that have no answer yet, ordered by shared prompt prefix.

The order is for the engine's prefix cache. A few-shot task has thousands of docs but few prefixes. If not all prefixes
fit the cache, each is computed again whenever it was evicted, unless docs are ordered.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from meta_eval.ask.answer_files import Answers
from meta_eval.ask.client import Client, find_refusals
from meta_eval.ask.request import Request, RequestKey
from meta_eval.ask.request_kinds import build_requests, find_request_kind
from meta_eval.base.logs import log
from meta_eval.harness.answer import Answer
from meta_eval.harness.chat_messages import offers_tools
from meta_eval.harness.evaluator import Evaluator
from meta_eval.pack.backends.base import Backend, BackendError

# Characters per compared block. A shorter prefix, some 128 tokens, is not worth ordering.
BLOCK = 512
# Requests of a random order that are sorted at a time.
STRETCH = 64


class Beginnings:
    """The order of docs by prompt prefix."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._keys: dict[int, tuple[int, ...]] = {}

    def add(self, doc: int, prompt: str) -> None:
        """Add a doc; if it has several prompts, the first counts."""
        if doc in self._keys:
            return
        key, chain = [], 0
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            key.append(self._first.setdefault(chain, doc))
        # From the first unshared block on, no later block is shared.
        shared = next((place for place, first in enumerate(key) if first == doc), len(key))
        self._keys[doc] = (*key[:shared], doc)

    def order(self) -> list[int]:
        """The docs in their original order, except that docs with a shared prefix stay together, longer prefixes within
        shorter ones."""
        return sorted(self._keys, key=self._keys.__getitem__)


def keep_beginnings_together(requests: Sequence[Request]) -> list[Request]:
    """Sort requests of a random order, a stretch of `STRETCH` at a time: those of a task stay together, and in a task
    those with a shared prompt prefix. Otherwise the order stays.

    Else the task changes at nearly every request, and an engine that keeps few prompts computes each from its start.
    A stretch is short beside a run, so the docs of any larger part of it are as random as before.
    """
    together: list[Request] = []
    for start in range(0, len(requests), STRETCH):
        tasks: dict[str, dict[int, list[Request]]] = {}
        for request in requests[start : start + STRETCH]:
            tasks.setdefault(request.task, {}).setdefault(request.doc, []).append(request)
        for docs in tasks.values():
            in_order, beginnings = list(docs.values()), Beginnings()
            for place, of_doc in enumerate(in_order):
                beginnings.add(place, of_doc[0].prompt)
            together += [request for place in beginnings.order() for request in in_order[place]]
    return together


def count_shared_blocks(first: str, second: str) -> int:
    """Count the whole blocks that two prompts share at the start."""
    most = min(len(first), len(second)) // BLOCK
    for number in range(most):
        if first[number * BLOCK : (number + 1) * BLOCK] != second[number * BLOCK : (number + 1) * BLOCK]:
            return number
    return most


def interleave_docs(docs: Sequence[int], lanes: int) -> Iterator[int]:
    """Interleave ranges of docs, one per lane, so that each server can keep to its range."""
    size = -(-len(docs) // lanes)
    stretches = [docs[start : start + size] for start in range(0, len(docs), size or 1)]
    for place in range(size):
        yield from (stretch[place] for stretch in stretches if place < len(stretch))


class PendingRequests:
    """Iterate over the requests by task, grouped by shared prompt prefix. Each iteration builds the requests again;
    they are never all in memory.

    Args:
        evaluator: The evaluator of the pack.
        tasks: The tasks, in order.
        limit: ``--limit`` of the pack.
        shard: ``(I, N)``: every N-th request from the I-th on, counted over all tasks.
        answers: Earlier answers.
        lanes: Number of servers; so many ranges of a task are interleaved.

    Attributes:
        total: Number of requests of this shard, by task.
        left: Number of these without an answer.
        kinds: The kind of a task's requests: ``generate`` or ``choices``.
        slim_requests: The requests of this shard without their texts, by task, in order.
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
        self._answered = set(answers.by_key)
        self.total: dict[str, int] = {}
        self.left: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        self.slim_requests: dict[str, list[Request]] = {}
        self._order: dict[str, list[int]] = {}
        self._with_tools: dict[str, int] = {}
        for name, requests in itertools.groupby(self._own(), key=lambda request: request.task):
            slim, beginnings = self.slim_requests.setdefault(name, []), Beginnings()
            for request in requests:
                slim.append(request.without_texts())
                beginnings.add(request.doc, request.prompt)
                if offers_tools(request.prompt):
                    self._with_tools.setdefault(name, request.doc)
            self.kinds[name] = slim[-1].kind
            self._order[name] = beginnings.order()
            self.total[name], self.left[name] = len(slim), sum(not self.is_answered(some) for some in slim)

    def by_doc(self) -> dict[str, dict[int, list[Request]]]:
        """All requests, answered or not, by task and doc; all in memory."""
        requests: dict[str, dict[int, list[Request]]] = {}
        for request in self._own():
            requests.setdefault(request.task, {}).setdefault(request.doc, []).append(request)
        return requests

    def is_answered(self, request: Request) -> bool:
        """Whether a request was answered before this run, or marked since."""
        return request.key in self._answered

    def note(self, answer: Answer) -> None:
        """Mark a request as answered, so that iterating skips it."""
        self._answered.add(answer.key)

    def leave_out(self, tasks: Iterable[str]) -> None:
        """Skip some tasks."""
        for name in tasks:
            del self.left[name], self._order[name]

    def first_requests(self) -> Iterator[Request]:
        """The first request of each task that is asked, and the first with tools."""
        for task in (name for name, left in self.left.items() if left):
            yield self.first_request(task)
            if task in self._with_tools:
                yield next(build_requests(self._evaluator, task, self._limit, [self._with_tools[task]]))

    def first_request(self, task: str) -> Request:
        """The first request of a task."""
        return next(build_requests(self._evaluator, task, self._limit, [self.slim_requests[task][0].doc]))

    def docs_left(self, task: str) -> set[int]:
        """The docs of a task with unanswered requests in this shard."""
        return {request.doc for request in self.slim_requests.get(task, ()) if not self.is_answered(request)}

    def find_answered_docs(self, task: str, answers: Answers) -> set[int]:
        """The docs of a task whose requests all have an answer among some."""
        requests = self.slim_requests.get(task, ())
        return {some.doc for some in requests} - {some.doc for some in requests if some.key not in answers.by_key}

    def of_docs(self, docs: Mapping[str, Sequence[int]]) -> Iterator[Request]:
        """The pending requests of some docs, given by task."""
        for name, numbers in docs.items():
            wanted = {request.id for request in self.slim_requests[name] if not self.is_answered(request)}
            for request in build_requests(self._evaluator, name, self._limit, numbers):
                if request.id in wanted:
                    yield request

    def keys(self, task: str | None = None) -> set[RequestKey]:
        """The key of each request, for a task or for all."""
        some = self.slim_requests.values() if task is None else [self.slim_requests.get(task, [])]
        return {request.key for requests in some for request in requests}

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


def leave_out_unasked(
    pending: PendingRequests,
    backend: Backend,
    client: Client | None = None,
    *,
    has_tokenizer: bool = True,
    needs_all: bool,
) -> dict[str, str]:
    """Leave out the tasks that a backend cannot answer, and warn before the first request.

    Args:
        pending: The pending requests.
        backend: The backend.
        client: The started backend; None before it is started.
        has_tokenizer: Whether requests have token ids.
        needs_all: Whether no task may be missing.

    Returns: The reason for each left-out task.

    Raises:
        BackendError: No task may be missing, or none is left and nothing was answered before.
    """
    names = [name for name, left in pending.left.items() if left]
    kinds = find_refusals(backend, (pending.kinds[name] for name in names), client, has_tokenizer=has_tokenizer)
    reasons = {name: kinds[pending.kinds[name]] for name in names if pending.kinds[name] in kinds}
    if backend.renders_messages and client is not None:
        others = [name for name in names if name not in reasons]
        reasons |= {name: why for name in others if (why := client.cannot_ask(pending.first_request(name)))}
    begun = any(pending.left.get(name, total) < total for name, total in pending.total.items())
    for why in sorted(set(reasons.values())):
        some = ", ".join(name for name in reasons if reasons[name] == why)
        subjects = {find_request_kind(kind).subject for kind, reason in kinds.items() if reason == why} - {None}
        what = next(iter(subjects), None) or "it"
        if needs_all or (len(reasons) == len(names) and not begun):
            raise BackendError(f"cannot be scored: {why}", where=some, hint="Name other tasks with --tasks")
        log.warning(f"{some}: left out, because {what} cannot be scored: {why}")
    pending.leave_out(reasons)
    return reasons


def select_answers(answers: Answers, keys: Collection[RequestKey]) -> Answers:
    """Select the answers to some requests. A file of a run may also have answers to other tasks and to changed prompts.

    Args:
        answers: All answers.
        keys: The keys of the requests.
    """
    return Answers(
        by_key={key: answer for key, answer in answers.by_key.items() if key in keys},
        failed={key: answer for key, answer in answers.failed.items() if key in keys},
        cut_off=answers.cut_off,
        deployments=answers.deployments,
    )
