"""Tool calls are compared with gold calls as JSON values, in any order, and no text makes the grader fail."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marks import each

from meta_eval.plugins.chat.assets.chat.tools.tool_calls import (
    compare_calls,
    find_unchecked,
    pool_verdicts,
    process_results,
)

TOOLS = [
    {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object",
        "properties": {
            "n": {"type": "number"},
            "s": {"type": "string"},
            "b": {"type": "boolean"},
            "unit": {"type": "string", "enum": ["km", "miles"], "default": "km"},
            "inner": {"type": "object", "properties": {"depth": {"type": "integer", "default": 1}}},
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        },
        "required": ["n"],
        "$defs": {"item": {"properties": {"count": {"type": "integer", "default": 1}}}},
    }}},
    {"type": "function", "function": {"name": "g"}},
]  # fmt: skip


def call(arguments: Any, name: str = "f") -> dict[str, Any]:
    return {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}


def compare(gold: Any, calls: Any, content: str | None = None) -> dict[str, Any]:
    doc = {"gold_calls": gold, "tools": TOOLS}
    return process_results(doc, [json.dumps({"content": content, "tool_calls": calls, "finish_reason": "stop"})])


@each(
    ("gold", "answer", "expected"),
    [
        ({"n": 1}, '{"n": 1.0}', True),
        ({"n": 1}, '{"n": 1e0}', True),
        ({"n": 1}, '{"n": true}', False),
        ({"n": 1}, '{"n": "1"}', False),
        ({"n": 0.1}, '{"n": 0.10}', True),
        ({"n": 2**53}, '{"n": 9007199254740993}', False),
        ({"n": 10**30}, '{"n": 1e30}', False),  # the double beside it
        ({"n": 0}, '{"n": -0.0}', True),
        ({"n": 1, "s": "a"}, '{"s": "a", "n": 1}', True),
        ({"n": 1, "s": "a"}, '{"n": 1, "s": "A"}', False),
        ({"n": 1, "s": "a"}, '{"n": 1, "s": "a "}', False),
        ({"n": 1, "s": "é"}, '{"n": 1, "s": "\\u00e9"}', True),
        ({"n": 1, "s": None}, '{"n": 1}', False),
        ({"n": 1}, '{"n": 1, "unit": "km"}', True),  # the default
        ({"n": 1, "unit": "km"}, '{"n": 1}', True),
        ({"n": 1}, '{"n": 1, "unit": "miles"}', False),
        ({"n": 1, "inner": {}}, '{"n": 1, "inner": {"depth": 1}}', True),
        ({"n": 1}, '{"n": 1, "inner": {"depth": 1}}', False),
        ({"n": 1, "items": [{}, {}]}, '{"n": 1, "items": [{"count": 1}, {}]}', True),
        ({"n": 1, "items": [{}, {}]}, '{"n": 1, "items": [{}]}', False),
        ({"n": 1, "items": [{"count": 2}, {}]}, '{"n": 1, "items": [{}, {"count": 2}]}', False),
        ({"n": 1}, '{"n": 1, "other": 2}', False),
        ({"n": 1}, '{"n": 1, "n": 1}', False),
        ({"n": 1}, '{"n": 1} ', True),
        ({"n": 1}, '{"n": 1', False),
        ({"n": 1}, '{"n": NaN}', False),
        ({"n": 1}, '{"n": 1e999}', False),
        ({"n": 1}, '[{"n": 1}]', False),
        ({}, "", True),
    ],
)
def test_arguments_are_equal_as_json_values(gold: Any, answer: str, expected: bool) -> None:
    figures = compare([call(gold)], [call(answer)])
    assert (figures["exact_match"], figures["arguments_match"]) == (float(expected), [expected])
    assert figures["name_match"] == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"n": 1}', True),
        ('{"n": 1.5, "unit": "miles"}', True),
        ('{"n": true}', False),
        ('{"n": "1"}', False),
        ('{"n": 1, "unit": "m"}', False),
        ('{"n": 1, "items": [{"count": 1.0}]}', True),
        ('{"n": 1, "items": [{"count": 0.5}]}', False),
        ("{}", False),
        ('{"n": 1', False),
        ('{"n": 1, "n": 2}', False),
        ('{"n": ' + "9" * 5000 + "}", False),
        ('{"n": 1, "x": ' + "[" * 100 + "]" * 100 + "}", False),
        ('{"n": 1, "x": ' + "[" * 10**5 + "]" * 10**5 + "}", False),
    ],
)
def test_arguments_are_valid_under_the_schema(arguments: str, expected: bool) -> None:
    assert compare([call({"n": 1})], [call(arguments)])["schema_accuracy"] == [expected]


def test_a_tool_that_was_not_offered_is_not_valid() -> None:
    assert compare([call({}, "g")], [call({}, "h"), call({"any": 1}, "g")])["schema_accuracy"] == [False, True]


@pytest.mark.parametrize(
    ("gold", "calls", "content", "exact", "name", "called"),
    [
        ([call({"n": 1})], [call({"n": 1})], None, 1, 1, ([True], [True], [True, True])),
        ([call({"n": 1})], [], "no", 0, 0, ([], [False], [False])),
        (None, [call({"n": 1})], None, 0, 0, ([False], [], [False])),
        (None, [], "It is blue.", 1, 1, ([], [], [])),
        ([], None, "It is blue.", 1, 1, ([], [], [])),
        (None, [], "", 0, 0, ([], [], [])),  # cut while thinking, say
        (None, [], None, 0, 0, ([], [], [])),
    ],
)
def test_called_or_not(gold: Any, calls: Any, content: str | None, exact: int, name: int, called: Any) -> None:
    figures = compare(gold, calls, content)
    assert (figures["exact_match"], figures["name_match"], figures["ungraded"]) == (exact, name, 0)
    assert tuple(figures[f"tool_call_{name}"] for name in ("precision", "recall", "f1")) == called


def test_calls_match_in_any_order_and_as_often() -> None:
    one, two, other = call({"n": 1}), call({"n": 2}), call({}, "g")
    assert compare([one, two, other], [other, two, one])["exact_match"] == 1
    twice = compare([one, one], [one])
    assert (twice["exact_match"], twice["name_match"], twice["arguments_match"]) == (0, 0, [True])
    swapped = compare([one, two], [two, two])
    assert (swapped["exact_match"], swapped["name_match"], swapped["arguments_match"]) == (0, 1, [True, False])


@given(st.lists(st.sampled_from([call({"n": n}) for n in range(3)] + [call({}, "g")]), min_size=1), st.randoms())
def test_the_order_of_parallel_calls_does_not_matter(calls: list[Any], chance: random.Random) -> None:
    mixed = chance.sample(calls, len(calls))
    figures = compare(calls, mixed)
    assert figures["exact_match"] == 1 and all(figures["arguments_match"])
    assert compare(calls, [*mixed, calls[0]])["exact_match"] == compare([*mixed, calls[0]], calls)["exact_match"] == 0


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_pooled_f1_is_the_harmonic_mean(docs: list[tuple[bool, bool]]) -> None:
    one = [call({"n": 1})]
    figures = [compare(one if wanted else None, one if called else [], "text") for wanted, called in docs]
    precision, recall, f1 = (
        pool_verdicts([doc[f"tool_call_{name}"] for doc in figures]) for name in ("precision", "recall", "f1")
    )
    right = sum(wanted and called for wanted, called in docs)
    if right:
        assert precision == right / sum(called for _, called in docs)
        assert recall == right / sum(wanted for wanted, _ in docs)
        assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
    else:
        assert not f1 or f1 != f1


def test_raw_texts_of_gold_and_tools_are_read() -> None:
    doc = {"gold_calls": json.dumps([call({"n": 1})]), "tools": json.dumps(TOOLS)}
    assert process_results(doc, [json.dumps({"tool_calls": [call({"n": 1})]})])["exact_match"] == 1
    assert process_results({**doc, "gold_calls": "null"}, ["not a message"])["exact_match"] == 1


def test_an_unreadable_gold_call_equals_its_own_text() -> None:
    figures = compare([call('{"n": 1')], [call('{"n": 1')])
    assert (figures["exact_match"], figures["schema_accuracy"]) == (1, [False])
    assert compare([call('{"n": 1')], [call('{"n": 2')])["exact_match"] == 0


@pytest.mark.parametrize(
    "tools", [None, {}, [{}], [{"function": {}}], [{"name": "f", "parameters": 1}], [TOOLS[0]] * 2]
)
def test_unreadable_tools_are_counted(tools: Any) -> None:
    answer = json.dumps({"content": "text"})
    assert process_results({"gold_calls": None, "tools": tools}, [answer])["ungraded"] == 1
    with pytest.raises(ValueError, match="tool"):
        compare_calls(None, {"content": "text"}, tools)


def test_keywords_that_are_not_checked_are_named() -> None:
    tools = [*TOOLS, {"name": "h", "input_schema": {"properties": {"a": {"pattern": "(a|b)*"}}}}]
    assert (find_unchecked(TOOLS), find_unchecked(tools)) == (set(), {"pattern"})


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda part: st.lists(part) | st.dictionaries(st.sampled_from(["name", "arguments", "content", "tool_calls", "function", "parameters", "properties", "$ref"]) | st.text(), part),
)  # fmt: skip


@given(JSON_VALUES, JSON_VALUES, JSON_VALUES)
def test_nothing_makes_the_grader_fail(gold: Any, tools: Any, message: Any) -> None:
    for tool_list in (tools, TOOLS, [{"name": "f", "parameters": {"properties": tools, "$ref": "#/properties"}}]):
        calls = [{"name": "f", "arguments": message}]
        for answer in (message, {"content": gold, "tool_calls": message}, {"tool_calls": calls}):
            figures = process_results({"gold_calls": gold, "tools": tool_list}, [json.dumps(answer)])
            assert figures["exact_match"] in (0, 1)
