"""JSON that other programs write, and that is written for them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_eval.base.inputs import TooDeepError, format_json, parse_loose_json

TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@given(TREES)
def test_what_is_written_is_read_back(tree: Any) -> None:
    text = format_json(tree)
    assert "\n" not in text
    assert parse_loose_json(text.encode()) == json.loads(text) == tree


def test_only_half_of_a_surrogate_pair_is_escaped() -> None:
    assert (format_json("\xe9"), format_json("\xe9\ud800")) == ('"\xe9"', '"\\u00e9\\ud800"')


def test_numbers_that_are_no_json_are_read() -> None:
    assert math.isnan(parse_loose_json(b"NaN"))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"nan"])
def test_what_is_no_json_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match="."):
        parse_loose_json(content)


def test_a_text_without_end_of_its_depth_is_too_deep() -> None:
    with pytest.raises(TooDeepError):
        parse_loose_json(b"[" * 200_000 + b"]" * 200_000)
