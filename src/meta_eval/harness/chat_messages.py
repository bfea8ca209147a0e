"""Parses a recorded text prompt back into chat messages, at the header tokens of its family of models.

A prompt is parsed only if rendering the messages gives it back, character for character. An endpoint renders them with
its own template, which may differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meta_eval.base.inputs import parse_json
from meta_eval.harness.families import Family, list_families, remove_bos


def read_messages_text(prompt: object) -> str | None:
    """The JSON text of the messages of a request; None of a text prompt.

    lm-eval writes its wrapper of this text, a tuple, as a list of one text.
    """
    if isinstance(prompt, (list, tuple)) and len(prompt) == 1 and isinstance(prompt[0], str):
        return prompt[0]
    return None


def parse_chat_messages(text: str) -> list[dict[str, Any]]:
    """Parse the JSON text of messages.

    Raises:
        ValueError: It is no list of messages, each with a role. The text continues "the request …".
    """
    try:
        messages = parse_json(text)
    except ValueError:
        raise ValueError("is not JSON") from None
    return check_chat_messages(messages)


def check_chat_messages(messages: object) -> list[dict[str, Any]]:
    """Check that a value is a list of messages. Fields without a value, which a parquet column adds, are removed.

    Raises:
        ValueError: It is none. The text continues "the request …".
    """
    if not isinstance(messages, list) or not messages:
        raise ValueError("is no list of chat messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError("has a message without a role")
    return [
        {name: value for name, value in message.items() if value is not None or name == "content"}
        for message in messages
    ]


def asks_chat_body(request: Sequence[Any], body: object) -> bool:
    """Whether a request of lm-eval asked the prompt of a pack. Of a chat request: its messages, and its other fields.

    Args:
        request: The prompt and the generation settings.
        body: The prompt of a pack: a text, or the JSON text of a body.
    """
    text = read_messages_text(request[0])
    if text is None or not isinstance(body, str):
        return bool(request[0] == body)
    settings = request[1] if len(request) > 1 and isinstance(request[1], Mapping) else {}
    try:
        fields, messages = json.loads(body), json.loads(text)
    except ValueError:
        return False
    if not isinstance(fields, dict) or not _are_same(fields.pop("messages", None), messages):
        return False
    return all(name in settings and settings[name] == value for name, value in fields.items())


def offers_tools(body: object) -> bool:
    """Whether the prompt of a pack is the JSON text of a body with tools."""
    if not isinstance(body, str) or '"tools"' not in body:
        return False
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and bool(fields.get("tools"))


def _are_same(messages: object, others: object) -> bool:
    """Whether messages are the same. lm-eval before 0.4.12 adds ``type: text`` to each, which changes nothing."""
    if not isinstance(messages, list) or not isinstance(others, list) or len(messages) != len(others):
        return False
    plain = {"type": "text"}
    return all(
        isinstance(message, dict) and isinstance(other, dict) and {**plain, **message} == {**plain, **other}
        for message, other in zip(messages, others, strict=True)
    )


ASSISTANT = "assistant"

# Fields of vLLM's body with which the answer continues the last message.
CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """A text prompt as chat messages."""

    family: Family
    """The family whose headers it has."""

    messages: tuple[dict[str, str], ...]
    """Its turns: ``role`` and ``content``, both as they are in the prompt. The turn that waits for the answer is not
    among them."""

    begun: str
    """The part of the answer that the prompt already contains; empty for most."""

    def render(self) -> str:
        """The prompt, without BOS."""
        return render_messages(self.messages, self.family) + self.family.head(ASSISTANT) + self.begun


def render_messages(messages: Sequence[Mapping[str, str]], family: Family) -> str:
    """Render whole turns with the tokens of a family, without BOS."""
    return "".join(family.turn(message["role"], message["content"]) for message in messages)


def parse_messages(prompt: str) -> ParsedPrompt:
    """Parse a text prompt into the messages of which it was rendered.

    The result renders to the same text without the BOS, which every engine adds.

    Args:
        prompt: With or without BOS.

    Raises:
        ValueError: It was not rendered of whole messages, followed by an opened turn of the assistant. The text
            continues "the prompt …".
    """
    family = _find_family(prompt)
    text = remove_bos(prompt, family.bos)
    before, *turns = text.split(family.header[0])
    if before:
        raise ValueError("has text before its first header, which is in no message")
    *complete, last = (_split_header(turn, family) for turn in turns)
    messages = tuple({"role": role, "content": _find_content(role, rest, family)} for role, rest in complete)
    role, begun = last
    if role != ASSISTANT or family.end_of_turn in begun:
        raise ValueError("does not end with an opened turn of the assistant")
    if not messages:
        raise ValueError("has no message before the answer")
    _check_text(ASSISTANT, begun, family)
    return ParsedPrompt(family, messages, begun)


def make_conversation(prompt: str, *, can_continue: bool = False) -> dict[str, Any]:
    """Make the messages of a text prompt, with the fields of a chat endpoint's body that go with them.

    Args:
        prompt: With or without BOS.
        can_continue: Whether the endpoint continues a begun answer, as vLLM does with ``continue_final_message``. Most
            ignore that field or refuse it, and then the answer begins anew.

    Raises:
        ValueError: `parse_messages` refuses the prompt, or it begins an answer that the endpoint cannot continue. The
            text continues "the prompt …".
    """
    parsed = parse_messages(prompt)
    if not parsed.begun:
        return {"messages": list(parsed.messages)}
    if not can_continue:
        raise ValueError(
            "begins the answer itself, and most chat endpoints cannot continue one: use completions, or set "
            "model_args.continue_final_message to true for an endpoint that can (vLLM)"
        )
    begun = {"role": ASSISTANT, "content": parsed.begun}
    return {"messages": [*parsed.messages, begun], **CONTINUE}


def _find_family(prompt: str) -> Family:
    """The family of the header that comes first."""
    places = {prompt.find(family.header[0]): family for family in reversed(list_families())}
    places.pop(-1, None)
    if not places:
        raise ValueError("has no headers of chat turns, so it is a base model's; ask it as a completion")
    return places[min(places)]


def _split_header(turn: str, family: Family) -> tuple[str, str]:
    """The role of a turn, and what follows its header."""
    role, end, rest = turn.partition(f"{family.header[1]}{family.after_header}")
    if not end or not role or "\n" in role or any(token in role for token in family.tokens):
        raise ValueError(f"has a header that is not written as {family.head('ROLE')!r}")
    return role, rest


def _find_content(role: str, rest: str, family: Family) -> str:
    """The text of a whole turn."""
    end = f"{family.end_of_turn}{family.after_turn}"
    if not rest.endswith(end):
        raise ValueError(f"has a turn of the {role} that does not end with {end!r}")
    content = rest.removesuffix(end)
    _check_text(role, content, family)
    return content


def _check_text(role: str, content: str, family: Family) -> None:
    """Refuse special tokens within a text. A tool call begins with one, which belongs to its text."""
    inside = [token for token in (*family.special, *family.ends) if token in content]
    if inside:
        raise ValueError(f"has {inside[0]} within the text of the {role}")
