"""Runs of EvalScope: what is read of them, how two are compared, what becomes a pack, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from foreign_logs import BROKEN, check_damage, check_mutations, list_unseen_settings, refuse, write_json, write_lines
from packs import prepare, read_docs

from meta_eval import compare, verify
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.plugins.evalscope.evalscope_format import EvalscopeFormat

RUN = "20260102_030405"


def review(number: int, value: float = 1.0, **score: Any) -> dict[str, Any]:
    return {
        "index": number, "input": f"**User**: \nWhat is {number} modulo 7?", "target": "7",
        "sample_score": {
            "score": {
                "value": {"acc": value}, "extracted_prediction": "7", "prediction": "7" if value else "8",
                "explanation": None, "metadata": {}, "main_score_name": None, **score,
            },
            "sample_id": number, "group_id": number, "sample_metadata": {},
        },
    }  # fmt: skip


def prediction(number: int, *, end: str = "stop", answer: str = "7") -> dict[str, Any]:
    asked = {"id": f"u{number}", "content": f"What is {number} modulo 7?", "source": None, "role": "user"}
    said = {"id": f"a{number}", "content": answer, "source": "generate", "role": "assistant"}
    choice = {"message": said, "stop_reason": end}
    output = {"model": "m", "choices": [choice], "usage": {"output_tokens": 5}, "error": None}
    return {"index": number, "model": "m", "model_output": output, "messages": [asked, said], "metadata": {}}


def report(reviews: Sequence[dict[str, Any]], subset: str = "default", num: int | None = None) -> dict[str, Any]:
    values = [row["sample_score"]["score"]["value"]["acc"] for row in reviews]
    mean = round(sum(values) / len(values), 4)
    subsets = [{"name": subset, "score": mean, "num": num or len(values)}]
    metric = {
        "name": "mean_acc",
        "num": len(values),
        "score": mean,
        "categories": [{"name": ["default"], "subsets": subsets}],
    }
    return {"name": "m@sums", "dataset_name": "sums", "score": mean, "metrics": [metric]}


def write(
    folder: Path,
    reviews: Sequence[dict[str, Any]],
    *,
    model: str = "m",
    predictions: Sequence[dict[str, Any]] | None = None,
    report_of: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> Path:
    root = folder / RUN
    answers = predictions or [prediction(row["index"], answer="7" if value_of(row) else "8") for row in reviews]
    write_lines(root / "reviews" / model / "sums_default.jsonl", list(reviews))
    write_lines(root / "predictions" / model / "sums_default.jsonl", list(answers))
    write_json(root / "reports" / model / "sums.json", report_of or report(reviews))
    if config is not None:
        (root / "configs").mkdir(exist_ok=True)
        (root / "configs" / "task_config_a.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return folder


def value_of(row: dict[str, Any]) -> Any:
    return row["sample_score"]["score"]["value"].get("acc")


def read(path: Path) -> TaskRun:
    (task,) = read_any_run([path]).tasks.values()
    return task


def values(task: TaskRun, metric: str = "acc") -> list[Any]:
    return [doc.filter_results["none"].metrics.get(metric) for doc in task.docs]


def test_verdicts_ends_tokens_and_settings_are_read(tmp_path: Path) -> None:
    rows = [review(1), review(2, 0.0)]
    config = {"model": "m", "generation_config": {"temperature": 0.5, "max_tokens": 99}}
    answers = [prediction(1), prediction(2, end="max_tokens", answer="8")]
    task = read(write(tmp_path / "a", rows, predictions=answers, config=config))
    assert (task.task, values(task), [doc.limit_hit for doc in task.docs]) == ("sums", [1.0, 0.0], [False, True])
    assert {doc.figures["answer_tokens"] for doc in task.docs} == {5} and {doc.subtask for doc in task.docs} == {
        "default"
    }
    assert (task.provenance.model, task.provenance.date) == ("m", "2026-01-02T03:04:05+00:00")
    assert task.provenance.decoding == {"temperature": 0.5, "max_gen_toks": 99, "until": []}
    assert task.aggregates["acc,none"].value == 0.5


@pytest.mark.parametrize("part", ["", RUN, f"{RUN}/reviews", f"{RUN}/reviews/m"])
def test_any_folder_of_a_run_names_it(tmp_path: Path, part: str) -> None:
    folder = write(tmp_path / "a", [review(1), review(2, 0.0)])
    assert values(read(folder / part)) == [1.0, 0.0]


def test_the_main_score_comes_first(tmp_path: Path) -> None:
    row = review(1, value={"loose": 1.0, "strict": 0.0}, main_score_name="strict")
    row["sample_score"]["score"].update(value={"loose": 1.0, "strict": 0.0})
    task = read(write(tmp_path / "a", [row], report_of={"metrics": []}))
    assert list(task.docs[0].filter_results["none"].metrics) == ["strict", "loose"]


def test_samples_of_a_group_are_repeated_answers(tmp_path: Path) -> None:
    rows = [review(number, float(number % 2)) for number in range(4)]
    for number, row in enumerate(rows):
        row["input"] = f"question {number // 2}"
        row["sample_score"].update(group_id=number // 2)
    assert values(read(write(tmp_path / "a", rows))) == [0.5, 0.5]


def test_docs_are_paired_by_content(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [review(number) for number in range(40)])
    rows = [{**review(number, float(number % 4 > 0)), "index": 100 - number} for number in range(39, -1, -1)]
    b = write(tmp_path / "b", rows, predictions=[prediction(number) for number in range(61, 101)])
    (task,) = compare(a, b).tasks
    assert task.docs == 40 and task.drop is not None and task.drop.value == pytest.approx(0.25)


def test_questions_with_equal_content_are_paired_by_their_place(tmp_path: Path) -> None:
    rows = [{**review(number, float(number == 2)), "input": "**User**: \n"} for number in range(4)]
    found = compare(write(tmp_path / "a", rows), write(tmp_path / "b", rows[::-1]))
    assert found.tasks[0].docs == 4 and found.tasks[0].drop is not None and found.tasks[0].drop.value == 0
    assert len({doc.question_hash for doc in read(tmp_path / "a").docs}) == 4


def test_answers_that_were_not_reviewed_and_samples_that_were_not_asked_are_missing(tmp_path: Path) -> None:
    rows = [review(number) for number in range(40)]
    answers = [prediction(number) for number in range(45)]
    a = write(tmp_path / "a", rows, predictions=answers, report_of=report(rows, num=60))
    assert "40 of 60 docs were run" in compare(a, a).summary


@pytest.mark.parametrize("kept", [None, 0, 20])
def test_reviews_without_a_prediction_are_noted_and_have_no_other_prompt(tmp_path: Path, kept: int | None) -> None:
    rows = [review(number) for number in range(40)]
    a, b = (write(tmp_path / side, rows, model=side) for side in "ab")
    path = b / RUN / "predictions" / "b" / "sums_default.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink() if kept is None else path.write_bytes(b"".join(lines[:kept]))
    found = compare(a, b, margin=20)
    assert found.decision.outcome == "SHIP"
    assert any(f"{40 - (kept or 0)} of 40 reviews of sums_default have no prediction" in note for note in found.notes)


def test_a_review_twice_is_refused_and_a_report_of_fewer_is_noted(tmp_path: Path) -> None:
    rows = [review(number) for number in range(4)]
    assert "has 4 reviews of sums_default, and its report says 3" in " ".join(
        read_any_run([write(tmp_path / "a", rows, report_of=report(rows, num=3))]).notes
    )
    with pytest.raises(UserError, match="line 5: repeats the index 0"):
        read(write(tmp_path / "b", [*rows, rows[0]]))


def test_a_run_without_a_report_is_noted(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [review(1)])
    (folder / RUN / "reports" / "m" / "sums.json").unlink()
    run = read_any_run([folder])
    assert list(run.tasks) == ["sums_default"] and any(
        "has no report: its run still writes" in note for note in run.notes
    )


def test_a_report_that_the_reviews_do_not_give_is_noted(tmp_path: Path) -> None:
    rows = [review(1), review(2, 0.0)]
    run = read_any_run([write(tmp_path / "a", rows, report_of=report([review(1)]))])
    assert any("says acc 1.0000, and its verdicts give 0.5000" in note for note in run.notes)


def test_of_several_models_one_is_chosen(tmp_path: Path) -> None:
    rows = [review(number) for number in range(40)]
    write(tmp_path / "a", rows, model="org/one".replace("/", "_"))
    write(tmp_path / "a", [review(number, float(number % 4 > 0)) for number in range(40)], model="two")
    assert "holds 2 runs" in str(refuse(tmp_path / "a")) and "There are org_one, two" in str(refuse(tmp_path / "a"))
    (task,) = compare(f"{tmp_path / 'a'}#org_one", f"{tmp_path / 'a'}#two").tasks
    assert task.drop is not None and task.drop.value == pytest.approx(0.25)
    assert "holds no runs of 'three'" in str(refuse(tmp_path / "a#three"))


def test_names_in_another_script_stay_apart(tmp_path: Path) -> None:
    for name in ("题目甲", "题目乙"):
        write_lines(tmp_path / RUN / "reviews" / "m" / f"{name}.jsonl", [review(1)])
    assert len(read_any_run([tmp_path]).tasks) == 2


def test_reviews_before_version_1_are_read(tmp_path: Path) -> None:
    rows = [
        {
            "index": number, "raw_input": {"question": f"{number}?"}, "model": "m", "reviewed": True,
            "choices": [{"message": {"content": "A"}, "review": {"gold": "A", "pred": "A", "result": number > 1}}],
        }
        for number in (1, 2)
    ]  # fmt: skip
    write_lines(tmp_path / RUN / "reviews" / "m" / "arc_challenge.jsonl", rows)
    assert values(read(tmp_path)) == [0.0, 1.0]


@pytest.mark.parametrize("judge", ["deepseek-chat", "another"])
def test_the_judge_that_reviews_name_is_compared(tmp_path: Path, judge: str) -> None:
    for name, other in (("a", "deepseek-chat"), ("b", judge)):
        metadata = {"source": "llm_judge", "model": other}
        write(tmp_path / name, [review(number, float(number % 5 > (name == "b")), metadata=metadata) for number in range(60)],
              predictions=[prediction(number) for number in range(60)])  # fmt: skip
    judged = compare(tmp_path / "a", tmp_path / "b")
    assert ("perhaps graded differently" in judged.summary) is (judge == "another")


def test_answers_of_several_turns_are_the_same_where_all_messages_are(tmp_path: Path) -> None:
    for name, tool in (("a", "ls"), ("b", "rm")):
        made = [prediction(number) for number in range(20)]
        for row in made:
            row["messages"] += [{"role": "tool", "content": tool}, row["messages"][-1]]
        write(
            tmp_path / name,
            [review(number, float(name == "a" or number > 4)) for number in range(20)],
            predictions=made,
        )
    judged = compare(tmp_path / "a", tmp_path / "b")
    assert "the same word for word" not in json.dumps(judged.to_json()) + " ".join(judged.notes)


# Packs


def test_a_run_of_exact_answers_becomes_a_pack(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [review(1), review(2, 0.0)])
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder), backend="chat")
    assert verify(pack).passed
    bodies = [json.loads(doc["prompt"]) for doc in read_docs(pack, "sums")]
    assert bodies[0] == {"messages": [{"role": "user", "content": "What is 1 modulo 7?"}]}


def test_a_run_without_the_messages_becomes_no_pack(tmp_path: Path) -> None:
    answers = [{**prediction(1), "messages": prediction(1)["messages"][1:]}]
    folder = write(tmp_path / "a", [review(1)], predictions=answers)
    with pytest.raises(UserError, match="its log has no messages as they were sent"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder), backend="chat")


# Bad files


def in_score(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda row: row["sample_score"]["score"].update(values)


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no index": (
        lambda row: (row.pop("index"), row["sample_score"].pop("group_id"), row["sample_score"].pop("sample_id")),
        "has no index. Use the file of a finished run, as it was written",
    ),
    "an index that is a list": (lambda row: row.update(index=[1]), "index is a list, and must be a text or a whole number"),
    "a score that is a list": (lambda row: row["sample_score"].update(score=[]), "score is a list, and must be an object"),
    "no value": (in_score(value={}), "no answer has a verdict"),
    "a value that is NaN": (in_score(value={"acc": float("nan")}), "no answer has a verdict"),
    "a value that is a text": (in_score(value={"acc": "1"}), "no answer has a verdict"),
    "a huge value": (in_score(value={"acc": 10**400}), "no answer has a verdict"),
    "an extraction that is a number": (in_score(extracted_prediction=7), "extracted_prediction is 7, and must be text"),
    "a main score that is a list": (in_score(main_score_name=["acc"]), "main_score_name is a list, and must be text"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_review_is_one_message(tmp_path: Path, name: str) -> None:
    edit, words = BAD[name]
    row = review(1)
    folder = write(tmp_path / "a", [row])
    edit(row)
    write_lines(folder / RUN / "reviews" / "m" / "sums_default.jsonl", [row])
    assert words in str(refuse(folder))


@pytest.mark.parametrize(
    "file", ["reviews/m/sums_default.jsonl", "predictions/m/sums_default.jsonl", "reports/m/sums.json"]
)
@pytest.mark.parametrize("name", [name for name in BROKEN if name not in ("nothing", "white space")])
def test_a_broken_file_is_one_message(tmp_path: Path, file: str, name: str) -> None:
    folder = write(tmp_path / "a", [review(1)])
    content, words = BROKEN[name]
    (folder / RUN / file).write_bytes(content.replace(b"\n", b" "))
    assert words in str(refuse(folder))


def test_predictions_that_are_a_broken_link_are_one_message(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [review(1)])
    path = folder / RUN / "predictions" / "m" / "sums_default.jsonl"
    path.unlink()
    path.symlink_to("gone.jsonl")
    assert "sums_default.jsonl: cannot be read: " in str(refuse(folder))


def test_empty_reviews_are_one_message(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [review(1)])
    (folder / RUN / "reviews" / "m" / "sums_default.jsonl").write_bytes(b"")
    assert "holds no answer" in str(refuse(folder))


def test_a_line_that_is_cut_off_is_one_message(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [review(1), review(2)])
    path = folder / RUN / "reviews" / "m" / "sums_default.jsonl"
    path.write_bytes(path.read_bytes()[:-50])
    assert "sums_default.jsonl, line 2: is cut off or not JSON" in str(refuse(folder))


@pytest.mark.parametrize("file", ["reviews/m/more_default.jsonl", "reports/m/more.json"])
def test_a_damaged_dataset_does_not_stop_the_others(tmp_path: Path, file: str) -> None:
    root = write(tmp_path, [review(1)]) / RUN
    for path in list(root.glob("*/m/sums*")):
        path.with_name(path.name.replace("sums", "more")).write_bytes(path.read_bytes())
    check_damage(tmp_path, f"{RUN}/{file}", "more", "sums")


def test_a_configuration_that_runs_code_is_one_message(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [review(1)], config={})
    (folder / RUN / "configs" / "task_config_a.yaml").write_text(
        "a: !!python/object/apply:os.getcwd []", encoding="utf-8"
    )
    assert "task_config_a.yaml" in str(refuse(folder))


def test_no_wrong_value_anywhere_ends_in_more_than_a_message(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", [review(1)], config={"generation_config": {"temperature": 0.5}})
    reviews, predictions = ((folder / RUN / name / "m" / "sums_default.jsonl") for name in ("reviews", "predictions"))

    def write_one(path: Path) -> Callable[[Any], Path]:
        return lambda made: write_lines(path, [made]) and folder

    refused = check_mutations(prediction(1), write_one(predictions))
    write_lines(predictions, [prediction(1)])
    assert check_mutations(review(1), write_one(reviews)) + refused > 5


def test_a_change_of_each_compared_setting_is_named(tmp_path: Path) -> None:
    settings = {
        name: place.replace("DATASET", "sums")
        for name, place in {**EvalscopeFormat.settings, **EvalscopeFormat.grader_settings}.items()
    }
    assert not list_unseen_settings(
        settings, {"generation_config": {"temperature": 0.5}, "dataset_args": {"sums": {}}},
        lambda name, config: write(tmp_path / name, [review(1), review(2, 0.0)], config=config),
    )  # fmt: skip
