"""Logs of inspect_ai: what is read of them, how two are compared, what becomes a pack, and what is refused."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from foreign_logs import BROKEN, check_damage, check_mutations, list_unseen_settings, refuse, write_json
from marks import each
from packs import prepare, read_docs

from meta_eval import compare, verify
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.records.format import Place, Reading
from meta_eval.pack.records.log_entries import LogEntry
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.plugins.inspect_ai import inspect_sample
from meta_eval.plugins.inspect_ai.inspect_format import InspectFormat
from meta_eval.reports.samples import read_shown_samples

MODEL = "org/model"


def sample(number: int, value: Any = "C", *, epoch: int = 1, answer: str = "7", **others: Any) -> dict[str, Any]:
    question = f"What is {number} and 7 modulo {number}?"
    asked = {"role": "user", "content": question, "source": "input", "id": f"m{number}{epoch}{answer}"}
    said = {"role": "assistant", "content": answer, "source": "generate"}
    return {
        "id": number, "epoch": epoch, "input": question, "target": "7", "messages": [asked, said],
        "output": {"choices": [{"message": said, "stop_reason": "stop"}], "usage": {"output_tokens": 3}},
        "scores": {"match": {"value": value, "answer": answer}}, "metadata": {}, "model_usage": {},
        **others,
    }  # fmt: skip


def log(samples: Sequence[dict[str, Any]], *, mean: float | None = None, **others: Any) -> dict[str, Any]:
    ids = {row["id"] for row in samples}
    scores = [{"name": "match", "scorer": "match", "params": {}, "metrics": {"accuracy": {"value": mean}}}]
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "created": "2026-05-12T20:27:36+02:00", "task": "tests/sums", "task_version": 1, "model": MODEL,
            "dataset": {"name": "sums", "samples": len(ids)}, "config": {}, "packages": {"inspect_ai": "0.3.100"},
        },
        "plan": {"name": "plan", "steps": [], "config": {"temperature": 0.0, "max_tokens": 64, "stop_seqs": ["Q:"]}},
        "results": {
            "total_samples": len(samples), "completed_samples": len(samples),
            "scores": [] if mean is None else scores,
        },
        "samples": list(samples),
        **others,
    }  # fmt: skip


def write(path: Path, tree: dict[str, Any], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a log as its suffix says."""
    if path.suffix == ".json":
        return write_json(path, tree)
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", compression) as members:
        members.writestr("_journal/start.json", "{}")
        for row in tree["samples"]:
            members.writestr(f"samples/{row['id']}_epoch_{row['epoch']}.json", json.dumps(row))
        members.writestr("summaries.json", "[]")
        members.writestr("header.json", json.dumps({name: tree[name] for name in tree if name != "samples"}))
    return path


def read(path: Path) -> TaskRun:
    (task,) = read_any_run([path]).tasks.values()
    return task


def values(task: TaskRun, metric: str = "match") -> list[Any]:
    return [doc.filter_results["none"].metrics.get(metric) for doc in task.docs]


@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_verdicts_ends_tokens_and_settings_are_read(tmp_path: Path, suffix: str) -> None:
    cut = sample(4, "I", answer="I think that")
    cut["output"]["choices"][0]["stop_reason"] = "max_tokens"
    task = read(write(tmp_path / f"a{suffix}", log([sample(1), sample(2, "I", answer="8"), sample(3, "P"), cut])))
    assert (task.task, values(task)) == ("tests_sums", [1.0, 0.0, 0.5, 0.0])
    assert [doc.limit_hit for doc in task.docs] == [False, False, False, True]
    assert {doc.figures["answer_tokens"] for doc in task.docs} == {3}
    assert task.provenance.model == MODEL and task.provenance.date == "2026-05-12T18:27:36+00:00"
    assert task.provenance.decoding == {"max_gen_toks": 64, "until": ["Q:"]}


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("C", 1), ("I", 0), ("P", 0.5), ("N", 0), (True, 1), (False, 0), (1, 1), (0.25, 0.25), ("yes", 1), ("No", 0),
        ("true", 1), ("FALSE", 0), ("0.75", 0.75), (3, 3),
    ],
)  # fmt: skip
def test_scores_count_as_in_inspect(tmp_path: Path, value: Any, verdict: float) -> None:
    assert values(read(write(tmp_path / "a.json", log([sample(1, value)])))) == [verdict]


