"""The gate: the rules of a decision. Tasks, baseline, allowed drop, and the answers that it does not accept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from meta_eval.base import assets
from meta_eval.base.display import quoted
from meta_eval.base.errors import ConfigError, describe_wrong_value, join_errors, locating, suggest_name
from meta_eval.base.logs import log
from meta_eval.base.thresholds import MARGIN, CutAnswers, Weighting
from meta_eval.base.yaml_files import read_yaml
from meta_eval.harness.choice import Choice
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.settings import Margin
from meta_eval.judge.alarm_kinds import AlarmOccurrence, Condition, DocPair, Severity, is_unextracted
from meta_eval.judge.evidence import find_evidence, list_evidence
from meta_eval.pack.manifest import Manifest
from meta_eval.pack.task_choice import MEAN_KEY, expand_margins

CONDITIONS = (
    Condition("unextracted", "answers in which nothing was found to grade", "gate failed", is_unextracted),
    Condition(
        "cut",
        "answers that reached the token limit",
        "gate not met",
        lambda doc, _: doc.is_cut_thinking or doc.limit_hit,
    ),
    Condition(
        "empty", "empty answers, and likelihoods that are no numbers", "gate not met", lambda doc, _: doc.is_unanswered
    ),
)


def list_conditions() -> tuple[Condition, ...]:
    """All conditions: those of the core, then those of plug-ins."""
    return (*CONDITIONS, *(condition for evidence in list_evidence().values() for condition in evidence.conditions))


def check_conditions(
    task: str, docs: Sequence[DocResult], filter_name: str, limits: Mapping[str, float], pairs: Sequence[DocPair] = ()
) -> Iterator[tuple[Severity, AlarmOccurrence]]:
    """The limits of a gate that a run of a task exceeds or may exceed, grouped by severity.

    Args:
        task: Its name.
        docs: The docs of the run.
        filter_name: The filter of its verdicts.
        limits: The largest allowed share by key of a condition, in percent.
        pairs: The docs that the baseline answered too.
    """
    notes: dict[Severity, list[str]] = {}
    is_core = limits.keys() <= {condition.key for condition in CONDITIONS}
    for condition in CONDITIONS if is_core else list_conditions():
        if condition.key in limits and docs:
            for severity, note in _compare_share(
                condition, condition.mark(docs, pairs, filter_name), limits[condition.key]
            ):
                notes.setdefault(severity, []).append(note)
    for severity, clauses in notes.items():
        yield severity, AlarmOccurrence(task, note="; ".join(clauses))


def exceed_limits(
    task: str, docs: Sequence[DocResult], filter_name: str, limits: Mapping[str, float]
) -> Iterator[tuple[Severity, AlarmOccurrence]]:
    """The limits that a baseline is known to exceed. They forbid SHIP; DON'T SHIP is for the candidate alone.

    Args:
        task: Its name.
        docs: The docs of the baseline.
        filter_name: The filter of its verdicts.
        limits: The largest allowed share by key of a condition, in percent.
    """
    notes = []
    for condition in list_conditions() if limits and docs else ():
        if condition.key in limits and condition.compare is None:
            marks = [mark is True for mark in condition.mark(docs, (), filter_name)]
            notes += [note for _, note in _compare_share(condition, marks, limits[condition.key])]
    if notes:
        yield "gate not met", AlarmOccurrence(task, note="; ".join(notes))


def _compare_share(condition: Condition, marks: Sequence[bool | None], limit: float) -> Iterator[tuple[Severity, str]]:
    count, unknown = marks.count(True), marks.count(None)
    allowed = f"{condition.counted}, and {limit:g} % are allowed"
    if 100 * count > limit * len(marks):
        yield condition.severity, f"{count:,} of {len(marks):,} are {allowed}"
    elif 100 * (count + unknown) > limit * len(marks):
        yield "gate not met", f"of {unknown:,} of {len(marks):,} it is not known whether they are {allowed}"


# Points. A smaller margin may be meant as a share.
_SMALL_MARGIN = 0.1

BaselineKind = Literal["published", "recorded", "run"]

_HINT = f"Rules and examples: {assets.asset_path('docs/guides/gate.md')}"

_Points = Annotated[float, Field(gt=0, lt=100, allow_inf_nan=False, strict=True)]
_Name = Annotated[str, Field(min_length=1)]
_Docs = Annotated[int, Field(ge=1, strict=True)]
_Percent = Annotated[float, Field(ge=0, lt=100, allow_inf_nan=False, strict=True)]


class _GateLimits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    cap: _Points | None = None
    """The limit of the worse end of the interval of every task and subtask for SHIP, in percentage points; None for
    5.
    """

    cut_answers: CutAnswers | None = None
    """What the drop does with cut answers (`meta_eval.judge.cut_answers`). None for the pack's value, else
    ``graded``.
    """

    baseline_kind: BaselineKind | None = None
    """The kind of baseline: the published score, Meta's recorded answers or verdicts, or a run. None for the best
    available: in `compare` the baseline run, else Meta's answers, verdicts, or score.
    """

    min_docs: _Docs | None = None
    """The docs that suffice if docs are paired; without it all docs of a task are needed. It does not cover docs that
    the run did not answer (`meta_eval.judge.run_alarms.has_fixed_order`).
    """

    limits: dict[str, _Percent] = Field(default_factory=dict)
    """The largest allowed share of a task's answers, in percent, by key of a `Condition`."""

    @field_validator("limits")
    @classmethod
    def _check_limits(cls, limits: dict[str, float]) -> dict[str, float]:
        keys = [condition.key for condition in CONDITIONS]
        if not limits.keys() <= {*keys}:
            keys = [condition.key for condition in list_conditions()]
        for key in limits:
            if key not in keys:
                raise ValueError(
                    f"there is no condition {key!r}{suggest_name(key, keys) or '.'} Conditions: {', '.join(keys)}"
                )
        return limits

    @property
    def cap_fraction(self) -> float | None:
        """The cap from 0 to 1."""
        return None if self.cap is None else self.cap / 100


