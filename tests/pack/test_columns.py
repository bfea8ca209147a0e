"""A table of docs is the one that pyarrow makes of them, and pandas is not imported for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import THOROUGH

from meta_eval.pack.doc_table import have_one_layout, make_column, make_table

texts = st.text(st.characters(codec="utf-8"), max_size=6)
leaves = [texts, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.binary(max_size=2)]


def lists_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.none() | inner, max_size=4)


columns = st.one_of(
    *[lists_of(leaf) for leaf in leaves],
    *[lists_of(lists_of(leaf)) for leaf in leaves],
    *[lists_of(st.fixed_dictionaries({}, optional={"key": texts, "n": leaf})) for leaf in leaves],
    lists_of(lists_of(st.fixed_dictionaries({"key": texts, "text": st.none() | texts}))),
    lists_of(st.integers(0, 3) | st.floats(0, 1)),
    st.just([[], None, []]),
    st.just([{}, None]),
)


@settings(max_examples=300 if THOROUGH else 25, deadline=None)
@given(columns)
def test_a_column_is_what_pyarrow_makes(values: list[Any]) -> None:
    mine, theirs = make_column(values), pa.array(values)
    assert mine.type == theirs.type
    assert mine.equals(theirs)
    mine.validate(full=True)


def test_a_table_has_the_columns_of_the_first_row() -> None:
    rows = [{"a": "x", "b": None}, {"a": None, "b": [1.5], "c": 1}]
    assert make_table(rows).equals(pa.Table.from_pylist(rows))


@pytest.mark.parametrize(
    ("rows", "alike"),
    [
        ([], True),
        ([{"a": None}, {"a": None}], True),
        ([{"a": "x"}, {"a": None}], True),
        ([{"a": "x"}, {"a": 1}], False),
        ([{"a": 1}, {"a": True}], False),
        ([{"a": 1}, {"a": 1.0}], False),
        ([{"a": 1}, {"b": 1}], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ([{"a": 1}, {"a": 1, "b": 2}], False),
        ([{"a": 2**63 - 1}, {"a": -(2**63)}], True),
        ([{"a": 1}, {"a": 2**63}], False),
        ([{"a": -(2**63) - 1}], False),
        ([{"a": []}, {"a": [None, "x"]}, {"a": None}], True),
        ([{"a": ["x"]}, {"a": [1]}], False),
        ([{"a": ["x"]}, {"a": "x"}], False),
        ([{"a": [[1], [2]]}, {"a": [["x"]]}], False),
        ([{"a": {"k": 1}}, {"a": {"k": None}}, {"a": None}], True),
        ([{"a": {"k": 1}}, {"a": {"n": 1}}], False),
        ([{"a": {"k": 1}}, {"a": {}}], False),
        ([{"a": [{"k": 1}]}, {"a": [{"k": "x"}]}], False),
        ([{"a": float("nan")}, {"a": 0.5}], True),
    ],
)  # fmt: skip
def test_rows_have_one_layout_where_arrow_needs_no_type_of_two(rows: list[dict[str, Any]], alike: bool) -> None:
    assert have_one_layout(rows) is alike


def test_pandas_is_not_imported_for_docs_of_the_usual_kinds() -> None:
    code = (
        "import sys; from meta_eval.pack.doc_table import make_table;"
        "make_table([{'a': 'x', 'b': True, 'c': None, 'd': [{'key': 'A', 'text': None}], 'e': 1.5, 'f': 2, 'g': ['x']}]);"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