@pytest.mark.parametrize("value", [None, float("nan"), "refused", [1, 2], "nan", "\uff11", "1_0"])
def test_a_sample_without_a_score_is_left_out_and_counted(tmp_path: Path, value: Any) -> None:
    run = read_any_run([write(tmp_path / "a.json", log([sample(1), sample(2, value)]))])
    assert values(run.tasks["tests_sums"]) == [1.0]
    assert any("1 doc has no verdict" in note for note in run.notes)


def test_several_scorers_and_scorers_with_several_values_are_metrics(tmp_path: Path) -> None:
    row = sample(1, scores={"match": {"value": "C"}, "ifeval": {"value": {"strict": 1, "loose": "I", "note": "x"}}})
    task = read(write(tmp_path / "a.eval", log([row])))
    assert task.docs[0].filter_results["none"].metrics == {"match": 1.0, "ifeval/strict": 1.0, "ifeval/loose": 0.0}


def test_the_first_scorer_is_the_main_one_even_where_a_sample_lacks_it(tmp_path: Path) -> None:
    both = sample(2, scores={"a": {"value": "I"}, "b": {"value": "C"}})
    rows = [sample(1, scores={"b": {"value": "C"}}), both]
    run = read_any_run([write(tmp_path / "a.eval", log(rows))])
    assert list(run.tasks["tests_sums"].docs[0].filter_results["none"].metrics) == ["a", "b"]
    assert any("1 doc has no verdict" in note for note in run.notes)


def test_a_scorer_of_a_few_samples_is_not_the_main_one_though_it_stands_first(tmp_path: Path) -> None:
    odd = sample(1, scores={"extra": {"value": "I"}, "match": {"value": "C"}})
    rows = [odd, *(sample(number, scores={"match": {"value": "C"}}) for number in (2, 3, 4))]
    task = read(write(tmp_path / "a.eval", log(rows)))
    assert [next(iter(doc.filter_results["none"].metrics)) for doc in task.docs] == ["match"] * 4


def test_messages_that_no_endpoint_takes_are_a_prompt_that_cannot_be_asked(tmp_path: Path) -> None:
    row = sample(1)
    row["messages"].insert(0, {"role": "user", "content": [5]})
    path = write(tmp_path / "a.eval", log([row]))
    assert "is a number and no object" in str(refuse(path))
    row["messages"][0] = {"role": "user", "content": [{"type": "data", "data": {}}]}
    path = write(tmp_path / "a.eval", log([row]))
    assert values(read(path)) == [1.0]


def test_epochs_are_repeated_answers_to_one_doc(tmp_path: Path) -> None:
    rows = [sample(number, "C" if epoch <= number else "I", epoch=epoch) for epoch in (1, 2, 3) for number in (1, 2)]
    task = read(write(tmp_path / "a.eval", log(rows, mean=0.5)))
    assert values(task) == [pytest.approx(1 / 3), pytest.approx(2 / 3)]
    assert task.docs[1].filter_results["none"].verdict_of_each == {"match": (1.0, 1.0, 0.0)}


def test_an_error_without_a_score_leaves_the_sample_out_with_its_message(tmp_path: Path) -> None:
    failed = sample(2, scores={}, error={"message": "the sandbox\nended", "traceback": "", "traceback_ansi": ""})
    run = read_any_run([write(tmp_path / "a.eval", log([sample(1), failed]))])
    assert len(run.tasks["tests_sums"].docs) == 1
    assert any(
        "1 doc has no verdict in the log, and is left out; the first: it ended with an error: the sandbox" in note
        for note in run.notes
    )


@pytest.mark.parametrize("kind", ["context", "time", "working", "message", "token", "turn"])
def test_a_limit_of_a_sample_cuts_its_answer(tmp_path: Path, kind: str) -> None:
    task = read(write(tmp_path / "a.json", log([sample(1, "I", limit={"type": kind, "limit": 5})])))
    assert task.docs[0].limit_hit is True


