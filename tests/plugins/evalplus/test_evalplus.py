"""Results of EvalPlus: what is read of them, how two are compared, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from foreign_logs import BROKEN, check_mutations, refuse, write_json
from packs import prepare

from meta_eval import compare
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.records.record_runs import read_any_run

NAME = "org--model_vllm_temp_0.0_eval_results.json"


def program(base: str = "pass", plus: str | None = "pass") -> dict[str, Any]:
    return {
        "task_id": "x", "solution": "def f():\n    return 1", "base_status": base, "plus_status": plus,
        "base_fail_tests": [], "plus_fail_tests": [],
    }  # fmt: skip


def log(statuses: Sequence[Sequence[dict[str, Any]]], **others: Any) -> dict[str, Any]:
    problems = {f"HumanEval/{number}": list(programs) for number, programs in enumerate(statuses)}
    return {"date": "2026-01-02 03:04", "hash": "abc", "eval": problems, **others}


def read(path: Path) -> TaskRun:
    (task,) = read_any_run([path]).tasks.values()
    return task


def values(task: TaskRun, metric: str = "plus") -> list[Any]:
    return [doc.filter_results["none"].metrics.get(metric) for doc in task.docs]


@pytest.mark.parametrize("name", [NAME, NAME.replace("_eval", ".eval"), "org--model_vllm_temp_0.0/eval_results.json"])
def test_verdicts_model_and_settings_are_read(tmp_path: Path, name: str) -> None:
    rows = [[program()], [program(plus="fail")], [program("timeout", "fail")]]
    rates = {"base": {"pass@1": 2 / 3}, "plus": {"pass@1": 1 / 3}}
    task = read(write_json(tmp_path / name, log(rows, pass_at_k=rates)))
    assert (task.task, values(task), values(task, "base")) == ("humaneval", [1.0, 0.0, 0.0], [1.0, 1.0, 0.0])
    assert (task.provenance.model, task.provenance.date) == ("org/model", "2026-01-02T03:04:00+00:00")
    assert task.provenance.gen_kwargs == {} and task.aggregates["plus,none"].value == pytest.approx(1 / 3)


def test_several_programs_of_a_problem_are_repeated_answers(tmp_path: Path) -> None:
    assert values(read(write_json(tmp_path / NAME, log([[program(), program("fail", "fail")]])))) == [0.5]


def test_a_problem_twice_is_refused(tmp_path: Path) -> None:
    path = write_json(tmp_path / NAME, log([[program("fail", "fail")], [program()]]))
    path.write_text(path.read_text(encoding="utf-8").replace("HumanEval/1", "HumanEval/0"), encoding="utf-8")
    assert "names 'HumanEval/0' twice in one object" in str(refuse(path))


def test_results_of_base_tests_alone_are_read(tmp_path: Path) -> None:
    task = read(write_json(tmp_path / NAME, log([[program(plus=None)], [program("fail", None)]])))
    assert list(task.docs[0].filter_results["none"].metrics) == ["base"] and values(task, "base") == [1.0, 0.0]


def test_the_first_form_is_read_and_its_answers_are_unknown_not_empty(tmp_path: Path) -> None:
    problem = {"nfiles": 2, "base": [["success", []], ["failed", []]], "plus": [["success", []], ["timed out", []]]}
    task = read(write_json(tmp_path / NAME, {"date": "2023-10-17 15:24", "hash": "h", "eval": {"Mbpp/2": problem}}))
    assert (task.task, values(task), task.docs[0].answer_empty) == ("mbpp", [0.5], False)


def test_runs_with_and_without_the_further_tests_have_other_verdicts(tmp_path: Path) -> None:
    a = write_json(tmp_path / "a" / NAME, log([[program()]] * 4))
    b = write_json(tmp_path / "b" / NAME, log([[program(plus=None)]] * 4))
    with pytest.raises(UserError, match="humaneval: the runs have other verdicts, base,none, plus,none"):
        compare(a, b)


def test_problems_are_paired_by_their_ids(tmp_path: Path) -> None:
    failing = {**program(plus="fail"), "solution": "def f():\n    return 2"}
    rows = [[program() if number % 4 else failing] for number in range(40)]
    a, b = write_json(tmp_path / "a" / NAME, log([[program()]] * 40)), write_json(tmp_path / "b" / NAME, log(rows))
    tree = log(rows)
    tree["eval"] = dict(reversed(tree["eval"].items()))
    (task,) = compare(a, b).tasks
    assert task.docs == 40 and task.drop is not None and task.drop.value == pytest.approx(0.25)
    (same,) = compare(b, write_json(tmp_path / "c" / NAME, tree)).tasks
    assert same.drop is not None and same.drop.value == 0


def test_other_tests_are_another_grader(tmp_path: Path) -> None:
    a = write_json(tmp_path / "a" / NAME, log([[program()]] * 40))
    b = write_json(tmp_path / "b" / NAME, log([[program()]] * 40, hash="other"))
    assert "the settings of metric plus differ" in compare(a, b).summary


def test_results_become_no_pack(tmp_path: Path) -> None:
    path = write_json(tmp_path / NAME, log([[program()]]))
    with pytest.raises(UserError, match="cannot be asked again: its results do not say what the model was sent"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(path))


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a problem that is a text": (lambda tree: tree["eval"].update({"HumanEval/0": "x"}), "HumanEval/0 is 'x', and must"),
    "a problem that is null": (lambda tree: tree["eval"].update({"HumanEval/0": None}), "has no program"),
    "a problem without a program": (lambda tree: tree["eval"].update({"HumanEval/0": []}), "has no program. Use the file of"),
    "a program that is a text": (lambda tree: tree["eval"].update({"HumanEval/0": ["x"]}), "is a text and no object"),
    "a status that is a number": (
        lambda tree: tree["eval"]["HumanEval/0"][0].update(base_status=1), "base_status is 1, and must be text",
    ),
    "a status that is a list": (
        lambda tree: tree["eval"]["HumanEval/0"][0].update(plus_status=[]), "plus_status is a list, and must be text",
    ),
    "no status": (lambda tree: tree["eval"]["HumanEval/0"][0].pop("base_status"), "no answer has a verdict"),
    "a program that is an object": (
        lambda tree: tree["eval"]["HumanEval/0"][0].update(solution={}), "solution is an object, and must be text",
    ),
    "statuses of two lengths": (
        lambda tree: tree["eval"].update({"HumanEval/0": {"nfiles": 1, "base": [["pass"]], "plus": [["pass"]] * 2}}),
        "has 1 statuses of base and 2 of plus",
    ),
    "a date that is a number": (lambda tree: tree.update(date=5), "date is 5, and must be text"),
    "rates that are a list": (lambda tree: tree.update(pass_at_k=[]), "pass_at_k is a list, and must be an object"),
    "a rate that is a text": (
        lambda tree: tree.update(pass_at_k={"base": {"pass@1": "x"}}), "pass@1 is 'x', and must be a number",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_damaged_results_are_one_message(tmp_path: Path, name: str) -> None:
    edit, words = BAD[name]
    tree = log([[program()]])
    edit(tree)
    path = write_json(tmp_path / NAME, tree)
    path.write_text(path.read_text(encoding="utf-8")[:-1] + ', "_status": 1}', encoding="utf-8")
    assert words in str(refuse(path))


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in ("nothing", "white space")])
def test_broken_json_is_one_message(tmp_path: Path, name: str) -> None:
    path = write_json(tmp_path / NAME, log([[program()]]))
    path.write_bytes(path.read_bytes()[:-1] + b',"x":' + BROKEN[name][0])
    assert refuse(path) is not None


@pytest.mark.parametrize("share", [0.4, 0.6, 0.9, 0.99])
def test_a_file_that_is_cut_off_is_one_message(tmp_path: Path, share: float) -> None:
    path = write_json(tmp_path / NAME, log([[program()]] * 9))
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "is cut off or not JSON" in str(refuse(path))


def test_no_wrong_value_anywhere_ends_in_more_than_a_message(tmp_path: Path) -> None:
    tree = log([[program()]], pass_at_k={"base": {"pass@1": 1.0}})
    assert check_mutations(tree, lambda made: write_json(tmp_path / NAME, made), step=5) > 5


def test_another_temperature_is_named(tmp_path: Path) -> None:
    a = write_json(tmp_path / NAME, log([[program()]] * 2))
    b = write_json(tmp_path / NAME.replace("0.0", "0.8"), log([[program()]] * 2))
    assert "temperature: none in A, 0.8 in B" in compare(a, b).summary
