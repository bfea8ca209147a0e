"""What lm-eval's evaluator makes hashes of, for each doc and filter: written fast, or not at all where nobody reads it.

It hashes a doc as indented JSON, which Python writes without its C encoder, and does so anew for each filter. With long
prompts that takes longer than all scoring.
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
    """A value that is left to json."""


@contextlib.contextmanager
def replace_hashing(wanted: bool) -> Iterator[None]:
    """Let lm-eval's evaluator work meanwhile, in a block of `take_turn`: other threads have it as it is.

    Args:
        wanted: Whether somebody reads ``doc_hash``, ``prompt_hash`` and ``target_hash`` of its samples: they are then
            what it makes by itself, else empty. An lm-eval that makes them in another way than those so far does so.
    """
    from lm_eval import evaluator

    written = divide_by_thread(dump_json if wanted else _nothing, json.dumps)
    instead: dict[str, Any] = {"json": SimpleNamespace(**{**vars(json), "dumps": written})}
    if not wanted and "hash_string" in vars(evaluator):
        instead["hash_string"] = divide_by_thread(_nothing, evaluator.hash_string)
    before = {name: vars(evaluator)[name] for name in instead if name in vars(evaluator)}
    try:
        for name in before:
            setattr(evaluator, name, instead[name])
        yield
    finally:
        for name, function in before.items():
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
    """The JSON of dicts with texts for keys, lists, texts, numbers, booleans and None.

    Raises:
        _OtherError: There is something else.
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
