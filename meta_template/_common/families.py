"""The families of models whose prompts the graders meet: their special tokens, out of ``families.json``."""

from __future__ import annotations

import json
from pathlib import Path

FAMILIES = json.loads(Path(__file__).with_name("families.json").read_text(encoding="utf-8"))

BOS = tuple(dict.fromkeys(family["bos"] for family in FAMILIES))
# What ends an answer, or begins a tool call, and is none of its words.
AROUND_ANSWERS = tuple(token for family in FAMILIES for token in (family["tool_call"], *family["ends"]))


def without_bos(prompt: str) -> str:
    """A prompt without the BOS in front: the engine adds one."""
    for bos in BOS:
        prompt = prompt.removeprefix(bos)
    return prompt


def begun_answer(prompt: str) -> str:
    """What a prompt holds of the assistant's answer already: the text behind the last head of its turn."""
    for family in FAMILIES:
        before, after = family["header"]
        _, head, begun = prompt.rpartition(f"{before}assistant{after}{family['after_header']}")
        if head:
            return begun
    return prompt
