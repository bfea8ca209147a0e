"""What may differ behind an endpoint whose answers do not fit: a cause, or a group that looks alike."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from meta_eval.plugins.tokens import causes
from meta_eval.plugins.tokens.answer_audit import GroupVerdict, find_unfit
from meta_eval.plugins.tokens.answer_scores import TEMPERATURES, ScoredDoc
from meta_eval.plugins.tokens.audit_fits import Fit, is_better, rank_fits
from meta_eval.plugins.tokens.causes import Group
from meta_eval.plugins.tokens.thresholds import (
    AUDIT_BITS,
    AUDIT_CUT,
    AUDIT_EDITED,
    AUDIT_EDITED_MOST,
    AUDIT_MIN_FITTING,
    AUDIT_OTHER_COUNT,
    AUDIT_OUTSIDE,
    AUDIT_REGRET_FLOOR,
    AUDIT_REPEATS,
    AUDIT_SAME_COUNT,
    AUDIT_SAMPLED_TEMPERATURE,
    AUDIT_SPLIT,
    AUDIT_TEMPERATURE,
    FIDELITY_ALPHA,
    FIDELITY_LEVEL,
    OPENING_STANDS_OUT,
)
from meta_eval.sockets import plural
from meta_eval.stats import Interval, score_interval

# Settings that leave out unlikely tokens, as a report names them.
_NAMES = {"top_k": "a top_k", "top_p": "a top_p", "min_p": "a min_p"}


@dataclass(frozen=True, slots=True)
class PromptCount:
    """The endpoint's count of prompt tokens beside that of the trusted copy."""

    docs: int
    """Number of answers with both counts."""

    more: int
    """The most frequent difference; negative if the endpoint counts fewer."""

    share: float
    """The share of answers with this difference."""

    other: float
    """The share of answers with any difference."""

    fewer: float
    """The share of answers for which the endpoint counts fewer."""

    distinct: int
    """Number of distinct differences but 0."""

    @property
    def differs(self) -> bool:
        """Whether the endpoint's prompt is another one."""
        return self.more != 0 and self.share >= AUDIT_SAME_COUNT


