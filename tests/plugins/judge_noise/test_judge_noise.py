"""The judge's own noise: what two gradings of the same answers say, where a judge is likely, and what is said then."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import cli
from drawn_logs import WRITERS, draw_answers, write_inspect
from runs import write_run

from meta_eval import compare
from meta_eval.harness.doc_results import DocResult, FilterResult
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.provenance import GraderFacts, Provenance
from meta_eval.plugins.judge_noise.evidence import JudgeNoiseEvidence
from meta_eval.plugins.judge_noise.judges import names_judge
from meta_eval.sockets import EvidenceCase, Findings

JUDGE = {"scorer": {"model_graded_qa": {"model": "openai/gpt-4o"}}, "grader": "inspect_ai model_graded_qa"}
RIGHT = [1.0] * 60 + [0.0] * 40
inspect_ai = pytest.mark.plugin("inspect_ai")
promptfoo = pytest.mark.plugin("promptfoo")


def make_doc(number: int, verdict: Any, answer: str | None, **others: Any) -> DocResult:
    filters = others.pop("filters", ("none",))
    each = others.pop("each", None)
    results = {
        name: FilterResult(None, {"acc": verdict}, 0, 0, verdict_of_each={"acc": each} if each else {})
        for name in filters
    }
    return DocResult(
        doc_id=number, question_hash=others.pop("question", str(number)), prompt_hashes=(f"p{number}",),
        prompt_matches=None, subtask=None, cluster=others.pop("cluster", None), gold="g", n_choices=None,
        recorded_is_correct=None, recorded_metrics=None, answer_tail="", answer_empty=False, limit_hit=False,
        filter_results=results, answer_hash=answer, **others,
    )  # fmt: skip


def make_task(
    verdicts: Sequence[Any], answers: Callable[[int], str | None] = str, judge: Any = JUDGE, **others: Any
) -> TaskRun:
    """A run whose doc n has this verdict and answer."""
    of_doc = others.pop("of_doc", lambda _: {})
    docs = [make_doc(number, verdict, answers(number), **of_doc(number)) for number, verdict in enumerate(verdicts)]
    if order := others.pop("order", None):
        docs = [docs[place] for place in order]
    metrics = {"acc": json.dumps({"metric": "acc", **judge})} if judge is not None else {}
    provenance = Provenance(model="m", harness="inspect_ai", grader=GraderFacts(metrics=metrics))
    return TaskRun("sums", docs=tuple(docs), provenance=provenance, **others)


def find(before: Sequence[TaskRun], after: Sequence[TaskRun], name: str = "sums") -> Findings:
    """What is found of runs of both sides, the newest first."""
    sides = [Run({name: runs[0]}, repeats={name: tuple(runs[1:])}) if runs else None for runs in (before, after)]
    assert sides[1] is not None
    evidence = JudgeNoiseEvidence()
    findings = evidence.find(EvidenceCase(sides[1], sides[0]))
    list(evidence.make_sections(findings))
    json.dumps(findings.json, allow_nan=False)
    assert findings.alarms == ()
    return findings


def flip(verdicts: Sequence[float], places: Sequence[int]) -> list[float]:
    return [1 - verdict if place in places else verdict for place, verdict in enumerate(verdicts)]


def test_equal_answers_of_both_sides_give_the_rate_by_direction() -> None:
    found = find([make_task(RIGHT)], [make_task(flip(RIGHT, [0, 1, 2, 70, 71]))]).json["tasks"]["sums"]
    assert (found["docs"], found["lost"], found["won"], found["rate"]) == (100, 3, 2, 0.05)
    assert found["interval"]["lower"] < 0.05 < found["interval"]["upper"]
    # No answer differs: the judge adds nothing to the drop, whose interval has no flips.
    assert found["drop"]["variance"] == 0


def test_the_part_of_the_drop_is_the_rate_over_the_docs_whose_answers_differ() -> None:
    after = flip(RIGHT, [0, 1, 70, 71, 90, 91])
    found = find([make_task(RIGHT)], [make_task(after, lambda n: f"{n} {n >= 80}" if n >= 80 else str(n))])
    # 0 to 79 have a hash of their own in both runs; 80 to 99 differ.
    task = found.json["tasks"]["sums"]
    assert (task["docs"], task["rate"]) == (80, 4 / 80)
    assert task["drop"]["variance"] == pytest.approx(20 * 0.05 / 100**2)
    widths = task["drop"]["half_widths"]
    assert widths["1"] >= widths["2"] >= widths["4"] >= widths["unlimited"] > 0


def test_two_runs_of_a_side_are_two_gradings_and_halve_its_noise() -> None:
    older, newer = make_task(RIGHT, time="1"), make_task(flip(RIGHT, range(10)), time="2")
    after = [make_task(RIGHT, lambda n: f"other {n}", time="3")]
    one, two = (find(before, after).json["tasks"] for before in ([newer], [newer, older]))
    assert one == {} and two["sums"]["docs"] == 100 and (two["sums"]["lost"], two["sums"]["won"]) == (10, 0)
    assert two["sums"]["drop"]["variance"] == pytest.approx(100 * 0.1 * (1 + 1 / 2) / 2 / 100**2)


def test_of_several_answers_to_a_doc_each_is_a_grading_and_their_mean_has_less_noise() -> None:
    def each(values: tuple[float, ...]) -> Callable[[int], dict[str, Any]]:
        return lambda _: {"each": values, "cuts": (None,) * len(values)}

    before = make_task([0.5] * 40, of_doc=each((1.0, 0.0, 1.0, 0.0)))
    after = make_task([0.5] * 40, of_doc=each((1.0, 0.0, 0.0, 1.0)))
    found = find([before], [after]).json["tasks"]["sums"]
    assert (found["docs"], found["pairs"], found["lost"], found["won"], found["rate"]) == (40, 160, 40, 40, 0.5)


@pytest.mark.parametrize("swapped", [False, True])
def test_each_side_has_the_noise_of_its_own_number_of_answers(swapped: bool) -> None:
    alone = [make_task(flip(RIGHT, places), time=time) for places, time in (([], "2"), ([1, 2, 70, 71], "1"))]
    several = make_task(
        [0.5] * 100, lambda n: f"other {n}", of_doc=lambda _: {"each": (1.0, 0.0, 1.0, 0.0), "cuts": (None,) * 4}
    )
    sides = ([several], alone) if swapped else (alone, [several])
    found = find(*sides).json["tasks"]["sums"]
    assert found["drop"]["variance"] == pytest.approx(100 * found["rate"] * (1 / 2 + 1 / 4) / 2 / 100**2)


def test_nothing_is_said_where_the_same_answers_have_the_same_verdicts_and_no_judge_is_named() -> None:
    found = find([make_task(RIGHT, judge={"grader": "inspect_ai match"})], [make_task(RIGHT, judge={})])
    assert (found.json, found.notes) == (None, ())


def test_without_a_name_other_verdicts_tell_of_a_judge_unless_they_all_go_one_way() -> None:
    for places, docs in (([0, 1, 70], 100), (range(20), None)):
        found = find([make_task(RIGHT, judge={})], [make_task(flip(RIGHT, places), judge={})])
        assert (found.json and found.json["tasks"]["sums"]["docs"]) == docs


def test_what_lm_eval_computes_has_no_judge() -> None:
    runs = [make_task(verdicts, judge={}) for verdicts in (RIGHT, flip(RIGHT, [0, 1, 70]))]
    runs = [replace(run, provenance=replace(run.provenance, harness=None)) for run in runs]
    assert find(runs[:1], runs[1:]).json is None


def test_another_judge_is_no_second_grading() -> None:
    other = {**JUDGE, "scorer": {"model_graded_qa": {"model": "openai/gpt-5"}}}
    found = find([make_task(RIGHT)], [make_task(flip(RIGHT, [0, 70]), judge=other)])
    assert (found.json["tasks"], found.json["unknown"], len(found.notes)) == ({}, ["sums"], 1)


def test_where_nothing_was_graded_twice_one_note_says_so_for_all_tasks() -> None:
    tasks = {f"task_{number}": make_task(RIGHT) for number in range(30)}
    findings = JudgeNoiseEvidence().find(EvidenceCase(Run(tasks)))
    (note,) = findings.notes
    assert note.startswith("the judge's own noise is unknown") and "task_0" in note and "25 more" in note
    assert "grade one of the logs again" in note


def read_doc(number: int) -> dict[str, Any]:
    return {"cluster": f"passage {number // 10}"}


def test_docs_of_a_cluster_are_not_independent() -> None:
    places = range(30, 50)
    alone = find([make_task(RIGHT)], [make_task(flip(RIGHT, places))]).json["tasks"]["sums"]
    together = find([make_task(RIGHT, of_doc=read_doc)], [make_task(flip(RIGHT, places), of_doc=read_doc)])
    widths = [one["interval"]["upper"] - one["interval"]["lower"] for one in (alone, together.json["tasks"]["sums"])]
    assert widths[1] > 1.5 * widths[0]


LONG = "n" * 5000
VERDICTS: list[tuple[str, list[Any], int | None]] = [
    ("NaN", [math.nan, *RIGHT[1:]], None), ("infinite", [math.inf, *RIGHT[1:]], None), ("above 1", [7.0, *RIGHT[1:]], None),
    ("below 0", [-0.5, *RIGHT[1:]], None), ("whole numbers", [1] * 50 + [0] * 50, 100), ("truth", [True] * 50 + [False] * 50, 100),
    ("halves", [0.5] * 100, 100), ("all right", [1.0] * 100, 100), ("all wrong", [0.0] * 100, 100), ("one doc", [1.0], 1),
    ("two docs", [1.0, 0.0], 2), ("no doc", [], None), ("subtasks", [("a", 1.0)] * 50 + [("b", 0.0)] * 50, 100),
    ("flags", [(True, False)] * 40, 40), ("an odd pair", [("a", math.nan)] * 4, None),
    ("tiny", [1e-300] * 20, 20), ("a mix", [1.0, (True,), ("a", 0.5)], None), ("scores of ten", [8.0] * 100, None),
]  # fmt: skip


@pytest.mark.parametrize(("verdicts", "docs"), [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS])
def test_verdicts_that_are_no_shares_are_left_out(verdicts: list[Any], docs: int | None) -> None:
    found = find([make_task(verdicts)], [make_task(verdicts)])
    assert (found.json and found.json["tasks"]["sums"]["docs"]) == docs
    if docs:
        assert found.json["tasks"]["sums"]["rate"] == 0


ODD: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("no hash", {"answers": lambda _: None}, {"answers": lambda _: None}, 0),
    ("no hash of a side", {}, {"answers": lambda _: None}, 0),
    ("other answers", {}, {"answers": lambda n: f"other {n}"}, 0),
    ("every tenth answer", {}, {"answers": lambda n: str(n) if n % 10 == 0 else "x"}, 10),
    ("one answer of all docs", {"answers": lambda _: "a"}, {"answers": lambda _: "a"}, 100),
    ("an empty hash", {"answers": lambda _: ""}, {"answers": lambda _: ""}, 100),
    ("another order", {}, {"order": range(99, -1, -1)}, 100),
    ("half of the docs", {}, {"order": range(50)}, 50),
    ("doubled docs", {"order": [*range(100), *range(100)]}, {"order": [*range(100), *range(100)]}, 200),
    ("doubled docs of a side", {}, {"order": [*range(100), *range(100)]}, 100),
    ("no common question", {}, {"of_doc": lambda n: {"question": f"q{n}"}}, -1),
    ("several filters", {"of_doc": lambda _: {"filters": ("none", "loose")}}, {"of_doc": lambda _: {"filters": ("none", "loose")}}, 100),
    ("no common filter", {}, {"of_doc": lambda _: {"filters": ("loose",)}}, -1),
    ("a second filter in common", {"of_doc": lambda _: {"filters": ("none", "loose")}}, {"of_doc": lambda _: {"filters": ("loose", "none")}}, 100),
    ("one cluster", {"of_doc": lambda _: {"cluster": "c"}}, {"of_doc": lambda _: {"cluster": "c"}}, 100),
    ("a cluster a doc", {"of_doc": lambda n: {"cluster": str(n)}}, {"of_doc": lambda n: {"cluster": str(n)}}, 100),
    ("clusters of a side", {"of_doc": read_doc}, {}, 100),
    ("a vote of three", {"of_doc": lambda _: {"cuts": (None,) * 3}}, {"of_doc": lambda _: {"cuts": (None,) * 3}}, -1),
    ("other counts of answers", {"of_doc": lambda _: {"cuts": (None,) * 2, "each": (1.0, 0.0)}}, {}, 0),
    ("NaN of an answer", {"of_doc": lambda _: {"cuts": (None,) * 2, "each": (1.0, math.nan)}}, {}, 0),
    ("long names", {"answers": lambda n: f"{LONG}{n}"}, {"answers": lambda n: f"{LONG}{n}"}, 100),
    ("lost tools", {"of_doc": lambda _: {"tools_lost": True}}, {}, 0),
    ("no settings of a side", {"judge": None}, {}, 100),
    ("two versions", {}, {"judge": {**JUDGE, "version": 2}}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "docs"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_only_the_same_answer_to_the_same_question_is_graded_twice(
    before: dict[str, Any], after: dict[str, Any], docs: int
) -> None:
    found = find([make_task(RIGHT, **before)], [make_task(flip(RIGHT, [3, 63]), **after)])
    measured = found.json["tasks"] if found.json else {}
    assert (measured["sums"]["docs"] if measured else -1 if not found.notes else 0) == docs


@pytest.mark.parametrize(("facts", "docs"), [({"runs_code": True}, None), ({}, 100)])
def test_a_program_that_may_have_run_out_of_time_has_no_judge(facts: dict[str, Any], docs: int | None) -> None:
    runs = [make_task(verdicts) for verdicts in (RIGHT, flip(RIGHT, [0, 70]))]
    graders = [replace(run.provenance.grader, **facts) for run in runs]
    runs = [
        replace(run, provenance=replace(run.provenance, grader=grader))
        for run, grader in zip(runs, graders, strict=True)
    ]
    found = find(runs[:1], runs[1:]).json
    assert (found and found["tasks"]["sums"]["docs"]) == docs


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("docs", [1, 2, 10, 60])
def test_more_gradings_never_widen_the_interval(rate: float, docs: int) -> None:
    chance = random.Random(f"{rate} {docs}")
    for _ in range(5):
        sides = [[float(chance.random() < 0.7) for _ in range(docs)] for _ in "ab"]
        sides[1] = [x if n % 2 else y for n, (x, y) in enumerate(zip(*sides, strict=True))]
        graded = [[1 - verdict if chance.random() < rate else verdict for verdict in side] for side in sides]
        found = find([make_task(graded[0])], [make_task(graded[1], lambda n: str(n) if n % 2 else f"b{n}")]).json
        drop = found["tasks"].get("sums", {}).get("drop")
        if drop:
            widths = [drop["half_widths"][key] for key in ("1", "2", "4", "unlimited")]
            assert widths == sorted(widths, reverse=True) and 0 < widths[-1] <= 1
            assert drop["explained"] is None or 0 <= drop["explained"] <= 1


@pytest.mark.parametrize("name", ["", " ", LONG, "ä\u202e", "a\nb", "<script>"])
def test_any_name_of_a_task_is_shown(name: str) -> None:
    assert find([make_task(RIGHT)], [make_task(RIGHT)], name).json["tasks"][name]["docs"] == 100
    (note,) = find([], [make_task(RIGHT)], name).notes
    assert len(note) < 300


@pytest.mark.parametrize("count", [2, 3, 6])
def test_several_runs_of_a_side_without_another(count: int) -> None:
    runs = [make_task(flip(RIGHT, [number]), time=str(number)) for number in range(count)]
    found = find([], runs).json["tasks"]["sums"]
    pairs = count * (count - 1) // 2
    assert (found["docs"], found["pairs"], found["drop"]) == (100, 100 * pairs, None)
    assert found["lost"] + found["won"] == count * (count - 1)


def test_runs_without_docs_say_nothing() -> None:
    empty = replace(make_task([]), docs=())
    assert find([empty], [make_task(RIGHT)]).json is None
    assert find([make_task(RIGHT)], [empty]).json is None
    assert find([empty, empty], [empty, empty]).json is None


NAMED: list[tuple[dict[str, Any], bool]] = [
    ({"grader": "inspect_ai match", "scorer": {"match": {}}}, False),
    ({"grader": "inspect_ai model_graded_fact"}, True),
    ({"grader": "inspect_ai custom", "scorer": {"custom": {"model": "openai/gpt-4o"}}}, True),
    ({"grader": "inspect_ai custom", "judge": {"model": "x"}}, True),
    ({"grader": "inspect_ai match", "judge": None}, False),
    ({"grader": "promptfoo equals 0f3a"}, False),
    ({"grader": "promptfoo llm-rubric by openai:gpt-4o 0f3a"}, True),
    ({"grader": "promptfoo g-eval 0f3a"}, True),
    ({"grader": "evalscope gsm8k", "judge_strategy": "auto"}, False),
    ({"grader": "evalscope gsm8k", "judge_strategy": "rule", "judge.model_id": "qwen"}, False),
    ({"grader": "evalscope gsm8k", "judge_strategy": "llm"}, True),
    ({"grader": "evalscope simple_qa", "judge_strategy": "auto"}, True),
    ({"grader": "helm", "metric_specs": [{"class_name": "BasicMetric"}]}, False),
    ({"grader": "helm", "annotators": [{"class_name": "WildBenchAnnotator"}]}, True),
    ({"grader": "helm", "annotators": [{"class_name": "BigCodeBenchAnnotator"}]}, False),
    ({"grader": "nemo_evaluator sums", "judge": {"model": {"name": "x"}}}, True),
    ({"grader": "simple_evals mmlu"}, False),
    ({"grader": "simple_evals math"}, True),
    ({"grader": "simple_evals healthbench"}, True),
    ({"grader": "simple_evals healthbench_meta"}, False),  # there the model grades, and a doctor is right
    ({"ignore_case": True, "regexes_to_ignore": [","]}, False),
]


@pytest.mark.parametrize(("settings", "is_named"), NAMED)
def test_the_log_names_a_judge(settings: dict[str, Any], is_named: bool) -> None:
    grader = GraderFacts(metrics={"acc": json.dumps({"metric": "acc", **settings})})
    assert names_judge(grader, "acc") is is_named


@pytest.mark.parametrize(
    ("metric", "is_named"),
    [("match", False), ("model_graded_qa", True), ("model_graded_qa/style", True), ("mean", True)],
)
@pytest.mark.parametrize("package", ["", "inspect_ai/"])
def test_a_scorer_beside_a_judge_is_none(metric: str, is_named: bool, package: str) -> None:
    scorers = {f"{package}match": {}, f"{package}model_graded_qa": {"model": "m"}}
    settings = {"grader": "inspect_ai match, model_graded_qa", "scorer": scorers, "metric": metric}
    assert names_judge(GraderFacts(metrics={metric: json.dumps(settings)}), metric) is is_named


@pytest.mark.parametrize("text", ["[]", "null", "5", '"x"', "{}"])
def test_settings_that_are_no_object_name_none(text: str) -> None:
    assert names_judge(GraderFacts(metrics={"acc": text}), "acc") is False
    assert names_judge(GraderFacts(), "acc") is False


def write_graded(folder: Path, seed: int, *, side: int = 0, rate: float = 0.06, docs: int = 120, **head: Any) -> Path:
    """A log of inspect_ai, graded by a judge that flips this share of verdicts."""
    chance = random.Random(seed)
    asked = [replace(one, right=one.right ^ (chance.random() < rate)) for one in draw_answers(side, docs=docs)]
    created = f"2026-05-01T{10 + seed}:00:00+00:00"
    return write_inspect(folder, asked, side, **{"created": created, "scorer": "model_graded_qa", **head})


@inspect_ai
def test_two_gradings_of_one_run_are_compared(tmp_path: Path) -> None:
    first, second = (write_graded(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 2)))
    judged = compare(first, second)
    found = judged.to_json()["judge_noise"]["tasks"]["sums"]
    assert (found["docs"], found["lost"] + found["won"]) == (120, round(120 * found["rate"]))
    assert found["lost"] and found["won"]
    assert not any("noise is unknown" in note for note in judged.notes)


@inspect_ai
@pytest.mark.parametrize(
    "head", [{}, {"created": "2026-05-01T10:00:00+00:00"}], ids=["asked twice", "a log graded again"]
)
def test_two_gradings_of_a_side_explain_part_of_the_drop_in_every_view(tmp_path: Path, head: dict[str, str]) -> None:
    for name, seed, side in (("a", 1, 0), ("b", 2, 0), ("c", 3, 1)):
        write_graded(tmp_path / name, seed, side=side, **head)
    shown = cli("compare", "a", "b", "--", "c", "--html", "page.html", "--markdown", "card.md", cwd=tmp_path)
    assert "The judge's own noise" in shown.stdout and "unlimited" in shown.stdout, shown.stderr
    for view in ("page.html", "card.md"):
        assert "own noise" in (tmp_path / view).read_text(encoding="utf-8")
    tree = json.loads(cli("compare", "a", "b", "--json", "--", "c", cwd=tmp_path).stdout)
    found = tree["judge_noise"]["tasks"]["sums"]
    assert found["pairs"] > 2 * found["docs"] and 0 < found["drop"]["explained"] < 1


@inspect_ai
def test_a_third_grading_of_the_same_answers_counts_as_the_mean_of_two(tmp_path: Path) -> None:
    first, second, third = (write_graded(tmp_path / str(seed), seed, rate=0.3) for seed in (1, 2, 3))
    tree = json.loads(cli("compare", str(first), str(second), "--json", "--", str(third), cwd=tmp_path).stdout)
    assert tree["tasks"][0]["drop"]["value"] == pytest.approx(0, abs=1e-12)


@inspect_ai
def test_a_copy_of_a_log_is_no_second_grading(tmp_path: Path) -> None:
    for name, seed, side in (("a", 1, 0), ("b", 1, 0), ("c", 3, 1)):
        write_graded(tmp_path / name, seed, side=side, stats={"named": name})
    done = cli("compare", "a", "b", "--", "c", cwd=tmp_path)
    assert (done.returncode, "the same run twice" in done.stderr) == (2, True)


@inspect_ai
@pytest.mark.parametrize("copied", [True, False])
def test_a_judge_that_graded_nothing_twice_is_unknown(tmp_path: Path, copied: bool) -> None:
    first = write_graded(tmp_path / "a", 1)
    second = first if copied else write_graded(tmp_path / "b", 2, model="org/other")
    judged = compare(first, second)
    notes = [note for note in judged.notes if "the judge's own noise is unknown" in note]
    # Without a model of its own for grading, inspect_ai lets each model grade itself: two judges.
    assert len(notes) == 1


@inspect_ai
def test_answers_of_several_epochs_with_the_same_text_are_graded_twice(tmp_path: Path) -> None:
    path = write_graded(tmp_path / "a", 1, rate=0.0, docs=40)
    tree = json.loads(path.read_text(encoding="utf-8"))
    again = json.loads(json.dumps(tree["samples"]))
    for number, row in enumerate(again):
        row["epoch"] = 2
        score = row["scores"]["model_graded_qa"]
        if number % 5 == 0:
            score["value"] = "I" if score["value"] == "C" else "C"
    tree["samples"] += again
    tree["results"]["scores"][0]["metrics"] = {}
    tree["results"]["total_samples"] = tree["results"]["completed_samples"] = 80
    tree["eval"]["config"] = {"epochs": 2}
    path.write_text(json.dumps(tree), encoding="utf-8")
    judged = compare(path, write_graded(tmp_path / "b", 2, side=1, docs=40))
    found = judged.to_json()["judge_noise"]["tasks"]["sums"]
    assert (found["docs"], found["rate"]) == (40, 0.2)


@inspect_ai
def test_a_judge_in_the_name_of_a_scorer_is_not_the_model(tmp_path: Path) -> None:
    for name, model in (("a", "org/m"), ("b", "org/other")):
        write_graded(tmp_path / name, 1, model=model, scorer="model_graded_qa() (claude)")
    judged = compare(tmp_path / "a", tmp_path / "b")
    assert judged.to_json()["judge_noise"]["tasks"]["sums"]["docs"] == 120


@inspect_ai
def test_logs_that_no_judge_graded_are_reported_as_before(tmp_path: Path) -> None:
    for side, name in enumerate("ab"):
        write_inspect(tmp_path / name, draw_answers(side), side)
    tree = compare(tmp_path / "a", tmp_path / "b").to_json()
    assert tree.get("judge_noise") is None and not any("noise" in note for note in tree["notes"])


def test_runs_of_exact_match_are_reported_as_before(tmp_path: Path) -> None:
    for name in "ab":
        write_run(tmp_path / name, RIGHT)
    assert compare(tmp_path / "a", tmp_path / "b").to_json().get("judge_noise") is None


@inspect_ai
def test_a_log_that_was_graded_again_keeps_its_time_and_is_a_second_run(tmp_path: Path) -> None:
    for name, seed, side in (("a", 1, 0), ("b", 2, 0), ("c", 3, 1)):
        write_graded(tmp_path / name, seed, side=side, created=f"2026-05-0{1 + side}T10:00:00+00:00")
    done = cli("compare", "a", "b", "--json", "--", "c", cwd=tmp_path)
    assert json.loads(done.stdout)["judge_noise"]["tasks"]["sums"]["docs"] == 120, done.stderr
    again = cli("compare", "a", "a/log.json", "--json", "--", "c", cwd=tmp_path)
    assert again.returncode == 2 or json.loads(again.stdout)["judge_noise"]["tasks"] == {}


KEYS = [f"sk-{letter * 30}" for letter in "ab"]


def write_rubric(folder: Path, side: int, changed: int, **options: Any) -> Path:
    """A log of promptfoo, graded by a rubric; the first docs have another verdict."""
    asked = [replace(one, right=one.right ^ (one.doc < changed)) for one in draw_answers(0)]
    path = WRITERS["promptfoo"](folder, asked, side)
    tree = json.loads(path.read_text(encoding="utf-8"))
    if "default" in options:
        tree["config"]["defaultTest"] = {"options": {"provider": options["default"]}}
    for row in tree["results"]["results"]:
        row["testCase"]["assert"] = [{"type": "llm-rubric", "value": "good", **options.get("rubric", {})}]
        if options.get("in_set"):
            row["testCase"]["assert"] = [{"type": "assert-set", "assert": row["testCase"]["assert"]}]
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


@promptfoo
@pytest.mark.parametrize("place", ["default", "rubric"])
@pytest.mark.parametrize(
    ("models", "keys", "docs"), [("mm", KEYS, 120), ("mn", KEYS[:1] * 2, 0), ("mm", KEYS[:1] * 2, 120)]
)
def test_a_judge_is_its_model_and_not_its_api_key(
    tmp_path: Path, place: str, models: str, keys: list[str], docs: int
) -> None:
    for side, name in enumerate("ab"):
        judge = {"id": models[side], "config": {"apiKey": keys[side]}}
        write_rubric(tmp_path / name, side, 5 * side, **{place: judge if place == "default" else {"provider": judge}})
    done = cli("compare", "a", "b", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)["judge_noise"]["tasks"]
    assert (found["promptfoo"]["docs"] if found else 0) == docs
    assert not any(key in done.stdout + done.stderr for key in KEYS)


@promptfoo
def test_a_rubric_in_a_set_of_assertions_is_a_judge(tmp_path: Path) -> None:
    for side, name in enumerate("ab"):
        write_rubric(tmp_path / name, side, 0, in_set=True)
    judged = compare(tmp_path / "a", tmp_path / "b").to_json()
    assert judged["judge_noise"]["tasks"]["promptfoo"]["rate"] == 0


def name_judge(folder: Path, harness: str) -> Path:
    """Let a log say that a model graded."""
    if harness == "simple_evals":
        (path,) = folder.glob("mmlu*")
        return path.rename(path.with_name(path.name.replace("mmlu", "simpleqa")))
    (path,) = [path for path in folder.rglob("*.json") if path.name in ("log.json", "run_spec.json", "eval-sums.json")]
    tree = json.loads(path.read_text(encoding="utf-8"))
    if harness == "helm":
        tree |= {"annotators": [{"class_name": "WildBenchAnnotator"}], "name": "sums:model=org_m"}
    elif harness == "nemo_evaluator":
        tree["config"]["judge"] = {"model": "org/j"}
    else:
        tree["eval"]["model_roles"] = {"grader": {"model": "org/j"}}
    path.write_text(json.dumps(tree), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "harness",
    [
        pytest.param(name, marks=pytest.mark.plugin(name))
        for name in ("helm", "inspect_ai", "nemo_evaluator", "simple_evals")
    ],
)
def test_rate_and_variance_are_those_of_a_drawn_log(tmp_path: Path, harness: str) -> None:
    chance = random.Random(harness)
    sides = [draw_answers(0, docs=60)] * 2
    sides[1] = [replace(one, text=f"{one.text} again") if chance.random() < 0.3 else one for one in sides[1]]
    sides = [[replace(one, right=one.right ^ (chance.random() < 0.1)) for one in side] for side in sides]
    paths = []
    for side, name in enumerate("ab"):
        WRITERS[harness](tmp_path / name, sides[side], side)
        paths.append(name_judge(tmp_path / name, harness))
    (found,) = compare(*paths).to_json()["judge_noise"]["tasks"].values()
    same = [(a.right, b.right) for a, b in zip(*sides, strict=True) if a.text == b.text]
    rate = sum(a != b for a, b in same) / len(same)
    assert (found["docs"], found["lost"], found["won"]) == (
        len(same),
        same.count((True, False)),
        same.count((False, True)),
    )
    assert found["rate"] == pytest.approx(rate)
    assert found["drop"]["variance"] == pytest.approx((60 - len(same)) * rate / 60**2)
