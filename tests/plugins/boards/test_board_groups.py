"""Leaderboards are groups of lm-eval's tasks, and groups of the records that cover them."""

from __future__ import annotations

from pathlib import Path

import pytest
from packs import prepare
from places import REPOSITORY
from recorded_runs import GSM8K, record, task_folder

from meta_eval.base.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.records.lm_eval_tasks import find_lm_eval_tasks

TASKS = REPOSITORY / "tools" / "lm_eval_tasks"


def test_a_board_is_its_tasks_with_its_shots_and_the_groups_of_lm_eval() -> None:
    tasks, groups = find_lm_eval_tasks(["leaderboard_v1"], TASKS)
    shots = {name: tasks[name] for name in ("arc_challenge", "hellaswag", "truthfulqa_mc2", "winogrande", "gsm8k")}
    assert shots == {"arc_challenge": 25, "hellaswag": 10, "truthfulqa_mc2": 0, "winogrande": 5, "gsm8k": 5}
    assert {tasks[name] for name in groups["mmlu"]} == {5}
    assert len(groups["leaderboard_v1"]) == len(tasks) == 57 + 5


def test_what_lm_eval_cannot_measure_of_a_board_is_said(caplog: pytest.LogCaptureFixture) -> None:
    find_lm_eval_tasks(["llama3_others"], TASKS)
    assert "llama3_others: WorldSense is left out: lm-eval has no task of it" in caplog.text
    assert "llama3_others: RACE: Meta shows all choices and compares the letters" in caplog.text


def test_a_board_has_its_own_shots() -> None:
    with pytest.raises(UserError, match="leaderboard_v1 fixes the shots of its tasks"):
        find_lm_eval_tasks(["leaderboard_v1@3"], TASKS)


def test_a_record_with_other_shots_is_not_called_a_board(tmp_path: Path) -> None:
    """The first Open LLM Leaderboard asked GSM8K with five examples."""
    for shots in (5, 2):
        tasks = task_folder(tmp_path / f"tasks-{shots}", ["gsm8k"], {"gsm8k": (GSM8K, ("train", "test"), shots)})
        run = record(tasks, tmp_path / f"run-{shots}", ["gsm8k"])
        pack = prepare(tmp_path / f"pack-{shots}", "recorded", evals_dataset=str(run))
        assert ("leaderboard_v1" in read_manifest(pack).groups) is (shots == 5)


def test_a_name_that_is_almost_a_board_is_told_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'leaderboard_v1'.*ready groups are leaderboard_v1"):
        prepare(tmp_path / "pack", "leaderbord_v1", evals_dataset="lm-eval", template_dir=str(TASKS))
