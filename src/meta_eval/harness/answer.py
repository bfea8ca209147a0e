"""An answer to a request of a pack, from whatever program, and the checks of its parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from meta_eval.base.errors import UserError
from meta_eval.harness.chat_completion import ChatChoice, ChatCompletion, ToolCall
from meta_eval.harness.sample_parser import FILTERED
from meta_eval.harness.token_logprobs import TokenLogprobs

# A UTF-16 engine leaves a lone surrogate if it cuts a character. UTF-8 files cannot hold it.
_HALF_PAIR = re.compile("[\ud800-\udfff]")

# Maximum length in bytes of a folder name. lm_eval makes the name from the model's.
_LONGEST_NAME = 255

# Allowed values of finish_reason.
_ENDS = ("stop", "tool_calls", "length", FILTERED)

# Digits of a request's SHA-256 that an answer repeats at least, if it repeats it.
SHORT = 12


class AnswersError(UserError):
    """A file of answers cannot be read, or its answers cannot be graded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to a request: a text, choices, tokens or an error."""

    id: str
    """The id of the request."""

    where: str = ""
    """File and line. Empty of an answer that just came."""

    prompt_sha256: str | None = None
    """SHA-256 of the answered prompt. None if the line does not repeat it."""

    request_sha256: str | None = None
    """SHA-256 of the whole request, or its first `SHORT` digits. None likewise."""

    text: str | None = None
    """The generated text without stop text and end token, or the content of a chat message, ``""`` without. None for
    choices and tokens."""

    choices: Sequence[tuple[float, bool | None]] = ()
    """Per continuation: its log-likelihood in nats, summed over tokens, and whether greedy decoding gives it (None if
    unknown). Empty for texts."""

    reasoning: str | None = None
    """What the model thought before its message, kept apart and never graded. None if nothing."""

    tool_calls: tuple[ToolCall, ...] = ()
    """The tool calls of a chat message, in order."""

    finish_reason: str | None = None
    """``stop``, ``tool_calls``, ``length`` if max_tokens cut the text, ``content_filter`` if the server did. None if
    unknown."""

    token_ids: Sequence[int] | None = None
    """Token ids of the text, if the engine returns them. Not read from files."""

    prompt_tokens: int | None = None
    """Tokens of the prompt, with BOS."""

    completion_tokens: int | None = None
    """Tokens of the answer."""

    cached_tokens: int | None = None
    """Tokens of the prompt that came from a cache."""

    tokens: TokenLogprobs | None = None
    """Log-probabilities of a given text. None for other answers."""

    error: str | None = None
    """Why the request failed, or None."""

    retry: bool = True
    """Whether a retry may help after an error."""

    engine: str | None = None
    """The engine that answered."""

    model: str | None = None
    """The model that was asked; where the line does not say, the one that answered."""

    started: float | None = None
    """Seconds since 1970."""

    ended: float | None = None
    """Seconds since 1970."""

    place: int | None = None
    """The place of its doc in a random order, from 0. None in any other order."""

    response_model: str | None = None
    """The model that the response names, in the spelling of the request if it is that. None if it names none."""

    endpoint: str | None = None
    """The hash of the address that answered, or `OWN_SERVER`. None if unknown."""

    tools_lost: bool = False
    """Whether a check before it found that the endpoint leaves tools out of its prompts."""

    is_chat: bool = False
    """Whether it answers chat messages also where the prompt of the pack is a text."""

    @property
    def key(self) -> tuple[str, str | None]:
        """The id and the hash of the request."""
        return self.id, self.request_sha256

    @property
    def task(self) -> str:
        """The task of the request."""
        return self.id.partition("/")[0]

    @property
    def doc(self) -> int:
        """lm-eval's number of the doc. For ids of requests of a pack alone."""
        return int(self.id.split("/")[1])

    @property
    def span(self) -> tuple[float, float] | None:
        """Start and end, in seconds since 1970; None if they are unknown or wrong."""
        if self.started is None or self.ended is None or self.started > self.ended:
            return None
        return self.started, self.ended

    def has_same_content(self, other: Answer) -> bool:
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
) -> Answer:
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
    return Answer(
        id=own_id,
        request_sha256=request_sha256,
        text=done.content,
        reasoning=done.reasoning,
        tool_calls=tuple(done.tool_calls),
        finish_reason=done.finish_reason,
        prompt_tokens=done.prompt_tokens,
        completion_tokens=done.completion_tokens,
        cached_tokens=done.cached_tokens,
        error=error,
        engine=engine,
        model=done.model,
        response_model=done.model,
        where=where,
        is_chat=True,
    )  # fmt: skip


def check_answer(answer: Answer) -> Answer:
    """An answer as every form must give it: without lone surrogates, and failed if its end is none that is known.

    Raises:
        AnswersError: A name that becomes part of file names cannot be.
    """
    for name in ("engine", "model"):
        value = getattr(answer, name)
        if value in (".", "..") or not (value or "").isprintable() or len((value or "").encode()) > _LONGEST_NAME:
            raise make_unread_error(f"{name} is {value!r:.40}, and no name of at most {_LONGEST_NAME} bytes")
    changes: dict[str, Any] = {}
    for name in ("text", "reasoning"):
        if (text := getattr(answer, name)) and _HALF_PAIR.search(text):
            changes[name] = _mend(text)
    if answer.tool_calls:
        changes["tool_calls"] = tuple(ToolCall(_mend(call.name), _mend(call.arguments)) for call in answer.tool_calls)
    if answer.error is None and answer.finish_reason is not None and answer.finish_reason not in _ENDS:
        ends = ", ".join(map(repr, _ENDS))
        changes["error"] = f"finish_reason is {answer.finish_reason!r:.40}, none of {ends}"
    return replace(answer, **changes) if changes else answer


def _mend(text: str) -> str:
    return _HALF_PAIR.sub("\ufffd", text)


def make_unread_error(what: str) -> AnswersError:
    """The error of a line that is no answer."""
    return AnswersError(f"not an answer: {what}", hint="See the format in docs/reference/files.md")
