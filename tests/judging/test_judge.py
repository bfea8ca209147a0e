"""A run beside Meta's answers, verdicts and numbers, and beside another run: drops, outcomes, one decision."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import cli
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import few, thorough
from places import THOROUGH
from runs import (
    digest,
    entry,
    manifest,
    published,
    write_and_read,
    write_and_read_group,
    write_group,
    write_run,
)
from shared import replayed_pack
from stored import stored

from meta_eval import stats
from meta_eval.base.errors import ConfigError
from meta_eval.harness.doc_results import DocResult, FilterResult, MetricValue, ResultsError
from meta_eval.harness.lm_eval_run import Run, read_run
from meta_eval.harness.settings import SAMPLING
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.decision import NUMBER, RECORDED_ANSWERS, RECORDED_VERDICTS, Score, TaskDecision
from meta_eval.judge.gate import Gate
from meta_eval.judge.pair import pair_task
from meta_eval.judge.runs import judge
from meta_eval.pack.baseline import Baseline
from meta_eval.pack.manifest import BaselineEntry, KnownGapEntry, Manifest, TaskEntry, read_manifest
from meta_eval.reports.samples import read_shown_samples
from meta_eval.reports.text import describe_averages as averages_in_words
from meta_eval.reports.text import explain_outcome, write_headline
from meta_eval.stats import Drop


def half_width(interval: stats.Interval) -> float:
    return (interval.upper - interval.lower) / 2


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replayed_pack(tmp_path_factory)[0]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run([replayed_pack(tmp_path_factory)[1]])


def right(count: int, n: int) -> list[float]:
    return [1.0] * count + [0.0] * (n - count)


def answered(run: Run, verdicts: Sequence[float], task: str = "meta_some", metric: str = "exact_match") -> Baseline:
    """Meta's recorded answers to the docs of a run, with these verdicts of the pack's graders."""
    docs = tuple(
        replace(
            doc,
            filter_results={
                "strict-match": FilterResult(None, {metric: verdict, f"{metric}_macro": (doc.subtask, verdict)}, 0, 0)
            },
            answer_hash=None,
        )
        for doc, verdict in zip(run.tasks[task].docs, verdicts, strict=True)
    )
    return stored({task: docs})


def whole(
    folder: Path, *args: Any, task: TaskEntry | None, before: Sequence[float] | None = None, **options: Any
) -> RunDecision:
    """The judgement of a run, ``before`` the verdicts on Meta's recorded answers."""
    run = write_and_read(folder, *args, **options)
    baseline = answered(run, before, metric=options.get("metric", "exact_match")) if before is not None else None
    return judge(None, run, manifest(meta_some=task) if task else None, baseline)


def judged(folder: Path, *args: Any, **options: Any) -> TaskDecision:
    (task,) = whole(folder, *args, **options).tasks
    return task


def drop_of(task: TaskDecision) -> Drop:
    assert task.is_decided
    return task.drop


def score(folder: Path, verdicts: list[float], value: float, **options: Any) -> Score:
    (result,) = judged(folder, verdicts, task=entry(len(verdicts), published(value)), **options).scores
    return result


# What a drop is a drop from


def test_metas_graded_answers_come_before_verdicts_and_those_before_the_number(tmp_path: Path) -> None:
    task, recorded = entry(200, published(67.0)), [True] * 133 + [False] * 67
    first = judged(tmp_path / "a", right(130, 200), task=task, recorded=recorded, before=right(132, 200))
    second = judged(tmp_path / "b", right(130, 200), task=task, recorded=recorded)
    third = judged(tmp_path / "c", right(130, 200), task=task)
    assert [task.baseline_label for task in (first, second, third)] == [RECORDED_ANSWERS, RECORDED_VERDICTS, NUMBER]
    assert drop_of(first) == stats.paired_drop(right(132, 200), right(130, 200))
    assert drop_of(second) == stats.paired_drop(right(133, 200), right(130, 200))
    assert drop_of(third) == stats.unpaired_drop(0.67, right(130, 200))


def test_why_there_are_no_graded_answers_is_said(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(130, 200))
    missing = Baseline(Run(), {"meta_some": "verify has not been run on this pack: run `meta-eval verify`"})
    (task,) = judge(None, run, manifest(meta_some=entry(200, published(65.0))), missing).tasks
    assert (task.baseline_label, task.fallback_reason) == (NUMBER, missing.missing_reasons["meta_some"])


def test_a_judge_models_verdicts_are_no_baseline(tmp_path: Path) -> None:
    task = entry(200, published(67.0), graded_by="judge")
    result = judged(tmp_path, right(130, 200), task=task, recorded=[True] * 134 + [False] * 66)
    assert result.baseline_label == NUMBER
    assert result.flips is not None and result.flips.baseline_only == 4


def test_a_yes_or_no_that_is_no_verdict_is_compared_with_nothing(tmp_path: Path) -> None:
    verdicts, recorded = right(60, 100), [True] * 67 + [False] * 33
    task = entry(100, published(67.0), is_correct_metric="other,strict-match")
    result = judged(tmp_path / "a", verdicts, recorded=recorded, subtasks=["s", "t"] * 50, task=task)
    assert (result.flips, result.baseline_label, result.subtasks[0].baseline) == (None, NUMBER, None)
    parts = ["s"] * 67 + ["t"] * 33
    plain = judged(tmp_path / "b", verdicts, recorded=recorded, subtasks=parts, task=entry(100, published(67.0)))
    assert (plain.baseline_label, [subtask.baseline for subtask in plain.subtasks]) == (RECORDED_VERDICTS, [1.0, 0.0])


def test_recorded_verdicts_stand_without_the_text_of_the_run(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, [1.0, 0.0], recorded=[True, False])
    task = pair_task("meta_some", run.all_runs("meta_some"), entry(2), None)
    assert task.recorded_verdicts is not None
    assert [bool(doc.answer_tail) for doc in task.recorded_verdicts.docs] == [False, False]
    assert [doc.answer_tail for doc in task.candidate.docs] == ["The answer is A.", "The answer is B."]


def test_verdicts_that_differ_only_by_rounding_drop_nothing(tmp_path: Path) -> None:
    """Recorded scores have few decimals: no flip, so no p value from them."""
    verdicts = [1 / 3, 2 / 3, 0.0, 1.0] * 20
    metrics = [json.dumps({"f1": round(verdict, 3)}) for verdict in verdicts]
    task = entry(80, published(50.0, metric="f1,strict-match"), primary_metric="f1,strict-match")
    run = write_and_read(tmp_path, verdicts, metric="f1", doc={"recorded_metrics": "{}"})
    docs = tuple(
        replace(doc, recorded_metrics=metric) for doc, metric in zip(run.tasks["meta_some"].docs, metrics, strict=True)
    )
    run = replace(run, tasks={"meta_some": replace(run.tasks["meta_some"], docs=docs)})
    (result,) = judge(None, run, manifest(meta_some=task)).tasks
    assert (result.baseline_label, drop_of(result).lost, drop_of(result).won, drop_of(result).p_value()) == (
        RECORDED_VERDICTS,
        0,
        0,
        1.0,
    )


def test_recorded_verdicts_in_another_metric_are_those_of_its_name(tmp_path: Path) -> None:
    metrics = {"recorded_metrics": json.dumps({"em": 0.0, "f1": 0.5})}
    verdicts = [0.5, 0.5, 1.0, 0.0]
    task = judged(tmp_path / "a", verdicts, metric="f1", doc=metrics, task=entry(4, primary_metric="f1,strict-match"))
    assert (drop_of(task).baseline, task.flips and task.flips.candidate_only) == (0.5, 1)
    named = entry(4, primary_metric="f1,strict-match", recorded_metric="em")
    assert drop_of(judged(tmp_path / "b", verdicts, metric="f1", doc=metrics, task=named)).baseline == 0.0


def test_the_drop_is_in_the_published_metric_also_where_its_number_is_of_other_settings(tmp_path: Path) -> None:
    other = published(55.0, metric="exact_match_macro,strict-match", same_settings=False)
    subtasks = ["large"] * 100 + ["small"] * 10
    before, after = right(90, 100) + right(5, 10), right(90, 100) + right(2, 10)
    task = judged(tmp_path, after, subtasks=subtasks, before=before, task=entry(110, other))
    assert (task.metric, task.scores[0].candidate_minus_reference) == ("exact_match_macro,strict-match", None)
    assert drop_of(task) == stats.paired_drop(before, after, subtasks)
    assert drop_of(task).value == pytest.approx(0.15)


def test_ifeval_pairs_through_the_mean_of_four(replayed: Run, pack: Path) -> None:
    run = replayed.tasks["meta_ifeval"]
    changed = [_all_lost(doc) if number % 4 == 0 else doc for number, doc in enumerate(run.docs)]
    after = replace(replayed, tasks={"meta_ifeval": replace(run, docs=tuple(changed))})
    result = {
        task.name: task for task in judge(None, after, read_manifest(pack), stored({"meta_ifeval": run.docs})).tasks
    }
    task = result["meta_ifeval"]
    assert (task.metric, task.baseline_label) == ("mean_acc,none", RECORDED_ANSWERS)
    drop, scored = drop_of(task), task.scores[0]
    assert (drop.candidate, drop.value > 0) == (pytest.approx(scored.value), True)


