"""A connection to a server: its availability, single requests, and of an OpenAI server its model and context."""

from __future__ import annotations

import asyncio
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from meta_eval.ask.transport import CutError, Failed, GarbledError, Json, Merger, Reply, Transport, retry_after
from meta_eval.base.display import one_line
from meta_eval.base.logs import log
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.base import BackendError

# Seconds for a server to identify itself.
SECONDS_TO_SAY = 60.0

# Statuses for "not now": too early, too many, overloaded, and those of a proxy before a starting server.
_NOT_NOW = frozenset((408, 425, 429, 503))

# Statuses for a missing page.
_NO_PAGE = frozenset((404, 405, 501))

# Words of 429 for an account that has run out, which no waiting helps.
_NO_CREDIT = re.compile(r"insufficient.{0,10}(?:quota|balance|credit)|exceeded your current quota|out of credits", re.I)

_MOVED = "Set base_url to its new address, often https:// instead of http://"


class NoPageError(BackendError):
    """The server has no such page, or not for such a request."""


class Connection(ABC):
    """A server. `get` and `post` raise the errors that `ServersClient` handles.

    Args:
        url: Its address, with ``/v1`` if it has that.
        settings: The settings of the pack.
        model: The model to request.
        key: The API key; None for none. It is sent only to this server and never logged.

    Attributes:
        engine: Its name and version; empty before `meet`.
        up: Set while it answers.
    """

    # What reads answers that come as a stream; None where none is expected.
    _make_merger: Callable[[], Merger] | None = None

    def __init__(self, url: str, settings: RunSettings, model: str, key: str | None) -> None:
        self.url, self.engine, self.up = url, "", asyncio.Event()
        self._settings, self._model, self._has_key = settings, model, bool(key)
        self._not_before = 0.0
        self._transport = Transport(url, settings.request_timeout, key)

    @abstractmethod
    async def meet(self) -> None:
        """Check that it is available, and set `engine`; called again after every outage.

        Raises:
            CutError, Failed: It does not answer now.
            GarbledError: It is another kind of server.
            BackendError: It lacks something that is needed.
        """

    async def close(self) -> None:
        """Close the connection."""
        await self._transport.close()

    @property
    def is_ready(self) -> bool:
        """Whether requests may be sent now."""
        return self.up.is_set() and self._not_before <= time.monotonic()

    async def wait_until_ready(self) -> None:
        """Wait until requests may be sent."""
        await self.up.wait()
        while (left := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(left * random.uniform(1.0, 1.1))  # noqa: S311 (no secret)

    async def wait_until_down(self) -> None:
        """Wait until it no longer answers."""
        while self.up.is_set():
            await asyncio.sleep(0.1)

    def pause(self, seconds: float) -> None:
        """Send no requests for some seconds."""
        self._not_before = max(self._not_before, time.monotonic() + seconds)

    async def read_page(self, path: str) -> str | None:
        """The text of a page beside ``/v1``, such as ``/metrics``; None where there is none or it does not come."""
        try:
            reply = await self._transport.request("GET", path, timeout=SECONDS_TO_SAY, root=True)
        except (CutError, Failed):
            return None
        return reply.read_body() if reply.status == 200 else None

    async def get(self, path: str) -> Json | str:
        """Get a page; results and errors as of `post`."""
        return await self._ask("GET", path, None, timeout=SECONDS_TO_SAY)

    async def post(self, path: str, body: Mapping[str, Any]) -> Json | str:
        """Send a body as JSON. Return the answer, or the reason why there will never be one.

        Raises:
            CutError, GarbledError, Failed: There is no answer, and a retry may help.
            BackendError: It will not answer any of our requests.
        """
        return await self._ask("POST", path, body)

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None, *, timeout: float | None = None
    ) -> Json | str:
        make_merger = self._make_merger
        reply = await self._transport.request(method, path, body, timeout=timeout, make_merger=make_merger)
        status = reply.status
        if status == 200:
            return reply.read_json()
        words = reply.read_words()
        self._refuse_debtors(status, words)
        self._refuse_for_now(reply)
        self._refuse_strangers(reply)
        if 300 <= status < 400:
            raise NoPageError(f"answers {status}: it has moved", where=f"{self.url}{path}", hint=_MOVED)
        if status in _NO_PAGE:
            raise NoPageError(f"answers {status}: {words}", where=f"{self.url}{path}", hint="Check base_url")
        return f"{status}: {words}"

    def _refuse_debtors(self, status: int, words: str) -> None:
        if status == 402 or (status == 429 and _NO_CREDIT.search(words)):
            raise BackendError(f"answers {status}: {words}", where=self.url, hint="Pay it")

    def _refuse_for_now(self, reply: Reply) -> None:
        status = reply.status
        if status in _NOT_NOW:
            wait_s, busy = retry_after(reply), status == 429
            raise Failed(f"{status}: {reply.read_words()}", turned_away=busy or wait_s is not None, retry_after=wait_s)
        if status >= 500:
            raise Failed(f"{status}: {reply.read_words()}")

    def _refuse_strangers(self, reply: Reply) -> None:
        if reply.status in (401, 403):
            variable = self._settings.api_key_env
            hint = f"Set {variable} to a key that it takes" if not self._has_key else f"Check {variable}"
            raise BackendError(f"answers {reply.status}: {reply.read_words()}", where=self.url, hint=hint)


