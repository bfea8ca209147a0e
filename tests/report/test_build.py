"""From what lm_eval wrote to a report: sentences, units, samples; and the two commands from the outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command import cli, process
from runs import entry, manifest, published, write_run

from meta_eval.judging.compare import compare
from meta_eval.judging.judge import judge
from meta_eval.pack.manifest import Manifest
from meta_eval.report.build import build_comparison, build_report
from meta_eval.report.model import Report, Sample
from meta_eval.report.samples import compared_samples, run_samples
from meta_eval.results.answers import ResultsError
from meta_eval.results.run import read_run

N = 1000


def right(count: int, n: int = N) -> list[float]:
    return [1.0] * count + [0.0] * (n - count)


def reported(folder: Path, verdicts: Sequence[float], pack: Manifest | None = None, **options: Any) -> Report:
    run = read_run([write_run(folder, verdicts, **options)])
    return build_report(run, judge(run, pack), manifest=pack, pack=None)


def samples_of(folder: Path, verdicts: Sequence[float], **options: Any) -> list[Sample]:
    run = read_run([write_run(folder, verdicts, **options)])
    return list(run_samples(judge(run, None)))


def write_pack(folder: Path, pack: Manifest) -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_text(pack.to_json(), encoding="utf-8")
    return folder


# Reports


@pytest.mark.parametrize(
    ("count", "verdict", "words"),
    [
        (650, "holds", "65.0 (micro) is level with the published 65.0"),
        (580, "below", "58.0 (micro) is 7.0 points under the published 65.0"),
        (640, "holds", "64.0 (micro) is 1.0 point under the published 65.0"),
        (720, "above", "72.0 (micro) is 7.0 points over the published 65.0"),
    ],
)
def test_a_verdict_is_a_sentence_with_its_numbers(tmp_path: Path, count: int, verdict: str, words: str) -> None:
    (task,) = reported(tmp_path, right(count), manifest(meta_some=entry(N, published(65.0)))).tasks
    assert (task.verdict, task.sentence.startswith(words)) == (verdict, True)
    assert task.scores[0].value == count / N
    assert task.scores[0].published is not None and task.scores[0].published.value == 0.65


def test_one_number_below_makes_the_task_below(tmp_path: Path) -> None:
    two = entry(N, published(65.0), published(72.0))
    assert [t.verdict for t in reported(tmp_path, right(650), manifest(meta_some=two)).tasks] == ["below"]


def test_a_number_that_is_not_comparable_is_named_with_the_reason_and_not_compared(tmp_path: Path) -> None:
    pack = manifest(meta_some=entry(N, published(65.0, same_settings=False, note="0-shot.")))
    (task,) = reported(tmp_path, right(650), pack).tasks
    assert task.verdict == "cannot say"
    assert "not held against the published 65.0" in task.sentence
    assert "0-shot" in task.sentence and ".." not in task.sentence
    assert task.scores[0].published is not None and not task.scores[0].published.comparable


def test_a_prepared_task_without_a_result_is_missing(tmp_path: Path) -> None:
    pack = manifest(meta_some=entry(N, published(65.0)), meta_other=entry(7))
    report = reported(tmp_path, right(650), pack)
    assert report.missing == ("meta_other",)
    assert report.summary == "Of 2 tasks: 1 holds, 1 missing."


def test_facts_say_where_the_numbers_come_from(tmp_path: Path) -> None:
    facts = dict(reported(tmp_path, right(5, 9), extra={"total_evaluation_time_seconds": "8054"}).runs[0].facts)
    assert (facts["backend"], facts["lm-eval"], facts["duration"]) == ("vllm", "0.4.13", "2 h 14 min")
    assert facts["date"] == "2026-01-02T03:00:00+00:00"
    assert facts["results"] == "results_2026-01-02T03-04-05.000006.json"


def test_flips_and_subtasks_are_counted_against_meta(tmp_path: Path) -> None:
    recorded = [True] * 60 + [False] * 40
    report = reported(tmp_path, right(50, 100), recorded=recorded, subtasks=["a.x", "a.y"] * 50)
    (task,) = report.tasks
    assert task.paired is not None
    assert (task.paired.compared, task.paired.first_only, task.paired.second_only) == (100, 0, 10)
    assert [(one.name, one.n, one.value, one.other) for one in task.subtasks] == [
        ("a.x", 50, 0.5, 0.6),
        ("a.y", 50, 0.5, 0.6),
    ]


def test_a_comparison_says_what_changed_and_what_is_in_one_run_only(tmp_path: Path) -> None:
    before = read_run([write_run(tmp_path / "a", right(650))])
    after = read_run([write_run(tmp_path / "b", right(560))])
    (task,) = build_comparison(compare(before, after), before, after).tasks
    assert task.verdict == "below"
    assert task.sentence.startswith("65.0 in A, 56.0 in B")
    assert task.paired is not None and (task.paired.first_only, task.paired.second_only) == (90, 0)
    assert task.recovery == pytest.approx(560 / 650)
    same = build_comparison(compare(before, before), before, before).tasks[0]
    assert (same.verdict, "no difference is shown" in same.sentence) == ("holds", True)


# Samples


def test_a_sample_holds_the_texts_of_its_line(tmp_path: Path) -> None:
    wrong = samples_of(tmp_path, [1.0, 0.0], recorded=[True, True], subtasks=["s", "s"])[1]
    assert (wrong.prompt, wrong.answers[0].text, wrong.gold) == ("Question 1?", "The answer is B.", "A")
    assert (wrong.answers[0].verdict, wrong.answers[0].extracted, wrong.meta) == (0.0, "B", 1.0)
    assert (wrong.meta_text, wrong.subtask, wrong.doc) == ("The answer is A.", "s", 1)


def test_samples_show_no_verdict_of_metas_where_there_is_none(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1.0, 0.0], recorded=[True, True])
    run = read_run([folder])
    task = entry(2, reading="other,strict-match")
    assert [one.meta for one in run_samples(judge(run, manifest(meta_some=task)))] == [None, None]
    comparison = compare(run, run, manifest(meta_some=task))
    assert [one.meta for one in compared_samples(comparison, run, run)] == [None, None]
    assert [one.meta for one in compared_samples(compare(run, run), run, run)] == [1.0, 1.0]


def test_samples_of_a_shuffled_file_come_in_the_order_of_their_docs(tmp_path: Path) -> None:
    found = samples_of(tmp_path, [1.0, 0.0, 0.0], order=[2, 0, 1])
    assert [(one.doc, one.prompt) for one in found] == [(0, "Question 0?"), (1, "Question 1?"), (2, "Question 2?")]


def test_flags_say_what_went_wrong_with_an_answer(tmp_path: Path) -> None:
    line = {"resps": [[" "]], "filtered_resps": ["[invalid]"], "unextracted": 1.0, "ungraded": 1.0}
    line["metrics"] = ["exact_match", "exact_match_macro", "unextracted", "ungraded"]
    (found,) = samples_of(tmp_path, [0.0], line=line, results=False)
    assert found.answers[0].flags == ("unextracted", "empty", "ungraded")


def test_a_choice_shows_the_likelihood_of_each_continuation(tmp_path: Path) -> None:
    line = {
        "arguments": {"gen_args_0": {"arg_0": "Q:", "arg_1": " A"}, "gen_args_1": {"arg_0": "Q:", "arg_1": " B"}},
        "resps": [[["-0.25", "True"]], [["-3.5", "False"]]],
        "filtered_resps": [["-0.25", "True"], ["-3.5", "False"]],
    }
    (found,) = samples_of(tmp_path, [1.0], line=line, results=False)
    assert (found.prompt, found.answers[0].text) == ("Q:", "-0.25   A\n-3.5   B")


def test_the_question_of_a_dialog_is_its_last_turn(tmp_path: Path) -> None:
    question = json.dumps({"dialog": [{"body": "one"}, {"body": "two"}]})
    assert samples_of(tmp_path, [1.0], doc={"question": question})[0].question == "two"


def test_both_answers_of_two_runs_stand_in_one_sample(tmp_path: Path) -> None:
    before = read_run([write_run(tmp_path / "a", [1.0, 1.0])])
    after = read_run([write_run(tmp_path / "b", [1.0, 0.0], order=[1, 0])])
    second = list(compared_samples(compare(before, after), before, after))[1]
    assert [(one.verdict, one.text) for one in second.answers] == [(1.0, "The answer is A."), (0.0, "The answer is B.")]


def test_a_file_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    run = read_run([write_run(tmp_path, [1.0, 0.0])])
    judged = judge(run, None)
    file = next(tmp_path.glob("samples_*"))
    file.write_bytes(file.read_bytes()[5:])
    with pytest.raises(ResultsError, match="has changed since it was read"):
        list(run_samples(judged))


# The commands


def test_report_writes_every_file_and_ends_with_the_gates_code(tmp_path: Path) -> None:
    write_run(tmp_path / "out", right(580))
    write_pack(tmp_path / "pack", manifest(meta_some=entry(N, published(65.0))))
    done = process(
        "report", "out", "--pack", "pack", "--max-drop", "2", "--json", "--html", "r.html", "--markdown", "r.md",
        "--eval-results", "r.yaml", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    tree = json.loads(done.stdout)
    assert (tree["gate"]["outcome"], tree["tasks"][0]["verdict"], tree["exit_code"]) == ("NO-GO", "below", 1)
    assert "meta_some" in done.stderr and "gate: NO-GO" in done.stderr
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "58.0" in (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "left out" in (tmp_path / "r.yaml").read_text(encoding="utf-8")


def test_without_json_stdout_is_empty_and_without_a_gate_the_code_is_0(tmp_path: Path) -> None:
    write_run(tmp_path / "out", right(580))
    done = cli("report", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "meta_some" in done.stderr


def test_a_gate_that_cannot_decide_ends_with_3(tmp_path: Path) -> None:
    write_run(tmp_path / "out", right(640))
    write_pack(tmp_path / "pack", manifest(meta_some=entry(N, published(65.0)), meta_other=entry(5, published(1.0))))
    (tmp_path / "gate.yaml").write_text("max_drop: 6\n")
    done = cli("report", "out", "--pack", "pack", "--gate", "gate.yaml", cwd=tmp_path)
    assert done.returncode == 3
    assert "GO: meta_some" in done.stderr
    assert "INCONCLUSIVE: meta_other: this task was not run" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "nowhere"), "nowhere: there is no such file or folder"),
        (("report", "out", "--pack", "out"), "out: is not a pack"),
        (("report", "out", "--max-drop", "1", "--gate", "g.yaml"), "--gate and --max-drop are given both"),
        (("report", "out", "--max-drop", "-1"), "--max-drop"),
        (("report", "out", "--html", "no/such/r.html"), "no/such/r.html: cannot be written"),
        (("compare", "out", "nowhere"), "nowhere: there is no such file or folder"),
    ],
)
def test_what_the_user_can_fix_is_one_message_and_code_2(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    write_run(tmp_path / "out", [1.0, 0.0])
    done = cli(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_compare_gates_against_the_baseline(tmp_path: Path) -> None:
    write_run(tmp_path / "a", right(650))
    write_run(tmp_path / "b", right(649))
    done = cli("compare", "a", "b", "--max-drop", "5", "--json", "--html", "c.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tree = json.loads(done.stdout)
    assert (tree["kind"], tree["gate"]["outcome"]) == ("compare", "GO")
    assert tree["tasks"][0]["paired"]["first_only"] == 1
    assert (tmp_path / "c.html").stat().st_size > 20_000