def _all_lost(doc: DocResult) -> DocResult:
    def lost(value: MetricValue) -> MetricValue:
        if isinstance(value, tuple):
            return tuple(lost(part) for part in value)  # type: ignore[return-value, arg-type]
        return type(value)(0) if isinstance(value, (bool, float)) else value

    answers = {
        name: replace(answer, metrics={metric: lost(value) for metric, value in answer.metrics.items()})
        for name, answer in doc.filter_results.items()
    }
    return replace(doc, filter_results=answers, answer_hash=f"lost {doc.doc_id}")


def test_docs_without_a_recorded_answer_are_left_out_of_the_drop(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(60, 100))
    docs = answered(run, right(65, 100)).graded.tasks["meta_some"].docs
    (task,) = judge(None, run, manifest(meta_some=entry(100)), stored({"meta_some": docs[:95]})).tasks
    assert (task.baseline_label, drop_of(task).docs) == (RECORDED_ANSWERS, 95)
    (few,) = judge(None, run, manifest(meta_some=entry(100, published(65.0))), stored({"meta_some": docs[:50]})).tasks
    assert few.baseline_label == NUMBER


@pytest.mark.parametrize(
    ("task", "options", "reason"),
    [
        (entry(200, published(65.0, same_settings=False, note="0-shot.")), {}, "measured in another way: 0-shot"),
        (entry(200), {}, "no number was published"),
        (entry(200, published(65.0, metric="f1,none")), {}, "no score in f1,none"),
        (entry(400, published(65.0)), {"config": {"limit": 200.0}}, r"200 of 400 docs were run \(--limit 200\)"),
        (entry(201, published(65.0)), {}, "200 of 201 docs were run"),
        (entry(200, published(65.0)), {"samples": False}, "no samples"),
        (entry(200, published(65.0)), {"results": False}, "no results file"),
        (entry(200, published(65.0)), {"doc": {"prompt": "Another prompt"}}, "200 of 200 prompts did not reach"),
        (entry(200, published(65.0)), {"config": {"gen_kwargs": {"temperature": 1}}}, "other settings.*temperature=1"),
        (entry(200, published(65.0), invented=True), {}, "embedded sample"),
        (None, {}, "no pack says"),
    ],
)
def test_a_score_is_never_put_beside_a_number_that_it_is_not_comparable_with(
    tmp_path: Path, task: TaskEntry | None, options: dict[str, Any], reason: str
) -> None:
    judgement = whole(tmp_path, right(130, 200), task=task, **options)
    (shown,) = judgement.tasks
    assert (shown.outcome, shown.baseline_label, shown.scores[0].candidate_minus_reference) == ("undecided", None, None)
    assert judgement.decision.outcome == "UNDECIDED"
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(f"{shown.not_compared_reason} {shown.scores[0].not_comparable_reason}")


def test_damaged_lines_left_out_leave_nothing_to_judge(tmp_path: Path) -> None:
    folder = write_run(tmp_path, right(130, 200))
    path = next(folder.glob("samples_*"))
    path.write_bytes(path.read_bytes()[:-10])
    judgement = judge(None, read_run([folder], skip_damaged=True), manifest(meta_some=entry(200, published(65.0))))
    assert judgement.tasks[0].not_compared_reason == "1 damaged lines or docs are left out"


def test_a_task_that_was_not_run_is_not_shown(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(200, 400), recorded=[True] * 200 + [False] * 200)
    judgement = judge(None, run, manifest(meta_some=entry(400), meta_other=entry(20, published(50.0))))
    assert [(task.name, task.outcome, task.not_compared_reason) for task in judgement.tasks] == [
        ("meta_other", "undecided", "it was not run"),
        ("meta_some", "within margin", None),
    ]
    assert judgement.decision.outcome == "UNDECIDED"
    assert "not run: meta_other" in judgement.decision.reasons


def test_without_a_pack_the_decision_says_what_is_missing(tmp_path: Path) -> None:
    judgement = whole(tmp_path, right(130, 200), task=None, recorded=[True] * 200)
    assert judgement.decision.outcome == "UNDECIDED"
    assert judgement.decision.reasons == ("no pack named", "there is no task to decide on")
    assert "--pack" in judgement.alarms[0].hint


# Scores beside published numbers


def test_a_score_with_its_interval_and_difference(tmp_path: Path) -> None:
    result = score(tmp_path, right(132, 200), 67.0)
    assert (result.value, result.docs, result.interval) == (0.66, 200, stats.wilson_interval(132, 200))
    assert result.candidate_minus_reference == pytest.approx(-0.01)


def test_macro_and_micro_stand_side_by_side(tmp_path: Path) -> None:
    verdicts = right(90, 100) + right(2, 10)
    subtasks = ["large"] * 100 + ["small"] * 10
    both = published(55.0, metric="exact_match_macro,strict-match"), published(83.6)
    macro, micro = judged(tmp_path, verdicts, subtasks=subtasks, task=entry(110, *both)).scores
    assert macro.value == pytest.approx(0.55)
    assert macro.interval == stats.stratified_wilson([(90, 100), (2, 10)])
    assert micro.value == pytest.approx(92 / 110)


def test_what_the_baseline_is_off_the_published_number_is_none_of_the_drop(tmp_path: Path) -> None:
    """MATH: Meta's judge model gave two points more than our programs give the same answers."""
    gap = KnownGapEntry(text="A judge model decided.", recorded=True)
    task = entry(400, published(67.0), known_gaps=(KnownGapEntry(text="Of runs alone."), gap))
    result = judged(tmp_path / "a", right(260, 400), task=task, before=right(260, 400))
    distance = result.scores[0].baseline_difference
    assert (
        distance is not None
        and distance.baseline_minus_reference == pytest.approx(-0.02)
        and not distance.within_rounding
    )
    assert distance.explanation == "A judge model decided"
    assert (drop_of(result).value, drop_of(result).p_value(), result.outcome) == (0.0, 1.0, "within margin")
    near = judged(tmp_path / "b", right(260, 400), task=entry(400, published(65.04)), before=right(260, 400))
    assert near.scores[0].baseline_difference is not None and not near.scores[0].baseline_difference.within_rounding
    same = judged(tmp_path / "c", right(260, 400), task=entry(400, published(65.0)), before=right(260, 400))
    assert same.scores[0].baseline_difference is not None and same.scores[0].baseline_difference.within_rounding


def test_what_is_published_of_f1_has_an_interval_by_t(tmp_path: Path) -> None:
    verdicts = [0.0, 0.25, 0.5, 0.75, 1.0] * 20
    task = entry(100, published(50.0, metric="f1,strict-match"), primary_metric="f1,strict-match")
    assert judged(tmp_path, verdicts, metric="f1", task=task).scores[0].interval == stats.score_interval(verdicts)


# The decision


def flipped(verdicts: Sequence[float], lost: int, won: int) -> list[float]:
    """The first so many that are right are lost, the first so many that are wrong are won."""
    result, left = [], [won, lost]
    for verdict in verdicts:
        which = int(verdict)
        left[which] -= 1
        result.append(1.0 - verdict if left[which] >= 0 else verdict)
    return result


MMLU_PRO = (1351, 1299, 1132, 1101, 969, 924, 844, 818, 798, 789, 717, 499, 410, 381)


@thorough
def test_more_lost_than_won_is_never_above_and_never_ships(tmp_path: Path) -> None:
    """198 docs lost and 73 won at MMLU-Pro's sizes: p < 0.001 over docs, though some macro averages rise."""
    chance, n = random.Random(11), sum(MMLU_PRO)
    subtasks = [f"s{number}" for number, size in enumerate(MMLU_PRO) for _ in range(size)]
    before = [float(chance.random() < 0.5) for _ in range(n)]
    run = write_and_read(tmp_path, before, subtasks=subtasks)
    numbers = published(50.0, metric="exact_match_macro,strict-match"), published(50.0)
    known = answered(run, before)
    for metrics in (numbers, numbers[1:]):
        for _ in range(2 if THOROUGH else 1):
            after = list(before)
            for value, count in ((1.0, 198), (0.0, 73)):
                for place in chance.sample([place for place, verdict in enumerate(before) if verdict == value], count):
                    after[place] = 1 - value
            docs = answered(run, after).graded.tasks["meta_some"].docs
            now = replace(run, tasks={"meta_some": replace(run.tasks["meta_some"], docs=docs)})
            judgement = judge(None, now, manifest(meta_some=entry(n, *metrics)), known)
            (task,) = judgement.decision.tasks
            assert judgement.decision.outcome != "SHIP"
            assert "above" not in str(task.remark)
            assert (task.p < 0.05) == (0 not in task.interval)


