"""Speeds up the JSON of samples: what lm-eval hashes of each doc and filter, and the lines of its samples files.

lm-eval hashes each doc as indented JSON, again for each filter. Python writes indented JSON without its C encoder,
which takes longer than scoring if prompts are long. And it escapes long texts character by character; orjson does not.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring
from types import ModuleType, SimpleNamespace
from typing import Any

import orjson

# Characters from which orjson escapes a text faster than `json`, with its call.
_LONG = 100

_CONSTANTS = {None: "null", True: "true", False: "false"}


class _OtherError(TypeError):
    """A value that is left to `json`."""


@contextlib.contextmanager
def replace_hashing(is_needed: bool) -> Iterator[None]:
    """Replace lm-eval's hashing within the block.

    Args:
        is_needed: Whether ``doc_hash``, ``prompt_hash`` and ``target_hash`` of samples are needed. They then equal
            lm-eval's own, otherwise they are empty. An lm-eval with another way of hashing is left unchanged.
    """
    from lm_eval import evaluator

    hashing: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if not is_needed and "hash_string" in vars(evaluator):
        hashing = _replaced(evaluator, "hash_string", _nothing)
    with hashing, replace_dumps(evaluator, dump_json if is_needed else _nothing):
        yield


@contextlib.contextmanager
def replace_dumps(module: ModuleType, dumps: Callable[..., str] | None = None) -> Iterator[None]:
    """Replace ``json.dumps`` in a module within the block.

    Args:
        module: A module that has imported ``json``; any other is left unchanged.
        dumps: The replacement; None for `dump_json`.
    """
    if "json" not in vars(module):
        yield
        return
    with _replaced(module, "json", SimpleNamespace(**{**vars(json), "dumps": dumps or dump_json})):
        yield


@contextlib.contextmanager
def _replaced(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    original = vars(module)[name]
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)


def dump_json(value: Any, **settings: Any) -> str:
    """``json.dumps``, fast where ``ensure_ascii`` is False and ``indent`` 2 or None."""
    indent = settings.get("indent")
    if settings.keys() <= {"indent", "ensure_ascii", "default"} and not settings.get("ensure_ascii", True):
        with contextlib.suppress(_OtherError):
            if indent is None:
                return _written(value, None)
            if indent == 2:
                return _written(value, "\n")
    return json.dumps(value, **settings)


def _written(value: Any, margin: str | None) -> str:
    """Write JSON of dicts with text keys, lists, texts, numbers, booleans and None.

    Args:
        value: The tree.
        margin: What each line begins with, from the line break on; None for a single line.

    Raises:
        _OtherError: There is a value of another type.
    """
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is bool or value is None:
        return _CONSTANTS[value]
    if kind is int or (kind is float and value - value == 0):
        return repr(value)
    inner = None if margin is None else margin + "  "
    if kind is dict and all(type(key) is str for key in value):
        return _joined(
            "{}", [f"{encode_basestring(key)}: {_written(item, inner)}" for key, item in value.items()], margin
        )
    if kind is list or kind is tuple:
        return _joined("[]", [_written(item, inner) for item in value], margin)
    raise _OtherError


def _joined(brackets: str, parts: list[str], margin: str | None) -> str:
    if not parts or margin is None:
        return f"{brackets[0]}{', '.join(parts)}{brackets[1]}"
    inner = margin + "  "
    return f"{brackets[0]}{inner}{f',{inner}'.join(parts)}{margin}{brackets[1]}"


def _quoted(text: str) -> str:
    if len(text) >= _LONG:
        with contextlib.suppress(orjson.JSONEncodeError):  # a lone surrogate
            return orjson.dumps(text).decode()
    return str(encode_basestring(text))


def _nothing(*_: Any, **__: Any) -> str:
    return ""
