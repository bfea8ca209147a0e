"""Reading files of answers, which anything may have written and which a crash may have cut off.

A file grows line by line and is never changed. So a crash loses at most the line that it was writing: that one is no
JSON, is passed over and counted, and its request has no answer. Nothing else that is odd is passed over.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from meta_eval.answers.token_logprobs import TokenLogprobs, read_tokens
from meta_eval.boundary.inputs import open_regular
from meta_eval.boundary.json_text import parse_loose_json
from meta_eval.messages.errors import UserError, locating
from meta_eval.results.raw_samples import MAX_PIECE

# What an engine that counts in UTF-16 leaves of a character that it cuts through; no file of UTF-8 holds it.
_HALF_PAIR = re.compile("[\ud800-\udfff]")

# Bytes that the name of a folder may have, which lm_eval makes of the model's.
_LONGEST_NAME = 255

# What the first line of a file says that `meta-eval run` wrote; other files need none.
FORMAT = "meta-eval answers"
VERSION = 1

# A count is below it, or it cannot be averaged with others.
_MOST = 2**53

# How an answer may have ended.
_ENDS = ("stop", "length")


class AnswersError(UserError):
    """A file of answers cannot be read, or its answers cannot be graded."""


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """One line of a file of answers.

    Attributes:
        id: Of the request.
        prompt_sha256: Of the prompt that was answered.
        request_sha256: Of all that was asked; None where the line does not repeat it.
        text: What the model wrote, halves of surrogate pairs replaced by U+FFFD; None of choices.
        choices: Of each continuation its log-likelihood, in nats, and whether it is what greedy decoding gives, None
            where nobody says; empty of texts.
        finish_reason: ``stop``, ``length`` where it was cut at max_tokens; None where nobody says.
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the answer.
        tokens: What the engine finds of each token of a text that it was given; None of other answers.
        error: Why there is none; None of an answer.
        engine: What answered.
        model: Which model.
        span: When it was asked and answered, in seconds since 1970.
        where: File and line.
    """

    id: str
    prompt_sha256: str
    request_sha256: str | None
    text: str | None
    choices: tuple[tuple[float, bool | None], ...]
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens: TokenLogprobs | None
    error: str | None
    engine: str | None
    model: str | None
    span: tuple[float, float] | None
    where: str

    def has_same_content(self, other: EngineAnswer) -> bool:
        """Whether both say the same of the same prompt; times, counts and engines may differ."""
        names = ("prompt_sha256", "text", "choices", "finish_reason", "model")
        return all(getattr(self, name) == getattr(other, name) for name in names)


# An id, and request_sha256 where the line repeats it.
Key = tuple[str, str | None]


@dataclass(slots=True)
class Answers:
    """What some files hold.

    Attributes:
        given: By id and request_sha256; of several that are alike the first.
        failed: Likewise, where every attempt failed; the last one.
        doubled: Likewise, the two places of answers that are not alike.
        cut_off: The places of lines that are no JSON.
        otherwise: By id, where an answer stands that repeats what was asked; of an id that has none to what is asked
            today it says that the question was another one.
        settings: By what `meta-eval run` hashed of its settings, the first file that says it.
    """

    given: dict[Key, EngineAnswer] = field(default_factory=dict)
    failed: dict[Key, EngineAnswer] = field(default_factory=dict)
    doubled: dict[Key, tuple[str, str]] = field(default_factory=dict)
    cut_off: list[str] = field(default_factory=list)
    otherwise: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    def key(self, request_id: str, request_sha256: str) -> Key:
        """Where the answer to a request stands: one that repeats all that was asked, else one that does not say."""
        exact = (request_id, request_sha256)
        return exact if exact in self.given or exact in self.failed else (request_id, None)


def read_answers(files: Sequence[Path], *, prefer: Literal["last"] | None = None) -> Answers:
    """Read files of answers as one; in which order matters only to ``prefer``.

    Args:
        files: The files.
        prefer: ``last`` takes the last of several answers that are not alike, in the order of files and lines; else
            they are kept as ``doubled``.

    Raises:
        AnswersError: A file cannot be read, or a whole line of it is no answer.
    """
    answers = Answers()
    for file in files:
        for answer in _lines(file, answers):
            key = (answer.id, answer.request_sha256)
            known = answers.given.get(key)
            if answer.request_sha256 is not None:
                answers.otherwise.setdefault(answer.id, answer.where)
            if answer.error is not None:
                answers.failed[key] = answer
            elif known is None or prefer == "last":
                answers.given[key] = answer
            elif not known.has_same_content(answer):
                answers.doubled.setdefault(key, (known.where, answer.where))
    for name in answers.given:
        answers.failed.pop(name, None)
    return answers


def _lines(file: Path, answers: Answers) -> Iterator[EngineAnswer]:

    try:
        with open_regular(file) as lines:
            for number, line in enumerate(iter(partial(lines.readline, MAX_PIECE + 1), b""), 1):
                where = f"{file}, line {number}"
                if len(line) > MAX_PIECE:
                    with locating(where):
                        raise _wrong(f"it is longer than {MAX_PIECE >> 20} MiB")
                if not line.strip():
                    continue
                try:
                    content = parse_loose_json(line)
                except ValueError:
                    answers.cut_off.append(where)
                    continue
                if isinstance(content, dict) and content.get("format") == FORMAT:
                    answers.settings.setdefault(str(content.get("settings_sha256")), str(file))
                    continue
                with locating(where):
                    yield _answer(content, where)
    except OSError as error:
        raise AnswersError(f"cannot be read ({error.strerror})", where=str(file)) from None


def _answer(content: Any, where: str) -> EngineAnswer:
    if not isinstance(content, dict):
        raise _wrong("it is no object")
    if "format" in content and "id" not in content:
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
        error = f"finish_reason is {finish!r:.40}, neither {' nor '.join(map(repr, _ENDS))}"
    ids = content.get("token_ids")
    tokens = fields.count("completion_tokens")
    started, ended = fields.number("started"), fields.number("ended")
    return EngineAnswer(
        id=own_id,
        prompt_sha256=sha256,
        request_sha256=fields.text("request_sha256"),
        text=text and _HALF_PAIR.sub("\ufffd", text),
        choices=choices,
        finish_reason=finish,
        prompt_tokens=fields.count("prompt_tokens"),
        completion_tokens=len(ids) if tokens is None and isinstance(ids, list) else tokens,
        tokens=forced,
        error=error,
        engine=fields.name("engine"),
        model=fields.name("model"),
        span=(started, ended) if started is not None and ended is not None and started <= ended else None,
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


def _tokens(content: Any) -> TokenLogprobs | None:
    try:
        return None if content is None else read_tokens(content)
    except ValueError as error:
        raise _wrong(f"tokens: {error}") from None


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a line, each of its type or absent."""

    content: Mapping[str, Any]

    def text(self, name: str) -> str | None:
        value = self.content.get(name)
        if value is not None and not isinstance(value, str):
            raise _wrong(f"{name} is {value!r:.40}, and no text")
        return value

    def name(self, name: str) -> str | None:
        """A text that results are named after."""
        value = self.text(name)
        if value in (".", "..") or not (value or "").isprintable() or len((value or "").encode()) > _LONGEST_NAME:
            raise _wrong(f"{name} is {value!r:.40}, and no name of at most {_LONGEST_NAME} bytes")
        return value

    def number(self, name: str) -> float | None:
        value = self.content.get(name)
        if value is None:
            return None
        # An integer beyond every float is none either.
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
