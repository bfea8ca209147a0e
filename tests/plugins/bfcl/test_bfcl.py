"""Results and scores of BFCL: what is read of them, how two are compared, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from foreign_logs import BROKEN, check_damage, check_mutations, refuse, write_lines
from packs import prepare

from meta_eval import compare
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.records.record_runs import read_any_run


def result(number: int, **others: Any) -> dict[str, Any]:
    call = [{"f": f'{{"x": {number}}}'}]
    return {"id": f"simple_{number}", "result": call, "input_token_count": 9, "output_token_count": 3, **others}


def failure(number: int, **others: Any) -> dict[str, Any]:
    return {"id": f"simple_{number}", "valid": False, "error": ["no"], "error_type": "x", "prompt": {}, **others}


def head(total: int, wrong: int) -> dict[str, Any]:
    return {"accuracy": (total - wrong) / total, "correct_count": total - wrong, "total_count": total}


def write(
    root: Path, rights: Sequence[bool], *, model: str = "org_model", old: bool = False, results: Any = None
) -> Path:
    folder, beginning = ("", "gorilla_openfunctions_v1_test_") if old else ("non_live/", "BFCL_v4_")
    own = [result(number) if right else result(number, result="no call") for number, right in enumerate(rights)]
    rows = own if results is None else results
    wrong = [failure(number) for number, right in enumerate(rights) if not right]
    write_lines(root / "result" / model / f"{folder}{beginning}simple_result.json", rows)
    name = "simple_score.json" if old else f"{folder}{beginning}simple_score.json"
    write_lines(root / "score" / model / name, [head(len(rights), len(wrong)), *wrong])
    return root


def read(path: Path) -> TaskRun:
    (task,) = read_any_run([path]).tasks.values()
    return task


def values(task: TaskRun) -> list[Any]:
    return [doc.filter_results["none"].metrics.get("valid") for doc in task.docs]


@pytest.mark.parametrize("part", ["", "result", "score", "result/org_model", "score/org_model"])
@pytest.mark.parametrize("old", [False, True])
def test_verdicts_tokens_and_model_are_read(tmp_path: Path, part: str, old: bool) -> None:
    task = read(write(tmp_path / "a", [True, False, True], old=old) / part)
    assert (task.task, values(task), task.provenance.model) == ("simple", [1.0, 0.0, 1.0], "org_model")
    assert {doc.figures["answer_tokens"] for doc in task.docs} == {3}
    assert task.aggregates["valid,none"].value == pytest.approx(2 / 3)


def test_wrong_answers_may_be_named_by_their_place(tmp_path: Path) -> None:
    root = write(tmp_path / "a", [True, True, False], old=True)
    (score,) = (root / "score").rglob("*.json")
    write_lines(score, [head(3, 1), failure(0, id=3)])
    assert values(read(root)) == [1.0, 1.0, 0.0]
    write_lines(score, [head(3, 1), failure(0, id=1, prompt={"id": "simple_1"})])
    assert values(read(root)) == [1.0, 0.0, 1.0]


def test_tokens_of_turns_and_steps_are_added(tmp_path: Path) -> None:
    rows = [result(0, output_token_count=[[1, 2], [3]]), result(1, output_token_count="x")]
    task = read(write(tmp_path / "a", [True, True], results=rows))
    assert [doc.figures.get("answer_tokens") for doc in task.docs] == [6, None]


def test_tests_are_paired_by_their_ids(tmp_path: Path) -> None:
    rows = [result(number) if number % 4 else result(number, result="no call") for number in range(39, -1, -1)]
    a = write(tmp_path / "a", [True] * 40)
    b = write(tmp_path / "b", [number % 4 > 0 for number in range(40)], model="other", results=rows)
    (task,) = compare(a, b).tasks
    assert task.docs == 40 and task.drop is not None and task.drop.value == pytest.approx(0.25)


def test_of_several_models_one_is_chosen(tmp_path: Path) -> None:
    write(tmp_path / "a", [True] * 40)
    write(tmp_path / "a", [number % 4 > 0 for number in range(40)], model="other")
    assert "holds 2 runs" in str(refuse(tmp_path / "a")) and "There are org_model, other" in str(refuse(tmp_path / "a"))
    (task,) = compare(f"{tmp_path / 'a'}#org_model", f"{tmp_path / 'a'}#other").tasks
    assert task.drop is not None and task.drop.value == pytest.approx(0.25)
    assert "holds no runs of 'third'" in str(refuse(tmp_path / "a#third"))


def test_categories_without_scores_are_left_out_with_a_note(tmp_path: Path) -> None:
    root = write(tmp_path / "a", [True])
    write_lines(root / "result" / "org_model" / "BFCL_v4_java_result.json", [result(0)])
    run = read_any_run([root])
    assert list(run.tasks) == ["simple"] and any("no scores of java: left out" in note for note in run.notes)


def test_tests_without_a_result_are_missing(tmp_path: Path) -> None:
    root = write(tmp_path / "a", [True] * 40)
    (score,) = (root / "score").rglob("*.json")
    write_lines(score, [head(60, 0)])
    assert "40 of 60 docs were run" in compare(root, root).summary


def test_results_become_no_pack(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be asked again: its results do not say what the model was sent"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(write(tmp_path / "a", [True])))


BAD_SCORES: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "no accuracy": (lambda rows: rows[0].pop("accuracy"), "begins with no accuracy and counts"),
    "an accuracy that is a text": (lambda rows: rows[0].update(accuracy="1"), "accuracy is '1', and must be a number"),
    "an accuracy that is NaN": (lambda rows: rows[0].update(accuracy=float("nan")), "begins with no accuracy"),
    "no header": (lambda rows: rows.pop(0), "begins with no accuracy and counts"),
    "a count below 0": (lambda rows: rows[0].update(correct_count=-1), "correct_count is -1, and must be a whole"),
    "a count that is a text": (lambda rows: rows[0].update(total_count="2"), "total_count is '2', and must be a whole"),
    "more wrong answers than it counts": (
        lambda rows: rows.append(failure(0)), "says that 1 answers are wrong, and lists 2",
    ),
    "fewer wrong answers than it counts": (lambda rows: rows.pop(), "says that 1 answers are wrong, and lists 0"),
    "fewer graded answers than results": (
        lambda rows: rows[0].update(correct_count=0, total_count=1), "grades 1 answers, and BFCL_v4_simple_result.json has 2",
    ),
    "a wrong answer of another run": (lambda rows: rows[1].update(id="simple_9"), "grades simple_9, which is not in"),
    "a place beyond the results": (lambda rows: rows[1].update(id=9), "grades 9, which is not in"),
    "a wrong answer without an id": (lambda rows: rows[1].pop("id"), "has no id. Use the file of a finished run"),
    "an id that is a list": (lambda rows: rows[1].update(id=[]), "id is a list, and must be a text or a whole number"),
    "an id that is true": (lambda rows: rows[1].update(id=True), "id is True, and must be a text or a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_SCORES)
def test_damaged_scores_are_one_message(tmp_path: Path, name: str) -> None:
    edit, words = BAD_SCORES[name]
    root = write(tmp_path / "a", [True, False])
    rows = [head(2, 1), failure(1)]
    edit(rows)
    (score,) = (root / "score").rglob("*.json")
    write_lines(score, rows)
    assert words in str(refuse(root))


@pytest.mark.parametrize(
    ("row", "words"), [({"result": "x"}, "has no id. Use the file of a"), ({"id": [1]}, "id is a list"), ([], "a list")]
)
def test_damaged_results_are_one_message(tmp_path: Path, row: Any, words: str) -> None:
    assert words in str(refuse(write(tmp_path / "a", [True], results=[row])))


@pytest.mark.parametrize("kind", ["result", "score"])
@pytest.mark.parametrize("name", [name for name in BROKEN if name not in ("nothing", "white space")])
def test_a_broken_line_is_one_message(tmp_path: Path, kind: str, name: str) -> None:
    root = write(tmp_path / "a", [True])
    (path,) = (root / kind).rglob("*.json")
    path.write_bytes(path.read_bytes() + BROKEN[name][0].replace(b"\n", b" "))
    assert BROKEN[name][1] in str(refuse(root)) and "line 2" in str(refuse(root))


def test_a_damaged_category_does_not_stop_the_others(tmp_path: Path) -> None:
    root = write(tmp_path / "run", [True, False])
    for kind in ("result", "score"):
        (path,) = root.rglob(f"*simple_{kind}.json")
        path.with_name(f"BFCL_v4_parallel_{kind}.json").write_bytes(path.read_bytes())
    check_damage(root, "result/org_model/non_live/BFCL_v4_parallel_result.json", "parallel", "simple")


def test_a_result_twice_is_one_message(tmp_path: Path) -> None:
    assert "holds 'simple_0' twice" in str(refuse(write(tmp_path / "a", [True], results=[result(0), result(0)])))


@pytest.mark.parametrize("other", ["{}/BFCL_v4_simple_{}.json", "{}/non_live/BFCL_v3_simple_{}.json"])
def test_a_category_of_two_runs_is_refused(tmp_path: Path, other: str) -> None:
    root = write(tmp_path / "a", [True, False])
    for kind in ("result", "score"):
        (path,) = (root / kind).rglob("*.json")
        (path.parents[1] / other.format(".", kind)).write_bytes(path.read_bytes())
    told = "holds results of simple of org_model more than once. Keep the files of one run and take out those of others"
    assert told in str(refuse(root))


@pytest.mark.parametrize("other", ["non_live/BFCL_v3_simple_score.json", "BFCL_v4_simple_score.json"])
def test_scores_of_another_folder_or_version_grade_no_results(tmp_path: Path, other: str) -> None:
    root = write(tmp_path / "a", [True, False])
    (score,) = (root / "score").rglob("*.json")
    score.rename(root / "score" / "org_model" / other)
    assert "holds no scores of org_model, only results" in str(refuse(root))


def test_results_without_any_score_are_one_message(tmp_path: Path) -> None:
    write_lines(tmp_path / "result" / "m" / "BFCL_v4_simple_result.json", [result(0)])
    assert "holds no scores of m, only results. Run `bfcl evaluate` first" in str(refuse(tmp_path))


def test_empty_files_are_one_message(tmp_path: Path) -> None:
    root = write(tmp_path / "a", [True])
    (score,) = (root / "score").rglob("*.json")
    score.write_bytes(b"")
    assert "is empty" in str(refuse(root))


def test_no_wrong_value_anywhere_ends_in_more_than_a_message(tmp_path: Path) -> None:
    root = write(tmp_path / "a", [True])
    (results,), (score,) = ((root / kind).rglob("*.json") for kind in ("result", "score"))
    refused = check_mutations(result(0), lambda made: write_lines(results, [made]) and root, step=3)
    write_lines(results, [result(0), result(1)])
    rows = [head(2, 1), failure(1)]
    assert check_mutations(rows, lambda made: write_lines(score, made) and root, most_items=2, step=3) + refused > 5


def test_native_calls_and_calls_as_text_are_not_alike(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [True, False], model="org_model-FC")
    b = write(tmp_path / "b", [True, False], model="org_model")
    assert "calls: native (FC) in A, as text in B" in compare(a, b).summary
