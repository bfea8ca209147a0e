"""The requests of a fidelity run: recorded answers that were not forced yet, and the probes.

Probes are a few docs with prompts changed as a wrong set-up would change them. `meta_eval.plugins.tokens.perturbations`
makes them, `meta_eval.plugins.tokens.probe_signatures` interprets them. They are ordinary requests of kind ``force``,
with their own ids and hashes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from meta_eval.ask.answer_files import Answers
from meta_eval.ask.canary import spread_docs
from meta_eval.ask.client import describe_refusal, find_refusals
from meta_eval.ask.recorded_answers import Recordings
from meta_eval.ask.request import RequestKey, choose_docs
from meta_eval.ask.request_kinds import encode_requests
from meta_eval.harness.evaluator import Evaluator
from meta_eval.plugins.tokens.perturbations import PROMPTS, make_perturbations
from meta_eval.plugins.tokens.probe_table import Probed
from meta_eval.sockets import Answer, Backend, Client, Encoder, Manifest, Request, RunSettings, UserError


class ToForce:
    """The requests to force. Iterating gives those without an answer; each iteration builds the requests again.

    Attributes:
        total: Number of requests of this shard, by task.
        left: Number of these without an answer.
        docs: The selected docs of all shards, by task.
        lengths: Characters of the prompt by task and doc, for docs with a recorded text.
    """

    def __init__(
        self, pack: Path, manifest: Manifest, tasks: Sequence[str], settings: RunSettings, docs: int | None,
        shard: tuple[int, int], top_k: int, answers: Answers, recordings: Recordings | None = None,
    ) -> None:  # fmt: skip
        self.pack, self.top_k = pack, top_k
        self.recordings = recordings or Recordings(pack, manifest)
        self.seed = None if docs is None else settings.seed
        self._evaluator, self._limit, self._shard = Evaluator(pack), settings.limit, shard
        self._numbers = self._drawn(tasks, manifest, docs, settings.seed)
        self._answered = {key for key, answer in answers.by_key.items() if self.is_whole(answer)}
        self.total: dict[str, int] = {}
        self.left: dict[str, int] = {}
        self.hashes: dict[str, dict[str, str]] = {name: {} for name in self._numbers}
        self.lengths: dict[str, dict[int, int]] = {}
        self._kinds: dict[str, None] = {}
        for number, request in enumerate(self._all()):
            self.hashes[request.task][request.id] = request.sha256
            self._kinds[request.kind] = None
            if request.kind == "force":
                self.lengths.setdefault(request.task, {})[request.doc] = len(request.prompt)
            if number % shard[1] == shard[0]:
                self.total[request.task] = self.total.get(request.task, 0) + 1
                self.left[request.task] = self.left.get(request.task, 0) + self._is_left(request)
        if not any(self.hashes.values()):
            if type(self.recordings) is Recordings and all(manifest.tasks[name].asked_as == "chat" for name in tasks):
                raise UserError(
                    "its prompts are chat messages, whose tokens each engine makes itself", where=str(pack),
                    hint=f"Score its answers with your copy: meta-eval audit --pack {pack}",
                )  # fmt: skip
            raise UserError(
                f"none of these docs can be scored: {self.recordings.missing}", where=str(pack),
                hint="Name other tasks with --tasks; a pack of new data has no recorded answers",
            )  # fmt: skip

    @property
    def docs(self) -> dict[str, int]:
        return {name: len(numbers) for name, numbers in self._numbers.items()}

    def is_whole(self, answer: Answer) -> bool:
        """Whether an answer has everything that is requested."""
        return bool(answer.choices) or (answer.tokens is not None and answer.tokens.top_k >= self.top_k)

    def check_backend(self, backend: Backend, client: Client | None = None) -> None:
        """Refuse a backend that cannot answer all requests, before any is sent.

        Args:
            backend: The backend.
            client: The started backend; None before it is started.

        Raises:
            BackendError: It cannot answer all requests.
        """
        for kind, why in find_refusals(backend, self._kinds, client).items():
            raise describe_refusal(backend, kind, why)

    def _drawn(self, tasks: Sequence[str], manifest: Manifest, docs: int | None, seed: int) -> dict[str, Sequence[int]]:
        """Draw the numbers of docs by task."""
        ranges = {name: choose_docs(manifest.tasks[name].docs, self._limit) for name in tasks}
        if docs is None:
            return {name: numbers for name, numbers in ranges.items() if numbers}
        orders, eligible = {}, {}
        for name, numbers in ranges.items():
            recorded, subtasks = self.recordings.read_task(name)
            order = [doc for doc in numbers if doc < len(recorded)]
            random.Random(f"{seed}/{name}").shuffle(order)  # noqa: S311 (no secret)
            orders[name] = order
            eligible[name] = [None if recorded[doc] is None else subtasks[doc] or "" for doc in order]
        return {name: sorted(orders[name][at] for at in places) for name, places in spread_docs(eligible, docs).items()}

    def _all(self) -> Iterator[Request]:
        return self.of_docs(self._numbers)

    def of_docs(self, docs: Mapping[str, Sequence[int]]) -> Iterator[Request]:
        """The requests of some docs, given by task and number."""
        for name, numbers in docs.items():
            yield from self.recordings.build_scoring_requests(self._evaluator, name, self._limit, numbers)

    def _is_left(self, request: Request) -> bool:
        return request.key not in self._answered

    def __iter__(self) -> Iterator[Request]:
        number, of = self._shard
        return filter(self._is_left, itertools.islice(self._all(), number, None, of))


# Number of docs that get all probes.
_SHORT = 16


# By task, numbers of docs.
Docs = Mapping[str, Sequence[int]]


class ProbeRequests:
    """The probes that a run sends in addition to its docs.

    Args:
        requests: Requests of kind ``force`` that get all probes.
    """

    def __init__(self, requests: Iterable[Request]) -> None:
        self._requests = list(requests)

    def is_begun(self, answers: Answers) -> bool:
        """Whether any probe was answered; True without probes."""
        keys = [_key(request, name) for request in self._requests for name in PROMPTS]
        return not keys or any(key in answers.by_key or key in answers.failed for key in keys)

    def build_requests(self, encoder: Encoder, answered: Container[RequestKey] = ()) -> Iterator[Request]:
        """Build the probes without an answer.

        Args:
            encoder: The model's tokenizer.
            answered: The ids and hashes of answered probes.
        """
        for request in self._requests:
            left = {name for name in PROMPTS if _key(request, name) not in answered}
            for encoded in encode_requests([request] if left else [], encoder):
                for name, (prompt, answer) in _variants(encoded, encoder):
                    if name in left and prompt and answer:
                        yield replace(_probe(request, name), prompt_ids=prompt, continuation_ids=[answer])

    def build_table(self, answers: Answers) -> Iterator[Probed]:
        """Build the rows of the table of probes, in the order of docs."""
        for request in self._requests:
            recorded_answer = answers.by_key.get(request.key)
            for name in PROMPTS:
                answer = answers.by_key.get(_key(request, name))
                if recorded_answer is None or answer is None or answer.tokens is None:
                    continue
                tokens = answer.tokens
                yield Probed(
                    request.task, request.doc, name, _probe(request, name).sha256, recorded_answer.prompt_tokens or 0,
                    np.asarray(tokens.ids, np.int32), np.asarray(tokens.logprobs, np.float32),
                    np.asarray(tokens.top_logprobs, np.float32),
                )  # fmt: skip


def _probe(request: Request, name: str) -> Request:
    """The request of a probe: that of the doc, with another id and hash."""
    return replace(request, id=f"{request.id}/{name}", settings={"probe": name})


def _key(request: Request, name: str) -> RequestKey:
    return _probe(request, name).key


def _variants(request: Request, encoder: Encoder) -> Iterator[tuple[str, tuple[list[int], list[int]]]]:
    ids, answer = list(request.prompt_ids or ()), list(request.forced_ids)
    return make_perturbations(request.prompt, ids, answer, encoder.bos, encoder.encode_text, encoder.encode_spelled)


def choose_probed_docs(lengths: Mapping[str, Mapping[int, int]]) -> Docs:
    """Choose the docs for the probes, the shortest of each task in turn.

    Args:
        lengths: The length of the prompt by task and doc. The same lengths give the same docs.
    """
    orders = [[(task, doc) for doc in sorted(docs, key=lambda doc: (docs[doc], doc))] for task, docs in lengths.items()]
    in_turn = [doc for row in itertools.zip_longest(*orders) for doc in row if doc is not None]
    numbers_by_task: dict[str, list[int]] = {}
    for task, doc in in_turn[:_SHORT]:
        numbers_by_task.setdefault(task, []).append(doc)
    return {task: sorted(numbers) for task, numbers in numbers_by_task.items()}
