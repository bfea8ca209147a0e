"""Makes the body of a chat endpoint's request, for the client and for batch files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from meta_eval.plugins.chat.chat_backend import CONTINUED
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
    settings = request.sampling
    if request.is_sampled:
        settings.setdefault("seed", seed)
    stop = {"stop": list(request.stop)} if request.stop else {}
    fields = {name: value for name, value in fields.items() if name != CONTINUED}
    body = {"model": model, **stop, **settings, **fields, **conversation}
    if request.is_sampled and isinstance(body["seed"], int):
        body["seed"] += request.repeat
    for values in (conversation, fields, {"max_tokens": request.max_tokens}):
        if limit := {name: values[name] for name in _LIMITS if values.get(name) is not None}:
            return {**{name: value for name, value in body.items() if name not in _LIMITS}, **limit}
    return body
