"""What the boards of the catalog would show of a run: each part, and their mean."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from meta_eval.catalog import boards
from meta_eval.judging.model import LmEvalAverage
from meta_eval.pack.manifest import Manifest
from meta_eval.results.run import TaskRun

# Under which the mean of a board's parts stands beside them.
MEAN = "mean"


def board_values(manifest: Manifest, runs: Mapping[str, TaskRun]) -> tuple[LmEvalAverage, ...]:
    """The parts of each board that a pack was made of, by the board's own rules, and the mean of them.

    A part is left out unless all its tasks were run to the end, and the mean unless all parts are there.

    Args:
        manifest: Of the pack.
        runs: By task what was run.
    """
    docs = {name: entry.docs for name, entry in manifest.tasks.items()}
    whole = {name: run for name, run in runs.items() if name in docs and len(run.docs) == docs[name]}
    found: list[LmEvalAverage] = []
    for board in filter(None, map(boards.board, manifest.groups)):
        values = [_value(part, manifest, whole, docs) for part in board.parts]
        named = [(part.name, value) for part, value in zip(board.parts, values, strict=True) if value is not None]
        if board.mean and len(named) == len(values):
            named.append((MEAN, fmean(value for _, value in named)))
        found += [LmEvalAverage(board.name, name, value / 100, None, True) for name, value in named]
    return tuple(found)


def _value(part: boards.Part, manifest: Manifest, runs: Mapping[str, TaskRun], docs: Mapping[str, int]) -> float | None:
    tasks = [task for name in part.tasks for task in manifest.groups.get(name, (name,))]
    if any(task not in runs for task in tasks):
        return None
    scores = {task: {spec: one.value for spec, one in runs[task].aggregates.items()} for task in tasks}
    return boards.part_value(part, scores, docs)
