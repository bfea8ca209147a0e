"""The requests of a fidelity run: recorded answers that were not forced yet."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from meta_eval.sockets import (
    Answer,
    Answers,
    Backend,
    Client,
    Evaluator,
    Manifest,
    Recordings,
    Request,
    RunSettings,
    UserError,
    choose_docs,
    describe_refusal,
    find_refusals,
    spread_docs,
)


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
