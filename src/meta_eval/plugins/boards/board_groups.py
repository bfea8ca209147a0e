"""Leaderboards as groups of tasks: named in ``tasks``, found in a recorded run, and scored in a report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from meta_eval.plugins.boards import boards
from meta_eval.plugins.boards.board_scores import compute_board_scores
from meta_eval.sockets import (
    GroupPart,
    GroupScore,
    Manifest,
    TaskGroup,
    TaskGroups,
    TaskRun,
    has_task,
    list_group_members,
)


class BoardGroups(TaskGroups):
    """The leaderboards. The tasks of some are those of their own recorded runs, which lm-eval does not have."""

    def list_names(self) -> Collection[str]:
        return [board.name for board in boards.list_boards().values() if not board.recorded]

    def find_group(self, name: str) -> TaskGroup | None:
        board = boards.find_board(name)
        if board is None or board.recorded:
            return None
        notes = [board.note, *(f"{part.name}: {part.note}" for part in board.parts if part.note)]
        absent = [f"{benchmark.name} is left out: {benchmark.why}" for benchmark in board.absent]
        parts = [GroupPart(part.name, part.tasks, part.shots) for part in board.parts]
        return TaskGroup(board.name, parts, (*notes, *absent))

    def find_covered(
        self, tasks: Mapping[str, str | None], record_groups: Mapping[str, tuple[str, ...]]
    ) -> Mapping[str, tuple[str, ...]]:
        return find_board_groups(tasks, record_groups)

    def compute_scores(self, manifest: Manifest, runs: Mapping[str, TaskRun]) -> Sequence[GroupScore]:
        return compute_board_scores(manifest, runs)


def find_board_groups(
    tasks: Mapping[str, str | None], record_groups: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Find the leaderboards with at least one part that the tasks cover completely, and the groups that these parts
    name.

    A part covers only tasks with its number of shots.

    Args:
        tasks: The tasks of the pack, each with the shots of its record; None if unknown.
        record_groups: The record's own groups; others are looked up in the installed lm-eval.
    """
    groups: dict[str, tuple[str, ...]] = {}
    for board in boards.list_boards().values():
        group_tasks: dict[str, None] = {}
        for part in board.parts:
            comparable = {name for name, shots in tasks.items() if board.recorded or shots == str(part.shots)}
            # Tasks of a leaderboard's own records are named individually; lm-eval does not know them.
            members = {
                name: (name,) if board.recorded else _members(name, comparable, record_groups, part)
                for name in part.tasks
            }
            needed = [task for of_name in members.values() for task in of_name]
            if needed and comparable.issuperset(needed):
                group_tasks.update(dict.fromkeys(needed))
                groups.update({name: of_name for name, of_name in members.items() if of_name != (name,)})
        if group_tasks:
            groups[board.name] = tuple(group_tasks)
    return groups


def _members(
    name: str, tasks: set[str], record_groups: Mapping[str, tuple[str, ...]], part: boards.BoardColumn
) -> tuple[str, ...]:
    """The tasks of a leaderboard's name: its listed choices, or else the tasks of the group."""
    if name in tasks:
        return (name,)
    if isinstance(part.choices, Mapping):
        return tuple(part.choices)
    # Looking a name up takes seconds, and members of lm-eval's groups begin as the group does: mmlu, leaderboard_gpqa.
    if not any(task.startswith(name.partition("_")[0]) for task in tasks) or has_task(name):
        return (name,)
    # lm-eval knows all members of its groups; only the record knows the members of its own.
    return list_group_members(name) or record_groups.get(name, (name,))