def test_empty_answers_forbid_ship(tmp_path: Path) -> None:
    """11 of 108 answers are empty, and the score holds nonetheless."""
    verdicts = right(86, 108)
    folder = write_run(tmp_path, verdicts)
    path = next(folder.glob("samples_*"))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines[-11:]:
        line["resps"] = [[""]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    run = read_run([folder])
    pack = manifest(meta_some=entry(108, published(79.5)))
    judgement = judge(None, run, pack, answered(run, verdicts), Gate(margin=5.0))
    assert (judgement.tasks[0].outcome, judgement.decision.outcome) == ("within margin", "UNDECIDED")
    assert "empty answers: meta_some (11 of 108), meta_some in the baseline (11 of 108)" in judgement.decision.reasons


@thorough
def test_an_identical_model_at_the_size_of_meta_instruct_ships(tmp_path: Path) -> None:
    """Some 4 % of docs flip between engines, as many one way as the other."""
    chance, tasks, docs = random.Random(7), {}, {}
    for number, (name, n, accuracy) in enumerate(
        (
            ("meta_gpqa_cot", 448, 0.31),
            ("meta_ifeval", 541, 0.8),
            ("meta_math", 1324, 0.25),
            ("meta_mmlu", 12_032, 0.47),
        )
    ):
        before = right(round(accuracy * n), n)
        after = flipped(before, round(0.02 * n), round(0.02 * n) + chance.choice((-1, 0, 1)))
        write_run(tmp_path, after, task=name, time=f"2026-01-02T03-04-0{number}")
        tasks[name] = entry(n, published(round(100 * accuracy, 1)))
        docs[name] = before
    run = read_run([tmp_path])
    known = {name: answered(run, before, name).graded.tasks[name].docs for name, before in docs.items()}
    judgement = judge(None, run, manifest(**tasks), stored(known))
    assert (judgement.decision.outcome, judgement.decision.exit_code, judgement.alarms) == ("SHIP", 0, ())


def test_the_packs_margin_counts_where_no_other_is_given(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(126, 200))
    pack = manifest(meta_some=entry(200))
    wide = pack.model_copy(update={"run_settings": pack.run_settings.model_copy(update={"margin": 5.0})})
    baseline = answered(run, right(128, 200))
    assert [judge(None, run, prepared, baseline).decision.outcome for prepared in (pack, wide)] == ["UNDECIDED", "SHIP"]
    assert judge(None, run, wide, baseline, Gate(margin=1.0)).decision.margin == 0.01


# Repeats and clusters


def repeated(folder: Path, runs: Sequence[Sequence[float]], **options: Any) -> Run:
    for number, verdicts in enumerate(runs):
        args = {"pretrained": "org/Some-Model", "seed": number}
        write_run(folder / str(number), verdicts, time=f"2026-01-02T03-04-0{number}", model_args=args, **options)
    return read_run([folder], repeats=True)


def test_repeats_are_averaged_and_narrow_the_interval(tmp_path: Path) -> None:
    chance, before = random.Random(3), right(100, 200)
    runs = [[1 - verdicts if chance.random() < 0.1 else verdicts for verdicts in before] for _ in range(4)]
    run = repeated(tmp_path, runs)
    (task,) = judge(None, run, manifest(meta_some=entry(200)), answered(run, before)).tasks
    (alone,) = judge(None, replace(run, repeats={}), manifest(meta_some=entry(200)), answered(run, before)).tasks
    averaged = stats.average_runs(runs[::-1])
    assert (task.runs, drop_of(task)) == (4, stats.paired_drop(before, averaged))
    assert task.scores[0].value == pytest.approx(stats.mean(averaged))
    assert half_width(drop_of(task).interval()) < 0.75 * half_width(drop_of(alone).interval())


def test_two_runs_of_one_model_measure_the_noise_of_its_engine(tmp_path: Path) -> None:
    before = right(100, 200)
    first, second = flipped(before, 4, 8), flipped(before, 8, 4)
    run = repeated(tmp_path, [first, second])
    judgement = judge(None, run, manifest(meta_some=entry(200)), answered(run, before))
    assert judgement.decision.repeats_needed is not None and judgement.decision.repeats_needed.measured
    alone = judge(None, replace(run, repeats={}), manifest(meta_some=entry(200)), answered(run, before))
    assert alone.decision.repeats_needed is not None and not alone.decision.repeats_needed.measured


def test_repeats_of_both_sides_of_a_comparison(tmp_path: Path) -> None:
    a = repeated(tmp_path / "a", [[1, 0, 1, 1], [1, 1, 1, 1]])
    b = repeated(tmp_path / "b", [[1, 0, 0, 1], [0, 0, 1, 1]])
    (task,) = judge(a, b).tasks
    assert drop_of(task) == stats.paired_drop([1, 0.5, 1, 1], [0.5, 0, 0.5, 1])


def test_docs_that_share_a_question_widen_the_interval(tmp_path: Path) -> None:
    """MGSM: a question is lost in all of its seven languages, or in none."""
    languages = [f"mgsm.{number}" for number in range(7) for _ in range(20)]
    before = right(140, 140)
    after = [0.0 if index % 20 < 1 else 1.0 for index in range(140)]
    task = entry(140, published(100.0, metric="exact_match_macro,strict-match"))
    run = write_and_read(tmp_path, after, subtasks=languages)
    clustered = tuple(replace(doc, cluster=f"q{doc.doc_id % 20}") for doc in run.tasks["meta_some"].docs)
    known = replace(run, tasks={"meta_some": replace(run.tasks["meta_some"], docs=clustered)})
    baseline = answered(run, before)
    plain, wide = (drop_of(judge(None, side, manifest(meta_some=task), baseline).tasks[0]) for side in (run, known))
    assert (plain.value, wide.value, wide.clusters) == (pytest.approx(0.05), pytest.approx(0.05), 20)
    assert half_width(wide.interval()) > 2 * half_width(plain.interval())


def test_two_tasks_of_the_same_questions_are_not_independent(tmp_path: Path) -> None:
    verdicts = flipped(right(100, 200), 8, 8)
    for number, name in enumerate(("meta_loose", "meta_strict")):
        write_run(tmp_path / "same", verdicts, task=name, time=f"2026-01-02T03-04-0{number}")
    run = read_run([tmp_path / "same"])
    pack = manifest(meta_loose=entry(200), meta_strict=entry(200))
    known = {name: answered(run, right(100, 200), name).graded.tasks[name].docs for name in run.tasks}
    related = judge(None, run, pack, stored(known)).decision
    assert related.interval is not None and related.tasks[0].interval is not None
    assert half_width(related.interval) == pytest.approx(half_width(related.tasks[0].interval), rel=0.05)


# Doc by doc


def test_flips_both_ways(tmp_path: Path) -> None:
    recorded = [True, True, True, False, False, None]
    flips = judged(tmp_path, [1, 0, 0, 1, 0, 1], recorded=recorded, task=entry(6)).flips
    assert flips is not None
    assert (flips.compared, flips.candidate_only, flips.baseline_only, flips.agreed) == (5, 1, 2, 2)


def test_no_recorded_verdict_is_no_comparison(tmp_path: Path) -> None:
    assert judged(tmp_path, [1, 0], task=entry(2)).flips is None


def test_recorded_verdicts_of_a_replay_differ_where_the_sample_says(replayed: Run, pack: Path) -> None:
    result = {task.name: task for task in judge(None, replayed, read_manifest(pack)).tasks}
    bbh = result["meta_bbh"].flips
    assert bbh is not None
    assert (bbh.compared, bbh.candidate_only, bbh.baseline_only) == (21, 1, 0)
    assert result["meta_ifeval"].flips is None  # is_correct is no verdict there
    assert result["meta_ifeval"].scores[0].metric == "mean_acc,none"


def test_a_run_without_its_pack_says_itself_that_is_correct_is_no_verdict(replayed: Run) -> None:
    result = {task.name: task.flips for task in judge(None, replayed, None).tasks}
    assert result["meta_ifeval"] is None
    assert result["meta_bbh"] is not None


def test_subtasks_have_scores_of_their_own(tmp_path: Path) -> None:
    subtasks = judged(
        tmp_path, [1, 0, 1], subtasks=["b", "b", "a"], recorded=[True, True, None], task=entry(3)
    ).subtasks
    assert [(subtask.name, subtask.docs, subtask.value, subtask.baseline) for subtask in subtasks] == [
        ("a", 1, 1.0, None),
        ("b", 2, 0.5, 1.0),
    ]


# Alarms


def kinds(judgement: RunDecision) -> list[str]:
    return [alarm.kind for alarm in judgement.alarms if alarm.kind != "nothing to compare with"]


@pytest.mark.parametrize(
    ("line", "doc", "kind"),
    [
        ({"unextracted": 1.0}, {}, "nothing extracted"),
        ({"metrics": ["exact_match", "ungraded"], "ungraded": 1.0}, {}, "not graded"),
        ({"metrics": ["exact_match", "self_judged"], "self_judged": 1.0}, {}, "self-judged passes"),
        ({"resps": [[" \n"]]}, {}, "empty answers"),
        ({}, {"prompt": "What was asked before"}, "changed prompts"),
    ],
)
def test_how_runs_go_wrong_is_said(tmp_path: Path, line: dict[str, Any], doc: dict[str, Any], kind: str) -> None:
    assert kinds(whole(tmp_path / "good", right(60, 100), task=entry(100))) == []
    bad = whole(tmp_path / "bad", right(60, 100), line=line, doc=doc, task=entry(100))
    assert kinds(bad) == [kind]
    assert (bad.alarms[0].tasks[0].count, bad.alarms[0].veto) == (100, True)
    assert any(reason.startswith(kind) for reason in bad.decision.reasons)


def test_a_score_below_chance(tmp_path: Path) -> None:
    choices = {"choices": [{"key": key, "text": key} for key in "ABCD"]}
    assert kinds(whole(tmp_path / "bad", right(10, 100), doc=choices, task=entry(100))) == ["below chance"]
    assert kinds(whole(tmp_path / "noise", right(22, 100), doc=choices, task=entry(100))) == []


@pytest.mark.parametrize(
    ("right_ones", "n", "value", "raised"),
    [(2, 1000, None, True), (4, 200, 40.0, True), (10, 100, 12.0, False), (0, 54, None, True), (0, 53, None, False)],
)
def test_a_score_of_free_answers_that_no_working_model_has(
    tmp_path: Path, right_ones: int, n: int, value: float | None, raised: bool
) -> None:
    task = entry(n, *([published(value)] if value else []))
    judgement = whole(tmp_path, right(right_ones, n), task=task)
    assert kinds(judgement) == (["almost nothing right"] if raised else [])
    assert judgement.decision.outcome != "SHIP"


def test_what_is_true_of_as_many_recorded_answers_is_no_alarm(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(60, 100), line={"unextracted": 1.0})
    baseline = stored({"meta_some": run.tasks["meta_some"].docs})
    assert kinds(judge(None, run, manifest(meta_some=entry(100)), baseline)) == []


def test_answers_at_the_limit(tmp_path: Path) -> None:
    folder = write_run(tmp_path, right(60, 100), line={"resps": [["word " * 1500]]})
    pack = manifest(meta_some=entry(100))
    judgement = judge(None, read_run([folder], count_tokens=lambda text: len(text.split())), pack)
    assert (kinds(judgement), judgement.alarms[0].veto) == (["limit hit"], True)
    unknown = judge(None, read_run([folder]), pack)
    assert kinds(unknown) == ["cut off: unknown"]
    assert not any(alarm.veto for alarm in unknown.alarms if alarm.kind == "cut off: unknown")


def cut_off(folder: Path, docs: set[int]) -> None:
    """The engine's word on every answer: these were cut at their limit, and no other was."""
    (path,) = folder.glob("samples_*.jsonl")
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    ended = [sample | {"finish_reason": "length" if sample["doc_id"] in docs else "stop"} for sample in samples]
    path.write_text("".join(json.dumps(is_cut) + "\n" for is_cut in ended), encoding="utf-8")


def test_the_score_without_the_answers_that_were_cut_stands_beside_the_baselines_of_the_same_docs(
    tmp_path: Path,
) -> None:
    folder = write_run(tmp_path, right(60, 100))
    cut_off(folder, {58, 59, *range(80, 100)})  # 2 that are right, 20 that are wrong
    run = read_run([folder])
    (task,) = judge(None, run, manifest(meta_some=entry(100, published(80.0))), answered(run, right(80, 100))).tasks
    assert task.cut is not None
    assert (task.cut.metric, task.cut.docs, task.cut.of) == (task.metric, 22, 100)
    assert (task.cut.score, task.cut.without) == (0.60, pytest.approx(58 / 78))
    assert task.cut.baseline == pytest.approx(78 / 78)


def test_a_macro_average_without_the_cut_answers_is_over_the_subtasks_that_are_left(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 1, 0, 0, 0, 0], subtasks=["a", "a", "a", "b", "b", "b"])
    cut_off(folder, {2, 3, 4, 5})
    task = entry(6, published(50.0, metric="exact_match_macro,strict-match"))
    (result,) = judge(None, read_run([folder]), manifest(meta_some=task)).tasks
    assert result.cut is not None
    assert (result.cut.score, result.cut.without, result.cut.baseline) == (pytest.approx(1 / 3), 1.0, None)


