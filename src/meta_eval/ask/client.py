"""The interface between a run and a backend: requests go in, answers come out in any order as soon as they are
ready."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meta_eval.ask.answers.requests import Encoder, Request
from meta_eval.harness.settings import RunSettings
from meta_eval.harness.token_logprobs import TokenLogprobs
from meta_eval.pack.backends.registry import backend_of


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A request, ready to be sent.

    Attributes:
        request: The pack's request.
        prompt_ids: Its prompt with exactly one BOS; None for chat, or if the model's tokenizer is not on this machine.
        continuation_ids: ``choices``: the tokens of each continuation after the prompt. ``force``: the tokens of the
            only text. None likewise.
        top_k: ``force``: how many likeliest tokens to return for each place.
    """

    request: Request
    prompt_ids: Sequence[int] | None = None
    continuation_ids: Sequence[Sequence[int]] | None = None
    top_k: int = 0

    @property
    def forced_ids(self) -> Sequence[int]:
        """``force``: the tokens to force."""
        return (self.continuation_ids or ((),))[0]

    @property
    def one_token_each(self) -> bool:
        """Whether each continuation is a single, distinct token. A single prefill then scores all."""
        if self.continuation_ids is None or any(len(ids) != 1 for ids in self.continuation_ids):
            return False
        return len({ids[0] for ids in self.continuation_ids}) == len(self.continuation_ids)


@dataclass(frozen=True, slots=True)
class EngineResponse:
    """The answer to an `EngineRequest`: text, choices, forced or error.

    Attributes:
        request: The request.
        text: ``generate``: the text, without stop text and end token. ``chat``: the message's content, ``""`` without.
        choices: ``choices``: for each continuation the log-likelihood (nats, summed over tokens), and whether every
            token is the likeliest (None if unknown).
        forced: ``force``: the log-probability of each token.
        reasoning: ``chat``: what the model thought, kept apart from the content. Never graded.
        tool_calls: ``chat``: the calls, in order, each ``{"name", "arguments"}``, with the arguments as their raw text.
        finish_reason: ``stop``, ``tool_calls``, ``length`` at max_tokens, or ``content_filter``; None if unknown.
        token_ids: Token ids of the text, if the engine returns them.
        prompt_tokens: Tokens of the prompt, with BOS.
        completion_tokens: Tokens of the answer.
        cached_tokens: Tokens of the prompt from the engine's prefix cache; None if unknown.
        started, ended: Seconds since 1970.
        endpoint: The hash of the address that answered (`ask.backends.addresses`); None of a run's own engine.
        model: The model that the response names, in the spelling of the request if it is that; None if it names none.
        error: Why there is no answer.
        retry: Whether a retry may help after an error.
    """

    request: Request
    text: str | None = None
    choices: Sequence[tuple[float, bool | None]] = ()
    forced: TokenLogprobs | None = None
    reasoning: str | None = None
    tool_calls: Sequence[Mapping[str, str]] = ()
    finish_reason: str | None = None
    token_ids: Sequence[int] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    started: float | None = None
    ended: float | None = None
    endpoint: str | None = None
    model: str | None = None
    error: str | None = None
    retry: bool = True


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
            kind: ``generate``, ``chat``, ``choices`` or ``force``.
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
        """The engine with its version, such as ``my engine 1.0``; known inside the ``with`` block."""

    @abstractmethod
    def answer(self, asks: Iterable[EngineRequest]) -> Iterator[EngineResponse]:
        """Answer each request once.

        It reads ``asks`` only as needed, so a file of requests is never wholly in memory. It yields each answer as soon
        as it is ready. A request that cannot be answered gives an `EngineResponse` with ``error``.

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
) -> Iterator[EngineRequest]:
    """Add token ids to requests in batches: an encoding is far larger than its text."""
    import itertools

    left = iter(requests)
    while some := list(itertools.islice(left, batch)):
        ids: Sequence[dict[str, Any]] = encoder.encode_requests(some) if encoder else [{} for _ in some]
        for request, tokens in zip(some, ids, strict=True):
            yield EngineRequest(request, tokens.get("prompt_token_ids"), tokens.get("continuation_token_ids"), top_k)


# Text that only the messages of `explain_too_long` contain.
TOO_LONG = "and max_model_len is"


def explain_too_long(ask: EngineRequest, room: int) -> str | None:
    """Why a request does not fit a context, or None. Stock lm-eval would silently cut the prompt from the left."""
    if ask.prompt_ids is None:
        return None
    longest = max((len(continuation) for continuation in ask.continuation_ids or ()), default=0)
    # Engines that return log-probabilities of a prompt generate a token after it.
    tokens = len(ask.prompt_ids) + (longest or ask.request.max_tokens) + (ask.request.kind == "force")
    if tokens <= room:
        return None
    return f"its prompt of {len(ask.prompt_ids):,} tokens and its answer need {tokens:,}, {TOO_LONG} {room:,}"
