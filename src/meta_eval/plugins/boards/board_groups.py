"""Finds the leaderboards that a recorded run covers. Each becomes a group of the pack, and the report shows its
score."""

from __future__ import annotations

from collections.abc import Mapping

from meta_eval.plugins.boards import boards
from meta_eval.sockets import has_task, list_group_members


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
