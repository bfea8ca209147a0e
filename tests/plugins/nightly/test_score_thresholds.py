"""Score thresholds of vLLM's CI become a gate, with what they can see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_task import run, write

from meta_eval.judge.gate import read_gate
from meta_eval.plugins.nightly.score_thresholds import ScoreThreshold

FILE = {
    "model_name": "org/model",
    "tasks": [
        {"name": "gsm8k", "metrics": [{"name": "exact_match,strict-match", "value": 0.75}]},
        {"name": "arc: hard", "metrics": [{"name": "acc,none", "value": 0.5}, {"name": "acc_norm,none", "value": 0.4}]},
    ],
    "limit": 1000,
    "rtol": 0.04,
    "num_fewshot": 5,
}


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_file(folder: Path, **changes: Any) -> Path:
    return write(folder / "thresholds.yaml", json.dumps({**FILE, **changes}))


def test_a_gate_has_the_same_tolerance_in_points(tmp_path: Path) -> None:
    code, _, err = run("thresholds", write_file(tmp_path))
    assert code == 0
    gate = read_gate(tmp_path / "gate.yaml")
    assert gate.margin == pytest.approx({"mean": 2.3, "gsm8k": 3.0, "arc: hard": 1.6})
    assert list(gate.tasks) == ["gsm8k", "arc: hard"]
    assert "gsm8k exact_match,strict-match >= 72.0, 1,000 docs: fails under 0.01 %" in " ".join(err.split())


def test_without_a_tolerance_it_is_that_of_vllm(tmp_path: Path) -> None:
    run("thresholds", write_file(tmp_path, rtol=None))
    assert read_gate(tmp_path / "gate.yaml").margin == pytest.approx({"mean": 4.6, "gsm8k": 6.0, "arc: hard": 3.2})


@pytest.mark.parametrize(
    ("value", "rtol", "docs", "flips"),
    [(0.764, 0.08, 1319, 0.04), (0.86, 0.0145, 200, 0.04), (0.31, 0.08, 250, 0.04), (0.75, 0.05, 25, 0.04),
     (0.3, 0.08, 40, 0.04), (0.6, 0.05, 100, 0.1)],
)  # fmt: skip
def test_what_a_threshold_sees_is_that_of_drawn_docs(value: float, rtol: float, docs: int, flips: float) -> None:
    """Of few docs too, whose score moves in steps. A loss is drawn doc by doc, so it varies itself."""
    threshold, rng, draws = ScoreThreshold("t", "m", value, value * rtol, docs), np.random.default_rng(1), 10_000

    def draw(loss: float) -> float:
        right = np.floor(value * docs) + (rng.random(draws) < value * docs % 1)
        lost = rng.binomial(docs, flips / 2 + loss, draws)
        won = rng.binomial(docs - lost, flips / 2 / (1 - flips / 2 - loss))
        return float(np.mean((right - lost + won) / docs < value * (1 - rtol) - 1e-9))

    drop = threshold.find_visible_drop(flips)
    assert drop is not None
    assert threshold.find_failures(flips) == pytest.approx(draw(0.0), abs=0.015)
    assert draw(drop) == pytest.approx(0.8, abs=0.015)


def test_a_threshold_of_few_docs_that_sees_nothing_says_so(tmp_path: Path) -> None:
    assert ScoreThreshold("t", "m", 0.2, 0.19, 5).find_visible_drop() is None
    tasks = [{"name": "t", "metrics": [{"name": "m", "value": 0.2}]}]
    err = run("thresholds", write_file(tmp_path, tasks=tasks, limit=5, rtol=0.95))[2]
    assert "and no loss in 80 % of runs" in " ".join(err.split())


def test_without_a_limit_it_asks_for_the_docs(tmp_path: Path) -> None:
    file = write_file(tmp_path, limit=None)
    assert "--docs N" in run("thresholds", file)[2]
    (tmp_path / "gate.yaml").unlink()
    assert "1,319 docs" in run("thresholds", file, "--docs", "1319")[2]


@pytest.mark.parametrize(
    "changes",
    [{"tasks": []}, {"tasks": [{"name": "t", "metrics": []}]}, {"rtol": 2}, {"limit": 0}, {"limit": True}, {"limit": 10**320},
     {"rtol": -1e-9}, {"rtol": False}, {"tasks": [{"name": "t", "metrics": [{"name": "m", "value": True}]}]}, {"tasks": None, "accuracy_threshold": 0.5}, {"tasks": [{"name": "t", "metrics": [{"name": "m", "value": 75}]}]}],
)  # fmt: skip
def test_a_file_of_another_form_is_one_message_and_nothing_is_written(changes: dict[str, Any], tmp_path: Path) -> None:
    code, out, err = run("thresholds", write_file(tmp_path, **changes))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "thresholds.yaml" in err
    assert not (tmp_path / "gate.yaml").exists()


@pytest.mark.parametrize("rtol", [0.0, 1e-320])
def test_without_any_tolerance_the_gate_has_the_default_margin_and_it_is_said(tmp_path: Path, rtol: float) -> None:
    code, _, err = run("thresholds", write_file(tmp_path, rtol=rtol))
    assert (code, "gsm8k, arc: hard: no tolerance; the margin of the gate is the default 1 point" in err) == (0, True)
    assert read_gate(tmp_path / "gate.yaml").margin == {"mean": 1, "gsm8k": 1, "arc: hard": 1}


def test_a_gate_that_exists_is_not_replaced(tmp_path: Path) -> None:
    write(tmp_path / "gate.yaml", "margin: 1\n")
    assert run("thresholds", write_file(tmp_path))[0] == 2
    assert (tmp_path / "gate.yaml").read_text() == "margin: 1\n"


@pytest.mark.parametrize("name", ["a\nmin_docs: 1\n#.yaml", "b\udcff.yaml", "c\u2028min_docs: 1", "d\rmin_docs: 1"])
@pytest.mark.parametrize("value", [0.8, 1e-7, 1e-9])
def test_a_gate_of_any_name_and_tolerance_is_one_that_the_gate_reads(name: str, value: float, tmp_path: Path) -> None:
    tasks = [{"name": "t", "metrics": [{"name": "m", "value": value}]}]
    file = write_file(tmp_path, tasks=tasks).rename(tmp_path / name)
    assert run("thresholds", file)[0] == 0
    gate = read_gate(tmp_path / "gate.yaml")
    assert gate.margin == pytest.approx({"mean": 4 * value, "t": 4 * value})
    assert gate.min_docs is None


def test_docs_beyond_any_benchmark_are_refused_before_a_gate_is_written(tmp_path: Path) -> None:
    assert run("thresholds", write_file(tmp_path), "--docs", "9" * 320)[0] == 2
    assert not (tmp_path / "gate.yaml").exists()
