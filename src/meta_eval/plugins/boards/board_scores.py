"""Computes the scores that a leaderboard would show for a run: each part, and their mean."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from meta_eval.plugins.boards import boards
from meta_eval.sockets import GroupScore, Manifest, TaskRun

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
