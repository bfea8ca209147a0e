"""Samples inside a results file, as in a saved return value of ``lm_eval.simple_evaluate``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def split_samples(content: bytes) -> tuple[Any, dict[str, int]]:
    """Parse a results file without its samples.

    Args:
        content: The file.

    Returns:
        Its JSON tree without ``samples``, and the byte offset of each task's array of samples.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    tree: Any = {}
    if b'"samples"' not in content or not content.lstrip().startswith(b"{"):
        return json.loads(content), {}
    text = content.decode("utf-8", "surrogatepass")
    places: dict[str, int] = {}

    def read_value(key: str, start: int) -> int:
        tree[key], end = _DECODER.raw_decode(text, start)
        return end

    def place_samples(task: str, start: int) -> int:
        value, end = _DECODER.raw_decode(text, start)
        if isinstance(value, list) and value:
            places[task] = start
        return end

    def read_member(key: str, start: int) -> int:
        is_samples = key == "samples" and text[start : start + 1] == "{"
        return _walk(text, start, place_samples) if is_samples else read_value(key, start)

    end = _walk(text, _skip(text, 0), read_member)
    if _skip(text, end) != len(text):
        raise ValueError("more than one value")
    return tree, _in_bytes(text, places)


def _walk(text: str, at: int, read: Callable[[str, int], int]) -> int:
    """Find the end of the object at ``at``. ``read`` takes each key and the start of its value, and returns the value's
    end."""
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise ValueError("no key")
        at = _skip(text, read(key, _skip(text, at + 1)))
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "}":
            raise ValueError("no end")
    return at + 1


def _skip(text: str, at: int) -> int:
    """The first position from ``at`` that is not white space."""
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _in_bytes(text: str, places: dict[str, int]) -> dict[str, int]:
    """Convert positions in a text to positions in its UTF-8."""
    offsets: dict[str, int] = {}
    characters = size = 0
    for task, at in sorted(places.items(), key=lambda place: place[1]):
        size += len(text[characters:at].encode("utf-8", "surrogatepass"))
        characters, offsets[task] = at, size
    return offsets
