"""Reads files of answers. Any program may have written them, and a crash may have cut them off.

Lines are only appended. A crash loses at most the last line, which is then not JSON. Such a line is skipped and
counted, and its request has no answer. Anything else unexpected is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from meta_eval.ask.answers.token_logprobs import TokenLogprobs, read_tokens
from meta_eval.base.errors import UserError, locating
from meta_eval.base.inputs import describe_error, open_regular
from meta_eval.base.json_text import parse_loose_json
from meta_eval.harness.chat_completion import ChatChoice, ChatCompletion
from meta_eval.harness.endpoint_notes import reads_tools_lost
from meta_eval.harness.raw_samples import MAX_SAMPLE_BYTES
from meta_eval.harness.sample_parser import FILTERED
from meta_eval.plugins.chat.batch_files import is_batch_request, is_batch_result, read_batch_result
from meta_eval.plugins.chat.batch_requests import SHORT, split_custom_id

# A UTF-16 engine leaves a lone surrogate if it cuts a character. UTF-8 files cannot hold it.
_HALF_PAIR = re.compile("[\ud800-\udfff]")

# Maximum length in bytes of a folder name. lm_eval makes the name from the model's.
_LONGEST_NAME = 255

# The first line of a file that `meta-eval run` wrote. Other files do not need it.
FORMAT = "meta-eval answers"
VERSION = 1

# Upper limit of counts. Larger counts cannot be averaged exactly.
_MOST = 2**53

# Allowed values of finish_reason.
_ENDS = ("stop", "tool_calls", "length", FILTERED)


class AnswersError(UserError):
    """A file of answers cannot be read, or its answers cannot be graded."""


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """A line of a file of answers.

    Attributes:
        id: The id of the request.
        prompt_sha256: SHA-256 of the answered prompt. None in batch files.
        request_sha256: SHA-256 of the whole request, in batch files the start of it. None if the line does not repeat
            it.
        text: The generated text, or the content of a chat message, with lone surrogates replaced by U+FFFD. None for
            choices.
        choices: Per continuation: its log-likelihood in nats, and whether greedy decoding gives it (None if unknown).
            Empty for texts.
        reasoning: What the model thought before its message, kept apart. None if nothing.
        tool_calls: Per tool call of a chat message: its name, and its arguments as the raw text.
        finish_reason: ``stop``, ``tool_calls``, ``length`` if max_tokens cut the text, ``content_filter`` if the server
            did. None if unknown.
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the answer.
        cached_tokens: Tokens of the prompt that came from a cache.
        tokens: Log-probabilities of a given text. None for other answers.
        error: Why the request failed, or None.
        engine: The engine that answered.
        model: The model that was asked; in batch files the one that answered.
        span: Start and end, in seconds since 1970.
        place: The place of its doc in a random order, from 0. None in any other order.
        where: File and line.
        response_model: The model that the response names. None if it names none.
        endpoint: The hash of the address that answered, or `OWN_SERVER`. None if unknown.
        tools_lost: Whether a check before it found that the endpoint leaves tools out of its prompts.
    """

    id: str
    prompt_sha256: str | None
    request_sha256: str | None
    text: str | None
    choices: tuple[tuple[float, bool | None], ...]
    reasoning: str | None
    tool_calls: tuple[tuple[str, str], ...]
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    tokens: TokenLogprobs | None
    error: str | None
    engine: str | None
    model: str | None
    span: tuple[float, float] | None
    place: int | None
    where: str
    response_model: str | None = None
    endpoint: str | None = None
    tools_lost: bool = False

    def has_same_content(self, other: EngineAnswer) -> bool:
        """Whether both give the same answer to the same prompt. Times, counts and engines may differ."""
        names = ("prompt_sha256", "text", "choices", "tool_calls", "finish_reason", "model")
        return all(getattr(self, name) == getattr(other, name) for name in names)


# The id, and request_sha256 or its start if the line repeats it.
Key = tuple[str, str | None]


@dataclass(slots=True)
class Answers:
    """The content of several files of answers.

    Attributes:
        by_key: By id and request_sha256. The first of several equal answers.
        failed: By id and request_sha256, if every attempt failed. The last attempt.
        doubled: By id and request_sha256: the places of two different answers.
        cut_off: Places of lines that are not JSON.
        otherwise: By id: the place of an answer that repeats its request. If no answer fits today's request, this shows
            that the request has changed.
        settings: By the hash of the settings of `meta-eval run`: the first file that names it.
        orders: By the hash of the seed of a random order: the first file that names it.
        second: The files of second answers to docs, which change no score.
        custom_ids: By the custom_id of another batch file: that of the same request of the pack, or None.
        endpoint: What each run of `meta-eval run` noted about its endpoint, in the order of lines.
        deployments: Sets of endpoints that a run said to be one deployment.
    """

    by_key: dict[Key, EngineAnswer] = field(default_factory=dict)
    failed: dict[Key, EngineAnswer] = field(default_factory=dict)
    doubled: dict[Key, tuple[str, str]] = field(default_factory=dict)
    cut_off: list[str] = field(default_factory=list)
    otherwise: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    orders: dict[str, str] = field(default_factory=dict)
    second: list[str] = field(default_factory=list)
    custom_ids: Mapping[str, str | None] = field(default_factory=dict)
    endpoint: list[Mapping[str, Any]] = field(default_factory=list)
    deployments: list[frozenset[str]] = field(default_factory=list)

    def key(self, request_id: str, request_sha256: str) -> Key:
        """The key of the answer to a request. Prefers an answer that repeats the whole request."""
        keys = (request_id, request_sha256), (request_id, request_sha256[:SHORT])
        return next((key for key in keys if key in self.by_key or key in self.failed), (request_id, None))


def read_answers(
    files: Sequence[Path],
    *,
    prefer: Literal["last"] | None = None,
    custom_ids: Mapping[str, str | None] = MappingProxyType({}),
) -> Answers:
    """Read files of answers. Their order matters only for ``prefer``.

    Args:
        files: The files.
        prefer: ``last`` takes the last of several different answers, in the order of files and lines. Otherwise they
            are kept in ``doubled``.
        custom_ids: By the custom_id of another batch file: that of the same request of the pack. None leaves its result
            out.

    Raises:
        AnswersError: A file cannot be read, or a complete line is not an answer.
    """
    answers = Answers(custom_ids=custom_ids)
    for file in files:
        for answer in _lines(file, answers):
            key = (answer.id, answer.request_sha256)
            first = answers.by_key.get(key)
            if answer.request_sha256 is not None:
                answers.otherwise.setdefault(answer.id, answer.where)
            if answer.error is not None:
                answers.failed[key] = answer
            elif first is None or prefer == "last":
                answers.by_key[key] = answer
            elif not first.has_same_content(answer):
                answers.doubled.setdefault(key, (first.where, answer.where))
    for name in answers.by_key:
        answers.failed.pop(name, None)
    return answers


def _lines(file: Path, answers: Answers) -> Iterator[EngineAnswer]:
    tools_lost = False
    try:
        with open_regular(file) as lines:
            for number, line in enumerate(iter(partial(lines.readline, MAX_SAMPLE_BYTES + 1), b""), 1):
                where = f"{file}, line {number}"
                if len(line) > MAX_SAMPLE_BYTES:
                    with locating(where):
                        raise _wrong(f"it is longer than {MAX_SAMPLE_BYTES >> 20} MiB")
                if not line.strip():
                    continue
                try:
                    content = parse_loose_json(line)
                except ValueError:
                    answers.cut_off.append(where)
                    continue
                if isinstance(content, dict) and content.get("format") == FORMAT:
                    _read_header(content, str(file), answers)
                    lost = reads_tools_lost(note) if isinstance(note := content.get("endpoint"), Mapping) else None
                    tools_lost = tools_lost if lost is None else lost
                    continue
                with locating(where):
                    if not is_batch_result(content):
                        yield _answer(content, where, tools_lost=tools_lost)
                    elif (answer := _batch_answer(content, where, answers.custom_ids)) is not None:
                        yield answer
    except OSError as error:
        hint = "Name files of answers to the requests that `meta-eval export` writes"
        raise AnswersError(f"cannot be read: {describe_error(error)}", where=str(file), hint=hint) from None


def _read_header(content: Mapping[str, Any], file: str, answers: Answers) -> None:
    answers.settings.setdefault(str(content.get("settings_sha256")), file)
    if "seed_sha256" in content:
        answers.orders.setdefault(str(content["seed_sha256"]), file)
    if isinstance(content.get("endpoint"), Mapping):
        answers.endpoint.append(content["endpoint"])
    if isinstance(deployment := content.get("deployment"), list):
        answers.deployments.append(frozenset(map(str, deployment)))
    if content.get("rerun"):
        answers.second.append(file)


def _answer(content: Any, where: str, *, tools_lost: bool) -> EngineAnswer:
    if not isinstance(content, dict):
        raise _wrong("it is no object")
    if ("format" in content and "id" not in content) or is_batch_request(content):
        raise AnswersError("holds requests, not answers", where=where.rpartition(",")[0], hint="Name the answers file")
    fields = _Fields(content)
    own_id, sha256 = fields.text("id"), fields.text("prompt_sha256")
    if own_id is None or sha256 is None:
        raise _wrong("id or prompt_sha256 is missing")
    text, choices, error = fields.text("text"), _choices(content.get("choices")), fields.text("error")
    finish = fields.text("finish_reason")
    forced = _tokens(content.get("tokens"))
    if error is None and (text is not None) + bool(choices) + (forced is not None) != 1:
        raise _wrong("it must hold one of text, choices, tokens and error")
    if error is None and finish is not None and finish not in _ENDS:
        error = f"finish_reason is {finish!r:.40}, none of {', '.join(map(repr, _ENDS))}"
    ids = content.get("token_ids")
    tokens = fields.count("completion_tokens")
    started, ended = fields.number("started"), fields.number("ended")
    return EngineAnswer(
        id=own_id,
        prompt_sha256=sha256,
        request_sha256=fields.text("request_sha256"),
        text=_mend(text),
        choices=choices,
        reasoning=_mend(fields.text("reasoning")),
        tool_calls=_tool_calls(content.get("tool_calls")),
        finish_reason=finish,
        prompt_tokens=fields.count("prompt_tokens"),
        completion_tokens=len(ids) if tokens is None and isinstance(ids, list) else tokens,
        cached_tokens=fields.count("cached_tokens"),
        tokens=forced,
        error=error,
        engine=fields.name("engine"),
        model=fields.name("model"),
        response_model=fields.text("response_model"),
        endpoint=fields.text("endpoint"),
        tools_lost=tools_lost,
        span=(started, ended) if started is not None and ended is not None and started <= ended else None,
        place=fields.count("random_place"),
        where=where,
    )


def _batch_answer(content: Mapping[str, Any], where: str, custom_ids: Mapping[str, str | None]) -> EngineAnswer | None:
    """An answer in a results file of a batch. Its custom_id says which request it answers; None if none of the pack."""
    try:
        result = read_batch_result(content)
    except ValueError as error:
        raise _wrong(f"it {error}") from None
    custom_id = custom_ids.get(result.custom_id, result.custom_id)
    if custom_id is None:
        return None
    own_id, sha256 = split_custom_id(custom_id)
    done = result.completion or ChatCompletion((ChatChoice(""),))
    return EngineAnswer(
        id=own_id,
        prompt_sha256=None,
        request_sha256=sha256,
        text=_mend(done.content),
        choices=(),
        reasoning=_mend(done.reasoning),
        tool_calls=_tool_calls([call.as_json() for call in done.tool_calls]),
        finish_reason=done.finish_reason,
        prompt_tokens=done.prompt_tokens,
        completion_tokens=done.completion_tokens,
        cached_tokens=done.cached_tokens,
        tokens=None,
        error=result.error,
        engine="batch",
        model=_Fields({"model": done.model}).name("model"),
        response_model=done.model,
        span=None,
        place=None,
        where=where,
    )


def _choices(content: Any) -> tuple[tuple[float, bool | None], ...]:
    if content is None:
        return ()
    choices: list[tuple[float, bool | None]] = []
    for choice in content if isinstance(content, list) else [None]:
        fields = _Fields(choice if isinstance(choice, dict) else {})
        logprob, greedy = fields.number("logprob"), fields.content.get("is_greedy")
        if logprob is None or not (greedy is None or isinstance(greedy, bool)):
            raise _wrong('choices must be a list of {"logprob": number, "is_greedy": true or false}')
        choices.append((logprob, greedy))
    return tuple(choices)


def _tool_calls(content: Any) -> tuple[tuple[str, str], ...]:
    if content is None:
        return ()
    calls: list[tuple[str, str]] = []
    for call in content if isinstance(content, list) else [None]:
        name, arguments = (call.get("name"), call.get("arguments")) if isinstance(call, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(arguments, str):
            raise _wrong('tool_calls must be a list of {"name": text, "arguments": text}')
        calls.append((_HALF_PAIR.sub("\ufffd", name), _HALF_PAIR.sub("\ufffd", arguments)))
    return tuple(calls)


def _mend(text: str | None) -> str | None:
    return text and _HALF_PAIR.sub("\ufffd", text)


def _tokens(content: Any) -> TokenLogprobs | None:
    try:
        return None if content is None else read_tokens(content)
    except ValueError as error:
        raise _wrong(f"tokens: {error}") from None


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a line, each with the right type or absent."""

    content: Mapping[str, Any]

    def text(self, name: str) -> str | None:
        value = self.content.get(name)
        if value is not None and not isinstance(value, str):
            raise _wrong(f"{name} is {value!r:.40}, and no text")
        return value

    def name(self, name: str) -> str | None:
        """A text that becomes part of file names."""
        value = self.text(name)
        if value in (".", "..") or not (value or "").isprintable() or len((value or "").encode()) > _LONGEST_NAME:
            raise _wrong(f"{name} is {value!r:.40}, and no name of at most {_LONGEST_NAME} bytes")
        return value

    def number(self, name: str) -> float | None:
        value = self.content.get(name)
        if value is None:
            return None
        # An integer beyond the range of floats is invalid too.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise _wrong(f"{name} is {value!r:.40}, and no number")
        return float(value)

    def count(self, name: str) -> int | None:
        value = self.content.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST):
            raise _wrong(f"{name} is {value!r:.40}, and no count")
        return value


def _wrong(what: str) -> AnswersError:
    return AnswersError(f"not an answer: {what}", hint="See the format in docs/reference/files.md")