def test_without_cut_answers_nothing_is_said_and_without_others_no_score(tmp_path: Path) -> None:
    folder = write_run(tmp_path, right(1, 4))
    cut_off(folder, set())
    assert judge(None, read_run([folder]), manifest(meta_some=entry(4))).tasks[0].cut is None
    cut_off(folder, {0, 1, 2, 3})
    cut = judge(None, read_run([folder]), manifest(meta_some=entry(4))).tasks[0].cut
    assert cut is not None
    assert (cut.docs, cut.without, cut.baseline) == (4, None, None)


def test_a_model_that_does_not_keep_to_the_format(replayed: Run, pack: Path) -> None:
    alarms = {alarm.kind: alarm for alarm in judge(None, replayed, read_manifest(pack)).alarms}
    assert "meta_gpqa_cot" in [task.task for task in alarms["other format"].tasks]


def test_alarms_of_one_kind_are_one_and_their_veto_names_a_few(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(5, 10))
    others = {f"meta_{number:02}": entry(10) for number in range(20)}
    judgement = judge(None, run, manifest(meta_some=entry(10), **others))
    (alarm,) = [alarm for alarm in judgement.alarms if alarm.kind == "not run"]
    assert len(alarm.tasks) == 20
    assert "not run: meta_00, meta_01, meta_02 and 17 more" in judgement.decision.reasons


def test_known_gaps_are_named_where_they_apply(tmp_path: Path) -> None:
    everywhere = KnownGapEntry(text="Graders differ.", source="a page")
    of_vllm = KnownGapEntry(text="Batches differ. (1)", backends=("vllm",))
    task = entry(2, known_gaps=(everywhere, of_vllm))
    gaps = {
        backend: judged(tmp_path / backend, [1, 0], config={"model": backend}, task=task).gaps
        for backend in ("hf", "vllm")
    }
    assert gaps == {"hf": ("Graders differ. (a page)",), "vllm": ("Graders differ. (a page)", "Batches differ. (1)")}


# Against another run


def compared(
    tmp_path: Path, before: list[float], after: list[float], pack: Manifest | None = None, **options: Any
) -> TaskDecision:
    first = write_and_read(tmp_path / "before", before, **options)
    second = write_and_read(tmp_path / "after", after, **options)
    (task,) = judge(first, second, pack).tasks
    return task


def pairs_of(task: TaskDecision) -> list[tuple[int, int]]:
    assert task.source is not None
    return [(a.doc_id, b.doc_id) for a, b in task.source.docs]


def test_a_run_against_its_quantised_twin(tmp_path: Path) -> None:
    before, after = right(60, 100), [0.0] * 6 + right(54, 60) + [1.0] * 2 + [0.0] * 32
    judgement = compared(tmp_path, before, after)
    assert (judgement.baseline_label, drop_of(judgement)) == ("run A", stats.paired_drop(before, after))
    assert judgement.flips is not None
    assert (judgement.flips.baseline, judgement.flips.baseline_only, judgement.flips.candidate_only) == ("A", 6, 2)
    assert drop_of(judgement).recovery == pytest.approx(56 / 60)


def test_docs_are_paired_by_their_hashes_not_by_their_numbers(tmp_path: Path) -> None:
    """The second run has the same docs in another order, and one doc of its own."""
    write_run(tmp_path / "a", [1, 0, 1])
    first = read_run([tmp_path / "a"])
    write_run(tmp_path / "b", [1, 1, 0, 1], results=False)
    path = next((tmp_path / "b").glob("samples_*"))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for new, line in enumerate(reversed(lines)):
        line["doc_id"] = new
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    judgement = judge(first, read_run([tmp_path / "b"]))
    assert pairs_of(judgement.tasks[0]) == [(0, 3), (1, 2), (2, 1)]
    assert drop_of(judgement.tasks[0]).value == pytest.approx(0.0)
    assert "in one run only: meta_some (1 doc only in B)" in judgement.decision.reasons


def test_docs_with_the_same_hashes_are_paired_in_order(tmp_path: Path) -> None:
    same = {"input_question_hash": digest("same"), "input_final_prompts_hash": [digest("same prompt")]}
    judgement = compared(tmp_path, [1, 0, 1], [1, 0, 0], doc=same)
    assert (pairs_of(judgement), drop_of(judgement).lost) == ([(0, 0), (1, 1), (2, 2)], pytest.approx(1 / 3))


def test_p_values_are_corrected_for_the_number_of_tasks(tmp_path: Path) -> None:
    for name, after in (("meta_a", right(45, 60)), ("meta_b", right(52, 60)), ("meta_c", right(60, 60))):
        write_run(tmp_path / "before", right(60, 60), task=name, time=f"2026-01-01T00-00-0{ord(name[-1]) - 96}")
        write_run(tmp_path / "after", after, task=name, time=f"2026-01-01T00-00-0{ord(name[-1]) - 96}")
    tasks = judge(read_run([tmp_path / "before"]), read_run([tmp_path / "after"])).decision.tasks
    assert [task.p_corrected for task in tasks] == stats.correct_by_holm([task.p for task in tasks])
    assert tasks[0].p_corrected == pytest.approx(3 * tasks[0].p)


def test_subtasks_are_compared_and_corrected_among_themselves(tmp_path: Path) -> None:
    subtasks = ["a"] * 30 + ["b"] * 30
    a, b = compared(tmp_path, right(60, 60), right(50, 60), subtasks=subtasks).subtasks
    assert (a.name, a.docs, a.value, a.baseline, a.clear) == ("a", 30, 1.0, 1.0, False)
    assert (b.name, b.value, b.baseline, b.clear) == ("b", pytest.approx(2 / 3), 1.0, True)


def test_the_published_metric_of_the_pack_is_compared(tmp_path: Path) -> None:
    task = entry(40, published(50.0, metric="exact_match_macro,strict-match"))
    subtasks = ["a"] * 30 + ["b"] * 10
    judgement = compared(tmp_path, right(30, 40), right(20, 40), manifest(meta_some=task), subtasks=subtasks)
    assert drop_of(judgement) == stats.paired_drop(right(30, 40), right(20, 40), subtasks)


def test_real_runs_are_compared_in_their_published_metric(replayed: Run) -> None:
    result = {task.name: task for task in judge(replayed, replayed).tasks}
    assert result["meta_ifeval"].metric == "mean_acc,none"
    assert result["meta_bbh"].metric == "em_macro,official"
    assert all(
        (drop_of(task).value, drop_of(task).p_value(), drop_of(task).recovery) == (0, 1, 1) for task in result.values()
    )


