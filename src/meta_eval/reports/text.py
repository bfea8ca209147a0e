"""Numbers as people read them; foreign texts are made visible by `meta_eval.base.display`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from meta_eval.base.display import plural
from meta_eval.base.display import visible as visible  # noqa: PLC0414 (the views find all of a report's words here)
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import LEVEL_TEXT, NAMED

if TYPE_CHECKING:
    from meta_eval.judge.alarm_kinds import Alarm
    from meta_eval.judge.decide import Decision
    from meta_eval.judge.decision import CutSummary, EngineNoise, LmEvalAverage, RepeatPlan, Score, TaskDecision
    from meta_eval.stats import Interval

MINUS = "\N{MINUS SIGN}"
NONE = "-"


def format_percent(share: float | None, digits: int = 1) -> str:
    """``47.9`` for 0.479."""
    return NONE if share is None else f"{100 * share:.{digits}f}"


def format_points(share: float | None) -> str:
    """A difference with its sign, in points: ``+0.4``."""
    if share is None:
        return NONE
    written = f"{abs(100 * share):.1f}"
    return written if float(written) == 0 else f"{'+' if share > 0 else MINUS}{written}"


def format_drop(share: float | None) -> str:
    """A drop in points, positive for worse: ``0.8``; a gain has a minus."""
    return NONE if share is None else format_points(share).removeprefix("+")


def format_interval(bounds: Interval | None) -> str:
    """``46.9 to 48.8``."""
    return NONE if bounds is None else f"{format_percent(bounds.lower)} to {format_percent(bounds.upper)}"


def format_drop_interval(bounds: Interval | None) -> str:
    """A drop's bounds: ``0.8 to 2.4``."""
    return NONE if bounds is None else f"{format_drop(bounds.lower)} to {format_drop(bounds.upper)}"


def format_weight(share: float | None) -> str:
    """A task's share of the mean: ``84 %``, or ``<1 %`` below half a percent. A group has none."""
    if not share:
        return NONE
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def format_p_value(p: float | None) -> str:
    """``0.031``, and ``<0.001`` for what is smaller."""
    if p is None:
        return NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def format_mean(value: float) -> str:
    """``213.4``: a mean of counts."""
    return f"{value:,.1f}"


