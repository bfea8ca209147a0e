"""Decides: an outcome for each task and a decision over all, at a stated margin and cap. Scores from 0 to 1.

For each task, the drop from its baseline has a 95 % interval (`meta_eval.stats.drop`). The margin is the largest
allowed drop.

- **within margin**: the whole interval is below the margin. This is a non-inferiority test at a one-sided 2.5 %, the
  level of ICH E9 (1998, section 5.5). A task with a true drop equal to the margin is called so in 2.5 % of cases. The
  90 % interval would decide at 5 % and find somewhat more. The 95 % interval is also the interval in tables, and it
  matches the p value. With few docs or clusters the error rate stays below the promised 5 %.
- **worse**: the estimate is over the margin, and the task stands out: p below 5 % after Holm's correction over all
  tasks. A task stands out that has lost, and has lost more than the mean of the others, whose uncertainty counts. So a
  loss inside the margin is allowed (ICH E9), for a task as for all. A drop that is proven larger than the margin is
  worse whatever the others are.
- **undecided**: neither. These docs do not suffice for a statement about the model.

Over all tasks there is the weighted mean drop (`meta_eval.stats.weigh_tasks`), with its own margin, and the unweighted
mean.

- **SHIP**: the interval of the weighted mean is below the margin, the plain mean is below it or has not lost beyond
  chance (one-sided at 5 %), no task or subtask is worse, each worse end is below the cap, no task lost more than an
  identical copy explains, and there is no veto.
- **DON'T SHIP**: the drop of the mean or a task is proven to be larger than its margin, or an answer limit of the gate
  is exceeded. The proof is one-sided at 5 % over the mean and all tasks, by Holm's procedure. So of models that lose
  their margin everywhere, at most 5 % are failed.
- **UNDECIDED**: neither, with the reasons, and with the runs that would settle it, if any would.

**The cap** limits the worse end of the interval of every task and subtask; it is at least the margin. The mean hides
the loss of a task, and significance needs many docs: without a cap, a model that loses five points of GPQA ships in a
third of runs. For a task with fewer than `CAP_MIN_DOCS` docs, the cap is the largest loss that is more
likely of an identical copy than of a copy that lost the cap (`meta_eval.judge.loss_limits`). For every subtask it is
at least the loss that an identical copy stays under (`meta_eval.stats.identical`; for all subtasks together, in 99 % of
identical copies). A SHIP also states what it leaves open.

If more than the model differs (prompts, shots or settings), the comparison is invalid. The report has figures but no
outcomes, and the decision is UNDECIDED, with exit code 2. The cause is stated first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from meta_eval import stats
from meta_eval.base.pack_names import join_names
from meta_eval.base.plain_data import NOT_WRITTEN, written
from meta_eval.base.thresholds import ALPHA, CAP, MARGIN, NAMED, Outcome, Weighting
from meta_eval.judge.alarm_kinds import Alarm
from meta_eval.judge.caps import (
    compute_task_caps,
    describe_subtask_losses,
    explain_open_ends,
    find_excess_losses,
    find_worse,
    format_drop_points,
    prove_beyond,
)
from meta_eval.judge.decision import RepeatPlan, TaskDecision
from meta_eval.judge.further_runs import plan_repeats
from meta_eval.judge.pair import TaskPair
from meta_eval.stats import Drop, DropBreakdown, Interval, RunEffect

DecisionOutcome = Literal["SHIP", "DON'T SHIP", "UNDECIDED"]

# Whether two models are the same.
Sameness = Literal["same", "different", "undecided"]

SAMENESS_CODES: dict[Sameness, int] = {"same": 0, "different": 1, "undecided": 3}
EXIT_CODES: dict[DecisionOutcome, int] = {"SHIP": 0, "DON'T SHIP": 1, "UNDECIDED": 3}
INVALID_CODE = 2

# Exit codes from the best to the worst: SHIP, UNDECIDED, DON'T SHIP, an error that the user can fix.
_CODES_BY_RANK = (0, 3, 1, 2)

# The remark of a task in which more than the model differs.
NOT_VALID = "no verdict on the model, since more than the model differs"


@dataclass(frozen=True, slots=True)
class Veto:
    """A reason that forbids SHIP whatever the scores are, such as an alarm or a task that was not run."""

    reason: str
    """A sentence without a full stop."""

    task: str | None = None
    """The task that it is about; None for the whole run."""

    invalid: frozenset[str] = frozenset()
    """The tasks with an invalid comparison, because more than the model differs."""

    first: bool = False
    """Whether it is stated before all figures."""

    fails: bool = False
    """Whether it means DON'T SHIP, not only no SHIP."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision."""

    outcome: DecisionOutcome
    """See this module."""

    margin: float
    """The largest allowed mean drop."""

    mean: Drop | None
    """The weighted mean drop over tasks; None without tasks."""

    interval: Interval | None = field(metadata=NOT_WRITTEN)
    """Its interval at `LEVEL`, which decides."""

    unweighted_mean: Drop | None
    """The plain mean drop, with ``unweighted_interval``."""

    unweighted_interval: Interval | None = field(metadata=NOT_WRITTEN)
    heterogeneity_p: float | None
    """The p value of the same drop in every task (`stats.heterogeneity_p`); None for a single task. If it is small, the
    drops of the tasks differ, and their mean says little.
    """

    tasks: tuple[TaskDecision, ...] = field(metadata=NOT_WRITTEN)
    """In the order given."""

    vetoes: tuple[Veto, ...] = field(metadata=written(lambda vetoes: [veto.reason for veto in vetoes]))
    """As given."""

    reasons: tuple[str, ...]
    """Reasons against SHIP, or remarks on it; sentences without a full stop, ``caveats`` first."""

    repeats_needed: RepeatPlan | None
    """The runs that would show the mean to be within the margin; None if its interval does not contain the margin."""

    caveats: tuple[str, ...] = ()
    """The first of ``reasons``, which are stated before any figure."""

    invalid: bool = False
    """Whether more than the model differs, so nothing follows about the model."""

    groups: tuple[TaskDecision, ...] = field(default=(), metadata=NOT_WRITTEN)
    """Groups of tasks, decided like a task, not part of the mean."""

    weights: Weighting = "precision"
    """The weighting of tasks in ``mean``."""

    left_out: int = 0
    """Number of decided tasks that are not part of the mean, such as those that are no shares."""

    run_effect: RunEffect | None = field(default=None, metadata=NOT_WRITTEN)
    """What differs between runs beyond single flips, also where it is not seen; None where each side has one run."""

    @property
    def exit_code(self) -> int:
        """The exit code of the outcome; 2 for an invalid comparison, as for everything that the user can fix."""
        return INVALID_CODE if self.invalid else EXIT_CODES[self.outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDecision:
    """All that is decided of a run, or of two that are compared."""

    decision: Decision
    """SHIP, DON'T SHIP or UNDECIDED."""

    tasks: tuple[TaskDecision, ...]
    """By name, those that are not decided too."""

    alarms: tuple[Alarm, ...] = ()
    """What went wrong, by kind; vetoes first."""

    notes: tuple[str, ...] = ()
    """What the reader must know of rules and files."""

    drop_breakdown: DropBreakdown | None = None
    """The parts of the mean drop from a recorded run; None where fewer than two tasks are."""


def find_worst_code(codes: Iterable[int]) -> int:
    """The exit code of several decisions: 2, an error that the user can fix, before 1 DON'T SHIP, 3 UNDECIDED and 0.

    Args:
        codes: The codes; 0 for none.
    """
    return max(codes, key=_CODES_BY_RANK.index, default=0)


def decide_outcome(
    tasks: Sequence[TaskPair],
    margin: float = MARGIN,
    vetoes: Sequence[Veto] = (),
    caveats: Sequence[str] = (),
    groups: Sequence[TaskPair] = (),
    cap: float = CAP,
    weighting: Weighting = "precision",
    left_out: int = 0,
) -> Decision:
    """Decide.

    Args:
        tasks: Every task with a drop. For a missing task, give a veto.
        margin: The largest allowed drop of the mean, and of each task without its own margin.
        vetoes: The reasons that forbid SHIP.
        caveats: Remarks that are stated before all figures and forbid nothing; sentences without a full stop.
        groups: Groups or parts of these tasks, which are decided like a task but are not part of the mean.
        cap: The limit of the worse end of every task and subtask for SHIP.
        weighting: The weighting of tasks in the mean drop.
        left_out: Number of tasks that are decided on and have no drop that a mean can include.

    Raises:
        ValueError: A margin or cap is not between 0 and 1, or two tasks have the same name.
    """
    everything = [*tasks, *groups]
    margins = [margin if pair.margin is None else pair.margin for pair in everything]
    if any(not 0 < limit < 1 for limit in (margin, cap, *margins)):
        raise ValueError("a margin is a share above 0 and below 1: 0.01 is one point")
    if len({pair.name for pair in everything}) < len(everything):
        raise ValueError("two tasks have one name")
    firsts = [_describe_veto(veto) for veto in vetoes if veto.first or veto.invalid]
    failures = [_describe_veto(veto) for veto in vetoes if veto.fails]
    others = [_describe_veto(veto) for veto in vetoes if not (veto.first or veto.invalid or veto.fails)]
    caveats = (*firsts, *caveats)
    if not tasks:
        nothing = (*caveats, *failures, *others, *(() if failures else ("there is no task to decide on",)))
        is_invalid = any(veto.invalid for veto in vetoes)
        return Decision(
            "DON'T SHIP" if failures and not is_invalid else "UNDECIDED", margin, None, None, None, None, None, (),
            tuple(vetoes), nothing, None, caveats, weights=weighting, invalid=is_invalid, left_out=left_out,
        )  # fmt: skip
    invalid = frozenset(task for veto in vetoes for task in veto.invalid)
    run_effect = stats.measure_run_effect(pair.runs for pair in tasks)
    if run_effect and run_effect.is_seen:
        everything = [replace(pair, measured_drop=replace(pair.drop, run_effect=run_effect)) for pair in everything]
        tasks = everything[: len(tasks)]
    drops = [pair.drop for pair in tasks]
    weights = stats.weigh_tasks(drops, weighting)
    mean, unweighted_mean = stats.mean_drop(drops, weights), stats.mean_drop(drops)
    interval, unweighted_interval = mean.interval(), unweighted_mean.interval()
    everywhere = [pair.drop for pair in everything]
    p_values = [drop.p_value() for drop in everywhere]
    standing_out = find_worse(everywhere, weights, margins, mean)
    proven = prove_beyond(mean, margin, everywhere, margins)
    decided = tuple(
        _task(
            pair,
            limits,
            p_values[place],
            weight,
            len(everything),
            valid=pair.name not in invalid,
            proven=proven[1 + place],
        )
        for place, (pair, limits, weight) in enumerate(
            zip(
                everything,
                zip(
                    margins,
                    compute_task_caps(everything, margin, cap),
                    stats.correct_by_holm(p_values),
                    standing_out,
                    strict=True,
                ),
                [*weights, *(0.0 for _ in groups)],
                strict=True,
            )
        )
    )
    is_invalid = bool(invalid)
    outcome: DecisionOutcome = "UNDECIDED"
    reasons: Sequence[str] = (*failures, *others)
    if not is_invalid:
        valid = [pair for pair in tasks if pair.name not in invalid]
        named = {task.name for task in decided if task.outcome == "worse" or task.interval.upper >= task.cap}
        losses = [*describe_subtask_losses(valid, margin, cap), *find_excess_losses(valid, margin, cap, named)]
        outcome, reasons = _overall(decided, margin, mean, unweighted_mean, proven, failures, losses, others)
    if outcome == "SHIP" and firsts:
        outcome = "UNDECIDED"
    open_question = interval.lower <= margin <= interval.upper and not is_invalid
    return Decision(
        outcome=outcome,
        margin=margin,
        mean=mean,
        interval=interval,
        unweighted_mean=unweighted_mean,
        unweighted_interval=unweighted_interval,
        heterogeneity_p=stats.heterogeneity_p(drops),
        tasks=decided[: len(tasks)],
        groups=decided[len(tasks) :],
        vetoes=tuple(vetoes),
        reasons=(*caveats, *reasons),
        repeats_needed=plan_repeats(tasks, weights, mean, margin) if open_question else None,
        caveats=caveats,
        invalid=is_invalid,
        weights=weighting,
        left_out=left_out,
        run_effect=run_effect,
    )


def _task(
    pair: TaskPair,
    limits: tuple[float, float, float, float],
    p: float,
    weight: float,
    count: int,
    *,
    valid: bool,
    proven: bool,
) -> TaskDecision:
    """Decide on a task; ``limits`` are its margin, its cap, and the Holm-corrected p values of no drop and of standing
    out; ``proven`` tells whether its drop is proven larger than its margin."""
    margin, cap, p_corrected, standing_out = limits
    drop, interval = pair.drop, pair.drop.interval()
    outcome: Outcome = "undecided"
    if not valid:
        pass
    elif interval.upper < margin:
        outcome = "within margin"
    elif proven or standing_out < ALPHA:
        outcome = "worse"
    decided: dict[str, Any] = {
        "outcome": outcome,
        "proven": valid and proven,
        "decided_drop": drop,
        "interval": interval,
        "margin": margin,
        "cap": cap,
        "p": p,
        "p_corrected": p_corrected,
        "detectable_drop": drop.find_detectable(ALPHA / count),
        "weight": weight,
        "remark": _remark(outcome, drop, interval, p_corrected, count, proven=proven) if valid else NOT_VALID,
        "repeats_needed": plan_repeats((pair,), (1.0,), drop, margin) if valid and margin in interval else None,
    }
    return replace(pair.figures, **decided) if pair.figures else TaskDecision(pair.name, **decided)


def _remark(
    outcome: Outcome, drop: Drop, interval: Interval, p_corrected: float, count: int, *, proven: bool
) -> str | None:
    clauses = []
    if outcome == "worse" and not proven:
        others = " and more than the other tasks" if count > 1 else ""
        clauses.append(f"a loss is proven{others}; that it is larger than the margin is not")
    if outcome == "within margin" and interval.lower > 0:
        clauses.append(f"a drop of about {format_drop_points(drop.value)} is proven, and is allowed")
    elif outcome == "undecided" and interval.lower > 0 and p_corrected >= ALPHA:
        clauses.append(f"a loss is likely and not proven: among {count} tasks chance alone may show one like it")
    elif interval.upper < 0 and p_corrected < ALPHA:
        clauses.append(
            f"it is {'better than' if drop.lower_is_better else 'above'} its baseline, "
            f"by about {format_drop_points(-drop.value)}"
        )
    if not drop.paired:
        clauses.append("docs cannot be paired, so the noise of both scores is in the interval")
    return "; ".join(clauses) or None


def _overall(
    tasks: Sequence[TaskDecision],
    margin: float,
    mean: Drop,
    unweighted_mean: Drop,
    beyond: Sequence[bool],
    failures: Sequence[str],
    losses: Sequence[str],
    vetoes: Sequence[str],
) -> tuple[DecisionOutcome, tuple[str, ...]]:
    losers = sorted(
        (task for task, is_beyond in zip(tasks, beyond[1:], strict=True) if is_beyond),
        key=lambda task: -task.drop.value,
    )
    mean_first = ["the mean drop"] if beyond[0] else []
    proven = [*mean_first, *(_name_loss(task, margin) for task in losers)]
    reasons = [*([f"proven larger than the margin: {join_names(proven, NAMED)}"] if proven else []), *failures]
    if reasons:
        return "DON'T SHIP", (*reasons, *vetoes)
    interval = mean.interval()
    if interval.upper >= margin:
        many = f": with {len(tasks) + 1} tests its interval alone is no proof" if interval.lower > margin else ""
        reasons.append(f"the mean drop is proven neither smaller nor larger than the margin{many}")
    if worse := [task for task in tasks if task.outcome == "worse"]:
        reasons.append(f"worse: {', '.join(f'{task.name} by {format_drop_points(task.drop.value)}' for task in worse)}")
    reasons += explain_open_ends(
        [
            (task.name, task.interval.upper, task.cap)
            for task in tasks
            if task.interval.upper >= task.cap and task.outcome != "worse" and task.remark != NOT_VALID
        ]
    )
    reasons += losses
    # Few docs in one task move the plain mean far. A bound above the margin, though, would seldom stop a loss.
    if unweighted_mean.value >= margin and unweighted_mean.interval(1 - 2 * ALPHA).lower > 0:
        reasons.append(f"the plain mean dropped by {format_drop_points(unweighted_mean.value)}")
    reasons += vetoes
    if reasons:
        return "UNDECIDED", tuple(reasons)
    return "SHIP", _left_open(tasks)


def _left_open(tasks: Sequence[TaskDecision]) -> tuple[str, ...]:
    """The losses that SHIP does not exclude: the worse ends of tasks that are not within their margin."""
    ends = sorted(((task.interval.upper, task.name) for task in tasks if task.outcome != "within margin"), reverse=True)
    losses = [f"{100 * end:.1f}{'' if place else ' points'} in {name}" for place, (end, name) in enumerate(ends)]
    return (f"not ruled out: a loss of {join_names(losses, NAMED)}",) if ends else ()


def _name_loss(task: TaskDecision, margin: float) -> str:
    """``gsm8k 6.1``, in points, with the task's margin if it differs from the mean's."""
    own = f" (margin {100 * task.margin:g})" if task.margin != margin else ""
    return f"{task.name} {100 * task.drop.value:.1f}{own}"


def _describe_veto(veto: Veto) -> str:
    return veto.reason if veto.task is None else f"{veto.task}: {veto.reason}"
