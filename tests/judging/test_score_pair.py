"""Two results files without samples: their scores alone are compared, and it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import cli
from runs import write_run

from meta_eval import compare, stats
from meta_eval.errors import UserError


def results_alone(folder: Path, right: int, docs: int = 20_000, *, samples: bool = False, **changes: Any) -> Path:
    """A run of lm_eval without its samples, of so many docs."""
    shown = 200 if samples else 20
    write_run(
        folder, [1.0] * (shown * right // docs) + [0.0] * (shown - shown * right // docs), metric="acc", samples=samples
    )
    (file,) = folder.rglob("results_*.json")
    tree = json.loads(file.read_text("utf-8"))
    (task,) = tree["results"]
    share = right / docs
    key = next(key for key in tree["results"][task] if key.startswith("acc,"))
    tree["results"][task] |= {key: share, key.replace("acc,", "acc_stderr,"): (share * (1 - share) / docs) ** 0.5}
    tree["n-samples"] = {task: {"original": docs, "effective": docs}}
    for name, value in changes.items():
        tree[name if name == "higher_is_better" else name.replace("_", "-")] = {task: value}
    file.write_text(json.dumps(tree), encoding="utf-8")
    return folder


def test_scores_alone_are_compared_unpaired_and_it_is_said(tmp_path: Path) -> None:
    found = compare(results_alone(tmp_path / "a", 12_000), results_alone(tmp_path / "b", 11_000))
    (task,) = found.tasks
    error = (0.6 * 0.4 / 20_000 + 0.55 * 0.45 / 20_000) ** 0.5
    assert task.drop.value == pytest.approx(0.05)
    assert task.interval.upper - task.interval.lower == pytest.approx(2 * 1.96 * error, rel=0.02)
    assert (found.decision.outcome, task.drop.paired) == ("DON'T SHIP", False)
    (alarm,) = [alarm for alarm in found.alarms if alarm.kind == "no samples"]
    assert "docs are not paired" in str(alarm)


@pytest.mark.parametrize(("docs", "outcome"), [(200_000, "SHIP"), (1_300, "UNDECIDED")])
def test_it_ships_only_where_the_wide_interval_is_below_the_margin(tmp_path: Path, docs: int, outcome: str) -> None:
    same = [results_alone(tmp_path / name, 6 * docs // 10, docs) for name in "ab"]
    assert compare(*same).decision.outcome == outcome


def test_a_side_with_samples_is_compared_by_its_score_too(tmp_path: Path) -> None:
    a, b = (results_alone(tmp_path / name, 120, 200, samples=name == "a") for name in "ab")
    found = compare(a, b)
    assert found.tasks[0].drop.paired is False


def test_other_shots_make_it_invalid_and_another_version_is_said(tmp_path: Path) -> None:
    a = results_alone(tmp_path / "a", 12_000, n_shot=5, versions=1.0)
    found = compare(a, results_alone(tmp_path / "b", 12_000, n_shot=0, versions=2.0))
    assert found.decision.invalid
    assert "5 shots in A, 0 in B" in found.summary
    assert "task version" in str(found.alarms)


@pytest.mark.parametrize("name", ["system_instruction", "chat_template"])
def test_another_text_around_every_prompt_makes_it_invalid(tmp_path: Path, name: str) -> None:
    sides = [results_alone(tmp_path / side, 120_000, 200_000) for side in "ab"]
    for folder, text in zip(sides, ("Think step by step.", "Answer with a letter."), strict=True):
        (file,) = folder.rglob("results_*.json")
        file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {name: text}), encoding="utf-8")
    found = compare(*sides)
    assert found.decision.invalid and f"another {name.replace('_', ' ')} in B" in str(found.alarms)


def test_without_a_number_of_docs_it_is_one_message(tmp_path: Path) -> None:
    folders = [results_alone(tmp_path / name, 12_000) for name in "ab"]
    for folder in folders:
        (file,) = folder.rglob("results_*.json")
        tree = json.loads(file.read_text("utf-8"))
        del tree["n-samples"]
        file.write_text(json.dumps(tree), encoding="utf-8")
    done = cli("compare", *folders)
    assert done.returncode == 2
    assert "--log_samples" in done.stderr


def change(folder: Path, **changes: Any) -> Path:
    """Give the score, its standard error or the numbers of docs another value."""
    (file,) = folder.rglob("results_*.json")
    tree = json.loads(file.read_text("utf-8"))
    (task,) = tree["results"]
    for key in list(tree["results"][task]):
        kind = "error" if "stderr" in key else "score" if "," in key else ""
        if kind in changes:
            tree["results"][task][key] = changes[kind]
    if "docs" in changes:
        tree["n-samples"] = {task: changes["docs"]}
    file.write_text(json.dumps(tree), encoding="utf-8")
    return folder


@pytest.mark.parametrize("error", [0, 0.0, -0.0, -1, float("nan"), float("inf"), 1e308, "N/A", None, [], True])
@pytest.mark.parametrize("sides", ["b", "ab"])
def test_an_odd_standard_error_never_narrows_the_interval(tmp_path: Path, error: Any, sides: str) -> None:
    folders = [results_alone(tmp_path / name, 780, 1300) for name in "ab"]
    for folder in folders if sides == "ab" else folders[1:]:
        change(folder, error=error)
    found = compare(*folders)
    (task,) = found.tasks
    assert found.decision.outcome == "UNDECIDED"
    assert task.interval.upper - task.interval.lower > 0.05


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 2.0, -1, "0.6", None, True, [], {}])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_score_that_is_no_share_is_never_a_decision(tmp_path: Path, score: Any, side: str) -> None:
    folders = {name: results_alone(tmp_path / name, 12_000) for name in "ab"}
    change(folders[side], score=score)
    done = cli("compare", *folders.values())
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


@pytest.mark.parametrize(
    "docs",
    [{"original": 0, "effective": 0}, {"original": 1, "effective": 1}, {"original": -5, "effective": -5},
     {"original": "x", "effective": "y"}, {"original": float("nan"), "effective": float("nan")}, [1], None, {}, 7],
)  # fmt: skip
@pytest.mark.parametrize("side", ["a", "b"])
def test_without_docs_on_a_side_nothing_is_decided(tmp_path: Path, docs: Any, side: str) -> None:
    folders = {name: results_alone(tmp_path / name, 12_000) for name in "ab"}
    change(folders[side], docs=docs)
    done = cli("compare", *folders.values())
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_two_scores_of_zero_never_ship(tmp_path: Path) -> None:
    found = compare(*(results_alone(tmp_path / name, 0) for name in "ab"))
    assert found.decision.outcome == "UNDECIDED"
    assert "no answer of either is right" in str(found.alarms)


def test_the_interval_covers_the_drop_of_two_independent_samples() -> None:
    rng, held = np.random.default_rng(7), 0
    for _ in range(400):
        first, second = rng.binomial(800, 0.6) / 800, rng.binomial(800, 0.57) / 800
        variance = first * (1 - first) / 799 + second * (1 - second) / 799
        held += 0.03 in stats.score_drop(first, second, variance, 800).interval()
    assert 0.92 <= held / 400 <= 0.98


def test_four_tasks_without_samples_are_all_named_and_the_reason_is_said_once(tmp_path: Path) -> None:
    for side in "ab":
        for number, name in enumerate(("one", "two", "three", "four")):
            write_run(tmp_path / side, [1.0, 0.0] * 20, task=name, time=f"2026-01-0{number + 1}T03-04-05.000006")
    for path in (tmp_path / "b").rglob("samples_*"):
        path.unlink()
    out = " ".join(cli("compare", "a", "b", cwd=tmp_path).stdout.split())
    assert "! no samples: four, one, three, two (scores alone are compared" in out
    assert out.count("scores alone are compared") == 1
    assert "more task" not in out


@pytest.mark.parametrize("samples", [True, False])
def test_a_percent_beside_a_share_is_named_and_nothing_is_compared(tmp_path: Path, samples: bool) -> None:
    a = write_run(tmp_path / "a", [1.0] * 93 + [0.0] * 7, samples=samples)
    b = write_run(tmp_path / "b", [100.0] * 93 + [0.0] * 7, samples=samples)
    try:
        said = compare(a, b).summary
    except UserError as error:
        said = str(error)
    assert "exact_match,strict-match is 0.93 in A and 93 in B: a share on one side and a percent on the other" in said


def test_scores_of_which_less_is_better_on_one_side_alone_are_not_compared(tmp_path: Path) -> None:
    sides = [
        results_alone(tmp_path / name, right, higher_is_better={"acc": higher})
        for name, right, higher in (("a", 12_400, True), ("b", 10_900, False))
    ]
    found = compare(*sides, margin=3)
    assert found.decision.invalid
    assert "higher_is_better of acc is true in A and false in B, so a drop has no sign" in found.summary


@pytest.mark.parametrize(
    ("in_a", "in_b", "outcome"),
    [
        ((200_000, 200_000), (200_000, 150_000), "UNDECIDED"),
        ((200_000, 200_000), (10**9, 200_000), "UNDECIDED"),
        ((200_000, 100_000), (200_000, 100_000), "UNDECIDED"),
        ((200_000, 200_000), (200_000, 200_000), "SHIP"),
    ],
)
def test_docs_that_a_run_without_samples_lacks_forbid_ship(
    tmp_path: Path, in_a: tuple[int, int], in_b: tuple[int, int], outcome: str
) -> None:
    sides = [
        results_alone(tmp_path / name, 120_000, 200_000, n_samples={"original": counts[0], "effective": counts[1]})
        for name, counts in (("a", in_a), ("b", in_b))
    ]
    found = compare(*sides)
    assert found.decision.outcome == outcome
    assert outcome == "SHIP" or f"{in_b[1]:,} of {in_b[0]:,} docs in B" in str(found.alarms)


def test_the_side_that_has_no_score_either_is_named(tmp_path: Path) -> None:
    a, b = (results_alone(tmp_path / name, 120_000, 200_000) for name in "ab")
    (file,) = b.rglob("results_*.json")
    tree = json.loads(file.read_text("utf-8"))
    tree["results"] = {name: {"acc,none": None} for name in tree["results"]}
    file.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(UserError, match=r"/b/.*has no samples beside it"):
        compare(a, b)
