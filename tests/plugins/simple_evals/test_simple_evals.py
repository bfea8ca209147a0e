"""Results of simple-evals: what is read of them, how two are compared, what becomes a pack, and what is refused."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from foreign_logs import BROKEN, check_mutations, refuse, write_json
from packs import prepare, read_docs

from meta_eval import compare, verify
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.records.record_runs import read_any_run

NAME = "mmlu_org-model_20260102_030405_allresults.json"


def convo(number: int, answer: str = "7") -> list[dict[str, str]]:
    question = f"What is {number} modulo 7? <p>Score: 0.0</p>"
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def report(messages: Sequence[dict[str, str]], score: object, extracted: str = "7") -> str:
    shown = "".join(
        f'<div class="message {message["role"]}">\n<div class="role">x</div>\n<div class="content">\n'
        f"<pre>{html.escape(message['content'])}</pre>\n</div></div>\n"
        for message in messages
    )
    lines = f"<p>Correct Answer: 7</p>\n<p>Extracted Answer: {extracted}</p>\n<p>Score: {score}</p>\n"
    return f"<h3>Prompt conversation</h3>\n{shown}<h3>Results</h3>\n{lines}"


def log(scores: Sequence[object], **others: Any) -> dict[str, Any]:
    convos = [convo(number, "7" if score else "8") for number, score in enumerate(scores)]
    return {
        "score": sum(map(float, scores)) / len(scores), "metrics": {"score:std": 0.1},  # type: ignore[arg-type]
        "htmls": [report(messages, score) for messages, score in zip(convos, scores, strict=True)],
        "convos": convos, "metadata": None, **others,
    }  # fmt: skip


def write(path: Path, scores: Sequence[object], **others: Any) -> Path:
    return write_json(path, log(scores, **others))


def write_html(path: Path, scores: Sequence[object]) -> Path:
    tree = log(scores)
    head = "<!DOCTYPE html>\n<html><head><style>.message.assistant { }</style></head><body><h1>Metrics</h1>"
    table = f"<tr><td><b>Score</b></td>\n<td>{float(tree['score']):.3f}</td></tr>"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}{table}<h1>Examples</h1>{'<hr>'.join(tree['htmls'])}</body>\n</html>", encoding="utf-8")
    return path


def read(path: Path) -> TaskRun:
    (task,) = read_any_run([path]).tasks.values()
    return task


def values(task: TaskRun) -> list[Any]:
    return [doc.filter_results["none"].metrics.get("score") for doc in task.docs]


def test_verdicts_task_model_and_time_are_read(tmp_path: Path) -> None:
    task = read(write(tmp_path / NAME, [1.0, 0.0, True, False]))
    assert (task.task, values(task)) == ("mmlu", [1.0, 0.0, 1.0, 0.0])
    assert (task.provenance.model, task.provenance.date) == ("org-model", "2026-01-02T03:04:05+00:00")
    assert [doc.gold for doc in task.docs] == ["7"] * 4 and task.aggregates["score,none"].value == 0.5


@pytest.mark.parametrize(
    ("name", "task", "model"),
    [
        ("healthbench_hard_gpt_4_20260102_030405_DEBUG_allresults.json", "healthbench_hard", "gpt_4"),
        ("gpqa_o1_allresults.json", "gpqa", "o1"),
        ("mine.json", "mine", None),
    ],
)
def test_names_of_files_say_task_and_model(tmp_path: Path, name: str, task: str, model: str | None) -> None:
    run = read_any_run([write(tmp_path / name, [1.0])])
    assert list(run.tasks) == [task]
    assert (run.tasks[task].provenance.model == model) is (model is not None)
    assert any("the model is unknown" in note for note in run.notes) is (model is None)


@pytest.mark.parametrize("score", ["\uff11", "1_0", "inf", "nan", ""])
def test_a_score_in_other_digits_is_no_verdict(tmp_path: Path, score: str) -> None:
    tree = log([1.0, 0.0])
    tree["htmls"][1] = report(tree["convos"][1], score)
    assert values(read(write_json(tmp_path / NAME, tree))) == [1.0]
    (path := write_html(tmp_path / "m.html", [1.0])).write_text(
        path.read_text(encoding="utf-8").replace("<td>1.000<", f"<td>{score}<"), encoding="utf-8"
    )
    assert values(read(path)) == [1.0] and not read(path).aggregates


def test_a_report_in_html_is_the_same(tmp_path: Path) -> None:
    scores = [float(number % 3 > 0) for number in range(30)]
    a, b = write(tmp_path / "a" / NAME, scores), write_html(tmp_path / "b" / "mmlu_org-model.html", scores)
    assert [doc.question_hash for doc in read(a).docs] == [doc.question_hash for doc in read(b).docs]
    assert values(read(a)) == values(read(b)) and read(b).aggregates["score,none"].value == pytest.approx(2 / 3)


def test_a_report_beside_its_results_is_not_read_twice(tmp_path: Path) -> None:
    write(tmp_path / NAME, [1.0])
    write_html(tmp_path / NAME.replace("_allresults.json", ".html"), [1.0])
    assert len(read_any_run([tmp_path], repeats=True).all_runs("mmlu")) == 1


def test_of_several_files_without_a_time_none_is_the_newest(tmp_path: Path) -> None:
    for name in ("mmlu_m_allresults.json", "mmlu_m_DEBUG_allresults.json"):
        write(tmp_path / name, [1.0])
    assert "mmlu: there are 2 runs, and their logs do not say which is the newest" in str(refuse(tmp_path, "mmlu"))
    write(tmp_path / "mmlu_m_DEBUG_allresults.json", [0.0])
    assert len(read_any_run([tmp_path], repeats=True).all_runs("mmlu")) == 2


def test_scores_of_metadata_count_where_there_are_any(tmp_path: Path) -> None:
    examples = {"example_level_metadata": [{"score": 0.25, "rubric_items": []}, {"score": None}]}
    task = read(write(tmp_path / NAME, [1.0, 1.0], metadata=examples))
    assert values(task) == [0.25, 1.0]


def test_equal_questions_are_repeated_answers(tmp_path: Path) -> None:
    tree = log([1.0, 0.0])
    tree["convos"][1] = convo(0, "8")
    assert values(read(write_json(tmp_path / NAME, tree))) == [0.5]


def test_questions_are_paired_whatever_their_order(tmp_path: Path) -> None:
    tree = log([float(number % 4 > 0) for number in range(40)])
    tree |= {name: tree[name][::-1] for name in ("htmls", "convos")}
    a, b = write(tmp_path / "a" / NAME, [1.0] * 40), write_json(tmp_path / "b" / NAME, tree)
    (task,) = compare(a, b).tasks
    assert task.docs == 40 and task.drop is not None and task.drop.value == pytest.approx(0.25)


def test_results_of_exact_answers_become_a_pack(tmp_path: Path) -> None:
    path = write(tmp_path / NAME, [1.0, 0.0])
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(path), backend="chat")
    assert verify(pack).passed
    assert json.loads(read_docs(pack, "mmlu")[1]["prompt"])["messages"] == convo(1)[:1]


def test_results_of_another_grader_become_no_pack(tmp_path: Path) -> None:
    tree = log([1.0])
    tree["convos"] = [convo(0, "Answer: 7")]
    with pytest.raises(UserError, match="was graded by simple_evals .* which meta-eval does not run"):
        prepare(tmp_path / "p", "recorded", evals_dataset=str(write_json(tmp_path / NAME, tree)), backend="chat")


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no conversations": (lambda tree: tree.update(convos=[]), "has 0 conversations and 2 htmls"),
    "neither conversations nor reports": (lambda tree: tree.update(convos=[], htmls=[]), "holds no conversations"),
    "conversations that are an object": (lambda tree: tree.update(convos={}), "convos is an object, and must be a list"),
    "a conversation that is a text": (lambda tree: tree.update(convos=["x", "y"]), "has no conversation"),
    "an empty conversation": (lambda tree: tree["convos"].__setitem__(0, []), "has no conversation"),
    "a message that is a text": (lambda tree: tree["convos"].__setitem__(0, ["x"]), "is a text and no object"),
    "a message without a role": (lambda tree: tree["convos"][0][0].pop("role"), "has no role"),
    "fewer reports": (lambda tree: tree["htmls"].pop(), "has 2 conversations and 1 htmls. Use the"),
    "a report that is a number": (lambda tree: tree["htmls"].__setitem__(0, 5), "the report of an example is no text"),
    "fewer examples": (
        lambda tree: tree.update(metadata={"example_level_metadata": [{}]}),
        "has 2 conversations and 1 example_level_metadata",
    ),
    "metadata that is a list": (lambda tree: tree.update(metadata=[1]), "metadata is a list, and must be an object"),
    "no score in a report": (lambda tree: tree.update(htmls=["<p></p>"] * 2), "no answer has a verdict"),
    "a score that is NaN": (
        lambda tree: tree.update(htmls=[text.replace("1.0", "nan") for text in tree["htmls"]]), "no answer has a verdict",
    ),
    "a mean that is a text": (lambda tree: tree.update(score="0.5"), "score is '0.5', and must be a number"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_damaged_results_are_one_message(tmp_path: Path, name: str) -> None:
    edit, words = BAD[name]
    tree = log([1.0, 1.0])
    edit(tree)
    assert words in str(refuse(write_json(tmp_path / NAME, tree)))


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in ("nothing", "white space")])
def test_broken_json_is_one_message(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / NAME, [1.0])
    path.write_bytes(path.read_bytes()[:-1] + b',"x":' + BROKEN[name][0])
    assert refuse(path) is not None


@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_files_that_are_cut_off_are_one_message(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / NAME, [1.0] * 9)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "is cut off or not JSON" in str(refuse(path))
    path = write_html(tmp_path / "mmlu_m.html", [1.0] * 9)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "is cut off" in str(refuse(path))


def test_no_wrong_value_anywhere_ends_in_more_than_a_message(tmp_path: Path) -> None:
    tree = log([1.0], metadata={"example_level_metadata": [{"score": 1.0}]})
    assert check_mutations(tree, lambda made: write_json(tmp_path / NAME, made), step=5) > 5


def test_a_benchmark_with_hundreds_of_metrics_is_recognised(tmp_path: Path) -> None:
    """HealthBench has 9 kB of metrics before the reports."""
    many = {f"theme:{number:04}:bootstrap_std": 0.5 for number in range(400)}
    task = read(write(tmp_path / "healthbench_hard_m_20260102_030405_allresults.json", [1.0, 0.0], metrics=many))
    assert (task.task, values(task)) == ("healthbench_hard", [1.0, 0.0])


def test_points_below_zero_are_compared_in_their_own_unit(tmp_path: Path) -> None:
    """A rubric takes points off, and simple-evals cuts the mean at 0 and 1."""
    scores = [-0.5, 0.25, 0.5, 1.0] * 10
    for name, lost in (("a", 0.0), ("b", 0.25)):
        convos = [convo(number, name) for number in range(len(scores))]
        points = [score - lost for score in scores]
        reports = [report(messages, score) for messages, score in zip(convos, points, strict=True)]
        write(tmp_path / name / NAME, [1.0], score=max(0.0, sum(points) / len(points)), convos=convos, htmls=reports)
    (task,) = compare(tmp_path / "a", tmp_path / "b").tasks
    assert task.own_unit is not None
    assert (task.own_unit.baseline, task.own_unit.candidate) == (pytest.approx(0.3125), pytest.approx(0.0625))
    assert compare(tmp_path / "a", tmp_path / "b").decision.outcome != "SHIP"
