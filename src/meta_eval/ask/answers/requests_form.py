"""The form of meta-eval's own: JSON Lines. `export` writes requests with a header, and any program answers each in a
line."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from meta_eval.ask.answers.answer_form import AnswerForm, Export, Holding
from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import encode_requests, find_kind
from meta_eval.base.hashing import hash_file
from meta_eval.base.json_text import format_json
from meta_eval.harness.answer import Answer, make_unread_error
from meta_eval.harness.chat_completion import ToolCall
from meta_eval.harness.token_logprobs import TokenLogprobs, read_tokens
from meta_eval.pack.baseline import compute_grading_fingerprints
from meta_eval.pack.manifest import MANIFEST

FORMAT = "meta-eval requests"
VERSION = 1

# The first line of a file of answers that `meta-eval run` wrote. Other files do not need it.
ANSWERS = "meta-eval answers"

# Upper limit of counts. Larger counts cannot be averaged exactly.
_MOST = 2**53

# Number of requests that are tokenised together. Encodings take far more memory than texts.
_BATCH = 128


class RequestsForm(AnswerForm):
    """JSON Lines, described in docs/reference/files.md."""

    name = "requests"
    takes_token_ids: ClassVar[bool] = True

    def find_kind(self, line: object) -> Holding | None:
        if not isinstance(line, Mapping):
            return None
        is_header = "format" in line and "id" not in line
        return "requests" if is_header and line["format"] != ANSWERS else "answers"

    def format_requests(self, requests: Iterator[Request], export: Export) -> Iterator[str]:
        yield _line(_header(export))
        yield from _lines(requests, export.encoder)

    def read_answer(self, line: object, names: Mapping[str, str | None], where: str) -> Answer:  # noqa: ARG002
        return _answer(line, where)


def _header(export: Export) -> dict[str, Any]:
    pack, manifest, encoder = export.pack, export.manifest, export.encoder
    keys = compute_grading_fingerprints(pack, manifest)
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": manifest.run_settings.model_name,
        "seed": manifest.run_settings.seed,
        "manifest_sha256": hash_file(pack / MANIFEST),
        "tasks": {name: keys[name] for name in export.tasks},
        "bos_token_id": encoder.bos if encoder else None,
        **({"force": True} if export.force else {}),
        **({"edited": export.edited} if export.edited else {}),
    }


def _lines(requests: Iterator[Request], encoder: Encoder | None) -> Iterator[str]:
    while batch := list(itertools.islice(requests, _BATCH)):
        for request in encode_requests(batch, encoder) if encoder else batch:
            yield _line(_fields(request))


def _fields(request: Request) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": request.id,
        "task": request.task,
        "doc": request.doc,
        "kind": request.kind,
        "prompt": request.prompt,
        "prompt_sha256": request.prompt_sha256,
        "request_sha256": request.sha256,
    }
    fields |= find_kind(request.kind).format_fields(request)
    ids = {"prompt_token_ids": request.prompt_ids, "continuation_token_ids": request.continuation_ids}
    return fields | {name: value for name, value in ids.items() if value is not None}


def format_answer(answer: Answer) -> dict[str, Any]:
    """The content of a line of a file of answers."""
    fields: dict[str, Any] = {
        "id": answer.id,
        "prompt_sha256": answer.prompt_sha256,
        "request_sha256": answer.request_sha256,
        "text": answer.text,
        "reasoning": answer.reasoning,
        "tool_calls": [call.as_json() for call in answer.tool_calls] or None,
        "choices": [
            {"logprob": logprob, **({} if greedy is None else {"is_greedy": greedy})}
            for logprob, greedy in answer.choices
        ]
        or None,
        "tokens": None if answer.tokens is None else answer.tokens.as_json(),
        "error": answer.error,
        "finish_reason": answer.finish_reason,
        "token_ids": None if answer.token_ids is None else list(answer.token_ids),
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "cached_tokens": answer.cached_tokens,
        "engine": answer.engine,
        "model": answer.model,
        "response_model": answer.response_model,
        "endpoint": answer.endpoint,
        "random_place": answer.place,
        "started": answer.started,
        "ended": answer.ended,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _line(content: dict[str, Any]) -> str:
    return format_json(content) + "\n"


def _answer(content: object, where: str) -> Answer:
    if not isinstance(content, dict):
        raise make_unread_error("it is no object")
    fields = _LineFields(content)
    own_id, sha256 = fields.text("id"), fields.text("prompt_sha256")
    if own_id is None or sha256 is None:
        raise make_unread_error("id or prompt_sha256 is missing")
    text, choices, error = fields.text("text"), _choices(content.get("choices")), fields.text("error")
    forced = _tokens(content.get("tokens"))
    if error is None and (text is not None) + bool(choices) + (forced is not None) != 1:
        raise make_unread_error("it must hold one of text, choices, tokens and error")
    ids = content.get("token_ids")
    tokens = fields.count("completion_tokens")
    return Answer(
        id=own_id,
        prompt_sha256=sha256,
        request_sha256=fields.text("request_sha256"),
        text=text,
        choices=choices,
        reasoning=fields.text("reasoning"),
        tool_calls=_tool_calls(content.get("tool_calls")),
        finish_reason=fields.text("finish_reason"),
        prompt_tokens=fields.count("prompt_tokens"),
        completion_tokens=len(ids) if tokens is None and isinstance(ids, list) else tokens,
        cached_tokens=fields.count("cached_tokens"),
        tokens=forced,
        error=error,
        engine=fields.text("engine"),
        model=fields.text("model"),
        response_model=fields.text("response_model"),
        endpoint=fields.text("endpoint"),
        started=fields.number("started"),
        ended=fields.number("ended"),
        place=fields.count("random_place"),
        where=where,
    )


def _choices(content: Any) -> tuple[tuple[float, bool | None], ...]:
    if content is None:
        return ()
    choices: list[tuple[float, bool | None]] = []
    for choice in content if isinstance(content, list) else [None]:
        fields = _LineFields(choice if isinstance(choice, dict) else {})
        logprob, greedy = fields.number("logprob"), fields.content.get("is_greedy")
        if logprob is None or not (greedy is None or isinstance(greedy, bool)):
            raise make_unread_error('choices must be a list of {"logprob": number, "is_greedy": true or false}')
        choices.append((logprob, greedy))
    return tuple(choices)


def _tool_calls(content: Any) -> tuple[ToolCall, ...]:
    if content is None:
        return ()
    calls: list[ToolCall] = []
    for call in content if isinstance(content, list) else [None]:
        name, arguments = (call.get("name"), call.get("arguments")) if isinstance(call, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(arguments, str):
            raise make_unread_error('tool_calls must be a list of {"name": text, "arguments": text}')
        calls.append(ToolCall(name, arguments))
    return tuple(calls)


def _tokens(content: Any) -> TokenLogprobs | None:
    try:
        return None if content is None else read_tokens(content)
    except ValueError as error:
        raise make_unread_error(f"tokens: {error}") from None


@dataclass(frozen=True, slots=True)
class _LineFields:
    """The fields of a line, each with the right type or absent."""

    content: Mapping[str, Any]

    def text(self, name: str) -> str | None:
        value = self.content.get(name)
        if value is not None and not isinstance(value, str):
            raise make_unread_error(f"{name} is {value!r:.40}, and no text")
        return value

    def number(self, name: str) -> float | None:
        value = self.content.get(name)
        if value is None:
            return None
        # An integer beyond the range of floats is invalid too.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise make_unread_error(f"{name} is {value!r:.40}, and no number")
        return float(value)

    def count(self, name: str) -> int | None:
        value = self.content.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST):
            raise make_unread_error(f"{name} is {value!r:.40}, and no count")
        return value
