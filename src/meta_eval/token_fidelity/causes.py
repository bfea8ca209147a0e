"""What may set a copy apart: the one table of causes, in the groups that leave one trace.

Probes tell groups apart and not the causes in them: behind a single token, where attention has one key, a model is the
same with another RoPE base, with another scale of attention, and with damaged queries. So a finding names whole groups,
and a single cause only where its group has no other.

To add a cause: its name here, in a group (`GROUPS`) and with a fault that was made on purpose (`FAULTS`). Where no
signature tells the group yet, add a function in `table_signatures` or `probe_signatures`, with its limits in
`thresholds`, and the fault's table in tests/data/fidelity, made by tools/forced_tokens.py, which needs torch.
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
FUNCTION = "another function of the same weights, such as its activation"
LOGITS = "scaled logits: a temperature, or another scale of the logits"
NORMS = "another normalisation, such as its epsilon"
CHAT = "a chat model under prompts for a base model"
TOKENIZER = "another tokenizer than the weights'"

SAME_IDS = "Compare the token ids that the engine was given with those of `meta-eval export`: one BOS, one template"


@dataclass(frozen=True, slots=True)
class Group:
    """Causes that leave one trace.

    Attributes:
        name: What they have in common, as reports name it; that of the cause where there is one.
        label: The name in a word or two.
        causes: Each of them.
        trace: What tells the group: the probe, and what the copy does there.
        todo: What to look at, one sentence without a full stop.
    """

    name: str
    label: str
    causes: tuple[str, ...]
    trace: str
    todo: str


NO_BOS = Group(BOS, "no BOS", (BOS,), "it is what the baseline is behind a prompt without BOS", SAME_IDS)
MORE_BOS = Group(TWO_BOS, "two BOS", (TWO_BOS,), "it is what the baseline is behind a prompt with two BOS", SAME_IDS)
PROMPT = Group(
    TEMPLATE,
    "template",
    (TEMPLATE,),
    "it is what the baseline is behind another template, or is repaired without one",
    SAME_IDS,
)
START = Group(
    "the start of prompts is not read",
    "start not read",
    (TRUNCATION, WINDOW),
    "another start of long prompts changes nothing for it",
    "Look for a context that is shorter than the pack's max_model_len, for truncate_prompt_tokens, and for "
    "sliding_window of its config.json",
)
SCALED = Group(
    LOGITS,
    "scaled logits",
    (LOGITS,),
    "every token is so many times as far below the likeliest one as it is for the baseline",
    "Ask for log-probabilities before any temperature (of vLLM: logprobs_mode=raw_logprobs), and compare the scale of "
    "logits of its config.json (logit_scale, logits_scaling) with the model's",
)
ATTENTION = Group(
    "attention weighs other tokens",
    "attention",
    (POSITIONS, ROPE, SCALE, QUERIES, NORMS),
    "behind a single token, where attention has one key, it is the same, and farther on it is not",
    "Compare rope_parameters (rope_theta, rope_scaling) of its config.json with the model's, and run it with queries "
    "and keys that are not quantised",
)
WEIGHTS = Group(
    "weights, or what is computed with them",
    "weights",
    (QUANTISED, DAMAGE, FUNCTION, LOGITS, NORMS, DTYPE),
    "it is off behind a single token, and by the same amounts one place further",
    "Run both in one dtype: bfloat16 beside float32 looks like this, and only an A/A pair of one dtype tells. Compare "
    "its config.json and the checksums of its weights with the model's, and load them on one device",
)
ROUNDING = Group(
    CACHE,
    "rounding",
    (CACHE,),
    "it is off behind a single token, and by other amounts one place further",
    "Run the copy with its KV cache (kv_cache_dtype) and its activations in bfloat16",
)
MODEL = Group(
    "a sound model of another kind",
    "another model",
    (CHAT, DAMAGE),
    "it would end answers sooner, and most of its tokens are the likeliest ones",
    "Look whether these are the weights of the model that the pack is for: base or instruct",
)
WORDS = Group(
    TOKENIZER,
    "tokenizer",
    (TOKENIZER,),
    "it is refused before anything is asked; without a baseline, it could not have said the recorded tokens",
    "Compare the tokenizer's file with the one that the weights came with",
)

GROUPS = (NO_BOS, MORE_BOS, PROMPT, START, SCALED, ATTENTION, WEIGHTS, ROUNDING, MODEL, WORDS)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was made on purpose: the tables of a copy with it are what the signatures are tested on.

    Attributes:
        table: The name of the copy in tools/forced_tokens.py and of its tables.
        label: What was done, in a few words.
        cause: What is wrong with it.
        groups: What its trace may be told as with probes, the first one first; empty where a group of several causes is
            named that holds the cause, or nothing.
    """

    table: str
    label: str
    cause: str
    groups: tuple[Group, ...] = ()


