"""The client of chat endpoints: what it sends, what it reads, and what it does about each fault."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chat_server import Body, ChatServer, Reply, completion, stream
from growth import check_growth
from marks import few, thorough

from meta_eval.ask.request import Request
from meta_eval.harness.answer import Answer
from meta_eval.harness.chat_completion import ToolCall
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.base import BackendError
from meta_eval.plugins.chat.chat_client import ChatClient
from meta_eval.plugins.chat.chat_stream import StreamMerger

KEY = "s3cret-key-of-an-endpoint"
CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.ask.transport._FIRST", 0.002)
    monkeypatch.setenv("MY_KEY", KEY)


def make_request(name: str, *, repeat: int = 0, settings: dict[str, Any] | None = None, **fields: Any) -> Request:
    body = {"messages": [{"role": "user", "content": name}], **fields}
    return Request(f"t/{name}/{repeat}", "t", 0, repeat, "chat", json.dumps(body), ("END",), 16, settings, ())


def ask(
    reply: Callable[[Body], Reply | Body], *requests: Request, models: Any = None, **keys: Any
) -> tuple[list[Answer], ChatServer]:
    with ChatServer(reply, models=models) as server, make_client(server.url, **keys) as client:
        return list(client.answer(requests)), server


def make_client(url: str, **keys: Any) -> ChatClient:
    settings = RunSettings.model_validate(
        {
            "model_name": "tiny", "backend": "chat", "tasks": ("t",), "include_path": "w", "base_url": url,
            "api_key_env": "MY_KEY", "request_timeout": 20, **keys,
        }
    )  # fmt: skip
    return ChatClient(settings, model="tiny", logs=Path("logs"))


def name_of(body: Body) -> str:
    return str(body["messages"][-1]["content"])


def count_event_loops() -> int:
    """How many event loops of this process hold a file open."""
    count = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a connection that is closed meanwhile
            count += "eventpoll" in str(file.readlink())
    return count


def test_a_client_that_has_ended_keeps_no_event_loop_open() -> None:
    before = count_event_loops()
    with ChatServer(lambda _: completion("yes")) as server:
        client = make_client(server.url)
        with client:
            assert [answer.text for answer in client.answer([make_request("q")])] == ["yes"]
            assert count_event_loops() == before + 1
        assert count_event_loops() == before


def test_a_request_carries_messages_settings_and_the_key_alone() -> None:
    (response,), server = ask(
        lambda _: completion({"content": None, "tool_calls": [CALL], "reasoning": "hm"}, "tool_calls"),
        make_request("q", settings={"do_sample": True, "temperature": 0.7}, repeat=2, tools=TOOLS),
        model_args={"reasoning_effort": "low", "provider": '{"order":["a","b"]}'},
    )
    (body,) = server.bodies
    assert body == {
        "model": "tiny", "messages": [{"role": "user", "content": "q"}], "tools": TOOLS, "temperature": 0.7, "seed": 44,
        "stop": ["END"], "max_tokens": 16, "reasoning_effort": "low", "provider": {"order": ["a", "b"]},
    }  # fmt: skip
    assert server.headers == [f"Bearer {KEY}"]
    assert (response.text, response.reasoning, response.finish_reason) == ("", "hm", "tool_calls")
    assert response.tool_calls == (ToolCall("add", '{"a": 1, "b": 2}'),)
    assert (response.prompt_tokens, response.completion_tokens) == (7, 3)


def test_a_text_prompt_is_asked_as_its_messages() -> None:
    prompt = "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    of_base = Request("t/1", "t", 1, 0, "generate", "Question: hi", (), 16, None, ())
    request = Request("t/0", "t", 0, 0, "generate", prompt, (), 16, None, ())
    responses, server = ask(lambda _: completion("A"), request, of_base)
    assert [body["messages"] for body in server.bodies] == [[{"role": "user", "content": "hi"}]]
    refused = next(response for response in responses if response.id == "t/1")
    assert "it is a base model's" in str(refused.error) or "base model" in str(refused.error)


MESSAGES: list[Body] = [
    {"content": "The answer is A."},
    {"content": "A", "reasoning_content": "thinking of it"},
    {"content": "A", "reasoning": "thinking of it"},
    {"content": "", "tool_calls": [CALL, {**CALL, "function": {"name": "sub", "arguments": "{}"}}]},
]


@pytest.mark.parametrize("message", MESSAGES)
def test_streamed_answers_are_the_same(message: Body) -> None:
    (plain,), _ = ask(lambda _: completion(message), make_request("q"))
    (streamed,), server = ask(lambda _: Reply(stream(completion(message))), make_request("q"), stream=True)
    assert (server.bodies[0]["stream"], server.bodies[0]["stream_options"]) == (True, {"include_usage": True})
    for name in ("text", "reasoning", "tool_calls", "finish_reason", "prompt_tokens", "completion_tokens"):
        assert getattr(plain, name) == getattr(streamed, name)


# What endpoints say of a field that they do not know, and the field.
WORDS = [
    (400, {"error": {"message": "Unrecognized request argument supplied: seed", "param": None}}, "seed"),
    (400, {"error": {"message": "Unknown parameter: 'top_k'.", "param": "top_k", "code": "unknown_parameter"}}, "top_k"),
    (400, {"error": {"message": "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default "
                                "(1) value is supported."}}, "temperature"),
    (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}, "seed"),
    (422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "top_k"]}]}}, "top_k"),
    (400, {"error": {"message": "property 'seed' is unsupported, did you mean 'stop'?"}}, "seed"),
    (400, {"error": {"message": "json: unknown field \"seed\""}}, "seed"),
    (400, [{"error": {"code": 400, "message": "Invalid JSON payload received. Unknown name \"seed\": Cannot find field."}}], "seed"),
    (422, {"error": "unknown field `top_k`, expected one of `messages`, `temperature`, `seed`, `stop`"}, "top_k"),
    (400, {"error": {"message": "Extra inputs are not permitted, field: 'top_k', value: 4"}}, "top_k"),
    (400, {"error": "Additional properties are not allowed ('seed' was unexpected)"}, "seed"),
    (400, {"error": {"message": "Model tiny does not support parameter topK."}}, "top_k"),
    (400, {"error": {"message": "'stop' must have at most 4 items"}}, "stop"),
    (422, {"error": "`temperature` must be strictly positive"}, "temperature"),
    (400, b"#/seed: extraneous key [seed] is not permitted", "seed"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "words", "field"), WORDS)
def test_a_field_that_the_endpoint_does_not_know_is_left_out_and_said_once(
    status: int, words: Any, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    requests = [make_request(str(n), settings={"do_sample": True, "temperature": 0.5, "top_k": 4}) for n in range(6)]
    responses, server = ask(
        lambda body: Reply(words, status) if field in body else completion("A"), *requests, concurrency=2
    )
    assert [response.error for response in responses] == [None] * 6
    others = {"model", "messages", "temperature", "top_k", "seed", "stop", "max_tokens"} - {field}
    assert set(server.bodies[-1]) == others, "nothing else is left out"
    (note,) = [record.getMessage() for record in caplog.records]
    assert f"does not accept {field} (" in note and "\n" not in note


def test_a_limit_with_another_name_is_renamed(caplog: pytest.LogCaptureFixture) -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    responses, server = ask(
        lambda body: Reply({"error": {"message": words}}, 400) if "max_tokens" in body else completion("A"),
        make_request("1"), make_request("2"), concurrency=1,
    )  # fmt: skip
    assert [response.error for response in responses] == [None, None]
    assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 16, 16]
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "words",
    [
        "This model does not support 'tools'",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens. Please reduce max_tokens",
        "Unsupported parameter: 'max_completion_tokens' and 'max_tokens'",
    ],
)
def test_what_changes_the_question_is_never_left_out(words: str) -> None:
    (response,), _ = ask(lambda _: Reply({"error": {"message": words}}, 400), make_request("q", tools=TOOLS))
    assert response.text is None and not response.retry
    assert words in str(response.error)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."),
        (403, "tiny requires moderation. Your input was flagged for violence"),
        (400, "Content Exists Risk"),
    ],
)
def test_a_filtered_prompt_is_an_answer_that_the_endpoint_refused(status: int, words: str) -> None:
    (response,), _ = ask(lambda _: Reply({"error": {"message": words}}, status), make_request("q"))
    assert (response.error, response.text, response.finish_reason) == (None, "", "content_filter")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply({"error": {"message": f"{KEY} is no key"}}, 401), "Check MY_KEY"),
        (Reply({"error": {"message": "Insufficient Balance"}}, 402), "Pay it"),
        (Reply({"error": {"message": "You exceeded your current quota"}}, 429), "Pay it"),
        (Reply(b"", 308), "it has moved"),
        (Reply({"error": {"message": "The model `tiny` does not exist"}}, 404), "does not exist"),
    ],
)
def test_what_no_retry_helps_ends_the_run_with_one_line(reply: Reply, words: str) -> None:
    with pytest.raises(BackendError, match=words) as caught:
        ask(lambda _: reply, make_request("q"))
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)


def test_a_reply_that_names_its_choices_twice_is_no_answer() -> None:
    raw = json.dumps(completion("A"))
    for twice in (raw[:-1] + ', "choices": []}', raw[:-1] + f', "{KEY}": 1, "{KEY}": 2}}'):
        (response,), _ = ask(lambda _, twice=twice: Reply(twice.encode()), make_request("q"))
        assert response.text is None and "twice in one object" in str(response.error) and KEY not in str(response.error)


def test_a_page_instead_of_an_api_is_said_at_once() -> None:
    with pytest.raises(BackendError, match="an HTML page, not JSON.*base_url"):
        ask(lambda _: completion("A"), make_request("q"), models=b"<!DOCTYPE html><html>")


def test_a_model_that_is_not_listed_is_asked_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    (response,), server = ask(lambda _: completion("A"), make_request("q"), models={"data": [{"id": "other"}]})
    assert (response.text, server.bodies[0]["model"]) == ("A", "tiny")
    assert "serves other, not tiny" in caplog.text


@pytest.mark.parametrize(
    ("variable", "value", "words"), [("NOT_SET", "", "is not set"), ("ODD", "a\u200bb", "no key has")]
)
def test_a_key_that_cannot_be_sent_is_refused(
    variable: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BackendError, match=words):
        ask(lambda _: completion("A"), make_request("q"), api_key_env=variable)


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message}}).encode()


def _event(**delta: Any) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode()


ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
OF_KEY = {"name": KEY, "arguments": json.dumps({"key": KEY})}
# Everything that an endpoint can say, with the key in it, also where a limit of length cuts it.
REPEATING: dict[str, Reply] = {
    "answer": Reply(completion({"content": f"key {KEY}", "reasoning": KEY, "tool_calls": [{"function": OF_KEY}]})),
    "escaped": Reply(json.dumps(completion("A", model=ESCAPED)).replace("\\\\u", "\\u").encode()),
    "model": Reply(completion("A", model="x" * 190 + KEY)),
    "finish_reason": Reply(completion("A", "x" * 30 + KEY)),
    "error in a body": Reply(_error("x " * 140 + KEY)),
    "stream": Reply(b"".join(_event(content=letter, reasoning=letter) for letter in KEY) + b"data: [DONE]\n\n"),
    "tool call in a stream": Reply(
        b"".join(_event(tool_calls=[{"index": 0, "function": {"name": a, "arguments": a}}]) for a in KEY)
        + b"data: [DONE]\n\n"
    ),
    "error in a stream": Reply(b"data: " + _error("x " * 140 + KEY) + b"\n\n"),
    "error of a tree": Reply({"error": {"message": None, "of": [{KEY: 1}]}}, 400),
    "refused field": Reply(_error(f"Unknown parameter: 'seed' {KEY}"), 400),
    **{f"error {status}": Reply(_error("x " * 240 + KEY), status) for status in (302, 400, 401, 402, 404, 429, 503)},
    "page": Reply(b"x " * 240 + KEY.encode() + b" tail", 400),
}


@pytest.mark.parametrize("form", [*REPEATING])
def test_a_key_that_an_endpoint_repeats_is_nowhere(form: str, caplog: pytest.LogCaptureFixture) -> None:
    said = []
    with contextlib.suppress(BackendError):
        try:
            said += ask(lambda _: REPEATING[form], make_request("q"), retries=0, request_timeout=0.1)[0]
        except BackendError as error:
            said.append(error)
            raise
    shown = repr(said) + str(said) + caplog.text
    assert said and not [at for at in range(len(KEY) - 8) if KEY[at : at + 8] in shown], shown


@pytest.mark.parametrize("card", [{"id": KEY}, {"id": "tiny", "owned_by": "x" * 190 + KEY, "max_model_len": 99999}])
def test_a_key_among_the_models_is_nowhere(card: Body, caplog: pytest.LogCaptureFixture) -> None:
    with ChatServer(lambda _: completion("A"), models={"data": [card]}) as server, make_client(server.url) as client:
        assert KEY[:8] not in client.engine + caplog.text


def test_a_short_key_is_hidden_in_errors_and_not_in_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "EMPTY")
    (response,), _ = ask(lambda _: completion("EMPTY"), make_request("q"))
    assert response.text == "EMPTY"
    for reply in (Reply(_error("of EMPTY"), 400), Reply(_error("of EMPTY")), Reply(b"data: " + _error("of EMPTY"))):
        (response,), _ = ask(lambda _, reply=reply: reply, make_request("q"), retries=0)  # type: ignore[misc]
        assert "of …" in str(response.error)


@pytest.mark.parametrize("field", ["content", "reasoning", "arguments", "name"])
def test_a_streamed_text_longer_than_any_answer_ends_at_once(field: str) -> None:
    """The rest is not read, and no time grows with the square: 8 MiB are ready, of which four are taken."""
    piece = "x" * 2**16
    call = {"tool_calls": [{"index": 0, "function": {field: piece}}]}
    event = _event(**(call if field in ("arguments", "name") else {field: piece}))
    (response,), _ = ask(lambda _: Reply(event * 128, cut=False), make_request("q"), retries=0)
    assert "a stream that holds a text of more than 4,194,304 characters" in str(response.error)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_stream_of_single_characters_is_the_whole_text(end: bytes) -> None:
    raw = b"".join(_event(content=letter) for letter in "The answer is A." * 100).replace(b"\n", end)
    (response,), _ = ask(lambda _: Reply(raw + b"data: [DONE]" + end * 2), make_request("q"))
    assert response.text == "The answer is A." * 100


def test_the_halves_of_a_surrogate_pair_in_two_events_are_a_character_and_one_alone_is_replaced() -> None:
    raw = b"".join(_event(content=text) for text in ("\ud83d", "\ude00 ", "\ud83d", " A")) + b"data: [DONE]\n\n"
    (response,), _ = ask(lambda _: Reply(raw), make_request("q"))
    assert response.text == "\U0001f600 \ufffd A"


@pytest.mark.parametrize("index", [-1, 1024, 10**30])
def test_a_stream_with_a_strange_index_is_no_answer(index: int) -> None:
    raw = json.dumps({"choices": [{"index": index, "delta": {"content": "A"}}]}).encode()
    (response,), _ = ask(lambda _: Reply(b"data: " + raw + b"\n\ndata: [DONE]\n\n"), make_request("q"), retries=0)
    assert "a stream with a" in str(response.error)


@thorough
def test_a_stream_of_single_characters_takes_time_in_its_length() -> None:
    """Eight times as many pieces take eight times as long, and not 64 times."""

    def merge(count: int) -> None:
        merger = StreamMerger()
        merger.feed(_event(content="x") * count + b"data: [DONE]\n\n")
        merger.finish()

    check_growth(partial(merge, 50_000), partial(merge, 400_000), at_most=16)


def test_other_forms_after_an_hour_are_said_once_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    def reply(body: Body) -> Body:
        number = int(name_of(body))
        if number < 3:
            return completion({"content": "A", "reasoning_content": "r"})
        if number < 6:
            return completion("<think>r</think>A")
        if number < 8:
            return completion('<tool_call>{"name": "add", "arguments": {}}</tool_call>')
        message = {"content": "", "tool_calls": [{"function": {"name": "add", "arguments": '{"a": '}}]}
        return completion(message, "length")  # 3 of 16 tokens

    responses, _ = ask(reply, *(make_request(str(n), tools=TOOLS) for n in range(10)), concurrency=1)
    assert [response.reasoning for response in responses[:6]] == ["r"] * 6
    assert [response.tool_calls for response in responses[8:]] == [(ToolCall("add", '{"a": '),)] * 2
    notes = [record.getMessage() for record in caplog.records]
    assert [note.split(": ")[1] for note in notes] == [
        "reasoning is in tags in the text, and was in the field reasoning_content",
        "a tool call is in the text, and not in tool_calls",
        "the arguments of a tool call are no JSON object",
        "an answer was cut before its limit",
    ]


@pytest.mark.parametrize("keys", [{"requests_per_minute": 600}, {"tokens_per_minute": 6000}])
def test_limits_a_minute_are_kept(keys: Body) -> None:
    """Ten requests a second; and of 10 tokens each, as the endpoint counts them."""
    began = time.monotonic()
    requests = [Request(f"t/{n}", "t", n, 0, "chat", make_request("q").prompt, (), 1, None, ()) for n in range(6)]
    responses, _ = ask(lambda _: completion("A"), *requests, **keys)
    assert len(responses) == 6
    assert 0.35 < time.monotonic() - began < 2


# Faults that pass: each is asked again.
PASSING: dict[str, Callable[[Body], Reply]] = {
    "busy": lambda _: Reply({"error": {"message": "slow down"}}, 429, {"Retry-After": "0.01"}),
    "overloaded": lambda _: Reply({"error": {"message": "overloaded"}}, 503),
    "broken": lambda _: Reply(b"oops", 500),
    "page": lambda _: Reply(b"<html><body>502 Bad Gateway</body></html>"),
    "bad gateway": lambda _: Reply(b"<html><body>502 Bad Gateway</body></html>", 502),
    "nothing": lambda _: Reply(b""),
    "no choices": lambda _: Reply({"choices": [], "usage": None}),
    "null": lambda _: Reply(b"null"),
    "half": lambda good: Reply(json.dumps(good).encode()[:40]),
    "error in a body": lambda _: Reply({"error": {"message": "upstream died", "code": 502}}),
    "aborted": lambda _: Reply(completion("half an ans", "abort")),
    "early end": lambda good: Reply(stream(good, done=False)),
    "error in a stream": lambda _: Reply(b'data: {"error": {"message": "upstream died"}}\n\n'),
    "stream of pages": lambda _: Reply(b"data: <html>\n\n"),
    "wrong types": lambda _: Reply(completion({"content": 17})),
    "nameless call": lambda _: Reply(completion({"content": "", "tool_calls": [{"function": {"arguments": "{}"}}]})),
}
# Answers in any form that an endpoint may give; each with its text, reasoning and number of tool calls.
ANSWERS: list[tuple[Body, str, str | None, int]] = [
    (completion("A"), "A", None, 0),
    (completion(""), "", None, 0),
    (completion({"content": None, "tool_calls": [CALL]}, "tool_calls"), "", None, 1),
    (completion({"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{oops"}}]}), "", None, 1),
    (completion({"content": "A", "reasoning_content": "r"}), "A", "r", 0),
    (completion("<think>r</think>A"), "A", "r", 0),
    (completion({"content": [{"type": "text", "text": "A"}]}), "A", None, 0),
    (completion("<think>r", "length"), "", "r", 0),
    (completion(None, "content_filter"), "", None, 0),
    (completion("A", "eos", usage=None), "A", None, 0),
]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=thorough) for seed in range(1, 10))])
def test_of_500_faults_nothing_is_lost_and_nothing_answered_is_asked_twice(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten endpoints, each with 50 requests that fail up to four times before they are answered."""
    draw = random.Random(seed)
    names = [str(number) for number in range(50)]
    plans = {name: draw.choices(list(PASSING), k=draw.randint(0, 4)) for name in names}
    plans[names[0]] = [*plans[names[0]], "cut"]
    answers = {name: draw.choice(ANSWERS) for name in names}
    unknown = draw.choice(["seed", "stop", "temperature", ""])
    left = {name: iter(plan) for name, plan in plans.items()}
    answered: Counter[str] = Counter()

    def reply(body: Body) -> Reply:
        if unknown in body:
            return Reply({"error": {"message": f"Unknown parameter: '{unknown}'."}}, 400)
        name = name_of(body)
        good = answers[name][0]
        fault = next(left[name], None)
        if fault == "cut":
            return Reply(good, cut=True)
        if fault is not None:
            return PASSING[fault](good)
        answered[name] += 1
        if body.get("stream") and good["choices"][0]["message"] is not None and "usage" in good:
            is_text = isinstance(good["choices"][0]["message"].get("content"), str | None)
            return Reply(stream(good)) if is_text else Reply(good)
        return Reply(good)

    requests = [make_request(name, settings={"do_sample": True, "temperature": 0.5}) for name in names]
    responses, _ = ask(reply, *requests, concurrency=8, stream=seed % 2 == 1)
    seen = {response.id.split("/")[1]: response for response in responses}
    assert len(responses) == len(seen) == 50
    assert answered == dict.fromkeys(names, 1)
    for name, (_, text, reasoning, calls) in answers.items():
        response = seen[name]
        assert response.error is None, (plans[name], response.error)
        assert (response.text, response.reasoning, len(response.tool_calls)) == (text, reasoning, calls)
    notes = [record.getMessage() for record in caplog.records]
    assert not [note for note in notes if KEY in note or "\n" in note]
    assert len(notes) == len(set(notes)) and len(notes) <= 12


