"""Runs of HELM: what is read of them, how two are compared, what becomes a pack, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from foreign_logs import BROKEN, check_damage, check_mutations, list_unseen_settings, refuse, write_json
from packs import prepare, read_docs

from meta_eval import compare, verify
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.plugins.helm.helm_format import HelmFormat

FOLDER = "mmlu:subject=sums,model=org_model"


def request(number: int, answer: str = " A", **others: Any) -> dict[str, Any]:
    references = [{"output": {"text": text}, "tags": ["correct"] if text == "7" else []} for text in ("7", "8")]
    result = {"text": answer, "logprob": -1.0, "tokens": [], "finish_reason": {"reason": "length"}}
    return {
        "instance": {
            "input": {"text": f"What is {number} modulo 7?"}, "references": references, "split": "test", "id": f"id{number}",
        },
        "train_trial_index": 0, "output_mapping": {"A": "7", "B": "8"}, "num_train_instances": 5,
        "request": {"model": "org/model", "prompt": f"Question: {number}\nAnswer:", "temperature": 0.0, "max_tokens": 1},
        "result": {"success": True, "completions": [result], "cached": False, "request_datetime": 1767323045},
        **others,
    }  # fmt: skip


def stat(name: str, mean: float | None, **others: Any) -> dict[str, Any]:
    return {"name": {"name": name, "split": "test", **others}, "count": 1, "sum": mean, "mean": mean}


def stats(number: int, right: float, trial: int = 0) -> dict[str, Any]:
    means = [
        stat("num_references", 2),
        stat("exact_match", right),
        stat("exact_match", 0.0, perturbation={"name": "x"}),
    ]
    means += [stat("logprob", -3.0), stat("f1_score", right / 2), stat("training_co2_cost", None)]
    return {"instance_id": f"id{number}", "train_trial_index": trial, "stats": means}


def write(
    folder: Path, rights: Sequence[float], *, requests: Sequence[dict[str, Any]] | None = None, model: str = "org/model"
) -> Path:
    asked = requests or [request(number, " A" if right else " B") for number, right in enumerate(rights)]
    spec = {
        "method": "multiple_choice_joint",
        "model": model,
        "temperature": 0.0,
        "max_tokens": 1,
        "stop_sequences": ["\n"],
    }
    write_json(folder / "scenario_state.json", {"adapter_spec": spec, "request_states": list(asked)})
    write_json(folder / "per_instance_stats.json", [stats(number, right) for number, right in enumerate(rights)])
    write_json(folder / "stats.json", [stat("exact_match", sum(rights) / len(rights))])
    name = f"mmlu:subject=sums,model={model.replace('/', '_')}"
    write_json(folder / "run_spec.json", {"name": name, "adapter_spec": spec, "metric_specs": [{"class_name": "M"}]})
    return folder


def read(path: Path) -> TaskRun:
    (task,) = read_any_run([path]).tasks.values()
    return task


def values(task: TaskRun, metric: str = "exact_match") -> list[Any]:
    return [doc.filter_results["none"].metrics.get(metric) for doc in task.docs]


@pytest.mark.parametrize("part", ["", "scenario_state.json"])
def test_verdicts_golds_ends_and_settings_are_read(tmp_path: Path, part: str) -> None:
    task = read(write(tmp_path / FOLDER, [1.0, 0.0]) / part)
    assert (task.task, values(task), values(task, "f1_score")) == ("mmlu:subject_sums", [1.0, 0.0], [0.5, 0.0])
    assert [doc.gold for doc in task.docs] == ["A", "A"] and [doc.limit_hit for doc in task.docs] == [True, True]
    assert (task.provenance.model, task.provenance.date) == ("org/model", "2026-01-02T03:04:05+00:00")
    assert task.provenance.decoding == {"max_gen_toks": 1, "until": ["\n"]} and task.provenance.shots == 5
    assert list(task.docs[0].filter_results["none"].metrics) == ["f1_score", "exact_match"]
    assert task.aggregates["exact_match,none"].value == 0.5


def test_a_folder_of_runs_has_a_task_for_each(tmp_path: Path) -> None:
    write(tmp_path / "suite" / "one", [1.0])
    (spec := write(tmp_path / "suite" / "two", [0.0]) / "run_spec.json").write_text('{"name": "gsm:model=org_model"}')
    run = read_any_run([tmp_path / "suite"])
    assert {name: values(task) for name, task in run.tasks.items()} == {"gsm": [0.0], "mmlu:subject_sums": [1.0]}, spec


def test_instances_are_paired_by_content_and_equal_ones_by_their_id(tmp_path: Path) -> None:
    rights = [float(number % 4 > 0) for number in range(40)]
    a = write(tmp_path / "a", [1.0] * 40)
    b = write(tmp_path / "b", rights, model="org/other")
    (task,) = compare(a, b).tasks
    assert task.docs == 40 and task.drop is not None and task.drop.value == pytest.approx(0.125)  # of f1_score
    hidden = [request(number) for number in range(40)]
    for row in hidden:
        row["instance"]["input"]["text"] = "[encrypted]"
    task_run = read(write(tmp_path / "c", rights, requests=hidden[::-1]))
    assert len({doc.question_hash for doc in task_run.docs}) == 40


def test_trials_are_repeated_answers(tmp_path: Path) -> None:
    rows = [request(0, train_trial_index=trial) for trial in (0, 1)]
    folder = write(tmp_path / FOLDER, [1.0], requests=rows)
    write_json(folder / "per_instance_stats.json", [stats(0, 1.0), stats(0, 0.0, trial=1)])
    assert values(read(folder)) == [0.5]


def test_perturbed_instances_are_left_out(tmp_path: Path) -> None:
    changed = request(0)
    changed["instance"]["perturbation"] = {"name": "misspellings"}
    run = read_any_run([write(tmp_path / FOLDER, [1.0], requests=[request(0), changed])])
    assert values(run.tasks["mmlu:subject_sums"]) == [1.0]
    assert any("perturbed copies of 1 instance are left out" in note for note in run.notes)


def test_of_choices_that_were_asked_one_by_one_the_likeliest_is_the_answer(tmp_path: Path) -> None:
    rows = [request(0, reference_index=index, output_mapping=None) for index in (0, 1)]
    rows[0]["result"]["completions"][0]["logprob"] = -9.0
    task = read(write(tmp_path / FOLDER, [0.0], requests=rows))
    assert (task.docs[0].answer_tail, task.docs[0].gold) == ("8", "7")


@pytest.mark.parametrize("failed", [{"success": False, "error": "quota", "completions": []}, None])
def test_a_failed_request_is_no_verdict(tmp_path: Path, failed: dict[str, Any] | None) -> None:
    run = read_any_run([write(tmp_path / FOLDER, [1.0, 0.0], requests=[request(0), request(1, result=failed)])])
    assert values(run.tasks["mmlu:subject_sums"]) == [1.0] and any("its request failed" in note for note in run.notes)


def state_twice(folder: Path) -> None:
    write(folder, [0.0, 1.0], requests=[request(0, " B"), request(1), request(0)])


def entry_twice(folder: Path) -> None:
    write_json(folder / "per_instance_stats.json", [stats(0, 0.0), stats(1, 1.0), stats(0, 1.0)])


def statistic_twice(folder: Path) -> None:
    entry = stats(0, 0.0)
    entry["stats"].append(stat("exact_match", 1.0))
    write_json(folder / "per_instance_stats.json", [entry, stats(1, 1.0)])


@pytest.mark.parametrize("double", [state_twice, entry_twice, statistic_twice])
def test_an_instance_with_two_answers_or_verdicts_is_refused(tmp_path: Path, double: Callable[[Path], None]) -> None:
    folder = write(tmp_path / FOLDER, [0.0, 1.0])
    double(folder)
    assert "holds 'id0' twice. Use the files of one run, as HELM wrote them" in str(refuse(folder))


def test_metrics_may_give_an_instance_entries_of_their_own(tmp_path: Path) -> None:
    folder = write(tmp_path / FOLDER, [0.0, 1.0])
    more = [{**stats(0, 0.0), "stats": [stat("exact_match", 0.0), stat("bleu", 0.5), stat("bleu", 1.0, sub_split="x")]}]
    write_json(folder / "per_instance_stats.json", [stats(0, 0.0), stats(1, 1.0), *more])
    assert (values(read(folder)), values(read(folder), "bleu")) == ([0.0, 1.0], [0.5, None])


def test_a_statistic_of_nothing_is_no_verdict(tmp_path: Path) -> None:
    folder = write(tmp_path / FOLDER, [0.0, 1.0])
    entry = {**stats(0, 1.0), "stats": [{**stat("exact_match", 1.0), "count": 0}]}
    write_json(folder / "per_instance_stats.json", [entry, stats(1, 1.0)])
    assert values(read(folder)) == [1.0]


# Packs


def test_a_run_of_exact_answers_becomes_a_pack(tmp_path: Path) -> None:
    folder = write(tmp_path / FOLDER, [1.0, 0.0])
    for path in (folder / "per_instance_stats.json", folder / "stats.json"):
        path.write_text(path.read_text(encoding="utf-8").replace("f1_score", "num_x"), encoding="utf-8")
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder))
    assert verify(pack).passed
    assert [doc["prompt"] for doc in read_docs(pack, "mmlu:subject_sums")] == [
        "Question: 0\nAnswer:", "Question: 1\nAnswer:",
    ]  # fmt: skip


def test_a_run_of_another_metric_becomes_no_pack(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="was graded by helm .* which meta-eval does not run"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(write(tmp_path / FOLDER, [1.0])))


# Bad files

BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no requests": (lambda tree: tree.update(request_states=[]), "holds no request"),
    "requests that are an object": (lambda tree: tree.update(request_states={}), "request_states is an object"),
    "a request that is null": (lambda tree: tree["request_states"].append(None), "is null and no object"),
    "no id": (lambda tree: tree["request_states"][0]["instance"].pop("id"), "has no id of its instance"),
    "an id that is a list": (lambda tree: tree["request_states"][0]["instance"].update(id=[]), "id is a list"),
    "references that are a text": (
        lambda tree: tree["request_states"][0]["instance"].update(references="x"), "references is 'x', and must be a list",
    ),
    "tags that are a text": (
        lambda tree: tree["request_states"][0]["instance"]["references"][0].update(tags="correct"), "tags is 'correct'",
    ),
    "completions that are a text": (
        lambda tree: tree["request_states"][0]["result"].update(completions="x"), "completions is 'x', and must be a list",
    ),
    "a text that is a number": (
        lambda tree: tree["request_states"][0]["result"]["completions"][0].update(text=5), "text is 5, and must be text",
    ),
    "a trial below 0": (lambda tree: tree["request_states"][0].update(train_trial_index=-1), "train_trial_index is -1"),
    "a specification that is a list": (lambda tree: tree.update(adapter_spec=[]), "adapter_spec is a list"),
    "stops that are a text": (lambda tree: tree["adapter_spec"].update(stop_sequences="x"), "stop_sequences is 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_state_is_one_message(tmp_path: Path, name: str) -> None:
    edit, words = BAD[name]
    folder = write(tmp_path / FOLDER, [1.0])
    tree: dict[str, Any] = {"adapter_spec": {"model": "m"}, "request_states": [request(0)]}
    edit(tree)
    write_json(folder / "scenario_state.json", tree)
    assert words in str(refuse(folder))


@pytest.mark.parametrize("file", ["scenario_state.json", "per_instance_stats.json", "run_spec.json"])
@pytest.mark.parametrize("name", [name for name in BROKEN if name != "a list"])
def test_a_broken_file_is_one_message(tmp_path: Path, file: str, name: str) -> None:
    folder = write(tmp_path / FOLDER, [1.0])
    content, words = BROKEN[name]
    (folder / file).write_bytes(content)
    words = "is no list" if "and no object" in words and file.startswith("per") else words
    assert words in str(refuse(folder))


def write_two(folder: Path, model: str) -> Path:
    write(folder / "one", [1.0] * 40, model=model)
    (write(folder / "two", [0.0], model=model) / "run_spec.json").write_text('{"name": "gsm:model=m"}')
    return folder


@pytest.mark.parametrize(
    ("file", "damaged"), [("per_instance_stats.json", "gsm"), ("run_spec.json", "two_scenario_state.json")]
)
def test_a_damaged_run_does_not_stop_the_others(tmp_path: Path, file: str, damaged: str) -> None:
    check_damage(write_two(tmp_path, "org/a"), f"two/{file}", damaged, "mmlu:subject_sums")


def test_a_damaged_run_forbids_ship_unless_it_is_skipped(tmp_path: Path) -> None:
    a, b = write_two(tmp_path / "a", "org/a"), write_two(tmp_path / "b", "org/b")
    (b / "two" / "per_instance_stats.json").write_bytes(b"[")
    found = compare(a, b, margin=20)
    assert found.decision.outcome == "UNDECIDED" and "left out" in found.summary
    assert compare(a, b, margin=20, skip_damaged=True).decision.outcome == "SHIP"


def test_a_run_without_metrics_is_one_message(tmp_path: Path) -> None:
    folder = write(tmp_path / FOLDER, [1.0])
    (folder / "per_instance_stats.json").unlink()
    assert "has no per_instance_stats.json: its run still writes" in str(refuse(folder))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"stats": []}, "has no instance_id"),
        ({"instance_id": "id9", "stats": []}, "no answer has a verdict"),
        ({"instance_id": "id0", "stats": "x"}, "stats is 'x', and must be a list"),
        ({"instance_id": "id0", "stats": [{"name": "exact_match"}]}, "name is 'exact_match', and must be an object"),
        ({"instance_id": "id0", "stats": [stat("exact_match", "1")]}, "mean is '1', and must be a number"),  # type: ignore[arg-type]
        ({"instance_id": "id0", "stats": [stat("exact_match", 10**400)]}, "and must be a number"),
        ({"instance_id": "id0", "stats": [stat("exact_match", float("nan"))]}, "no answer has a verdict"),
    ],
)
def test_damaged_metrics_are_one_message(tmp_path: Path, entry: dict[str, Any], words: str) -> None:
    folder = write(tmp_path / FOLDER, [1.0])
    write_json(folder / "per_instance_stats.json", [entry])
    assert words in str(refuse(folder))


def test_no_wrong_value_anywhere_ends_in_more_than_a_message(tmp_path: Path) -> None:
    folder = write(tmp_path / FOLDER, [1.0])
    tree = {"adapter_spec": {"model": "m", "temperature": 0.0}, "request_states": [request(0)]}
    refused = check_mutations(tree, lambda made: write_json(folder / "scenario_state.json", made).parent)
    write_json(folder / "scenario_state.json", tree)
    entries = [stats(0, 1.0)]
    refused += check_mutations(entries, lambda made: write_json(folder / "per_instance_stats.json", made).parent)
    assert refused > 10


def test_a_change_of_each_compared_setting_is_named(tmp_path: Path) -> None:
    def write_tree(name: str, tree: Any) -> Path:
        folder = write(tmp_path / name / FOLDER, [1.0, 0.0])
        write_json(folder / "run_spec.json", {"name": "mmlu", **tree})
        state = {"adapter_spec": tree["adapter_spec"], "request_states": [request(0), request(1, " B")]}
        write_json(folder / "scenario_state.json", state)
        return folder

    tree = {"adapter_spec": {"temperature": 0.5, "stop_sequences": ["\n"]}, "metric_specs": [{"class_name": "M"}]}
    values = {"until": ["."], "metric_specs": [{"class_name": "N"}], "annotators": [{"class_name": "J"}]}
    settings = {**HelmFormat.settings, **HelmFormat.grader_settings}
    assert not list_unseen_settings(settings, tree, write_tree, values)


def test_splits_of_a_run_are_subtasks_and_are_named(tmp_path: Path) -> None:
    rows = [request(number, " A" if number % 2 else " B") for number in range(6)]
    for row in rows[:2]:
        row["instance"]["split"] = "valid"
    run = read_any_run([write(tmp_path / FOLDER, [0.0, 1.0] * 3, requests=rows)])
    (task,) = run.tasks.values()
    assert [doc.subtask for doc in task.docs] == ["valid"] * 2 + ["test"] * 4
    assert any("it has 2 splits (test 4, valid 2): each is a subtask" in note for note in run.notes)
