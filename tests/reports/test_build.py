"""From what lm_eval wrote to a report: sentences, units, samples; and the two commands from the outside."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command import cli
from forked import forked
from marks import thorough
from runs import TIME, digest, entry, manifest, published, write_group, write_run

from meta_eval.api import compare
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.lm_eval_run import read_run
from meta_eval.judge.runs import judge
from meta_eval.pack.manifest import Manifest
from meta_eval.reports.document import ShownSample
from meta_eval.reports.report import Report, build_report
from meta_eval.reports.samples import read_shown_samples

N = 200


def right(count: int, n: int = N) -> list[float]:
    return [1.0] * count + [0.0] * (n - count)


def reported(folder: Path, verdicts: Sequence[float], pack: Manifest | None = None, **options: Any) -> Report:
    run = read_run([write_run(folder, verdicts, **options)])
    return build_report(judge(None, run, pack), {"": run}, manifest=pack, pack=None)


def shown(folder: Path, verdicts: Sequence[float], **options: Any) -> list[ShownSample]:
    run = read_run([write_run(folder, verdicts, **options)])
    return list(read_shown_samples(judge(None, run, None).tasks))


def write_pack(folder: Path, pack: Manifest) -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_text(pack.to_json(), encoding="utf-8")
    return folder


# Reports


def test_the_summary_has_a_line_each_for_the_numbers_the_reasons_and_what_to_do_first(tmp_path: Path) -> None:
    pack = manifest(meta_some=entry(N, published(65.0)), meta_other=entry(7))
    summary = reported(tmp_path, right(130), pack, recorded=[True] * 132 + [False] * 68).summary
    assert summary.startswith("UNDECIDED: mean drop of 1 of 2 tasks 1.0 points (95 % interval ")
    decided, why, first = summary.splitlines()
    assert decided.endswith(", margin 1.")
    assert why.startswith("Why: the mean drop is proven neither smaller nor larger than the margin")
    assert why.endswith("; not run: meta_other.")
    assert first.startswith("First: look below at not run. Repeats may not settle it")


def test_a_number_that_is_not_comparable_is_named_with_the_reason_and_not_compared(tmp_path: Path) -> None:
    pack = manifest(meta_some=entry(N, published(65.0, same_settings=False, note="0-shot.")))
    (task,) = reported(tmp_path, right(130), pack).tasks
    assert (task.outcome, task.is_decided) == ("undecided", False)
    assert task.not_compared_reason == "the published number was measured in another way: 0-shot"
    assert task.scores[0].reference is not None and task.scores[0].candidate_minus_reference is None


def test_a_prepared_task_without_a_result_is_an_alarm(tmp_path: Path) -> None:
    report = reported(tmp_path, right(130), manifest(meta_some=entry(N, published(65.0)), meta_other=entry(7)))
    assert [task.name for task in report.tasks] == ["meta_some"]
    assert [(alarm.kind, [task.task for task in alarm.tasks]) for alarm in report.alarms] == [
        ("not run", ["meta_other"])
    ]


def test_facts_say_where_the_numbers_come_from(tmp_path: Path) -> None:
    facts = dict(reported(tmp_path, right(5, 9), extra={"total_evaluation_time_seconds": "8054"}).runs[0].provenance)
    assert (facts["backend"], facts["lm-eval"], facts["duration"]) == ("vllm", "0.4.13", "2 h 14 min")
    assert facts["date"] == "2026-01-02T03:00:00+00:00"
    assert facts["results"] == "results_2026-01-02T03-04-05.000006.json"


def test_flips_and_subtasks_are_counted_against_meta(tmp_path: Path) -> None:
    recorded = [True] * 60 + [False] * 40
    report = reported(tmp_path, right(50, 100), recorded=recorded, subtasks=["a.x", "a.y"] * 50)
    (task,) = report.tasks
    assert task.flips is not None
    assert (task.flips.compared, task.flips.candidate_only, task.flips.baseline_only) == (100, 0, 10)
    assert [(subtask.name, subtask.docs, subtask.value, subtask.baseline) for subtask in task.subtasks] == [
        ("a.x", 50, 0.5, 0.6),
        ("a.y", 50, 0.5, 0.6),
    ]


def test_a_comparison_says_what_changed_and_what_is_in_one_run_only(tmp_path: Path) -> None:
    before = read_run([write_run(tmp_path / "a", right(130))])
    after = read_run([write_run(tmp_path / "b", right(112))])
    report = build_report(judge(before, after), {"A": before, "B": after})
    (task,) = report.tasks
    assert (report.decision.outcome, task.outcome) == ("DON'T SHIP", "worse")
    assert task.flips is not None and (task.flips.baseline_only, task.flips.candidate_only) == (18, 0)
    assert report.to_json()["tasks"][0]["drop"]["recovery"] == pytest.approx(112 / 130)


# Samples


def test_a_sample_holds_the_texts_of_its_line(tmp_path: Path) -> None:
    wrong = shown(tmp_path, [1.0, 0.0], recorded=[True, True], subtasks=["s", "s"])[1]
    assert (wrong.prompt, wrong.answers[0].text, wrong.gold) == ("Question 1?", "The answer is B.", "A")
    assert (wrong.answers[0].verdict, wrong.answers[0].extracted, wrong.recorded_verdict) == (0.0, "B", 1.0)
    assert (wrong.recorded_text, wrong.subtask, wrong.doc) == ("The answer is A.", "s", 1)


def test_samples_show_no_verdict_of_metas_where_there_is_none(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1.0, 0.0], recorded=[True, True])
    run = read_run([folder])
    pack = manifest(meta_some=entry(2, is_correct_metric="other,strict-match"))
    assert [sample.recorded_verdict for sample in read_shown_samples(judge(None, run, pack).tasks)] == [None, None]
    assert [sample.recorded_verdict for sample in read_shown_samples(judge(run, run, pack).tasks)] == [
        None,
        None,
    ]
    assert [sample.recorded_verdict for sample in read_shown_samples(judge(run, run).tasks)] == [1.0, 1.0]


def test_samples_of_a_shuffled_file_come_in_the_order_of_their_docs(tmp_path: Path) -> None:
    samples = shown(tmp_path, [1.0, 0.0, 0.0], order=[2, 0, 1])
    assert [(sample.doc, sample.prompt) for sample in samples] == [
        (0, "Question 0?"),
        (1, "Question 1?"),
        (2, "Question 2?"),
    ]


def test_flags_say_what_went_wrong_with_an_answer(tmp_path: Path) -> None:
    line = {"resps": [[" "]], "filtered_resps": ["[invalid]"], "unextracted": 1.0, "ungraded": 1.0}
    line["metrics"] = ["exact_match", "exact_match_macro", "unextracted", "ungraded"]
    (sample,) = shown(tmp_path, [0.0], line=line, results=False)
    assert sample.answers[0].flags == ("unextracted", "empty", "ungraded")


def test_a_choice_shows_the_likelihood_of_each_continuation(tmp_path: Path) -> None:
    line = {
        "arguments": {"gen_args_0": {"arg_0": "Q:", "arg_1": " A"}, "gen_args_1": {"arg_0": "Q:", "arg_1": " B"}},
        "resps": [[["-0.25", "True"]], [["-3.5", "False"]]],
        "filtered_resps": [["-0.25", "True"], ["-3.5", "False"]],
    }
    (sample,) = shown(tmp_path, [1.0], line=line, results=False)
    assert (sample.prompt, sample.answers[0].text) == ("Q:", "-0.25   A\n-3.5   B")


def test_recorded_likelihoods_stand_beside_ours_and_have_no_length(tmp_path: Path) -> None:
    line = {
        "arguments": {"gen_args_0": {"arg_0": "Q:", "arg_1": " A"}, "gen_args_1": {"arg_0": "Q:", "arg_1": " B"}},
        "resps": [[["-0.25", "True"]], [["-3.5", "False"]]],
        "filtered_resps": [["-0.25", "True"], ["-3.5", "False"]],
    }
    doc = {"recorded_output": None, "continuations": [" A", " B"], "recorded_negative_log_likelihoods": [0.5, 3.0]}
    run = read_run([write_run(tmp_path, [1.0], line=line, doc=doc, results=False)])
    (sample,) = read_shown_samples(judge(None, run, None).tasks, count_tokens=len)
    assert sample.recorded_text == "-0.5   A\n-3.0   B"
    assert (sample.answers[0].likelihoods, sample.answers[0].tokens, sample.recorded_tokens) == (True, None, None)


def test_tokens_of_both_answers_are_counted_where_they_can_be(tmp_path: Path) -> None:
    run = read_run([write_run(tmp_path, [0.0])])
    (counted,) = read_shown_samples(judge(None, run, None).tasks, count_tokens=lambda text: len(text.split()))
    assert (counted.answers[0].text, counted.answers[0].tokens, counted.recorded_tokens) == ("The answer is B.", 4, 4)
    (unknown,) = read_shown_samples(judge(None, run, None).tasks)
    assert (unknown.answers[0].tokens, unknown.recorded_tokens) == (None, None)


def test_a_run_names_its_folder_as_seen_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [read_run([write_run(tmp_path / name / "org__Some-Model", [1.0, 0.0])]) for name in ("bf16", "fp8")]
    built = build_report(judge(*runs), dict(zip("AB", runs, strict=True)))
    assert [run.folder for run in built.runs] == [str((tmp_path / name).resolve()) for name in ("bf16", "fp8")]
    monkeypatch.chdir(tmp_path)
    assert [run.folder for run in build_report(judge(*runs), dict(zip("AB", runs, strict=True))).runs] == [
        "bf16",
        "fp8",
    ]
    assert [run["folder"] for run in built.to_json()["runs"]] == [run.folder for run in built.runs]


def test_two_runs_of_one_name_are_told_apart_by_their_folders_or_files(tmp_path: Path) -> None:
    runs = [read_run([write_run(tmp_path / name / "out", [1.0, 0.0])]) for name in ("bf16", "fp8")]
    assert (
        build_report(judge(*runs), dict(zip("AB", runs, strict=True))).title
        == "org/Some-Model: fp8/out (B) beside bf16/out (A)"
    )
    both = tmp_path / "both"
    write_run(both, [1.0, 0.0])
    write_run(both, [1.0, 0.0], time=TIME.replace("2026", "2027"))
    runs = [read_run([path]) for path in sorted(both.glob("results_*"))]
    title = build_report(judge(*runs), dict(zip("AB", runs, strict=True))).title
    assert title == f"org/Some-Model: results_{TIME.replace('2026', '2027')}.json (B) beside results_{TIME}.json (A)"


def test_markdown_says_of_two_runs_of_one_name_which_is_which(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_run(tmp_path / name / "out", [1.0, 0.0])
    done = cli("compare", "../one/out", "out", "--markdown", "page.md", "--html", "page.html", cwd=tmp_path / "two")
    page = (tmp_path / "two/page.html").read_text()
    assert "<dd>org/Some-Model · one/out" in page and "<dd>org/Some-Model · out" in page
    assert "org/Some-Model: out (B) beside one/out (A)" in done.stdout, done.stderr
    legend = "only A right: A is org/Some-Model, from one/out; only B right: B is org/Some-Model, from out."
    assert legend in (tmp_path / "two/page.md").read_text()


@pytest.mark.parametrize(("costs", "line"), [((0.00024,), "Cost: 0.00024, "), ((0.5, 2), "Cost: A 0.5, B 2.00, ")])
def test_what_answers_cost_is_a_line_of_the_terminal(costs: tuple[float, ...], line: str, tmp_path: Path) -> None:
    for number, cost in enumerate(costs):
        (file,) = write_run(tmp_path / f"run{number}", [1.0, 0.0]).glob("results_*")
        tree = json.loads(file.read_text())
        file.write_text(json.dumps(tree | {"config": {**tree["config"], "meta_eval": {"cost": cost}}}))
    verb = "compare" if len(costs) > 1 else "report"
    done = cli(verb, *(f"run{number}" for number in range(len(costs))), cwd=tmp_path)
    assert f"{line}in the currency of the configured prices." in done.stdout.splitlines(), done.stderr


def test_folders_that_share_nothing_are_named_by_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [read_run([write_run(tmp_path / name / "out", [1.0, 0.0])]) for name in ("here/bf16", "fp8")]
    monkeypatch.chdir(tmp_path / "here")
    assert (
        build_report(judge(*runs), dict(zip("AB", runs, strict=True))).title
        == "org/Some-Model: fp8/out (B) beside bf16/out (A)"
    )


def test_the_question_of_a_dialog_is_its_last_turn(tmp_path: Path) -> None:
    question = json.dumps({"dialog": [{"body": "one"}, {"body": "two"}]})
    assert shown(tmp_path, [1.0], doc={"question": question})[0].question == "two"


def test_both_answers_of_two_runs_stand_in_one_sample(tmp_path: Path) -> None:
    before = read_run([write_run(tmp_path / "a", [1.0, 1.0])])
    after = read_run([write_run(tmp_path / "b", [1.0, 0.0], order=[1, 0])])
    second = list(read_shown_samples(judge(before, after).tasks))[1]
    assert [(answer.verdict, answer.text, answer.metrics["exact_match,strict-match"]) for answer in second.answers] == [
        (1.0, "The answer is A.", 1.0),
        (0.0, "The answer is B.", 0.0),
    ]


def test_a_file_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    run = read_run([write_run(tmp_path, [1.0, 0.0])])
    judged = judge(None, run, None)
    file = next(tmp_path.glob("samples_*"))
    file.write_bytes(file.read_bytes()[5:])
    with pytest.raises(ResultsError, match="has changed since it was read"):
        list(read_shown_samples(judged.tasks))


# The commands


@pytest.mark.plugin("meta")
def test_report_writes_every_file_and_ends_with_the_decisions_code(tmp_path: Path) -> None:
    write_run(tmp_path / "out", right(100))
    write_pack(tmp_path / "pack", manifest(meta_some=entry(N, published(65.0))))
    done = forked(
        "report", "out", "--pack", "pack", "--max-drop", "2", "--json", "--html", "r.html", "--markdown", "r.md",
        "--eval-results", "r.yaml", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    tree = json.loads(done.stdout)
    assert (tree["decision"]["outcome"], tree["tasks"][0]["outcome"], tree["exit_code"]) == ("DON'T SHIP", "worse", 1)
    assert (tree["decision"]["margin"], tree["tasks"][0]["baseline_label"]) == (0.02, "the published number alone")
    assert "DON'T SHIP: mean drop" in done.stdout
    assert "run `meta-eval verify pack`" in " ".join(done.stderr.split())
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "50.0" in (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "left out" in (tmp_path / "r.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "docs", "decided"),
    [
        (("report", "out"), 50, "UNDECIDED: nothing was compared, margin 1. Why: no pack named"),
        (("compare", "out", "two"), 400, "SHIP: mean drop of 1 task 0.0 points"),
        (("compare", "out", "out", "--texts"), 50, "texts identical"),
    ],
)
def test_without_json_the_text_is_stdout_alone_and_without_a_gate_the_code_is_0(
    tmp_path: Path, command: tuple[str, ...], docs: int, decided: str
) -> None:
    write_run(tmp_path / "out", right(30, docs))
    write_run(tmp_path / "two", right(30, docs))
    done = cli(*command, cwd=tmp_path)
    assert done.returncode == 0
    assert decided in " ".join(done.stdout.split()) and decided not in " ".join(done.stderr.split())
    beside = cli(*command, "--json", cwd=tmp_path)
    assert beside.stderr == done.stderr + done.stdout, "beside JSON the same text is on stderr"


def test_a_margin_alone_changes_no_exit_code(tmp_path: Path) -> None:
    write_run(tmp_path / "out", right(100))
    write_pack(tmp_path / "pack", manifest(meta_some=entry(N, published(65.0))))
    done = cli("report", "out", "--pack", "pack", "--margin", "2", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["decision"]["outcome"]) == (0, "DON'T SHIP")


def test_an_identical_model_passes_the_readmes_gate(tmp_path: Path) -> None:
    """10 of 1,000 docs flip, as many one way as the other."""
    after = [0.0] * 5 + right(645, 645) + [1.0] * 5 + [0.0] * 345
    write_run(tmp_path / "out", after, recorded=[True] * 650 + [False] * 350)
    write_pack(tmp_path / "pack", manifest(meta_some=entry(1000, published(65.0))))
    done = cli("report", "out", "--pack", "pack", "--max-drop", "1.0", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["decision"]["outcome"]) == (0, "SHIP")


def test_a_gate_that_cannot_decide_ends_with_3(tmp_path: Path) -> None:
    write_run(tmp_path / "out", right(128))
    write_pack(tmp_path / "pack", manifest(meta_some=entry(N, published(65.0)), meta_other=entry(5, published(1.0))))
    (tmp_path / "gate.yaml").write_text("margin: 12\n")
    done = cli("report", "out", "--pack", "pack", "--gate", "gate.yaml", cwd=tmp_path)
    assert done.returncode == 3
    assert "UNDECIDED: mean drop of 1 of 2 tasks 1.0 points" in done.stdout
    assert "Why: not run: meta_other." in done.stdout and "! not run. There is no result" in done.stdout


def test_repeats_are_averaged_when_asked_for(tmp_path: Path) -> None:
    for seed, count in enumerate((128, 132)):
        args = {"pretrained": "org/Some-Model", "seed": seed}
        write_run(tmp_path / "out" / str(seed), right(count), time=f"2026-01-02T03-04-0{seed}", model_args=args)
    write_pack(tmp_path / "pack", manifest(meta_some=entry(N, published(65.0))))
    averaged = cli("report", "out", "--pack", "pack", "--repeats", "--json", cwd=tmp_path)
    newest = cli("report", "out", "--pack", "pack", "--json", cwd=tmp_path)
    assert [json.loads(command.stdout)["tasks"][0]["scores"][0]["value"] for command in (averaged, newest)] == [
        0.65,
        0.66,
    ]
    assert "with --repeats, runs of a task are averaged" in " ".join(newest.stderr.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_args": {"pretrained": "org/Some-Model", "max_model_len": 4096}}, "because the max_model_len differs"),
        ({"config": {"gen_kwargs": {"temperature": 1}}}, "because the generation settings differs"),
        ({"doc": {"prompt": "Other"}, "time": "2026-01-02T03-04-05.000006"}, "the same run twice"),
        ({"doc": {"input_question_hash": "0" * 64}}, "differ in docs or prompts"),
    ],
)
def test_what_was_not_run_alike_is_no_repeat(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_run(tmp_path / "out" / "a", right(64, 100))
    write_run(tmp_path / "out" / "b", right(64, 100), **{"time": "2026-01-02T03-04-09", **options})
    with pytest.raises(ResultsError, match=message):
        read_run([tmp_path / "out"], repeats=True)


def test_a_copy_under_another_date_is_the_same_run(tmp_path: Path) -> None:
    for name, second in (("a", 1), ("b", 2), ("c", 2)):
        write_run(tmp_path / "out" / name, right(60 + second, 100), time=f"2026-01-02T03-04-0{second}")
    for file in [*(tmp_path / "out" / "b").iterdir()]:
        (tmp_path / "out" / "c" / file.name).unlink()
        shutil.copy(file, tmp_path / "out" / "c" / file.name.replace("T03-04-02", "T03-04-07"))
    with pytest.raises(ResultsError, match="the same run twice"):
        read_run([tmp_path / "out"], repeats=True)
    found = compare([tmp_path / "out" / "b"], [tmp_path / "out" / "c"])
    assert "the same run twice" in [alarm.kind for alarm in found.alarms]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "nowhere"), "nowhere: there is no such file or folder. Name a results folder"),
        (("report", "out_"), "out_: there is no such file or folder; did you mean 'out'? Name a results folder"),
        (("report", "out", "--pack", "out"), "out: is not a pack"),
        (("report", "out", "--max-drop", "1", "--gate", "g.yaml"), "--gate and --max-drop are given together"),
        (("report", "out", "--cap", "9", "--gate", "g.yaml"), "--cap and --gate are given together"),
        (("report", "out", "--max-drop", "-1"), "--max-drop"),
        (("report", "out", "--margin", "0"), "--margin: 0 is not a number of points above 0"),
        (("report", "out", "--html", "no/such/r.html"), "no/such/r.html: its folder does not exist"),
        (("compare", "out", "nowhere"), "nowhere: there is no such file or folder. Name a results folder"),
        (
            ("compare", "out", "out", "--gate", "no.yaml"),
            "no.yaml: cannot be read: there is no such file. Rules and examples: ",
        ),
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


def test_compare_decides_against_the_baseline_run(tmp_path: Path) -> None:
    write_run(tmp_path / "a", right(130), extra={"n-samples": {"meta_some": {"original": N, "effective": N}}})
    write_run(tmp_path / "b", right(129))
    done = cli("compare", "a", "b", "--max-drop", "5", "--json", "--html", "c.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tree = json.loads(done.stdout)
    assert (tree["document_type"], tree["decision"]["outcome"], tree["tasks"][0]["baseline_label"]) == (
        "compare",
        "SHIP",
        "run A",
    )
    assert tree["tasks"][0]["flips"]["baseline_only"] == 1
    assert (tmp_path / "c.html").stat().st_size > 20_000


def test_an_invalid_comparison_shows_its_figures_and_ends_with_2_under_a_gate(tmp_path: Path) -> None:
    """A base model beside its tuned copy with a chat template: figures, and no verdict on the model."""
    write_run(tmp_path / "base", right(80, 100))
    templated = {"prompt_hash": "0" * 64}
    write_run(tmp_path / "tuned", right(50, 100), line=templated, extra={"chat_template": "{{ messages }}"})
    plain = cli("compare", "base", "tuned", "--json", cwd=tmp_path)
    gated = cli("compare", "base", "tuned", "--max-drop", "1", "--html", "c.html", "--markdown", "c.md", cwd=tmp_path)
    tree = json.loads(plain.stdout)
    reason = "runs not alike: meta_some (100 of 100 docs had another prompt in B; a chat template: none in A, yes in B)"
    assert (plain.returncode, gated.returncode) == (0, 2)
    assert (tree["decision"]["outcome"], tree["decision"]["invalid"]) == ("UNDECIDED", True)
    assert tree["summary"].startswith("UNDECIDED: mean drop of 1 task 30.0 points")
    assert f"Why: {reason}.\nFirst: look below at runs not alike." in tree["summary"]
    assert tree["tasks"][0]["drop"]["value"] == pytest.approx(0.3)
    assert f"Why: {reason}" in " ".join(gated.stdout.split())
    assert "run A" not in gated.stdout and "publ." not in gated.stdout
    assert "- Why: runs not alike" in " ".join((tmp_path / "c.md").read_text(encoding="utf-8").split())


def test_a_group_has_a_row_in_every_view_and_may_stand_in_a_gates_file(tmp_path: Path) -> None:
    subjects = {"mmlu_pro_a": right(30, 60), "mmlu_pro_b": right(15, 20)}
    for name in ("a", "b"):
        write_group(tmp_path / name, subjects)
    (tmp_path / "gate.yaml").write_text("margin: 20\ntasks: [mmlu_pro]\n")
    done = cli(
        "compare", "a", "b", "--gate", "gate.yaml", "--json", "--html", "c.html", "--markdown", "c.md", cwd=tmp_path
    )
    tree = json.loads(done.stdout)
    assert (done.returncode, tree["decision"]["outcome"]) == (0, "SHIP")
    group = tree["tasks"][0]
    assert (group["name"], group["members"], group["drop"]["baseline"]) == ("mmlu_pro", list(subjects), 0.5625)
    assert "mmlu_pro (2 tasks)" in " ".join(done.stderr.split())
    assert "`mmlu_pro`, 2 tasks" in (tmp_path / "c.md").read_text(encoding="utf-8")
    assert "<small>2 tasks</small>" in (tmp_path / "c.html").read_text(encoding="utf-8")


@thorough
def test_tasks_are_chosen_and_left_out_by_name_group_or_pattern(tmp_path: Path) -> None:
    """A task of which B has another prompt stops no other: it is left out, and the rest is decided on."""
    subjects = {"mmlu_pro_a": right(300, 600), "mmlu_pro_b": right(150, 200)}
    for name in ("a", "b"):
        write_group(tmp_path / name, subjects)
        line = {"prompt_hash": digest(name)}
        write_run(tmp_path / name, right(50, 100), task="gsm8k", time="2026-01-02T03-04-06", line=line)

    def compared(*options: str) -> tuple[int, dict[str, Any]]:
        done = cli("compare", "a", "b", "--max-drop", "5", "--json", *options, cwd=tmp_path)
        return done.returncode, json.loads(done.stdout or "{}")

    code, whole = compared()
    assert (code, whole["decision"]["invalid"]) == (2, True)
    for options in (("--tasks", "-gsm8k"), ("--tasks", "mmlu_pro"), ("--tasks", "mmlu_*"), ("--tasks", "-gsm*")):
        code, rest = compared(*options)
        assert (code, rest["decision"]["outcome"]) == (0, "SHIP")
        assert [task["name"] for task in rest["tasks"]] == ["mmlu_pro", *subjects]
        assert "A: left out by name: gsm8k" in rest["notes"]
    code, chosen = compared("--tasks", "mmlu_pro_a,gsm8k,-gsm8k")
    assert [task["name"] for task in chosen["tasks"]] == ["mmlu_pro_a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tasks", "-gsm8"], "--tasks: unknown task 'gsm8'; did you mean 'gsm8k'?"),
        (["--tasks", "gsm8k,-gsm8k"], "no task is left"),
    ],
)
def test_a_choice_that_is_a_mistake_is_one_message(tmp_path: Path, options: list[str], message: str) -> None:
    write_run(tmp_path / "out", right(50, 100), task="gsm8k")
    for command in (["report", "out"], ["compare", "out", "out"]):
        done = cli(*command, *options, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in " ".join(done.stderr.split())


def test_a_pack_is_judged_on_the_tasks_that_are_chosen(tmp_path: Path) -> None:
    """A task of the pack that was not run forbids SHIP, unless it is left out; also a damaged one."""
    after = [0.0] + right(129, 129) + [1.0] + [0.0] * 69
    write_run(tmp_path / "out", after, recorded=[True] * 130 + [False] * 70)
    write_run(tmp_path / "out", [1, 0], task="meta_torn", time="2026-01-02T03-04-06")
    (torn,) = (tmp_path / "out").glob("samples_meta_torn_*")
    torn.write_text("{")
    write_pack(tmp_path / "pack", manifest(meta_some=entry(N), meta_other=entry(5, docs_file="o"), meta_torn=entry(2)))
    words = ("report", "out", "--pack", "pack", "--max-drop", "5", "--json")
    assert "left out: meta_torn" in " ".join(json.loads(cli(*words, cwd=tmp_path).stdout)["decision"]["reasons"])
    done = cli(*words, "--tasks", "-meta_other,-meta_torn", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["decision"]["outcome"]) == (0, "SHIP")
    assert cli(*words, "--tasks", "meta_some", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(("columns", "margins", "shown"), [(80, False, True), (80, True, True), (50, True, False)])
def test_the_baselines_score_stands_in_the_terminal_where_there_is_room(
    tmp_path: Path, columns: int, margins: bool, shown: bool
) -> None:
    write_run(tmp_path / "a", right(116))
    write_run(tmp_path / "b", right(114))
    (tmp_path / "gate.yaml").write_text(
        "margin: 2\n" + ("tasks: {meta_some: {margin: 3}}\n" if margins else ""), encoding="utf-8"
    )
    done = cli("compare", "a", "b", "--gate", "gate.yaml", "--html", "p.html", cwd=tmp_path, COLUMNS=str(columns))
    heading = next(line for line in done.stdout.splitlines() if line.startswith("task") and " drop " in line)
    assert (" A " in heading) is shown and max(map(len, done.stdout.splitlines())) <= columns
    assert "…" not in done.stdout, "nothing is cut"
    assert done.stderr.splitlines()[-1] == "wrote p.html"


def test_without_a_pack_no_answers_are_called_metas(tmp_path: Path) -> None:
    write_run(tmp_path / "out", right(116))
    done = cli("report", "out", "--html", "p.html", cwd=tmp_path)
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "Meta" not in done.stdout and "Meta&#39;s" not in page and "the baseline&#39;s, recorded" in page
