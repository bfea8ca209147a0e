"""Thresholds on scores, as vLLM's CI writes them, and the gate that takes their place.

A file of ``.buildkite/lm-eval-harness/configs`` of vLLM, or of ``test/lm_eval_configs`` of SGLang, names tasks with
metrics and a score each, and a relative tolerance. Its test fails if a score is below ``value * (1 - rtol)``. Two runs
of one model differ, because docs flip. A loss adds its own variance: which docs are lost is chance too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from meta_eval.base.display import one_line
from meta_eval.base.model_errors import describe_first
from meta_eval.base.thresholds import MARGIN, PLANNED_FLIPS, POWER
from meta_eval.base.yaml_files import read_yaml
from meta_eval.sockets import ConfigError
from meta_eval.stats.identical import chance_of_change

# The most docs of a task: more than any benchmark has.
MOST_DOCS = 10**7

# vLLM's and SGLang's relative tolerance where a file names none.
DEFAULT_RTOL = 0.08

# Docs that a product of decimals may be off by; and how exactly a drop is found.
_ROUNDING, _STEP = 1e-6, 1e-5

# The least score, and the least tolerance from 0 to 1 that a gate takes as its margin.
_LEAST = 1e-9
_LEAST_MARGIN = 1e-18

_HINT = "Name a file such as .buildkite/lm-eval-harness/configs/Meta-Llama-3-8B-Instruct.yaml of vLLM"


def _refuse_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("is true or false, and no number")
    return value


_Number = Annotated[float, BeforeValidator(_refuse_truth)]


class _Metric(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(min_length=1, max_length=200)]
    value: Annotated[_Number, Field(ge=_LEAST, le=1)]
    mean: Annotated[_Number, Field(ge=_LEAST, le=1)] | None = None
    """That of past runs, in a file of `run_thresholds`: ``value`` is then the lowest score that does not fail."""


class _Task(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(min_length=1, max_length=200)]
    metrics: Annotated[list[_Metric], Field(min_length=1)]


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    tasks: Annotated[list[_Task], Field(min_length=1)]
    limit: Annotated[int, Field(gt=0, le=MOST_DOCS, strict=True)] | None = None
    rtol: Annotated[_Number, Field(ge=0, lt=1)] | None = None


@dataclass(frozen=True, slots=True)
class ScoreThreshold:
    """A threshold on the score of a task."""

    task: str
    metric: str
    """As lm-eval names them."""

    value: float
    """The expected score, from 0 to 1."""

    tolerance: float
    """How far below it a score may be, from 0 to 1; 0 for none."""

    docs: int | None
    """Number of docs; None if unknown."""

    @property
    def has_tolerance(self) -> bool:
        """Whether the tolerance is one that a gate can have as its margin."""
        return self.tolerance >= _LEAST_MARGIN

    def find_failures(self, flips: float = PLANNED_FLIPS, loss: float = 0.0) -> float | None:
        """How often a model fails, from 0 to 1; None if the docs are unknown.

        A score is a whole number of docs. Where the expected score is none, the two next to it are mixed.

        Args:
            flips: The share of docs that flip between two runs of a model, half of them either way.
            loss: The share of docs that the model loses besides; 0 for an identical model.
        """
        if self.docs is None:
            return None
        expected = self.value * self.docs
        fewest = math.ceil((self.value - self.tolerance) * self.docs - _ROUNDING)
        low = math.floor(expected + _ROUNDING)
        failures = [
            chance_of_change(self.docs, flips / 2 + loss, flips / 2, fewest - right) for right in (low, low + 1)
        ]
        share = max(0.0, expected - low)
        return (1 - share) * failures[0] + share * failures[1]

    def find_visible_drop(self, flips: float = PLANNED_FLIPS) -> float | None:
        """The drop that fails in 80 % of runs, from 0 to 1; None if the docs are unknown, or no drop fails so often."""
        low, high = 0.0, min(self.value, 1 - flips)
        if (self.find_failures(flips, high) or 0.0) < POWER:
            return None
        while high - low > _STEP:
            middle = (low + high) / 2
            low, high = (low, middle) if (self.find_failures(flips, middle) or 0.0) >= POWER else (middle, high)
        return high


def read_thresholds(path: Path, docs: int | None = None) -> list[ScoreThreshold]:
    """Read a file of thresholds.

    Args:
        path: The YAML file.
        docs: Number of docs of each task; None for the file's ``limit``.

    Raises:
        ConfigError: It cannot be read, or has no thresholds.
    """
    tree = read_yaml(path, error=ConfigError, hint=_HINT).tree
    try:
        content = _File.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(describe_first(error), where=str(path), hint=_HINT) from None
    rtol = DEFAULT_RTOL if content.rtol is None else content.rtol
    return [
        _make_threshold(task.name, metric, rtol, docs or content.limit)
        for task in content.tasks
        for metric in task.metrics
    ]


def _make_threshold(task: str, metric: _Metric, rtol: float, docs: int | None) -> ScoreThreshold:
    expected = metric.value if metric.mean is None else max(metric.mean, metric.value)
    return ScoreThreshold(task, metric.name, expected, expected - metric.value * (1 - rtol), docs)


def write_gate(thresholds: list[ScoreThreshold], source: str) -> str:
    """The text of a ``gate.yaml`` with the same tolerance in points, task by task, and for their mean.

    A gate has no margin of 0: without a tolerance it is the default one. The drop is paired with a run of the baseline,
    doc by doc. So flips cost less than in a comparison with a number.
    """
    tolerances: dict[str, list[float]] = {}
    for threshold in thresholds:
        tolerances.setdefault(threshold.task, []).append(
            100 * (threshold.tolerance if threshold.has_tolerance else MARGIN)
        )
    margins = {task: min(of_task) for task, of_task in tolerances.items()}
    mean = sum(margins.values()) / len(margins)
    lines = [
        f"# Made of {one_line(source)}: its tolerance in points. Smaller margins see smaller drops.",
        "baseline_kind: run  # compare BASELINE CANDIDATE --gate gate.yaml",
        "margin:",
        f"  mean: {_decimal(mean)}",
        *(f"  {_quote(task)}: {_decimal(points)}" for task, points in margins.items()),
        "tasks:",
        *(f"  - {_quote(task)}" for task in margins),
    ]
    return "\n".join(lines) + "\n"


def _decimal(points: float) -> str:
    """Four digits, without an exponent: to YAML 1.1 ``8e-07`` is a text."""
    return f"{Decimal(f'{points:.4g}'):f}"


def _quote(name: str) -> str:
    """A YAML string."""
    import json

    return json.dumps(name)
