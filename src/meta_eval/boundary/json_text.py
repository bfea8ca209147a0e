"""JSON as other programs write and read it: NaN, Infinity and halves of surrogate pairs included."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from meta_eval.boundary.inputs import TooDeepError


def format_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Format a value as JSON in one line. Non-ASCII text stays readable unless it holds half of a surrogate pair.

    Args:
        value: Of what JSON can hold.
        default: What is written of anything else, as of `json.dumps`.

    Raises:
        TypeError: JSON cannot hold the value.
    """
    text = json.dumps(value, ensure_ascii=False, default=default)
    try:
        text.encode()
    except UnicodeEncodeError:  # UTF-8 cannot write the half
        return json.dumps(value, default=default)
    return text


def parse_loose_json(content: bytes | str) -> Any:
    """The tree of a JSON text that Python or a server wrote, fast; its depth is not checked.

    Raises:
        TooDeepError: It has more levels than Python's reader takes.
        ValueError: It is no JSON, or no UTF-8.
    """
    import orjson

    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        try:
            return json.loads(content)  # takes NaN, Infinity and halves of surrogate pairs, which are no JSON
        except RecursionError:
            raise TooDeepError from None
