"""Streams of chat completions, as servers write them and as they should not: the whole answer, or an error."""

from __future__ import annotations

import json
from typing import Any

from marks import each

from meta_eval.ask.transport import GarbledError
from meta_eval.harness.chat_completion import read_chat_completion
from meta_eval.plugins.chat.chat_stream import StreamMerger


def event(*choices: Any, **more: Any) -> bytes:
    return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"


def delta(end: Any = None, index: Any = 0, **fields: Any) -> bytes:
    return event({"index": index, "delta": fields, "finish_reason": end})


def calls(*pieces: Any) -> bytes:
    return b"".join(delta(tool_calls=[piece]) for piece in pieces) + delta("tool_calls")


def call(index: Any, name: Any = None, arguments: Any = None) -> dict[str, Any]:
    fields = {"index": index, "function": {"name": name, "arguments": arguments}}
    return {key: value for key, value in fields.items() if value is not None}


TEXT, END, DONE = delta(content="A"), delta("stop"), b"data: [DONE]\n\n"
GOOD = TEXT + END + DONE
LATE = b'data: {"error": {"message": "late"}}\n\n'
WHOLE = {"index": 0, "message": {"content": "A"}, "finish_reason": "stop"}
NO_OBJECT, EARLY = "a stream with an event that is not a JSON object", "a stream that ended early"
NO_CHOICE, NO_CALL = "a stream with a choice that is not an object", "a stream with a tool call that is not an object"
NO_DELTA, NO_TEXT = "a stream with a delta that is not an object", "a stream with a content that is not text"

