"""Cut answers: what a drop does with them, that more of them are named first, and that they hide no loss."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs import entry, manifest, read_lines, write_and_read, write_lines, write_run
from stored import stored

from meta_eval import compare, stats
from meta_eval.base.thresholds import CutAnswers
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.lm_eval_run import Run, read_run
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.decision import TaskDecision
from meta_eval.judge.gate import Gate, GateTask
from meta_eval.judge.runs import judge
from meta_eval.reports.text import describe_cut_answers, describe_sampling, write_headline
from meta_eval.reports.views import HtmlView, MarkdownView, TextView

RIGHT = [1.0] * 120 + [0.0] * 80


def make_run(folder: Path, verdicts: Sequence[float], cut: Collection[int] = (), ended: str = "length") -> Run:
    """A run whose engine says of each answer how it ended."""
    write_run(folder, verdicts)
    (path,) = folder.glob("samples_*.jsonl")
    write_lines(
        path, [sample | {"finish_reason": ended if sample["doc_id"] in cut else "stop"} for sample in read_lines(path)]
    )
    return read_run([folder])


def compared(a: Run, b: Run, how: CutAnswers | None = None, **rules: Any) -> RunDecision:
    return judge(a, b, gate=Gate(cut_answers=how, **rules))


def lost(folder: Path, count: int, before: Sequence[float] = RIGHT) -> tuple[Run, Run]:
    """A baseline, and a candidate that is the same but for so many right answers, which are cut and wrong."""
    after = [0.0] * count + list(before[count:])
    return make_run(folder / "a", before), make_run(folder / "b", after, range(count))


def only(judgement: RunDecision) -> TaskDecision:
    (task,) = judgement.tasks
    return task


def test_a_shortfall_that_is_truncation_is_named_first_with_figures(tmp_path: Path) -> None:
    judgement = compared(*lost(tmp_path, 60, RIGHT * 5))
    assert judgement.decision.outcome == "DON'T SHIP"
    first = judgement.decision.caveats[0]
    assert first == (
        "cut answers differ: meta_some (60 of 1,000 answers, 0 of the baseline's; +6.0 points (4.6 to 7.7); the drop "
        "is 6.0, and 0.0 (−0.4 to 0.4) on the 940 cut in neither; the whole shortfall is truncation)"  # noqa: RUF001
    )
    decided, why, check = write_headline(judgement.decision).splitlines()
    assert decided.startswith("DON'T SHIP: mean drop of 1 task 6.0 points")
    assert (why.split(":")[0], check) == ("Why", f"First: look below at {first}.")
    assert [alarm.kind for alarm in judgement.alarms] == ["cut answers differ"]


def test_where_it_is_unknown_how_the_baselines_answers_ended_none_of_them_is_counted(tmp_path: Path) -> None:
    baseline = write_and_read(tmp_path / "a", RIGHT, line={"resps": [["word " * 300]]})
    task = only(compared(baseline, make_run(tmp_path / "b", RIGHT, range(6))))
    assert task.cut is not None
    assert (task.cut.docs, task.cut.baseline_docs, task.cut.drop_as_wrong, task.cut.drop_without) == (6, *3 * [None])
    assert describe_cut_answers(task) == (
        "6 of 200 answers cut, unknown for the baseline. Score: 60.0 with them (57.0 with them as wrong), 58.8 without"
    )


@pytest.mark.parametrize("how", ["wrong", "unscored"])
def test_where_it_is_unknown_which_answers_were_cut_nothing_is_decided_by_them(tmp_path: Path, how: CutAnswers) -> None:
    baseline = write_and_read(tmp_path / "a", RIGHT, line={"resps": [["word " * 300]]})
    candidate = make_run(tmp_path / "b", [0.0] * 12 + RIGHT[12:], range(12))
    for a, b, whose in ((baseline, candidate, "the baseline"), (candidate, baseline, "the run")):
        message = f"cut_answers: {how} needs to know which answers were cut, and of {whose} that is unknown"
        with pytest.raises(ResultsError, match=message):
            compared(a, b, how)


def test_a_shortfall_that_is_there_without_cut_answers_too_is_not_called_truncation(tmp_path: Path) -> None:
    verdicts = [0.0] * 24 + RIGHT[24:]
    judgement = compared(make_run(tmp_path / "a", RIGHT), make_run(tmp_path / "b", verdicts, range(8)))
    assert "truncation" not in judgement.decision.caveats[0]
    assert "on the 192 cut in neither" in judgement.decision.caveats[0]


@pytest.mark.parametrize("how", ["graded", "wrong"])
def test_what_counts_in_the_drop_is_named_and_forbids_nothing_besides(tmp_path: Path, how: CutAnswers) -> None:
    judgement = compared(*lost(tmp_path, 8), how, margin=15.0)
    assert judgement.decision.outcome == "SHIP"
    assert judgement.decision.caveats[0].startswith("cut answers differ: meta_some (8 of 200")


def test_unscored_answers_leave_the_drop_and_more_of_them_forbid_ship(tmp_path: Path) -> None:
    judgement = compared(*lost(tmp_path, 8), "unscored", margin=5.0)
    task = only(judgement)
    assert (task.drop.value, task.drop.docs) == (0.0, 192)
    assert judgement.decision.outcome == "UNDECIDED"
    assert judgement.decision.reasons[0].startswith("cut answers differ")


def test_unscored_answers_of_both_alike_ship(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", RIGHT, range(10)), make_run(tmp_path / "b", RIGHT, range(2, 12))
    judgement = compared(a, b, "unscored", margin=5.0)
    assert (judgement.decision.outcome, judgement.alarms) == ("SHIP", ())
    assert only(judgement).drop.docs == 188


def test_a_baseline_that_is_cut_more_hides_nothing_where_its_docs_leave(tmp_path: Path) -> None:
    """Where they count, a loss elsewhere may hide behind the gain on them: the docs that both ended show it."""
    a, b = make_run(tmp_path / "a", [0.0] * 12 + RIGHT[12:], range(12)), make_run(tmp_path / "b", RIGHT)
    assert compared(a, b, "unscored", margin=5.0).decision.outcome == "SHIP"
    graded = compared(a, b, margin=5.0)
    assert graded.decision.outcome == "SHIP"
    assert "cut answers differ" in graded.decision.caveats[0]
    lost = [verdict * (doc % 6 > 0) for doc, verdict in enumerate(RIGHT)]
    hidden = compared(a, make_run(tmp_path / "lost", lost), margin=5.0)
    assert hidden.decision.outcome != "SHIP"


def test_a_cut_answer_that_the_grader_found_right_is_wrong_where_the_user_says_so(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", RIGHT), make_run(tmp_path / "b", RIGHT, range(6))
    values = {}
    hows: tuple[CutAnswers, ...] = ("graded", "wrong", "unscored")
    for how in hows:
        values[how] = only(compared(a, b, how)).drop.value
    assert values == {"graded": 0.0, "wrong": pytest.approx(0.03), "unscored": 0.0}
    sentence = describe_cut_answers(only(compared(a, b)))
    assert sentence is not None
    assert sentence.startswith(
        "6 of 200 answers cut, and 0 of the baseline's. Score: 60.0 with them (57.0 with them as wrong), "
    )
    assert "Drop: 3.0 (0.5 to 6.5) with cut answers as wrong, 0.0 (" in sentence


@pytest.mark.parametrize(("ended", "line"), [("content_filter", {}), ("stop", {"resps": [[" \n"]]})])
def test_refusals_by_a_filter_and_empty_answers_are_cut_answers(
    tmp_path: Path, ended: str, line: dict[str, Any]
) -> None:
    run = make_run(tmp_path, RIGHT[:4], {1}, ended)
    if line:
        run = write_and_read(tmp_path / "b", RIGHT[:4], line=line)
    assert [doc.cuts for doc in run.tasks["meta_some"].docs] == (
        [(True,)] * 4 if line else [(False,), (True,), *[(False,)] * 2]
    )


def test_where_the_ending_of_an_answer_is_not_known_no_rate_is_compared(tmp_path: Path) -> None:
    a, b = lost(tmp_path, 12)
    unknown = write_and_read(tmp_path / "c", RIGHT, line={"resps": [["word " * 300]]})
    assert only(compared(a, b)).cut is not None
    cut = only(compared(unknown, b)).cut
    assert cut is not None and cut.more is None
    assert [alarm.kind for alarm in compared(unknown, b).alarms] != ["cut answers differ"]


def test_the_recorded_answers_are_counted_too(tmp_path: Path) -> None:
    folder = write_run(tmp_path, RIGHT, doc={"recorded_output": "word " * 1500})
    run = read_run([folder], count_tokens=lambda text: len(text.split()))
    docs = run.tasks["meta_some"].docs
    assert {doc.recorded_cut for doc in docs} == {True}
    answers = tuple(replace(doc, cuts=(doc.recorded_cut,)) for doc in docs)  # as verify keeps them
    judgement = judge(None, run, manifest(meta_some=entry(200)), stored({"meta_some": answers}))
    cut = only(judgement).cut
    assert cut is not None
    assert (cut.docs, cut.baseline_docs, cut.more and cut.more.value) == (0, 200, -1.0)


def test_the_pack_says_it_before_the_run_the_gate_of_all_or_of_a_task(tmp_path: Path) -> None:
    a, b = lost(tmp_path, 12)
    pack = manifest(meta_some=entry(200))
    pack = pack.model_copy(update={"run_settings": pack.run_settings.model_copy(update={"cut_answers": "unscored"})})
    runs: list[tuple[Any, Gate, float]] = [
        (pack, Gate(), 0.0),
        (pack, Gate(cut_answers="wrong"), 0.06),
        (pack, Gate(cut_answers="wrong", tasks={"meta_some": GateTask(cut_answers="unscored")}), 0.0),
        (None, Gate(), 0.06),
    ]
    for packed, gate, drop in runs:
        assert only(judge(a, b, packed, gate=gate)).drop.value == pytest.approx(drop)


def test_where_every_doc_was_cut_nothing_is_left_to_compare(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", RIGHT), make_run(tmp_path / "b", RIGHT, range(200))
    with pytest.raises(ResultsError, match="every doc has an answer that was cut"):
        compared(a, b, "unscored")


# Sampled answers


def sampled(folder: Path, each: Sequence[Sequence[float]], settings: dict[str, Any] | None = None) -> Run:
    """A run with several graded answers to each doc, as `meta-eval grade` writes it."""
    write_run(folder, [verdicts[0] for verdicts in each])
    (path,) = folder.glob("samples_*.jsonl")
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for sample in samples:
        verdicts = list(each[sample["doc_id"]])
        if len(verdicts) > 1:
            # As if right answers were alike, and each wrong one another.
            majority = verdicts.index(1.0) if verdicts.count(1.0) > 1 else 0
            sample |= {"each_answer": {"exact_match": verdicts}, "resps": [[f"says {verdict}" for verdict in verdicts]]}
            sample |= {"majority_answer": majority}
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")
    (results,) = folder.glob("results_*.json")
    tree = json.loads(results.read_text(encoding="utf-8"))
    tree["configs"]["meta_some"]["generation_kwargs"] = settings or {}
    results.write_text(json.dumps(tree), encoding="utf-8")
    return read_run([folder])


def test_several_answers_of_both_sides_are_compared_by_their_means(tmp_path: Path) -> None:
    single = sampled(tmp_path / "a", [[1.0], [0.0]] * 50)
    four = sampled(tmp_path / "b", [[1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]] * 50)
    task = only(compared(single, four))
    assert task.is_decided and task.sampling is not None
    drop = task.drop
    assert (drop.baseline, drop.candidate, drop.docs) == (0.5, 0.5, 100)
    assert (task.sampling.answers, task.sampling.baseline_answers) == (4, 1)
    two, passed, voted = task.sampling.scores
    assert (two.name, passed.name, passed.value, passed.baseline) == ("pass@2", "pass@4", 1.0, None)
    assert two.value == pytest.approx((1.0 + 0.5) / 2)
    assert (voted.name, voted.value, voted.drop) == ("maj@4", 0.5, None)
    assert str(describe_sampling(task)).startswith("4 answers a doc, 1 of the baseline; pass@2 75.0 (")


def test_pass_at_k_and_the_majority_of_two_runs_are_paired_with_clusters(tmp_path: Path) -> None:
    """Every second doc asks the same: the drop is that of each doc's pass@k, over clusters of two."""
    chance = random.Random(5)
    before = [[float(chance.random() < 0.6) for _ in range(4)] for _ in range(60)]
    after = [[verdict * (chance.random() < 0.8) for verdict in verdicts] for verdicts in before]
    runs = [sampled(tmp_path / name, each) for name, each in (("a", before), ("b", after))]
    for run in runs:
        for doc in run.tasks["meta_some"].docs:
            doc.cluster = str(doc.doc_id // 2)
    task = only(compared(*runs))
    assert task.sampling is not None
    by_name = {score.name: score for score in task.sampling.scores}
    wanted = {
        f"pass@{k}": [[stats.pass_at_k(sum(each), 4, k) for each in side] for side in (before, after)] for k in (2, 4)
    } | {"maj@4": [[float(sum(each) > 1 or each[0]) for each in side] for side in (before, after)]}
    assert by_name.keys() == wanted.keys()
    for name, (first, second) in wanted.items():
        drop = stats.paired_drop(first, second, clusters=[place // 2 for place in range(60)])
        assert by_name[name].drop == stats.DropPart(pytest.approx(drop.value), drop.interval())
        assert (by_name[name].baseline, by_name[name].value) == pytest.approx((drop.baseline, drop.candidate))
    sentence = str(describe_sampling(task))
    assert re.search(r"; pass@4 \d+\.\d \(.*?\), baseline \d+\.\d, drop \d+\.\d \(.*?\); maj@4 ", sentence)
    both = compare(tmp_path / "a", tmp_path / "b")
    scores = both.to_json()["tasks"][0]["sampling"]["scores"]
    assert [(score["name"], score["drop"]["value"]) for score in scores] == [
        (name, pytest.approx(score.drop.value)) for name, score in by_name.items() if score.drop
    ]
    document = both.document()
    for shown in (TextView().render(document), MarkdownView().render(document), "".join(HtmlView().render(document))):
        assert re.search(r"maj@4\s+\d+\.\d\s+\([^)]*\),\s+baseline\s+\d+\.\d,\s+drop", shown)


def test_a_single_drawn_answer_says_how_many_would_do(tmp_path: Path) -> None:
    drawn = {"temperature": 0.7, "do_sample": True}
    a = sampled(tmp_path / "a", [[1.0], [0.0]] * 50, drawn)
    b = sampled(tmp_path / "b", [[1.0], [0.0], [0.0], [1.0]] * 25, drawn)
    sentence = describe_sampling(only(compared(a, b)))
    assert sentence is not None and "the noise of sampling is in the drop" in sentence
    assert "answers a doc would show" in str(describe_sampling(only(compared(a, b, margin=10.0))))
    assert (
        describe_sampling(only(compared(sampled(tmp_path / "c", [[1.0], [0.0]]), sampled(tmp_path / "d", [[1.0]] * 2))))
        is None
    )


MESSAGE = {"content": None, "tool_calls": [], "finish_reason": None}


@pytest.mark.parametrize(
    ("text", "end", "is_thinking"),
    [
        ("", "length", True),
        ("", "stop", False),  # an empty answer
        ("<think>\nSo far", "length", True),
        ("<think>\nSo far\n</think>\n\n", "length", True),
        ("<think>\nSo far\n</think>\n\nFour", "length", False),
        ("<think>\nSo far", "stop", False),
        ("Four", "length", False),
        (json.dumps(MESSAGE | {"content": ""}), "length", True),
        (json.dumps(MESSAGE | {"finish_reason": "length"}), None, True),
        (json.dumps(MESSAGE | {"content": "It is"}), "length", False),
        (json.dumps(MESSAGE | {"tool_calls": [{"name": "f", "arguments": "{}"}]}), "length", False),
        ('{"content": ""}', "length", False),  # a text like others
    ],
)
def test_an_answer_that_was_cut_while_thinking_is_told_from_a_wrong_one(
    tmp_path: Path, text: str, end: str | None, is_thinking: bool
) -> None:
    folder = write_run(tmp_path, [0.0], line={"resps": [[text]], "finish_reason": end})
    (doc,) = read_run([folder]).tasks["meta_some"].docs
    assert doc.is_cut_thinking is is_thinking


def test_tool_calls_without_text_are_no_empty_answer(tmp_path: Path) -> None:
    calls = [{"name": "f", "arguments": "{}"}]
    for number, (message, is_empty) in enumerate([(MESSAGE | {"tool_calls": calls}, False), (MESSAGE, True)]):
        line = {"resps": [[json.dumps(message)]], "finish_reason": "stop"}
        (doc,) = write_and_read(tmp_path / str(number), [0.0], line=line).tasks["meta_some"].docs
        assert (doc.answer_empty, doc.cuts) == (is_empty, (is_empty,))


def test_answers_that_were_cut_while_thinking_are_no_empty_answers(tmp_path: Path) -> None:
    for end, kinds in (("length", ["no pack named", "limit hit"]), ("stop", ["no pack named", "empty answers"])):
        folder = write_run(tmp_path / end, RIGHT, line={"resps": [[""]], "finish_reason": end})
        judgement = judge(None, read_run([folder]), None)
        assert [alarm.kind for alarm in judgement.alarms] == kinds


def test_answers_that_were_cut_while_thinking_are_counted_for_both(tmp_path: Path) -> None:
    a, b = lost(tmp_path, 12)
    for run, docs in ((a, 3), (b, 10)):
        for doc in run.tasks["meta_some"].docs[:docs]:
            doc.is_cut_thinking, doc.cuts = True, (True,)
    judgement = compared(a, b)
    assert describe_cut_answers(only(judgement)).startswith(
        "12 of 200 answers cut (10 while thinking), and 3 of the baseline's (3 while thinking). Score:"
    )
    assert (
        "12 of 200 answers (10 while thinking), 3 of the baseline's (3 while thinking); "
        in (judgement.decision.caveats[0])
    )
