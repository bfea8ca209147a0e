"""Families of models: their names and special tokens.

They are in ``meta_template/_common/families.json``, which every pack contains for its graders. To support another
family, add an entry there.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from meta_eval.base import assets

FILE = "meta_template/_common/families.json"

# BOS texts of tokenizers of families that no task is for.
_OTHER_BOS = (
    "<s>", "<bos>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<BOS_TOKEN>", "<|startoftext|>", "<|start_of_text|>",
    "<|bos|>", "[BOS]",
)  # fmt: skip


class Family(BaseModel):
    """A family of models."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str
    """Its name in messages."""

    evals_dataset: str | None
    """A regular expression for names of its evals datasets, with the groups family (such as ``3.1``, as tasks list it
    in ``families``), size (everything after it: ``8B``, ``Tiny-2B``) and instruct. None if it has no evals datasets."""

    model: str | None
    """The name of a model, with these groups in braces. None if it has no evals datasets."""

    bos: str | None
    """The token before every prompt, as text. None if there is none."""

    header: tuple[str, str]
    """The tokens before and after the role that begins a turn. The second is empty if only ``after_header`` ends a
    header."""

    after_header: str
    """The text between a header and its turn."""

    end_of_turn: str
    """The token after a turn."""

    after_turn: str
    """The text between that token and the next header."""

    ends: tuple[str, ...]
    """The tokens that end an answer."""

    tool_call: str | None
    """The token that begins a tool call. None if there is none."""

    rope_scaled_from: Annotated[int, Field(gt=0)] | None
    """Context length in tokens from which its rotary embeddings are scaled. None if they are not, or if its models
    differ."""

    def match(self, dataset: str) -> re.Match[str] | None:
        """Match the name of an evals dataset of this family, in any case. None for other names."""
        return re.fullmatch(self.evals_dataset, dataset, re.IGNORECASE) if self.evals_dataset else None

    @property
    def special(self) -> tuple[str, ...]:
        """The special tokens that its prompts may contain; BOS, if there is one, first."""
        return tuple(filter(None, (self.bos, *self.header, self.end_of_turn)))

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every special token of its prompts and answers."""
        return (*self.special, *self.ends, *filter(None, (self.tool_call,)))

    @property
    def openings(self) -> tuple[str, ...]:
        """The tokens that begin a turn or a prompt."""
        return tuple(filter(None, (self.header[0], self.bos)))

    @property
    def header_pattern(self) -> re.Pattern[str]:
        """Matches the header of a turn, of any role, with the empty lines after it."""
        opening, closing = map(re.escape, self.header)
        return re.compile(rf"{opening}[^<\n]*{closing}\n*")

    def head(self, role: str) -> str:
        """The start of a turn."""
        return f"{self.header[0]}{role}{self.header[1]}{self.after_header}"

    def turn(self, role: str, text: str) -> str:
        """A whole turn."""
        return f"{self.head(role)}{text}{self.end_of_turn}{self.after_turn}"


@cache
def list_families() -> tuple[Family, ...]:
    """All families, oldest first."""
    return tuple(Family.model_validate(entry) for entry in json.loads(assets.read_asset(FILE)))


def list_bos_tokens() -> tuple[str, ...]:
    """The BOS of all families, without duplicates."""
    return tuple(dict.fromkeys(family.bos for family in list_families() if family.bos))


def find_leading_bos(prompt: str) -> str:
    """The BOS texts that a prompt begins with, of any family; empty without one."""
    match = _compile_leading_bos().match(prompt)
    return match[0] if match else ""


@cache
def _compile_leading_bos() -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(map(re.escape, (*list_bos_tokens(), *_OTHER_BOS)))})*")


def choose_bos(token: object) -> str | None:
    """The BOS that a tokenizer names, or None. A token that opens the turns of a family is none: tokenizers of ChatML
    name ``<|im_start|>`` and add nothing."""
    is_bos = isinstance(token, str) and token not in {family.header[0] for family in list_families()}
    return str(token) if is_bos and token else None


def remove_bos(prompt: str, *tokens: str | None) -> str:
    """Remove each of some BOS tokens from the front of a prompt, however often it is there: an engine adds its own."""
    for token in filter(None, tokens):
        while prompt.startswith(token):
            prompt = prompt[len(token) :]
    return prompt


def list_answer_ends() -> tuple[str, ...]:
    """The end tokens of all families."""
    return tuple(dict.fromkeys(end for family in list_families() for end in family.ends))


def find_family(model: str | None) -> Family:
    """The family of a model name, such as ``Llama-3.1-8B``. The first family if no name matches."""
    name = f"{model or ''}-evals"
    return next((family for family in list_families() if family.match(name)), list_families()[0])
