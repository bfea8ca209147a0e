"""One server: whether it is there, and one request to it, in whatever words it is asked."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from meta_eval.backends.base import BackendError
from meta_eval.backends.settings import RunSettings
from meta_eval.running.transport import Failed, Json, Transport, parse_body, read_complaint, retry_after

# Seconds until a server must have said what it is.
TO_SAY = 60.0

# What says "not now": too early, too many, overloaded, and what stands before a server that is starting.
_NOT_NOW = frozenset((408, 425, 429, 503))

# What says that there is no such page.
_NO_PAGE = frozenset((404, 405, 501))


class NoPageError(BackendError):
    """The server has no such page, or has none for such a request."""


class Connection(ABC):
    """One server. What is sent by `get` and `post` says each failure in the errors that `ServersClient` understands.

    Args:
        url: Its address, with the ``/v1`` of those that have one.
        settings: Of the pack.
        model: What to ask for.
        key: Of the API; None for none. It is told to this server alone, and to no log.

    Attributes:
        engine: Its name and version; empty until it was met.
        up: Set while it answers.
    """

    def __init__(self, url: str, settings: RunSettings, model: str, key: str | None) -> None:
        self.url, self.engine, self.up = url, "", asyncio.Event()
        self._settings, self._model, self._has_key = settings, model, bool(key)
        self._not_before = 0.0
        self._transport = Transport(url, settings.request_timeout, key)

    @abstractmethod
    async def meet(self) -> None:
        """See that it is there and can answer, and set `engine`; called again each time that it was gone.

        Raises:
            CutError, Failed: It does not answer now.
            BackendError: It has not what is needed.
        """

    async def close(self) -> None:
        """Let go of it."""
        await self._transport.close()

    @property
    def is_ready(self) -> bool:
        """Whether it may be asked now."""
        return self.up.is_set() and self._not_before <= time.monotonic()

    async def wait_until_ready(self) -> None:
        """Wait until it may be asked."""
        await self.up.wait()
        while (left := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(left * random.uniform(1.0, 1.1))  # noqa: S311 (no secret)

    async def wait_until_down(self) -> None:
        """Wait until it no longer answers."""
        while self.up.is_set():
            await asyncio.sleep(0.1)

    def pause(self, seconds: float) -> None:
        """Send nothing for so many seconds."""
        self._not_before = max(self._not_before, time.monotonic() + seconds)

    async def get(self, path: str) -> Json | str:
        """What a page of it says, as `post`."""
        return await self._ask("GET", path, None, timeout=TO_SAY)

    async def post(self, path: str, body: Mapping[str, Any]) -> Json | str:
        """What it answers to a body that is sent as JSON, or why it never will.

        Raises:
            CutError, GarbledError, Failed: There is no answer, and asking again may help.
            BackendError: It will answer nothing of ours.
        """
        return await self._ask("POST", path, body)

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None, *, timeout: float | None = None
    ) -> Json | str:
        status, headers, raw = await self._transport.request(method, path, body, timeout=timeout)
        if status == 200:
            return parse_body(raw)
        words = self._words(raw)
        self._refuse_for_now(status, headers, words)
        self._refuse_strangers(status, raw)
        if status in _NO_PAGE:
            raise NoPageError(f"answers {status}: {words}", where=f"{self.url}{path}", hint="Check base_url")
        return f"{status}: {words}"

    def _refuse_for_now(self, status: int, headers: Mapping[str, str], words: str) -> None:
        if status in _NOT_NOW:
            after = retry_after(headers)
            raise Failed(f"{status}: {words}", turned_away=status == 429 or after is not None, retry_after=after)
        if status >= 500:
            raise Failed(f"{status}: {words}")

    def _refuse_strangers(self, status: int, raw: bytes) -> None:
        if status in (401, 403):
            hint = "Set OPENAI_API_KEY to a key that it takes" if not self._has_key else "Check OPENAI_API_KEY"
            raise BackendError(f"answers {status}: {self._words(raw)}", where=self.url, hint=hint)

    def _words(self, raw: bytes) -> str:
        return self._transport.hide_key(read_complaint(raw))
