"""Does it hold? Three outcomes for each task and one decision for all, at a stated margin and cap. Scores from 0 to 1.

Of each task: the drop from its baseline (`meta_eval.stats.drop`, one statistic for everything said here) has a 95 %
interval, and the largest drop that is allowed is the margin.

- **within margin**: all of the interval lies under the margin. This is a test of non-inferiority at a one-sided 2.5 %,
  the level that ICH E9 (1998, section 5.5) asks of such tests: of tasks whose true drop is the margin, one in forty is
  called so. The 90 % interval would decide at 5 % and find somewhat more. The 95 % interval is used because it is the
  one that tables show and that a p value belongs to: what decides can be seen. What few docs and clusters cost in
  accuracy stays within the 5 % that are promised.
- **worse**: the estimate is over the margin, and the drop is larger than the mean drop of the others beyond chance:
  p under 5 % after Holm's correction over all tasks of the decision. That mean counts from 0 to the margin here. So
  a loss inside the margin is allowed (ICH E9), of one task as of all, and a task that stands out is not hidden by the
  others. Where all tasks lose more than the margin alike, worse are those whose drop is shown to be larger than that.
- **undecided**: neither. It is no verdict on the model: these docs cannot tell.

Of all: the mean drop over tasks, each by its weight (`meta_eval.stats.weigh_tasks`), with a margin of its own, and
beside it the mean in which every task counts the same.

- **SHIP**: all of the mean's interval lies under the margin, the equally weighted mean is under it, no task and no
  subtask is worse, each worse end lies under the cap, and there is no veto.
- **DON'T SHIP**: the mean's drop, or that of a task, is shown to be larger than its margin (Holm over the mean and the
  tasks), or an answer limit of the gate is exceeded.
- **UNDECIDED**: neither, with the reasons, and with what would settle it where anything would.

**The cap** is what no task and no subtask may lose, at the worse end of its interval; and no less than the margin. The
mean cannot see what a task loses, and significance asks for much where docs are few: without a cap a model that loses
five points of GPQA ships in one of three runs. Docs may be too few for it: for a task with fewer than `CAP_MIN_DOCS`,
and for every subtask, it is at least what an identical copy stays under (`meta_eval.stats.identical`; for subtasks
together, all but one in a hundred identical copies). What SHIP leaves open is said with it.

Where more than the model differs (other prompts, shots or settings), the comparison is invalid: the figures stand
there, no outcome does, and it is UNDECIDED, with exit code 2. What makes it so is said first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from meta_eval import stats
from meta_eval.judging.caps import (
    compute_allowed_losses,
    compute_task_caps,
    correct_beyond,
    describe_subtask_losses,
    explain_open_ends,
    format_points,
)
from meta_eval.judging.evidence import RepeatPlan, TaskDrop, plan_repeats
from meta_eval.stats import Drop, Interval, Weighting
from meta_eval.thresholds import ALPHA, CAP, MARGIN

Outcome = Literal["within margin", "worse", "undecided"]
Overall = Literal["SHIP", "DON'T SHIP", "UNDECIDED"]

__all__ = [
    "EXIT_CODES",
    "Decision",
    "Outcome",
    "Overall",
    "RepeatPlan",
    "TaskDecision",
    "TaskDrop",
    "Veto",
    "decide_outcome",
]  # fmt: skip

EXIT_CODES: dict[Overall, int] = {"SHIP": 0, "DON'T SHIP": 1, "UNDECIDED": 3}
INVALID = 2

# What is said of a task of which more than the model differs.
NOT_VALID = "no verdict on the model, since more than the model differs"


@dataclass(frozen=True, slots=True)
class Veto:
    """Why SHIP is out of the question whatever the scores say: an alarm, a task that was not run.

    Attributes:
        reason: One sentence without a full stop.
        task: The task that it is about; None for the whole run.
        invalid: The tasks whose comparison it makes invalid, since more than the model differs.
        first: Whether it is said before all figures.
        fails: Whether it is a DON'T SHIP and not only no SHIP.
    """

    reason: str
    task: str | None = None
    invalid: frozenset[str] = frozenset()
    first: bool = False
    fails: bool = False


@dataclass(frozen=True, slots=True)
class TaskDecision:
    """One task.

    Attributes:
        task: Its name.
        outcome: See this module.
        margin: The largest drop that is allowed.
        cap: What the worse end of the interval must stay under for SHIP.
        drop: ``drop.value`` is the drop, positive for worse; ``drop.interval()`` is ``interval``.
        interval: The interval of the drop at `LEVEL`, which decides.
        p: Two-sided, of no drop; under 5 % exactly where the interval leaves out 0.
        p_corrected: After Holm's correction over the tasks.
        detectable_drop: The smallest true drop that docs like these tell from none four times out of five: at Holm's
            first step, so that it holds whatever the other tasks say.
        weight: The task's weight in the mean drop.
        remark: What the outcome alone does not say, in one sentence without a full stop; None for nothing.
        repeats_needed: What would show that it is within the margin; None where the interval does not hold the margin.
    """

    task: str
    outcome: Outcome
    margin: float
    cap: float
    drop: Drop
    interval: Interval
    p: float
    p_corrected: float
    detectable_drop: float
    weight: float
    remark: str | None
    repeats_needed: RepeatPlan | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision.

    Attributes:
        outcome: See this module.
        margin: The largest mean drop that is allowed.
        mean: The mean drop over tasks by their weights; None without a task.
        interval: Its interval at `LEVEL`, which decides.
        unweighted_mean: The mean drop in which every task counts the same, with ``unweighted_interval``.
        heterogeneity_p: The p value of the same drop in every task (`stats.heterogeneity_p`); None for a single task.
            Where it is small, the drops of the tasks differ, and their mean says little.
        tasks: In the order given.
        vetoes: As given.
        reasons: Why it is no SHIP, or what else to know of one; sentences without a full stop, ``caveats`` first.
        repeats_needed: What would show that the mean is within the margin; None where its interval does not hold the
            margin.
        caveats: The first of ``reasons``: what must be known before any figure.
        invalid: Whether more than the model differs, so that no verdict on the model follows.
        groups: Groups of the tasks, decided as a task is, with no share of the mean.
        weighting: What each task counts in ``mean``.
    """

    outcome: Overall
    margin: float
    mean: Drop | None
    interval: Interval | None
    unweighted_mean: Drop | None
    unweighted_interval: Interval | None
    heterogeneity_p: float | None
    tasks: tuple[TaskDecision, ...]
    vetoes: tuple[Veto, ...]
    reasons: tuple[str, ...]
    repeats_needed: RepeatPlan | None
    caveats: tuple[str, ...] = ()
    invalid: bool = False
    groups: tuple[TaskDecision, ...] = ()
    weighting: Weighting = "precision"

    @property
    def exit_code(self) -> int:
        """Of the outcome; of an invalid comparison 2, as of everything that the user can mend."""
        return INVALID if self.invalid else EXIT_CODES[self.outcome]


