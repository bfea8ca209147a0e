"""Signatures in probes: docs with changed prompts separate causes that look alike in a table.

There are two kinds:

- **Same as a wrong prompt.** The copy's values match the baseline's values for a wrong prompt, such as an extra BOS or
  spelled-out special tokens. So the copy had that prompt. Or they match once the outermost turn is removed: then the
  engine adds that turn.
- **Without context.** After a single token attention has only one key. RoPE and prompt cannot matter; weights and the
  precision of the KV cache can.
"""

from __future__ import annotations

import numpy as np

from meta_eval.plugins.tokens import causes
from meta_eval.plugins.tokens.causes import FoundCause, make_finding
from meta_eval.plugins.tokens.diagnosis_case import Case, Distances, Precedence, ProbePair, Signature
from meta_eval.plugins.tokens.perturbations import (
    BARE,
    NO_BOS,
    NO_HEADERS,
    NO_SPECIAL,
    SECOND_BOS,
    SPELLED,
)
from meta_eval.plugins.tokens.thresholds import (
    EARLY_POSITIONS,
    LATE_PROBED_POSITIONS,
    LATE_TIMES_EARLY_PROBED,
    MAX_LEFT_BEHIND_MISTAKE,
    MAX_WITHOUT_CONTEXT,
    MIN_NEARER,
    MIN_PROBED_DOCS,
    SETTLED_TOKENS,
    SURELY_WITHOUT_CONTEXT,
)

# By probe: the mistake that it reproduces in the baseline, the mistake that it repairs in the copy, and words for the
# prompt.
_PICTURES = {
    NO_BOS: (causes.PROMPT, "no BOS"), SECOND_BOS: (causes.MORE_BOS, "two BOS"),
    NO_HEADERS: (causes.PROMPT, "the heads of turns left out"),
    NO_SPECIAL: (causes.PROMPT, "special tokens left out"), SPELLED: (causes.PROMPT, "special tokens as text"),
}  # fmt: skip
_REPAIRS = {BARE: (causes.PROMPT, "the outermost turn left out")}


def match_mistake(case: Case) -> FoundCause | None:
    """Find the prompt mistake that explains the copy's answers."""
    if case.probing is None:
        return None
    parts = {name: _measure_left(case.probing, name) for name in (*_PICTURES, *_REPAIRS)}
    near = [(part, name) for name, part in parts.items() if part is not None and part <= MAX_LEFT_BEHIND_MISTAKE]
    if not near:
        return None
    _, name = min(near)
    if name in _REPAIRS:
        group, words = _REPAIRS[name]
        return make_finding(f"asked with {words} it is what the baseline is: something adds it", group)
    group, words = _PICTURES[name]
    return make_finding(f"it is what the baseline is when that is asked with {words}", group)


def _measure_left(probes: ProbePair, name: str) -> float | None:
    """The distance that remains when a side has the probe, as a share of the distance without probes."""
    left, distances = [], []
    for plain, probed in probes.pairs_of(name):
        probed_logprobs, plain_logprobs = (
            (probed.baseline, plain.candidate) if name in _PICTURES else (probed.candidate, plain.baseline)
        )
        left.append(_mean_size(probed_logprobs - plain_logprobs))
        distances.append(_mean_size(plain.difference))
    if len(left) < MIN_PROBED_DOCS or not sum(distances):
        return None
    nearer = np.mean(np.array(left) < np.array(distances))
    return sum(left) / sum(distances) if nearer >= MIN_NEARER else None


def find_context_error(case: Case) -> FoundCause | None:
    """Find an error of attention or prompt: the copy is different, but the same after a single token."""
    pairs, limit = case.probes.without_prompts, MAX_WITHOUT_CONTEXT * case.mean_distance
    first = float(np.mean([abs(pair.difference[0]) for pair in pairs]))
    if first > limit:
        return None
    same = f"behind a single token it is the same to {first:.2g} nats"
    if first > SURELY_WITHOUT_CONTEXT * case.mean_distance:
        return make_finding(
            f"behind a single token it is off by {first:.2g} nats, and in all by {case.mean_distance:.2g}",
            causes.ATTENTION, causes.WEIGHTS,
        )  # fmt: skip
    far = _mean_size(np.concatenate([pair.difference[SETTLED_TOKENS:] for pair in pairs]))
    if far > max(case.margin, limit):
        return make_finding(f"{same}, and some tokens later off by {far:.2g}", causes.ATTENTION)
    table = case.table
    # A wrong template also shows at early positions, if only in tasks with a template.
    is_early, is_late = table.position < EARLY_POSITIONS, table.position >= LATE_PROBED_POSITIONS
    early = max(_mean_size(case.distance[is_early & table.of(task)]) for task in table.tasks)
    late = _mean_size(case.distance[is_late])
    if late and early and early <= case.margin and late > LATE_TIMES_EARLY_PROBED * early:
        return make_finding(
            f"{same}; up to position {EARLY_POSITIONS:,} it is off by {early:.2g} nats, "
            f"from {LATE_PROBED_POSITIONS:,} on by {late:.2g}",
            causes.ATTENTION, causes.PROMPT,
        )  # fmt: skip
    return make_finding(
        f"{same}, and no number of BOS repairs it: it reads another prompt, or other parts of it",
        causes.PROMPT, causes.ATTENTION,
    )  # fmt: skip


def locate_error(case: Case) -> FoundCause:
    """Report an error of weights, or of what is computed with them: the copy is different without any context."""
    evidence = f"off by {case.mean_distance:.2g} nats, also behind a single token"
    return make_finding(f"{evidence}: it lies in the weights, or in what is computed with them", causes.WEIGHTS)


def _mean_size(values: Distances) -> float:
    """The mean absolute value; 0 without values."""
    return float(np.abs(values).mean()) if len(values) else 0.0


PROBE_SIGNATURES = (
    Signature(match_mistake, Precedence.PROMPT),
    Signature(find_context_error, probes=True),
    Signature(locate_error, Precedence.REMAINDER, probes=True),
)