def test_a_comparison_without_a_pack_has_one_score_for_a_task(replayed: Run) -> None:
    """IFEval has four metrics: the score in every table is the one of the drop."""
    (ifeval,) = (task for task in judge(replayed, replayed).tasks if task.name == "meta_ifeval")
    assert [score.metric for score in ifeval.scores] == [ifeval.metric] == ["mean_acc,none"]
    assert ifeval.scores[0].value == pytest.approx(drop_of(ifeval).candidate)


def test_what_else_was_not_the_same_forbids_ship(tmp_path: Path) -> None:
    first = write_and_read(tmp_path / "a", right(200, 400))
    second = write_and_read(tmp_path / "b", right(200, 400), config={"gen_kwargs": {"temperature": 1}})
    judgement = judge(first, second)
    assert judgement.decision.outcome == "UNDECIDED"
    assert "runs not alike: meta_some (temperature: none in A, 1 in B)" in judgement.decision.reasons
    docs = manifest(meta_some=entry(400))
    assert judge(first, first, docs).decision.outcome == "SHIP"
    assert judge(second, second, docs).decision.outcome == "SHIP"  # alike, if not as the pack asks


def test_other_prompts_make_a_comparison_invalid_and_never_a_dont(tmp_path: Path) -> None:
    """100 of 100 docs with another prompt and 30 points less: that says nothing of the model."""
    first = write_and_read(tmp_path / "a", right(80, 100))
    others = {
        "prompt_hash": digest("other"),
        "arguments": {"gen_args_0": {"arg_0": "Other", "arg_1": {"until": [], "max_gen_toks": 1024}}},
    }
    second = write_and_read(tmp_path / "b", right(50, 100), line=others, doc={"prompt": "Other"})
    judgement = judge(first, second)
    reason = "runs not alike: meta_some (100 of 100 docs had another prompt in B)"
    assert (judgement.decision.outcome, judgement.decision.exit_code, judgement.decision.invalid) == (
        "UNDECIDED",
        2,
        True,
    )
    assert judgement.decision.caveats == (reason,) == judgement.decision.reasons[:1]
    decided, why = write_headline(judgement.decision).splitlines()
    assert decided.startswith("UNDECIDED: mean drop of 1 task 30.0 points") and why == f"Why: {reason}."
    assert (judgement.tasks[0].outcome, drop_of(judgement.tasks[0]).value) == ("undecided", pytest.approx(0.3))
    assert judgement.decision.repeats_needed is None
    assert judge(first, write_and_read(tmp_path / "c", right(50, 100))).decision.outcome == "DON'T SHIP"


def test_one_doc_with_another_prompt_is_counted_and_is_enough(tmp_path: Path) -> None:
    first = write_and_read(tmp_path / "a", right(500, 1000))
    folder = write_run(tmp_path / "b", right(500, 1000))
    path = next(folder.glob("samples_*"))
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[7] = json.dumps(json.loads(lines[7]) | {"prompt_hash": digest("other")})
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    decision = judge(first, read_run([folder]), manifest(meta_some=entry(1000))).decision
    assert (decision.outcome, decision.exit_code) == ("UNDECIDED", 2)
    assert decision.caveats == ("runs not alike: meta_some (1 of 1,000 docs had another prompt in B)",)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"extra": {"n-shot": {"meta_some": 5}}}, "0 shots in A, 5 in B"),
        ({"extra": {"n-shot": {"meta_some": "5"}}}, "0 shots in A, 5 in B"),
        ({"extra": {"chat_template": "{{ messages }}"}}, "a chat template: none in A, yes in B"),
        ({"extra": {"system_instruction": "Be brief."}}, "a system instruction: none in A, yes in B"),
        ({"config": {"gen_kwargs": {"max_gen_toks": 16}}}, "max_gen_toks: 1024 in A, 16 in B"),
        ({"config": {"gen_kwargs": "temperature=0.7,seed=3"}}, "temperature: none in A, 0.7 in B"),
    ],
)
def test_other_shots_or_settings_make_a_comparison_invalid(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    first = write_and_read(tmp_path / "a", right(80, 100), extra={"n-shot": {"meta_some": 0}})
    extra = {"n-shot": {"meta_some": 0}} | options.pop("extra", {})
    second = write_and_read(tmp_path / "b", right(50, 100), extra=extra, **options)
    judgement = judge(first, second, manifest(meta_some=entry(100)))
    assert (judgement.decision.outcome, judgement.decision.exit_code) == ("UNDECIDED", 2)
    assert judgement.decision.caveats == (f"runs not alike: meta_some ({reason})",)
    (task,) = judgement.decision.tasks
    assert (task.outcome, task.repeats_needed) == ("undecided", None)


def test_the_same_decoding_said_in_other_words_is_no_difference(tmp_path: Path) -> None:
    decodings = ({}, {"do_sample": False, "seed": 1}, {"temperature": 0.0, "top_p": 0.9}, "temperature=0,seed=7")
    pack, gate = manifest(meta_some=entry(100)), Gate(margin=5.0)
    runs = [
        write_and_read(tmp_path / str(number), right(50, 100), config={"gen_kwargs": decoding})
        for number, decoding in enumerate(decodings)
    ]
    assert {judge(runs[0], decoding, pack, gate=gate).decision.outcome for decoding in runs} == {"SHIP"}


@pytest.mark.parametrize("name", few([*SAMPLING][2:], 6))
def test_a_setting_of_sampling_tells_sampled_runs_apart_and_greedy_ones_where_it_changes_them(
    name: str, tmp_path: Path
) -> None:
    for number, temperature in enumerate((0.7, 0.0)):
        runs = [
            read_run([write_run(tmp_path / f"{number}{value}", right(50, 100), config={"gen_kwargs": settings})])
            for value in (0.1, 0.2)
            for settings in [{"do_sample": bool(temperature), "temperature": temperature, name: value}]
        ]
        decision = judge(*runs, manifest(meta_some=entry(100))).decision
        assert any(name in caveat for caveat in decision.caveats) == (bool(temperature) or not SAMPLING[name])


@thorough
def test_an_invalid_task_beside_valid_ones_leaves_their_outcomes(tmp_path: Path) -> None:
    for name, prompt in (("meta_a", "Other"), ("meta_b", None)):
        time = f"2026-01-01T00-00-0{ord(name[-1]) - 96}"
        write_run(tmp_path / "before", right(800, 1000), task=name, time=time)
        line = {"prompt_hash": digest(prompt)} if prompt else {}
        write_run(tmp_path / "after", right(500, 1000), task=name, time=time, line=line)
    decision = judge(read_run([tmp_path / "before"]), read_run([tmp_path / "after"])).decision
    assert [task.outcome for task in decision.tasks] == ["undecided", "worse"]
    assert (decision.outcome, decision.invalid) == ("UNDECIDED", True)
    gate = Gate(tasks=["meta_b"])
    rest = judge(read_run([tmp_path / "before"]), read_run([tmp_path / "after"]), gate=gate).decision
    assert (rest.outcome, rest.invalid, rest.exit_code) == ("DON'T SHIP", False, 1)


def test_a_run_of_changed_prompts_says_nothing_of_the_model(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(60, 200), doc={"prompt": "Another prompt"})
    decision = judge(None, run, manifest(meta_some=entry(200)), answered(run, right(160, 200))).decision
    assert (decision.outcome, decision.exit_code, decision.invalid) == ("UNDECIDED", 2, True)
    assert decision.caveats == ("changed prompts: meta_some (200 of 200)",)


def test_a_baseline_that_answered_other_prompts_says_nothing_of_the_model(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(300, 1000))
    named = BaselineEntry(
        name="./bf16", revision="0" * 64, model="org/A", lm_eval=None, time=None, file="baseline/a", docs=1000,
        docs_with_other_prompt=1,
    )  # fmt: skip
    docs = answered(run, right(800, 1000)).graded.tasks["meta_some"].docs
    other = (replace(docs[0], prompt_matches=False), *docs[1:])
    pack = manifest(meta_some=entry(1000, baseline=(named,)))
    decision = judge(None, run, pack, stored({"meta_some": other})).decision
    assert (decision.outcome, decision.exit_code) == ("UNDECIDED", 2)
    assert "1 of 1,000 answers of the baseline had another prompt" in decision.caveats[0]
    same = judge(None, run, pack, stored({"meta_some": docs})).decision
    assert same.outcome == "DON'T SHIP"


def test_alarms_of_both_runs_are_shown(tmp_path: Path) -> None:
    first = write_and_read(tmp_path / "a", right(50, 100), line={"resps": [[""]]})
    second = write_and_read(tmp_path / "b", right(50, 100))
    pack, gate = manifest(meta_some=entry(100)), Gate(margin=5.0)
    for runs, label in (((first, second), "A"), ((second, first), "B")):
        judgement = judge(*runs, pack, gate=gate)
        (alarm,) = [alarm for alarm in judgement.alarms if alarm.kind == "empty answers"]
        assert ([task.run for task in alarm.tasks], judgement.decision.outcome) == ([label], "UNDECIDED")


def test_what_is_wrong_with_as_many_answers_of_both_runs_is_no_difference(tmp_path: Path) -> None:
    run = write_and_read(tmp_path / "a", right(50, 100), line={"unextracted": 1.0})
    other = write_and_read(tmp_path / "b", right(50, 100))
    pack, gate = manifest(meta_some=entry(100)), Gate(margin=5.0)
    assert judge(run, run, pack, gate=gate).decision.outcome == "SHIP"
    assert judge(run, other, pack, gate=gate).decision.outcome == "UNDECIDED"


def test_a_task_that_only_one_run_has_forbids_ship(tmp_path: Path) -> None:
    write_run(tmp_path / "a", right(50, 100))
    write_run(tmp_path / "a", right(50, 100), task="meta_other", time="2026-01-02T03-04-06")
    write_run(tmp_path / "b", right(50, 100))
    judgement = judge(read_run([tmp_path / "a"]), read_run([tmp_path / "b"]), gate=Gate(margin=5.0))
    assert judgement.decision.outcome == "UNDECIDED"
    assert "not run: meta_other (only A has samples of it)" in judgement.decision.reasons


def test_runs_with_nothing_in_common(tmp_path: Path) -> None:
    first = write_and_read(tmp_path / "a", [1, 0])
    other = write_and_read(tmp_path / "b", [1, 0], task="meta_other")
    with pytest.raises(ResultsError, match="no task in common: meta_some, and meta_other"):
        judge(first, other)
    docs = write_and_read(tmp_path / "c", [1, 0], doc={"gold": "B"})
    with pytest.raises(ResultsError, match="meta_some: the runs have no doc in common"):
        judge(first, docs)
    metric = write_and_read(tmp_path / "d", [1, 0], metric="acc")
    said = r"no metric in common that is a share: exact_match,strict-match, \S+ in A and acc,strict-match, \S+ in B"
    with pytest.raises(ResultsError, match=said):
        judge(first, metric)


def test_a_filter_of_another_name_is_named_with_both_names(tmp_path: Path) -> None:
    first = write_and_read(tmp_path / "a", [1, 0])
    other = write_and_read(tmp_path / "b", [1, 0], filters=("flexible-extract",))
    with pytest.raises(ResultsError, match="exact_match is of the filter strict-match in A, of flexible-extract in B"):
        judge(first, other)


def test_no_right_answer_on_both_sides_is_said_of_both(tmp_path: Path) -> None:
    runs = [write_and_read(tmp_path / name, [0.0] * 200) for name in ("a", "b")]
    (alarm,) = [alarm for alarm in judge(*runs).alarms if alarm.kind == "almost nothing right"]
    assert [(each.run, each.note) for each in alarm.tasks] == [("B", "none of 200 docs"), ("A", "none of 200 docs")]


@settings(max_examples=20 if THOROUGH else 5, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=12))
def test_flips_are_the_whole_difference(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[bool, bool]]
) -> None:
    before, after = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    judgement = compared(tmp_path_factory.mktemp("pair"), before, after)
    assert judgement.flips is not None
    change = judgement.flips.candidate_only - judgement.flips.baseline_only
    assert drop_of(judgement).value == pytest.approx(-change / len(pairs))


