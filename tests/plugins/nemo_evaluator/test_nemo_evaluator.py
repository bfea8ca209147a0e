"""Bundles of NeMo Evaluator: what is read of them, how two are compared, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from foreign_logs import BROKEN, check_damage, check_mutations, list_unseen_settings, refuse, write_json, write_lines
from packs import prepare

from meta_eval import compare
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.plugins.nemo_evaluator.nemo_format import NemoFormat


def result(number: int, reward: float = 1.0, repeat: int = 0, **others: Any) -> dict[str, Any]:
    return {
        "problem_idx": number, "repeat": repeat, "reward": reward, "prompt": f"What is {number} modulo 7?",
        "model_response": "It is 7." if reward else "No.", "extracted_answer": "7" if reward else "",
        "expected_answer": "7", "scoring_details": {"method": "x"}, "metadata": {"category": f"c{number % 2}"},
        "tokens": 9, "latency_ms": 5.0, **others,
    }  # fmt: skip


def write(folder: Path, rows: Sequence[dict[str, Any]], *, mean: float | None = None, **config: Any) -> Path:
    write_lines(folder / "results.jsonl", list(rows))
    scores = {} if mean is None else {"mean_reward": {"value": mean, "ci_lower": 0, "ci_upper": 1}}
    bundle = {
        "run_id": "eval-20260102T030405Z-sums", "timestamp": "2026-01-02T04:04:05+01:00", "sdk_version": "0.1",
        "config": {"benchmark": "sums", "model": "org/model", **config}, "n_results": len(rows),
        "benchmark": {"name": "sums", "samples": len({row["problem_idx"] for row in rows}), "scores": scores},
    }  # fmt: skip
    write_json(folder / "eval-20260102T030405Z-sums.json", bundle)
    return folder


def read(path: Path) -> TaskRun:
    (task,) = read_any_run([path]).tasks.values()
    return task


def values(task: TaskRun, metric: str = "reward") -> list[Any]:
    return [doc.filter_results["none"].metrics.get(metric) for doc in task.docs]


@pytest.mark.parametrize("part", ["", "results.jsonl", "eval-20260102T030405Z-sums.json"])
def test_verdicts_model_and_settings_are_read(tmp_path: Path, part: str) -> None:
    folder = write(tmp_path / "a", [result(1), result(2, 0.0)], mean=0.5, temperature=0.7, max_tokens=99)
    task = read(folder / part)
    assert (task.task, values(task), [doc.subtask for doc in task.docs]) == ("sums", [1.0, 0.0], ["c1", "c0"])
    assert (task.provenance.model, task.provenance.date) == ("org/model", "2026-01-02T03:04:05+00:00")
    assert task.provenance.decoding == {"temperature": 0.7, "max_gen_toks": 99, "until": []}
    assert task.aggregates["reward,none"].value == 0.5
    assert task.docs[0].filter_results["none"].extracted == "7"


def test_repeats_are_averaged_and_scorers_are_metrics(tmp_path: Path) -> None:
    rows = [result(1, float(repeat > 0), repeat, scorer_rewards={"scorer:a": 0.5}) for repeat in range(4)]
    task = read(write(tmp_path / "a", rows, mean=0.75))
    assert (values(task), values(task, "scorer:a")) == ([0.75], [0.5])


def test_problems_are_paired_by_prompt_else_by_number(tmp_path: Path) -> None:
    rows = [result(number, float(number % 4 > 0)) for number in range(40)]
    a, b = write(tmp_path / "a", [result(number) for number in range(40)]), write(tmp_path / "b", rows[::-1])
    (task,) = compare(a, b).tasks
    assert task.docs == 40 and task.drop is not None and task.drop.value == pytest.approx(0.25)
    bare = [{"problem_idx": number, "reward": 1.0} for number in range(40)]
    (task,) = compare(write(tmp_path / "c", bare), write(tmp_path / "d", bare[::-1])).tasks
    assert task.docs == 40 and task.drop is not None and task.drop.value == 0


def test_each_folder_is_a_benchmark(tmp_path: Path) -> None:
    write(tmp_path / "run" / "one", [result(1)])
    two = write(tmp_path / "run" / "two", [result(1, 0.0)]) / "eval-20260102T030405Z-sums.json"
    two.write_text(two.read_text(encoding="utf-8").replace('"name": "sums"', '"name": "gpqa"'), encoding="utf-8")
    run = read_any_run([tmp_path / "run"])
    assert {name: values(task) for name, task in run.tasks.items()} == {"gpqa": [0.0], "sums": [1.0]}


def test_results_without_a_bundle_are_named_by_their_folder(tmp_path: Path) -> None:
    write_lines(tmp_path / "two" / "results.jsonl", [result(1, 0.0)])
    run = read_any_run([tmp_path / "two"])
    assert list(run.tasks) == ["two"] and any("two: has no bundle eval-*.json" in note for note in run.notes)


def test_an_error_of_the_infrastructure_is_no_verdict(tmp_path: Path) -> None:
    rows = [result(1), result(2, 0.0, scoring_details={"error_category": "infra_error"})]
    run = read_any_run([write(tmp_path / "a", rows)])
    assert values(run.tasks["sums"]) == [1.0] and any("an error of the infrastructure" in note for note in run.notes)


def test_a_mean_that_the_results_do_not_give_is_noted(tmp_path: Path) -> None:
    run = read_any_run([write(tmp_path / "a", [result(1), result(2, 0.0)], mean=0.9)])
    assert any("says reward 0.9000, and its verdicts give 0.5000" in note for note in run.notes)


def test_a_bundle_becomes_no_pack(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [result(1)])
    with pytest.raises(UserError, match="cannot be asked again: its log has the prompt, and not the messages"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder))


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no number of the problem": (lambda row: row.update(problem_idx=None), "has no problem_idx"),
    "a number that is a list": (lambda row: row.update(problem_idx=[1]), "problem_idx is a list, and must be a text"),
    "no reward": (lambda row: row.pop("reward"), "has no reward. Use the file of a finished run"),
    "a reward that is a text": (lambda row: row.update(reward="1"), "reward is '1', and must be a number"),
    "a reward that is NaN": (lambda row: row.update(reward=float("nan")), "no answer has a verdict"),
    "a reward that is infinite": (lambda row: row.update(reward=float("inf")), "reward is inf, and must be a number"),
    "a huge reward": (lambda row: row.update(reward=10**400), "and must be a number"),
    "a repeat below 0": (lambda row: row.update(repeat=-1), "repeat is -1, and must be a whole number"),
    "a repeat that is a text": (lambda row: row.update(repeat="0"), "repeat is '0', and must be a whole number"),
    "rewards of scorers that are a list": (lambda row: row.update(scorer_rewards=[1]), "scorer_rewards is a list"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_result_is_one_message(tmp_path: Path, name: str) -> None:
    edit, words = BAD[name]
    row = result(1)
    folder = write(tmp_path / "a", [row])
    edit(row)
    write_lines(folder / "results.jsonl", [row])
    assert words in str(refuse(folder))


@pytest.mark.parametrize("file", ["results.jsonl", "eval-20260102T030405Z-sums.json"])
@pytest.mark.parametrize("name", [name for name in BROKEN if name not in ("nothing", "white space")])
def test_a_broken_file_is_one_message(tmp_path: Path, file: str, name: str) -> None:
    folder = write(tmp_path / "a", [result(1)])
    content, words = BROKEN[name]
    kept = (folder / file).read_bytes() if file == "results.jsonl" else b""
    (folder / file).write_bytes(kept + content.replace(b"\n", b" "))
    assert words in str(refuse(folder))


@pytest.mark.parametrize(
    ("file", "damaged"), [("results.jsonl", "gpqa"), ("eval-20260102T030405Z-sums.json", "two_results.jsonl")]
)
def test_a_damaged_bundle_does_not_stop_the_others(tmp_path: Path, file: str, damaged: str) -> None:
    write(tmp_path / "one", [result(1)])
    two = write(tmp_path / "two", [result(1)]) / "eval-20260102T030405Z-sums.json"
    two.write_text(two.read_text(encoding="utf-8").replace('"name": "sums"', '"name": "gpqa"'), encoding="utf-8")
    check_damage(tmp_path, f"two/{file}", damaged, "sums")


def test_a_result_twice_is_one_message(tmp_path: Path) -> None:
    assert "holds '1' twice" in str(refuse(write(tmp_path / "a", [result(1), result(1, 0.0)])))


def test_fewer_results_than_the_bundle_says_are_one_message(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [result(1), result(2)])
    write_lines(folder / "results.jsonl", [result(1)])
    assert "holds 1 of 2 results" in str(refuse(folder))


def test_no_wrong_value_anywhere_ends_in_more_than_a_message(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [result(1)])
    assert check_mutations(result(1), lambda made: write_lines(folder / "results.jsonl", [made]).parent, step=5) > 5


def test_what_a_run_has_graded_so_far_is_no_second_run_and_no_result(tmp_path: Path) -> None:
    """A bundle keeps `verified_log.jsonl`, which is all that an unfinished run has."""
    folder = write(tmp_path / "bundle", [result(1), result(2, 0.0)])
    shutil.copy(folder / "results.jsonl", folder / "verified_log.jsonl")
    assert not read_any_run([folder]).notes
    (folder / "results.jsonl").unlink()
    with pytest.raises(UserError, match="unfinished"):
        read_any_run([folder])


def test_a_change_of_each_compared_setting_is_named(tmp_path: Path) -> None:
    assert not list_unseen_settings(
        {**NemoFormat.settings, **NemoFormat.grader_settings}, {"config": {"temperature": 0.5}},
        lambda name, tree: write(tmp_path / name, [result(1), result(2, 0.0)], **tree["config"]),
    )  # fmt: skip
