"""HTTP to a server, with clear messages for failures."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from meta_eval.backends.addresses import is_loopback
from meta_eval.boundary.json_text import parse_loose_json

# Seconds to connect.
_TO_CONNECT = 30.0

# Log-probabilities of a prompt of 128k tokens are some 25 MB of JSON.
_MOST_BYTES = 128 * 2**20

# Seconds to keep an idle connection: less than the five after which vLLM closes it.
_IDLE = 2.0

# Seconds of the first pause (doubled with each failure), of the longest, and of the longest that a server may request.
_FIRST, _MOST, _MOST_ASKED_FOR = 0.5, 60.0, 600.0

# Explanations by names of aiohttp's errors and their bases; the first match counts.
_FAULTS = (
    ("ClientConnectorDNSError", "no machine has this name"),
    ("ClientConnectorCertificateError", "its certificate is not trusted here"),
    ("ClientSSLError", "it speaks no TLS: write http:// where it speaks plain HTTP"),
    ("ClientProxyConnectionError", "the proxy does not answer"),
    ("ClientHttpProxyError", "the proxy refuses it"),
    ("ServerDisconnectedError", "it closed the connection without an answer"),
    ("ClientPayloadError", "it cut the connection in the middle of an answer"),
    ("ClientResponseError", "what it answers is no HTTP"),
    ("ConnectionRefusedError", "nobody listens there"),
    ("ClientConnectorError", "it cannot be reached"),
    ("InvalidURL", "this is no address"),
)


Json = Mapping[str, Any]


class GarbledError(ValueError):
    """An answer has the wrong form; the request may be sent again."""


class CutError(Exception):
    """The connection was refused or cut: the server may be gone."""


class Failed(Exception):  # noqa: N818 (the request has failed)
    """A request failed and may be retried.

    Attributes:
        turned_away: Whether the server was only too busy.
        retry_after: Seconds that the server asks to wait.
    """

    def __init__(self, what: str, *, turned_away: bool = False, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.turned_away, self.retry_after = turned_away, retry_after


class Transport:
    """The connections to one server.

    Args:
        url: The address, with ``/v1``.
        timeout: Seconds for an answer.
        key: The API key; None for none. It is sent only to this server and never logged.
    """

    def __init__(self, url: str, timeout: float, key: str | None) -> None:
        import aiohttp

        self._url, self._timeout, self._key = url, timeout, key
        # Ignore the environment's proxies for loopback addresses.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE),
            timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=_TO_CONNECT),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            trust_env=not is_loopback(url),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None,
        root: bool = False,
    ) -> tuple[int, Mapping[str, str], bytes]:  # fmt: skip
        """Send a request. Return status, headers and body.

        Args:
            method, path: Such as ``POST`` and ``/completions``.
            body: Sent as JSON.
            timeout: Seconds; None for the usual timeout.
            root: Count the path from the server's root, not from its ``/v1``.

        Raises:
            CutError: There is no connection, or it was cut.
            Failed: No answer in time, or an endless one.
        """
        import aiohttp

        options: dict[str, Any] = {"allow_redirects": False}
        if body is not None:
            options |= {"data": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}
        if timeout is not None:
            limit = min(timeout, self._timeout)
            options["timeout"] = aiohttp.ClientTimeout(total=limit, sock_connect=_TO_CONNECT)
        url = (self._url.removesuffix("/v1") if root else self._url) + path
        try:
            async with self._session.request(method, url, **options) as response:
                return response.status, response.headers, await _read(response)
        except aiohttp.ConnectionTimeoutError:
            raise CutError("connection refused") from None
        except TimeoutError:
            raise Failed(f"no answer within {timeout or self._timeout:g} seconds") from None
        except (aiohttp.ClientError, OSError) as error:
            raise CutError(_fault(error)) from None

    def hide_key(self, text: str, *, at_least: int = 1) -> str:
        """A text without the key, if that has so many characters."""
        return text.replace(self._key, "…") if self._key and len(self._key) >= at_least else text


def draw_backoff(failures: int, most: float = _MOST) -> float:
    """Seconds before the next attempt: doubled after each failure, times a random factor from 0.5 to 1, so that retries
    are spread."""
    return min(most, _FIRST * 2.0 ** max(0, failures - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 (no secret)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read ``Retry-After`` in seconds, from either of its two forms."""
    header = headers.get("Retry-After", "").strip()
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(0.0, seconds), _MOST_ASKED_FOR) if math.isfinite(seconds) else None


def _fault(error: BaseException) -> str:
    """Explain an error to a user; aiohttp's messages are about sockets."""
    inner = getattr(error, "os_error", None)
    names = {kind.__name__ for fault in (error, inner) if fault is not None for kind in type(fault).__mro__}
    return next((words for name, words in _FAULTS if name in names), "the connection was cut")


async def _read(response: Any) -> bytes:
    """Read a body with a size limit, also for compressed bodies.

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


def parse_body(raw: bytes) -> Json:
    """Parse a body as a JSON object.

    Raises:
        GarbledError: It is not an object.
    """
    try:
        content = parse_loose_json(raw)
    except ValueError:
        is_page = raw[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))
        raise GarbledError(f"a response that is {'an HTML page, ' if is_page else ''}not JSON") from None
    if not isinstance(content, dict):
        raise GarbledError("a response that is not a JSON object")
    return content


def read_complaint(raw: bytes) -> str:
    """Read why a server refuses a request, as a single line."""
    try:
        content = parse_body(raw)
    except GarbledError:
        return " ".join(raw[:300].decode("utf-8", "replace").split()) or "no reason given"
    error = content.get("error", content)
    reason = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    return " ".join(str(reason or content).split())[:500]
