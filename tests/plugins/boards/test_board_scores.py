"""What a board would show of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.results_file import Aggregate
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.plugins.boards.board_groups import compute_board_scores
from meta_eval.plugins.boards.boards import compute_part, find_board

TASKS = {
    "arc_challenge": ("acc_norm,none", 0.219),
    "hellaswag": ("acc_norm,none", 0.316),
    "truthfulqa_mc2": ("acc,none", 0.407),
    "winogrande": ("acc,none", 0.5),
    "gsm8k": ("exact_match,strict-match", 0.01),
    "mmlu_a": ("acc,none", 0.2),
    "mmlu_b": ("acc,none", 0.35),
}


def run_of(name: str, docs: int) -> TaskRun:
    spec, value = TASKS[name]
    result = [object()] * docs
    return TaskRun(
        task=name, time="", docs=tuple(result), filters=(), aggregates={spec: Aggregate(value, None, True)},  # type: ignore[arg-type]
        custom_aggregation=(), samples_file=Path(name), skipped=0, published_metrics=(), primary_metric=None, is_correct_metric=None,
        provenance=Provenance.__new__(Provenance),
    )  # fmt: skip


@pytest.fixture
def manifest() -> Manifest:
    entries = {name: TaskEntry.model_construct(docs=3) for name in TASKS}
    groups = {"mmlu": ("mmlu_a", "mmlu_b"), "leaderboard_v1": tuple(TASKS)}
    return Manifest.model_construct(tasks=entries, groups=groups)


def test_a_board_shows_its_parts_and_their_mean(manifest: Manifest) -> None:
    result = {
        value.label: value.value for value in compute_board_scores(manifest, {name: run_of(name, 3) for name in TASKS})
    }
    assert result == pytest.approx(
        {
            "ARC": 0.219, "HellaSwag": 0.316, "MMLU": 0.275, "TruthfulQA": 0.407, "Winogrande": 0.5, "GSM8K": 0.01,
            "mean": (0.219 + 0.316 + 0.275 + 0.407 + 0.5 + 0.01) / 6,
        }
    )  # fmt: skip
    v1 = find_board("leaderboard_v1")
    assert v1 is not None
    shown = {part.name: part.shown["gpt2"] for part in v1.parts if part.shown}
    assert {name: 100 * result[name] for name in shown} == pytest.approx(shown)


def test_a_part_of_which_a_task_is_unfinished_is_no_number_and_then_there_is_no_mean(manifest: Manifest) -> None:
    runs = {name: run_of(name, 2 if name == "mmlu_b" else 3) for name in TASKS}
    assert {value.label for value in compute_board_scores(manifest, runs)} == {
        "ARC", "HellaSwag", "TruthfulQA", "Winogrande", "GSM8K",
    }  # fmt: skip


def test_the_value_of_a_part_is_in_percent() -> None:
    v1 = find_board("leaderboard_v1")
    assert v1 is not None
    assert compute_part(v1.parts[0], {"arc_challenge": {"acc_norm,none": 0.219}}) == pytest.approx(0.219)
