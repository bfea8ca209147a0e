"""Recorded runs on the real engine: in the shapes of ten benchmarks, started once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from places import REPOSITORY
from recorded_runs import SHAPES

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, taught_model: tuple[Path, Mapping[str, str]]) -> dict[str, Any]:
    """What `engine_records` prints."""
    python = Path(os.environ["META_EVAL_RUNS"], "bin/python")
    helpers = REPOSITORY / "tests" / "helpers"
    environment = {
        **os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}:{helpers}", "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }  # fmt: skip
    command = [python, helpers / "engine_records.py", tmp_path_factory.mktemp("records"), taught_model[0]]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


def test_verify_agrees_on_every_doc_of_every_output_type(found: dict[str, Any]) -> None:
    assert found["verify"] == {name: ["passed", len(rows), len(rows)] for name, (rows, _, _) in SHAPES.items()}


def test_the_same_model_again_differs_nowhere(found: dict[str, Any]) -> None:
    assert len(found["again"]) == len(SHAPES) - 1  # wikitext's perplexities are no shares
    assert {name: figures for name, figures in found["again"].items() if figures != [0.0, 0.0, 0.0, 0]} == {}


def test_another_model_differs_where_it_was_planted_and_only_there(found: dict[str, Any]) -> None:
    differing = {name: figures for name, figures in found["other"].items() if any(figures)}
    assert set(differing) and set(differing) <= {"arc_challenge", "gsm8k", "ifeval", "leaderboard_mmlu_pro"}
    assert {(grader, prompts) for grader, _, prompts, _ in differing.values()} == {(0.0, 0.0)}
