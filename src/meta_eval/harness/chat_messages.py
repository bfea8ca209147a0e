"""Parses a recorded text prompt back into chat messages, at the header tokens of its family of models.

A prompt is parsed only if rendering the messages gives it back, character for character. An endpoint renders them with
its own template, which may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meta_eval.harness.families import Family, list_families, remove_bos

ASSISTANT = "assistant"

# Fields of vLLM's body with which the answer continues the last message.
CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """A text prompt as chat messages.

    Attributes:
        family: The family whose headers it has.
        messages: Its turns: ``role`` and ``content``, both as they are in the prompt. The turn that waits for the
            answer is not among them.
        begun: The part of the answer that the prompt already contains; empty for most.
    """

    family: Family
    messages: tuple[dict[str, str], ...]
    begun: str

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
