"""The body of a chat completion, in the forms of many servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_eval.harness.chat_completion import ToolCall, read_chat_completion, split_reasoning


def _body(message: object, finish: object = "stop", **fields: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **fields}


_CALL = {"type": "function", "id": "c1", "function": {"name": "add", "arguments": '{"a": 1'}}


def test_all_parts_of_an_answer_are_read() -> None:
    usage = {
        "prompt_tokens": 7, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }  # fmt: skip
    read = read_chat_completion(
        _body({"content": None, "reasoning": "hm", "tool_calls": [_CALL]}, "tool_calls", usage=usage, model="m")
    )
    assert (read.content, read.reasoning, read.finish_reason, read.model) == ("", "hm", "tool_calls", "m")
    assert read.tool_calls == (ToolCall("add", '{"a": 1'),)  # the arguments stay as they are, JSON or not
    assert (read.prompt_tokens, read.completion_tokens, read.cached_tokens, read.reasoning_tokens) == (7, 9, 4, 5)


def test_each_of_n_answers_is_at_its_index() -> None:
    choices = [{"index": place, "message": {"content": str(place)}, "finish_reason": "stop"} for place in (2, 0, 1)]
    assert [choice.content for choice in read_chat_completion({"choices": choices}).choices] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("message", "content", "reasoning", "form"),
    [
        ({"content": "A", "reasoning": "r"}, "A", "r", "reasoning"),
        ({"content": "A", "reasoning_content": "r"}, "A", "r", "reasoning_content"),
        ({"content": "A", "reasoning_content": None}, "A", None, None),
        ({"content": "<think>\nr\n</think>\n\nA"}, "A", "r", "tags"),
        ({"content": "r\n</think>\n\nA"}, "A", "r", "tags"),  # the template holds the opening tag
        ({"content": "[THINK]r[/THINK]A"}, "A", "r", "tags"),
        ({"content": "A <think>r</think>"}, "A <think>r</think>", None, None),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}, {"type": "text", "text": "A"}]},
            "A", "r", "parts",
        ),
        ({"content": None, "refusal": "No."}, "No.", None, None),
    ],
)  # fmt: skip
def test_reasoning_is_kept_apart_wherever_it_is(
    message: object, content: str, reasoning: str | None, form: str | None
) -> None:
    read = read_chat_completion(_body(message)).choices[0]
    assert (read.content, read.reasoning, read.reasoning_form) == (content, reasoning, form)


def test_reasoning_without_an_end_is_all_of_an_answer_that_was_cut() -> None:
    assert read_chat_completion(_body({"content": "<think>still"}, "length")).reasoning == "still"
    assert read_chat_completion(_body({"content": "<think>still"}, "stop")).content == "<think>still"


@pytest.mark.parametrize(
    ("said", "meant"), [("eos", "stop"), ("max_tokens", "length"), ("function_call", "tool_calls"), (None, None)]
)
def test_ends_have_one_name(said: str | None, meant: str | None) -> None:
    assert read_chat_completion(_body({"content": "A"}, said)).finish_reason == meant


def test_a_filtered_answer_is_an_empty_text() -> None:
    read = read_chat_completion(_body(None, "content_filter"))
    assert (read.content, read.finish_reason) == ("", "content_filter")


@pytest.mark.parametrize(
    "message",
    [
        {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"content": "", "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"content": "", "tool_calls": [{"type": "custom", "custom": {"name": "f", "input": '{"a": 1}'}}]},
    ],
)
def test_tool_calls_have_one_form(message: object) -> None:
    assert read_chat_completion(_body(message)).tool_calls == (ToolCall("f", '{"a": 1}'),)


@pytest.mark.parametrize(
    ("text", "looks_so"),
    [
        ('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', True),
        ('{"name": "f", "parameters": {"a": 1}}', True),
        ("<|python_tag|>f(a=1)", True),
        ("The answer is {1, 2}.", False),
    ],
)
def test_a_tool_call_in_the_text_stays_text_and_is_noted(text: str, looks_so: bool) -> None:
    read = read_chat_completion(_body({"content": text})).choices[0]
    assert (read.content, read.tool_calls, read.has_call_in_text) == (text, (), looks_so)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("text", "not a JSON object"),
        ({}, "not a chat completion"),
        ({"error": {"message": "too\nlong"}}, "an error: too long"),
        ({"choices": []}, "no choices"),
        ({"choices": ["A"]}, "not an object"),
        ({"choices": [{"index": 0}, {"index": 0}]}, "wrong indices"),
        (_body(None), "without a message"),
        (_body({"content": 1}), "content that is not text"),
        (_body({"content": "A"}, "abort"), "ended with 'abort'"),
        (_body({"content": "A"}, ["stop"]), "finish_reason"),
        (_body({"tool_calls": {"a": 1}}), "not a list"),
        (_body({"tool_calls": [{"function": {"arguments": "{}"}}]}), "without a name"),
        (_body({"content": "A", "reasoning": ["r"]}), "reasoning that is not text"),
    ],
)
def test_what_is_no_answer_is_refused(body: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_chat_completion(body)


_KEYS = st.sampled_from(
    [
        "choices", "index", "message", "finish_reason", "content", "reasoning", "reasoning_content", "tool_calls",
        "function", "name", "arguments", "usage", "prompt_tokens", "prompt_tokens_details", "error", "type", "text",
        "completion_tokens_details", "thinking", "custom", "function_call",
    ]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_KEYS, _JSON) | st.builds(_body, st.dictionaries(_KEYS, _JSON), _JSON))
def test_any_body_is_an_answer_or_one_line(body: dict[str, Any]) -> None:
    try:
        read = read_chat_completion(body)
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        assert all(isinstance(json.dumps([call.as_json() for call in read.tool_calls]), str) for _ in read.choices)
        assert isinstance(read.content, str)


@given(st.text(), st.text())
def test_tagged_reasoning_and_text_come_apart_again(reasoning: str, text: str) -> None:
    reasoning, text = reasoning.strip("\n").replace("</think>", ""), text.lstrip("\n")
    assert split_reasoning(f"<think>\n{reasoning}\n</think>\n\n{text}") == (reasoning, text)