# Metrics of which less is better, and those that are no shares


FEWER = {"higher_is_better": {"meta_some": {"pct": False, "unextracted": False}}}


def fewer(tmp_path: Path, before: list[float], after: list[float], **options: Any) -> RunDecision:
    runs = [
        write_and_read(tmp_path / name, verdicts, metric="pct", extra=FEWER, **options)
        for name, verdicts in (("a", before), ("b", after))
    ]
    return judge(*runs, manifest(meta_some=entry(len(before), primary_metric="pct,strict-match")))


def test_less_of_what_should_be_less_is_a_gain(tmp_path: Path) -> None:
    """crows_pairs' share of stereotypes falls from 90 to 80: no drop; from 80 to 90 is one."""
    better = fewer(tmp_path / "better", right(180, 200), right(160, 200))
    assert better.decision.outcome == "SHIP"
    (task,) = better.tasks
    assert (task.outcome, task.lower_is_better) == ("within margin", True)
    assert (drop_of(task).baseline, drop_of(task).candidate) == (pytest.approx(0.9), pytest.approx(0.8))
    assert (drop_of(task).value, drop_of(task).recovery) == (pytest.approx(-0.1), None)
    assert "lower is better in pct,strict-match" in str(explain_outcome(task))
    assert "so that a fall is a gain; it is better than its baseline, by about 10.0 points" in str(
        explain_outcome(task)
    )
    worse = fewer(tmp_path / "worse", right(160, 200), right(180, 200))
    assert (worse.decision.outcome, worse.decision.exit_code) == ("DON'T SHIP", 1)
    assert drop_of(worse.tasks[0]).value == pytest.approx(0.1)
    assert worse.decision.mean is not None and worse.decision.mean.value == pytest.approx(0.1)


def test_flips_and_samples_count_what_is_better(tmp_path: Path) -> None:
    judgement = fewer(tmp_path, [1, 1, 1, 0], [0, 0, 1, 1])
    flips = judgement.tasks[0].flips
    assert flips is not None and (flips.baseline_only, flips.candidate_only) == (1, 2)
    verdicts = [tuple(answer.verdict for answer in sample.answers) for sample in read_shown_samples(judgement.tasks)]
    assert verdicts == [(0, 1), (0, 1), (0, 0), (1, 0)]


def test_the_direction_is_also_read_from_a_tasks_metric_list_and_from_names(tmp_path: Path) -> None:
    listed = {"configs": {"meta_some": {"metric_list": [{"metric": "pct", "higher_is_better": False}]}}}
    assert write_and_read(tmp_path / "a", [1, 0], metric="pct", extra=listed).tasks["meta_some"].lower_is_better >= {
        "pct"
    }
    named = write_and_read(tmp_path / "b", [1, 0], metric="pct_stereotype").tasks["meta_some"]
    assert named.lower_is_better >= {"pct_stereotype"}
    extra = {"higher_is_better": {"meta_some": {"pct_stereotype": True}}}
    other = write_and_read(tmp_path / "c", [1, 0], metric="pct_stereotype", extra=extra).tasks["meta_some"]
    assert "pct_stereotype" not in other.lower_is_better


@pytest.mark.parametrize(
    ("in_a", "in_b", "outcome"),
    [
        (False, True, "UNDECIDED"),
        (True, False, "UNDECIDED"),
        (False, None, "DON'T SHIP"),  # the file that says it counts
        (None, False, "DON'T SHIP"),
        (None, None, "SHIP"),
    ],
)
def test_files_that_disagree_on_which_way_is_worse_are_not_compared(
    tmp_path: Path, in_a: bool | None, in_b: bool | None, outcome: str
) -> None:
    runs = [
        write_and_read(
                    tmp_path / name, right(count, 200), metric="pct",
                    extra={} if higher is None else {"higher_is_better": {"meta_some": {"pct": higher}}},
                )
        for name, count, higher in (("a", 20, in_a), ("b", 40, in_b))
    ]  # fmt: skip
    judgement = judge(*runs)
    assert (judgement.decision.outcome, judgement.decision.invalid) == (outcome, outcome == "UNDECIDED")
    if outcome == "UNDECIDED":
        said = f"higher_is_better of pct is {str(in_a).lower()} in A and {str(in_b).lower()} in B"
        assert said in judgement.decision.reasons[0]
        assert not judgement.tasks[0].is_decided


def test_a_low_score_is_no_alarm_where_less_is_better(tmp_path: Path) -> None:
    choices = {"choices": [{"key": key, "text": key} for key in "ABCD"]}
    judgement = fewer(tmp_path, right(10, 100), right(5, 100), doc=choices)
    assert kinds(judgement) == []


def test_the_gate_and_a_report_know_which_way_is_worse(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(180, 200), metric="pct", extra=FEWER)
    pack = manifest(meta_some=entry(200, primary_metric="pct,strict-match"))
    outcomes = [
        judge(None, run, pack, answered(run, right(count, 200), metric="pct"), Gate(margin=5.0)).decision.outcome
        for count in (158, 180, 198)
    ]
    assert outcomes == ["DON'T SHIP", "SHIP", "SHIP"]


@pytest.mark.parametrize("metric", few(["bleu", "chrf", "ter", "brier_score", "eqbench", "mcc"], 3))
def test_a_metric_that_is_no_share_is_shown_in_its_own_unit_and_not_averaged(tmp_path: Path, metric: str) -> None:
    """Also where every value happens to lie from 0 to 1, and beside a task of shares."""
    for name, value in (("a", 0.27), ("b", 0.25)):
        write_run(tmp_path / name, right(50, 100))
        write_run(tmp_path / name, [value] * 4, task="meta_text", metric=metric, time="2026-01-02T03-04-06")
        path = tmp_path / name / "results_2026-01-02T03-04-06.json"
        tree = json.loads(path.read_text(encoding="utf-8"))
        averages = tree["results"]["meta_text"]
        for key in [key for key in averages if "_macro" in key]:
            del averages[key]
        path.write_text(json.dumps(tree), encoding="utf-8")
        samples = tmp_path / name / "samples_meta_text_2026-01-02T03-04-06.jsonl"
        lines = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
        kept = [{key: value for key, value in line.items() if key != f"{metric}_macro"} for line in lines]
        samples.write_text("".join(json.dumps(line | {"metrics": [metric]}) + "\n" for line in kept), encoding="utf-8")
    runs = [read_run([tmp_path / name]) for name in ("a", "b")]
    judgement = judge(*runs, gate=Gate(tasks=["meta_some"]))
    assert [task.name for task in judgement.decision.tasks] == ["meta_some"]
    tasks = {task.name: task for task in judgement.tasks}
    (average,) = tasks["meta_text"].averages
    assert (average.metric, average.value, average.baseline) == (f"{metric},strict-match", 0.25, 0.27)
    assert tasks["meta_text"].not_compared_reason == "none of its metrics is a share"
    pack = manifest(meta_some=entry(100), meta_text=entry(4, primary_metric=f"{metric},strict-match"))
    for beside_pack in (judge(*runs, pack), judge(None, runs[1], pack)):
        assert [veto for veto in beside_pack.decision.vetoes if "meta_text" in veto.reason] == []
    ((_, words),) = averages_in_words(tasks.values(), ())
    assert words.startswith(f"{metric},strict-match 0.25 (") and ", A 0.27" in words and "25.0" not in words
    assert ("lower is better" in words) == (metric in ("ter", "brier_score"))