def test_attachments_stand_for_texts_and_reasoning_is_no_answer(tmp_path: Path) -> None:
    row = sample(1, input="attachment://abc", attachments={"abc": "What is it?"})
    row["output"]["choices"][0]["message"]["content"] = [
        {"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "seven"},
    ]  # fmt: skip
    task = read(write(tmp_path / "a.json", log([row])))
    with task.open_samples() as whole:
        read_sample = whole(task.docs[0].filter_results["none"])
    assert (read_sample["doc"]["query"], read_sample["resps"]) == ("What is it?", [["seven"]])


def test_an_attachment_that_is_named_too_often_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_sample, "_FREE", 1000)
    parts = [{"type": "text", "text": "attachment://a"}]

    def name(times: int) -> Path:
        rows = [sample(number, attachments={"a": "A" * 100}) for number in range(5)]
        for row in rows:
            row["messages"][0]["content"] = parts * times
        return write(tmp_path / f"{times}.json", log(rows))

    assert refuse(name(18)) is None
    assert "sample 4: names its attachments so often that their texts are 16 times as long" in str(refuse(name(19)))


def test_docs_are_paired_by_content_whatever_their_ids_and_order(tmp_path: Path) -> None:
    a = write(tmp_path / "a.eval", log([sample(number) for number in range(1, 41)]))
    rows = [sample(number) if number % 4 else sample(number, "I", answer="8") for number in range(40, 0, -1)]
    b = write(tmp_path / "b.eval", log([{**row, "id": f"id-{row['id']}"} for row in rows]))
    (task,) = compare(a, b).tasks
    assert task.docs == 40 and task.drop is not None and task.drop.value == pytest.approx(0.25)


def test_a_log_and_its_other_form_are_the_same(tmp_path: Path) -> None:
    tree = log([sample(number, "CI"[number % 2]) for number in range(1, 41)], mean=0.5)
    a, b = write(tmp_path / "a.eval", tree), write(tmp_path / "b.json", tree)
    assert read(a).docs == read(b).docs


def test_a_log_packed_with_zstd_is_read(tmp_path: Path) -> None:
    tree = log([sample(1), sample(2, "I")])
    assert values(read(write_zstd(tmp_path / "a.eval", tree))) == [1.0, 0.0]


def test_a_mean_that_the_samples_do_not_give_is_noted(tmp_path: Path) -> None:
    run = read_any_run([write(tmp_path / "a.eval", log([sample(1), sample(2)], mean=0.5))])
    assert any("says match 0.5000, and its verdicts give 1.0000" in note for note in run.notes)
    assert run.tasks["tests_sums"].aggregates == {}


def test_samples_that_were_taken_out_of_a_log_are_missing(tmp_path: Path) -> None:
    tree = log([sample(number) for number in range(1, 41)])
    tree["results"]["completed_samples"] = 60
    path = write(tmp_path / "a.eval", tree)
    assert "40 of 60 docs were run" in compare(path, path).summary
    assert any("its log holds 40 of 60 samples" in note for note in read_any_run([path]).notes)


def test_docs_that_were_not_run_forbid_a_decision(tmp_path: Path) -> None:
    tree = log([sample(number) for number in range(1, 41)])
    tree["eval"]["dataset"]["samples"] = 100
    found = compare(write(tmp_path / "a.eval", tree), write(tmp_path / "b.eval", tree))
    assert "40 of 100 docs were run" in found.summary


def test_other_settings_and_other_scorers_are_named(tmp_path: Path) -> None:
    tree = log([sample(number) for number in range(1, 41)], mean=1.0)
    a = write(tmp_path / "a.json", tree)
    tree["plan"]["config"]["temperature"] = 1.0
    tree["results"]["scores"][0]["params"] = {"location": "any"}
    found = compare(a, write(tmp_path / "b.json", tree))
    assert "temperature" in found.summary and "the settings of metric match differ" in found.summary


