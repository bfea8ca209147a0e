"""Modules that are compiled once: the tests make hundreds of packs with the same modules, whose bytecode is not written."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

_compile = SourceFileLoader.source_to_code
_compiled: dict[bytes, CodeType] = {}


def compile_once() -> None:
    """Let modules with the same source share what the compiler makes of it, in this process and its forks."""
    SourceFileLoader.source_to_code = _source_to_code  # type: ignore[method-assign]


def _source_to_code(loader: SourceFileLoader, data: Any, path: Any, **options: Any) -> CodeType:
    if not isinstance(data, bytes) or options:
        return _compile(loader, data, path, **options)
    if data not in _compiled:
        _compiled[data] = _compile(loader, data, path)
    return _moved(_compiled[data], path)


def _moved(code: CodeType, path: str) -> CodeType:
    """The same code as that of another file, which errors name."""
    inner = (_moved(value, path) if isinstance(value, CodeType) else value for value in code.co_consts)
    return code.replace(co_filename=path, co_consts=tuple(inner))
