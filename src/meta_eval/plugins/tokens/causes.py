"""The table of causes of differences, in groups with the same trace. `fidelity` and `audit` share it.

Probes separate groups, not the causes within a group. For example, after a single token attention has only one key, so
another RoPE base, another attention scale and damaged queries all leave the model unchanged. A finding therefore names
groups, and a single cause only if its group has no other.

To add a cause, add its name to a group (`GROUPS`) and a deliberate fault that shows it (`FAULTS`). A group is one that
a test on a real engine shows to be named rightly (tests/plugins/engines/real). If no signature detects it, add a
function in `table_signatures` or `probe_signatures`, its limits in `thresholds`, and the fault's table in
tests/data/fidelity, made by tools/forced_tokens.py (needs torch).
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
OTHER = "another model"
OTHER_SAMPLING = "sampled where greedy answers were asked for"
TEMPERATURE = "another temperature or top_p than was asked for"
PENALTY = "a penalty of repetition, frequency or presence"
MIXTURE = "another model or prompt for a part of the requests"
EDITING = "answers edited after they were generated"
LIMIT = "answers cut below the limit that was asked for"

SAME_IDS = "Compare the token ids that the engine was given with those of `meta-eval export`: one BOS, one template"


@dataclass(frozen=True, slots=True)
class Group:
    """Causes with the same trace."""

    name: str
    """Their name in reports; if there is only one cause, its name."""

    label: str
    """The name in a word or two."""

    causes: tuple[str, ...]
    """The causes."""

    trace: str
    """How the group is detected: the probe, and what the copy does there."""

    todo: str
    """What to look at, one sentence without a full stop."""


MORE_BOS = Group(TWO_BOS, "two BOS", (TWO_BOS,), "equals the baseline behind two BOS", SAME_IDS)
PROMPT = Group(
    "another prompt, or not all of it",
    "prompt",
    (TEMPLATE, BOS, TRUNCATION, WINDOW),
    "equals the baseline behind another prompt, or without a turn; or is the same behind a single token",
    f"{SAME_IDS}. Look for a context that is shorter than the pack's max_model_len, for truncate_prompt_tokens, and "
    "for sliding_window of its config.json",
)
ATTENTION = Group(
    "attention weighs other tokens",
    "attention",
    (POSITIONS, ROPE, SCALE, QUERIES, NORMS),
    "is the same behind a single token, where attention has one key, but not farther on",
    "Compare rope_parameters (rope_theta, rope_scaling) of its config.json with the model's, and run it with queries "
    "and keys that are not quantised",
)
WEIGHTS = Group(
    "weights, or what is computed with them",
    "weights",
    (QUANTISED, DAMAGE, FUNCTION, LOGITS, NORMS, DTYPE, CACHE, CHAT),
    "is off behind a single token too",
    "Run both in one dtype: bfloat16 beside float32 looks like this, and only an A/A pair of one dtype tells. Compare "
    "its config.json and the checksums of its weights with the model's, load them on one device, and run it with its "
    "KV cache (kv_cache_dtype) in bfloat16",
)

# Groups that only answers show.
SAMPLED = Group(
    OTHER_SAMPLING,
    "sampling",
    (OTHER_SAMPLING,),
    "a temperature above 0 fits the answers",
    "Send temperature 0 in every request, and ask a doc twice: greedy answers are the same",
)
SETTINGS = Group(
    TEMPERATURE,
    "temperature",
    (TEMPERATURE,),
    "another temperature fits the answers, or tokens are outside of the set that was asked for",
    "Send temperature and top_p in every request, and look for values that the provider sets itself",
)
PENALISED = Group(
    PENALTY,
    "penalty",
    (PENALTY,),
    "its tokens avoid the text before where the likeliest one repeats it, and never the other way round",
    "Send repetition_penalty 1, frequency_penalty 0 and presence_penalty 0, and look into generation_config.json, "
    "whose repetition_penalty some servers take as their default",
)
COARSE = Group(
    "other weights",
    "weights",
    (QUANTISED, OTHER),
    "tokens are less likely all along the answers",
    "Ask which weights, which quantisation and which KV cache are served",
)
MIXED = Group(
    MIXTURE,
    "mixture",
    (MIXTURE,),
    "some answers do not fit at all, and the others do",
    "Ask the docs that do not fit again, and compare what the provider says of each answer: model, route, fingerprint",
)
EDITED = Group(
    EDITING,
    "edited",
    (EDITING,),
    "a few tokens are such as nothing like the trusted copy writes",
    "Look at these answers: filters, links, and words that a provider replaces",
)
CUT = Group(
    LIMIT,
    "cut",
    (LIMIT,),
    "answers end at the same count of tokens, below the limit of the request",
    "Send max_tokens in every request, and look for a largest answer of the provider",
)

GROUPS = (MORE_BOS, PROMPT, ATTENTION, WEIGHTS)


@dataclass(frozen=True, slots=True)
class Fault:
    """A deliberate fault. Tables of a copy with it test the signatures."""

    table: str
    """The name of the copy in tools/forced_tokens.py and of its tables."""

    label: str
    """The change, in a few words."""

    cause: str
    """The cause that it shows."""

    groups: tuple[Group, ...] = ()
    """Groups that probes may name for its trace, the best first; empty if a group with several causes that includes it,
    or nothing, is named."""


FAULTS = (
    Fault("no_bos", "no BOS", BOS, (PROMPT,)),
    Fault("two_bos", "two BOS", TWO_BOS, (MORE_BOS,)),
    Fault("no_template", "chat headers left out", TEMPLATE, (PROMPT, ATTENTION)),
    Fault("spelled_template", "special tokens as text", TEMPLATE, (PROMPT,)),
    Fault("template_twice", "template twice", TEMPLATE, (PROMPT,)),
    Fault("rope_off", "RoPE scaling off", ROPE, (ATTENTION, PROMPT)),
    Fault("rope_theta", "RoPE base 10,000", POSITIONS, (ATTENTION,)),
    Fault("shards", "mis-sharded layer", DAMAGE, (WEIGHTS,)),
    Fault("chat_model", "chat model", CHAT, (WEIGHTS,)),
    Fault("kv4", "KV cache in 4 bits", CACHE, (WEIGHTS,)),
    Fault("kv8", "KV cache in 8 bits", CACHE, (WEIGHTS,)),
    Fault("int4", "weights in 4 bits", QUANTISED, (WEIGHTS,)),
    Fault("int8", "weights in 8 bits", QUANTISED, (WEIGHTS,)),
    Fault("noise1", "layers perturbed by 1 %", QUANTISED, (WEIGHTS,)),
    Fault("noise3", "layers perturbed by 3 %", QUANTISED, (WEIGHTS,)),
    Fault("noise10", "layers perturbed by 10 %", QUANTISED, (WEIGHTS,)),
    Fault("logit_scale", "logits times 1.15", LOGITS, (WEIGHTS,)),
    # Faults without a signature.
    Fault("truncated", "prompts cut", TRUNCATION),
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
class FoundCause:
    """What the tokens show, and possible causes."""

    groups: tuple[str, ...]
    """The names of the groups of causes with this trace."""

    causes: tuple[str, ...]
    """All causes of these groups."""

    evidence: str
    """A sentence without a full stop."""

    todo: str
    """What to look at, one sentence without a full stop."""

    @property
    def headline(self) -> str:
        """The groups with their causes: ``attention weighs other tokens (another RoPE base, …)``."""
        groups = []
        for group in GROUPS:
            if group.name in self.groups:
                listed = "; ".join(group.causes)
                groups.append(group.name if group.causes == (group.name,) else f"{group.name} ({listed})")
        return " or: ".join(groups)


def make_finding(evidence: str, *groups: Group, todo: str | None = None) -> FoundCause:
    """Make a finding of a group, or of several groups that the requests cannot separate.

    Args:
        evidence: The observation, a sentence without a full stop.
        groups: Groups with this trace; check the first one first.
        todo: What to check, instead of the groups' own text.
    """
    causes = dict.fromkeys(cause for group in groups for cause in group.causes)
    todos = dict.fromkeys(group.todo for group in groups)
    return FoundCause(tuple(group.name for group in groups), tuple(causes), evidence, todo or ". ".join(todos))