def decide_outcome(
    tasks: Sequence[TaskDrop],
    margin: float = MARGIN,
    vetoes: Sequence[Veto] = (),
    caveats: Sequence[str] = (),
    groups: Sequence[TaskDrop] = (),
    cap: float = CAP,
    weighting: Weighting = "precision",
) -> Decision:
    """Decide.

    Args:
        tasks: Every task that there is a drop of. For a task that should be there and is not, give a veto.
        margin: The largest drop that is allowed, of the mean and of each task that has none of its own.
        vetoes: What forbids SHIP.
        caveats: What is said before all figures, and forbids nothing; sentences without a full stop.
        groups: What is decided as a task is, and has no share of the mean: groups of these tasks, or parts of them.
        cap: What the worse end of every task and subtask must stay under for SHIP.
        weighting: What each task counts in the mean drop.

    Raises:
        ValueError: A margin or a cap is not above 0 and below 1, or two tasks have one name.
    """
    everything = [*tasks, *groups]
    margins = [margin if evidence.margin is None else evidence.margin for evidence in everything]
    if any(not 0 < limit < 1 for limit in (margin, cap, *margins)):
        raise ValueError("a margin is a share above 0 and below 1: 0.01 is one point")
    if len({evidence.task for evidence in everything}) < len(everything):
        raise ValueError("two tasks have one name")
    firsts = [_said(veto) for veto in vetoes if veto.first or veto.invalid]
    failures = [_said(veto) for veto in vetoes if veto.fails]
    others = [_said(veto) for veto in vetoes if not (veto.first or veto.invalid or veto.fails)]
    caveats = (*firsts, *caveats)
    if not tasks:
        nothing = (*caveats, *failures, *others, "there is no task to decide on")
        return Decision(
            "UNDECIDED", margin, None, None, None, None, None, (), tuple(vetoes), nothing, None, caveats,
            weighting=weighting,
        )  # fmt: skip
    invalid = frozenset(task for veto in vetoes for task in veto.invalid)
    drops = [evidence.drop for evidence in tasks]
    weights = stats.weigh_tasks(drops, weighting)
    mean, unweighted_mean = stats.mean_drop(drops, weights), stats.mean_drop(drops)
    interval, unweighted_interval = mean.interval(), unweighted_mean.interval()
    everywhere = [evidence.drop for evidence in everything]
    p_values = [drop.p_value() for drop in everywhere]
    standing_out = correct_beyond(everywhere, compute_allowed_losses(drops, weights, margins, mean))
    decided = tuple(
        _task(evidence, limits, p_values[place], weight, len(everything), valid=evidence.task not in invalid)
        for place, (evidence, limits, weight) in enumerate(
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
    is_invalid = any(evidence.task in invalid for evidence in everything)
    outcome: Overall = "UNDECIDED"
    reasons: Sequence[str] = (*failures, *others)
    if not is_invalid:
        losses = describe_subtask_losses([evidence for evidence in tasks if evidence.task not in invalid], margin, cap)
        outcome, reasons = _overall(decided, margin, mean, unweighted_mean, failures, losses, others)
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
        weighting=weighting,
    )


def _task(
    evidence: TaskDrop, limits: tuple[float, float, float, float], p: float, weight: float, count: int, *, valid: bool
) -> TaskDecision:
    """Decide on one task; ``limits`` are its margin, its cap, and p after Holm of no drop and of standing out."""
    margin, cap, p_corrected, standing_out = limits
    drop, interval = evidence.drop, evidence.drop.interval()
    outcome: Outcome = "undecided"
    if not valid:
        pass
    elif interval.upper < margin:
        outcome = "within margin"
    elif drop.value > margin and standing_out < ALPHA:
        outcome = "worse"
    return TaskDecision(
        task=evidence.task,
        outcome=outcome,
        margin=margin,
        cap=cap,
        drop=drop,
        interval=interval,
        p=p,
        p_corrected=p_corrected,
        detectable_drop=drop.find_detectable(ALPHA / count),
        weight=weight,
        remark=_remark(outcome, drop, interval, p_corrected, count) if valid else NOT_VALID,
        repeats_needed=plan_repeats((evidence,), (1.0,), drop, margin) if valid and margin in interval else None,
    )


def _remark(outcome: Outcome, drop: Drop, interval: Interval, p_corrected: float, count: int) -> str | None:
    said = []
    if outcome == "within margin" and interval.lower > 0:
        said.append(f"a drop of about {format_points(drop.value)} is there, and is allowed")
    elif outcome == "undecided" and interval.lower > 0 and p_corrected >= ALPHA:
        said.append(f"the interval leaves out 0, which chance does to some task where {count} are looked at")
    elif interval.upper < 0 and p_corrected < ALPHA:
        said.append(
            f"it is {'better than' if drop.lower_is_better else 'above'} its baseline, "
            f"by about {format_points(-drop.value)}"
        )
    if not drop.paired:
        said.append("no answers of the baseline are known, so the noise of both scores is in the interval")
    return "; ".join(said) or None


def _overall(
    tasks: Sequence[TaskDecision],
    margin: float,
    mean: Drop,
    unweighted_mean: Drop,
    failures: Sequence[str],
    losses: Sequence[str],
    vetoes: Sequence[str],
) -> tuple[Overall, tuple[str, ...]]:
    beyond = correct_beyond([mean, *(task.drop for task in tasks)], [margin, *(task.margin for task in tasks)])
    reasons = [
        f"{task.task}: the drop of {format_points(task.drop.value)} is shown to be larger than "
        f"{format_points(task.margin)}"
        for task, p in zip(tasks, beyond[1:], strict=True)
        if p < ALPHA
    ]
    if beyond[0] < ALPHA:
        reasons.insert(
            0, f"the mean drop of {format_points(mean.value)} is shown to be larger than {format_points(margin)}"
        )
    reasons += failures
    if reasons:
        return "DON'T SHIP", (*reasons, *vetoes)
    end = mean.interval().upper
    if end >= margin:
        reasons.append(
            f"the mean drop may be as large as {format_points(end)}, and the margin is {format_points(margin)}"
        )
    if worse := [task for task in tasks if task.outcome == "worse"]:
        reasons.append(f"worse: {', '.join(f'{task.task} by {format_points(task.drop.value)}' for task in worse)}")
    reasons += explain_open_ends(
        [
            (task.task, task.interval.upper, task.cap)
            for task in tasks
            if task.interval.upper >= task.cap and task.outcome != "worse" and task.remark != NOT_VALID
        ]
    )
    reasons += losses
    if unweighted_mean.value >= margin:
        reasons.append(
            f"the mean in which every task counts the same dropped by {format_points(unweighted_mean.value)}"
        )
    reasons += vetoes
    if reasons:
        return "UNDECIDED", tuple(reasons)
    return "SHIP", _left_open(tasks)


def _left_open(tasks: Sequence[TaskDecision]) -> tuple[str, ...]:
    """What SHIP does not exclude: of the tasks that are not shown to be within their margin, the worse ends."""
    ends = sorted(((task.interval.upper, task.task) for task in tasks if task.outcome != "within margin"), reverse=True)
    return (f"not excluded: {', '.join(f'{name} {100 * end:.1f}' for end, name in ends)} points",) if ends else ()


def _said(veto: Veto) -> str:
    return veto.reason if veto.task is None else f"{veto.task}: {veto.reason}"