class GateTask(_GateLimits):
    """Rules of a task that override the gate's; None, or a missing limit, keeps the gate's value."""

    margin: _Points | None = None

    @property
    def margin_fraction(self) -> float | None:
        """The margin from 0 to 1."""
        return None if self.margin is None else self.margin / 100


class TextsRule(BaseModel):
    """The rules of `compare --texts`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    min_docs: _Docs | None = None
    """With fewer docs the outcome is undecided. None for the default."""


class Gate(_GateLimits):
    """``gate.yaml``. Evidence of plug-ins adds keys (`meta_eval.judge.evidence`)."""

    margin: Margin | None = None
    """The largest allowed drop, in percentage points; or a mapping of ``mean``, tasks, groups and patterns to such
    numbers. That of a task that is no share is in the unit of its metric. None for the pack's, else 1.
    """

    weights: Weighting | None = None
    """The weight of each task in the mean drop (`meta_eval.stats.weigh_tasks`). None for the pack's, else by
    precision.
    """

    tasks: dict[str, GateTask] = Field(default_factory=dict)
    """Rules of tasks, groups and patterns. A mapping only gives rules: all tasks are decided on. A list chooses the
    tasks to decide on, by name or as ``{name: rules}``. In both a minus leaves a name out (``-mmlu_law``). Empty for
    every task of the pack. A chosen group that lm-eval averages is decided on as a whole; other groups are replaced by
    their tasks.
    """

    _is_choice: bool = PrivateAttr(default=False)
    _file: str = PrivateAttr(default="")

    cluster: dict[str, _Name] = Field(default_factory=dict)
    """The field of docs that names their cluster, by task or by a pattern such as ``mmlu_*``."""

    texts: TextsRule = TextsRule()
    """The rules of `compare --texts`."""

    @field_validator("tasks", mode="before")
    @classmethod
    def _names_alone(cls, value: Any) -> Any:
        if value == []:
            raise ValueError("an empty list chooses no task; leave the key out for all")
        if isinstance(value, list):
            entries = [{name: None} if isinstance(name, str) else name for name in value]
            if not all(isinstance(entry, dict) for entry in entries):
                return value
            names = [name for entry in entries for name in entry]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"{twice!s:.80} is named twice")
            value = {name: rule for entry in entries for name, rule in entry.items()}
        return (
            {name: GateTask() if rule is None else rule for name, rule in value.items()}
            if isinstance(value, dict)
            else value
        )

    @model_validator(mode="wrap")
    @classmethod
    def _note_choice(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        gate = handler(value)
        if isinstance(value, dict):
            gate._is_choice = isinstance(value.get("tasks"), list)
        return gate

    @property
    def chosen(self) -> Mapping[str, GateTask]:
        """The tasks to decide on, with their rules; empty for all."""
        return self.tasks if self._is_choice else {}

    @property
    def rules_of_evidence(self) -> dict[str, Any]:
        """What the file says for plug-ins, by key."""
        keys = type(self).model_fields.keys() - Gate.model_fields.keys()
        return {key: rules for key in keys if (rules := getattr(self, key)) is not None}

    def locate(self, key: str) -> str:
        """The place of a key, for messages."""
        return f"{self._file}: {key}" if self._file else key

    def task_rules(self, task: str) -> GateTask:
        """The rules of a task. Its margin is None if it is the gate's."""
        task_rule = self.tasks.get(task, GateTask())
        by_name = self.margin if isinstance(self.margin, dict) else {}
        return GateTask(
            margin=task_rule.margin or by_name.get(task),
            cap=task_rule.cap,
            cut_answers=task_rule.cut_answers or self.cut_answers,
            baseline_kind=task_rule.baseline_kind or self.baseline_kind,
            min_docs=task_rule.min_docs or self.min_docs,
            limits={**self.limits, **task_rule.limits},
        )

    def choose(
        self, names: Sequence[str], groups: Mapping[str, Sequence[str]], left_out: Collection[str] = ()
    ) -> tuple[Gate, list[str]]:
        """Resolve patterns and names with a minus. Return the gate, and the default tasks to decide on.

        Args:
            names: The existing tasks.
            groups: The tasks of each group that it may name.
            left_out: What ``--tasks`` leaves out.

        Raises:
            ConfigError: It names an unknown task, or leaves out every task.
        """
        choice = Choice.of_names(list(self.tasks))
        members_of_groups = [task for tasks in groups.values() for task in tasks]
        every = [*names, *left_out, *members_of_groups]
        choice.check(every, groups, where=self.locate("tasks"), chooses=self._is_choice)
        tasks = Choice((), choice.excluded).of(names, groups)
        rules: dict[str, GateTask] = {}
        for name in sorted(choice.tasks, key=lambda name: name not in names):  # a task's own rule comes first
            is_complete = {*groups.get(name, ())} <= {*tasks}
            members = (name,) if name in groups and is_complete else Choice((name,)).of(tasks, groups)
            for member in members:
                rules.setdefault(member, self.tasks[name])
        if self._is_choice and choice.tasks and not rules:
            raise ConfigError("--tasks leaves out every task of the gate", hint="Name others with --tasks")
        return self.model_copy(update={"tasks": rules}), tasks

    def expand_groups(self, groups: Mapping[str, Sequence[str]]) -> Gate:
        """Replace groups by their tasks, with the group's rule unless a task has its own."""
        tasks = dict(self.tasks)
        for name, rule in self.tasks.items():
            for task in groups.get(name, ()):
                tasks.setdefault(task, rule)
        return self.model_copy(update={"tasks": tasks})

    @property
    def margin_fraction(self) -> float:
        """The margin of the mean, from 0 to 1."""
        points = self.margin.get(MEAN_KEY) if isinstance(self.margin, dict) else self.margin
        return MARGIN if points is None else points / 100

    def note_small_margin(self) -> None:
        """Say in a note that a very small margin is in points: who writes 0.01 may mean 1 percent."""
        points = self.margin.get(MEAN_KEY) if isinstance(self.margin, dict) else self.margin
        if points is not None and points < _SMALL_MARGIN:
            log.warning("the margin %g is %g points, not %g percent", points, points, 100 * points)

    def complete(self, manifest: Manifest | None, tasks: Iterable[str], groups: Mapping[str, Sequence[str]]) -> Gate:
        """Fill in margin and weights from the pack, else from the defaults.

        Args:
            manifest: Of the pack.
            tasks: The tasks that a margin may be for.
            groups: The groups that a margin may be for, with their tasks.

        Raises:
            ConfigError: A margin is for a task that is not there.
        """
        run = manifest.run_settings if manifest else None
        margin = self.margin or (run.margin if run else 100 * MARGIN)
        if isinstance(margin, dict):
            with locating(self.locate("margin") if self.margin else "margin"):
                margin = expand_margins(margin, [*tasks, *(manifest.left_out if manifest else ())], groups)
        weights = self.weights or (run.weights if run else "precision")
        cut_answers = self.cut_answers or (run.cut_answers if run else "graded")
        return self.model_copy(update={"margin": margin, "weights": weights, "cut_answers": cut_answers})

    def with_margin(self, points: float, *, where: str = "margin") -> Gate:
        """Set another margin.

        Raises:
            ConfigError: It is not a valid margin; ``where`` is its place.
        """
        return self.model_copy(update={"margin": _check_points(points, where)})

    def with_cap(self, points: float, *, where: str = "cap") -> Gate:
        """Set another cap.

        Raises:
            ConfigError: It is not a valid cap; ``where`` is its place.
        """
        return self.model_copy(update={"cap": _check_points(points, where)})


