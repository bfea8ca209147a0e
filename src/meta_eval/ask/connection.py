"""A connection to a server: its availability, and single requests."""

from __future__ import annotations

import asyncio
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from meta_eval.ask.transport import Failed, Json, Merger, Reply, Transport, retry_after
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.base import BackendError

# Seconds for a server to identify itself.
TO_SAY = 60.0

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

    async def get(self, path: str) -> Json | str:
        """Get a page; results and errors as of `post`."""
        return await self._ask("GET", path, None, timeout=TO_SAY)

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
