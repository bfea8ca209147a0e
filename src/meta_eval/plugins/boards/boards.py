"""Leaderboards: tasks and shots in lm-eval, and the arithmetic from scores to the number that a board shows.

The facts and their sources are in ``boards.yaml``, which is read on first use. An error in it is a bug of meta-eval and
raises a plain exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_Percent = Annotated[float, Field(ge=0, le=100)]
BoardChoices = Annotated[int, Field(ge=2)]


class _Fact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BoardColumn(_Fact):
    """A column of a board. The attributes are those of ``boards.yaml``."""

    name: str
    tasks: tuple[str, ...] = Field(min_length=1)
    shots: int = Field(ge=0)
    metrics: tuple[str, ...] = Field(min_length=1)
    averaging: Literal["tasks", "docs"] | None = None
    choices: BoardChoices | Mapping[str, BoardChoices] | None = None
    shown: Mapping[str, _Percent] = {}
    note: str | None = None

    @model_validator(mode="after")
    def _chances_of_tasks_are_taken_before_their_mean(self) -> Self:
        if self.averaging == "docs" and isinstance(self.choices, Mapping):
            raise ValueError(f"{self.name}: a mean over docs has one number of choices")
        return self

    def chance(self, task: str) -> float:
        """The share that guessing gets right. 0 if the board does not subtract it.

        Raises:
            KeyError: The board lists choices per task, but not for this task.
        """
        if self.choices is None:
            return 0.0
        return 1 / (self.choices[task] if isinstance(self.choices, Mapping) else self.choices)


class Absent(_Fact):
    """A benchmark that the source names but lm-eval lacks, and why."""

    name: str
    why: str


class Board(_Fact):
    """A board: its parts, and whether its number is their mean.

    ``recorded``: its tasks are those of its own recorded runs. lm-eval has none of these names.
    """

    name: str
    title: str
    source: str
    mean: bool
    note: str
    parts: tuple[BoardColumn, ...]
    absent: tuple[Absent, ...] = ()
    recorded: bool = False


def normalise_score(value: float, chance: float) -> float:
    """Rescale a share so that guessing gives 0 and a perfect score gives 1. Below chance is 0 too.

    Args:
        value: A share, 0 to 1.
        chance: The share that guessing gets right, at least 0 and below 1.

    Source: the Open LLM Leaderboard's page on normalisation (huggingface.co/docs/leaderboards).
    """
    return max(0.0, (value - chance) / (1 - chance))


def compute_part(
    part: BoardColumn, scores: Mapping[str, Mapping[str, float]], docs: Mapping[str, int] | None = None
) -> float | None:
    """Compute the number that a board shows for a part, as a share from 0 to 1.

    Args:
        part: The part.
        scores: Shares from 0 to 1 by task and ``metric,filter``. Exactly the tasks of the part.
        docs: Number of docs by task. Needed only if the part is a mean over docs of several tasks.

    Returns:
        None if no task has any of the part's metrics, or a task lacks the metric.

    Raises:
        KeyError: `docs` or the board's choices lack a task.
    """
    if not scores:
        return None
    means = []
    for metric in part.metrics:
        values = {task: task_scores[metric] for task, task_scores in scores.items() if metric in task_scores}
        if len(values) < len(scores):
            return None
        if part.averaging == "docs":
            sizes = {task: (docs or {})[task] for task in values} if len(values) > 1 else dict.fromkeys(values, 1)
            pooled = sum(values[task] * sizes[task] for task in values) / sum(sizes.values())
            means.append(normalise_score(pooled, part.chance("")))
        else:
            means.append(fmean(normalise_score(value, part.chance(task)) for task, value in values.items()))
    return fmean(means)


def find_board(name: str) -> Board | None:
    """Find a board by name. None if there is none."""
    return list_boards().get(name)


@cache
def list_boards() -> Mapping[str, Board]:
    """All boards by name, in the order of the file."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # 8 times as fast, if it is available
    text = files(__package__).joinpath("boards.yaml").read_text(encoding="utf-8")
    facts = yaml.load(text, loader)  # noqa: S506 (both are safe)
    return {board.name: board for board in map(Board.model_validate, facts["boards"])}