@pytest.mark.parametrize("fault", [*PASSING])
def test_a_fault_that_stays_is_one_line(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.ask.servers_client.time.time", _clock().__next__)
    responses, _ = ask(
        lambda body: PASSING[fault](completion("A")) if name_of(body) == "bad" else completion("A"),
        make_request("good"), make_request("bad"), retries=2, request_timeout=20,
    )  # fmt: skip
    errors = {response.id: response.error for response in responses}
    assert errors["t/good/0"] is None
    assert errors["t/bad/0"] and "\n" not in errors["t/bad/0"] and KEY not in errors["t/bad/0"]


@pytest.mark.parametrize("status", [408, 429, 503])
@pytest.mark.parametrize("wait", few(["0", "-5", "0.0001", "Wed, 21 Oct 2015 07:28:00 GMT"], 3))
def test_a_time_that_is_over_removes_no_pause(wait: str, status: int) -> None:
    """Pauses double from 2 ms: some ten fit into a second. Only a server that is too busy is asked all that time."""
    busy = Reply({"error": {"message": "slow down"}}, status, {"Retry-After": wait})
    (response,), server = ask(lambda _: busy, make_request("a"), retries=2, request_timeout=1)
    assert str(status) in str(response.error)
    assert len(server.bodies) == 3 if status != 429 else 5 < len(server.bodies) < 20


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_an_encoding_that_cannot_be_read_is_named(encoding: str) -> None:
    plain = Reply(completion("A"), 200, {"Content-Encoding": encoding})
    (response,), _ = ask(lambda _: plain, make_request("a"), retries=1)
    assert str(response.error).endswith("/v1: a response whose Content-Encoding cannot be read")


@pytest.mark.parametrize("wait", ["1000000000", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_an_endpoint_that_asks_to_wait_for_hours_is_not_checked(wait: str) -> None:
    busy = Reply({"error": {"message": "slow down"}}, 429, {"Retry-After": wait})
    began = time.monotonic()
    with ChatServer(lambda _: busy) as server, make_client(server.url) as client:
        client.examine([make_request("a")])
    assert time.monotonic() - began < 10


def _clock() -> Iterator[float]:
    """A clock on which each look takes two seconds, so that a busy endpoint is not waited for."""
    now = 1e9
    while True:
        yield now
        now += 2.0


@pytest.fixture(autouse=True)
def _all_notes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="meta_eval")
