"""A plan as people read it: a table, a sentence for each weak point; and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import MAX_PLANNED_RUNS, NAMED, PLANNED_FLIPS, SURE, percent
from meta_eval.judge.plan import DRAWS, Chances, PackPlan, SampledChance, TaskPlan
from meta_eval.reports import text

if TYPE_CHECKING:
    from meta_eval.reports.document import Table

# A task that shows so seldom that it is the same cannot be judged alone.
_SELDOM = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class _PlanRow:
    """A row: what is shown if docs of a cluster flip on their own, and if they flip together; mostly that is one."""

    chances: Chances
    together: Chances
    docs: str
    flips: float | None = None

    def span(self, write: Callable[[Chances], str], to: str = "\u2013") -> str:
        """A figure, or from where to where it may lie."""
        one, other = write(self.chances), write(self.together)
        return one if one == other else f"{one}{to}{other}"


def plan_table(plan: PackPlan) -> Table[_PlanRow]:
    """What each task, and the whole, can show of an identical copy."""
    from meta_eval.reports.document import Column, Row, Table
    from meta_eval.reports.task_tables import MEANS

    columns: tuple[Column[_PlanRow], ...] = (
        Column("docs", "docs", lambda row: row.docs, str),
        Column("flips", "flips", lambda row: row.flips, lambda share: f"{100 * share:.2g} %"),
        Column("could_see", "could see", lambda row: row.span(lambda some: text.format_percent(some.could_see)), str),
        Column("margin", "margin", lambda row: row.chances.margin, text.format_percent,
               headings={"terminal": "mar-\ngin"}),
        Column("chance", "passes", lambda row: row.span(lambda some: f"{100 * some.chance:.0f}") + " %", str),
        Column("margin_sure", f"margin for {percent(SURE)}",
               lambda row: row.span(lambda some: text.format_percent(some.margin_sure)), str,
               headings={"terminal": f"{percent(SURE)} at"}),
        Column("runs", "runs", lambda row: row.span(_runs, " to "), str),
    )  # fmt: skip
    together = plan.alike or plan
    rows = [
        Row(a.planned.task, _PlanRow(a.chances, b.chances, _docs(a), a.planned.flips))
        for a, b in zip(plan.tasks, together.tasks, strict=True)
    ]
    if plan.whole is not None and together.whole is not None:
        docs = sum(task_plan.planned.expected.docs for task_plan in plan.tasks)
        name = "the whole" if len(plan.tasks) == 1 else f"the whole, {MEANS[plan.weighting]}"
        rows.append(Row(name, _PlanRow(plan.whole, together.whole, f"{docs:,}"), whole=True))
    return Table("plan", "What an identical copy shows", columns, tuple(rows), _legend(plan))


def _docs(task_plan: TaskPlan) -> str:
    expected = task_plan.planned.expected
    clusters = f" ({expected.clusters:,})" if expected.clusters < expected.docs else ""
    return f"{expected.docs:,}{clusters}"


def _runs(chances: Chances) -> str:
    candidate_only, both_sides = ("-" if runs is None else str(runs) for runs in (chances.runs, chances.runs_of_both))
    return candidate_only if candidate_only == both_sides else f"{candidate_only}/{both_sides}"


def _legend(plan: PackPlan) -> str:
    shown = percent(SURE)
    clusters = any(task_plan.planned.expected.clusters < task_plan.planned.expected.docs for task_plan in plan.tasks)
    sentences = (
        f"What an identical copy shows. Flips: {_flips(plan)}.",
        "Docs, in brackets clusters." if clusters else "",
        "a\u2013b: from docs of a cluster that flip on their own to such that all flip together. "
        "--flips RESULTS measures it."
        if plan.alike
        else "",
        "could see: the smallest true drop, in points, that is detected in 80 % of runs.",
        "passes: how often a task is within its margin"
        + (f", and the whole SHIP ({DRAWS} copies drawn)." if plan.whole else "."),
        f"{shown} at: the margin, in points, at which an identical copy passes in {shown} of runs.",
        f"runs: how often to run the copy so that it passes in {shown} at this margin; after the slash, if the "
        f"baseline runs as often. - means more than {MAX_PLANNED_RUNS}.",
    )
    return "\n".join(filter(None, sentences))


def _flips(plan: PackPlan) -> str:
    measured = [task_plan.planned.measured for task_plan in plan.tasks]
    if all(measured):
        return "the share that was named or measured"
    others = "of others " if any(measured) else ""
    return f"{others}{percent(PLANNED_FLIPS)} of docs, which is assumed (--flips names another share)"


def sampled_table(plan: PackPlan) -> Table[SampledChance]:
    """How often an identical copy ships if answers are sampled, by the number of answers a doc; without rows if that
    was not planned."""
    from meta_eval.reports.document import Column, Row, Table

    column: Column[SampledChance] = Column(
        "ships", "ships", lambda row: row.chance, lambda share: f"{100 * share:.0f} %"
    )
    rows = [Row(f"{chance.baseline_answers} against {chance.answers}", chance) for chance in plan.sampled]
    legend = (
        f"How often an identical copy ships at margin {100 * plan.margin:g} ({DRAWS} copies drawn), by the sampled "
        "answers a doc of the baseline and of the run."
    )
    return Table("sampled", "Sampled answers", (column,), tuple(rows), legend, first="answers a doc")


def describe_weak_points(plan: PackPlan) -> Iterator[str]:
    """One sentence for each point in which an identical copy may fail; nothing where there is none."""
    together = plan.alike or plan
    if together.chance_of_mean < SURE:
        all_measured = all(task_plan.planned.measured for task_plan in plan.tasks)
        flips = "" if all_measured else f" (assumed: {percent(PLANNED_FLIPS)} of docs flip)"
        most = _span_up(plan.chance_of_mean, together.chance_of_mean)
        ships = "no identical copy ships" if most == "0" else f"an identical copy ships in at most {most} % of runs"
        yield f"at margin {100 * plan.margin:g} {ships}: there are too few docs{flips}"
    pairs = list(zip(plan.tasks, together.tasks, strict=True))
    if len(pairs) > 1 and (seldom := [pair for pair in pairs if pair[1].chances.chance < _SELDOM]):
        yield f"in a single task, an identical copy is rarely within margin: {_listed(seldom)}"
    if open_caps := [pair for pair in pairs if pair[1].under_cap < SURE]:
        names = [f"{a.planned.task} in {_span_up(1 - a.under_cap, 1 - b.under_cap)} % of runs" for a, b in open_caps]
        yield (
            f"the interval of a small task reaches the cap of {100 * plan.cap:g} points and keeps an identical copy "
            f"from SHIP: {join_names(names, NAMED)}"
        )
    if plan.alike is not None:
        names = [task_plan.planned.task for task_plan in plan.tasks if task_plan.planned.is_open]
        yield (
            f"docs of {join_names(names, NAMED)} share questions, and may flip together: chances are from such to docs "
            "that flip on their own, and --flips RESULTS measures it"
        )


def _span_up(one: float, other: float) -> str:
    """Two chances in percent, the lower first: ``9 to 53``; one if they are equal."""
    low, high = (f"{100 * chance:.0f}" for chance in sorted((one, other)))
    return low if low == high else f"{low} to {high}"


def _listed(pairs: Sequence[tuple[TaskPlan, TaskPlan]]) -> str:
    names = []
    for a, b in pairs:
        margins = dict.fromkeys(text.format_percent(plan.chances.margin_sure) for plan in (a, b))
        at = f"{percent(SURE)} at a margin of {' to '.join(margins)}"
        names.append(f"{a.planned.task} in {_span_up(a.chances.chance, b.chances.chance)} % of runs ({at})")
    return join_names(names, NAMED)


def plan_json(plan: PackPlan) -> dict[str, Any]:
    """A plan as plain JSON data: shares from 0 to 1. ``alike`` is the same plan for docs of clusters that flip
    together."""
    return {
        "margin": plan.margin,
        "cap": plan.cap,
        "weights": plan.weighting,
        "mean_within_margin": plan.chance_of_mean,
        "whole": None if plan.whole is None else dataclasses.asdict(plan.whole),
        "sampled": [dataclasses.asdict(chance) for chance in plan.sampled],
        "tasks": {
            task_plan.planned.task: {
                "docs": task_plan.planned.expected.docs,
                "clusters": task_plan.planned.expected.clusters,
                "flips": task_plan.planned.flips,
                "flips_assumed": not task_plan.planned.measured,
                "alike": task_plan.planned.alike,
                "alike_assumed": task_plan.planned.is_open,
                "under_cap": task_plan.under_cap,
                **dataclasses.asdict(task_plan.chances),
            }
            for task_plan in plan.tasks
        },
        **({"alike": plan_json(plan.alike)} if plan.alike else {}),
    }
