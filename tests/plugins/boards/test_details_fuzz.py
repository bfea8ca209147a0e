"""Rows of details are foreign: whatever stands in them, they are read or refused with a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import THOROUGH
from tokenizers import Tokenizer, models

from meta_eval.base.errors import UserError
from meta_eval.plugins.boards.board_row import read_board_row
from meta_eval.plugins.boards.details_row import read_lighteval_row
from meta_eval.plugins.boards.graded_docs import read_details

many = settings(max_examples=150 if THOROUGH else 7)

LEAVES = st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=4)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))
COSTS = st.lists(st.floats(-9, 0), min_size=3, max_size=3)

TOKENIZER = Tokenizer(models.BPE({chr(33 + n): n for n in range(60)}, []))

GOOD: dict[str, Any] = {
    "full_prompt": "Which?", "example": "Which?", "choices": [" a", " bc", " d"], "gold_index": [1],
    "predictions": [-3.0, -1.0, -2.0], "metrics": {"acc": 1.0}, "input_tokens": [[1], [2], [3]], "padded": [0, 0, 0],
}  # fmt: skip
DOC = {
    "query": "Which?",
    "choices": ["a", "b"],
    "gold_index": 1,
    "sampling_methods": ["LOGPROBS"],
    "fewshot_samples": [],
}
RESPONSE = {"input": None, "input_tokens": [1, 2], "logprobs": [-2.0, -1.0], "text": []}


def changed(good: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A row of which some columns hold anything."""
    return st.dictionaries(st.sampled_from(sorted(good)), VALUES, max_size=3).map(lambda other: {**good, **other})


@many
@given(changed(GOOD), st.sampled_from(["harness|arc:challenge|25", "harness|gsm8k|5", "x"]))
def test_a_row_of_the_first_board_is_read_or_refused(row: dict[str, Any], name: str) -> None:
    try:
        read_details([read_board_row(row)], name, lambda *_: None)
    except UserError as error:
        assert "\n" not in str(error)


@many
@given(changed(GOOD), st.dictionaries(st.sampled_from(sorted(GOOD)), st.text("[](){}'-1,. e#", max_size=9), max_size=2))
def test_a_row_of_texts_is_read_or_refused(row: dict[str, Any], other: dict[str, str]) -> None:
    texts = {name: str(value) for name, value in row.items()} | other
    try:
        read_details([read_board_row(texts)], "harness|arc:challenge|25", lambda *_: None)
    except UserError as error:
        assert "\n" not in str(error)


@many
@given(
    changed(
        {"mc1_targets": {"choices": ["a", "b"], "labels": [1, 0]}, "mc2_targets": {"choices": ["c"], "labels": [1]}}
    )
)
def test_a_row_with_two_lists_of_choices_is_read_or_refused(lists: dict[str, Any]) -> None:
    row = {**GOOD, **lists, "choices": None, "gold_index": None, "metrics": {"mc1": 0.0, "mc2": 1.0}}
    try:
        read_details([read_board_row(row)], "harness|truthfulqa:mc|0", lambda *_: None)
    except UserError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "text", ["[" * 9000, "[" + "-" * 99999 + "1]", "{" * 150 + "}" * 150, "[1" + "+1" * 50000 + "]"]
)
def test_a_text_of_any_depth_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="does not say what the model answered"):
        read_board_row({**GOOD, "predictions": text})


@pytest.mark.parametrize("name", ["acc", "gold_index", "padded", "predictions", "truncated"])
def test_an_integer_of_any_length_is_no_number(name: str) -> None:
    texts = {key: str(value) for key, value in GOOD.items() if key != "metrics"} | {"acc": "1.0"}
    try:
        row = read_board_row({**texts, name: f"[{10**400}, 1, 1]" if name == "predictions" else str(10**400)})
    except UserError as error:
        assert "holds a likelihood that is not a number" in str(error)
    else:
        assert row.metrics == ({} if name == "acc" else {"acc": 1.0})


@many
@given(changed({**GOOD, "cont_tokens": [[7], [7], [7]], "input_tokens": [[40, 7], [41, 7], [42, 7]]}))
def test_a_row_with_a_prompt_for_each_choice_is_read_or_refused(row: dict[str, Any]) -> None:
    try:
        read_details([read_board_row(row, TOKENIZER)], "harness|winogrande|5", lambda *_: None)
    except UserError as error:
        assert "\n" not in str(error)


@many
@given(changed(DOC), changed(RESPONSE), VALUES | st.just({"acc": 1}))
def test_a_row_of_lighteval_is_read_or_refused(doc: Any, response: Any, metric: Any) -> None:
    row = {"doc": doc, "model_response": response, "metric": metric}
    try:
        read_details([read_lighteval_row(row, None)], "x|0", lambda *_: None)
    except UserError as error:
        assert "\n" not in str(error)


@given(COSTS, st.integers(0, 2))
def test_the_verdicts_of_any_likelihoods_are_those_that_the_guard_lets_through(costs: list[float], gold: int) -> None:
    lengths = (1, 2, 1)
    best = max(range(3), key=lambda at: costs[at])
    normal = max(range(3), key=lambda at: costs[at] / lengths[at])
    metrics = {"acc": float(best == gold), "acc_norm": float(normal == gold)}
    row = {**GOOD, "predictions": costs, "gold_index": [gold], "metrics": metrics}
    details = read_details([read_board_row(row)], "harness|arc:challenge|25", lambda *_: None)
    assert details.docs.rows[0].metrics == {"acc,none": metrics["acc"], "acc_norm,none": metrics["acc_norm"]}