def test_of_several_logs_of_a_task_the_newest_counts_and_failed_ones_do_not(tmp_path: Path) -> None:
    old, new, failed = (log([sample(1, value)]) for value in "IPC")
    new["eval"]["created"] = "2026-05-13T00:00:00+00:00"
    failed |= {"status": "error", "error": {"message": "quota"}}
    for name, tree in (("a", old), ("b", new), ("c", failed)):
        write(tmp_path / "logs" / f"{name}.eval", tree)
    assert values(read(tmp_path / "logs")) == [0.5]
    repeats = read_any_run([tmp_path / "logs"], repeats=True)
    assert [values(task) for task in repeats.all_runs("tests_sums")] == [[0.5], [0.0]]


def test_a_damaged_log_does_not_stop_the_others(tmp_path: Path) -> None:
    tree = log([sample(1)])
    write(tmp_path / "one.json", tree)
    tree["eval"]["task"] = "gpqa"
    write(tmp_path / "two.json", tree)
    check_damage(tmp_path, "two.json", "two.json", "tests_sums")
    write(tmp_path / "two.json", {**tree, "status": "error"})
    assert "did not end" in read_any_run([tmp_path]).faults["gpqa"]


def test_logs_of_two_models_are_no_run(tmp_path: Path) -> None:
    tree = log([sample(1)])
    write(tmp_path / "logs" / "a.eval", tree)
    tree["eval"]["model"] = "org/other"
    write(tmp_path / "logs" / "b.eval", tree)
    assert "was run with 2 models" in str(refuse(tmp_path / "logs"))


# Packs


def test_a_log_of_exact_answers_becomes_a_pack(tmp_path: Path) -> None:
    rows = [sample(1), sample(2, "I", answer="8"), sample(3, answer=" 7\n")]
    path = write(tmp_path / "a.eval", log(rows, mean=2 / 3))
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(path), backend="chat")
    assert verify(pack).passed
    (body, *_) = [json.loads(doc["prompt"]) for doc in read_docs(pack, "tests_sums")]
    assert body == {"messages": [{"role": "user", "content": "What is 1 and 7 modulo 1?"}]}


@pytest.mark.parametrize("part", [{"type": "image", "image": "data:,"}, {"type": "image_url", "image_url": {}}, "text"])
def test_a_log_of_prompts_that_are_no_texts_becomes_no_pack(tmp_path: Path, part: object) -> None:
    rows = [sample(number) for number in (1, 2)]
    for row in rows:
        row["messages"][0]["content"] = [{"type": "text", "text": f"What is {row['id']}?"}, part]
    path = write(tmp_path / "a.json", log(rows))
    with pytest.raises(UserError, match="images, audio or other parts that are no text|is a text and no object"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(path), backend="chat")


def test_a_log_that_another_grader_judged_becomes_no_pack(tmp_path: Path) -> None:
    path = write(tmp_path / "a.eval", log([sample(1, answer="It is 8.")], mean=1.0))
    with pytest.raises(UserError, match="was graded by inspect_ai .*which meta-eval does not run"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(path), backend="chat")


# By scorer and its options: answers to the target 7 or 1000, and whether inspect_ai 0.3.285 finds them right.
MATCHED: list[tuple[str, dict[str, Any], str, dict[str, bool]]] = [
    ("match", {}, "7", {"It is 7.": True, "7 it is": False, "17": True, "7\n": True, "": False}),
    ("match", {"location": "begin"}, "Seven", {"seven, I say": True, "'Seven'": True, "I say seven": False}),
    ("match", {"location": "any", "ignore_case": False}, "Seven", {"I say Seven here": True, "seven": False}),
    ("match", {"location": "exact"}, "7", {"(7)": True, "7 or 8": False}),
    ("match", {"numeric": True}, "1,000", {"It is $1000.": True, "**1000.0**": True, "1000 of 2000": False, "21000": False}),
    ("match", {"numeric": True, "location": "begin"}, "7", {"Not 8 but 7": False, "7 and not 8": True, "seven": False}),
    ("match", {"numeric": True, "location": "any"}, "7", {"8, 7, 6": True, "77": False, "7!": True}),
    ("match", {"numeric": True, "location": "exact"}, "7", {"7.0": True, "It is 7": False}),
    ("match", {"numeric": True}, "none", {"There are none.": True, "none at all": False}),
    ("includes", {}, "Seven", {"it is SEVEN!": True, "7": False}),
    ("includes", {"ignore_case": False}, "Seven ", {"Seven it is": True, "seven it is": False, "Seven": False}),
]  # fmt: skip


