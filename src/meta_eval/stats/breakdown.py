"""Splits a drop into the parts of the grader, the model and the prompts.

Each doc has three values: the recorded value r, today's grade of the recorded answer g, and the grade of the new answer
n. Docs S have exactly the recorded prompt, docs D another prompt. With the metric's own average (over docs, or over
subtasks):

    total   = average of r - n over all docs
    grader  = average of r - g over all docs: the same answers, another grader
    model   = average of g - n over S: the same prompt and grader, another model
    prompts = average of g - n over all docs, less the model's: what the docs of D lost beyond those of S

The order is fixed: first the grader changes, then the model, then the prompt. Averages are linear, so the parts add up:
total = grader + (g - n over all docs) = grader + model + prompts. The last step assumes that the model loses as much on
D as on S. If all docs are in D, model and prompts cannot be separated, and only their sum is given.

Total, grader and model are paired drops with their own intervals (`stats.drop`). With the share p of D in the average,
prompts = p (average over D - average over S); D and S have no doc in common, so the MOVER of `stats.drop` joins their
intervals: lower = prompts - p sqrt(below(D)^2 + above(S)^2), upper = prompts + p sqrt(above(D)^2 + below(S)^2), with
below and above the distances from a drop to the ends of its interval. Clusters in both make it too wide. If the metric
is an average over subtasks, p is the sum of the weights of D, and the distances are those of the averages over subtasks
of D and S.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from meta_eval.base.plain_data import written
from meta_eval.base.thresholds import SAME_VALUE
from meta_eval.stats.clustered_mean import average_docs
from meta_eval.stats.drop import Drop, DropPart, mean_drop, paired_drop
from meta_eval.stats.intervals import Interval

_T = TypeVar("_T")


_PART = written(lambda drop: drop and drop.part)


@dataclass(frozen=True, slots=True)
class DropBreakdown:
    """A drop, split into the parts of the grader, the model and the prompts."""

    total: Drop = field(metadata=_PART)
    """The drop from the record to the run."""

    grader: Drop = field(metadata=_PART)
    """The drop from the record to today's verdicts on the same answers."""

    rest: Drop = field(metadata=_PART)
    """The drop from these to the run: model and prompts together."""

    model: Drop | None = field(metadata=_PART)
    """The drop on docs with the recorded prompt; None if there are none."""

    prompts: DropPart | None
    """The remaining part, from -2 to 2: if the docs of D lost everything and those of S won everything, it is twice the
    share of D. None if no doc has the recorded prompt."""

    docs: int
    """Docs with all three values."""

    regraded: int
    """Docs with another value by today's grader."""

    changed: int
    """Docs with another value than the regraded recorded answer."""

    docs_with_other_prompt: int
    """Docs with another prompt."""


def break_down_drop(
    recorded: Sequence[float],
    regraded: Sequence[float],
    new: Sequence[float],
    prompt_matches: Sequence[bool],
    labels: Sequence[Hashable] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> DropBreakdown:
    """Split the drop from a recorded run into its parts; the module's docstring has the formulas.

    Args:
        recorded: Each doc's contribution to the recorded score.
        regraded: The contribution of its recorded answer under today's grader.
        new: The contribution of its new answer under today's grader.
        prompt_matches: Whether its prompt is exactly the recorded prompt.
        labels, clusters: As of `paired_drop`.

    Raises:
        ValueError: No doc, or not the same number of each.
    """
    same = [bool(flag) for flag in prompt_matches]
    if not len(recorded) == len(regraded) == len(new) == len(same):
        raise ValueError(f"{len(recorded)}, {len(regraded)}, {len(new)} and {len(same)} docs")
    rest = paired_drop(regraded, new, labels, clusters)

    def of(those: bool) -> Drop:
        places = [place for place, is_same in enumerate(same) if is_same is those]
        return paired_drop(
            _at(regraded, places),
            _at(new, places),
            None if labels is None else _at(labels, places),
            None if clusters is None else _at(clusters, places),
        )

    model, prompts = None, None
    if all(same):
        model, prompts = rest, DropPart(0.0, Interval(0.0, 0.0))
    elif any(same):
        model = of(True)
        weights = average_docs(regraded, labels).weights
        share = math.fsum(weight for weight, is_same in zip(weights, same, strict=True) if not is_same)
        prompts = _prompts(rest, model, of(False), share)
    return DropBreakdown(
        total=paired_drop(recorded, new, labels, clusters),
        grader=paired_drop(recorded, regraded, labels, clusters),
        rest=rest,
        model=model,
        prompts=prompts,
        docs=len(same),
        regraded=_differing(recorded, regraded),
        changed=_differing(regraded, new),
        docs_with_other_prompt=same.count(False),
    )


def average_breakdowns(parts: Sequence[DropBreakdown], weights: Sequence[float]) -> DropBreakdown:
    """Average the decompositions of several tasks; the parts still add up to the total.

    Args:
        parts: The decomposition of each task.
        weights: The weight of each task; they add up to 1.

    Raises:
        ValueError: No task, or not a weight for each.
    """
    models = [part.model for part in parts if part.model is not None]
    prompts = [part.prompts for part in parts if part.prompts is not None]
    is_complete = len(models) == len(parts)
    return DropBreakdown(
        total=mean_drop([part.total for part in parts], weights),
        grader=mean_drop([part.grader for part in parts], weights),
        rest=mean_drop([part.rest for part in parts], weights),
        model=mean_drop(models, weights) if is_complete else None,
        prompts=_sum(prompts, weights) if is_complete else None,
        docs=sum(part.docs for part in parts),
        regraded=sum(part.regraded for part in parts),
        changed=sum(part.changed for part in parts),
        docs_with_other_prompt=sum(part.docs_with_other_prompt for part in parts),
    )


def _prompts(rest: Drop, model: Drop, others: Drop, share: float) -> DropPart:
    (below_d, above_d), (below_s, above_s) = _reach(others, others.interval()), _reach(model, model.interval())
    value = rest.value - model.value
    return DropPart(value, _around(value, share * math.hypot(below_d, above_s), share * math.hypot(above_d, below_s)))


def _sum(parts: Sequence[DropPart], weights: Sequence[float]) -> DropPart:
    """Add independent parts, with the MOVER."""
    value = math.fsum(w * part.value for w, part in zip(weights, parts, strict=True))
    ends = [_reach(part, part.interval) for part in parts]
    below, above = (
        math.hypot(*(w * interval_end[side] for w, interval_end in zip(weights, ends, strict=True))) for side in (0, 1)
    )
    return DropPart(value, _around(value, below, above))


def _reach(drop: Drop | DropPart, interval: Interval) -> tuple[float, float]:
    return drop.value - interval.lower, interval.upper - drop.value


def _around(value: float, below: float, above: float) -> Interval:
    return Interval(max(-2.0, value - below), min(2.0, value + above))


def _at(values: Sequence[_T], places: Sequence[int]) -> list[_T]:
    return [values[place] for place in places]


def _differing(first: Sequence[float], second: Sequence[float]) -> int:
    return sum(abs(a - b) > SAME_VALUE for a, b in zip(first, second, strict=True))
