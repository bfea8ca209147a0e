"""The check of a chat endpoint before its docs: what a hidden prompt and ignored parameters look like."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request import Request
from meta_eval.harness.chat_completion import ChatChoice, ChatCompletion, ToolCall
from meta_eval.harness.families import list_families
from meta_eval.harness.provenance import merge_endpoint_notes, read_endpoint_notes
from meta_eval.pack.chat_rendering import ChatTemplate
from meta_eval.plugins.chat.endpoint_check import EndpointCheck, EndpointFinding, compare_recorded_prompts

Body = Mapping[str, Any]
TEMPLATE = ChatTemplate(
    {"default": "{{ tools or '' }} {% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}<assistant> "}, {}
)
NO_TOOLS = ChatTemplate({"default": TEMPLATE.sources["default"].replace("{{ tools or '' }}", "")}, {})
TOOLS = {"messages": [{"role": "user", "content": "add"}], "tools": [{"type": "function", "function": {"name": "add"}}]}


class Words:
    """A tokenizer whose tokens are words."""

    def encode_text(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]

    encode_prompt = encode_text


def answer(body: Body, *, hidden: str = "", default: str = "") -> ChatCompletion:
    """What an honest endpoint answers: fixed words, or words of the seed if it samples."""
    messages = list(body["messages"])
    if hidden:
        messages.insert(0, {"role": "system", "content": hidden})
    if default and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": default})
    seed = body["seed"] if body.get("temperature") else 0
    digest = hashlib.sha256(json.dumps([messages, seed]).encode()).hexdigest()
    words = [digest[start : start + 6] for start in range(0, 60, 6)]
    finish = "stop"
    for stop in body.get("stop", ()):
        if stop in words:
            words = words[: words.index(stop)]
    if len(words) > body["max_tokens"]:
        words, finish = words[: body["max_tokens"]], "length"
    tokens = len(TEMPLATE.render(messages, tools=body.get("tools")).split())
    return ChatCompletion((ChatChoice(" ".join(words), finish_reason=finish),), tokens, len(words))


def check(
    reply: Callable[[Body], ChatCompletion | str], *, template: ChatTemplate | None = TEMPLATE, tools: bool = False
) -> dict[str, EndpointFinding]:
    async def ask(body: Body) -> ChatCompletion | str:
        return reply(body)

    made = EndpointCheck(ask, {}, template, cast(Encoder, Words()), TOOLS if tools else None)
    return {finding.name: finding for finding in asyncio.run(made.run())}


def faults(findings: dict[str, EndpointFinding]) -> dict[str, str]:
    return {name: finding.what for name, finding in findings.items() if finding.passed is False}


def test_an_honest_endpoint_passes_all() -> None:
    findings = check(answer, tools=True)
    assert {finding.passed for finding in findings.values()} == {True}
    assert len(findings) == 7


def test_a_hidden_system_prompt_is_found_to_the_token() -> None:
    """It is in every prompt: its words, and the header of its message."""
    seen = faults(check(lambda body: answer(body, hidden="You sell travel insurance.")))
    assert seen == {
        "prompt": "+5 tokens without a system message, +5 tokens with one, beside the model's chat template: a hidden "
        "system prompt, or another template"
    }


def test_a_default_system_prompt_is_told_from_a_hidden_one() -> None:
    seen = faults(check(lambda body: answer(body, default="Be kind.")))
    assert "+3 tokens without a system message, +0 tokens with one" in seen["prompt"]
    assert "default system prompt" in seen["prompt"]


def test_without_the_template_the_count_is_shown_and_not_judged() -> None:
    finding = check(answer, template=None)["prompt"]
    assert finding.passed is None and "set tokenizer" in finding.what


def without(name: str, value: Any = None) -> Callable[[Body], ChatCompletion]:
    """An endpoint that puts a value of its own in the place of a parameter."""

    def reply(body: Body) -> ChatCompletion:
        return answer({**{key: item for key, item in body.items() if key != name}, **({name: value} if value else {})})

    return reply


@pytest.mark.parametrize(
    ("reply", "name", "words"),
    [
        (without("stop"), "stop", "writes on after the stop text"),
        (without("max_tokens", 100), "max_tokens", "5 tokens were allowed; it ends after 10 tokens with stop"),
        (without("temperature"), "temperature and seed", "alike"),
    ],
)
def test_a_parameter_that_is_ignored_is_named(reply: Callable[[Body], ChatCompletion], name: str, words: str) -> None:
    seen = faults(check(reply))
    assert list(seen) == [name] and words in seen[name]


def test_answers_that_change_and_streams_that_differ_are_named() -> None:
    number = 0

    def reply(body: Body) -> ChatCompletion:
        nonlocal number
        number += 1
        return answer({**body, "messages": [*body["messages"], {"role": "user", "content": str(number)}]})

    assert {"greedy", "streamed", "temperature and seed"} <= set(faults(check(reply)))


def test_tools_that_are_refused_are_a_fault_and_other_refusals_are_unknown() -> None:
    seen = check(lambda body: "400: no tools" if "tools" in body else answer(body), tools=True)
    assert faults(seen) == {"tools": "a doc with tools is refused: 400: no tools"}
    seen = check(lambda body: "400: no streams" if body.get("stream") else answer(body))
    assert (seen["streamed"].passed, seen["streamed"].what) == (None, "400: no streams")


def drop_tools(body: Body, **changes: Any) -> ChatCompletion:
    """An endpoint that takes tools, and makes its prompt without them."""
    return replace(answer({name: value for name, value in body.items() if name != "tools"}), **changes)


@pytest.mark.parametrize("template", [TEMPLATE, NO_TOOLS, None])
def test_tools_that_do_not_reach_the_prompt_are_named_by_the_count_of_tokens(template: ChatTemplate | None) -> None:
    assert list(faults(check(drop_tools, template=template, tools=True))) == ["tools in the prompt"]


def test_without_a_count_the_template_on_this_machine_says_it() -> None:
    def reply(body: Body) -> ChatCompletion:
        return drop_tools(body, prompt_tokens=None)

    seen = faults(check(reply, template=NO_TOOLS, tools=True))
    assert "chat template is the same with tools and without" in seen["tools in the prompt"]
    assert not faults(check(reply, template=TEMPLATE, tools=True))


def test_a_call_shows_that_the_tools_reached_the_model() -> None:
    """Whatever the endpoint counts."""

    def reply(body: Body) -> ChatCompletion:
        made = drop_tools(body)
        called = ChatChoice("", tool_calls=(ToolCall("add", "{}"),), finish_reason="tool_calls")
        return replace(made, choices=(called,)) if body.get("tools") else made

    assert "tools in the prompt" not in check(reply, tools=True)


def test_messages_that_are_refused_without_tools_show_nothing() -> None:
    def reply(body: Body) -> ChatCompletion | str:
        return "400: no" if body["messages"] == TOOLS["messages"] and "tools" not in body else drop_tools(body)

    assert check(reply, template=None, tools=True)["tools"].passed is None


def test_an_endpoint_that_answers_nothing_is_one_finding() -> None:
    (finding,) = check(lambda _: "400: no").values()
    assert finding.what == "was not answered: 400: no"


def test_notes_of_several_runs_are_merged_and_read() -> None:
    def note(passed: bool) -> dict[str, Any]:
        return {"checked": [{"checks": [EndpointFinding("stop", passed, "it writes on").as_json()]}]}

    merged = merge_endpoint_notes(
        [note(False), {"oddities": {"a call in the text": 2}}, note(True), {"oddities": {"a call in the text": 3}}]
    )
    notes = read_endpoint_notes({**merged, "omitted": {"seed": "400: unknown"}})
    assert notes is not None
    assert notes.passed == ("stop",)
    assert notes.faults == ("seed is not accepted, and was left out", "a call in the text (5 times)")


@pytest.mark.parametrize(
    "content", [None, 7, {}, {"checked": 3, "omitted": [1]}, {"checked": [{"checks": [{"passed": []}]}]}]
)
def test_notes_that_are_none_are_left_out(content: Any) -> None:
    notes = read_endpoint_notes(content)
    assert notes is None or not notes.faults


LLAMA = list_families()[0]
OWN = (
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>{% endfor %}"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)


@pytest.mark.parametrize(
    ("template", "passed", "what"),
    [
        (OWN, True, "the model's chat template makes the recorded prompts"),
        ("Today is Monday. {{ mode }} " + OWN, False, "prompts differ by 4 tokens"),
        ("{% if messages | length > 2 %}A B {% endif %}C " + OWN, False, "prompts differ by 1 to 3 tokens"),
        ("{{ raise_exception('no') }}", None, "refuses these messages"),
        (None, None, "set tokenizer"),
    ],
)
def test_recorded_prompts_are_compared_with_what_the_template_makes(
    template: str | None, passed: bool | None, what: str
) -> None:
    turns = (LLAMA.turn("user", "How many? "), LLAMA.turn("assistant", " Two. "), LLAMA.turn("user", " Why? "))
    prompts = [f"{turns[0]}{LLAMA.head('assistant')}", f"{''.join(turns)}{LLAMA.head('assistant')}"]
    requests = [Request(f"t/{number}", "t", number, 0, "generate", text) for number, text in enumerate(prompts)]
    made = ChatTemplate({"default": template}, {}) if template else None
    fields = {"chat_template_kwargs": {"mode": "Terse."}, "top_p": 0.5}
    finding = compare_recorded_prompts(requests, made, cast(Encoder, Words()), fields)
    assert finding is not None
    assert (finding.name, finding.passed) == ("recorded prompts", passed)
    assert what in finding.what


def test_chat_messages_have_no_recorded_prompt_to_compare() -> None:
    requests = [Request("t/0", "t", 0, 0, "chat", '{"messages": []}')]
    assert compare_recorded_prompts(requests, None, None, {}) is None
