"""The socket for further ways to score given tokens, for servers that return no log-probabilities of a prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from meta_eval.ask.transport import Json
from meta_eval.base.errors import UserError
from meta_eval.base.extensions import find_extensions, load_extension
from meta_eval.base.logs import log
from meta_eval.harness.token_logprobs import TokenPlace

ENTRY_POINTS = "meta_eval.forcings"

# Sends a body to ``/v1/completions`` and returns the answer.
Send = Callable[[dict[str, Any]], Awaitable[Json]]


class Forcing(ABC):
    """Makes a server write given tokens, and reads their log-probabilities.

    A package registers it by an entry point of the group ``meta_eval.forcings``. It is loaded for a server that scores
    no tokens of a prompt.

    Attributes:
        name: Its name in messages.
    """

    name: str

    @abstractmethod
    def build_probe(self, prompt: Sequence[int], ids: Sequence[int]) -> dict[str, Any]:
        """Build a request that shows whether a server can do it."""

    @abstractmethod
    def check_probe(self, answer: Json) -> None:
        """Raises: GarbledError: The server cannot."""

    @abstractmethod
    async def force(
        self, send: Send, prompt: Sequence[int], ids: Sequence[int], top_k: int
    ) -> tuple[list[TokenPlace], Json]:
        """Find the log-probabilities of given tokens after a prompt.

        Returns: The place of each token, with the ``top_k`` likeliest tokens; and the last answer.

        Raises:
            GarbledError: The server does not return them.
        """

    @abstractmethod
    async def score_labels(
        self, send: Send, prompt: Sequence[int], ids: Sequence[int]
    ) -> tuple[list[tuple[float, bool | None]], Json]:
        """Find the log-probability of each of several tokens after a prompt (nats), and whether it is the likeliest.

        Raises:
            GarbledError: The server does not return them.
        """


def list_forcings() -> list[Forcing]:
    """All ways, by name. A broken one is a warning."""
    found: list[Forcing] = []
    for extension in find_extensions(ENTRY_POINTS).values():
        try:
            found.append(load_extension(extension, Forcing, name=(str,)))
        except UserError as error:
            log.warning(str(error))
    return found
