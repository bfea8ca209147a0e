"""Does it hold? Three outcomes for each task and one decision for all, at a stated margin. Scores from 0 to 1.

Of each task: the drop from its baseline (`meta_eval.stats.drop`, one statistic for everything said here) has a 95 %
interval, and the largest drop that is allowed is the margin.

- **shown to hold**: all of the interval lies under the margin. This is a test of non-inferiority at a one-sided 2.5 %,
  the level that ICH E9 (1998, section 5.5) asks of such tests: of tasks whose true drop is the margin, one in forty is
  called so. The 90 % interval would decide at 5 % and find somewhat more. The 95 % interval is used because it is the
  one that tables show, that says *below*, and that a p value belongs to: what decides can be seen. What few docs and
  clusters cost in accuracy stays within the 5 % that are promised.
- **shown below**: not shown to hold, and the drop is larger than 0 beyond doubt: the p value of no drop is under 5 %
  after Holm's correction over all tasks of the decision. So a drop that is real and inside the margin holds, and is
  remarked on.
- **not shown**: neither. It is no verdict on the model: these docs cannot tell.

Holding is claimed of each task by itself and not corrected; one *below* among many tasks would soon be chance, and is.

Of all: the mean drop over tasks, each weighed by its precision (`meta_eval.stats.precision_weights`), with a margin of
its own, and beside it the mean in which every task counts the same.

- **SHIP**: all of the mean's interval lies under the margin, no task is shown below, the equally weighted mean is
  neither larger than the margin nor shown below, and there is no veto.
- **DON'T**: all of the mean's interval lies above the margin; or one task's drop is shown to be larger than the task's
  margin (Holm over the tasks); or a condition of the gate fails (`meta_eval.judging.conditions`).
- **NOT SHOWN**: neither, with the reasons, and with what would settle it where anything would.

Where more than the model differs (other prompts, shots or settings), the comparison is invalid: the figures stand
there, no outcome does, and it is NOT SHOWN, with exit code 2. What makes it so is said first.

So a drop that is allowed is a DON'T as seldom as one that is not allowed is a SHIP. Whether the mean drop is larger
than 0 does not decide: it is said.

A large task has most of the weight. That is right where the drop is the same everywhere, which is all that a mean can
tell; where it is not, a task that is shown below, or the equally weighted mean, stand in the way of SHIP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from meta_eval import stats
from meta_eval.judging.evidence import Settling, TaskDrop, plan_repeats
from meta_eval.stats import Drop, Interval
from meta_eval.thresholds import ALPHA, MARGIN

Outcome = Literal["shown to hold", "shown below", "not shown"]
Overall = Literal["SHIP", "DON'T", "NOT SHOWN"]

__all__ = [
    "EXIT_CODES",
    "Decision",
    "Outcome",
    "Overall",
    "Settling",
    "TaskDecision",
    "TaskDrop",
    "Veto",
    "decide_outcome",
]  # fmt: skip

EXIT_CODES: dict[Overall, int] = {"SHIP": 0, "DON'T": 1, "NOT SHOWN": 3}
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
        fails: Whether it is a DON'T and not only no SHIP.
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
        drop: ``drop.value`` is the drop, positive for worse; ``drop.interval()`` is ``interval``.
        interval: The interval of the drop at `LEVEL`, which decides.
        p: Two-sided, of no drop; under 5 % exactly where the interval leaves out 0.
        p_corrected: After Holm's correction over the tasks.
        could_see: The smallest true drop that docs like these tell from none four times out of five: at Holm's first
            step, so that it holds whatever the other tasks say.
        weight: The task's weight in the mean drop.
        remark: What the outcome alone does not say, in one sentence without a full stop; None for nothing.
        settling: What would show that it holds; None where the interval does not hold the margin.
    """

    task: str
    outcome: Outcome
    margin: float
    drop: Drop
    interval: Interval
    p: float
    p_corrected: float
    could_see: float
    weight: float
    remark: str | None
    settling: Settling | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision.

    Attributes:
        outcome: See this module.
        margin: The largest mean drop that is allowed.
        mean: The mean drop over tasks by precision; None without a task.
        interval: Its interval at `LEVEL`, which decides.
        equal: The mean drop in which every task counts the same, with ``equal_interval``.
        unlike: The p value of the same drop in every task (`stats.heterogeneity_p`); None for a single task. Where it
            is small, the drops of the tasks differ, and their mean says little.
        tasks: In the order given.
        vetoes: As given.
        reasons: Why it is no SHIP, or what else to know of one; sentences without a full stop, ``caveats`` first.
        settling: What would show that the mean holds; None where its interval does not hold the margin.
        caveats: The first of ``reasons``: what must be known before any figure.
        invalid: Whether more than the model differs, so that no verdict on the model follows.
        groups: Groups of the tasks, decided as a task is, with no share of the mean.
    """

    outcome: Overall
    margin: float
    mean: Drop | None
    interval: Interval | None
    equal: Drop | None
    equal_interval: Interval | None
    unlike: float | None
    tasks: tuple[TaskDecision, ...]
    vetoes: tuple[Veto, ...]
    reasons: tuple[str, ...]
    settling: Settling | None
    caveats: tuple[str, ...] = ()
    invalid: bool = False
    groups: tuple[TaskDecision, ...] = ()

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
) -> Decision:
    """Decide.

    Args:
        tasks: Every task that there is a drop of. For a task that should be there and is not, give a veto.
        margin: The largest drop that is allowed, of the mean and of each task that has none of its own.
        vetoes: What forbids SHIP.
        caveats: What is said before all figures, and forbids nothing; sentences without a full stop.
        groups: What is decided as a task is, and has no share of the mean: groups of these tasks, or parts of them.

    Raises:
        ValueError: A margin is not above 0 and below 1, or two tasks have one name.
    """
    everything = [*tasks, *groups]
    margins = [margin if evidence.margin is None else evidence.margin for evidence in everything]
    if any(not 0 < limit < 1 for limit in (margin, *margins)):
        raise ValueError("a margin is a share above 0 and below 1: 0.01 is one point")
    if len({evidence.task for evidence in everything}) < len(everything):
        raise ValueError("two tasks have one name")
    firsts = [_said(veto) for veto in vetoes if veto.first or veto.invalid]
    failures = [_said(veto) for veto in vetoes if veto.fails]
    others = [_said(veto) for veto in vetoes if not (veto.first or veto.invalid or veto.fails)]
    caveats = (*firsts, *caveats)
    if not tasks:
        nothing = (*caveats, *failures, *others, "there is no task to decide on")
        return Decision("NOT SHOWN", margin, None, None, None, None, None, (), tuple(vetoes), nothing, None, caveats)
    invalid = frozenset(task for veto in vetoes for task in veto.invalid)
    drops = [evidence.drop for evidence in tasks]
    weights = stats.precision_weights(drops)
    p_values = [evidence.drop.p_value() for evidence in everything]
    corrected = stats.correct_by_holm(p_values)
    decided = tuple(
        _task(evidence, limit, p, p_corrected, weight, len(everything), valid=evidence.task not in invalid)
        for evidence, limit, p, p_corrected, weight in zip(
            everything, margins, p_values, corrected, [*weights, *(0.0 for _ in groups)], strict=True
        )
    )
    mean, equal = stats.mean_drop(drops, weights), stats.mean_drop(drops)
    interval, equal_interval = mean.interval(), equal.interval()
    is_invalid = any(evidence.task in invalid for evidence in everything)
    outcome: Overall = "NOT SHOWN"
    reasons: Sequence[str] = (*failures, *others)
    if not is_invalid:
        outcome, reasons = _overall(
            decided, margin, mean.value, interval, equal.value, equal_interval, failures, others
        )
    if outcome == "SHIP" and firsts:
        outcome = "NOT SHOWN"
    open_question = interval.lower <= margin <= interval.upper and not is_invalid
    return Decision(
        outcome=outcome,
        margin=margin,
        mean=mean,
        interval=interval,
        equal=equal,
        equal_interval=equal_interval,
        unlike=stats.heterogeneity_p(drops),
        tasks=decided[: len(tasks)],
        groups=decided[len(tasks) :],
        vetoes=tuple(vetoes),
        reasons=(*caveats, *reasons),
        settling=plan_repeats(tasks, weights, mean, margin) if open_question else None,
        caveats=caveats,
        invalid=is_invalid,
    )


def _task(
    evidence: TaskDrop, margin: float, p: float, p_corrected: float, weight: float, count: int, *, valid: bool
) -> TaskDecision:
    drop, interval = evidence.drop, evidence.drop.interval()
    outcome: Outcome = "not shown"
    if not valid:
        pass
    elif interval.upper < margin:
        outcome = "shown to hold"
    elif drop.value > 0 and p_corrected < ALPHA:
        outcome = "shown below"
    return TaskDecision(
        task=evidence.task,
        outcome=outcome,
        margin=margin,
        drop=drop,
        interval=interval,
        p=p,
        p_corrected=p_corrected,
        could_see=drop.find_detectable(ALPHA / count),
        weight=weight,
        remark=_remark(outcome, drop, interval, p_corrected, count) if valid else NOT_VALID,
        settling=plan_repeats((evidence,), (1.0,), drop, margin) if valid and margin in interval else None,
    )


def _remark(outcome: Outcome, drop: Drop, interval: Interval, p_corrected: float, count: int) -> str | None:
    said = []
    if outcome == "shown to hold" and interval.lower > 0:
        said.append(f"a drop of about {_points(drop.value)} is there, and smaller than the margin")
    elif outcome == "not shown" and interval.lower > 0 and p_corrected >= ALPHA:
        said.append(f"the interval leaves out 0, which chance does to some task where {count} are looked at")
    elif interval.upper < 0 and p_corrected < ALPHA:
        said.append(
            f"it is {'below' if drop.lower_is_better else 'above'} its baseline, by about {_points(-drop.value)}"
        )
    if not drop.paired:
        said.append("no answers of the baseline are known, so the noise of both scores is in the interval")
    return "; ".join(said) or None


def _overall(
    tasks: Sequence[TaskDecision],
    margin: float,
    mean: float,
    interval: Interval,
    equal_mean: float,
    equal: Interval,
    failures: Sequence[str],
    vetoes: Sequence[str],
) -> tuple[Overall, tuple[str, ...]]:
    allowed = _points(margin)
    beyond = stats.correct_by_holm(
        [task.drop.p_value(task.margin) if task.drop.value > task.margin else 1.0 for task in tasks]
    )
    worse = [task for task, p in zip(tasks, beyond, strict=True) if p < ALPHA]
    below = [task.task for task in tasks if task.outcome == "shown below"]
    holds = interval.upper < margin
    reasons = [
        f"{task.task}: the drop of {_points(task.drop.value)} is shown to be larger than {_points(task.margin)}"
        for task in worse
    ]
    if interval.lower > margin:
        reasons.insert(0, f"the mean drop of {_points(mean)} is shown to be larger than {allowed}")
    reasons += failures
    if reasons:
        return "DON'T", (*reasons, *vetoes)
    if not holds:
        reasons.append(f"the mean drop may be as large as {_points(interval.upper)}")
    if below:
        reasons.append(f"shown below: {', '.join(below)}")
    if equal_mean >= margin:
        reasons.append(f"the mean in which every task counts the same dropped by {_points(equal_mean)}")
    elif equal.lower > 0 and equal.upper >= margin:
        reasons.append("the mean in which every task counts the same is shown to have dropped")
    reasons += vetoes
    if reasons:
        return "NOT SHOWN", tuple(reasons)
    return "SHIP", (("a drop is shown, and is smaller than the margin",) if interval.lower > 0 else ())


def _said(veto: Veto) -> str:
    return veto.reason if veto.task is None else f"{veto.task}: {veto.reason}"


def _points(share: float) -> str:
    points = 100 * share
    return f"{points:.1f} points" if abs(points) >= 0.1 else f"{points:.2f} points"
