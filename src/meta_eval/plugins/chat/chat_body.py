"""Makes the body of a chat endpoint's request, for the client and for batch files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from meta_eval.plugins.chat.chat_backend import CONTINUED
from meta_eval.plugins.chat.chat_messages import ASSISTANT, CONTINUE, make_conversation
from meta_eval.sockets import Request

# Both names of the same limit, the newer one last. An endpoint refuses a body with both.
_LIMITS = ("max_tokens", "max_completion_tokens")


def make_chat_body(
    request: Request,
    conversation: Mapping[str, Any],
    *,
    model: str,
    seed: int,
    fields: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Make a body for ``/v1/chat/completions``, greedy unless the task samples.

    Args:
        request: A request of the pack.
        conversation: Its ``messages``, and the fields of the body that belong to its doc. They win over all others.
        model: The endpoint's name of the model.
        seed: The seed of the first repeat, sent only where an answer is sampled, unless the task, the fields or the
            doc name one. Each repeat has another; otherwise all samples of a prompt would be the same.
        fields: Further fields of the body. They win over those of the task. Whether an answer continues the last
            message is for its conversation alone to say.
    """
    settings = dict(request.settings or {})
    is_sampled = bool(settings.pop("do_sample", None) or settings.get("temperature"))
    settings |= {"seed": settings.get("seed", seed)} if is_sampled else {"temperature": 0.0}
    stop = {"stop": list(request.stop)} if request.stop else {}
    fields = {name: value for name, value in fields.items() if name != CONTINUED}
    body = {"model": model, **stop, **settings, **fields, **conversation}
    if is_sampled and isinstance(body["seed"], int):
        body["seed"] += request.repeat
    for values in (conversation, fields, {"max_tokens": request.max_tokens}):
        if limit := {name: values[name] for name in _LIMITS if values.get(name) is not None}:
            return {**{name: value for name, value in body.items() if name not in _LIMITS}, **limit}
    return body


def read_conversation(request: Request, *, can_continue: bool = False) -> dict[str, Any]:
    """The messages of a request of kind ``chat`` or ``generate``, with the other fields of its doc.

    Args:
        request: The request. The text prompt of kind ``generate`` is parsed into messages.
        can_continue: Whether the endpoint continues an answer that the prompt begins.

    Raises:
        ValueError: A text prompt is not made of messages. The text continues "the prompt …".
    """
    if request.kind == "generate":
        return make_conversation(request.prompt, can_continue=can_continue)
    conversation: dict[str, Any] = json.loads(request.prompt)
    if can_continue and conversation["messages"][-1]["role"] == ASSISTANT:
        return {**CONTINUE, **conversation}
    return conversation
