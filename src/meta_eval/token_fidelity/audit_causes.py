"""What may differ behind an endpoint whose answers do not fit: a cause, or a group that looks alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from meta_eval.messages.counts import plural
from meta_eval.stats import Interval, score_interval
from meta_eval.thresholds import (
    AUDIT_BITS,
    AUDIT_CUT,
    AUDIT_EDITED,
    AUDIT_MIN_FITTING,
    AUDIT_OTHER_COUNT,
    AUDIT_OUTSIDE,
    AUDIT_REGRET_FLOOR,
    AUDIT_SAME_COUNT,
    AUDIT_SAMPLED_TEMPERATURE,
    AUDIT_TEMPERATURE,
    FIDELITY_LEVEL,
    OPENING_STANDS_OUT,
)
from meta_eval.token_fidelity.answer_audit import GroupVerdict, find_unfit
from meta_eval.token_fidelity.answer_scores import ScoredDoc


@dataclass(frozen=True, slots=True)
class PromptCount:
    """The endpoint's count of prompt tokens beside that of the trusted copy.

    Attributes:
        docs: Number of answers with both counts.
        more: The most frequent difference; negative if the endpoint counts fewer.
        share: The share of answers with this difference.
        other: The share of answers with any difference.
        fewer: The share of answers for which the endpoint counts fewer.
        distinct: Number of distinct differences but 0.
    """

    docs: int
    more: int
    share: float
    other: float
    fewer: float
    distinct: int

    @property
    def differs(self) -> bool:
        """Whether the endpoint's prompt is another one."""
        return self.more != 0 and self.share >= AUDIT_SAME_COUNT


@dataclass(frozen=True, slots=True)
class AuditCause:
    """A cause, or several that look alike.

    Attributes:
        key: Its name for programs.
        text: A sentence without a full stop.
        interval: Of a share that the text is about; None for none.
    """

    key: str
    text: str
    interval: Interval | None = None


def count_prompts(differences: Sequence[int]) -> PromptCount | None:
    """Summarise the endpoint's counts less those of the trusted copy; None without any."""
    if not differences:
        return None
    values, counts = np.unique(differences, return_counts=True)
    most = int(counts.argmax())
    found = np.array(differences)
    return PromptCount(
        len(found), int(values[most]), float(counts[most] / len(found)), float((found != 0).mean()),
        float((found < 0).mean()), int((values != 0).sum()),
    )  # fmt: skip


def find_causes(
    verdicts: Sequence[GroupVerdict], docs: Sequence[ScoredDoc], prompts: PromptCount | None, cut: int
) -> tuple[AuditCause, ...]:
    """Name what may differ, the surest first. Prompts and cut answers are named whatever the outcome.

    Args:
        verdicts: The verdicts.
        docs: The scored answers.
        prompts: The counts of prompt tokens.
        cut: Number of answers that end at a limit below that of the request.
    """
    causes = [] if prompts is None else [*_find_prompt(prompts)]
    if docs and cut > AUDIT_CUT * len(docs):
        causes.append(AuditCause("cut", f"{plural(cut, 'answer')} cut below the limit that was asked for"))
    for verdict in verdicts:
        if verdict.outcome == "different" and not causes:
            some = [doc for doc in docs if doc.decoding.is_greedy == verdict.figures.is_greedy]
            causes.append(_find_greedy(verdict, some) if verdict.figures.is_greedy else _find_sampled(verdict, some))
    return tuple(causes)


def _find_prompt(prompts: PromptCount) -> Iterator[AuditCause]:
    if prompts.differs:
        more = f"{plural(abs(prompts.more), 'token')} {'more' if prompts.more > 0 else 'fewer'}"
        yield AuditCause("prompt", f"another system prompt or chat template: its prompts have {more} than the pack's")
    elif prompts.fewer >= AUDIT_OTHER_COUNT and prompts.fewer == prompts.other and prompts.distinct > 1:
        share = 100 * prompts.fewer
        yield AuditCause("context", f"a cut context: {share:.0f} % of its prompts have fewer tokens than the pack's")
    elif prompts.other >= AUDIT_OTHER_COUNT:
        share = 100 * prompts.other
        yield AuditCause(
            "prompt", f"another prompt for some requests: {share:.0f} % of its prompts have other counts of tokens"
        )


def _find_greedy(verdict: GroupVerdict, docs: Sequence[ScoredDoc]) -> AuditCause:
    fitted, figures = verdict.temperature_interval, verdict.figures
    unlikely, foreign = (sum(int(getattr(doc, name).sum()) for doc in docs) for name in ("unlikely", "foreign"))
    if foreign > AUDIT_EDITED * unlikely:
        edited = [float(doc.foreign.any()) for doc in docs]
        share = score_interval(edited, level=FIDELITY_LEVEL)
        return AuditCause(
            "edited", f"edited after they were generated: {100 * share.lower:.0f} to {100 * share.upper:.0f} % of the "
            "answers have tokens that nothing like the trusted copy writes", share,
        )  # fmt: skip
    if fitted is not None and fitted.lower >= AUDIT_SAMPLED_TEMPERATURE:
        return AuditCause(
            "sampling_or_weights", f"sampled at a temperature of about {fitted.lower:g} to {fitted.upper:g}, and 0 was "
            "asked for; or much coarser weights, or another model", fitted,
        )  # fmt: skip
    unfit = find_unfit(docs)
    fitting = float(np.mean([doc.mean for doc, is_unfit in zip(docs, unfit, strict=True) if not is_unfit] or [1.0]))
    if unfit.any() and unfit.mean() <= 1 - AUDIT_MIN_FITTING and fitting <= AUDIT_REGRET_FLOOR:
        share = score_interval(unfit.astype(float).tolist(), level=FIDELITY_LEVEL)
        words = f"{100 * share.lower:.0f} to {100 * share.upper:.0f} %"
        return AuditCause(
            "mixture", f"{words} of the answers do not fit and the others do: some requests go to another model or "
            "prompt, or all to slightly other weights", share,
        )  # fmt: skip
    opening, later = figures.opening, figures.later
    if opening is not None and later is not None and opening > OPENING_STANDS_OUT * later:
        return AuditCause("prompt", "another system prompt or chat template: the first tokens differ most")
    regret = figures.score.value
    bits = min(AUDIT_BITS, key=lambda name: abs(math.log(max(regret, 1e-9) / AUDIT_BITS[name])))
    return AuditCause(
        "weights", f"coarser weights, which differ as {bits} bits do on SmolLM2-135M; another model; or another prompt "
        "with the same number of tokens",
    )  # fmt: skip


def _find_sampled(verdict: GroupVerdict, docs: Sequence[ScoredDoc]) -> AuditCause:
    fitted = verdict.temperature_interval
    if verdict.figures.unlikely > AUDIT_OUTSIDE:
        return AuditCause(
            "top_p", f"a larger top_p or temperature than was asked for: {100 * verdict.figures.unlikely:.1f} % of the "
            "tokens are outside of the set; or much coarser weights",
        )  # fmt: skip
    asked = {doc.decoding.temperature for doc in docs}
    if fitted is not None and len(asked) == 1:
        (wanted,) = asked
        if fitted.lower > wanted + AUDIT_TEMPERATURE or fitted.upper < wanted - AUDIT_TEMPERATURE:
            return AuditCause(
                "temperature", f"another temperature or top_p: the answers fit a temperature of {fitted.lower:g} to "
                f"{fitted.upper:g}, and {wanted:g} was asked for; or another model", fitted,
            )  # fmt: skip
    return AuditCause("weights", "other weights, another prompt, or slightly other sampling")
