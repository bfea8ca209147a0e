"""Leaderboards as groups of tasks: named in ``tasks``, found in a recorded run, and scored in a report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.records.task_code import has_task, list_group_members
from meta_eval.plugins.boards import boards
from meta_eval.sockets import GroupPart, GroupScore, Manifest, TaskGroup, TaskGroups

# Key of the mean of a leaderboard's parts.
MEAN_PART = "mean"


# Labels of variants of a part: without subtracting chance, of the record, and both.
LABEL_RAW, LABEL_RECORDED, LABEL_RECORDED_RAW = "{}, raw", "{}, recorded", "{}, recorded and raw"

_Scores = Mapping[str, Mapping[str, float]]


def compute_board_scores(manifest: Manifest, runs: Mapping[str, TaskRun]) -> tuple[GroupScore, ...]:
    """Compute the parts of each leaderboard of a pack by its own rules, and their mean.

    A part needs all its tasks completely run, and the mean needs all parts. For a recorded run its own scores are
    added, and the scores without subtracting chance.

    Args:
        manifest: The manifest of the pack.
        runs: The runs by task.
    """
    docs = {name: entry.docs for name, entry in manifest.tasks.items()}
    measured = {
        name: {metric_key: aggregate.value for metric_key, aggregate in run.aggregates.items()}
        for name, run in runs.items()
        if name in docs and len(run.docs) == docs[name]
    }
    recorded = {
        name: {number.metric: number.value / 100 for number in entry.reference_scores}
        for name, entry in manifest.tasks.items()
        if entry.record is not None and entry.record.model is not None
    }
    averages: list[GroupScore] = []
    for board in filter(None, map(boards.find_board, manifest.groups)):
        numbers = {part.name: _value(part, manifest, measured, docs) for part in board.parts}
        recorded_numbers = {part.name: _value(part, manifest, recorded, docs) for part in board.parts}
        if board.mean:
            numbers[MEAN_PART], recorded_numbers[MEAN_PART] = _mean(numbers), _mean(recorded_numbers)
        for name, value in numbers.items():
            averages += _make_average(board, name, value, "{}")
            averages += _make_average(board, name, recorded_numbers[name], LABEL_RECORDED)
        for part in board.parts if recorded else ():
            if part.choices is not None:
                bare = part.model_copy(update={"choices": None})
                averages += _make_average(board, part.name, _value(bare, manifest, measured, docs), LABEL_RAW)
                averages += _make_average(board, part.name, _value(bare, manifest, recorded, docs), LABEL_RECORDED_RAW)
    return tuple(averages)


def _make_average(board: boards.Board, name: str, value: float | None, label: str) -> list[GroupScore]:
    return [] if value is None else [GroupScore(board.name, label.format(name), value)]


def _mean(numbers: Mapping[str, float | None]) -> float | None:
    values = [value for value in numbers.values() if value is not None]
    return fmean(values) if len(values) == len(numbers) else None


def _value(part: boards.BoardColumn, manifest: Manifest, scores: _Scores, docs: Mapping[str, int]) -> float | None:
    tasks = [task for name in part.tasks for task in manifest.groups.get(name, (name,))]
    if any(task not in scores for task in tasks):
        return None
    return boards.compute_part(part, {task: scores[task] for task in tasks}, docs)


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
