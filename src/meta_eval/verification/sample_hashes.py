"""Speeds up the hashes that lm-eval's evaluator makes for each doc and filter, or skips them.

lm-eval hashes each doc as indented JSON, again for each filter. Python writes indented JSON without its C encoder,
which takes longer than scoring if prompts are long.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from json.encoder import encode_basestring
from types import SimpleNamespace
from typing import Any

from meta_eval.boundary.code_lock import divide_by_thread

_CONSTANTS = {None: "null", True: "true", False: "false"}


class _OtherError(TypeError):
    """A value that is left to `json`."""


@contextlib.contextmanager
def replace_hashing(is_needed: bool) -> Iterator[None]:
    """Replace lm-eval's hashing within the block, inside `take_turn`. Other threads keep the original.

    Args:
        is_needed: Whether ``doc_hash``, ``prompt_hash`` and ``target_hash`` of samples are needed. They then equal
            lm-eval's own, otherwise they are empty. An lm-eval with another way of hashing is left unchanged.
    """
    from lm_eval import evaluator

    written = divide_by_thread(dump_json if is_needed else _nothing, json.dumps)
    replacements: dict[str, Any] = {"json": SimpleNamespace(**{**vars(json), "dumps": written})}
    if not is_needed and "hash_string" in vars(evaluator):
        replacements["hash_string"] = divide_by_thread(_nothing, evaluator.hash_string)
    originals = {name: vars(evaluator)[name] for name in replacements if name in vars(evaluator)}
    try:
        for name in originals:
            setattr(evaluator, name, replacements[name])
        yield
    finally:
        for name, function in originals.items():
            setattr(evaluator, name, function)


def dump_json(value: Any, **settings: Any) -> str:
    """``json.dumps``, fast where ``indent`` is 2 and ``ensure_ascii`` False."""
    if settings.keys() <= {"indent", "ensure_ascii", "default"} and (
        settings.get("indent"), settings.get("ensure_ascii")
    ) == (2, False):  # fmt: skip
        with contextlib.suppress(_OtherError):
            return _indented(value, "\n")
    return json.dumps(value, **settings)


def _indented(value: Any, margin: str) -> str:
    """Write JSON of dicts with text keys, lists, texts, numbers, booleans and None.

    Raises:
        _OtherError: There is a value of another type.
    """
    kind, inner = type(value), margin + "  "
    if kind is str:
        return str(encode_basestring(value))
    if kind is bool or value is None:
        return _CONSTANTS[value]
    if kind is int or (kind is float and value - value == 0):
        return repr(value)
    if kind is dict and all(type(key) is str for key in value):
        parts = [f"{encode_basestring(key)}: {_indented(item, inner)}" for key, item in value.items()]
        return f"{{{inner}{f',{inner}'.join(parts)}{margin}}}" if parts else "{}"
    if kind is list or kind is tuple:
        parts = [_indented(item, inner) for item in value]
        return f"[{inner}{f',{inner}'.join(parts)}{margin}]" if parts else "[]"
    raise _OtherError


def _nothing(*_: Any, **__: Any) -> str:
    return ""
