"""The tokens that a chat endpoint makes of messages with the model's template, beside those of a recorded prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from meta_eval.pack.chat_rendering import ChatTemplate, render_conversation
from meta_eval.sockets import Encoder

# Fields of a body that mean nothing without tools.
_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """How the prompt of a chat endpoint differs from a recorded one."""

    tokens: int
    """The number of tokens of the endpoint's prompt, BOS included: what ``usage.prompt_tokens`` must say."""

    added: int
    """The tokens that only the endpoint's prompt has."""

    missing: int
    """The tokens that only the recorded prompt has."""

    @property
    def total(self) -> int:
        """The tokens in which they differ."""
        return self.added + self.missing


def leave_out_tools(conversation: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a chat request without its tools."""
    return {name: value for name, value in conversation.items() if name not in _OF_TOOLS}


def loses_tools(conversation: Mapping[str, Any], template: ChatTemplate) -> bool:
    """Whether a template renders messages with tools as it renders them without.

    Args:
        conversation: ``messages``, ``tools`` and other fields of the body.
        template: The template.

    Raises:
        ValueError: The template refuses the messages.
    """
    return render_conversation(conversation, template) == render_conversation(leave_out_tools(conversation), template)


def encode_conversation(conversation: Mapping[str, Any], template: ChatTemplate, encoder: Encoder) -> list[int]:
    """Encode the body of a chat request as the endpoint does: all special tokens come from the template.

    Args:
        conversation: ``messages``, ``tools`` and other fields of the body.
        template: The model's.
        encoder: The model's.

    Raises:
        ValueError: The template refuses the messages.
    """
    return encoder.encode_text(render_conversation(conversation, template))


def compare_prompt(
    prompt: str, conversation: Mapping[str, Any], template: ChatTemplate, encoder: Encoder
) -> PromptDifference:
    """Compare a recorded text prompt with what the endpoint makes of its messages, token by token.

    Args:
        prompt: The recorded prompt, without BOS.
        conversation: Its messages, as `read_conversation` makes them.
        template: The model's.
        encoder: The model's.

    Raises:
        ValueError: The template refuses the messages.
    """
    asked, recorded = encode_conversation(conversation, template, encoder), encoder.encode_prompt(prompt)
    start = _count_equal(asked, recorded)
    asked_rest, recorded_rest = asked[start:], recorded[start:]
    end = _count_equal(asked_rest[::-1], recorded_rest[::-1])
    asked_rest, recorded_rest = asked_rest[: len(asked_rest) - end], recorded_rest[: len(recorded_rest) - end]
    # Quadratic without its heuristic, which can only find fewer equal tokens.
    same = sum(block.size for block in SequenceMatcher(None, recorded_rest, asked_rest).get_matching_blocks())
    return PromptDifference(len(asked), len(asked_rest) - same, len(recorded_rest) - same)


def _count_equal(tokens: Sequence[int], others: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their start."""
    for place, (token, other) in enumerate(zip(tokens, others, strict=False)):
        if token != other:
            return place
    return min(len(tokens), len(others))
