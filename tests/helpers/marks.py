"""Marks of tests, and which of many like cases are tried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest
from places import THOROUGH

Case = TypeVar("Case")

# Tests of several seconds, which only .ci/run runs.
thorough = pytest.mark.skipif(not THOROUGH, reason="run in CI's thorough mode")


def few(cases: Iterable[Case], step: int) -> list[Case]:
    """Return every case in CI, and in plain `make test` the first of every ``step`` cases that take the same way."""
    return list(cases)[:: 1 if THOROUGH else step]
