"""The scores of groups that plug-ins name, such as the number that a leaderboard would show."""

from __future__ import annotations

from collections.abc import Mapping

from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.judge.decision import LmEvalAverage
from meta_eval.pack.manifest import Manifest
from meta_eval.pack.records.task_groups import list_task_groups


def compute_group_scores(manifest: Manifest, runs: Mapping[str, TaskRun]) -> tuple[LmEvalAverage, ...]:
    """Compute the scores of the groups of a pack.

    Args:
        manifest: The manifest of the pack.
        runs: The runs by task.
    """
    return tuple(
        LmEvalAverage(score.group, score.label, score.value, None, is_fraction=True)
        for groups in list_task_groups()
        for score in groups.compute_scores(manifest, runs)
    )
