"""Makes docs of chat requests: each keeps its messages and what differs; settings that all share are the task's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meta_eval.boundary.json_text import format_json
from meta_eval.messages.errors import DataError

# Fields of a body that do not change what is asked.
_OF_CALLER = frozenset(
    ("model", "stream", "stream_options", "n", "user", "metadata", "store", "service_tier", "safety_identifier")
)

# Fields that belong to the messages, also where all docs have the same.
_OF_DOC = frozenset(
    ("messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "response_format")
)

_LIMITS = ("max_completion_tokens", "max_tokens")


def split_bodies(bodies: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Split the bodies of a task's requests into those of each doc and lm-eval's generation settings.

    Args:
        bodies: What the endpoint got.

    Returns:
        Per doc its messages with the fields that differ or belong to them; and the settings that all share.

    Raises:
        DataError: A request asks for several answers.
    """
    for number, body in enumerate(bodies):
        if body.get("n") not in (None, 1):
            raise DataError("asks for several answers at once", where=f"doc {number}", hint="Send a request per answer")
    values = [
        {name: body[name] for name in body if name not in _OF_CALLER and body[name] is not None} for body in bodies
    ]
    first = values[0]
    shared = {
        name: value
        for name, value in first.items()
        if name not in _OF_DOC and len({format_json(body.get(name)) for body in values}) == 1
    }
    docs = [{name: value for name, value in body.items() if name not in shared} for body in values]
    return docs, _make_generation(shared)


def _make_generation(shared: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under lm-eval's names. Without a temperature the endpoint's own counts, which samples."""
    stop = shared.get("stop", [])
    limit = next((shared[name] for name in _LIMITS if name in shared), None)
    return {
        "until": [stop] if isinstance(stop, str) else stop,
        "do_sample": shared.get("temperature") != 0,
        **({} if limit is None else {"max_gen_toks": limit}),
        **{name: value for name, value in shared.items() if name not in ("stop", *_LIMITS)},
    }
