"""Recorded runs on the real engine: in the shapes of ten benchmarks, started once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from on_engines import ready
from places import HELPERS
from recorded_runs import SHAPES

PLANTED: Mapping[str, list[int]] = {
    "arc_challenge": [0, 3],
    "hellaswag": [0, 1, 2],
    "leaderboard_mmlu_pro": [0, 1, 2, 3, 4, 5],
    "winogrande": [1, 4],
}

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, taught_model: tuple[Path, Mapping[str, str]]) -> dict[str, Any]:
    """What `engine_records` prints."""
    folder = tmp_path_factory.mktemp("records")
    output = ready(HELPERS / "engine_records.py", folder, taught_model[0], folder=folder)
    printed: dict[str, Any] = json.loads(next(line for line in output.splitlines() if line.startswith('{"verify"')))
    return printed


def test_verify_agrees_on_every_doc_of_every_output_type(outcomes: dict[str, Any]) -> None:
    assert outcomes["verify"] == {name: ["passed", len(rows), len(rows)] for name, (rows, _, _) in SHAPES.items()}


def test_the_same_model_again_differs_nowhere(outcomes: dict[str, Any]) -> None:
    assert len(outcomes["again"]) == len(SHAPES) - 1  # wikitext's perplexities are no shares
    assert {name: figures for name, figures in outcomes["again"].items() if figures != [0.0, 0.0, 0.0, 0]} == {}


def test_another_model_differs_where_it_was_planted_and_only_there(outcomes: dict[str, Any]) -> None:
    assert outcomes["planted"] == {name: list(docs) for name, docs in PLANTED.items()}
    flips = {name: figures[3] for name, figures in outcomes["other"].items() if figures[3]}
    assert flips == {name: len(docs) for name, docs in outcomes["verdicts"].items() if docs}
    assert flips
    moved = {name: figures for name, figures in outcomes["other"].items() if any(figures[:3])}
    assert set(moved) <= set(flips)
    assert {(grader, prompts) for grader, _, prompts, _ in moved.values()} <= {(0.0, 0.0)}


def test_a_task_frozen_with_the_models_chat_template_asks_as_lm_eval_does(outcomes: dict[str, Any]) -> None:
    assert outcomes["chat"] is True
