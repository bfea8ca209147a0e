"""Tests of programs in original rows. They are parsed here and never run."""

from __future__ import annotations

import ast
import warnings

from meta_eval.base.inputs import describe_error
from meta_eval.plugins.meta.joins.join import COPY
from meta_eval.sockets import DataError


def parse_program(text: str, column: str) -> ast.Module:
    """Parse the code of a column.

    Raises:
        DataError: It is not Python, so every program would count as wrong.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of an escape such as "\d"
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        what = error.msg if isinstance(error, SyntaxError) else describe_error(error)
        raise DataError(f"{column} is not Python{line}: {what}", hint=COPY) from None


def need_tests(text: str, column: str) -> None:
    """Raises:
    DataError: The code of a column is not Python, or it tests nothing, so every program would count as right.
    """
    if not any(isinstance(node, ast.Assert | ast.Call) for node in ast.walk(parse_program(text, column))):
        raise DataError(f"{column} holds no test: it asserts nothing and calls nothing", hint=COPY)
