"""Special tokens of the model families that graders know, from ``families.json``."""

from __future__ import annotations

import json
from pathlib import Path

FAMILIES = json.loads(Path(__file__).with_name("families.json").read_text(encoding="utf-8"))

BOS = tuple(dict.fromkeys(family["bos"] for family in FAMILIES if family["bos"]))
# These tokens end an answer or begin a tool call. They are not part of its text.
AROUND_ANSWERS = tuple(token for family in FAMILIES for token in (family["tool_call"], *family["ends"]) if token)


def without_bos(prompt: str) -> str:
    """Remove the BOS from the start of a prompt, because the engine adds it."""
    for bos in BOS:
        prompt = prompt.removeprefix(bos)
    return prompt


def begun_answer(prompt: str) -> str:
    """Return the part of the answer that the prompt already contains, after the last header of the assistant's turn.

    Without such a header it is the whole prompt.
    """
    for family in FAMILIES:
        before, after = family["header"]
        _, head, begun = prompt.rpartition(f"{before}assistant{after}{family['after_header']}")
        if head:
            return begun
    return prompt
