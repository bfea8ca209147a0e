"""The interface between a run and a backend: requests go in, answers come out in any order as soon as they are
ready."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import encode_requests, find_kind
from meta_eval.harness.answer import Answer
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.registry import backend_of


class Client(ABC):
    """A started backend. Inside the ``with`` block it is ready; leaving the block always stops everything that it
    started.

    Args:
        settings: The settings of the pack.
        model: The model to load or request: `RunSettings.model_name`, or a model of a sweep.
        logs: A folder for logs.
        end: Texts that end every answer in addition to its stop texts: the model's end token.

    Attributes:
        backend: Its backend.
    """

    def __init__(self, settings: RunSettings, *, model: str, logs: Path, end: Sequence[str] = ()) -> None:
        self.settings, self.model, self.logs, self.end = settings, model, logs, tuple(end)
        self.backend = backend_of(settings)

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            BackendError: It cannot be started; the message has the tail of its log.
        """
        return self

    def __exit__(  # noqa: B027 (some start nothing)
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""

    def cannot(self, kind: str, *, has_tokenizer: bool) -> str | None:  # noqa: ARG002 (most can answer all)
        """Why requests of a kind cannot be answered, known before the first; None if they can.

        Args:
            kind: The name of a `RequestKind`.
            has_tokenizer: Whether requests have token ids.
        """
        return None

    def cannot_ask(self, request: Request) -> str | None:  # noqa: ARG002 (most take any text)
        """Why a request cannot be asked, as the first of its task shows; None if it can. Used of a backend that
        renders messages."""
        return None

    def examine(self, requests: Iterable[Request]) -> Mapping[str, Any]:  # noqa: ARG002 (most have nothing to say)
        """Check what answers, before the first request, and say on stderr what is wrong; facts for the results file.

        Args:
            requests: A request of each task.
        """
        return {}

    def summarise(self) -> Mapping[str, Any]:
        """What was odd about the answers so far; facts for the results file."""
        return {}

    @property
    @abstractmethod
    def engine(self) -> str:
        """The engine with its version, such as ``vllm 0.32.0``; known inside the ``with`` block."""

    @abstractmethod
    def answer(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """Answer each request once.

        It reads ``requests`` only as needed, so a file of requests is never wholly in memory. It yields each answer as
        soon as it is ready, made with `Request.answer`. A request that cannot be answered gets one with ``error``.

        Raises:
            BackendError: The engine is gone; further requests are pointless.
        """


def find_client(settings: RunSettings) -> type[Client]:
    """The client class of the backend in some settings; this imports it."""
    client: type[Client] = backend_of(settings).load_client()
    return client


def describe_start(settings: RunSettings, logs: Path) -> str:
    """The step before the first request: with the folder of its log where the backend starts an engine."""
    starts = backend_of(settings).starts_engine(settings)
    return f"starting {settings.backend}; its log: {logs}" if starts else f"connecting to {settings.backend}"


def with_token_ids(
    requests: Iterable[Request], encoder: Encoder | None, *, top_k: int = 0, batch: int = 128
) -> Iterator[Request]:
    """Add token ids to requests in batches: an encoding is far larger than its text."""
    import itertools

    left = iter(requests)
    while some := list(itertools.islice(left, batch)):
        for request in encode_requests(some, encoder) if encoder else some:
            yield replace(request, top_k=top_k) if top_k else request


# Text that only the messages of `explain_too_long` contain.
TOO_LONG = "and max_model_len is"


def explain_too_long(request: Request, room: int) -> str | None:
    """Why a request does not fit a context, or None. Stock lm-eval would silently cut the prompt from the left."""
    if request.prompt_ids is None:
        return None
    longest = max((len(continuation) for continuation in request.continuation_ids or ()), default=0)
    # Engines that return log-probabilities of a prompt generate a token after it.
    tokens = len(request.prompt_ids) + (longest or request.max_tokens) + find_kind(request.kind).tokens_after
    if tokens <= room:
        return None
    return f"its prompt of {len(request.prompt_ids):,} tokens and its answer need {tokens:,}, {TOO_LONG} {room:,}"
