"""HTTP to a server, with clear messages for failures.

An endpoint may repeat the API key anywhere: in an error, the name of a model, an answer. So this module alone reads
what it sends. A `Reply` hides the key first; what shortens a text comes afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import html
import json
import math
import random
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from itertools import takewhile
from typing import Any, Protocol
from urllib.parse import urlsplit

from meta_eval.base.hashing import is_loopback
from meta_eval.base.inputs import RepeatedNameError, check_tree, parse_foreign_json

# Seconds to connect.
_TO_CONNECT = 30.0

# Log-probabilities of a prompt of 128k tokens are some 25 MB of JSON.
_MOST_BYTES = 128 * 2**20

# What is asked for by GET is a page about a server: its models, its metrics.
_MOST_PAGE = 16 * 2**20

# Seconds to keep an idle connection: less than the five after which vLLM closes it.
_IDLE = 2.0

# Seconds of the first pause (doubled with each failure), of the longest, and of the longest that a server may request.
_FIRST, _MOST, _MOST_ASKED_FOR = 0.5, 60.0, 600.0

# The most characters of an endpoint's own words.
_LONGEST_WORDS = 500

# Characters from which a key is hidden in answers. A shorter one may be a word, such as EMPTY, which servers take.
_SECRET = 16

# Characters that JSON writes with an escape of their own.
_ESCAPED = frozenset('"/\\')

# Bytes that show whether a body is a stream.
_HEAD = 200

# What is said of an answer that was cut.
CUT_BODY = "it cut the connection in the middle of an answer"

# Explanations by names of aiohttp's errors and their bases; the first match counts.
_FAULTS = (
    ("ClientConnectorDNSError", "no machine has this name"),
    ("ClientConnectorCertificateError", "its certificate is not trusted here"),
    ("ClientSSLError", "it speaks no TLS: write http:// where it speaks plain HTTP"),
    ("ClientProxyConnectionError", "the proxy does not answer"),
    ("ClientHttpProxyError", "the proxy refuses it"),
    ("ServerDisconnectedError", "it closed the connection without an answer"),
    ("ClientPayloadError", CUT_BODY),
    ("ClientResponseError", "what it answers is no HTTP"),
    ("ConnectionRefusedError", "nobody listens there"),
    ("ClientConnectorError", "it cannot be reached"),
    ("InvalidURL", "this is no address"),
)

# What aiohttp says of a body that is not compressed as its header says, or in a way that aiohttp does not read.
_NOT_DECODED = ("decode content-encoding", "message='deflate'")


_TAG = re.compile(r"<[^<>]*>")

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


class Merger(Protocol):
    """Makes an answer of a stream of events while they come in."""

    @staticmethod
    def is_stream(head: bytes) -> bool:
        """Whether a body that begins so is such a stream."""

    def feed(self, part: bytes) -> None:
        """Read on.

        Raises:
            GarbledError: It is no such stream, or holds an error.
        """

    def finish(self) -> Json:
        """The answer; errors as of `feed`."""


def _list_forms(key: str) -> list[str]:
    """Patterns of how a key may be written: each character as it is or in an escape, or all of it in hex or base64.

    In base64 the text before it, such as a user's name, shifts its bits, and its own last bits hang on what follows.
    """
    forms, raw = ["".join(map(_spell, key))], key.encode()
    if len(raw) >= _SECRET:
        forms.append(r"(?:0x|\\x|[ ,:-]){0,2}".join(map(_spell_hex, raw)))
    for before in range(3) if len(raw) >= _SECRET else ():
        bits = 8 * before, 8 * (before + len(raw))
        text = base64.b64encode(bytes(before) + raw).decode()[math.ceil(bits[0] / 6) : bits[1] // 6]
        forms += map(re.escape, (text, text.translate({ord("+"): "-", ord("/"): "_"})))
    return forms


def _spell(character: str) -> str:
    """A pattern of a character: as it is, or in an escape of JSON, HTML or addresses, which may be escaped once more.

    Each way begins with a plain character, so that the search passes quickly over what has none of them.
    """
    plain, number, code = re.escape(character), ord(character), _spell_hex(ord(character))
    octets = "".join(f"%(?:25)*{_spell_hex(byte)}" for byte in character.encode())
    named = re.escape(html.escape(character).removeprefix("&"))
    html_escape = rf"&(?:amp;)*(?:{named}|#0*{number};|#[xX]0*{code};)"
    return rf"(?:{plain}|\\\\{{0,2}}{plain}|\\\\?(?:u00|x){code}|{octets}|{html_escape})"


def _spell_hex(number: int) -> str:
    """A pattern of a number in hex, in letters of either case."""
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{number:02x}")


def _count_alike(a: str, b: str) -> int:
    """How many first characters two texts share."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


