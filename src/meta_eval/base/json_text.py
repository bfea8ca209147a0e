"""JSON as other programs write and read it, including NaN, Infinity and lone surrogates."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from meta_eval.base.inputs import TooDeepError


def format_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Format a value as a line of JSON. Non-ASCII text stays readable unless it holds a lone surrogate.

    Args:
        value: Any JSON value.
        default: Converts other values, as in `json.dumps`.

    Raises:
        TypeError: JSON cannot hold the value.
    """
    text = json.dumps(value, ensure_ascii=False, default=default)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, default=default)
    return text


def parse_loose_json(content: bytes | str) -> Any:
    """Parse JSON that Python or a server wrote. Fast; does not check the depth.

    Raises:
        TooDeepError: The tree is too deep for Python's parser.
        ValueError: The text is not JSON, or not UTF-8.
    """
    import orjson

    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        try:
            return json.loads(content)  # accepts NaN, Infinity and lone surrogates
        except RecursionError:
            raise TooDeepError from None
