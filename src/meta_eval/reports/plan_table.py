"""A plan as people read it: a table, a sentence for each weak point; and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from meta_eval.boundary.pack_names import join_names
from meta_eval.judging.planning import DRAWS, Chances, PackPlan, SampledChance, TaskPlan
from meta_eval.reports import text
from meta_eval.reports.tables import Column, Row, Table
from meta_eval.reports.task_tables import WEIGHTED
from meta_eval.thresholds import MAX_PLANNED_RUNS, NAMED, PLANNED_FLIPS, SURE, percent

# A task that shows so seldom that it is the same cannot be judged alone.
_SELDOM = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class _PlanRow:
    chances: Chances
    docs: str
    flips: float | None = None


def plan_table(plan: PackPlan) -> Table[_PlanRow]:
    """What each task, and the whole, can show of an identical copy."""
    columns: tuple[Column[_PlanRow], ...] = (
        Column("docs", "docs", lambda row: row.docs, str),
        Column("flips", "flips", lambda row: row.flips, lambda share: f"{100 * share:.2g} %"),
        Column("could_see", "could see", lambda row: row.chances.could_see, text.format_percent),
        Column("margin", "margin", lambda row: row.chances.margin, text.format_percent,
               headings={"terminal": "mar-\ngin"}),
        Column("chance", "passes", lambda row: row.chances.chance, lambda share: f"{100 * share:.0f} %"),
        Column("margin_sure", f"margin for {percent(SURE)}", lambda row: row.chances.margin_sure, text.format_percent,
               headings={"terminal": f"{percent(SURE)} at"}),
        Column("runs", "runs", lambda row: _runs(row.chances), str),
    )  # fmt: skip
    rows = [
        Row(task_plan.planned.task, _PlanRow(task_plan.chances, _docs(task_plan), task_plan.planned.flips))
        for task_plan in plan.tasks
    ]
    if plan.whole is not None:
        docs = sum(task_plan.planned.expected.docs for task_plan in plan.tasks)
        name = "the whole" if len(plan.tasks) == 1 else f"the whole, {WEIGHTED[plan.weighting]}"
        rows.append(Row(name, _PlanRow(plan.whole, f"{docs:,}"), whole=True))
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
        "could see: the smallest true drop, in points, that is detected in 80 % of runs.",
        "passes: how often a task is within its margin"
        + (f", and the whole SHIP ({DRAWS} copies drawn)." if plan.whole else "."),
        f"{shown} at: the margin, in points, at which it is so in {shown} of runs.",
        f"runs: how often to run the copy for that at this margin, and behind the stroke the copy and the baseline; "
        f"- for more than {MAX_PLANNED_RUNS}.",
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
    if plan.chance_of_mean < SURE:
        all_measured = all(task_plan.planned.measured for task_plan in plan.tasks)
        flips = "" if all_measured else f" if {percent(PLANNED_FLIPS)} of docs flip, which is assumed"
        most = f"at most {100 * plan.chance_of_mean:.0f} % of runs"
        yield f"an identical copy ships in {most} at margin {100 * plan.margin:g}{flips}"
    if len(plan.tasks) > 1:
        seldom = [task_plan for task_plan in plan.tasks if task_plan.chances.chance < _SELDOM]
        if seldom:
            yield (
                f"alone, an identical copy is seldom within margin: {_listed(seldom)}; in brackets the margin at which "
                f"it is in {percent(SURE)} of runs"
            )
    open_caps = [task_plan for task_plan in plan.tasks if task_plan.under_cap < SURE]
    if open_caps:
        names = join_names(
            [f"{task_plan.planned.task} {100 * (1 - task_plan.under_cap):.0f} %" for task_plan in open_caps], NAMED
        )
        yield f"the cap of {100 * plan.cap:g} points stops identical copies: {names}"


def _listed(tasks: Sequence[TaskPlan]) -> str:
    names = [
        f"{plan.planned.task} {100 * plan.chances.chance:.0f} % ({text.format_percent(plan.chances.margin_sure)})"
        for plan in tasks
    ]
    return join_names(names, NAMED)


def plan_json(plan: PackPlan) -> dict[str, Any]:
    """A plan as plain JSON data: shares from 0 to 1."""
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
                "under_cap": task_plan.under_cap,
                **dataclasses.asdict(task_plan.chances),
            }
            for task_plan in plan.tasks
        },
    }