FAULTS = (
    Fault("no_bos", "no BOS", BOS, (NO_BOS,)),
    Fault("two_bos", "two BOS", TWO_BOS, (MORE_BOS,)),
    Fault("no_template", "chat headers left out", TEMPLATE, (PROMPT, START, ATTENTION)),
    Fault("spelled_template", "special tokens as text", TEMPLATE, (PROMPT,)),
    Fault("template_twice", "template twice", TEMPLATE, (PROMPT,)),
    Fault("truncated", "prompts cut", TRUNCATION, (START,)),
    Fault("rope_off", "RoPE scaling off", ROPE, (ATTENTION, START)),
    Fault("rope_theta", "RoPE base 10,000", POSITIONS, (ATTENTION,)),
    Fault("shards", "mis-sharded layer", DAMAGE, (WEIGHTS,)),
    Fault("chat_model", "chat model", CHAT, (MODEL,)),
    Fault("kv4", "KV cache in 4 bits", CACHE, (ROUNDING,)),
    Fault("kv8", "KV cache in 8 bits", CACHE, (ROUNDING,)),
    Fault("int4", "weights in 4 bits", QUANTISED, (WEIGHTS,)),
    Fault("int8", "weights in 8 bits", QUANTISED, (WEIGHTS,)),
    Fault("noise1", "layers perturbed by 1 %", QUANTISED, (WEIGHTS,)),
    Fault("noise3", "layers perturbed by 3 %", QUANTISED, (WEIGHTS,)),
    Fault("noise10", "layers perturbed by 10 %", QUANTISED, (WEIGHTS,)),
    Fault("logit_scale", "logits times 1.15", LOGITS, (SCALED,)),
    # Faults that no signature was written for.
    Fault("qk_int4", "queries and keys in 3 bits", QUERIES),
    Fault("qk_shards", "heads of keys swapped", QUERIES),
    Fault("attention_scale", "attention scale times 1.4", SCALE),
    Fault("window", "sliding window of 512", WINDOW),
    Fault("window64", "sliding window of 64", WINDOW),
    Fault("gelu", "GELU for SiLU", FUNCTION),
    Fault("norm_eps", "another epsilon of norms", NORMS),
    Fault("half_layer", "half a layer left out", DAMAGE),
    Fault("adapter", "an adapter of rank 2", DAMAGE),
    Fault("v_int3", "values in 3 bits", QUANTISED),
    Fault("rope_linear", "linear RoPE scaling", ROPE),
)


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


def make_finding(evidence: str, *groups: Group, todo: str | None = None) -> Finding:
    """Make a finding of one group, or of several that what was asked does not tell apart.

    Args:
        evidence: What is seen, one sentence without a full stop.
        groups: Each of them would leave this trace; the first is looked at first.
        todo: Instead of what the groups say is to be looked at.
    """
    causes = dict.fromkeys(cause for group in groups for cause in group.causes)
    todos = dict.fromkeys(group.todo for group in groups)
    return Finding(tuple(group.name for group in groups), tuple(causes), evidence, todo or ". ".join(todos))
