"""Marks of tests, and which of many like cases are tried."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest
from places import THOROUGH

Case = TypeVar("Case")

# Tests of several seconds, which only .ci/run runs.
thorough = pytest.mark.skipif(not THOROUGH, reason="run in CI's thorough mode")


def few(cases: Iterable[Case], step: int) -> list[Case]:
    """Return every case in CI, and in plain `make test` the first of every ``step`` cases that take the same way."""
    return list(cases)[:: 1 if THOROUGH else step]


def each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try all cases in one test, which names those that fail: for cases of microseconds, as of a grader.

    ``names`` and ``cases`` are as for ``pytest.mark.parametrize``, which makes a test of each.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def tried(**others: Any) -> None:
            failed: list[tuple[Any, Exception]] = []
            for case in cases:
                try:
                    test(**others, **dict(zip(names, case if len(names) > 1 else [case], strict=True)))
                except Exception as error:  # as an AssertionError
                    failed.append((case, error))
            if failed:
                told = "\n".join(f"{case!r}: {error}" for case, error in failed)
                raise AssertionError(f"{len(failed)} cases fail:\n{told}") from failed[0][1]

        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in names]
        tried.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return tried

    return decorate