@each("scorer, options, target, answers", MATCHED)
def test_a_log_of_match_or_includes_becomes_a_pack(
    tmp_path_factory: pytest.TempPathFactory,
    scorer: str,
    options: dict[str, Any],
    target: str,
    answers: dict[str, bool],
) -> None:
    rows = [
        sample(number, answer=text, target=target, scores={scorer: {"value": "C" if right else "I", "answer": text}})
        for number, (text, right) in enumerate(answers.items())
    ]
    tree = log(rows, mean=sum(answers.values()) / len(answers))
    tree["results"]["scores"][0] |= {"name": scorer, "scorer": scorer, "params": options}
    folder = tmp_path_factory.mktemp("matched")
    record = InspectFormat().open_run(Place("a", write(folder / "a.json", tree)), None, ("recorded",))
    recorded = record.read("tests_sums", Reading(folder))
    assert [row.metrics for row in recorded.rows.rows] == [
        {recorded.specs[0]: float(right)} for right in answers.values()
    ]
    assert record.grader("tests_sums", recorded, Reading(folder)).primary_metric == recorded.specs[0]


def test_the_pack_of_a_log_of_match_gives_its_verdicts_again(tmp_path: Path) -> None:
    rows = [sample(1, answer="It is 7."), sample(2, "I", answer="7 or 8"), sample(3, answer="I say 7")]
    path = write(tmp_path / "a.eval", log(rows, mean=2 / 3))
    proof = verify(prepare(tmp_path / "pack", "recorded", evals_dataset=str(path), backend="chat"))
    (task,) = proof.tasks.values()
    assert (proof.passed, task.tallies and task.tallies.total.agreed) == (True, 3)


def test_a_log_of_an_agent_becomes_no_pack(tmp_path: Path) -> None:
    row = sample(1)
    row["messages"] += [{"role": "tool", "content": "ok"}, {"role": "assistant", "content": "7", "source": "generate"}]
    path = write(tmp_path / "a.eval", log([row]))
    with pytest.raises(UserError, match="cannot be asked again: 1 of 1 samples took several turns"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(path), backend="chat")


def _work(tool: str) -> Callable[[dict[str, Any]], None]:
    """What makes a sample one of an agent, which called this tool."""
    called = {"role": "tool", "content": tool}
    return lambda row: row["messages"].extend([called, {"role": "assistant", "content": "7", "source": "generate"}])


def _lose_text(row: dict[str, Any]) -> None:
    row["output"]["choices"][0]["message"] = {"role": "assistant", "content": [{"type": {}, "text": {}}]}


SAME = "whose answers are the same word for word have other verdicts"


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (None, None, True),
        (_work("ls"), _work("ls"), True),
        (_work("ls"), _work("rm"), False),
        (_work("ls"), None, False),
        (_lose_text, _lose_text, False),
    ],
    ids=["alike", "the same work", "other work", "work and none", "texts that the R package vitals lost"],
)
def test_answers_are_the_same_where_all_that_a_model_did_is(
    tmp_path: Path, a: Callable[..., None] | None, b: Callable[..., None] | None, said: bool
) -> None:
    for name, change, value in (("a", a, "C"), ("b", b, "I")):
        rows = [sample(number, value if number < 5 else "C") for number in range(20)]
        for row in rows if change else []:
            change(row)  # type: ignore[misc]
        write(tmp_path / name / "log.json", log(rows))
    judged = compare(tmp_path / "a", tmp_path / "b")
    shown = json.dumps(judged.to_json(), ensure_ascii=False) + " ".join(judged.notes)
    assert (SAME in shown) is said


# Bad files


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_log_is_one_message(tmp_path: Path, name: str) -> None:
    content, words = BROKEN[name]
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as members:
        members.writestr("header.json", content)
    assert words in str(refuse(tmp_path / "a.eval"))


