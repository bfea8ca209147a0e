"""The interface between a run and a backend, which requests a backend cannot answer, and the rounds of a request.

Requests go in, answers come out in any order as soon as they are ready.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import find_request_kind
from meta_eval.base import assets
from meta_eval.base.logs import log
from meta_eval.harness.answer import Answer
from meta_eval.harness.settings import RunSettings, Settings
from meta_eval.pack.backends.base import Backend, BackendError
from meta_eval.pack.backends.registry import backend_of, list_shipped


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
        """The engine with its version, such as ``my engine 1.0``; known inside the ``with`` block."""

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


# Text that only the messages of `explain_too_long` contain.
TOO_LONG = "and max_model_len is"


def explain_too_long(request: Request, room: int) -> str | None:
    """Why a request does not fit a context, or None. Stock lm-eval would silently cut the prompt from the left."""
    if request.prompt_ids is None:
        return None
    longest = max((len(continuation) for continuation in request.continuation_ids or ()), default=0)
    # Engines that return log-probabilities of a prompt generate a token after it.
    tokens = len(request.prompt_ids) + (longest or request.max_tokens) + find_request_kind(request.kind).tokens_after
    if tokens <= room:
        return None
    return f"its prompt of {len(request.prompt_ids):,} tokens and its answer need {tokens:,}, {TOO_LONG} {room:,}"


_ENGINES = f"Engines that can: {assets.asset_path('docs/guides/engines.md')}"


def find_refusals(
    backend: Backend, kinds: Iterable[str], client: Client | None = None, *, has_tokenizer: bool = True
) -> dict[str, str]:
    """Find the kinds of requests that cannot be answered, each with the reason.

    Args:
        backend: Its declared abilities are checked first.
        kinds: Names of each `RequestKind`.
        client: The started backend, which may know more; None before it is started.
        has_tokenizer: Whether requests have token ids.
    """
    refusals = {}
    for kind in dict.fromkeys(kinds):
        why = None if kind in backend.kinds else find_request_kind(kind).refuse(backend.name)
        if why is None and client is not None:
            why = client.cannot(kind, has_tokenizer=has_tokenizer)
        if why:
            refusals[kind] = why
    return refusals


def check_scores(settings: Settings) -> None:
    """Refuse a backend that scores neither texts nor choices, so that no pack can be measured with it; a missing file
    of the model; and one without the tokenizer, whose tokens are compared.

    Raises:
        BackendError: It only writes texts, or something is missing.
    """
    backend = backend_of(settings)
    backend.check_model(settings.model_name)
    if backend.reads_text and settings.tokenizer is None:
        raise BackendError(
            "needs the model's tokenizer to score tokens", where=f"backend {backend.name}",
            hint="Set tokenizer to a hub id or a folder that has tokenizer.json",
        )  # fmt: skip
    if not backend.kinds & {"force", "choices"}:
        raise describe_refusal(backend, "force", find_refusals(backend, ["force"])["force"])


def describe_refusal(backend: Backend, kind: str, why: str) -> BackendError:
    """The error for a kind of requests that a backend cannot answer."""
    if kind in backend.kinds:
        return BackendError(why, hint=_ENGINES)
    others = [shipped.name for shipped in list_shipped() if kind in shipped.kinds]
    return BackendError(why, hint=f"Use a backend that can ({', '.join(others)}), such as --set backend={others[0]}")


# Seconds before each round of requests. Requests that failed together, for example during a restart of the server, may
# succeed later.
ROUNDS = (0, 2, 10)


def ask_in_rounds(
    ask: Callable[[Iterable[Request]], Iterator[tuple[Request, Answer]]],
    requests: Iterable[Request],
) -> Iterator[Answer]:
    """Give the final answer or failure of each request.

    Args:
        ask: Sends requests.
        requests: All requests.
    """
    for number, wait in enumerate(ROUNDS):
        time.sleep(wait)
        retries: list[Request] = []
        for request, answer in ask(requests):
            if answer.error is not None and answer.retry and number + 1 < len(ROUNDS):
                retries.append(request.without_ids())
            else:
                yield answer
        if not retries:
            return
        log.warning(f"{len(retries):,} requests failed and are retried; the first is {retries[0].id}")
        requests = retries
