"""A run beside published numbers, beside Meta's recorded verdicts, and beside another run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from golden import prepare_sample
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import digest, entry, manifest, published, run_lm_eval, write_run

from meta_eval import stats
from meta_eval.judging.compare import Difference, compare
from meta_eval.judging.judge import Number, TaskJudgement, judge
from meta_eval.pack.manifest import Manifest, TaskEntry, read_manifest
from meta_eval.results.answers import ResultsError
from meta_eval.results.run import Run, read_run

TASKS = ["meta_bbh", "meta_gpqa_cot", "meta_ifeval", "meta_mmlu_pretrain"]


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared") / "work_dir"
    prepare_sample(folder, TASKS)
    return folder


@pytest.fixture(scope="module")
def replayed(pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run([run_lm_eval(pack, TASKS, tmp_path_factory.mktemp("out"))])


def right(count: int, n: int) -> list[float]:
    return [1.0] * count + [0.0] * (n - count)


def judged(folder: Path, *args: Any, task: TaskEntry | None, **options: Any) -> TaskJudgement:
    run = read_run([write_run(folder, *args, **options)])
    (found,) = judge(run, manifest(meta_some=task) if task else None)
    return found


def number(folder: Path, verdicts: list[float], value: float, **options: Any) -> Number:
    (found,) = judged(folder, verdicts, task=entry(len(verdicts), published(value)), **options).numbers
    return found


# Against published numbers


def test_a_score_with_its_interval_and_difference(tmp_path: Path) -> None:
    found = number(tmp_path, right(660, 1000), 67.0)
    expected = stats.wilson(660, 1000)
    assert found.score == pytest.approx(66.0)
    assert found.interval == expected.scaled(100)
    assert found.n == 1000
    assert found.difference == pytest.approx(-1.0)
    assert found.difference_interval is not None
    assert found.difference_interval.lower == pytest.approx(100 * expected.lower - 67)
    assert not found.paired
    assert found.verdict == "holds"


@pytest.mark.parametrize(
    ("count", "n", "verdict"),
    [
        (640, 1000, "below"),
        (700, 1000, "above"),
        (655, 1000, "holds"),  # noise
        (66_300, 100_000, "holds"),  # sure, but no more than engines differ by
        (5, 10, "cannot say"),
        (0, 10, "below"),  # few docs, and still sure
    ],
)
def test_the_verdict(tmp_path: Path, count: int, n: int, verdict: str) -> None:
    assert number(tmp_path, right(count, n), 67.0).verdict == verdict


def test_a_verdict_that_is_not_plain_has_a_reason(tmp_path: Path) -> None:
    assert "too few docs" in str(number(tmp_path / "a", right(5, 10), 67.0).reason)
    assert "engines differ" in str(number(tmp_path / "b", right(66_300, 100_000), 67.0).reason)
    assert number(tmp_path / "c", right(640, 1000), 67.0).reason is None


def test_recorded_verdicts_that_give_the_published_number_sharpen_the_verdict(tmp_path: Path) -> None:
    """Twenty flips of a thousand docs, all one way, are no noise, though the plain interval holds them."""
    recorded = [True] * 670 + [False] * 330
    found = number(tmp_path / "a", right(650, 1000), 67.0, recorded=recorded)
    assert found.paired
    assert found.difference == pytest.approx(-2.0)
    assert found.verdict == "below"
    plain = number(tmp_path / "b", right(650, 1000), 67.0)
    assert (plain.paired, plain.verdict) == (False, "holds")


@pytest.mark.parametrize(
    "recorded",
    [[True] * 700 + [False] * 300, [True] * 669 + [False] * 330 + [None]],
    ids=["they give another number", "one is missing"],
)
def test_recorded_verdicts_that_are_not_the_published_number_do_not(
    tmp_path: Path, recorded: list[bool | None]
) -> None:
    assert not number(tmp_path, right(650, 1000), 67.0, recorded=recorded).paired


def test_macro_and_micro_stand_side_by_side(tmp_path: Path) -> None:
    verdicts = right(90, 100) + right(2, 10)
    subtasks = ["large"] * 100 + ["small"] * 10
    both = published(55.0, our_metric="exact_match_macro,strict-match"), published(83.6)
    macro, micro = judged(tmp_path, verdicts, subtasks=subtasks, task=entry(110, *both)).numbers
    assert macro.score == pytest.approx(55.0)
    assert macro.interval == stats.stratified_wilson([(90, 100), (2, 10)]).scaled(100)
    assert micro.score == pytest.approx(100 * 92 / 110)


@pytest.mark.parametrize(
    ("task", "options", "reason"),
    [
        (entry(1000, published(65.0, same_settings=False, note="0-shot.")), {}, "measured in another way: 0-shot"),
        (entry(1000), {}, "no number was published"),
        (entry(1000, published(65.0, our_metric="f1,none")), {}, "no score in f1,none"),
        (entry(2000, published(65.0)), {"config": {"limit": 1000.0}}, r"1000 of 2000 docs were run \(--limit 1000\)"),
        (entry(1001, published(65.0)), {}, "1000 of 1001 docs were run"),
        (entry(1000, published(65.0)), {"samples": False}, "no samples"),
        (entry(1000, published(65.0)), {"results": False}, "no results file"),
        (entry(1000, published(65.0)), {"doc": {"prompt": "Another prompt"}}, "1000 of 1000 prompts did not reach"),
        (entry(1000, published(65.0)), {"config": {"gen_kwargs": {"temperature": 1}}}, "other settings.*temperature=1"),
        (entry(1000, published(65.0), dataset_id="sample"), {}, "embedded sample"),
        (None, {}, "no pack says"),
    ],
)
def test_a_number_is_never_held_against_what_it_is_not_comparable_with(
    tmp_path: Path, task: TaskEntry | None, options: dict[str, Any], reason: str
) -> None:
    (found,) = judged(tmp_path, right(650, 1000), task=task, **options).numbers
    assert found.verdict == "cannot say"
    assert (found.difference, found.difference_interval) == (None, None)
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.reason)


def test_damaged_lines_left_out_leave_nothing_to_judge(tmp_path: Path) -> None:
    folder = write_run(tmp_path, right(650, 1000))
    path = next(folder.glob("samples_*"))
    path.write_bytes(path.read_bytes()[:-10])
    (found,) = judge(read_run([folder], skip_damaged=True), manifest(meta_some=entry(1000, published(65.0))))
    assert found.numbers[0].reason == "1 damaged lines or docs are left out"


def test_a_task_that_was_not_run_is_named(tmp_path: Path) -> None:
    run = read_run([write_run(tmp_path, right(5, 10))])
    first, second = judge(run, manifest(meta_some=entry(10), meta_other=entry(20, published(50.0))))
    assert (first.task, second.task) == ("meta_other", "meta_some")
    assert (first.result, first.numbers[0].reason) == (None, "this task was not run")


def test_what_is_published_of_f1_is_judged_by_t(tmp_path: Path) -> None:
    verdicts = [0.0, 0.25, 0.5, 0.75, 1.0] * 100
    task = entry(500, published(50.0, our_metric="f1,strict-match"), verdict="f1,strict-match")
    found = judged(tmp_path, verdicts, metric="f1", task=task).numbers[0]
    assert found.interval == stats.score_interval(verdicts).scaled(100)
    assert found.verdict == "holds"


# Against recorded verdicts


def test_recorded_verdicts_of_a_replay_differ_where_the_sample_says(replayed: Run, pack: Path) -> None:
    found = {one.task: one for one in judge(replayed, read_manifest(pack))}
    bbh = found["meta_bbh"].recorded
    assert bbh is not None
    assert (bbh.n, bbh.missing, bbh.against) == (21, 0, "recorded em")
    assert (len(bbh.ours_only), len(bbh.theirs_only)) == (1, 0)
    assert bbh.agreement == pytest.approx(100 * 20 / 21)
    assert bbh.p == 1.0
    ifeval = found["meta_ifeval"]
    assert ifeval.recorded is None  # is_correct is no verdict there
    assert ifeval.numbers[0].spec == "mean_acc,none"
    assert {one.verdict for judgement in found.values() for one in judgement.numbers} == {"cannot say"}


def test_flips_both_ways(tmp_path: Path) -> None:
    recorded = [True, True, True, False, False, None]
    found = judged(tmp_path, [1, 0, 0, 1, 0, 1], recorded=recorded, task=entry(6)).recorded
    assert found is not None
    assert (found.ours_only, found.theirs_only) == ((3,), (1, 2))
    assert (found.n, found.missing) == (5, 1)
    assert found.p == stats.mcnemar(1, 2)
    assert found.difference == pytest.approx(-20.0)
    assert found.detectable == pytest.approx(100 * stats.detectable_drop(5, 4 / 7))


def test_other_scores_are_compared_with_the_recorded_metric_of_their_name(tmp_path: Path) -> None:
    metrics = {"recorded_metrics": json.dumps({"em": 0.0, "f1": 0.5})}
    task = entry(4, verdict="f1,strict-match")
    found = judged(tmp_path, [0.5, 0.5, 1.0, 0.0], metric="f1", doc=metrics, recorded=[True] * 4, task=task).recorded
    assert found is not None
    assert (found.against, found.theirs, found.ours_only, found.theirs_only) == ("recorded f1", 50.0, (2,), (3,))
    named = entry(4, verdict="f1,strict-match", recorded_metric="em")
    found = judged(tmp_path, [0.5, 0.5, 1.0, 0.0], metric="f1", doc=metrics, task=named).recorded
    assert found is not None
    assert (found.against, found.theirs) == ("recorded em", 0.0)


def test_no_recorded_verdict_is_no_comparison(tmp_path: Path) -> None:
    assert judged(tmp_path, [1, 0], task=entry(2)).recorded is None


def test_a_yes_or_no_that_is_no_verdict_is_compared_with_none(tmp_path: Path) -> None:
    verdicts, recorded = right(60, 100), [True] * 67 + [False] * 33
    task = entry(100, published(67.0), reading="other,strict-match")
    found = judged(tmp_path / "a", verdicts, recorded=recorded, subtasks=["s"] * 100, task=task)
    assert (found.recorded, found.numbers[0].paired, found.subtasks[0].recorded) == (None, False, None)
    plain = judged(tmp_path / "b", verdicts, recorded=recorded, subtasks=["s"] * 100, task=entry(100, published(67.0)))
    assert plain.recorded is not None
    assert (plain.numbers[0].paired, plain.subtasks[0].recorded) == (True, 67.0)


def test_a_run_without_its_pack_says_itself_that_is_correct_is_no_verdict(replayed: Run) -> None:
    found = {one.task: one.recorded for one in judge(replayed, None)}
    assert found["meta_ifeval"] is None
    assert found["meta_bbh"] is not None


def test_subtasks_have_scores_of_their_own(tmp_path: Path) -> None:
    found = judged(tmp_path, [1, 0, 1], subtasks=["b", "b", "a"], recorded=[True, True, None], task=entry(3)).subtasks
    assert [(one.name, one.n, one.score, one.recorded) for one in found] == [
        ("a", 1, 100.0, None),
        ("b", 2, 50.0, 100.0),
    ]


# Alarms


def kinds(judgement: TaskJudgement) -> list[str]:
    return [alarm.kind for alarm in judgement.alarms]


@pytest.mark.parametrize(
    ("line", "doc", "kind"),
    [
        ({"unextracted": 1.0}, {}, "unextracted"),
        ({"metrics": ["exact_match", "ungraded"], "ungraded": 1.0}, {}, "ungraded"),
        ({"resps": [[" \n"]]}, {}, "empty"),
        ({}, {"prompt": "What was asked before"}, "prompts"),
    ],
)
def test_how_runs_go_wrong_is_said(tmp_path: Path, line: dict[str, Any], doc: dict[str, Any], kind: str) -> None:
    assert kinds(judged(tmp_path / "good", right(60, 100), task=entry(100))) == []
    bad = judged(tmp_path / "bad", right(60, 100), line=line, doc=doc, task=entry(100))
    assert kinds(bad) == [kind]
    assert bad.alarms[0].count == 100


def test_a_score_below_chance(tmp_path: Path) -> None:
    choices = {"choices": [{"key": key, "text": key} for key in "ABCD"]}
    assert kinds(judged(tmp_path / "bad", right(10, 100), doc=choices, task=entry(100))) == ["chance"]
    assert kinds(judged(tmp_path / "noise", right(22, 100), doc=choices, task=entry(100))) == []


def test_answers_at_the_limit(tmp_path: Path) -> None:
    folder = write_run(tmp_path, right(60, 100), line={"resps": [["word " * 1500]]})
    (found,) = judge(read_run([folder], count_tokens=lambda text: len(text.split())), manifest(meta_some=entry(100)))
    assert kinds(found) == ["limit"]


def test_a_model_that_does_not_keep_to_the_format(replayed: Run, pack: Path) -> None:
    (gpqa,) = (one for one in judge(replayed, read_manifest(pack)) if one.task == "meta_gpqa_cot")
    assert "format" in kinds(gpqa)


@pytest.mark.parametrize(
    ("task", "backend", "words"),
    [
        (entry(2, graded_by="judge"), "hf", ["asked sympy and then a model"]),
        (entry(2), "vllm", ["batches requests"]),
        (entry(2, subset="math", family="3.2", graded_by="judge"), "hf", ["asked sympy", "with no shots"]),
        (entry(2, subset="gpqa", family="3.1"), "hf", ["several published numbers"]),
        (entry(2, subset="gpqa", family="3.2", format="assumed"), "hf", ["letter at once", "Nobody has held"]),
        (entry(2), "hf", []),
    ],
)
def test_known_gaps_are_named_where_they_apply(tmp_path: Path, task: TaskEntry, backend: str, words: list[str]) -> None:
    found = judged(tmp_path, [1, 0], config={"model": backend}, task=task).gaps
    assert len(found) == len(words)
    assert all(word in gap.text for word, gap in zip(words, found, strict=True))
    assert all(gap.source for gap in found)


# Against another run


def compared(
    tmp_path: Path, before: list[float], after: list[float], pack: Manifest | None = None, **options: Any
) -> Difference:
    first = read_run([write_run(tmp_path / "before", before, **options)])
    second = read_run([write_run(tmp_path / "after", after, **options)])
    (found,) = compare(first, second, pack).tasks
    return found.total


def test_a_run_against_its_quantised_twin(tmp_path: Path) -> None:
    before, after = right(60, 100), [0.0] * 6 + right(54, 60) + [1.0] * 2 + [0.0] * 32
    found = compared(tmp_path, before, after)
    expected = stats.paired_drop(before, after)
    assert (found.before, found.after, found.difference) == pytest.approx((60.0, 56.0, -4.0))
    assert found.interval == expected.interval().scaled(-100)
    assert (len(found.lost), len(found.won)) == (6, 2)
    assert found.p == expected.p() == found.p_corrected
    assert found.recovery == pytest.approx(100 * 56 / 60)
    assert found.recovery_interval is not None
    assert found.recovery_interval.lower < 93.3 < found.recovery_interval.upper


def test_flips_name_both_docs(tmp_path: Path) -> None:
    first = read_run([write_run(tmp_path / "a", [1, 0, 1, 1])])
    second = read_run([write_run(tmp_path / "b", [1, 1, 0, 1], order=[3, 1, 0, 2])])
    (found,) = compare(first, second).tasks
    ((lost, lost_to),) = [found.pairs[place] for place in found.total.lost]
    assert (lost.doc_id, lost.tail, lost_to.tail) == (2, "The answer is A.", "The answer is B.")
    assert [found.pairs[place][0].doc_id for place in found.total.won] == [1]


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
    (found,) = compare(first, read_run([tmp_path / "b"])).tasks
    assert (found.total.n, found.only_before, found.only_after) == (3, 0, 1)
    assert [(a.doc_id, b.doc_id) for a, b in found.pairs] == [(0, 3), (1, 2), (2, 1)]
    assert (found.total.before, found.total.after) == pytest.approx((200 / 3, 200 / 3))


def test_docs_with_the_same_hashes_are_paired_in_order(tmp_path: Path) -> None:
    same = {"input_question_hash": digest("same"), "input_final_prompts_hash": [digest("same prompt")]}
    found = compared(tmp_path, [1, 0, 1], [1, 0, 0], doc=same)
    assert (found.n, len(found.lost), len(found.won)) == (3, 1, 0)


def test_p_values_are_corrected_for_the_number_of_tasks(tmp_path: Path) -> None:
    for name, after in (("meta_a", right(45, 60)), ("meta_b", right(52, 60)), ("meta_c", right(60, 60))):
        write_run(tmp_path / "before", right(60, 60), task=name, time=f"2026-01-01T00-00-0{ord(name[-1]) - 96}")
        write_run(tmp_path / "after", after, task=name, time=f"2026-01-01T00-00-0{ord(name[-1]) - 96}")
    found = compare(read_run([tmp_path / "before"]), read_run([tmp_path / "after"])).tasks
    assert [one.total.p_corrected for one in found] == stats.holm([one.total.p for one in found])
    assert found[0].total.p_corrected == pytest.approx(3 * found[0].total.p)


def test_subtasks_are_compared_and_corrected_among_themselves(tmp_path: Path) -> None:
    subtasks = ["a"] * 30 + ["b"] * 30
    first = read_run([write_run(tmp_path / "x", right(60, 60), subtasks=subtasks)])
    second = read_run([write_run(tmp_path / "y", right(50, 60), subtasks=subtasks)])
    (found,) = compare(first, second).tasks
    (name_a, a), (name_b, b) = found.subtasks
    assert (name_a, a.n, a.difference, name_b, b.n) == ("a", 30, 0.0, "b", 30)
    assert b.p_corrected == pytest.approx(2 * stats.paired_drop(right(30, 30), right(20, 30)).p())
    assert [found.pairs[place][0].subtask for place in b.lost] == ["b"] * 10


def test_the_published_metric_of_the_pack_is_compared(tmp_path: Path) -> None:
    task = entry(40, published(50.0, our_metric="exact_match_macro,strict-match"))
    subtasks = ["a"] * 30 + ["b"] * 10
    found = compared(tmp_path, right(30, 40), right(20, 40), manifest(meta_some=task), subtasks=subtasks)
    assert (found.before, found.after) == pytest.approx((50.0, 100 / 3))
    assert found.p == stats.paired_drop(right(30, 40), right(20, 40), subtasks).p()


@pytest.mark.parametrize(("lost", "won"), [(150, 3), (40, 1), (0, 4)])
def test_sign_interval_and_p_are_of_one_statistic(lost: int, won: int, tmp_path: Path) -> None:
    """Docs lost in a large subtask and won in a small one: the mean over docs falls, the macro average may rise."""
    task = entry(1020, published(50.0, our_metric="exact_match_macro,strict-match"))
    subtasks = ["large"] * 1000 + ["small"] * 20
    before = right(600, 1000) + right(10, 20)
    after = right(600 - lost, 1000) + right(10 + won, 20)
    found = compared(tmp_path, before, after, manifest(meta_some=task), subtasks=subtasks)
    assert found.difference == pytest.approx(100 * (won / 20 - lost / 1000) / 2)
    assert (found.p < 0.05) == (0 not in found.interval)
    assert found.interval.lower < found.difference < found.interval.upper


def test_real_runs_are_compared_in_their_published_metric(replayed: Run) -> None:
    found = {one.task: one for one in compare(replayed, replayed).tasks}
    assert found["meta_ifeval"].metric == "mean_acc,none"
    assert found["meta_bbh"].metric == "em_macro,official"
    assert all(one.total.difference == 0 and one.total.p == 1 and one.total.recovery == 100 for one in found.values())


def test_what_else_was_not_the_same_is_said(tmp_path: Path) -> None:
    first = read_run([write_run(tmp_path / "a", [1, 0])])
    second = read_run([write_run(tmp_path / "b", [1, 0], config={"gen_kwargs": {"temperature": 1}})])
    (found,) = compare(first, second).tasks
    assert found.unlike == "generation settings: none in the first run, {'temperature': 1} in the second"
    (same,) = compare(first, first).tasks
    assert same.unlike is None


def test_runs_with_nothing_in_common(tmp_path: Path) -> None:
    first = read_run([write_run(tmp_path / "a", [1, 0])])
    other = read_run([write_run(tmp_path / "b", [1, 0], task="meta_other")])
    with pytest.raises(ResultsError, match="no task in common: meta_some, and meta_other"):
        compare(first, other)
    docs = read_run([write_run(tmp_path / "c", [1, 0], doc={"gold": "B"})])
    with pytest.raises(ResultsError, match="meta_some: the runs have no doc in common"):
        compare(first, docs)
    metric = read_run([write_run(tmp_path / "d", [1, 0], metric="acc")])
    with pytest.raises(ResultsError, match="no metric in common"):
        compare(first, metric)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=12))
def test_flips_are_the_whole_difference(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[bool, bool]]
) -> None:
    before, after = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    found = compared(tmp_path_factory.mktemp("pair"), before, after)
    assert found.difference == pytest.approx(100 * (len(found.won) - len(found.lost)) / len(pairs))
