"""What may set a copy apart, in words, and what is found of it."""

from __future__ import annotations

from dataclasses import dataclass

BOS = "no BOS"
TWO_BOS = "a second BOS"
TEMPLATE = "another chat template, or its special tokens read as text"
TRUNCATION = "prompts cut to fit, at their start"
ROPE = "RoPE scaling that is not the model's"
POSITIONS = "another RoPE base"
CACHE = "coarser numbers while it computes: a quantised KV cache, or activations"
QUANTISED = "coarser weights (quantised), or slightly other ones"
DAMAGE = "other weights, or weights put together wrongly (a mis-sharded layer)"
CHAT = "a chat model under prompts for a base model"
TOKENIZER = "another tokenizer than the weights'"

SAME_IDS = "Compare the token ids that the engine was given with those of `meta-eval export`: one BOS, one template"


@dataclass(frozen=True, slots=True)
class Finding:
    """What the tokens show, and what may have caused it.

    Attributes:
        causes: Each of them would leave this trace; several where what was asked cannot tell them apart.
        evidence: One sentence without a full stop.
        todo: What to look at, one sentence without a full stop.
    """

    causes: tuple[str, ...]
    evidence: str
    todo: str