class _Key:
    """Hides an API key in whatever an endpoint sends."""

    def __init__(self, key: str | None) -> None:
        self._key = key or ""
        self._forms = [re.compile(form, re.IGNORECASE) for form in _list_forms(self._key)] if key else []
        # Each half of the key has one of its quarters whole.
        quarter = len(self._key) // 4 if len(self._key) >= _SECRET else 0
        self._parts = [(at, self._key[at : at + quarter].lower()) for at in range(0, 4 * quarter, quarter or 1)]

    def hide(self, value: Any, *, at_least: int = 1) -> Any:
        """A text, or all texts of a JSON tree, without the key, if that has so many characters."""
        if not self._key or len(self._key) < at_least:
            return value
        if isinstance(value, str):
            for form in self._forms:
                value = form.sub("…", value)
            return self._hide_parts(value)
        if isinstance(value, list):
            return [self.hide(item) for item in value]
        if isinstance(value, dict):
            return {self.hide(name): self.hide(item) for name, item in value.items()}
        return value

    def _hide_parts(self, text: str) -> str:
        """The text without half of the key and more, in letters of either case."""
        spans, low, key = [], text.lower(), self._key.lower()
        for start, part in self._parts if len(low) == len(text) else ():
            at = low.find(part)
            while at >= 0:
                begin = at - _count_alike(key[:start][::-1], low[max(0, at - start) : at][::-1])
                end = at + _count_alike(key[start:], low[at : at + len(key) - start])
                if end - begin >= len(key) // 2:
                    spans.append((begin, end))
                at = low.find(part, end)
        for begin, end in sorted({*spans}, reverse=True):
            text = f"{text[:begin]}…{text[end:]}"
        return text

    def is_in(self, raw: bytes) -> bool:
        """Whether JSON may hold the key, as it is or with escapes. Large answers without it are not searched."""
        escapes = not _ESCAPED.isdisjoint(self._key) or b"\\u00" in raw or b"\\/" in raw
        text = "" if escapes else raw.decode("utf-8", "replace")
        low = text.lower()
        return escapes or any(form.search(text) for form in self._forms) or any(part in low for _, part in self._parts)


class Reply:
    """What a server sent. No text of it is given away before the key is hidden.

    Attributes:
        status: The HTTP status.
    """

    __slots__ = ("_body", "_headers", "_key", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes | Json, key: _Key) -> None:
        self.status, self._headers, self._body, self._key = status, headers, body, key

    def header(self, name: str) -> str:
        """A header; empty if it is not there."""
        text: str = self._key.hide(self._headers.get(name, ""), at_least=_SECRET)
        return str(check_tree(text))

    def read_json(self) -> Json:
        """The body as a JSON object, or the answer that a stream made.

        Raises:
            GarbledError: It is not an object.
        """
        raw, tree = self._body, self._parse()
        if isinstance(raw, bytes) and not self._key.is_in(raw):
            return tree
        return self._hidden(tree, at_least=1 if tree.get("error") else _SECRET)

    def read_body(self) -> str:
        """The body as text."""
        raw = self._body
        return str(self._key.hide(raw.decode("utf-8", "replace"))) if isinstance(raw, bytes) else ""

    def read_words(self) -> str:
        """Why the server refuses a request, as a single line, without tags of HTML: one may stand inside a key."""
        raw = self._body
        try:
            tree = self._parse()
        except GarbledError:
            text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""
            return shorten_words(self._key.hide(_TAG.sub("", text))) or "no reason given"
        error = tree.get("error", tree)
        reason = error.get("message") or error.get("detail") if isinstance(error, dict) else error
        return shorten_words(self._key.hide(_TAG.sub("", str(reason or tree))))

    def _parse(self) -> Json:
        """The body, without lone surrogates: a text of it can be written and hashed."""
        if isinstance(self._body, bytes):
            return parse_body(self._body)
        try:
            merged: Json = check_tree(self._body)
        except ValueError:
            raise GarbledError("a response that is nested too deeply") from None
        return merged

    def _hidden(self, tree: Json, *, at_least: int) -> Json:
        try:
            hidden: Json = self._key.hide(tree, at_least=at_least)
        except RecursionError:
            raise GarbledError("a response that is nested too deeply") from None
        return hidden


