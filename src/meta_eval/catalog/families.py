"""The families of models that evals datasets are of: their names and special tokens.

They stand in ``meta_template/_common/families.json``, which every pack brings along for its graders. Another family is
another entry there.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from meta_eval import assets

FILE = "meta_template/_common/families.json"


class Family(BaseModel):
    """One family.

    Attributes:
        name: What it is called in messages.
        evals_dataset: A regular expression of the names of its evals datasets, whose groups are family (what the tasks
            list as ``families``, such as ``3.1``), size (all that stands behind it: ``8B``, ``Tiny-2B``), instruct.
            None where there are none.
        model: The name of a model, with these groups in braces; None likewise.
        bos: The token in front of every prompt, as text.
        header: The tokens before and behind the role that begins a turn.
        after_header: What stands between a header and the text of its turn.
        end_of_turn: The token behind the text of a turn.
        ends: The tokens that end an answer.
        tool_call: The token that begins a tool call.
        rope_scaled_from: Tokens from which its rotary embeddings are scaled.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    evals_dataset: str | None
    model: str | None
    bos: str
    header: tuple[str, str]
    after_header: str
    end_of_turn: str
    ends: tuple[str, ...]
    tool_call: str
    rope_scaled_from: Annotated[int, Field(gt=0)]

    def match(self, dataset: str) -> re.Match[str] | None:
        """The groups of a name of one of its evals datasets, in any case; None for the name of something else."""
        return re.fullmatch(self.evals_dataset, dataset, re.IGNORECASE) if self.evals_dataset else None

    @property
    def special(self) -> tuple[str, ...]:
        """The tokens that its prompts may hold, BOS first."""
        return (self.bos, *self.header, self.end_of_turn)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every special token of its prompts and answers."""
        return (*self.special, *self.ends, self.tool_call)

    def head(self, role: str) -> str:
        """The head of a turn."""
        return f"{self.header[0]}{role}{self.header[1]}{self.after_header}"


@cache
def list_families() -> tuple[Family, ...]:
    """Every family, the oldest first."""
    return tuple(Family.model_validate(entry) for entry in json.loads(assets.read_asset(FILE)))


def list_bos_tokens() -> tuple[str, ...]:
    """The BOS of every family; families that share it have it once."""
    return tuple(dict.fromkeys(family.bos for family in list_families()))


def list_answer_ends() -> tuple[str, ...]:
    """What ends an answer in any family."""
    return tuple(dict.fromkeys(end for family in list_families() for end in family.ends))


def find_family(model: str | None) -> Family:
    """The family of a model by its name, such as ``Llama-3.1-8B``; the first family if no name matches."""
    name = f"{model or ''}-evals"
    return next((family for family in list_families() if family.match(name)), list_families()[0])