def test_one_task_that_cannot_be_compared_stops_no_other(tmp_path: Path) -> None:
    for name, gold in (("a", "A"), ("b", "B")):
        write_run(tmp_path / name, right(50, 100))
        other = {"gold": gold}
        write_run(tmp_path / name, [1, 0], task="meta_other", time="2026-01-02T03-04-06", doc=other)
    judgement = judge(*(read_run([tmp_path / name]) for name in ("a", "b")))
    assert [task.name for task in judgement.decision.tasks] == ["meta_some"]
    reason = "the runs have no doc in common with the same right answer: 2 docs have another one in B"
    assert {task.name: task.not_compared_reason for task in judgement.tasks}["meta_other"] == reason
    assert f"nothing to compare with: meta_other ({reason})" in judgement.decision.reasons


def test_docs_are_paired_by_what_was_asked_where_their_own_hashes_differ(tmp_path: Path) -> None:
    """A dataset that got another column: other docs by lm-eval's hashes, the same prompts and targets."""
    for name, column in (("a", "before"), ("b", "after")):
        folder = write_run(tmp_path / name, [1, 0, 1])
        path = next(folder.glob("samples_*"))
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            line |= {
                "doc": {"column": column, "number": line["doc_id"]},
                "doc_hash": digest(f"{column}{line['doc_id']}"),
            }
        if name == "b":
            lines = lines[::-1]
        path.write_text(
            "".join(json.dumps(line | {"doc_id": at}) + "\n" for at, line in enumerate(lines)), encoding="utf-8"
        )
    (task,) = judge(*(read_run([tmp_path / name]) for name in ("a", "b"))).tasks
    assert pairs_of(task) == [(0, 2), (1, 1), (2, 0)]


def test_docs_of_one_empty_prompt_are_never_paired_by_it(tmp_path: Path) -> None:
    """BLiMP's prompts are empty, so that prompt and target say nothing of which doc it is."""
    for name in ("a", "b"):
        line = {"prompt_hash": digest(""), "doc": {"of": name}, "doc_hash": digest(name)}
        write_run(tmp_path / name, [1, 0, 1], line=line)
    with pytest.raises(ResultsError, match="no doc in common"):
        judge(*(read_run([tmp_path / name]) for name in ("a", "b")))


# Filters that disagree


