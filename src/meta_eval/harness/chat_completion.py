"""Parses a ``chat.completion``: the body that an endpoint of OpenAI's ``/v1/chat/completions`` returns, and that
batch files and records hold.

Servers differ in where they put reasoning, how they name the end, and how they write tool calls. All forms are read
into one. A tool call that stands in the text stays text: the endpoint did not report a call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from meta_eval.base.display import one_line
from meta_eval.base.inputs import format_json
from meta_eval.harness.families import list_families
from meta_eval.harness.sample_parser import FILTERED

# Limit of counts that every JSON reader handles; and the longest text, which must fit a line of the journal.
_MOST = 2**53
LONGEST = 4 * 2**20

ReasoningForm = Literal["reasoning", "reasoning_content", "parts", "tags"]

# What servers call the end of an answer, and the four ends that are complete. Others (``abort``, ``error``,
# ``insufficient_system_resource``) are not.
_ENDS: Mapping[str | None, str | None] = {
    None: None,
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    FILTERED: FILTERED,
}

# Roles of messages that no model wrote.
_ASKING = ("system", "developer", "user", "tool", "function")

# Opening and closing tags of reasoning in a text. A template may have put the opening tag into the prompt.
_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
)
_OPENINGS = tuple(opening for opening, _ in _TAGS)

# How tool calls look in a text, where the server did not parse them.
_CALL_IN_TEXT = re.compile(
    r"<tool_call>|<\|tool_call\|?>|\[TOOL_CALLS\]|<function=\w|<\|tool_calls_section_begin\|>"
    r"|<\uff5ctool\u2581calls?\u2581begin\uff5c>|^\s*\{\s*\"name\"\s*:\s*\"[^\"]+\"\s*,\s*\"(?:arguments|parameters)\"\s*:\s*\{"
)


def _is_call_in_text(content: str) -> bool:
    """Whether a text holds what looks like a tool call, or the token of a family that begins one."""
    tokens = (family.tool_call for family in list_families())
    return bool(_CALL_IN_TEXT.search(content)) or any(token in content for token in tokens if token)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call."""

    name: str
    """The name of the function."""

    arguments: str
    """The arguments, as the raw text that the endpoint gave; it may not be JSON."""

    def as_json(self) -> dict[str, str]:
        """The form of answers files."""
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True)
class ChatChoice:
    """An answer to chat messages."""

    content: str
    """The text, without reasoning; ``""`` if the message has none."""

    reasoning: str | None = None
    """What the model thought; None if nothing."""

    tool_calls: tuple[ToolCall, ...] = ()
    """The calls, in order."""

    finish_reason: str | None = None
    """``stop``, ``tool_calls``, ``length`` or ``content_filter``; None if unknown."""

    reasoning_form: ReasoningForm | None = None
    """Where the reasoning was found: a field, parts of the content, or tags in the text. None if there is none."""

    has_call_in_text: bool = False
    """Whether the content looks like a tool call that the server did not parse."""

    def format_message(self) -> str:
        """The message as JSON text, for a task that grades its tool calls."""
        calls = [call.as_json() for call in self.tool_calls]
        return format_json({"content": self.content, "tool_calls": calls, "finish_reason": self.finish_reason})


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """A ``chat.completion``. The properties are those of its first answer."""

    choices: tuple[ChatChoice, ...]
    """Its answers, by index: one for each of ``n``. Never empty."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """Tokens of the prompt, and of all answers with their reasoning; None if unknown."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    """The part of each that came from a cache, or was reasoning; None if unknown."""

    model: str | None = None
    """The model that answered, as the endpoint calls it; None if unknown."""

    @property
    def content(self) -> str:
        """Its text."""
        return self.choices[0].content

    @property
    def reasoning(self) -> str | None:
        """Its reasoning."""
        return self.choices[0].reasoning

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Its tool calls."""
        return self.choices[0].tool_calls

    @property
    def finish_reason(self) -> str | None:
        """How it ended."""
        return self.choices[0].finish_reason


def read_chat_completion(body: object) -> ChatCompletion:
    """Parse a ``chat.completion``.

    Args:
        body: The parsed JSON.

    Raises:
        ValueError: It is none, or the answer is not complete. The text has no newlines, and fits behind "a response
            that".
    """
    if not isinstance(body, Mapping):
        raise ValueError("is not a JSON object")
    choices = body.get("choices")
    if not isinstance(choices, list):
        error = body.get("error")
        reason = error.get("message") if isinstance(error, Mapping) else error
        raise ValueError(f"is an error: {' '.join(str(reason).split())[:300]}" if error else "is not a chat completion")
    if not choices:
        raise ValueError("holds no choices")
    if not all(isinstance(choice, Mapping) for choice in choices):
        raise ValueError("holds a choice that is not an object")
    places = [place if choice.get("index") is None else choice["index"] for place, choice in enumerate(choices)]
    if not all(map(_is_count, places)) or len(set(places)) < len(places):
        raise ValueError("holds choices with wrong indices")
    usage, model = read_usage(body), body.get("model")
    return ChatCompletion(
        tuple(_read_choice(choices[place]) for place in sorted(range(len(places)), key=places.__getitem__)),
        usage.get("prompt_tokens"), usage.get("completion_tokens"), usage.get("cached_tokens"),
        usage.get("reasoning_tokens"), model if isinstance(model, str) else None,
    )  # fmt: skip


