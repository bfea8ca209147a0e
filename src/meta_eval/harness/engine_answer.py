"""An answer to a request of a pack, from whatever program, and the checks of its parts."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from meta_eval.base.errors import UserError
from meta_eval.harness.chat_completion import ChatChoice, ChatCompletion
from meta_eval.harness.token_logprobs import TokenLogprobs

# A UTF-16 engine leaves a lone surrogate if it cuts a character. UTF-8 files cannot hold it.
_HALF_PAIR = re.compile("[\ud800-\udfff]")

# Maximum length in bytes of a folder name. lm_eval makes the name from the model's.
_LONGEST_NAME = 255

# Upper limit of counts. Larger counts cannot be averaged exactly.
_MOST = 2**53

# Digits of a request's SHA-256 that an answer repeats at least, if it repeats it.
SHORT = 12


class AnswersError(UserError):
    """A file of answers cannot be read, or its answers cannot be graded."""


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """A line of a file of answers.

    Attributes:
        id: The id of the request.
        prompt_sha256: SHA-256 of the answered prompt. None if the line does not repeat it.
        request_sha256: SHA-256 of the whole request, or its first `SHORT` digits. None likewise.
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
        model: The model that was asked; where the line does not say, the one that answered.
        span: Start and end, in seconds since 1970.
        place: The place of its doc in a random order, from 0. None in any other order.
        where: File and line.
        response_model: The model that the response names. None if it names none.
        endpoint: The hash of the address that answered, or `OWN_SERVER`. None if unknown.
        tools_lost: Whether a check before it found that the endpoint leaves tools out of its prompts.
        is_chat: Whether it answers chat messages also where the prompt of the pack is a text.
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
    is_chat: bool = False

    def has_same_content(self, other: EngineAnswer) -> bool:
        """Whether both give the same answer to the same prompt. Times, counts and engines may differ."""
        names = ("prompt_sha256", "text", "choices", "tool_calls", "finish_reason", "model")
        return all(getattr(self, name) == getattr(other, name) for name in names)


def make_chat_answer(
    own_id: str,
    request_sha256: str | None,
    completion: ChatCompletion | None,
    *,
    engine: str,
    where: str,
    error: str | None = None,
) -> EngineAnswer:
    """The answer to a request that was asked as chat messages.

    Args:
        own_id: The id of the request.
        request_sha256: Its SHA-256, or the first `SHORT` digits; None if unknown, and then it answers nothing.
        completion: The answer; None if the request failed.
        engine: What answered, for the results file.
        where: File and line.
        error: Why the request failed; None if it did not.
    """
    done = completion or ChatCompletion((ChatChoice(""),))
    return EngineAnswer(
        id=own_id,
        prompt_sha256=None,
        request_sha256=request_sha256,
        text=mend(done.content),
        choices=(),
        reasoning=mend(done.reasoning),
        tool_calls=read_tool_calls([call.as_json() for call in done.tool_calls]),
        finish_reason=done.finish_reason,
        prompt_tokens=done.prompt_tokens,
        completion_tokens=done.completion_tokens,
        cached_tokens=done.cached_tokens,
        tokens=None,
        error=error,
        engine=engine,
        model=LineFields({"model": done.model}).name("model"),
        response_model=done.model,
        span=None,
        place=None,
        where=where,
        is_chat=True,
    )  # fmt: skip


def read_tool_calls(content: Any) -> tuple[tuple[str, str], ...]:
    """The tool calls of a line.

    Raises:
        AnswersError: It holds something else.
    """
    if content is None:
        return ()
    calls: list[tuple[str, str]] = []
    for call in content if isinstance(content, list) else [None]:
        name, arguments = (call.get("name"), call.get("arguments")) if isinstance(call, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(arguments, str):
            raise make_unread_error('tool_calls must be a list of {"name": text, "arguments": text}')
        calls.append((_HALF_PAIR.sub("\ufffd", name), _HALF_PAIR.sub("\ufffd", arguments)))
    return tuple(calls)


def mend(text: str | None) -> str | None:
    """A text without lone surrogates."""
    return text and _HALF_PAIR.sub("\ufffd", text)


@dataclass(frozen=True, slots=True)
class LineFields:
    """The fields of a line, each with the right type or absent."""

    content: Mapping[str, Any]

    def text(self, name: str) -> str | None:
        value = self.content.get(name)
        if value is not None and not isinstance(value, str):
            raise make_unread_error(f"{name} is {value!r:.40}, and no text")
        return value

    def name(self, name: str) -> str | None:
        """A text that becomes part of file names."""
        value = self.text(name)
        if value in (".", "..") or not (value or "").isprintable() or len((value or "").encode()) > _LONGEST_NAME:
            raise make_unread_error(f"{name} is {value!r:.40}, and no name of at most {_LONGEST_NAME} bytes")
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


def make_unread_error(what: str) -> AnswersError:
    """The error of a line that is no answer."""
    return AnswersError(f"not an answer: {what}", hint="See the format in docs/reference/files.md")