def in_sample(edit: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    def change(tree: dict[str, Any]) -> None:
        edit(tree["samples"][0])

    return change


BAD_LOGS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another version": (lambda tree: tree.update(version=9), "is a log of version 9, and versions 1 to 3 are read"),
    "a version that is no number": (lambda tree: tree.update(version="2"), "version is '2', and must be a whole number"),
    "no task": (lambda tree: tree["eval"].pop("task"), "has no task"),
    "a run that still writes": (lambda tree: tree.update(status="started"), "has the status 'started', and did not end"),
    "a cancelled run": (lambda tree: tree.update(status="cancelled"), "has the status 'cancelled'"),
    "a failed run": (
        lambda tree: tree.update(status="error", error={"message": "quota"}),
        "has the status 'error' (quota), and did not end",
    ),
    "no samples": (lambda tree: tree.update(samples=[]), "holds no samples"),
    "a sample twice": (lambda tree: tree["samples"].append(tree["samples"][0]), "holds '1' twice"),
    "two questions with one id": (
        lambda tree: tree["samples"][1].update(id=1, epoch=2), "holds two questions with the id '1'",
    ),
    "a sample without an id": (in_sample(lambda row: row.pop("id")), "has no id"),
    "an id that is a list": (in_sample(lambda row: row.update(id=[1])), "id is a list, and must be a text or a whole"),
    "scores that are a list": (in_sample(lambda row: row.update(scores=["C"])), "scores is a list, and must be an object"),
    "a score that is a text": (in_sample(lambda row: row.update(scores={"match": "C"})), "is a text and no object"),
    "messages that are a text": (in_sample(lambda row: row.update(messages="x")), "messages is 'x', and must be a list"),
    "a message that is a number": (in_sample(lambda row: row["messages"].append(5)), "is a number and no object"),
    "a message without a role": (in_sample(lambda row: row["messages"][0].pop("role")), "has no role"),
    "tokens below 0": (
        in_sample(lambda row: row["output"]["usage"].update(output_tokens=-1)), "output_tokens is -1, and must be",
    ),
    "a target that is an object": (in_sample(lambda row: row.update(target={"a": 1})), "target is an object"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_LOGS)
def test_a_damaged_log_is_one_message(tmp_path: Path, name: str) -> None:
    edit, words = BAD_LOGS[name]
    tree = log([sample(1), sample(2)])
    edit(tree)
    assert words in str(refuse(write(tmp_path / "a.json", tree)))


def test_no_wrong_value_anywhere_ends_in_more_than_a_message(tmp_path: Path) -> None:
    tree = log([sample(1), sample(2)], mean=1.0)
    assert check_mutations(tree, lambda made: write_json(tmp_path / "a.json", made)) > 10


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.97])
def test_a_zip_that_is_cut_off_is_one_message(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / "a.eval", log([sample(number) for number in range(1, 20)]))
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "is damaged or cut off: it is no zip file" in str(refuse(path))


