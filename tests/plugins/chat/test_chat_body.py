"""The body of a chat request: greedy by default, with one limit, and the doc's own fields win."""

from __future__ import annotations

import json
from typing import Any

import pytest

from meta_eval.ask.completions import Abilities, build_text_request
from meta_eval.ask.request import Request, read_conversation
from meta_eval.harness.settings import SAMPLING
from meta_eval.plugins.chat.chat_body import make_chat_body

MESSAGES = [{"role": "user", "content": "hi"}]


def body(settings: dict[str, Any], fields: dict[str, Any] | None = None, repeat: int = 0, **doc: Any) -> dict[str, Any]:
    prompt = json.dumps({"messages": MESSAGES, **doc})
    request = Request("t/0", "t", 0, repeat, "chat", prompt, ("END",), 16, settings)
    return make_chat_body(request, read_conversation(request), model="m", seed=42, fields=fields or {})


def test_a_request_is_greedy_unless_its_task_samples() -> None:
    assert body({"do_sample": False}) == {
        "model": "m", "stop": ["END"], "temperature": 0.0, "max_tokens": 16, "messages": MESSAGES,
    }  # fmt: skip


def test_each_repeat_is_sampled_with_its_own_seed() -> None:
    sampled = [body({"do_sample": True, "temperature": 0.7}, repeat=repeat) for repeat in (0, 3)]
    assert [(made["temperature"], made["seed"]) for made in sampled] == [(0.7, 42), (0.7, 45)]
    assert "temperature" not in body({"do_sample": True}), "the endpoint's own"
    settings = {"do_sample": True, "temperature": 0.7, "seed": 7}
    assert [body(settings, repeat=repeat)["seed"] for repeat in (0, 3)] == [7, 10], "of the task"
    assert body({"do_sample": True}, repeat=3, seed=9)["seed"] == 12, "of the doc"
    assert body({"seed": 7}, repeat=3)["seed"] == 7, "a greedy answer"


@pytest.mark.parametrize("name", [*SAMPLING][2:])
def test_every_engine_gets_a_setting_of_sampling(name: str) -> None:
    settings = {"do_sample": True, "temperature": 0.7, name: 0.5}
    request = Request("t/0", "t", 0, 0, "generate", "hi", ("END",), 16, settings)
    assert body(settings)[name] == request.sampling[name] == 0.5
    assert build_text_request(request, seed=1, end=(), can=Abilities())[name] == 0.5


def test_fields_of_the_doc_win_over_further_fields_and_these_over_the_task() -> None:
    made = body({"top_p": 0.1, "temperature": 0.5}, {"temperature": 0.6, "min_p": 0.2}, min_p=0.3)
    assert (made["top_p"], made["temperature"], made["min_p"]) == (0.1, 0.6, 0.3)


@pytest.mark.parametrize(
    ("fields", "doc", "limit"),
    [
        ({}, {}, {"max_tokens": 16}),
        ({"max_completion_tokens": 8}, {}, {"max_completion_tokens": 8}),
        ({}, {"max_completion_tokens": 4}, {"max_completion_tokens": 4}),
        ({"max_completion_tokens": 8}, {"max_tokens": 4}, {"max_tokens": 4}),
    ],
)
def test_one_limit_of_tokens_is_sent(fields: dict[str, int], doc: dict[str, int], limit: dict[str, int]) -> None:
    assert {name: value for name, value in body({}, fields, **doc).items() if name.startswith("max_")} == limit


def test_only_a_conversation_that_begins_the_answer_is_continued() -> None:
    fields = {"continue_final_message": True, "top_p": 0.5}
    assert "continue_final_message" not in body({}, fields)
    assert body({}, fields, continue_final_message=True)["continue_final_message"] is True
