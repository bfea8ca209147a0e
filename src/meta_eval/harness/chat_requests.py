"""Chat requests in samples of lm-eval: the messages that it sent to a chat endpoint, as JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from meta_eval.base.inputs import parse_json


def read_messages_text(prompt: object) -> str | None:
    """The JSON text of the messages of a request; None of a text prompt.

    lm-eval writes its wrapper of this text, a tuple, as a list of one text.
    """
    if isinstance(prompt, (list, tuple)) and len(prompt) == 1 and isinstance(prompt[0], str):
        return prompt[0]
    return None


def parse_chat_messages(text: str) -> list[dict[str, Any]]:
    """Parse the JSON text of messages.

    Raises:
        ValueError: It is no list of messages, each with a role. The text continues "the request …".
    """
    try:
        messages = parse_json(text)
    except ValueError:
        raise ValueError("is not JSON") from None
    return check_chat_messages(messages)


def check_chat_messages(messages: object) -> list[dict[str, Any]]:
    """Check that a value is a list of messages. Fields without a value, which a parquet column adds, are removed.

    Raises:
        ValueError: It is none. The text continues "the request …".
    """
    if not isinstance(messages, list) or not messages:
        raise ValueError("is no list of chat messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError("has a message without a role")
    return [
        {name: value for name, value in message.items() if value is not None or name == "content"}
        for message in messages
    ]


def asks_chat_body(request: Sequence[Any], body: object) -> bool:
    """Whether a request of lm-eval asked the prompt of a pack. Of a chat request: its messages, and its other fields.

    Args:
        request: The prompt and the generation settings.
        body: The prompt of a pack: a text, or the JSON text of a body.
    """
    text = read_messages_text(request[0])
    if text is None or not isinstance(body, str):
        return bool(request[0] == body)
    settings = request[1] if len(request) > 1 and isinstance(request[1], Mapping) else {}
    try:
        fields, messages = json.loads(body), json.loads(text)
    except ValueError:
        return False
    if not isinstance(fields, dict) or not _are_same(fields.pop("messages", None), messages):
        return False
    return all(name in settings and settings[name] == value for name, value in fields.items())


def offers_tools(body: object) -> bool:
    """Whether the prompt of a pack is the JSON text of a body with tools."""
    if not isinstance(body, str) or '"tools"' not in body:
        return False
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and bool(fields.get("tools"))


def _are_same(messages: object, others: object) -> bool:
    """Whether messages are the same. lm-eval before 0.4.12 adds ``type: text`` to each, which changes nothing."""
    if not isinstance(messages, list) or not isinstance(others, list) or len(messages) != len(others):
        return False
    plain = {"type": "text"}
    return all(
        isinstance(message, dict) and isinstance(other, dict) and {**plain, **message} == {**plain, **other}
        for message, other in zip(messages, others, strict=True)
    )
