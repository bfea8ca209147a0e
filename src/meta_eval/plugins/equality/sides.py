"""The answers of one side, wherever they come from."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meta_eval.plugins.equality.two_samples import PromptSamples
from meta_eval.sockets import Answer

# Task, and what tells its prompts apart: the number of the doc, or the hash of the prompt and which of several.
PromptKey = tuple[str, ...]


@dataclass(slots=True)
class Side:
    """The answers of one side."""

    label: str
    """``A`` or ``B``."""

    model: str
    """The model that was asked for; empty if unknown."""

    place: str
    """Its address without credentials, or its files."""

    engine: str = ""
    """The engine; empty if unknown."""

    texts: dict[PromptKey, dict[int, str]] = field(default_factory=dict)
    """By prompt, the answers by their number from 0. Answers that failed are not there."""

    names: dict[PromptKey, str] = field(default_factory=dict)
    """By prompt ``TASK/DOC``."""

    wanted: int = 0
    """Answers that were asked for."""

    cut: int = 0
    """Answers that the limit of tokens cut, as the endpoint says."""

    times: tuple[float, float] | None = None
    """When the first answer was begun and the last, in seconds since 1970; None if unknown."""

    error: str = ""
    """Why the first request failed; empty if none did."""

    decoding: dict[tuple[str, str], object] = field(default_factory=dict)
    """By task and name, the settings of generation that recorded answers have."""

    notes: list[str] = field(default_factory=list)
    """What must be known of it."""

    def add(self, key: PromptKey, name: str, number: int, text: str) -> None:
        """Add an answer."""
        self.texts.setdefault(key, {})[number] = text
        self.names.setdefault(key, name)

    @property
    def all_texts(self) -> list[str]:
        """Every answer."""
        return [text for texts in self.texts.values() for text in texts.values()]

    @property
    def missing(self) -> float:
        """The share of answers that are not there, 0 to 1."""
        return 1 - len(self.all_texts) / self.wanted if self.wanted else 0.0

    @property
    def length(self) -> float:
        """The median length of an answer, characters."""
        return float(statistics.median(map(len, self.all_texts))) if self.all_texts else 0.0

    @property
    def distinct(self) -> float:
        """The share of answers whose text no earlier answer to the prompt has, 0 to 1."""
        return sum(len(set(texts.values())) for texts in self.texts.values()) / max(1, len(self.all_texts))


def say(answer: Answer) -> str:
    """All that a model said: what it thought, its message, and its tool calls."""
    calls = [f"{call.name}({call.arguments})" for call in answer.tool_calls]
    return "\n".join(part for part in (answer.reasoning, answer.text, *calls) if part)


def pair_sides(a: Side, b: Side) -> dict[PromptKey, PromptSamples]:
    """The prompts to which both sides have at least two answers, in order. Numbers that both have come first, so that
    answers of the same number stand at the same place."""
    paired = {}
    for key in sorted(a.texts.keys() & b.texts.keys()):
        first, second = a.texts[key], b.texts[key]
        if min(len(first), len(second)) > 1:
            both = sorted(first.keys() & second.keys())
            paired[key] = PromptSamples(_order(first, both), _order(second, both))
    return paired


def _order(texts: Mapping[int, str], both: Sequence[int]) -> list[str]:
    return [texts[number] for number in (*both, *sorted(texts.keys() - set(both)))]