def test_a_zip_whose_run_still_writes_is_one_message(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as members:
        members.writestr("_journal/start.json", "{}")
        members.writestr("samples/1_epoch_1.json", "{}")
    assert "has no header.json: its run still writes it, or was broken off" in str(refuse(tmp_path / "a.eval"))


def test_a_zip_of_other_files_is_one_message(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as members:
        members.writestr("../../escaped.json", "{}")
    assert "has no header.json: it is no log of inspect_ai" in str(refuse(tmp_path / "a.eval"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.eval"]


@pytest.mark.parametrize("member", ["header.json", "samples/1_epoch_1.json"])
def test_a_zip_bomb_is_one_message(tmp_path: Path, member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from meta_eval.plugins.inspect_ai import inspect_files

    monkeypatch.setattr(inspect_files, "_MOST_BYTES", 2**16)
    header = json.dumps({key: value for key, value in log([]).items() if key != "samples"})
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr(member, b"0" * 2**20)
        if member != "header.json":
            members.writestr("header.json", header)
    assert "it is no log of inspect_ai" in str(refuse(tmp_path / "a.eval"))


def test_many_large_members_are_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from meta_eval.plugins.inspect_ai import inspect_files

    monkeypatch.setattr(inspect_files, "_FREE_BYTES", 0)
    monkeypatch.setattr(inspect_files, "_MOST_RATIO", 2)
    path = write(tmp_path / "a.eval", log([sample(1, answer="7" * 1000, epoch=number) for number in range(1, 20)]))
    assert "or the log to 2 times its size" in str(refuse(path))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("verdict", ["C", "I"])
def test_a_sample_that_is_in_a_log_twice_and_differs_is_refused(tmp_path: Path, verdict: str) -> None:
    path = write(tmp_path / "a.eval", log([sample(1, "I"), sample(2, "C")]))
    with zipfile.ZipFile(path, "a") as members:
        name = next(name for name in members.namelist() if name.startswith("samples/1"))
        content = members.read(name).decode().replace('"value": "I"', f'"value": "{verdict}"')
        members.writestr(name, content)
    if verdict == "I":
        assert values(read(path)) == [0.0, 1.0]
    else:
        assert f"holds '{name}' twice, and they differ" in str(refuse(path))


@pytest.mark.parametrize("packed", [None, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("place", [31, 60])
def test_a_changed_byte_is_one_message(tmp_path: Path, packed: int | None, place: int) -> None:
    tree, name = log([sample(1)]), b"samples/1_epoch_1.json"
    path = write_zstd(tmp_path / "a.eval", tree) if packed is None else write(tmp_path / "a.eval", tree, packed)
    content = bytearray(path.read_bytes())
    content[content.index(name) + len(name) + place - 22] ^= 0xFF
    path.write_bytes(content)
    assert "samples/1_epoch_1.json: is damaged or cut off" in str(refuse(path))


def test_a_member_that_is_encrypted_is_one_message(tmp_path: Path) -> None:
    path = write(tmp_path / "a.eval", log([sample(1)]))
    content = path.read_bytes()
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = content.index(b"header.json") if signature == b"PK\3\4" else content.rindex(b"header.json")
        start = content.rindex(signature, 0, at) + flags
        content = content[:start] + b"\1\0" + content[start + 2 :]
    path.write_bytes(content)
    assert "is packed in a way that this Python cannot unpack" in str(refuse(path))


@pytest.mark.parametrize(
    ("created", "time"),
    [
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-14:00", None),
        ("9999-12-31T23:59:59", "9999-12-31T23:59:59"),
        ("soon", None),
        (None, None),
    ],
)
def test_a_time_outside_the_calendar_is_none(created: str | None, time: str | None) -> None:
    assert LogEntry({"created": created}, "a.json").find_time("created") == time


def test_a_lone_surrogate_is_replaced(tmp_path: Path) -> None:
    task = read(write(tmp_path / "a.eval", log([sample(1, answer="\ud800 7")])))
    assert task.docs[0].answer_tail == "\ufffd 7"


def write_zstd(path: Path, tree: dict[str, Any]) -> Path:
    """A log as newer versions write it: `zipfile` cannot."""
    header = {name: tree[name] for name in tree if name != "samples"}
    members = {f"samples/{row['id']}_epoch_{row['epoch']}.json": row for row in tree["samples"]} | {
        "header.json": header
    }
    body, index = b"", b""
    for name, content in members.items():
        raw, label = json.dumps(content).encode(), name.encode()
        packed = pa.compress(raw, codec="zstd", asbytes=True)
        sizes = struct.pack("<III", zlib.crc32(raw), len(packed), len(raw))
        index += struct.pack("<4sHHHHHH", b"PK\1\2", 63, 63, 0, 93, 0, 0) + sizes
        index += struct.pack("<HHHHHII", len(label), 0, 0, 0, 0, 0, len(body)) + label
        body += struct.pack("<4sHHHHH", b"PK\3\4", 63, 0, 93, 0, 0) + sizes + struct.pack("<HH", len(label), 0)
        body += label + packed
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, len(members), len(members), len(index), len(body), 0)
    path.write_bytes(body + index + end)
    return path


def test_a_change_of_each_compared_setting_is_named(tmp_path: Path) -> None:
    tree = log([sample(1), sample(2, "I", answer="8")], mean=0.5)
    tree["plan"]["config"]["temperature"] = 0.5
    tree["plan"]["steps"] = [{"solver": "react", "params": {"attempts": 2}}]
    scores = [{"name": "match", "scorer": "match", "params": {"numeric": True}, "metrics": {}}]
    values = {"until": ["A:"], "solver": [{"solver": "react", "params": {"attempts": 3}}], "scorer": scores,
              "task_args": {"level": 2}, "model_roles": {"critic": {"model": "org/critic"}}, "judge": {"model": "org/judge"},
              "sandbox": {"type": "docker"}}  # fmt: skip
    assert not list_unseen_settings(
        {**InspectFormat.settings, **InspectFormat.grader_settings},
        tree, lambda name, made: write(tmp_path / name / "a.json", made), values,
    )  # fmt: skip


def test_a_model_that_grades_itself_is_another_judge_than_another_model(tmp_path: Path) -> None:
    paths = []
    for model in ("org/a", "org/b"):
        tree = log([sample(1), sample(2)], mean=1.0)
        tree["eval"]["model"], tree["results"]["scores"][0]["scorer"] = model, "model_graded_qa"
        paths.append(write(tmp_path / f"{model}.json", tree))
    assert "judge: org/a in A, org/b in B" in compare(*paths).summary
    for path, model in zip(paths, ("org/a", "org/b"), strict=True):
        tree["eval"]["model"], tree["results"]["scores"][0]["params"] = model, {"model": "org/judge"}
        write(path, tree)
    assert "judge: " not in compare(*paths).summary


def test_a_key_among_the_arguments_of_a_task_is_not_shown(tmp_path: Path) -> None:
    paths = []
    for key in ("one", "two"):
        tree = log([sample(1), sample(2)])
        tree["eval"]["task_args"] = {"api_key": key, "level": key}
        paths.append(write(tmp_path / f"{key}.json", tree))
    summary = compare(*paths).summary
    assert "task_args.level: one in A, two in B" in summary and "api_key" not in summary


@pytest.mark.parametrize(
    ("given", "mean", "said"),
    [
        ([1, *[0] * 8, None], 0.1, "0.1000, and its verdicts give 0.1111 (1 of 10 answers without a verdict count as 0 in the log)"),
        ([-1.0, -0.5], 0.0, "0.0000, and its verdicts give -0.7500 (the log clips its mean to 0 to 1)"),
        ([1, -1.0], 0.5, "0.5000, and its verdicts give 0.0000 (the log clips each verdict to 0 to 1)"),
        ([1, 0], 0.3, "0.3000, and its verdicts give 0.5000: these count"),
        ([1, 0], 50.0, None),
    ],
)  # fmt: skip
def test_a_mean_that_verdicts_do_not_give_is_noted_with_its_reason(
    tmp_path: Path, given: list[float | None], mean: float, said: str | None
) -> None:
    rows = [sample(number, value) for number, value in enumerate(given)]
    notes = [
        note
        for note in read_any_run([write(tmp_path / "a.json", log(rows, mean=mean))]).notes
        if "its log says" in note
    ]
    assert (said in notes[0]) if said else not notes


def test_a_mean_over_answers_where_docs_have_several_is_explained(tmp_path: Path) -> None:
    rows = [sample(1), sample(1, epoch=2), sample(1, epoch=3), sample(2, "I")]
    (note,) = read_any_run([write(tmp_path / "a.json", log(rows, mean=0.75))]).notes
    assert "0.7500, and its verdicts give 0.5000 (over 4 answers in the log, over 2 docs here)" in note


def test_a_refusal_of_prepare_names_log_and_task(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", log([sample(1, "I")], mean=0.0))
    with pytest.raises(UserError, match=re.escape(f"{path}, tests_sums: was graded by inspect_ai (inspect_ai match)")):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(path))


def test_the_page_shows_the_question_of_a_log(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, log([sample(1), sample(2)])) for name in ("a.json", "b.json")]
    (a, b) = read_shown_samples(compare(*paths).tasks)
    assert (a.question, b.question) == ("What is 1 and 7 modulo 1?", "What is 2 and 7 modulo 2?")