# The most characters of a server's name.
_LONGEST_NAME = 200

# What servers call the length of a context: vLLM, OpenRouter and Together, Groq.
_LENGTHS = ("max_model_len", "context_length", "context_window")


class OpenAIConnection(Connection):
    """A server with ``/v1/models``."""

    def __init__(self, url: str, settings: RunSettings, model: str, key: str | None) -> None:
        super().__init__(url, settings, model, key)
        self._met, self._requested = False, model

    def read_model_name(self, named: object) -> str | None:
        """The name that a response gives to its model, in the spelling of the request; None if it gives none.

        Args:
            named: The field ``model`` of a response, whatever it is.
        """
        if not isinstance(named, str) or not named.strip():
            return None
        pairs = ((a, b) for name in (self._model, self._requested) for a, b in ((named, name), (name, named)))
        if any(same(a, b) for a, b in pairs for same in _SPELLINGS):
            return self._requested
        return one_line(named)[:_LONGEST_NAME]

    @abstractmethod
    async def _learn(self) -> None:
        """Find out what else it can do, when it is first met."""

    async def meet(self) -> None:
        """Check that the server answers and has the model; the first time, also find its abilities."""
        try:
            reply = await self._transport.request("GET", "/models", timeout=SECONDS_TO_SAY)
            status = reply.status
            self._refuse_strangers(reply)
            self._refuse_for_now(reply)
            card = self._card(reply.read_json()) if status == 200 else {}
            if self._met:
                return
            if status != 200:
                log.warning(f"{self.url} does not list its models ({status}): assuming that it serves {self._model}")
            self.engine = await self._engine(card, reply.header("Server"))
            await self._learn()
            self._met = True
        except GarbledError as error:
            raise Failed(str(error)) from None

    def _card(self, answer: Json) -> Json:
        """Find the server's entry of the requested model."""
        cards = _models(answer)
        for same in _SAME:
            for card in cards:
                if isinstance(card.get("id"), str) and any(same(name, self._model) for name in _names(card)):
                    self._check_length(card)
                    self._model = card["id"]
                    return card
        names = ", ".join(str(card.get("id")) for card in cards[:8]) or "nothing"
        raise BackendError(
            f"serves {names}, not {self._model}", where=self.url,
            hint="Set model_name to the served name and tokenizer to the model's hub id or folder; or start the server "
            "with --served-model-name",
        )  # fmt: skip

    def _check_length(self, card: Json) -> None:
        meta = card.get("meta")  # llama.cpp: context of a slot
        n_ctx = meta.get("n_ctx") if isinstance(meta, dict) else None
        longest = next((card[name] for name in _LENGTHS if name in card), n_ctx)
        max_model_len = self._settings.max_model_len
        if not isinstance(longest, int) or longest < 1:
            log.warning(
                f"{self.url} does not report its context length: max_model_len={max_model_len:,} is not checked"
            )
        elif longest < max_model_len:
            raise BackendError(
                f"serves contexts of {longest:,} tokens, and max_model_len is {max_model_len:,}", where=self.url,
                hint=f"Serve it with --max-model-len {max_model_len} (llama.cpp: -c, shared by its slots), or set "
                f"max_model_len to {longest}: tasks with longer prompts and answers (max_gen_toks) are then left out",
            )  # fmt: skip

    async def _engine(self, card: Json, server: str) -> str:
        name = card.get("owned_by") or server or "server"
        try:
            reply = await self._transport.request("GET", "/version", timeout=SECONDS_TO_SAY, root=True)
            version = reply.read_json().get("version") if reply.status == 200 else None
        except (GarbledError, Failed):
            version = None
        # The name is stored with every answer.
        return one_line(f"{name} {version}" if isinstance(version, str) else str(name))[:_LONGEST_NAME]


def _models(answer: Json) -> list[Json]:
    """The models that a server lists."""
    listed = answer.get("data")
    return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []


def _names(card: Json) -> Iterator[str]:
    """The server's names of a model: vLLM uses name or path, llama.cpp also aliases."""
    aliases = card.get("aliases")
    for name in (card.get("id"), card.get("root"), *(aliases if isinstance(aliases, list) else ())):
        if isinstance(name, str):
            yield name


def _is_tagged(name: str, model: str) -> bool:
    return name == f"{model}:latest"


def _is_file_of(name: str, model: str) -> bool:
    return name.endswith(".gguf") and model in (PurePath(name).name, PurePath(name).stem)


# Ways to match a server's model name with the requested name: equal; with Ollama's tag; as a file of llama.cpp.
_SAME: tuple[Callable[[str, str], bool], ...] = (
    str.__eq__,
    _is_tagged,
    _is_file_of,
)

# Ways in which a response may write the requested name.
_SPELLINGS = (lambda name, model: name.casefold() == model.casefold(), _is_tagged, _is_file_of)