def _read_choice(choice: Mapping[str, Any]) -> ChatChoice:
    message, finish = choice.get("message"), choice.get("finish_reason")
    if finish is not None and not isinstance(finish, str):
        raise ValueError("has a finish_reason that is not a text")
    if finish not in _ENDS:
        raise ValueError(f"ended with {one_line(str(finish))[:40]!r}")
    finish = _ENDS[finish]
    if message is None and finish == FILTERED:
        return ChatChoice("", finish_reason=finish)
    if not isinstance(message, Mapping):
        raise ValueError("holds a choice without a message")
    if (role := message.get("role")) in _ASKING:
        raise ValueError(f"holds a message of the role {role!r}")
    content, in_parts = _read_content(message.get("content"))
    content = content or _optional_text(message, "refusal") or ""
    reasoning, form = _read_reasoning(message)
    if reasoning is None and in_parts:
        reasoning, form = in_parts, "parts"
    if reasoning is None:
        reasoning, content = split_reasoning(content, cut=finish == "length")
        form = None if reasoning is None else "tags"
    calls = _read_calls(message)
    if max(map(len, (content, reasoning or "", *(call.arguments for call in calls)))) > LONGEST:
        raise ValueError(f"holds a text of more than {LONGEST:,} characters")
    hidden = not calls and _is_call_in_text(content)
    return ChatChoice(content, reasoning, calls, finish, form, hidden)


def _read_content(content: object) -> tuple[str, str]:
    """The text of a message, and the reasoning that some servers put into parts of it."""
    if content is None or isinstance(content, str):
        return content or "", ""
    texts, thoughts = [], []
    for part in content if isinstance(content, list) else [{}]:
        if not isinstance(part, Mapping):
            raise ValueError("has a content that is not text")
        kind = part.get("type")
        if kind == "thinking":
            inner = part.get("thinking")
            thoughts.append(inner if isinstance(inner, str) else _read_content(inner)[0])
        elif kind in ("text", "output_text") and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            raise ValueError("has a content that is not text")
    return "".join(texts), "".join(thoughts)


def _read_reasoning(message: Mapping[str, Any]) -> tuple[str | None, ReasoningForm | None]:
    if text := _optional_text(message, "reasoning"):
        return text, "reasoning"
    if text := _optional_text(message, "reasoning_content"):
        return text, "reasoning_content"
    return None, None


def split_reasoning(text: str, *, cut: bool = False) -> tuple[str | None, str]:
    """Split tagged reasoning off the start of a text.

    Args:
        text: The text.
        cut: Whether the answer was cut at its limit, so that the closing tag may be missing.

    Returns:
        The reasoning, None if there is none; and the rest.
    """
    start = text.lstrip()
    for opening, closing in _TAGS:
        if start.startswith(opening):
            reasoning, closed, rest = start.removeprefix(opening).partition(closing)
            if closed:
                return reasoning.strip("\n"), rest.lstrip("\n")
            return (reasoning.strip("\n"), "") if cut else (None, text)
        before, closed, rest = start.partition(closing)
        if closed and opening not in before:
            return before.strip("\n"), rest.lstrip("\n")
    return None, text


def has_open_reasoning(text: str) -> bool:
    """Whether a text begins with reasoning whose closing tag is missing."""
    start = text.lstrip()
    return start.startswith(_OPENINGS) and any(
        start.startswith(opening) and closing not in start for opening, closing in _TAGS
    )


def _read_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls, former = message.get("tool_calls"), message.get("function_call")
    if calls is None or calls == []:
        return () if former is None else (_read_function(former),)
    if not isinstance(calls, list):
        raise ValueError("has tool_calls that are not a list")
    read = []
    for call in calls:
        if not isinstance(call, Mapping):
            raise ValueError("has a tool call that is not an object")
        custom = call.get("custom")
        read.append(_read_function(call.get("function") if custom is None else custom))
    return tuple(read)


def _read_function(function: object) -> ToolCall:
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str):
        raise ValueError("has a tool call without a name")
    arguments = function.get("arguments", function.get("input"))
    if arguments is None:
        return ToolCall(name, "")
    return ToolCall(name, arguments if isinstance(arguments, str) else format_json(arguments))


def _optional_text(message: Mapping[str, Any], name: str) -> str | None:
    text = message.get(name)
    if text is not None and not isinstance(text, str):
        raise ValueError(f"has a {name} that is not text")
    return text


def read_usage(answer: Mapping[str, Any]) -> dict[str, int]:
    """Read the token counts of a completion that are present: those of ``usage``, ``cached_tokens`` and
    ``reasoning_tokens``."""
    usage = answer.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    counts = dict(usage)
    if "prompt_cache_hit_tokens" in usage:
        counts["cached_tokens"] = usage["prompt_cache_hit_tokens"]
    for details, name in (
        ("prompt_tokens_details", "cached_tokens"),
        ("completion_tokens_details", "reasoning_tokens"),
    ):
        if isinstance(parts := usage.get(details), Mapping) and name in parts:
            counts[name] = parts[name]
    return {name: value for name, value in counts.items() if _is_count(value)}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
