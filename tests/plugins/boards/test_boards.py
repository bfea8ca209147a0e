"""Boards: their tasks are lm-eval's own, and their numbers are made by the board's rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marks import few, thorough

from meta_eval.pack.records.task_code import find_code, has_task, list_group_members
from meta_eval.plugins.boards import boards
from meta_eval.plugins.boards.boards import compute_part, normalise_score

NOWHERE = Path("no such folder")
PARTS = [(board.name, part) for board in boards.list_boards().values() if not board.recorded for part in board.parts]


def part_of(board: str, name: str) -> boards.BoardColumn:
    leaderboard = boards.find_board(board)
    assert leaderboard is not None
    return next(part for part in leaderboard.parts if part.name == name)


def tasks_of(part: boards.BoardColumn) -> list[str]:
    return [task for name in part.tasks for task in ([name] if has_task(name) else list_group_members(name))]


@thorough
@pytest.mark.parametrize(("board", "part"), PARTS, ids=[f"{board}-{part.name}" for board, part in PARTS])
def test_the_installed_lm_eval_has_the_tasks_and_the_metrics_of_every_part(
    board: str, part: boards.BoardColumn
) -> None:
    tasks = tasks_of(part)
    assert tasks, part.name
    if isinstance(part.choices, dict):
        assert set(part.choices) == set(tasks)
    code = find_code(tasks[0], NOWHERE)
    assert {spec.partition(",")[0] for spec in part.metrics} <= {
        metric["metric"] for metric in code.settings["metric_list"]
    }
    filters = {pipeline["name"] for pipeline in code.settings.get("filter_list") or [{"name": "none"}]}
    assert {spec.partition(",")[2] for spec in part.metrics} <= filters


def test_the_chance_of_every_bbh_task_is_that_of_the_choices_that_lm_eval_gives() -> None:
    part = part_of("leaderboard_v2", "BBH")
    for task in few(tasks_of(part), 4):
        assert part.chance(task) == 1 / len(find_code(task, NOWHERE).settings["doc_to_choice"]), task


def test_v2_counts_chance_off_each_subtask_before_it_averages() -> None:
    # By hand: (0.75 - 0.5) / 0.5 = 0.5; 0.1 is below 1/5, so 0; (2/3 - 1/3) / (2/3) = 0.5. The mean is a third.
    scores = {"murder_mysteries": 0.75, "object_placements": 0.1, "team_allocation": 2 / 3}
    score = compute_part(
        part_of("leaderboard_v2", "MUSR"),
        {f"leaderboard_musr_{name}": {"acc_norm,none": value} for name, value in scores.items()},
    )
    assert score == pytest.approx(1 / 3)


def test_gpqa_is_pooled_over_docs_before_chance_is_counted_off() -> None:
    scores = {"a": {"acc_norm,none": 0.25}, "b": {"acc_norm,none": 0.65}}
    score = compute_part(part_of("leaderboard_v2", "GPQA"), scores, {"a": 300, "b": 100})
    assert score == pytest.approx((0.35 - 0.25) / 0.75)


def test_mmlu_of_v1_is_the_mean_of_its_subjects_whatever_their_size() -> None:
    scores = {"a": {"acc,none": 0.2}, "b": {"acc,none": 0.4}}
    assert compute_part(part_of("leaderboard_v1", "MMLU"), scores, {"a": 1, "b": 999}) == pytest.approx(0.3)


def test_ifeval_of_v2_is_the_mean_of_both_strict_accuracies() -> None:
    scores = {"prompt_level_strict_acc,none": 0.3, "inst_level_strict_acc,none": 0.5}
    assert compute_part(part_of("leaderboard_v2", "IFEval"), {"leaderboard_ifeval": scores}) == pytest.approx(0.4)


def test_a_part_that_lacks_a_metric_has_no_value() -> None:
    assert compute_part(part_of("leaderboard_v1", "ARC"), {"arc_challenge": {"acc,none": 0.3}}) is None
    assert compute_part(part_of("leaderboard_v1", "ARC"), {}) is None


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.0, 1 / 19, 0.25, 0.5]))
def test_normalised_shares_stay_shares_and_keep_their_order(score: float, other: float, chance: float) -> None:
    low, high = sorted((normalise_score(score, chance), normalise_score(other, chance)))
    assert 0 <= low <= high <= 1
    assert (normalise_score(score, chance) <= normalise_score(other, chance)) == (score <= other) or max(
        score, other
    ) <= chance
    assert normalise_score(score, 0.0) == score
