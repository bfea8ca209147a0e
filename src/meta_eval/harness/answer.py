"""An answer to a request of a pack, from whatever program, and the checks of its parts.

The fields of `Answer` are the one table of it: each says how a line of a file of answers holds it, and what a sample
says of it, where several answers to a doc become one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from meta_eval.base.errors import UserError
from meta_eval.base.plain_data import make_plain
from meta_eval.base.secrets import redact_secrets
from meta_eval.harness.chat_completion import ChatChoice, ChatCompletion, ToolCall
from meta_eval.harness.sample_parser import FILTERED
from meta_eval.harness.token_logprobs import TokenLogprobs, read_logged_tokens

# A UTF-16 engine leaves a lone surrogate if it cuts a character. UTF-8 files cannot hold it.
_HALF_PAIR = re.compile("[\ud800-\udfff]")

# Maximum length in bytes of a folder name. lm_eval makes the name from the model's.
_LONGEST_NAME = 255
# What the rounding of a sum of log-probabilities may add to it.
_ROUNDED = 0.01

# Allowed values of finish_reason.
_ENDS = ("stop", "tool_calls", "length", FILTERED)

# Digits of a request's SHA-256 that an answer repeats at least, if it repeats it.
SHORT = 12


class AnswersError(UserError):
    """A file of answers cannot be read, or its answers cannot be graded."""


def make_unread_error(what: str) -> AnswersError:
    """The error of a line that is no answer."""
    return AnswersError(f"not an answer: {what}", hint="See the format in docs/reference/files.md")


# Reads what a line holds under a name, of which it is known that it is not null. An `AnswersError` says what it is not.
_Read = Callable[[Any, str], Any]


def _make_reader(what: str, kind: type, is_right: Callable[[Any], bool]) -> _Read:
    def read(value: Any, name: str) -> Any:
        if not is_right(value):
            raise make_unread_error(f"{name} is {value!r:.40}, and no {what}")
        return kind(value)

    return read


_read_text = _make_reader("text", str, lambda value: isinstance(value, str))
# An integer beyond the range of floats is no number either; larger counts cannot be averaged exactly.
_read_number = _make_reader(
    "number up to 1.8e308", float, lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max
)
_read_count = _make_reader("count", int, lambda value: type(value) is int and 0 <= value < 2**53)


def _read_choices(content: Any, name: str) -> tuple[tuple[float, bool | None], ...]:
    choices: list[Any] = content if isinstance(content, list) else [None]
    if not all(
        isinstance(choice, dict) and "logprob" in choice and isinstance(choice.get("is_greedy"), bool | None)
        for choice in choices
    ):
        raise make_unread_error(f'{name} must be a list of {{"logprob": number, "is_greedy": true or false}}')
    return tuple((_read_number(choice["logprob"], "logprob"), choice.get("is_greedy")) for choice in choices)


def _read_tool_calls(content: Any, name: str) -> tuple[ToolCall, ...]:
    calls: list[Any] = content if isinstance(content, list) else [None]
    if not all(
        isinstance(call, dict) and isinstance(call.get("name"), str) and isinstance(call.get("arguments"), str)
        for call in calls
    ):
        raise make_unread_error(f'{name} must be a list of {{"name": text, "arguments": text}}')
    return tuple(ToolCall(call["name"], call["arguments"]) for call in calls)


def _read_tokens(content: Any, name: str) -> TokenLogprobs:
    try:
        return read_logged_tokens(content)
    except ValueError as error:
        raise make_unread_error(f"{name}: {error}") from None


def add_counts(counts: Iterable[int | None]) -> int | None:
    """Their sum over those that are known; None if none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def join_ends(ends: Sequence[str | None]) -> str | None:
    """How several answers to a doc ended: ``length`` or ``content_filter`` if one was cut; None if one is unknown."""
    cut = next((end for end in ("length", FILTERED) if end in ends), None)
    return cut or (None if None in ends else ends[0] if len(ends) == 1 else "stop")