# Each with its text, or the calls as "name(arguments)", or its error.
STREAMS: dict[str, tuple[bytes, str]] = {
    "mark before": (b"\xef\xbb\xbf" + GOOD, "A"),
    "empty data": (b"data:\n\n" + TEXT + b"data: \n\n" + END + DONE, "A"),
    "comments": (b": ping\n\n" + TEXT + b":\n\n" + END + DONE, "A"),
    "retry first": (b"retry: 10\n\n" + GOOD, "A"),
    "id and event": (b"id: 1\nevent: message\n" + GOOD, "A"),
    "no space": (GOOD.replace(b"data: ", b"data:"), "A"),
    "spaces around": (TEXT + END + b"data:   [DONE]  \n\n", "A"),
    "lines of an event": (TEXT.replace(b', "delta"', b',\ndata: "delta"') + END + DONE, "A"),
    "no last newline": ((TEXT + END)[:-2], "A"),
    "end without mark": (TEXT + END, "A"),
    "after the mark": (GOOD + TEXT + LATE, "A"),
    "separators in it": ('data: {"choices": [{"delta": {"content": "a\u2028b\x85c"}}]}\n\n'.encode() + END, "a\u2028b\x85c"),
    "characters": ('data: {"choices": [{"delta": {"content": "\u00e9\U0001f600"}}]}\n\n'.encode() + END, "\u00e9\U0001f600"),
    "an error of null": (TEXT + event(error=None) + END + DONE, "A"),
    "choices of null": (TEXT + END + b'data: {"choices": null, "usage": {"prompt_tokens": 1}}\n\n' + DONE, "A"),
    "index of null": (event({**WHOLE, "index": None}) + DONE, "A"),
    "no index": (b'data: {"choices": [{"delta": {"content": "A"}, "finish_reason": "stop"}]}\n\n' + DONE, "A"),
    "message in place of deltas": (event(WHOLE) + DONE, "A"),
    "message after deltas": (TEXT + event(WHOLE) + DONE, "A"),
    "not a number": (b'data: {"choices": [], "usage": {"prompt_tokens": NaN}}\n\n' + GOOD, "A"),
    "deep beside it": (TEXT.replace(b'"A"', b'"A", "x": ' + b"[" * 500 + b"]" * 500) + END + DONE, "A"),
    "counts of no number": (TEXT + event(usage={"completion_tokens": -2, "prompt_tokens": "7"}) + END + DONE, "A"),
    "refused": (delta(refusal="No") + END + DONE, "No"),
    "filtered": (event({"index": 0, "delta": None, "finish_reason": "content_filter"}) + DONE, ""),
    "empty": (delta(role="assistant") + END + DONE, ""),
    "another choice alone": (delta("stop", 1, content="B") + DONE, "B"),
    "former call": (delta(function_call={"name": "f", "arguments": '{"a"'}) + delta(function_call={"arguments": ": 1}"})
                    + delta("function_call") + DONE, 'f({"a": 1})'),
    "custom call": (calls({"index": 0, "custom": {"name": "f", "input": "x"}}) + DONE, "f(x)"),
    "interleaved": (calls(call(1, "g", "["), call(0, "f", "{"), call(0, None, "}"), call(1, None, "]")), "f({})g([])"),
    "calls without index": (calls(call(None, "f", "{}"), call(None, "g", "{"), call(None, None, "}")), "f({})g({})"),
    "last without index": (calls(call(0, "f", "{"), call(1, "g", "{"), call(0, None, "}"), call(None, None, "}")), "f({})g({})"),
    "name with each piece": (calls(call(0, "get", "{"), call(0, "get", "}"), call(0, "get")), "get({})"),
    "name in pieces": (calls(call(0, "get_"), call(0, "time"), call(0, "", "{}")), "get_time({})"),
    "call of null": (calls(call(0, "f")), "f()"),
    "call of an object": (calls(call(0, "f", {"a": 1})), 'f({"a": 1})'),
    "text of completions": (event({"index": 0, "text": "A", "finish_reason": "stop"}) + DONE, "neither a delta nor a message"),
    "error": (TEXT + b'data: {"error": "boom"}\n\n' + DONE, "a stream that holds an error: boom"),
    "late error": (TEXT + END + LATE + DONE, "a stream that holds an error: late"),
    "error by event": (b'event: error\ndata: {"message": "boom"}\n\n', EARLY),
    "cut": (TEXT, EARLY),
    "cut event": (TEXT + b'data: {"choices": [{"in', NO_OBJECT),
    "the mark alone": (DONE, "holds no choices"),
    "null": (b"data: null\n\n" + GOOD, NO_OBJECT),
    "number": (b"data: 5\n\n" + GOOD, NO_OBJECT),
    "list": (b"data: []\n\n" + GOOD, NO_OBJECT),
    "page": (b"data: <html>\n\n", NO_OBJECT),
    "quoted mark": (TEXT + END + b'data: "[DONE]"\n\n', NO_OBJECT),
    "no empty lines": (GOOD.replace(b"\n\n", b"\n"), NO_OBJECT),
    "bytes of no text": (TEXT.replace(b"A", b"\xff") + END + DONE, NO_OBJECT),
    "too deep": (b"data: " + b"[" * 10_000 + b"\n\n" + GOOD, NO_OBJECT),
    "choices of an object": (b'data: {"choices": {"0": {}}}\n\n' + GOOD, NO_CHOICE),
    "index of a text": (delta(index="0", content="A"), NO_CHOICE),
    "index of a fraction": (delta(index=0.0, content="A"), NO_CHOICE),
    "index of a truth": (delta("stop", True, content="A") + DONE, "wrong indices"),
    "index of 400 digits": (delta(index=10**400, content="A"), "a stream with a wrong index of a choice"),
    "delta of a list": (event({"index": 0, "delta": []}) + END, NO_DELTA),
    "delta of a text": (event({"index": 0, "delta": "A"}) + END, NO_DELTA),
    "message of a text": (event({"index": 0, "message": "A"}) + END, NO_DELTA),
    "content of a number": (delta(content=5) + END, NO_TEXT),
    "content of parts": (delta(content=[{"type": "image"}]) + END, NO_TEXT),
    "call of nothing": (calls(None), NO_CALL),
    "calls of an object": (delta(tool_calls={}) + END, NO_CALL),
    "function of null": (calls({"index": 0, "function": None}), NO_CALL),
    "former call of a text": (delta(function_call="f") + END, NO_CALL),
    "nameless": (calls(call(0, None, "{}")), "a tool call without a name"),
    "name of a number": (calls(call(0, 5, "{}")), "a tool call without a name"),
    "end of an object": (TEXT + delta({"a": 1}) + DONE, "a finish_reason that is not a text"),
    "empty end": (TEXT + delta("") + DONE, "ended with ''"),
    "aborted": (TEXT + delta("abort") + DONE, "ended with 'abort'"),
}  # fmt: skip


def read(raw: bytes, step: int) -> str:
    """The first answer of a stream that comes in parts of some bytes, or its error."""
    merger = StreamMerger()
    assert merger.is_stream(raw)
    try:
        for start in range(0, len(raw), step):
            merger.feed(raw[start : start + step])
        answer = read_chat_completion(merger.finish())
    except (GarbledError, ValueError) as error:
        return str(error)
    return answer.content + "".join(f"{call.name}({call.arguments})" for call in answer.tool_calls)


@each("name", STREAMS)
def test_a_stream_is_the_whole_answer_or_an_error_however_it_is_cut(name: str) -> None:
    raw, words = STREAMS[name]
    whole, *cut = [read(raw, step) for step in (len(raw), 7, 1)]
    assert [whole, whole] == cut
    assert whole == words or (" " in words and words in whole)
