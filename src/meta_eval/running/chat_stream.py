"""Puts the chunks of a streamed chat completion together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from meta_eval.boundary.json_text import format_json
from meta_eval.running.transport import GarbledError, Json, parse_body

# Fields of a delta that are texts, in pieces.
_TEXTS = ("content", "reasoning", "reasoning_content", "refusal")

# The most tool calls of a message.
_MOST_CALLS = 1024


def is_stream(raw: bytes) -> bool:
    """Whether a body is a stream of events, whatever was asked for."""
    return raw[:200].lstrip().startswith((b"data:", b"event:", b":", b"id:"))


def merge_stream(raw: bytes) -> Json:
    """Make a ``chat.completion`` of a stream of ``chat.completion.chunk`` events.

    Raises:
        GarbledError: It ended early, holds an error or is no such stream.
    """
    body: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    is_over = False
    for data in _read_events(raw):
        if data == b"[DONE]":
            is_over = True
            break
        chunk = _parse(data)
        if chunk.get("error"):
            error = chunk["error"]
            reason = error.get("message") if isinstance(error, dict) else error
            raise GarbledError(f"a stream that holds an error: {' '.join(str(reason).split())[:300]}")
        if isinstance(chunk.get("model"), str):
            body["model"] = chunk["model"]
        if isinstance(chunk.get("usage"), dict):
            body["usage"] = chunk["usage"]
        parts = chunk.get("choices", [])
        for part in parts if isinstance(parts, list) else [None]:
            _add_part(choices, part)
    ended = choices and all(choice["finish_reason"] is not None for choice in choices.values())
    if not is_over and not ended:
        raise GarbledError("a stream that ended early")
    for choice in choices.values():
        calls = choice["message"].get("tool_calls")
        if calls is not None:
            choice["message"]["tool_calls"] = [calls[place] for place in sorted(calls)]
    return {**body, "choices": [choices[index] for index in sorted(choices)]}


def _read_events(raw: bytes) -> Iterator[bytes]:
    """The data of each event. Lines of one event belong together."""
    lines: list[bytes] = []
    for line in [*raw.splitlines(), b""]:
        if line.startswith(b"data:"):
            lines.append(line[5:].strip())
        elif not line and lines:
            yield b"\n".join(lines)
            lines = []


def _parse(data: bytes) -> Json:
    try:
        return parse_body(data)
    except GarbledError:
        raise GarbledError("a stream with an event that is not a JSON object") from None


def _add_part(choices: dict[int, dict[str, Any]], part: Any) -> None:
    index = part.get("index", 0) if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(index, int):
        raise GarbledError("a stream with a choice that is not an object")
    choice = choices.setdefault(index, {"index": index, "message": {}, "finish_reason": None})
    if part.get("finish_reason") is not None:
        choice["finish_reason"] = part["finish_reason"]
    delta = part.get("delta")
    if delta is None:
        return
    if not isinstance(delta, dict):
        raise GarbledError("a stream with a delta that is not an object")
    message = choice["message"]
    for name in _TEXTS:
        if isinstance(text := delta.get(name), str):
            message[name] = message.get(name, "") + text
        elif text is not None:
            raise GarbledError(f"a stream with a {name} that is not text")
    pieces = delta.get("tool_calls")
    if pieces is not None:
        _add_calls(message.setdefault("tool_calls", {}), pieces)


def _add_calls(calls: dict[int, dict[str, Any]], pieces: Any) -> None:
    """Add pieces of tool calls. A piece without an index belongs to the last call, unless it names a function."""
    for piece in pieces if isinstance(pieces, list) else [None]:
        function = piece.get("function") if isinstance(piece, dict) else None
        if not isinstance(piece, dict) or not isinstance(function, dict):
            raise GarbledError("a stream with a tool call that is not an object")
        name, arguments = function.get("name"), function.get("arguments")
        place = piece.get("index")
        if not isinstance(place, int):
            place = len(calls) if name or not calls else max(calls)
        if not 0 <= place < _MOST_CALLS:
            raise GarbledError("a stream with a wrong index of a tool call")
        call = calls.setdefault(place, {"function": {"name": None, "arguments": ""}})["function"]
        if isinstance(name, str) and name:
            call["name"] = (call["name"] or "") + name
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else format_json(arguments)
            call["arguments"] += text