def by_filters(folder: Path, strict: Sequence[float], flexible: Sequence[float], **options: Any) -> Path:
    """GSM8K under both of its filters."""
    options = {"line": {"resps": [[f"The answer of {folder.name}."]]}, **options}
    write_run(folder, strict, filters=("strict-match",), **options)
    (path,) = folder.glob("samples_*")
    lines = path.read_text(encoding="utf-8")
    write_run(folder, flexible, filters=("flexible-extract",), **options)
    results = next(folder.glob("results_*"))
    tree = json.loads(results.read_text(encoding="utf-8"))
    averages = tree["results"]["meta_some"]
    share = sum(strict) / len(strict)
    tree["results"]["meta_some"] = {
        "exact_match,strict-match": share,
        "exact_match_macro,strict-match": share,
    } | averages
    results.write_text(json.dumps(tree), encoding="utf-8")
    path.write_text(lines + path.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


_BY_FILTERS: dict[str, Run] = {}


def read_by_filters(folder: Path, strict: Sequence[float], flexible: Sequence[float]) -> Run:
    """Write such a run and read it. The same again is neither written nor read, for nothing changes a `Run`."""
    key = repr((folder.name, strict, flexible))
    if key not in _BY_FILTERS:
        _BY_FILTERS[key] = read_run([by_filters(folder, strict, flexible)])
    return _BY_FILTERS[key]


def filtered(tmp_path: Path, *runs: tuple[Sequence[float], Sequence[float]], gate: Gate | None = None) -> RunDecision:
    read = [read_by_filters(tmp_path / str(number), *run) for number, run in enumerate(runs)]
    return judge(
        *read, manifest(meta_some=entry(len(runs[0][0]), filters=("strict-match", "flexible-extract"))), gate=gate
    )


def test_a_gain_of_one_filter_alone_is_said_first_and_never_ships(tmp_path: Path) -> None:
    """The base answers in another format: 55.8 strict and 83.2 flexible; the tuned copy 80.2 by both."""
    base, tuned = (right(279, 500), right(416, 500)), (right(401, 500), right(401, 500))
    judgement = filtered(tmp_path / "a", base, tuned)
    assert judgement.decision.outcome == "UNDECIDED"
    (reason,) = judgement.decision.caveats
    assert reason == (
        "filters disagree: meta_some (strict-match gained 24.4 points, flexible-extract lost 3.0 points: "
        "the format of the answers changed)"
    )
    assert f"Why: {reason}" in write_headline(judgement.decision)
    assert not judgement.decision.invalid and judgement.decision.exit_code == 3
    assert filtered(tmp_path / "b", tuned, tuned).decision.outcome == "SHIP"


@thorough
def test_a_hidden_loss_of_more_than_the_margin_never_ships(tmp_path: Path) -> None:
    base, tuned = (right(500, 1000), right(800, 1000)), (right(500, 1000), right(770, 1000))
    judgement = filtered(tmp_path, base, tuned)
    assert (judgement.tasks[0].outcome, judgement.decision.outcome) == ("within margin", "UNDECIDED")
    assert "strict-match did not change, flexible-extract lost 3.0 points" in judgement.decision.caveats[0]
    wide = filtered(tmp_path / "wide", base, tuned, gate=Gate(margin=5.0))
    assert (wide.decision.outcome, wide.decision.caveats) == ("SHIP", ())


def test_a_loss_of_format_alone_is_said_first(tmp_path: Path) -> None:
    base, tuned = (right(200, 250), right(208, 250)), (right(125, 250), right(208, 250))
    judgement = filtered(tmp_path, base, tuned)
    assert judgement.decision.outcome == "DON'T SHIP"
    assert judgement.decision.caveats[0].startswith("filters disagree: meta_some (strict-match lost 30.0 points")


def test_noise_between_filters_is_no_disagreement(tmp_path: Path) -> None:
    """A few flips of each filter by itself: the signs differ, and no more than chance makes them."""
    base = right(100, 200), right(100, 200)
    after = flipped(base[0], 3, 5), flipped(base[1], 5, 3)
    judgement = filtered(tmp_path, base, after, gate=Gate(margin=5.0))
    assert (judgement.decision.outcome, judgement.decision.caveats) == ("SHIP", ())


def test_a_report_beside_recorded_answers_knows_filters_that_disagree(tmp_path: Path) -> None:
    run = read_by_filters(tmp_path / "1", right(401, 500), right(401, 500))
    base = read_by_filters(tmp_path / "0", right(279, 500), right(416, 500))
    judgement = judge(None, run, manifest(meta_some=entry(500)), stored({"meta_some": base.tasks["meta_some"].docs}))
    assert judgement.decision.outcome == "UNDECIDED"
    assert judgement.decision.caveats[0].startswith("filters disagree: meta_some (strict-match gained 24.4 points")


# Groups


def grouped(
    tmp_path: Path, before: dict[str, Sequence[float]], after: dict[str, Sequence[float]], by_docs: bool = True,
    **options: Any,
) -> RunDecision:  # fmt: skip
    runs = [
        write_and_read_group(tmp_path / name, tasks, by_docs=by_docs) for name, tasks in (("a", before), ("b", after))
    ]
    return judge(*runs, **options)


SUBJECTS = {"mmlu_pro_a": right(150, 300), "mmlu_pro_b": right(75, 100), "mmlu_pro_c": right(10, 50)}
WORSE = {"mmlu_pro_a": right(135, 300), "mmlu_pro_b": right(70, 100), "mmlu_pro_c": right(10, 50)}


@pytest.mark.parametrize("by_docs", [True, False])
def test_a_group_has_a_figure_by_its_own_average(tmp_path: Path, by_docs: bool) -> None:
    judgement = grouped(tmp_path, SUBJECTS, WORSE, by_docs)
    assert [task.name for task in judgement.tasks] == ["mmlu_pro", *SUBJECTS]
    group = judgement.tasks[0]
    sizes = [300, 100, 50] if by_docs else [1, 1, 1]
    drops = [stats.paired_drop(before, other) for before, other in zip(SUBJECTS.values(), WORSE.values(), strict=True)]
    assert group.is_decided
    assert group.drop == stats.mean_drop(drops, [size / sum(sizes) for size in sizes])
    assert (group.members, group.docs, group.metric) == (tuple(SUBJECTS), 450, "exact_match,strict-match")
    assert group.scores[0].value == pytest.approx(group.drop.candidate)
    assert [task.name for task in judgement.decision.tasks] == list(SUBJECTS)
    assert group.weight == 0.0


def test_a_gate_may_name_a_group(tmp_path: Path) -> None:
    judgement = grouped(tmp_path / "a", SUBJECTS, WORSE, gate=Gate(tasks=["mmlu_pro"]))
    (decided,) = judgement.decision.tasks
    assert (decided.name, decided.weight, judgement.decision.outcome) == ("mmlu_pro", 1.0, "DON'T SHIP")
    assert {task.name: task.not_compared_reason for task in judgement.tasks}[
        "mmlu_pro_a"
    ] == "judged as part of its group"
    rules = Gate.model_validate({"tasks": [{"mmlu_pro": {"margin": 12.0}}, "mmlu_pro_c"]})
    wide = grouped(tmp_path / "b", SUBJECTS, WORSE, gate=rules).decision
    assert [(task.name, task.margin) for task in wide.tasks] == [("mmlu_pro", 0.12)]
    assert [group.name for group in wide.groups] == ["mmlu_pro_c"]
    with pytest.raises(ConfigError, match="unknown task 'mmlu_por'; did you mean 'mmlu_pro'"):
        grouped(tmp_path / "c", SUBJECTS, WORSE, gate=Gate(tasks=["mmlu_por"]))


@thorough
def test_a_group_within_a_group_that_a_gate_names_too_is_counted_once(tmp_path: Path) -> None:
    same = {name: right(450, 900) for name in SUBJECTS}
    alone = grouped(tmp_path / "a", same, same, gate=Gate(tasks=["mmlu_pro"], margin=5.0)).decision
    for name in ("a", "b"):
        path = next(write_group(tmp_path / "a" / name, same).glob("results_*.json"))
        tree = json.loads(path.read_text(encoding="utf-8"))
        tree["groups"]["part"] = tree["groups"]["mmlu_pro"]
        tree["group_subtasks"]["part"] = ["mmlu_pro_a", "mmlu_pro_b"]
        path.write_text(json.dumps(tree), encoding="utf-8")
    runs = [read_run([tmp_path / "a" / name]) for name in ("a", "b")]
    both = judge(*runs, gate=Gate(tasks=["part", "mmlu_pro"], margin=5.0)).decision
    assert [group.name for group in both.groups] == ["part"]
    assert (both.mean, both.interval) == (alone.mean, alone.interval)


def test_a_group_that_is_shown_below_forbids_ship(tmp_path: Path) -> None:
    """Each of twelve subjects loses little; all together what they lose is clear."""
    before = {f"mmlu_pro_{number:02}": right(40, 80) for number in range(12)}
    after = {name: right(37, 80) for name in before}
    judgement = grouped(tmp_path, before, after)
    assert {task.outcome for task in judgement.decision.tasks} == {"undecided"}
    (group,) = judgement.decision.groups
    assert (group.name, group.outcome, judgement.decision.outcome) == ("mmlu_pro", "worse", "DON'T SHIP")


def test_a_group_of_the_pack_without_an_average_stands_for_its_tasks(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(130, 200), recorded=[True] * 130 + [False] * 70)
    pack = manifest(meta_some=entry(200), meta_other=entry(5))
    pack = pack.model_copy(update={"groups": {"meta_instruct": ("meta_some",)}})
    rules = Gate.model_validate({"margin": 5.0, "tasks": [{"meta_instruct": {"margin": 6.0}}]})
    decided = judge(None, run, pack, gate=rules).decision
    assert [(task.name, task.margin) for task in decided.tasks] == [("meta_some", 0.06)]
    assert decided.outcome == "SHIP"


def test_what_is_wrong_with_a_task_is_wrong_with_its_group(tmp_path: Path) -> None:
    write_group(tmp_path / "a", SUBJECTS)
    write_group(tmp_path / "b", SUBJECTS)
    path = next((tmp_path / "b").glob("samples_mmlu_pro_b_*"))
    lines = [json.loads(line) | {"prompt_hash": digest("other")} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    runs = [read_run([tmp_path / name]) for name in ("a", "b")]
    decision = judge(*runs, gate=Gate(tasks=["mmlu_pro"], margin=20.0)).decision
    assert (decision.outcome, decision.invalid, decision.tasks[0].outcome) == ("UNDECIDED", True, "undecided")
    assert "mmlu_pro_b (100 of 100 docs had another prompt in B)" in decision.caveats[0]


def test_a_group_of_metrics_of_which_less_is_better(tmp_path: Path) -> None:
    runs = [
        read_run([write_group(tmp_path / name, tasks, metric="pct_stereotype", group="crows")])
        for name, tasks in (("a", SUBJECTS), ("b", WORSE))
    ]
    group = judge(*runs).tasks[0]
    assert group.is_decided and (group.name, group.lower_is_better) == ("crows", True)
    drop = group.drop
    assert (drop.baseline, drop.candidate) == (pytest.approx(235 / 450), pytest.approx(215 / 450))
    assert drop.value == pytest.approx(-20 / 450)


@thorough
def test_the_effect_of_a_run_widens_the_interval_of_several_runs(tmp_path: Path) -> None:
    steady = [flipped(right(500, 1000), 20, 20) for _ in range(3)]
    moved = [flipped(right(500, 1000), 20, 20 + 60 * number) for number in range(3)]
    widths = []
    for name, runs in (("steady", steady), ("moved", moved)):
        a = repeated(tmp_path / name / "a", [right(500, 1000)])
        b = repeated(tmp_path / name / "b", runs)
        widths.append(half_width(drop_of(judge(a, b).tasks[0]).interval()))
    assert widths[1] > 3 * widths[0]


def test_several_runs_of_each_side_are_compared_from_the_command_line(tmp_path: Path) -> None:
    before = right(50, 100)
    places = [
        write_run(tmp_path / name, flipped(before, lost, 2), time=f"2026-01-02T03-04-0{number}")
        for number, (name, lost) in enumerate((("a1", 1), ("a2", 2), ("b1", 3), ("b2", 4)))
    ]
    done = cli("compare", *places[:2], "--", *places[2:], "--json")
    (task,) = json.loads(done.stdout)["tasks"]
    assert task["runs"] == 2
    assert task["drop"]["value"] == pytest.approx(0.02)
    single = cli("compare", places[0], places[2], "--json")
    for compared, several in ((done, True), (single, False)):
        assert not json.loads(compared.stdout)["tasks"][0]["drop"]["has_run_effect"]
        words = " ".join(compared.stderr.split())
        assert ("Each model ran once, so intervals leave out what differs from run to run" not in words) == several
        assert ("Runs of a side are averaged: they differ no more than single flips explain" in words) == several
    refused = cli("compare", *places[:3], "--", COLUMNS="300")
    assert refused.returncode == 2
    assert "A1 A2 -- B1 B2" in refused.stderr


# Measured noise


def test_a_second_run_of_a_side_finds_a_smaller_loss(tmp_path: Path) -> None:
    """Of 541 docs 13 more are lost than won, beside 4 tasks that hold. Ten docs differ between two answers of A."""
    before, after = right(300, 541), flipped(right(300, 541), 24, 11)
    held = right(500, 1000)
    moved = flipped(held, 20, 20)

    def write(name: str, small: Sequence[float], seed: int) -> Path:
        args = {"pretrained": "org/Some-Model", "seed": seed}
        for number in range(5):
            time = f"2026-01-02T03-{seed:02}-0{number}"
            write_run(tmp_path / name, [1.0] if number else small, task=f"t{number}", time=time, model_args=args)
        return tmp_path / name

    a, a2, b = write("a", before, 0), write("a2", flipped(before, 5, 5), 1), write("b", after, 2)
    candidate = enlarged(read_run([b]), moved)
    gate = Gate(margin=2.0)
    alone = judge(enlarged(read_run([a]), held), candidate, gate=gate)
    with_second = judge(enlarged(read_run([a, a2], repeats=True), moved, held), candidate, gate=gate)
    assert (alone.decision.outcome, with_second.decision.outcome) == ("SHIP", "UNDECIDED")
    assert "points lost beyond what the measured noise explains" in " ".join(with_second.decision.reasons)
    assert any("a second run of A or B would find smaller losses" in note and "t0" in note for note in alone.notes)


def enlarged(run: Run, *verdicts: Sequence[float]) -> Run:
    """The same with many docs in each task of one doc. ``verdicts`` are those of each run, the newest first."""
    docs = [
        tuple(
            replace(
                run.tasks["t1"].docs[0], doc_id=number, question_hash=f"{number}", prompt_hashes=(f"{number}",),
                sent_hash=f"{number}", answer_hash=f"{number} {verdict}",
                filter_results={"strict-match": FilterResult(None, {"exact_match": verdict}, 0, 0)},
            )
            for number, verdict in enumerate(of_run)
        )
        for of_run in verdicts
    ]  # fmt: skip
    tasks, repeats = dict(run.tasks), dict(run.repeats)
    for name in [name for name, task in tasks.items() if len(task.docs) == 1]:
        newest, *others = run.all_runs(name)
        tasks[name] = replace(newest, docs=docs[0])
        repeats |= {name: tuple(replace(old, docs=of_run) for old, of_run in zip(others, docs[1:], strict=True))}
    return replace(run, tasks=tasks, repeats={name: older for name, older in repeats.items() if older})