def format_count(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


def format_cost(cost: float) -> str:
    """``2,500.00``, and ``0.0244`` below one, in the currency of the configured prices."""
    return f"{cost:,.2f}" if cost >= 1 else f"{cost:.3g}"


def shorten_names(names: list[str]) -> dict[str, str]:
    """``mmlu_pro_chat.physics`` is ``physics`` where all names begin with the same part."""
    prefixes = {name.rpartition(".")[0] for name in names}
    if len(prefixes) != 1 or not (prefix := prefixes.pop()):
        return {name: name for name in names}
    return {name: name[len(prefix) + 1 :] for name in names}


def describe_averages(tasks: Iterable[TaskDecision], totals: Iterable[LmEvalAverage]) -> list[tuple[str, str]]:
    """Groups and tasks with lm-eval's own averages of them: ``("wikitext", "word_perplexity,none 181.3")``."""
    numbers: dict[str, list[str]] = {}
    for average in (*totals, *(total for task in tasks for total in task.averages)):
        numbers.setdefault(average.name, []).append(f"{average.metric} {_average(average)}")
    return [(name, "; ".join(lines)) for name, lines in numbers.items()]


def _average(average: LmEvalAverage) -> str:
    if average.is_fraction:
        return format_percent(average.value) + (f" ({format_interval(average.interval)})" if average.interval else "")
    bounds = f" ({average.interval.lower:.4g} to {average.interval.upper:.4g})" if average.interval else ""
    baseline = "" if average.baseline is None else f", {average.baseline_label} {average.baseline:.4g}"
    return f"{average.value:.4g}{bounds}{baseline}{', lower is better' if average.lower_is_better else ''}"


# The decision


def write_headline(decision: Decision, alarms: Iterable[Alarm] = ()) -> str:
    """Write the result in at most three lines: the decision with its figures, why (of SHIP a note), what to do first.

    Args:
        decision: The decision.
        alarms: The alarms that stand below; see `explain_decision`.
    """
    compared = "no mean drop" if decision.outcome == "DON'T SHIP" else "nothing was compared"
    if decision.mean is not None:
        gain = ", a gain" if decision.mean.value < 0 and decision.interval and decision.interval.upper < 0 else ""
        compared = (
            f"mean drop of {count_tasks(decision)} {format_drop(decision.mean.value)} points{gain} "
            f"({LEVEL_TEXT} interval {format_drop_interval(decision.interval)})"
        )
    why, first = explain_decision(decision, alarms)
    lines = {
        f"{decision.outcome}:": f"{compared}, margin {100 * decision.margin:g}",
        "Note:" if decision.outcome == "SHIP" else "Why:": "; ".join(why),
        "First:": first,
    }
    return "\n".join(f"{label} {words}." for label, words in lines.items() if words)


def explain_decision(decision: Decision, alarms: Iterable[Alarm]) -> tuple[tuple[str, ...], str]:
    """Why a decision is so, clauses, and what to do first, sentences without the last full stop; empty for nothing.

    Of several reasons that are alarms, which stand below with all that is known of them, the names are enough. A caveat
    did not cause a DON'T SHIP: it is what to check first.
    """
    kinds = [alarm.kind for alarm in alarms]

    def name(reason: str) -> str | None:
        return next((kind for kind in kinds if reason == kind or reason.startswith(f"{kind}: ")), None)

    caveats, why = decision.caveats, decision.reasons[len(decision.caveats) :]
    alarmed = [kind for reason in why if (kind := name(reason))]
    if len(alarmed) > 1:
        why = (*(reason for reason in why if not name(reason)), f"alarms: {', '.join(alarmed)}")
    compared = () if decision.invalid or decision.outcome == "SHIP" else decision.tasks
    lost = max(((task.drop.value, task.name) for task in compared if task.flips), default=(0.0, ""))
    read = f"read the answers that {lost[1]} lost" if lost[0] > 0 else ""
    if decision.outcome == "DON'T SHIP":
        return why, f"look below at {'; '.join(name(reason) or reason for reason in caveats)}" if caveats else read
    advice = (
        [f"look below at {join_names(seen, NAMED)}"] if (seen := [*filter(None, map(name, caveats)), *alarmed]) else []
    )
    if decision.outcome == "UNDECIDED" and (settled := describe_repeats(decision.repeats_needed)):
        advice.append(settled[:1].upper() + settled[1:] if advice else settled)
    return (*caveats, *why), ". ".join(advice) or read


def count_tasks(decision: Decision) -> str:
    """The tasks of the mean: ``22 tasks``, or ``1 of 2 tasks`` where another has no drop that a mean can include."""
    tasks, left_out = len(decision.tasks), decision.left_out
    return f"{tasks:,} of {plural(tasks + left_out, 'task')}" if left_out else plural(tasks, "task")


def describe_repeats(plan: RepeatPlan | None) -> str | None:
    """What would settle an open question; None where nothing is open."""
    if plan is None:
        return None
    if plan.runs:
        runs = join_names([f"{count} runs of {task}" for task, count in plan.runs], NAMED)
        least = "" if plan.measured else ". More may be needed: one run does not show how many flips are noise"
        return f"to settle it, run the candidate again until it has, with this run, {runs}{least}"
    docs = ""
    if plan.times_docs is not None:
        lost = f"the true drop is {format_drop(plan.supposed)}" if plan.supposed else "nothing is lost"
        docs = f"; about {_round_up(plan.times_docs)} times as many docs would, if {lost}"
    return (
        f"repeats may not settle it{docs}. It would pass at a margin of {format_percent(plan.provable_margin)}: choose "
        "a margin before a run, never after it"
    )


def _round_up(times: float) -> str:
    """Two digits: ``1.6``, ``24``, ``480``."""
    unit = 10.0 ** (math.floor(math.log10(times)) - 1)
    return f"{math.ceil(times / unit) * unit:,.{1 if times < 10 else 0}f}"


def describe_left_out(tasks: Iterable[TaskDecision]) -> str:
    """The tasks that a gate does not judge, a sentence behind others; empty if there are none."""
    from meta_eval.judge.decision import LEFT_OUT

    names = sorted({task.name for task in tasks if task.not_compared_reason == LEFT_OUT})
    return f" {LEFT_OUT[:1].upper()}{LEFT_OUT[1:]}: {join_names(names, NAMED)}." if names else ""


def explain_outcome(task: TaskDecision) -> str | None:
    """Remarks on a task's outcome besides its numbers; None if there are none."""
    if not task.is_decided:
        own_unit = task.own_unit.describe() if task.own_unit else None
        return "; ".join(filter(None, (task.not_compared_reason, task.fallback_reason, own_unit)))
    change = "a fall is a gain" if task.drop.value < 0 else "a rise is a drop"
    turned = f"lower is better in {task.metric}, so that {change}" if task.lower_is_better else None
    return "; ".join(filter(None, (turned, task.remark))) or None


def group_by_reference(tasks: Iterable[TaskDecision]) -> list[tuple[str, list[str]]]:
    """What tasks are compared with, and why not with something better. Each text has its tasks."""
    names: dict[str, list[str]] = {}
    for task in tasks:
        if task.baseline_label:
            names.setdefault(
                f"{task.baseline_label}{f'; {task.fallback_reason}' if task.fallback_reason else ''}", []
            ).append(task.name)
    return list(names.items())


def group_by_reason(tasks: Iterable[TaskDecision]) -> list[tuple[str, list[str]]]:
    """Each known reason why a number may differ, with the tasks that it applies to."""
    names: dict[str, list[str]] = {}
    for task in tasks:
        for gap in task.gaps:
            names.setdefault(gap, []).append(task.name)
    return list(names.items())


def describe_alarm_tasks(alarm: Alarm, most: int | None = None, *, said: str = "") -> str:
    """``meta_ifeval (54 of 541), meta_math``, at most so many of them by name; empty for the whole run, and where this
    is ``said`` already."""
    from meta_eval.judge.alarms import describe_alarm, describe_alarms

    named = [occurrence for occurrence in alarm.tasks if describe_alarm(occurrence)]
    shown = named if most is None else named[:most]
    more = f" and {len(named) - len(shown)} more" if len(named) > len(shown) else ""
    words = f"{describe_alarms(shown)}{more}"
    return "" if f"{alarm.kind}: {words}" in said else words


def describe_noise(noise: EngineNoise) -> str:
    """Flips between two answers of one run, and what share of the flips on the baseline they explain."""
    bounds = (100 * noise.interval.lower, 100 * noise.interval.upper)
    words = (
        f"asked again, {noise.lost + noise.won:,} of {noise.docs:,} docs flipped, {100 * noise.flipped:.1f} % "
        f"({bounds[0]:.1f} to {bounds[1]:.1f})"
    )
    if noise.explained is None or noise.explained_interval is None:
        return words
    ends = noise.explained_interval
    return (
        f"{words}; that explains {100 * noise.explained:.0f} % ({100 * ends.lower:.0f} to {100 * ends.upper:.0f}) of "
        "the flips on the baseline"
    )


def describe_cut_answers(task: TaskDecision) -> str | None:
    """``12 of 541 answers cut. Score: 48.3 with them, 50.1 without …``, and the drops; None where none was cut."""
    from meta_eval.judge.cut_answers import describe_thinking

    cuts = task.cut
    if cuts is None:
        return None
    of_baseline = ""
    if cuts.baseline_docs is not None:
        of_baseline = f", and {cuts.baseline_docs:,} of the baseline's{describe_thinking(cuts.baseline_thinking)}"
    if cuts.drop is not None and cuts.baseline_docs is None:
        of_baseline = ", unknown for the baseline"
    wrong = ""
    if cuts.as_wrong is not None and format_percent(cuts.as_wrong) != format_percent(cuts.score):
        wrong = f" ({format_percent(cuts.as_wrong)} with them as wrong)"
    baseline = f" (baseline {format_percent(cuts.baseline)})" if cuts.baseline is not None else ""
    without = f", {format_percent(cuts.without)} without{baseline}" if cuts.without is not None else ""
    return (
        f"{cuts.docs:,} of {plural(cuts.of, 'answer')} {_name_cut(cuts)}{of_baseline}. Score: "
        f"{format_percent(cuts.score)} with them{wrong}{without}{_cut_drops(cuts)}{_COUNTED[cuts.counted]}"
    )


def list_cut_answers(tasks: Iterable[TaskDecision]) -> str:
    """The cut answers of several tasks in one sentence; Markdown and the page have the scores and intervals."""
    clauses, counted = [], ""
    for name, cuts in ((task.name, task.cut) for task in tasks):
        if cuts is None:
            continue
        counted = _COUNTED[cuts.counted]
        of_baseline = "" if cuts.baseline_docs is None else f" and {cuts.baseline_docs:,} of the baseline's"
        without = cuts.drop_without
        drop = "" if without is None else f", drop {format_drop(without.value)} without them"
        clauses.append(f"{name} {cuts.docs:,}{of_baseline} of {cuts.of:,}{drop}")
    return f"Answers that are cut or empty: {'; '.join(clauses)}{counted}."


def _are_all_empty(cuts: CutSummary) -> bool:
    """Whether no limit cut an answer of either side: they are empty."""
    return cuts.empty + cuts.baseline_empty == cuts.docs + (cuts.baseline_docs or 0)


def _name_cut(cuts: CutSummary) -> str:
    """``cut``, or ``empty`` where no other was cut."""
    from meta_eval.judge.cut_answers import describe_thinking

    if _are_all_empty(cuts):
        return "empty"
    empty = f" ({cuts.empty:,} empty)" if cuts.empty else ""
    return f"cut{empty}{describe_thinking(cuts.thinking)}"


# What the decision does with cut answers.
_COUNTED = {"graded": "", "wrong": "; the decision counts them as wrong", "unscored": "; the decision leaves them out"}


def _cut_drops(cuts: CutSummary) -> str:
    """``. Drop: 6.1 (4.8 to 7.6) with cut answers as wrong, 0.3 (0.0 to 1.1) on the 512 docs cut in neither run``."""
    what = "empty" if _are_all_empty(cuts) else "cut"
    drops = [
        f"{format_drop(drop.value)} ({format_drop_interval(drop.interval)}) {words}"
        for drop, words in (
            (cuts.drop_as_wrong, f"with {what} answers as wrong"),
            (cuts.drop_without, f"on the {plural(cuts.docs_without, 'doc')} {what} in neither run"),
        )
        if drop is not None
    ]
    return f". Drop: {', '.join(drops)}" if drops else ""


def describe_sampling(task: TaskDecision) -> str | None:
    """``4 answers a doc, 4 of the baseline; pass@4 71.0 (…), baseline 72.2, drop 1.2 (…)``; None for greedy answers."""
    sampling = task.sampling
    if sampling is None:
        return None
    from meta_eval.judge.figures import count_needed

    of_baseline = f", {sampling.baseline_answers} of the baseline" if sampling.baseline_answers else ""
    clauses = [f"{plural(sampling.answers, 'answer')} a doc{of_baseline}"]
    for score in sampling.scores:
        of_baseline = f", baseline {format_percent(score.baseline)}" if score.baseline is not None else ""
        lost = (
            f", drop {format_drop(score.drop.value)} ({format_drop_interval(score.drop.interval)})"
            if score.drop
            else ""
        )
        clauses.append(
            f"{score.name} {format_percent(score.value)} ({format_interval(score.interval)}){of_baseline}{lost}"
        )
    if sampling.is_sampled and sampling.answers == 1 and task.is_decided:
        needed = count_needed(task)
        words = (
            "no number of answers a doc would show"
            if needed is None
            else f"{plural(needed, 'answer')} a doc would show"
        )
        clauses.append(f"the noise of sampling is in the drop; {words} an identical model within the margin")
    return "; ".join(clauses)


def describe_distance(score: Score) -> str | None:
    """What the baseline is from the published number, and why; None where there is nothing to say."""
    gap = score.baseline_difference
    if gap is None or gap.baseline_minus_reference is None:
        return None
    if gap.within_rounding:
        return f"{format_percent(gap.baseline)}, the published number to its last decimal"
    reason = f": {gap.explanation}" if gap.explanation else ""
    difference = f"{format_points(gap.baseline_minus_reference)} from the published {format_percent(gap.reference)}"
    return f"{format_percent(gap.baseline)}, {difference}{reason}"


def describe_published(score: Score) -> str:
    """What the published number beside a score is a number of, and why the two may not be compared."""
    published = score.reference
    assert published is not None  # noqa: S101 (asked of no other)
    shots = f"{published.shots}-shot" if published.shots is not None else None
    what = ", ".join(filter(None, (published.benchmark, shots, published.averaging, published.metric)))
    note = f" {published.note}" if published.note else ""
    compared = (
        f" Beside it stands {score.metric}."
        if score.candidate_minus_reference is not None
        else f" Not comparable: {score.not_comparable_reason}."
    )
    baseline = describe_distance(score)
    baseline_sentence = f" The baseline scores {baseline}." if baseline else ""
    source = f"recorded: {published.source}" if published.origin == "recorded" else published.source
    return f"{format_percent(published.value)}: {what}; {source}.{note}{compared}{baseline_sentence}"


def format_nats(value: float | None) -> str:
    """``0.0025``; below zero with a minus sign."""
    if value is None:
        return NONE
    size = abs(value)
    written = f"{size:.2f}" if size >= 1 else f"{size:.3f}" if size >= 0.01 else f"{size:.4f}"
    return MINUS + written if value < 0 and float(written) else written


def name_task(task: str | None) -> str:
    """Name a task in the first column; None for the row of all."""
    return "all" if task is None else task
