"""The socket for groups of lm-eval's tasks that a plug-in names, such as the tasks and shots of a leaderboard.

A package adds groups by an entry point of the group ``meta_eval.task_groups``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meta_eval.base.errors import UserError
from meta_eval.base.extensions import find_extensions, load_extension
from meta_eval.base.logs import log

if TYPE_CHECKING:
    from meta_eval.harness.lm_eval_run import TaskRun
    from meta_eval.pack.manifest import Manifest

TASK_GROUPS_GROUP = "meta_eval.task_groups"

# The group that holds every task of a record.
ALL = "recorded"


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Tasks of a group that are asked with one number of shots."""

    name: str
    """Its name in messages."""

    tasks: Sequence[str]
    """Tasks, and groups of lm-eval."""

    shots: int
    """Number of examples before each question."""


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """A group of lm-eval's tasks."""

    name: str
    """Its name in ``tasks``."""

    parts: Sequence[GroupPart]
    """Its tasks."""

    warnings: Sequence[str] = ()
    """What to know about it, each a sentence."""


@dataclass(frozen=True, slots=True)
class GroupScore:
    """A score of a group."""

    group: str
    """The group."""

    label: str
    """Which score it is: a part, or the mean."""

    value: float
    """From 0 to 1."""


class TaskGroups(ABC):
    """Groups of lm-eval's tasks."""

    @abstractmethod
    def list_names(self) -> Collection[str]:
        """The groups that ``tasks`` may name with ``evals_dataset: lm-eval``."""

    @abstractmethod
    def find_group(self, name: str) -> TaskGroup | None:
        """The group of a name; None if there is none."""

    @abstractmethod
    def find_covered(
        self, tasks: Mapping[str, str | None], record_groups: Mapping[str, tuple[str, ...]]
    ) -> Mapping[str, tuple[str, ...]]:
        """The groups that tasks make up, and the groups that these need.

        Args:
            tasks: The tasks of a record, each with its shots; None if unknown.
            record_groups: The record's own groups.
        """

    @abstractmethod
    def compute_scores(self, manifest: Manifest, runs: Mapping[str, TaskRun]) -> Sequence[GroupScore]:
        """The scores of the groups of a pack that were run.

        Args:
            manifest: The manifest of the pack.
            runs: The runs by task.
        """


def list_task_groups() -> Iterator[TaskGroups]:
    """What plug-ins offer, sorted by name. One that cannot be loaded is left out with a warning."""
    for extension in find_extensions(TASK_GROUPS_GROUP).values():
        try:
            groups: TaskGroups = load_extension(extension, TaskGroups)
        except UserError as error:
            log.warning(f"groups of tasks are unknown: {error}")
        else:
            yield groups


def find_task_group(name: str) -> TaskGroup | None:
    """The group of a name, of any plug-in; None if there is none."""
    return next((group for groups in list_task_groups() if (group := groups.find_group(name)) is not None), None)


def find_covered_groups(
    tasks: Mapping[str, str | None], record_groups: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """See `TaskGroups.find_covered`; of all plug-ins."""
    return {
        name: members
        for groups in list_task_groups()
        for name, members in groups.find_covered(tasks, record_groups).items()
    }
