"""The gate: may this model go out? From intervals, so that noise alone neither passes nor fails anything.

A drop has a 95 % interval. **GO**: all of it lies below the largest drop that is allowed. **NO-GO**: all of it lies
above. **INCONCLUSIVE**: neither, or there is nothing to decide on: a task that was not run, not to its end, or not on
what it is held against. Several tasks: NO-GO if any is, else INCONCLUSIVE if any is. So GO has to be shown for every
task, and needs no correction for their number. A false NO-GO, one in forty for a task whose true drop is just what is
allowed, becomes likelier with more tasks: an outcome names its task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from meta_eval import stats
from meta_eval.errors import ConfigError, suggestion
from meta_eval.judging.compare import Comparison, TaskComparison
from meta_eval.judging.judge import TaskJudgement, other_settings, reading_of, unfinished
from meta_eval.yaml_files import read_yaml

Against = Literal["published", "recorded", "baseline"]
Outcome = Literal["GO", "NO-GO", "INCONCLUSIVE"]

EXIT_CODES: dict[Outcome, int] = {"GO": 0, "NO-GO": 1, "INCONCLUSIVE": 3}

_Points = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False, strict=True)]
_Docs = Annotated[int, Field(ge=1, strict=True)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Model):
    """What one task asks otherwise than the gate; None for the gate's own."""

    max_drop: _Points | None = None
    against: Against | None = None
    min_docs: _Docs | None = None


class Gate(_Model):
    """``gate.yaml``.

    Attributes:
        max_drop: The largest drop that is allowed, in percentage points.
        against: What a drop is a drop from: the published number, Meta's recorded verdicts, or a baseline run.
        min_docs: Docs that are enough, against recorded verdicts and a baseline; without it all docs of the task are
            needed, as they always are against a published number.
        tasks: The tasks that must pass, a list of names or a mapping to a `Rule`; without it every task of the pack.
    """

    max_drop: _Points
    against: Against = "published"
    min_docs: _Docs | None = None
    tasks: dict[str, Rule] = Field(default_factory=dict)

    @field_validator("tasks", mode="before")
    @classmethod
    def _names_alone(cls, value: Any) -> Any:
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return {name: Rule() for name in value}
        return (
            {name: Rule() if rule is None else rule for name, rule in value.items()}
            if isinstance(value, dict)
            else value
        )

    def rule(self, task: str) -> Gate:
        """The gate as it is for one task."""
        own = self.tasks.get(task, Rule()).model_dump(exclude_none=True)
        return self.model_copy(update={**own, "tasks": {}})


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """One task at the gate; ``drop`` in points with its interval, None where there is nothing to decide on."""

    task: str
    outcome: Outcome
    against: Against
    max_drop: float
    drop: float | None
    interval: stats.Interval | None
    n: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """All tasks at the gate."""

    outcome: Outcome
    tasks: tuple[TaskOutcome, ...]

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]


def read_gate(path: Path) -> Gate:
    """Read ``gate.yaml``.

    Raises:
        ConfigError: It cannot be read, is no YAML, or says something that cannot be.
    """
    tree = read_yaml(path, error=ConfigError).tree
    try:
        return Gate.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            known = list(Rule.model_fields if len(first["loc"]) > 1 else Gate.model_fields)
            what = f"{key}: there is no such key{suggestion(str(first['loc'][-1]), known)}"
            raise ConfigError(what, where=str(path), hint=f"Known keys: {', '.join(known)}") from None
        if first["type"] == "missing":
            raise ConfigError(f"{key}: is not set", where=str(path), hint="Set it in percentage points") from None
        what = f"{key}: " if key else ""
        raise ConfigError(f"{what}{first['input']!r} is not allowed: {first['msg']}", where=str(path)) from None


