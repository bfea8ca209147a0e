"""One server: what it is, what it takes, whether it is there, and one request to it."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from meta_eval.engines.server import is_loopback
from meta_eval.engines.settings import RunSettings
from meta_eval.notes import log
from meta_eval.running import completions
from meta_eval.running.client import BackendError
from meta_eval.running.completions import FORCED, PROBE, Abilities, GarbledError, Json
from meta_eval.shown import one_line

# Seconds until somebody must have taken a connection, and until a server must have said what it is.
_TO_CONNECT = 30.0
_TO_SAY = 60.0

# The likelihood of every token of a prompt of 128k tokens is some 25 MB of JSON; and what a server's name may take.
_MOST_BYTES = 128 * 2**20
_LONGEST_NAME = 200

# Seconds for which an idle connection is kept: less than the five after which vLLM closes it.
_IDLE = 2.0

# Seconds of the first pause, which doubles with each failure, the longest, and the longest that a server may ask for.
_FIRST, _MOST, _MOST_ASKED_FOR = 0.5, 60.0, 600.0

# What says "not now": too early, too many, overloaded, and what stands before a server that is starting.
_NOT_NOW = frozenset((408, 425, 429, 503))


class CutError(Exception):
    """The connection was refused or cut: the server may be gone."""


class Failed(Exception):  # noqa: N818 (it is the request that has)
    """A request failed and may be asked again.

    Attributes:
        turned_away: Whether the server was only too busy.
        retry_after: The seconds that it asks for.
    """

    def __init__(self, what: str, *, turned_away: bool = False, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.turned_away, self.retry_after = turned_away, retry_after


def backoff(failures: int, most: float = _MOST) -> float:
    """Seconds before the next attempt: twice as many after each failure, and between half of them and all, so that
    what failed together does not come back together."""
    return min(most, _FIRST * 2.0 ** max(0, failures - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 (no secret)


class Connection:
    """One server.

    Args:
        url: With its ``/v1``.
        settings: Of the pack.
        model: What to ask for.
        key: Of the API; None for none. It is told to this server alone, and to no log.

    Attributes:
        engine: Its name and version; empty until it was met.
        can: What it takes.
        up: Set while it answers.
    """

    def __init__(self, url: str, settings: RunSettings, model: str, key: str | None) -> None:
        import aiohttp

        self.url, self.engine, self.can, self.up = url, "", Abilities(), asyncio.Event()
        self._settings, self._model, self._key = settings, model, key
        self._met = False
        self._not_before = 0.0
        self._learning = asyncio.Lock()
        # The proxies of the environment are for the world outside.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE),
            timeout=aiohttp.ClientTimeout(total=settings.request_timeout, sock_connect=_TO_CONNECT),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            trust_env=not is_loopback(url),
        )

    async def close(self) -> None:
        await self._session.close()

    @property
    def is_ready(self) -> bool:
        """Whether it may be asked now."""
        return self.up.is_set() and self._not_before <= time.monotonic()

    async def ready(self) -> None:
        """Until it may be asked."""
        await self.up.wait()
        while (left := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(left * random.uniform(1.0, 1.1))  # noqa: S311 (no secret)

    async def down(self) -> None:
        """Until it is not there."""
        while self.up.is_set():
            await asyncio.sleep(0.1)

    def leave_alone(self, seconds: float) -> None:
        """Ask nothing for so long."""
        self._not_before = max(self._not_before, time.monotonic() + seconds)

    async def meet(self) -> None:
        """See that it is there and has the model; the first time also what it takes.

        Raises:
            CutError, Failed: It does not answer now.
            BackendError: It has not what is needed.
        """
        try:
            status, headers, raw = await self._request("GET", "/models", timeout=_TO_SAY)
            self._refuse_strangers(status, raw)
            if status in _NOT_NOW or status >= 500:
                raise Failed(f"{status}: {self._words(raw)}")
            card = self._card(completions.parsed(raw)) if status == 200 else {}
            if self._met:
                return
            if status != 200:
                log.warning(f"{self.url} does not list its models ({status}): {self._model} is asked for unseen")
            self.engine = await self._engine(card, headers)
            await self._learn()
            self._met = True
        except GarbledError as error:
            raise Failed(str(error)) from None

    async def complete(self, body: Mapping[str, Any]) -> Json | str:
        """One completion, or why the server will never give it.

        Raises:
            CutError, GarbledError, Failed: There is none, and asking again may help.
            BackendError: It will answer nothing of ours.
        """
        status, headers, raw = await self._request("POST", "/completions", {"model": self._model, **body})
        if status == 200:
            return completions.parsed(raw)
        words = self._words(raw)
        if status in _NOT_NOW:
            after = _retry_after(headers)
            raise Failed(f"{status}: {words}", turned_away=status == 429 or after is not None, retry_after=after)
        if status >= 500:
            raise Failed(f"{status}: {words}")
        self._refuse_strangers(status, raw)
        if status == 404:
            raise BackendError(f"answers 404: {words}", where=f"{self.url}/completions", hint="Check base_url")
        return f"{status}: {words}"

    async def can_label(self) -> bool:
        """Whether it says the log-probabilities of tokens that are named, found out once."""
        async with self._learning:
            if self.can.labels is None:
                ids = [0, 1]
                self.can.labels = await self._tried(
                    completions.labels(PROBE, ids), lambda answer: completions.read_labels(answer, ids)
                )
            return self.can.labels

    async def how_forced(self) -> str:
        """How it says those of a prompt's tokens, found out once; empty if it does not."""
        async with self._learning:
            for how in FORCED if self.can.forced is None else ():
                body = completions.forced(PROBE[:1], PROBE[1:], how)
                if await self._tried(body, lambda answer, how=how: completions.read_forced(answer, PROBE[1:], how)):
                    self.can.forced = how
                    break
            self.can.forced = self.can.forced or ""
            return self.can.forced

    async def _tried(self, body: Mapping[str, Any], read: Any) -> bool:
        answer = await self.complete(body)
        if isinstance(answer, str):
            return False
        try:
            read(answer)
        except GarbledError:
            return False
        return True

    def _refuse_strangers(self, status: int, raw: bytes) -> None:
        if status in (401, 403):
            hint = "Set OPENAI_API_KEY to a key that it takes" if not self._key else "Check OPENAI_API_KEY"
            raise BackendError(f"answers {status}: {self._words(raw)}", where=self.url, hint=hint)

    def _card(self, answer: Json) -> Json:
        """What it says of the model that is asked for, which vLLM knows by its name or its path."""
        listed = answer.get("data")
        cards = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        for name in ("id", "root"):
            for card in cards:
                if card.get(name) == self._model and isinstance(card.get("id"), str):
                    longest = card.get("max_model_len")
                    wanted = self._settings.max_model_len
                    if isinstance(longest, int) and longest < wanted:
                        raise BackendError(
                            f"serves contexts of {longest:,} tokens, and max_model_len is {wanted:,}", where=self.url,
                            hint=f"Serve it with --max-model-len {wanted}, or lower max_model_len",
                        )  # fmt: skip
                    self._model = card["id"]
                    return card
        names = ", ".join(str(card.get("id")) for card in cards[:8]) or "nothing"
        raise BackendError(
            f"does not serve {self._model}, but {names}", where=self.url,
            hint="Set model_name to what is there, or start the server with --served-model-name",
        )  # fmt: skip

    async def _engine(self, card: Json, headers: Mapping[str, str]) -> str:
        name = card.get("owned_by") or headers.get("Server") or "server"
        try:
            status, _, raw = await self._request("GET", "/version", timeout=_TO_SAY, root=True)
            version = completions.parsed(raw).get("version") if status == 200 else None
        except (GarbledError, Failed):
            version = None
        # It stands beside every answer.
        return self._hidden(one_line(f"{name} {version}" if isinstance(version, str) else str(name))[:_LONGEST_NAME])

    async def _learn(self) -> None:
        """Whether it takes token ids, and which of `EXTRAS`: what it names in a refusal is left out."""
        while True:
            body = {"max_tokens": 1, "temperature": 0.0, **self.can.extras}
            answer = await self.complete({**body, "prompt": list(PROBE) if self.can.token_ids else "1"})
            if not isinstance(answer, str):
                break
            named = [name for name in self.can.extras if re.search(rf"\b{name}\b", answer)]
            if not named and not self.can.token_ids and not self.can.extras:
                raise BackendError(f"refuses the simplest request: {answer}", where=self.url)
            if named or self.can.extras:
                for name in named or tuple(self.can.extras):
                    del self.can.extras[name]
            else:
                self.can = Abilities(token_ids=False)
        completions.choice_of(answer)
        if self.can.token_ids and completions.other_prompt(answer, PROBE):
            self.can = Abilities(token_ids=False, extras=self.can.extras)
        if not self.can.token_ids:
            log.warning(f"{self.url} takes no token ids: prompts go out as text, and it must add the BOS")
        if missing := [name for name in completions.EXTRAS if name not in self.can.extras]:
            log.warning(f"{self.url} does not take {', '.join(missing)}: asked without")

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None,
        root: bool = False,
    ) -> tuple[int, Mapping[str, str], bytes]:  # fmt: skip
        import aiohttp

        options: dict[str, Any] = {"allow_redirects": False}
        if body is not None:
            options |= {"data": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}
        if timeout is not None:
            limit = min(timeout, self._settings.request_timeout)
            options["timeout"] = aiohttp.ClientTimeout(total=limit, sock_connect=_TO_CONNECT)
        url = (self.url.removesuffix("/v1") if root else self.url) + path
        try:
            async with self._session.request(method, url, **options) as response:
                return response.status, response.headers, await _read(response)
        except aiohttp.ConnectionTimeoutError:
            raise CutError("nobody takes the connection") from None
        except TimeoutError:
            raise Failed(f"no answer within {timeout or self._settings.request_timeout:g} seconds") from None
        except (aiohttp.ClientError, OSError) as error:
            raise CutError(self._hidden(str(error) or type(error).__name__)) from None

    def _words(self, raw: bytes) -> str:
        return self._hidden(completions.complaint(raw))

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text


async def _read(response: Any) -> bytes:
    """A body, which may be an endless one, or a small one that unpacks to that.

    Raises:
        Failed: It is longer than any answer.
    """
    parts, length = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        length += len(part)
        if length > _MOST_BYTES:
            raise Failed(f"an answer of more than {_MOST_BYTES // 2**20} MiB")
    return b"".join(parts)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds, whichever of its two forms it has."""
    said = headers.get("Retry-After", "").strip()
    if not said:
        return None
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(0.0, seconds), _MOST_ASKED_FOR) if math.isfinite(seconds) else None
