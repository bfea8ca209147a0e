"""Thresholds from past runs: an identical model fails as often as promised, and a worse one is seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml
from command import cli
from marks import few
from one_task import run
from places import THOROUGH

from meta_eval.errors import UserError
from meta_eval.judge.gate import read_gate
from meta_eval.plugins.nightly.run_history import PastRun, TaskVerdicts, add_run
from meta_eval.plugins.nightly.run_thresholds import find_run_thresholds

NAMES = [f"d{place}" for place in range(1000)]


def past(values: Sequence[float], night: int = 1, model: str = "org/model", task: str = "t") -> PastRun:
    docs = dict(zip(NAMES, values, strict=False))
    tasks = {task: TaskVerdicts.model_construct(metric="exact_match,none", docs=docs)}
    return PastRun.model_construct(time=f"2026-01-{night:02}T03:00:00Z", name=f"c{night}", model=model, tasks=tasks)


def draw(rng: np.random.Generator, runs: int, docs: int, flips: float, shift: float = 0.0) -> list[list[float]]:
    """Runs of a model of whose docs some flip; and, with ``shift``, nights that are better or worse as a whole."""
    chance = np.where(rng.random(docs) < flips, 0.5, rng.random(docs) < 0.7)
    return [
        (rng.random(docs) < np.clip(chance + shift * rng.normal() * (chance == 0.5), 0, 1)).astype(float).tolist()
        for _ in range(runs)
    ]


@pytest.mark.parametrize(
    ("runs", "docs", "flips"), few([(8, 300, 0.12), (5, 1000, 0.05), (20, 200, 0.3)], 3)
)  # fmt: skip
def test_an_identical_model_fails_about_once_in_so_many_runs(runs: int, docs: int, flips: float) -> None:
    rng, failed, draws, once_in = np.random.default_rng(3), 0, 1500 if THOROUGH else 1000, 20
    for _ in range(draws):
        *before, after = draw(rng, runs + 1, docs, flips)
        (threshold,) = find_run_thresholds([past(values) for values in before], once_in)
        failed += float(np.mean(after)) < threshold.floor - 1e-9
    assert 0.4 / once_in <= failed / draws <= 1.3 / once_in


def test_a_model_that_lost_what_it_can_see_fails_four_times_of_five() -> None:
    rng, failed, draws = np.random.default_rng(5), 0, 600 if THOROUGH else 250
    for _ in range(draws):
        *before, after = draw(rng, 9, 400, 0.1)
        (threshold,) = find_run_thresholds([past(values) for values in before], 100)
        failed += float(np.mean(after)) - threshold.visible_drop < threshold.floor - 1e-9
    assert 0.72 <= failed / draws <= 0.9


def test_runs_that_never_differed_still_leave_room_for_a_flip() -> None:
    (threshold,) = find_run_thresholds([past([1.0] * 70 + [0.0] * 30)] * 6, 1000)
    assert threshold.mean == pytest.approx(0.7)
    assert threshold.floor < 0.7


def test_the_command_prints_what_ci_reads(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for night, values in enumerate(draw(rng, 7, 200, 0.1), 1):
        add_run(tmp_path / "history", past(values, night))
    done = cli("thresholds", "history", "--once-in", "100", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tree = yaml.safe_load(done.stdout)
    ((metric,),) = [task["metrics"] for task in tree["tasks"]]
    assert (tree["model_name"], tree["rtol"], metric["name"]) == ("org/model", 0.0, "exact_match,none")
    assert 0.5 < metric["value"] < 0.75
    assert "once in 100 runs" in " ".join(done.stderr.split())
    assert "the job of" not in done.stderr
    assert not (tmp_path / "gate.yaml").exists()


def test_several_tasks_say_how_often_their_job_fails(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for night, values in enumerate(draw(rng, 7, 200, 0.1), 1):
        one = past(values, night)
        add_run(tmp_path / "history", one.model_copy(update={"tasks": one.tasks | {"u": one.tasks["t"]}}))
    code, _, err = run("thresholds", tmp_path / "history", "--once-in", "100")
    assert (code, "the job of these 2 tasks: at most 2 % of the runs of an identical model" in err) == (0, True)
    assert "each of which an identical model fails" in " ".join(run("thresholds", "--help")[1].split())


def test_the_printed_thresholds_are_read_again_as_a_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for night in range(1, 7):
        add_run(tmp_path / "history", past([1.0] * 70 + [0.0] * 30, night))
    text = run("thresholds", "history", "--once-in", "100")[1]
    (tmp_path / "thr.yaml").write_text(text, encoding="utf-8")
    code, _, err = run("thresholds", "thr.yaml", "--docs", "1000")
    (metric,) = yaml.safe_load(text)["tasks"][0]["metrics"]
    assert (code, f"t exact_match,none >= {100 * metric['value']:.1f}, 1,000 docs" in err) == (0, True)
    margin = read_gate(tmp_path / "gate.yaml").margin
    assert margin == pytest.approx(dict.fromkeys(("mean", "t"), 70 - 100 * metric["value"]), rel=1e-3)


def test_too_few_runs_several_models_and_no_history_are_one_message_each(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs 5 runs of the same docs, and there are 4"):
        find_run_thresholds([past([1.0, 0.0])] * 4, 100)
    with pytest.raises(UserError, match="2 models, org/a and org/b"):
        find_run_thresholds([past([1.0], model="org/a"), past([1.0], model="org/b")], 100)
    (tmp_path / "empty").mkdir()
    done = cli("thresholds", "empty", cwd=tmp_path)
    assert (done.returncode, "holds no run" in done.stderr) == (2, True)
    (tmp_path / "a.yaml").write_text("tasks: []", encoding="utf-8")
    done = cli("thresholds", "a.yaml", "--once-in", "100", cwd=tmp_path)
    assert (done.returncode, "--once-in" in done.stderr) == (2, True)
    assert cli("thresholds", "empty", "--once-in", "1", cwd=tmp_path).returncode == 2


def test_a_missing_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    done = cli("thresholds", "history", "--once-in", "100", cwd=tmp_path)
    assert done.returncode == 2 and "history: there is no such folder" in done.stderr
