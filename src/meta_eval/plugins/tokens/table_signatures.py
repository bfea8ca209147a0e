"""Signatures of causes in the tokens of two tables, by doc and position."""

from __future__ import annotations

from meta_eval.plugins.tokens import causes
from meta_eval.plugins.tokens.causes import FoundCause, make_finding
from meta_eval.plugins.tokens.diagnosis_case import Case, Precedence, Signature
from meta_eval.plugins.tokens.thresholds import (
    EARLY_POSITIONS,
    FIDELITY_LEVEL,
    GROSS_NATS,
    LATE_POSITIONS,
    LATE_TIMES_EARLY,
    MIN_EXACT_DOCS,
    OPENING_MAY_STAND_OUT,
    OPENING_STANDS_OUT,
    OPENING_TOKENS,
)


def find_touched_tasks(case: Case) -> FoundCause | None:
    """Some tasks are bit-identical, and in the others no doc is: their prompts differ in kind."""
    sums, counts = case.table.sums(case.distance)
    same: list[str] = []
    hit: list[str] = []
    for task in case.table.tasks:
        in_task = [
            answer.task == task and bool(count) for answer, count in zip(case.table.answers, counts, strict=True)
        ]
        touched = sums[in_task] > 0
        if touched.all() and len(touched) >= MIN_EXACT_DOCS:
            hit.append(task)
        elif not touched.any() and len(touched) >= MIN_EXACT_DOCS:
            same.append(task)
        else:
            return None
    if not same or not hit:
        return None
    return make_finding(
        f"no doc of {', '.join(same)} differs in a bit, and every doc of {', '.join(hit)} does",
        causes.PROMPT,
        todo="Look for what the prompts of these have and of those have not, such as special tokens; send token ids",
    )  # fmt: skip


def describe_opening(case: Case) -> str | None:
    """The first tokens are far away, later ones nearer: something is between prompt and answer, or before both."""
    is_opening = case.table.at < OPENING_TOKENS
    first, later = case.mean(is_opening), case.mean(~is_opening)
    if first is None or later is None or not case.exceeds_margin(first):
        return None
    if first.value < OPENING_STANDS_OUT * later.value:
        return None
    hit: list[str] = []
    spared: list[str] = []
    for task in case.table.tasks:
        task_mean = case.mean(is_opening & case.table.of(task))
        interval = task_mean.positive_interval(FIDELITY_LEVEL) if task_mean else None
        if interval is not None and interval.upper < first.value / 2:
            spared.append(task)
        elif task_mean is not None and case.exceeds_margin(task_mean):
            hit.append(task)
    where = f"; so in {', '.join(hit)}, and hardly in {', '.join(spared)}" if hit and spared else ""
    return (
        f"the first {OPENING_TOKENS} tokens of an answer are off by {first.value:.2g} nats, "
        f"later ones by {later.value:.2g}{where}"
    )


def find_opening(case: Case) -> FoundCause | None:
    """Find differences at the start of answers, for a copy without probes."""
    evidence = describe_opening(case)
    groups = (causes.PROMPT, causes.ATTENTION)
    return make_finding(evidence, *groups, todo=causes.SAME_IDS) if evidence else None


def find_probed_opening(case: Case) -> FoundCause | None:
    """Find differences at the start of answers that no other number of BOS explains."""
    evidence = describe_opening(case)
    return make_finding(evidence, causes.PROMPT, causes.WEIGHTS) if evidence else None


def find_late_error(case: Case) -> FoundCause | None:
    """Early positions differ only by rounding, late positions a lot."""
    early, late = (
        case.mean(where) for where in (case.table.position < EARLY_POSITIONS, case.table.position >= LATE_POSITIONS)
    )
    if early is None or late is None or not case.exceeds_margin(late) or early.value > case.margin:
        return None
    if late.value < LATE_TIMES_EARLY * early.value:
        return None
    return make_finding(
        f"tokens up to position {EARLY_POSITIONS:,} are off by {early.value:.2g} nats, "
        f"from {LATE_POSITIONS:,} on by {late.value:.2g}",
        causes.ATTENTION, causes.PROMPT,
    )  # fmt: skip


def find_gross_error(case: Case) -> FoundCause | None:
    """Differences are large from early positions on, throughout the answers."""
    is_later = case.table.at >= OPENING_TOKENS
    early = case.mean((case.table.position < EARLY_POSITIONS) & is_later) or case.mean(is_later)
    if early is None or early.value < GROSS_NATS:
        return None
    everywhere = f"tokens at every position are off, early ones by {early.value:.2g} nats"
    return make_finding(everywhere, causes.WEIGHTS, causes.ATTENTION)


def describe_spread(case: Case) -> FoundCause:
    """Nothing stands out. The finding names causes with such a spread, and rounding."""
    groups = [causes.WEIGHTS, causes.MORE_BOS, causes.ATTENTION]
    is_opening = case.table.at < OPENING_TOKENS
    first, later = case.mean(is_opening), case.mean(~is_opening)
    if first is not None and later is not None and first.value >= OPENING_MAY_STAND_OUT * later.value:
        groups.append(causes.PROMPT)
    shift = case.comparison.all.shift.value
    return make_finding(
        f"the difference of {case.mean_distance:.2g} nats a token is spread over all tokens, as rounding is; "
        f"the copy finds the answers {'less' if shift > 0 else 'more'} likely by {abs(shift):.2g}",
        *groups,
        todo="Ask both with probes, which tell these apart; and both in one dtype, one after the other (an A/A pair)",
    )


TABLE_SIGNATURES = (
    Signature(find_touched_tasks, Precedence.BITS),
    Signature(find_probed_opening, probes=True),
    Signature(find_opening, probes=False),
    Signature(find_late_error, probes=False),
    Signature(find_gross_error, probes=False),
    Signature(describe_spread, Precedence.REMAINDER, probes=False),
)
