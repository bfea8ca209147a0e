"""What a run must know of a backend: requests go in, answers come out, in any order and as soon as they are there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meta_eval.answers.requests import Encoder, Request
from meta_eval.answers.token_logprobs import TokenLogprobs
from meta_eval.backends.registry import backend_of
from meta_eval.backends.settings import RunSettings


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A request, ready to be sent.

    Attributes:
        request: What the pack asks.
        prompt_ids: Its prompt with exactly one BOS; None where the model's tokenizer is not on this machine.
        continuation_ids: Of ``choices``, the tokens of each continuation behind those of the prompt, of ``force`` those
            of the one text; None likewise.
        top_k: Of ``force``: how many of the likeliest tokens in each place are wanted besides.
    """

    request: Request
    prompt_ids: Sequence[int] | None = None
    continuation_ids: Sequence[Sequence[int]] | None = None
    top_k: int = 0

    @property
    def forced_ids(self) -> Sequence[int]:
        """Of ``force``: the tokens that the engine is given."""
        return (self.continuation_ids or ((),))[0]

    @property
    def one_token_each(self) -> bool:
        """Whether each continuation is one token and no two are the same: one prefill then tells them all apart."""
        if self.continuation_ids is None or any(len(ids) != 1 for ids in self.continuation_ids):
            return False
        return len({ids[0] for ids in self.continuation_ids}) == len(self.continuation_ids)


@dataclass(frozen=True, slots=True)
class EngineResponse:
    """What came of an `EngineRequest`: one of text, choices, forced and error.

    Attributes:
        request: What was asked.
        text: Of ``generate``, without stop text and end token.
        choices: Of ``choices``, in the order of the continuations: log-likelihood (nats, summed over tokens), and
            whether every token is the likeliest one, None where the engine does not say.
        forced: Of ``force``: what the engine finds of each token.
        finish_reason: ``stop``, ``length`` at max_tokens, or ``content_filter``; None where the engine does not say.
        token_ids: Of the text, where the engine says them.
        prompt_tokens: Tokens of the prompt, BOS included.
        completion_tokens: Tokens of the answer.
        cached_tokens: Tokens of the prompt that the engine had in its prefix cache; None where it does not say.
        started, ended: Seconds since 1970.
        error: Why there is no answer.
        again: Of an error: whether asking again may help.
    """

    request: Request
    text: str | None = None
    choices: Sequence[tuple[float, bool | None]] = ()
    forced: TokenLogprobs | None = None
    finish_reason: str | None = None
    token_ids: Sequence[int] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    started: float | None = None
    ended: float | None = None
    error: str | None = None
    again: bool = True


class Client(ABC):
    """A backend at work. Entered it is ready; left it has let go of everything that it started, whatever happened.

    Args:
        settings: Of the pack.
        model: What to load or to ask for, `RunSettings.model_name` unless a sweep says otherwise.
        logs: A folder for the logs of what it starts.
        end: Texts that end every answer, besides the stop texts of its request: the model's end token.

    Attributes:
        backend: What it is the client of.
    """

    def __init__(self, settings: RunSettings, *, model: str, logs: Path, end: Sequence[str] = ()) -> None:
        self.settings, self.model, self.logs, self.end = settings, model, logs, tuple(end)
        self.backend = backend_of(settings)

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            BackendError: It cannot be started; with the tail of its log.
        """
        return self

    def __exit__(  # noqa: B027 (some start nothing)
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""

    def cannot(self, kind: str, *, has_tokenizer: bool) -> str | None:  # noqa: ARG002 (most can answer all)
        """Why requests of a kind cannot be answered, found out before the first; None where they can.

        Args:
            kind: ``generate``, ``choices`` or ``force``.
            has_tokenizer: Whether requests bring their token ids.
        """
        return None

    @property
    @abstractmethod
    def engine(self) -> str:
        """What answers, with its version, such as ``vllm 0.32.0``; known once it is entered."""

    @abstractmethod
    def answer(self, asks: Iterable[EngineRequest]) -> Iterator[EngineResponse]:
        """Answer each of some requests once.

        It reads ``asks`` no faster than it needs them, so that a file of requests never lies in memory, and yields
        each answer as soon as it is there. A request that cannot be answered is a `EngineResponse` with ``error``.

        Raises:
            BackendError: The engine is gone, and nothing more can be asked.
        """


def client_of(settings: RunSettings) -> type[Client]:
    """The class that asks the backend of some settings, imported now."""
    client: type[Client] = backend_of(settings).load_client()
    return client


def describe_start(settings: RunSettings, logs: Path) -> str:
    """The step before the first request: with the folder of its log where the backend starts an engine."""
    starts = backend_of(settings).starts_engine(settings)
    return f"starting {settings.backend}; its log: {logs}" if starts else f"connecting to {settings.backend}"


def with_token_ids(
    requests: Iterable[Request], encoder: Encoder | None, *, top_k: int = 0, batch: int = 128
) -> Iterator[EngineRequest]:
    """Requests with their token ids, encoded some at a time: an encoding is far larger than its text."""
    import itertools

    left = iter(requests)
    while some := list(itertools.islice(left, batch)):
        ids: Sequence[dict[str, Any]] = encoder.encode_requests(some) if encoder else [{} for _ in some]
        for request, tokens in zip(some, ids, strict=True):
            yield EngineRequest(request, tokens.get("prompt_token_ids"), tokens.get("continuation_token_ids"), top_k)


# What the words of `explain_too_long` hold, and those of no other failure.
TOO_LONG = "and max_model_len is"


def explain_too_long(ask: EngineRequest, room: int) -> str | None:
    """Why a request does not fit a context, or None. Stock lm-eval would cut the prompt from the left, in silence."""
    if ask.prompt_ids is None:
        return None
    longest = max((len(continuation) for continuation in ask.continuation_ids or ()), default=0)
    # Engines that say how likely a prompt's tokens are write one of their own behind it.
    tokens = len(ask.prompt_ids) + (longest or ask.request.max_tokens) + (ask.request.kind == "force")
    if tokens <= room:
        return None
    return f"its prompt of {len(ask.prompt_ids):,} tokens and its answer need {tokens:,}, {TOO_LONG} {room:,}"
