"""Parses batch files of chat endpoints: a line per request, and a line per result.

OpenAI's format, which other services and ``vllm run-batch`` share. A request is ``{"custom_id", "method", "url",
"body"}``, a result ``{"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meta_eval.harness.chat_completion import ChatCompletion, read_chat_completion

if TYPE_CHECKING:
    from meta_eval.sockets import Holding

CHAT_URL = "/v1/chat/completions"

_OK = 200
_NO_REASON = "no reason was given"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A line of a file of requests."""

    custom_id: str
    """The name that its result repeats."""

    body: Mapping[str, Any]
    """What the endpoint gets."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """A line of a file of results."""

    custom_id: str
    """The name of its request."""

    completion: ChatCompletion | None
    """The answer; None if the request failed."""

    error: str | None
    """Why the request failed; None if it did not."""


def is_batch_request(content: object) -> bool:
    """Whether the content of a line is a request of a batch."""
    return isinstance(content, Mapping) and "custom_id" in content and "body" in content


def is_batch_result(content: object) -> bool:
    """Whether the content of a line is a result of a batch."""
    return isinstance(content, Mapping) and "custom_id" in content and ("response" in content or "error" in content)


def find_kind(content: object) -> Holding | None:
    """What a line holds; None if it is not of a batch file."""
    if is_batch_result(content):
        return "answers"
    if is_batch_request(content):
        return "requests"
    return "golds" if isinstance(content, Mapping) and {"custom_id", "gold"} <= content.keys() else None


def format_batch_request(request: BatchRequest) -> dict[str, Any]:
    """The content of a line of a file of requests."""
    return {"custom_id": request.custom_id, "method": "POST", "url": CHAT_URL, "body": request.body}


def read_batch_request(content: Mapping[str, Any]) -> BatchRequest:
    """Parse a request.

    Raises:
        ValueError: It is not a request with chat messages. The text is one line, and fits behind "it".
    """
    body, url = content["body"], content.get("url", CHAT_URL)
    if not isinstance(url, str) or not url.endswith("/chat/completions"):
        raise ValueError(f"asks another address than {CHAT_URL}")
    if not isinstance(body, Mapping) or not _are_messages(body.get("messages")):
        raise ValueError("holds no messages")
    return BatchRequest(_read_id(content), body)


def read_batch_result(content: Mapping[str, Any]) -> BatchResult:
    """Parse a result. A response that is no chat completion counts as a failed request.

    Raises:
        ValueError: It names no request. The text is one line, and fits behind "it".
    """
    custom_id, response, error = _read_id(content), content.get("response"), content.get("error")
    if error is not None:
        return BatchResult(custom_id, None, _describe(error))
    if not isinstance(response, Mapping):
        return BatchResult(custom_id, None, "it has neither a response nor an error")
    status, body = response.get("status_code", _OK), response.get("body")
    if status not in (_OK, str(_OK)):
        number = _as_text(status)
        why = f"HTTP {number}: {_describe(body)}" if number.isdecimal() else "its status_code is no number"
        return BatchResult(custom_id, None, why)
    try:
        completion = read_chat_completion(body)
    except ValueError as wrong:
        return BatchResult(custom_id, None, f"the response {wrong}")
    if len(completion.choices) > 1:
        return BatchResult(custom_id, None, f"the response holds {len(completion.choices)} answers, and one was asked")
    return BatchResult(custom_id, completion, None)


def _read_id(content: Mapping[str, Any]) -> str:
    custom_id = content["custom_id"]
    if not isinstance(custom_id, str) or not custom_id:
        raise ValueError("has a custom_id that is no text")
    return custom_id


def _are_messages(messages: object) -> bool:
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(message, Mapping) and isinstance(message.get("role"), str) for message in messages)
    )


def _describe(error: object) -> str:
    """The words of an error: a text, or an object with ``message`` and ``code``, perhaps inside another's ``error``."""
    while isinstance(error, Mapping) and error.get("error") is not None:
        error = error["error"]
    if isinstance(error, Mapping):
        code, message = (_as_text(error.get(name)) for name in ("code", "message"))
        return ": ".join(filter(None, (code or _as_text(error.get("type")), message))) or _NO_REASON
    return _as_text(error) or _NO_REASON


def _as_text(value: object) -> str:
    """A text or number as text; nothing else, which may be nested deeply."""
    return str(value) if isinstance(value, str | int | float) else ""