@dataclass(frozen=True, slots=True)
class AuditCause:
    """A cause, or several that look alike."""

    key: str
    """Its name for programs."""

    text: str
    """A sentence without a full stop."""

    interval: Interval | None = None
    """Of a share or a temperature that the text is about; None for none."""

    groups: tuple[str, ...] = ()
    """The names of its groups in the shared table (`meta_eval.plugins.tokens.causes`)."""

    todo: str = ""
    """What to look at, sentences without a full stop at the end."""


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

    A cause of unlikely tokens names everything that the figures allow, and nothing that they contradict.

    Args:
        verdicts: The verdicts.
        docs: The scored answers.
        prompts: The counts of prompt tokens.
        cut: Number of answers that end at a limit below that of the request.
    """
    found = [] if prompts is None else [*_find_prompt(prompts)]
    if docs and cut > AUDIT_CUT * len(docs):
        found.append(make_cause("cut", f"{plural(cut, 'answer')} cut below the limit that was asked for", causes.CUT))
    for verdict in verdicts:
        if verdict.outcome == "different" and all(cause.key == "cut" for cause in found):
            some = [doc for doc in docs if doc.decoding.is_greedy == verdict.figures.is_greedy]
            found.append(_find_greedy(verdict, some) if verdict.figures.is_greedy else _find_sampled(verdict, some))
    return tuple(found)


def _find_prompt(prompts: PromptCount) -> Iterator[AuditCause]:
    if prompts.differs:
        more = f"{plural(abs(prompts.more), 'token')} {'more' if prompts.more > 0 else 'fewer'}"
        text = f"another system prompt or chat template: its prompts have {more} than the pack's"
        yield make_cause("prompt", text, causes.PROMPT)
    elif prompts.fewer >= AUDIT_OTHER_COUNT and prompts.fewer == prompts.other and prompts.distinct > 1:
        share = 100 * prompts.fewer
        text = f"a cut context: {share:.0f} % of its prompts have fewer tokens than the pack's"
        yield make_cause("context", text, causes.PROMPT)
    elif prompts.other >= AUDIT_OTHER_COUNT:
        share = 100 * prompts.other
        text = f"another prompt for some requests: {share:.0f} % of its prompts have other counts of tokens"
        yield make_cause("prompt", text, causes.PROMPT)


def _find_greedy(verdict: GroupVerdict, docs: Sequence[ScoredDoc]) -> AuditCause:
    fitted, figures = verdict.temperature_interval, verdict.figures
    unlikely, foreign, avoided, repeated = (
        sum(int(np.sum(getattr(doc, name))) for doc in docs) for name in ("unlikely", "foreign", "avoided", "repeated")
    )
    is_foreign = foreign > AUDIT_EDITED * unlikely
    if is_foreign and _find_unlikely([doc for doc in docs if doc.foreign.any()]) <= AUDIT_EDITED_MOST:
        share = score_interval([float(doc.foreign.any()) for doc in docs], level=FIDELITY_LEVEL)
        text = (
            f"edited after they were generated: {100 * share.lower:.0f} to {100 * share.upper:.0f} % of the answers "
            "have tokens that nothing like the trusted copy writes"
        )
        return make_cause("edited", text, causes.EDITED, interval=share)
    if not is_foreign and repeated <= AUDIT_SPLIT * (avoided + repeated) and _is_rare(avoided, repeated):
        text = (
            f"{causes.PENALTY}: in {avoided} of {avoided + repeated} places an unlikely token keeps the answer from "
            "repeating itself; or a model that repeats itself less"
        )
        return make_cause("penalty", text, causes.PENALISED)
    best = [fit.cause for fit in _find_best(docs, is_greedy=True)]
    sampling, weights = [*_list_sampling(fitted)], [*_list_weights(figures.score.value)]
    allowed = [*weights, *sampling] if best[:1] == ["weights"] else [*sampling, *weights]
    # With a penalty beside another cause, fewer repeat the answer than without.
    if repeated <= AUDIT_SPLIT * (avoided + repeated) or _is_rare(avoided, repeated):
        allowed.append((causes.PENALISED, causes.PENALTY))
    opening, later = figures.opening, figures.later
    if opening is None or later is None or opening > later:
        allowed.append((causes.PROMPT, "another prompt with the same number of tokens"))
    stands_out = opening is not None and later is not None and opening > OPENING_STANDS_OUT * later
    is_hot = fitted is not None and fitted.lower >= AUDIT_SAMPLED_TEMPERATURE and not stands_out
    unfit = find_unfit(docs)
    fitting = float(np.mean([doc.mean for doc, is_unfit in zip(docs, unfit, strict=True) if not is_unfit] or [1.0]))
    is_mixed = unfit.any() and unfit.mean() <= 1 - AUDIT_MIN_FITTING and fitting <= AUDIT_REGRET_FLOOR
    if is_mixed and (best == ["mixture"] or not is_hot):
        share = score_interval(unfit.astype(float).tolist(), level=FIDELITY_LEVEL)
        words = f"{100 * share.lower:.0f} to {100 * share.upper:.0f} %"
        some = (causes.MIXED, f"{words} of the answers do not fit and the others do: {causes.MIXTURE}")
        return _join_causes("mixture", [some, *allowed], share, is_best=best == ["mixture"])
    if stands_out:
        text = "another system prompt or chat template: the first tokens differ most"
        return make_cause("prompt", text, causes.PROMPT)
    key = "weights" if fitted is None else "sampling_or_weights"
    return _join_causes(key, allowed, fitted, is_best=len(best) == 1 and best != ["mixture"])


def _find_unlikely(docs: Sequence[ScoredDoc]) -> float:
    """The share of tokens that are not the likeliest."""
    return float(np.concatenate([doc.unlikely for doc in docs]).mean())


def _find_best(docs: Sequence[ScoredDoc], *, is_greedy: bool) -> list[Fit]:
    """The likeliest cause, and those that do not fit worse; none where it is not known."""
    fits = [doc.fits for doc in docs if doc.fits is not None]
    if len(fits) < len(docs):
        return []
    tokens = np.array([len(doc.scores) for doc in docs], float)
    first, *others = rank_fits(fits, tokens, is_greedy=is_greedy)
    return [first, *(other for other in others if not is_better(first, other, tokens))]


def _is_rare(avoided: int, repeated: int) -> bool:
    """Whether fewer unlikely tokens repeat the answer than without a penalty, at `FIDELITY_ALPHA`."""
    from scipy.special import bdtr

    return float(bdtr(repeated, avoided + repeated, AUDIT_REPEATS)) < FIDELITY_ALPHA


def _list_sampling(fitted: Interval | None) -> Iterator[tuple[Group, str]]:
    """Sampling, unless the lowest temperature fits."""
    if fitted is None:
        yield causes.SAMPLED, causes.OTHER_SAMPLING
    elif fitted.upper > TEMPERATURES[0]:
        between = f"{fitted.lower:g}" if fitted.lower == fitted.upper else f"{fitted.lower:g} to {fitted.upper:g}"
        yield causes.SAMPLED, f"sampled at a temperature of about {between}, and 0 was asked for"


def _list_weights(regret: float) -> Iterator[tuple[Group, str]]:
    bits = min(AUDIT_BITS, key=lambda name: abs(math.log(max(regret, 1e-9) / AUDIT_BITS[name])))
    yield causes.COARSE, f"coarser weights, which differ as {bits} bits do on SmolLM2-135M"
    yield causes.COARSE, causes.OTHER


def make_cause(key: str, text: str, *groups: Group, interval: Interval | None = None) -> AuditCause:
    """Make a cause of groups of the shared table."""
    todo = ". ".join(dict.fromkeys(group.todo for group in groups))
    return AuditCause(key, text, interval, tuple(group.name for group in groups), todo)


def _join_causes(
    key: str, allowed: Sequence[tuple[Group, str]], interval: Interval | None, *, is_best: bool
) -> AuditCause:
    """One cause that names all that the figures allow, counted with letters where they are several; and says whether
    the first fits better than the others."""
    texts = [text for _, text in allowed]
    listed = "; ".join(f"({letter}) {text}" for letter, text in zip(string.ascii_lowercase, texts, strict=False))
    text = f"likely causes, {'the first' if is_best else 'none'} of which fits best: {listed}"
    text = text if len(texts) > 1 else texts[0]
    return make_cause(key, text, *dict.fromkeys(group for group, _ in allowed), interval=interval)


def _find_sampled(verdict: GroupVerdict, docs: Sequence[ScoredDoc]) -> AuditCause:
    fitted = verdict.temperature_interval
    if verdict.figures.unlikely > AUDIT_OUTSIDE:
        text = (
            f"a larger top_p or temperature than was asked for: {100 * verdict.figures.unlikely:.1f} % of the tokens "
            "are outside of the set; or much coarser weights"
        )
        return make_cause("top_p", text, causes.SETTINGS, causes.COARSE)
    best = _find_best(docs, is_greedy=False)
    if best and all(fit.cause in _NAMES for fit in best):
        settings = ", or ".join(f"{_NAMES[fit.cause]} of about {fit.value:g}" for fit in best)
        text = f"{settings}: the answers are likelier so than at any temperature"
        return make_cause(best[0].cause, text, causes.SETTINGS)
    asked = {doc.decoding.temperature for doc in docs}
    if fitted is not None and len(asked) == 1:
        (wanted,) = asked
        if fitted.lower > wanted + AUDIT_TEMPERATURE or fitted.upper < wanted - AUDIT_TEMPERATURE:
            text = (
                f"another temperature or top_p: the answers fit a temperature of {fitted.lower:g} to {fitted.upper:g}, "
                f"and {wanted:g} was asked for; or another model; or {causes.PENALTY}"
            )
            return make_cause("temperature", text, causes.SETTINGS, causes.COARSE, causes.PENALISED, interval=fitted)
    text = f"other weights; another prompt; slightly other sampling; or {causes.PENALTY}"
    return make_cause("weights", text, causes.COARSE, causes.PROMPT, causes.SETTINGS, causes.PENALISED)