def _held(
    read: _Read | None,
    write: Callable[[Any], Any] | None = None,
    merge: Callable[[Sequence[Any]], Any] | None = None,
) -> Mapping[str, Any]:
    """The metadata of a field that a line of a file of answers holds under its name.

    Args:
        read: Reads it; None of what is not kept.
        write: Makes JSON of it; None of what is JSON.
        merge: Makes of the values of all answers to a doc what its sample says; None of what no sample says.
    """
    return {"read": read, "write": write, "merge": merge}


_TEXT, _NUMBER, _COUNT = _held(_read_text), _held(_read_number), _held(_read_count)
_SUMMED = _held(_read_count, merge=add_counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to a request: a text, choices, tokens or an error."""

    id: str = field(metadata=_TEXT)
    """The id of the request."""

    where: str = ""
    """File and line. Empty of an answer that just came."""

    prompt_sha256: str | None = field(default=None, metadata=_TEXT)
    """SHA-256 of the answered prompt. None if the line does not repeat it."""

    request_sha256: str | None = field(default=None, metadata=_TEXT)
    """SHA-256 of the whole request, or its first `SHORT` digits. None likewise."""

    text: str | None = field(default=None, metadata=_TEXT)
    """The generated text without stop text and end token, or the content of a chat message, ``""`` without. None for
    choices and tokens."""

    choices: Sequence[tuple[float, bool | None]] = field(
        default=(),
        metadata=_held(
            _read_choices,
            lambda choices: [
                {"logprob": logprob, **({} if greedy is None else {"is_greedy": greedy})} for logprob, greedy in choices
            ],
        ),
    )
    """Per continuation: its log-likelihood in nats, summed over tokens, and whether greedy decoding gives it (None if
    unknown). Empty for texts."""

    reasoning: str | None = field(default=None, metadata=_TEXT)
    """What the model thought before its message, kept apart and never graded. None if nothing."""

    tool_calls: tuple[ToolCall, ...] = field(default=(), metadata=_held(_read_tool_calls, make_plain))
    """The tool calls of a chat message, in order."""

    finish_reason: str | None = field(
        default=None, metadata=_held(_read_text, merge=lambda ends: list(ends) if len(ends) > 1 else ends[0])
    )
    """``stop``, ``tool_calls``, ``length`` if max_tokens cut the text, ``content_filter`` if the server did. None if
    unknown."""

    token_ids: Sequence[int] | None = field(default=None, metadata=_held(None, list))
    """Token ids of the text, if the engine returns them. Not read from files."""

    prompt_tokens: int | None = field(default=None, metadata=_SUMMED)
    """Tokens of the prompt, with BOS."""

    completion_tokens: int | None = field(default=None, metadata=_SUMMED)
    """Tokens of the answer."""

    cached_tokens: int | None = field(default=None, metadata=_COUNT)
    """Tokens of the prompt that came from a cache."""

    tokens: TokenLogprobs | None = field(default=None, metadata=_held(_read_tokens, TokenLogprobs.as_json))
    """Log-probabilities of a given text. None for other answers."""

    error: str | None = field(default=None, metadata=_TEXT)
    """Why the request failed, or None."""

    retry: bool = True
    """Whether a retry may help after an error."""

    engine: str | None = field(default=None, metadata=_TEXT)
    """The engine that answered."""

    model: str | None = field(default=None, metadata=_TEXT)
    """The model that was asked; where the line does not say, the one that answered."""

    started: float | None = field(default=None, metadata=_NUMBER)
    """Seconds since 1970."""

    ended: float | None = field(default=None, metadata=_NUMBER)
    """Seconds since 1970."""

    random_place: int | None = field(
        default=None, metadata=_held(_read_count, merge=lambda places: places[0] if len(set(places)) == 1 else None)
    )
    """The place of its doc in a random order, from 0. None in any other order."""

    response_model: str | None = field(default=None, metadata=_TEXT)
    """The model that the response names, in the spelling of the request if it is that. None if it names none."""

    endpoint: str | None = field(default=None, metadata=_TEXT)
    """The hash of the address that answered, or `OWN_SERVER`. None if unknown."""

    tools_lost: bool = field(default=False, metadata={"merge": lambda lost: any(lost) or None})
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
        """Whether both give the same answer to the same prompt. Times, counts and engines may differ. Of two forms, one
        may not say the hash of the prompt and the model."""
        names = ("text", "choices", "tool_calls", "finish_reason", "tokens")
        said = ((self.prompt_sha256, other.prompt_sha256), (self.model, other.model))
        is_other_form = self.request_sha256 != other.request_sha256
        return all(getattr(self, name) == getattr(other, name) for name in names) and all(
            ours == theirs or (is_other_form and None in (ours, theirs)) for ours, theirs in said
        )


_ROWS = {each.name: each.metadata for each in fields(Answer)}


def read_answer(content: object, where: str) -> Answer:
    """Read a line of a file of answers, parsed as JSON.

    Args:
        content: The line.
        where: File and line.

    Raises:
        AnswersError: It is no answer.
    """
    if not isinstance(content, dict):
        raise make_unread_error("it is no object")
    given = {
        name: read(content[name], name)
        for name, row in _ROWS.items()
        if (read := row.get("read")) and content.get(name) is not None
    }
    if "id" not in given or "prompt_sha256" not in given:
        raise make_unread_error("id or prompt_sha256 is missing")
    if "completion_tokens" not in given and isinstance(ids := content.get("token_ids"), list):
        given["completion_tokens"] = len(ids)
    answer = Answer(**given, where=where)
    if answer.error is None and (answer.text is not None) + bool(answer.choices) + (answer.tokens is not None) != 1:
        raise make_unread_error("it must hold one of text, choices, tokens and error")
    return answer


def format_answer(answer: Answer) -> dict[str, Any]:
    """The content of a line of a file of answers. What is unknown or nothing is left out."""
    return {
        name: write(value) if (write := row["write"]) else value
        for name, row in _ROWS.items()
        if "write" in row and (value := getattr(answer, name)) is not None and value != ()
    }


def merge_answers(answers: Sequence[Answer]) -> dict[str, Any]:
    """What a sample says of the answers to its doc. What is unknown is left out."""
    merged = {
        name: merge([getattr(answer, name) for answer in answers])
        for name, row in _ROWS.items()
        if (merge := row.get("merge"))
    }
    if all(spans := [answer.span for answer in answers]):
        merged["seconds"] = round(sum(span[1] - span[0] for span in spans if span), 6)
    return {name: value for name, value in merged.items() if value is not None}


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
    """An answer as every form must give it: without lone surrogates, without credentials in names that results keep,
    and failed if its end is none that is known.

    Raises:
        AnswersError: A name that becomes part of file names cannot be.
    """
    for name in ("engine", "model"):
        value = getattr(answer, name)
        if value in (".", "..") or not (value or "").isprintable() or len((value or "").encode()) > _LONGEST_NAME:
            raise make_unread_error(f"{name} is {value!r:.40}, and no name of at most {_LONGEST_NAME} bytes")
    changes: dict[str, Any] = {}
    for name in ("engine", "model", "response_model", "endpoint"):
        if (value := getattr(answer, name)) and (hidden := redact_secrets(value)) != value:
            changes[name] = hidden
    for name in ("text", "reasoning"):
        if (text := getattr(answer, name)) and _HALF_PAIR.search(text):
            changes[name] = _mend(text)
    if answer.tool_calls:
        changes["tool_calls"] = tuple(ToolCall(_mend(call.name), _mend(call.arguments)) for call in answer.tool_calls)
    if any(logprob > _ROUNDED for logprob, _ in answer.choices):
        changes["error"] = "a log-probability of a choice is above 0"
    if answer.tokens is not None and (why := answer.tokens.explain_impossible()):
        changes["error"] = why
    if answer.error is None and answer.finish_reason is not None and answer.finish_reason not in _ENDS:
        ends = ", ".join(map(repr, _ENDS))
        changes["error"] = f"finish_reason is {answer.finish_reason!r:.40}, none of {ends}"
    return replace(answer, **changes) if changes else answer


def _mend(text: str) -> str:
    return _HALF_PAIR.sub("\ufffd", text)
