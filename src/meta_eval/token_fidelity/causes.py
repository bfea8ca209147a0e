"""What may set a copy apart: one table of causes, in the groups that leave one trace.

Probes tell groups apart and not the causes in them: behind a single token, where attention has one key, a model is the
same with another RoPE base, with another scale of attention, and with damaged queries. So a finding names whole groups,
and a single cause only where its group has no other.
"""

from __future__ import annotations

from dataclasses import dataclass

BOS = "no BOS"
TWO_BOS = "a second BOS"
TEMPLATE = "another chat template, or its special tokens read as text"
TRUNCATION = "prompts cut to fit, at their start"
WINDOW = "a sliding window of attention"
ROPE = "RoPE scaling that is not the model's"
POSITIONS = "another RoPE base"
SCALE = "another scale of attention"
QUERIES = "queries and keys alone that are coarser, or of heads in the wrong order"
CACHE = "coarser numbers while it computes: a quantised KV cache, or activations"
QUANTISED = "coarser weights (quantised), or slightly other ones"
DTYPE = "another dtype than the baseline's"
DAMAGE = "other weights, or weights put together wrongly (a mis-sharded layer)"
FUNCTION = "another function of the same weights: activation, scale of the logits"
NORMS = "another normalisation, such as its epsilon"
CHAT = "a chat model under prompts for a base model"
TOKENIZER = "another tokenizer than the weights'"

SAME_IDS = "Compare the token ids that the engine was given with those of `meta-eval export`: one BOS, one template"


@dataclass(frozen=True, slots=True)
class Group:
    """Causes that leave one trace.

    Attributes:
        name: What they have in common, as reports name it; that of the cause where there is one.
        causes: Each of them.
        trace: What tells the group: the probe, and what the copy does there.
        todo: What to look at, one sentence without a full stop.
    """

    name: str
    causes: tuple[str, ...]
    trace: str
    todo: str


NO_BOS = Group(BOS, (BOS,), "it is what the baseline is behind a prompt without BOS", SAME_IDS)
MORE_BOS = Group(TWO_BOS, (TWO_BOS,), "it is what the baseline is behind a prompt with two BOS", SAME_IDS)
PROMPT = Group(
    TEMPLATE, (TEMPLATE,), "it is what the baseline is behind another template, or is repaired without one", SAME_IDS
)
START = Group(
    "the start of prompts is not read",
    (TRUNCATION, WINDOW),
    "another start of long prompts changes nothing for it",
    "Look for a context that is shorter than the pack's max_model_len, for truncate_prompt_tokens, and for "
    "sliding_window of its config.json",
)
ATTENTION = Group(
    "attention weighs other tokens",
    (POSITIONS, ROPE, SCALE, QUERIES, NORMS),
    "behind a single token, where attention has one key, it is the same, and farther on it is not",
    "Compare rope_parameters (rope_theta, rope_scaling) of its config.json with the model's, and run it with queries "
    "and keys that are not quantised",
)
WEIGHTS = Group(
    "weights, or what is computed with them",
    (QUANTISED, DAMAGE, FUNCTION, NORMS, DTYPE),
    "it is off behind a single token, and by the same amounts one place further",
    "Run both in one dtype: bfloat16 beside float32 looks like this, and only an A/A pair of one dtype tells. Compare "
    "its config.json and the checksums of its weights with the model's, and load them on one device",
)
ROUNDING = Group(
    CACHE,
    (CACHE,),
    "it is off behind a single token, and by other amounts one place further",
    "Run the copy with its KV cache (kv_cache_dtype) and its activations in bfloat16",
)
MODEL = Group(
    "a sound model of another kind",
    (CHAT, DAMAGE),
    "it would end answers sooner, and most of its tokens are the likeliest ones",
    "Look whether these are the weights of the model that the pack is for: base or instruct",
)
WORDS = Group(
    TOKENIZER,
    (TOKENIZER,),
    "it could not have said the recorded tokens",
    "Compare the tokenizer's file with the one that the weights came with",
)

GROUPS = (NO_BOS, MORE_BOS, PROMPT, START, ATTENTION, WEIGHTS, ROUNDING, MODEL, WORDS)


@dataclass(frozen=True, slots=True)
class Finding:
    """What the tokens show, and what may have caused it.

    Attributes:
        groups: The names of the groups of causes that leave this trace.
        causes: Each cause of these groups.
        evidence: One sentence without a full stop.
        todo: What to look at, one sentence without a full stop.
    """

    groups: tuple[str, ...]
    causes: tuple[str, ...]
    evidence: str
    todo: str

    @property
    def headline(self) -> str:
        """The groups with their causes: ``attention weighs other tokens (another RoPE base, …)``."""
        named = []
        for group in GROUPS:
            if group.name in self.groups:
                listed = "; ".join(group.causes)
                named.append(group.name if group.causes == (group.name,) else f"{group.name} ({listed})")
        return " or: ".join(named)


def find(evidence: str, *groups: Group, todo: str | None = None) -> Finding:
    """A finding of one group, or of several that what was asked does not tell apart.

    Args:
        evidence: What is seen, one sentence without a full stop.
        groups: Each of them would leave this trace; the first is looked at first.
        todo: Instead of what the groups say is to be looked at.
    """
    causes = dict.fromkeys(cause for group in groups for cause in group.causes)
    said = dict.fromkeys(group.todo for group in groups)
    return Finding(tuple(group.name for group in groups), tuple(causes), evidence, todo or ". ".join(said))