class Transport:
    """The connections to one server.

    Args:
        url: The address, with ``/v1``.
        timeout: Seconds for an answer.
        key: The API key; None for none. It is sent only to this server and never logged.
    """

    def __init__(self, url: str, timeout: float, key: str | None) -> None:
        import aiohttp

        self._url, self._timeout, self._key = url, timeout, _Key(key)
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
        root: bool = False, make_merger: Callable[[], Merger] | None = None,
    ) -> Reply:  # fmt: skip
        """Send a request.

        Args:
            method, path: Such as ``POST`` and ``/completions``.
            body: Sent as JSON.
            timeout: Seconds; None for the usual timeout.
            root: Count the path from the server's root, not from its ``/v1``.
            make_merger: Makes what reads an answer that comes as a stream; None where none is expected.

        Raises:
            CutError: There is no connection, or it was cut.
            GarbledError: A stream has the wrong form, or holds an error; or the body cannot be decoded.
            Failed: No answer in time, or an endless one.
        """
        import aiohttp

        options: dict[str, Any] = {"allow_redirects": False}
        if body is not None:
            options |= {"data": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}
        limit = self._timeout if timeout is None else min(timeout, self._timeout)
        if timeout is not None:
            options["timeout"] = aiohttp.ClientTimeout(total=limit, sock_connect=_TO_CONNECT)
        url = (self._url.removesuffix("/v1") if root else self._url) + path
        try:
            async with self._session.request(method, url, **options) as response:
                merger = make_merger() if make_merger is not None and response.status == 200 else None
                content = await _read(response, merger, _MOST_PAGE if method == "GET" else _MOST_BYTES)
                return Reply(response.status, response.headers, content, self._key)
        except GarbledError as error:
            raise GarbledError(shorten_words(self._key.hide(str(error)))) from None
        except aiohttp.ConnectionTimeoutError:
            raise CutError(await _explain_silence(url)) from None
        except TimeoutError:
            raise Failed(f"no answer within {limit:g} seconds") from None
        except (aiohttp.ClientError, OSError) as error:
            if any(words in str(error) for words in _NOT_DECODED):
                raise GarbledError("a response whose Content-Encoding cannot be read") from None
            raise CutError(_fault(error)) from None


async def _explain_silence(url: str) -> str:
    """Explain why a connection was not made in time: of a server without TLS only the first half is."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        try:
            _, writer = await asyncio.wait_for(
                asyncio.open_connection(parts.hostname, parts.port or 443), min(_TO_CONNECT, 5)
            )
        except (OSError, TimeoutError):
            pass
        else:
            writer.close()
            return f"the port is open, and no TLS came within {_TO_CONNECT:g} seconds: try http:// instead of https://"
    return f"no connection within {_TO_CONNECT:g} seconds"


def draw_backoff(failures: int, most: float = _MOST) -> float:
    """Seconds before the next attempt: doubled after each failure, times a random factor from 0.5 to 1, so that retries
    are spread."""
    return min(most, _FIRST * 2.0 ** max(0, failures - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 (no secret)


def retry_after(reply: Reply) -> float | None:
    """Read ``Retry-After`` in seconds, from either of its two forms. A time that is over, or shorter than our own first
    pause, is none: a server that always names it would get requests without a pause."""
    header = reply.header("Retry-After").strip()
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(seconds, _MOST_ASKED_FOR) if _FIRST <= seconds < math.inf else None


def _fault(error: BaseException) -> str:
    """Explain an error to a user; aiohttp's messages are about sockets."""
    inner = getattr(error, "os_error", None)
    names = {kind.__name__ for fault in (error, inner) if fault is not None for kind in type(fault).__mro__}
    return next((words for name, words in _FAULTS if name in names), "the connection was cut")


async def _read(response: Any, merger: Merger | None, most: int) -> bytes | Json:
    """Read a body of at most so many bytes, also a compressed one. A stream is read while it comes in.

    Raises:
        Failed: It is longer than any answer.
        GarbledError: As of `Merger.feed`.
    """
    parts: list[bytes] = []
    length, is_stream = 0, False
    async for part in response.content.iter_any():
        length += len(part)
        if length > most:
            raise Failed(f"an answer of more than {most // 2**20} MiB")
        if merger is not None and is_stream:
            merger.feed(part)
            continue
        parts.append(part)
        if merger is not None and length >= _HEAD:
            if is_stream := merger.is_stream(raw := b"".join(parts)):
                merger.feed(raw)
            else:
                merger = None
    raw = b"".join(parts)
    if merger is None or not (is_stream or merger.is_stream(raw)):
        return raw
    if not is_stream:
        merger.feed(raw)
    return merger.finish()


def shorten_words(text: str) -> str:
    """An endpoint's words as a single line of limited length. The key must be hidden before."""
    return str(check_tree(" ".join(text.split())[:_LONGEST_WORDS]))


def parse_body(raw: bytes) -> Json:
    """Parse a body as a JSON object. Lone surrogates become U+FFFD.

    Raises:
        GarbledError: It is not an object, or holds one with a name twice.
    """
    try:
        content = parse_foreign_json(raw)
    except RepeatedNameError:  # the name may be the key
        raise GarbledError("a response that has a name twice in one object") from None
    except ValueError:
        is_page = raw[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))
        raise GarbledError(f"a response that is {'an HTML page, ' if is_page else ''}not JSON") from None
    if not isinstance(content, dict):
        raise GarbledError("a response that is not a JSON object")
    return content
