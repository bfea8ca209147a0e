"""A fidelity report in words and numbers, for each of its views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from meta_eval.plugins.tokens.comparison import name_noise
from meta_eval.plugins.tokens.thresholds import FIDELITY_DIFFERENT_TIMES, FIDELITY_LEVEL_TEXT, FIDELITY_SAME_TIMES
from meta_eval.reports.text import NONE
from meta_eval.reports.text import format_nats as format_nats  # noqa: PLC0414 (this module has all words of a report)
from meta_eval.reports.text import name_task as name_task  # noqa: PLC0414
from meta_eval.sockets import plural

if TYPE_CHECKING:
    from meta_eval.plugins.tokens.comparison import Divergence, TableComparison
    from meta_eval.plugins.tokens.token_figures import ChoiceFigures, Figures, Margins, WorstDoc
    from meta_eval.stats import Interval

YARDSTICK = (
    "Without a baseline these numbers have no verdict: the recorded text is tokenised again, and was another "
    "engine's. Compare two models with --baseline, and measure the noise of your engine with --again"
)

OF_NOISE = (
    "Nats a token. A copy is compared with this noise: name the first table as its --baseline, and this one is found."
)


def format_nats_interval(bounds: Interval | None) -> str:
    """``0.0019 to 0.0031``."""
    return NONE if bounds is None else f"{format_nats(bounds.lower)} to {format_nats(bounds.upper)}"


def format_share(value: float | None) -> str:
    """``97.31``: two decimals, since shares of tokens differ in them."""
    return NONE if value is None else f"{100 * value:.2f}"


def format_share_interval(bounds: Interval | None) -> str:
    return (
        NONE if bounds is None else f"{format_share(max(0.0, bounds.lower))} to {format_share(min(1.0, bounds.upper))}"
    )


def describe_unread_tables(reasons: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What is not in the table, and why."""
    return [
        f"{task}: {plural(count, 'doc')} left out: {why}"
        for task, whys in reasons.items()
        for why, count in whys.items()
    ]


def format_times(value: float | None) -> str:
    """``1.04``, ``23``: how many times the noise."""
    return NONE if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def format_times_interval(bounds: Interval | None) -> str:
    return NONE if bounds is None else f"{format_times(bounds.lower)} to {format_times(bounds.upper)}"


# What the ratio to the noise is compared with.
NOISE_LIMITS = f"same below {FIDELITY_SAME_TIMES:g}, different above {FIDELITY_DIFFERENT_TIMES:g}"


def describe_comparison(comparison: TableComparison, unit: str) -> str:
    """Describe a comparison in one line. ``unit`` is a token of texts, or a choice."""
    pooled = comparison.all
    distance = f"{comparison.outcome}: distance {format_nats(pooled.distance.value)} nats a {unit}"
    if pooled.times_noise is not None:
        times = f"{format_times(pooled.times_noise)} times {name_noise(pooled)}"
        measured = (
            f"{distance}, {times} ({FIDELITY_LEVEL_TEXT} interval {format_times_interval(pooled.times_noise_interval)})"
        )
    else:
        measured = f"{distance} ({FIDELITY_LEVEL_TEXT} interval {format_nats_interval(pooled.interval)})"
        measured += "" if comparison.margin is None else f", margin {comparison.margin:g}"
    clauses = (
        f"{measured}, {plural(pooled.tokens, unit)} of {plural(pooled.docs, 'doc')}",
        *(reason.replace("a token", f"a {unit}") for reason in comparison.reasons),
    )
    return "; ".join(clauses) + "."


def describe_yardstick(texts: TableComparison | None, choices: TableComparison | None) -> str:
    """The noise of a model that was measured twice, in one line."""
    parts = [
        f"{format_nats(comparison.all.distance.value)} nats a {unit} ({FIDELITY_LEVEL_TEXT} interval "
        f"{format_nats_interval(comparison.all.interval)}) over {plural(comparison.all.docs, 'doc')}"
        for comparison, unit in ((texts, "token"), (choices, "choice"))
        if comparison is not None
    ]
    return f"The noise of this model between two measurements: {', and '.join(parts)}."


def write_fidelity_headline(
    texts: TableComparison | None,
    of_choices: TableComparison | None,
    figures: Sequence[Figures],
    choices: Sequence[ChoiceFigures],
) -> str:
    """The result in one line."""
    if texts is not None or of_choices is not None:
        sentences = [describe_comparison(texts, "token")] if texts else []
        return " ".join(
            [*sentences, *([f"Choices: {describe_comparison(of_choices, 'choice')}"] if of_choices else [])]
        )
    parts = []
    if figures:
        pooled = figures[0]
        parts.append(
            f"{format_share(pooled.top1.value)} % of {plural(pooled.tokens, 'token')} are the likeliest, "
            f"mean log-probability {format_nats(pooled.logprob.value)}, "
            f"{format_share(pooled.greedy.value)} % of {plural(pooled.docs, 'answer')} greedy throughout"
        )
    if choices:
        overall = choices[0]
        docs = plural(overall.docs, "doc")
        parts.append(
            f"log-likelihoods of the choices of {docs} differ from the recorded by "
            f"{format_nats(overall.mean_difference.value)} nats in the mean, the best choice is the same in "
            f"{format_share(overall.same_best.value)} %"
        )
    return "; ".join(parts or ["nothing was answered"]) + "."


def describe_divergence(kl: Divergence) -> str:
    """Kullback and Leibler's in a sentence, with what it leaves out."""
    return (
        f"Divergence of the copy from the baseline over the {kl.k} likeliest tokens of each: "
        f"{format_nats(kl.value)} nats a token ({FIDELITY_LEVEL_TEXT} interval {format_nats_interval(kl.interval)}), "
        f"at the least; all others, taken as one, have {100 * kl.left_out:.2g} % of the probability, "
        f"at the most {100 * kl.most_left_out:.2g} %."
    )


def describe_margins(margins: Margins) -> str:
    """How far tokens lie below the likeliest, in a sentence."""
    quantiles = ", ".join(
        f"{100 * part:g} % are at most {format_nats(value)}" for part, value in margins.quantiles.items()
    )
    above = ", ".join(f"{format_share(part)} % above {limit:g}" for limit, part in margins.above.items())
    return f"Margins of all tokens: {quantiles}; {above}."


def describe_choice_difference(choice: WorstDoc) -> str:
    """A doc's log-likelihoods and the recorded ones."""
    logprobs, recorded = (" ".join(map(format_nats, values)) for values in (choice.ours, choice.recorded))
    return f"by {format_nats(choice.difference)}: ours {logprobs}; recorded {recorded}"