def decide(gate: Gate, judgements: Sequence[TaskJudgement], comparison: Comparison | None = None) -> GateOutcome:
    """Decide.

    Args:
        gate: What is asked.
        judgements: Of the run in question, with every task of its pack.
        comparison: The baseline run against the run in question, where the gate asks for a baseline.

    Raises:
        ConfigError: The gate names a task that neither the pack nor the run has, or a baseline is needed and missing.
    """
    judged = {judgement.task: judgement for judgement in judgements}
    compared = {one.task: one for one in comparison.tasks} if comparison else {}
    missing = comparison.only_before if comparison else ()
    known = sorted({*judged, *compared, *missing})
    for task in gate.tasks:
        if task not in known:
            raise ConfigError(
                f"tasks: there is no task {task!r} here{suggestion(task, known)}", hint=f"Tasks: {', '.join(known)}"
            )
    wanted = list(gate.tasks) or known
    if comparison is None and any(gate.rule(task).against == "baseline" for task in wanted):
        raise ConfigError("against: baseline needs a baseline run", hint="Name its results as well")
    outcomes = tuple(_decide(task, gate.rule(task), judged.get(task), compared.get(task)) for task in wanted)
    found = {one.outcome for one in outcomes}
    if not outcomes:
        return GateOutcome("INCONCLUSIVE", ())
    overall: Outcome = "NO-GO" if "NO-GO" in found else "INCONCLUSIVE" if "INCONCLUSIVE" in found else "GO"
    return GateOutcome(overall, outcomes)


def _decide(task: str, rule: Gate, judged: TaskJudgement | None, compared: TaskComparison | None) -> TaskOutcome:
    n, drop, interval, reason = {"published": _published, "recorded": _recorded}.get(rule.against, _baseline)(
        rule, judged, compared
    )
    outcome: Outcome = "INCONCLUSIVE"
    if reason is None and interval is not None:
        if interval.upper < rule.max_drop:
            outcome = "GO"
        elif interval.lower > rule.max_drop:
            outcome = "NO-GO"
        else:
            reason = "the interval of the drop holds the largest drop that is allowed: more docs could tell"
    return TaskOutcome(task, outcome, rule.against, rule.max_drop, drop, interval, n, reason)


# n, the drop, its interval, and why there is nothing to decide on.
_Drop = tuple[int, float | None, stats.Interval | None, str | None]


def _published(rule: Gate, judged: TaskJudgement | None, _: TaskComparison | None) -> _Drop:  # noqa: ARG001
    numbers = judged.numbers if judged else ()
    for number in numbers:
        if number.difference is not None and number.difference_interval is not None:
            return number.n, 0.0 - number.difference, number.difference_interval.scaled(-1), None
    return (numbers[0].n if numbers else 0), None, None, numbers[0].reason if numbers else "this task was not run"


def _recorded(rule: Gate, judged: TaskJudgement | None, _: TaskComparison | None) -> _Drop:
    if judged is None or judged.result is None:
        return 0, None, None, "this task was not run"
    recorded = judged.recorded
    if recorded is None and reading_of(judged.result, judged.entry) is not None:
        return (
            0,
            None,
            None,
            "what Meta recorded for this task is no verdict on an answer; gate on the published number",
        )
    if recorded is None:
        return 0, None, None, "there are no recorded verdicts to hold this run against"
    drop = recorded.n, 0.0 - recorded.difference, recorded.interval.scaled(-1)
    reason = other_settings(judged.result)
    if rule.min_docs is None:
        reason = reason or (unfinished(judged.result, judged.entry) if judged.entry else "the pack is not known")
    return *drop, reason or _enough(recorded.n, rule.min_docs)


def _baseline(rule: Gate, _: TaskJudgement | None, compared: TaskComparison | None) -> _Drop:
    if compared is None:
        return 0, None, None, "there are no samples of this task in both runs"
    n = compared.total.n
    drop = n, 0.0 - compared.total.difference, compared.total.interval.scaled(-1)
    if compared.unlike is not None:
        return *drop, compared.unlike
    if rule.min_docs is not None:
        return *drop, _enough(n, rule.min_docs)
    if n != compared.docs_of_task or compared.only_before or compared.only_after:
        return *drop, f"{n} of {compared.docs_of_task or 'an unknown number of'} docs are in both runs"
    return *drop, None


def _enough(n: int, min_docs: int | None) -> str | None:
    return f"{n} docs, and {min_docs} are asked for" if min_docs is not None and n < min_docs else None