def _check_points(points: float, where: str) -> float:
    if not 0 < points < 100:
        what = f"{quoted(points).removesuffix('.0')} is not a number of points above 0 and below 100"
        raise ConfigError(what, where=where, hint="Such as 1 or 0.5")
    return points


def read_gate(path: Path) -> Gate:
    """Read ``gate.yaml``.

    Raises:
        ConfigError: It cannot be read, is not YAML, or has an invalid value.
    """
    tree = read_yaml(path, error=ConfigError, hint=_HINT).tree
    others = tree.keys() - Gate.model_fields.keys() if isinstance(tree, dict) else ()
    model = _extend_gate(others) if others else Gate
    try:
        gate = model.model_validate(tree)
    except ValidationError as error:
        raise join_errors([_key_error(item, path, model) for item in error.errors(include_url=False)]) from None
    gate._file = str(path)
    return gate


def _extend_gate(keys: Iterable[Any]) -> type[Gate]:
    """The gate with the keys of all plug-ins.

    Raises:
        ExtensionError: A plug-in of one of these keys cannot be loaded.
    """
    named = {key: evidence for key in map(str, keys) if (evidence := find_evidence(key))}
    fields: dict[str, Any] = {
        key: (evidence.rules, None)
        for key, evidence in {**list_evidence(), **named}.items()
        if evidence.rules and key not in Gate.model_fields
    }
    return create_model("Gate", __base__=Gate, **fields)


def _key_error(first: ErrorDetails, path: Path, model: type[Gate]) -> ConfigError:
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        inner: Any = model.model_fields[str(first["loc"][0])].annotation if len(first["loc"]) > 1 else model
        keys = list(inner.model_fields if hasattr(inner, "model_fields") else GateTask.model_fields)
        what = f"{key}: there is no such key{suggest_name(str(first['loc'][-1]), keys)}"
        return ConfigError(what, where=str(path), hint=f"Known keys: {', '.join(keys)}")
    message = describe_wrong_value(first["msg"], first["input"])
    what = f"{quoted(first['input'])} is not allowed: {message}"
    return ConfigError(f"{key}: {what}" if key else what, where=str(path), hint=_HINT)
