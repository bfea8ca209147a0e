"""Docs without an answer that can be read: broken likelihoods, empty texts, nothing extracted, open reasoning."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from marks import few
from runs import entry, manifest
from stock_runs import Row, make_choice, make_sample, read_stock_run
from stored import stored

from meta_eval.harness.lm_eval_run import Run
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.gate import Gate
from meta_eval.judge.runs import judge

BAD = "likelihoods that are no numbers"


def list_kinds(judgement: RunDecision, *, veto: bool | None = None) -> list[str]:
    return [alarm.kind for alarm in judgement.alarms if veto is None or alarm.veto == veto]


_READ: dict[str, Run] = {}


def read_once(folder: Path, task: str, make: Callable[[], list[Row]], *same: Any) -> Run:
    """A run of a task. That of a folder of this name with the same rows is neither made nor read again: no test changes
    a `Run`."""
    key = repr((folder.name, task, same))
    if key not in _READ:
        _READ[key] = read_stock_run(folder, {task: make()})
    return _READ[key]


def choices(folder: Path, bad: list[Any], count: int) -> Run:
    """200 docs, the first of them with these likelihoods."""

    def make() -> list[Row]:
        return [make_choice(n, bad if n < count else ["-1.0", "-2.0"], n % 2 == 0) for n in range(200)]

    return read_once(folder, "choices", make, count and bad, count)


@pytest.mark.parametrize(
    "bad",
    few(
        [
            ["nan", "nan"],
            ["-1.0", "nan"],
            ["-inf", "-1.0"],
            ["inf", "-1.0"],
            [None, "-1.0"],
            ["None", "-1.0"],
            [math.nan] * 2,
        ],
        3,
    ),
)
@pytest.mark.parametrize("side", ["A", "B"])
def test_likelihoods_that_are_no_numbers_forbid_ship(tmp_path: Path, bad: list[Any], side: str) -> None:
    runs = [choices(tmp_path / name, bad, 2 if name == side else 0) for name in "AB"]
    judgement = judge(*runs, gate=Gate(margin=5.0))
    assert list_kinds(judgement) == [BAD]
    assert judgement.decision.reasons[0] == f"{BAD}: choices in {side} (2 of 200)"
    assert judgement.decision.outcome == "UNDECIDED"


def test_fewer_than_one_in_a_hundred_are_said_and_forbid_nothing(tmp_path: Path) -> None:
    judgement = judge(choices(tmp_path / "a", [], 0), choices(tmp_path / "b", ["nan", "nan"], 1), gate=Gate(margin=5.0))
    assert (list_kinds(judgement, veto=False), judgement.decision.outcome) == ([BAD], "SHIP")


def test_the_gates_limit_of_empty_answers_counts_them(tmp_path: Path) -> None:
    runs = [choices(tmp_path / name, ["nan", "nan"], count) for name, count in (("a", 0), ("b", 1))]
    judgement = judge(*runs, gate=Gate(margin=5.0, limits={"empty": 0.4}))
    assert "gate not met" in list_kinds(judgement, veto=True)


@pytest.mark.parametrize("broken", [math.nan, -math.inf, None, "nan"])
def test_rolling_likelihoods_that_are_no_numbers_forbid_ship(tmp_path: Path, broken: Any) -> None:
    def rows(first: Any) -> list[dict[str, Any]]:
        return [
            make_sample(
                number, "none", {"word_perplexity": [first if number < 2 else -10.5, 7]},
                arguments={"gen_args_0": {"arg_0": "text"}}, resps=[["-10.5"]], filtered_resps=["-10.5"],
            )
            for number in range(50)
        ]  # fmt: skip

    shares = [make_choice(number, ["-1.0", "-2.0"], number % 2 == 0) for number in range(100)]
    averages = {"text": {"word_perplexity,none": 4.5}}
    runs = [
        read_stock_run(tmp_path / name, {"choices": shares, "text": rows(first)}, averages=averages)
        for name, first in (("a", -10.5), ("b", broken))
    ]
    judgement = judge(*runs, gate=Gate(margin=5.0))
    assert f"{BAD}: text in B (2 of 50)" in judgement.decision.reasons
    assert judgement.decision.outcome == "UNDECIDED"


@pytest.mark.parametrize("nothing", [None, "", " \n"])
def test_a_missing_text_is_an_empty_answer(tmp_path: Path, nothing: str | None) -> None:
    runs = [
        read_stock_run(
            tmp_path / name,
            {
                "gsm8k": [
                    make_sample(n, "flexible", {"exact_match": 1.0}, text=nothing if n < empty else "x")
                    for n in range(100)
                ]
            },
        )
        for name, empty in (("a", 0), ("b", 10))
    ]
    judgement = judge(*runs, gate=Gate(margin=5.0))
    assert any(reason.startswith("empty answers: gsm8k in B (10 of 100)") for reason in judgement.decision.reasons)
    assert judgement.decision.outcome == "UNDECIDED"


NOT_READ = "answers not read"
NOTHING = "nothing extracted"


def extracted(
    folder: Path, count: int, value: Any, *, right: int = 120, text: str = "I say 5", docs: int = 200, **parts: Any
) -> Run:
    """So many docs, the last of them with this filtered answer; the first are right, and the others say something else."""

    def make() -> list[Row]:
        return [
            make_sample(
                number, "strict", {"exact_match": float(number < right)},
                **{"text": text if number < right else f"{text}.", "extracted": value if number >= docs - count else "5", **parts},
            )
            for number in range(docs)
        ]  # fmt: skip

    return read_once(folder, "gsm8k", make, count, count and value, right, text, docs, parts)


@pytest.mark.parametrize("value", few(["[invalid]", None, "", "  ", ["[invalid]"]], 2))
def test_nothing_extracted_by_a_stock_filter_forbids_ship(tmp_path: Path, value: Any) -> None:
    judgement = judge(extracted(tmp_path / "a", 0, value), extracted(tmp_path / "b", 60, value))
    assert list_kinds(judgement, veto=True) == [NOTHING]
    assert judgement.decision.outcome == "UNDECIDED"
    assert f"{NOTHING}: gsm8k in B (60 of 200)" in judgement.decision.reasons


@pytest.mark.parametrize("count", [0, 60])
def test_what_the_baseline_reads_as_seldom_is_no_fault(tmp_path: Path, count: int) -> None:
    runs = [extracted(tmp_path / name, count, "[invalid]") for name in "ab"]
    assert judge(*runs, gate=Gate(margin=5.0)).decision.outcome == "SHIP"


@pytest.mark.parametrize(
    ("text", "value", "parts"),
    [
        ("The whole text", "The whole text", {}),  # no extraction, so nothing can be missing
        ("[invalid]", "[invalid]", {}),
        ("No call is needed", "", {"target": ""}),
        ("Two numbers", ["3", "4"], {}),
        ("A list", [], {}),
    ],
)
def test_an_answer_that_is_graded_whole_is_not_unread(
    tmp_path: Path, text: str, value: Any, parts: dict[str, Any]
) -> None:
    judgement = judge(
        *(
            extracted(tmp_path / name, count, value, right=200, text=text, **parts)
            for name, count in (("a", 0), ("b", 180))
        )
    )
    assert list_kinds(judgement) == []


def test_a_filter_that_is_not_the_verdicts_raises_nothing(tmp_path: Path) -> None:
    def both(folder: Path, count: int) -> Run:
        rows = [make_sample(number, "flexible", {"exact_match": float(number < 120)}) for number in range(200)]
        rows += [
            make_sample(
                number,
                "strict",
                {"exact_match": float(number < 120)},
                extracted="[invalid]" if number >= 200 - count else "5",
            )
            for number in range(200)
        ]
        return read_stock_run(folder, {"gsm8k": rows})

    assert list_kinds(judge(both(tmp_path / "a", 0), both(tmp_path / "b", 60))) == []


@pytest.mark.parametrize(
    ("docs", "count", "said"), [(200, 4, False), (200, 6, True), (1000, 24, False), (1000, 40, True)]
)
def test_the_decision_says_how_much_of_a_drop_was_not_read(tmp_path: Path, docs: int, count: int, said: bool) -> None:
    """From half the margin on, and beyond chance. Of 100 docs 15 more are read and wrong."""
    runs = [
        extracted(tmp_path / "a", 0, "[invalid]", right=docs, docs=docs),
        extracted(tmp_path / "b", count, "[invalid]", right=85 * docs // 100 - count, docs=docs),
    ]
    judgement = judge(*runs, gate=Gate(margin=5.0))
    unread = 100 * count / docs
    note = (
        f"{NOT_READ}: gsm8k ({count} of {docs:,} answers are not read, 0 of the baseline's; of the drop of "
        f"{15 + unread:.1f} points, {unread:.1f} come from these answers; on the {docs - count:,} other docs it lost "
        f"{1500 / (100 - unread):.1f})"
    )
    assert (note in judgement.decision.caveats) == said
    assert judgement.decision.outcome == "DON'T SHIP"


@pytest.mark.parametrize("text", ["", "I say 5"])
def test_a_loss_behind_answers_that_the_baseline_lacks_does_not_ship(tmp_path: Path, text: str) -> None:
    """The last 80 of 400 answers of A are empty, or not read: all wrong. B has them right and loses 40 others."""

    def run(folder: Path, right: Callable[[int], bool], lacking: int) -> Run:
        rows = [
            make_sample(
                number, "strict", {"exact_match": float(right(number))},
                **(
                    {"text": text, "extracted": "[invalid]"} if number >= 400 - lacking
                    else {"text": f"I say {right(number)}", "extracted": "5"}
                ),
            )
            for number in range(400)
        ]  # fmt: skip
        return read_stock_run(folder, {"gsm8k": rows})

    a, b = run(tmp_path / "a", lambda number: number < 320, 80), run(tmp_path / "b", lambda number: number >= 40, 0)
    judgement = judge(a, b)
    kind = "not read" if text else "empty"
    assert judgement.decision.outcome == "UNDECIDED"
    assert judgement.decision.reasons[0] == (
        f"answers not read: gsm8k (0 of 400 answers are {kind}, 80 of the baseline's; of the drop of \u221210.0 points, "
        "\u221220.0 come from these answers; on the 320 other docs it lost 12.5)"
    )
    assert judge(b, b).decision.outcome == "SHIP"


def test_a_side_with_many_empty_answers_forbids_ship_whichever_it_is(tmp_path: Path) -> None:
    empty, full = (extracted(tmp_path / "gsm8k", 0, "", text=text, right=12) for text in ("", "I say 5"))
    for runs, side in (((empty, full), "A"), ((full, empty), "B")):
        judgement = judge(*runs, gate=Gate(margin=20.0))
        assert f"empty answers: gsm8k in {side} (12 of 200)" in judgement.decision.reasons
        assert judgement.decision.outcome == "UNDECIDED"


def test_a_limit_of_the_gate_that_the_baseline_alone_exceeds_is_undecided(tmp_path: Path) -> None:
    runs = [extracted(tmp_path / name, count, None) for name, count in (("a", 12), ("b", 0))]
    judgement = judge(*runs, gate=Gate(margin=20.0, limits={"unextracted": 5}))
    assert judgement.decision.outcome == "UNDECIDED"
    assert "gate not met: gsm8k in A (12 of 200 are answers in which nothing was found" in judgement.decision.reasons[0]


def test_the_gates_limit_of_unextracted_answers_uses_the_same_definition(tmp_path: Path) -> None:
    runs = [extracted(tmp_path / name, count, None) for name, count in (("a", 0), ("b", 12))]
    judgement = judge(*runs, gate=Gate(margin=1.0, limits={"unextracted": 5}))
    assert judgement.decision.outcome == "DON'T SHIP"
    assert "12 of 200 are answers in which nothing was found" in " ".join(judgement.decision.reasons)


def test_samples_are_flagged_by_the_same_definition(tmp_path: Path) -> None:
    from meta_eval.reports.samples import read_shown_samples

    runs = [extracted(tmp_path / name, count, "[invalid]") for name, count in (("a", 0), ("b", 12))]
    samples = list(read_shown_samples(judge(*runs).tasks))
    assert sum("unextracted" in sample.answers[1].flags for sample in samples) == 12
    assert {sample.answers[1].extracted for sample in samples} == {"5", None}


@pytest.mark.parametrize(
    ("text", "parts", "is_thinking"),
    [
        ("<think>\nSo far", {}, True),
        ("\n<reasoning>So far " + "so " * 2000, {}, True),  # as long as the limit or longer: no tokenizer is needed
        ("So far", {"prompt": "Question<think>\n"}, False),  # engines may strip the reasoning of such prompts
        ("[THINK]So far", {"finish_reason": "length"}, True),
        ("<think>\nSo far", {"finish_reason": "stop"}, False),  # the engine knows
        ("<think>\nSo far</think>\n#### 5", {}, False),
        ("So far</think>#### 5", {"prompt": "Question<think>"}, False),
        ("The tag <think> opens reasoning. #### 5", {}, False),
    ],
)
def test_open_reasoning_is_cut_while_thinking(
    tmp_path: Path, text: str, parts: dict[str, Any], is_thinking: bool
) -> None:
    rows = [make_sample(0, "strict", {"exact_match": 0.0}, text=text, **parts)]
    (doc,) = read_stock_run(tmp_path, {"gsm8k": rows}).tasks["gsm8k"].docs
    assert (doc.is_cut_thinking, doc.cuts[0] is True) == (is_thinking, is_thinking)


@pytest.mark.parametrize(("tasks", "disagree"), [(1, True), (10, False)])
def test_filters_of_several_tasks_share_one_error_rate(tmp_path: Path, tasks: int, disagree: bool) -> None:
    """The other filter of the first task loses 12 docs and wins 2: p is 0.009."""

    def write(folder: Path, lost: set[int], won: set[int]) -> Run:
        rows: dict[str, list[Row]] = {}
        for task in range(tasks):
            docs = range(260 if task == 0 else 5)
            strict = [make_sample(n, "strict", {"exact_match": float(n < 200)}) for n in docs]
            rights = [(n < 200 and n not in lost) or n in won if task == 0 else n < 200 for n in docs]
            rows[f"task{task}"] = strict + [
                make_sample(n, "flex", {"exact_match": float(r)}) for n, r in enumerate(rights)
            ]
        return read_stock_run(folder, rows)

    judgement = judge(write(tmp_path / "a", set(), set()), write(tmp_path / "b", set(range(12)), {250, 251}))
    assert ("filters disagree" in list_kinds(judgement)) == disagree


@pytest.mark.parametrize(
    ("tasks", "named"), [(2, "t0, t1"), (3, "t0, t1, t2"), (4, "t0, t1, t2 and 1 more"), (5, "t0, t1, t2 and 2 more")]
)
def test_many_tasks_of_which_answers_were_not_read_are_one_clause(tmp_path: Path, tasks: int, named: str) -> None:
    """What is counted of each stands beside the alarm."""

    def run(folder: Path, *, is_candidate: bool) -> Run:
        rows = {
            f"t{task}": [
                make_sample(
                    number, "strict", {"exact_match": float(not unread and number < 30)},
                    text=f"I say {number}{unread}",
                    extracted="[invalid]" if unread else "5",
                )
                for number in range(50)
                for unread in [is_candidate and number < 12 + task]
            ]
            for task in range(tasks)
        }  # fmt: skip
        return read_stock_run(folder, rows)

    judgement = judge(
        run(tmp_path / "a", is_candidate=False), run(tmp_path / "b", is_candidate=True), gate=Gate(margin=2.0)
    )
    reasons = [reason for reason in judgement.decision.reasons if NOT_READ in reason]
    assert reasons == [f"{NOT_READ}: {named}"]
    (alarm,) = (alarm for alarm in judgement.alarms if alarm.kind == NOT_READ)
    counted = [re.findall(r"\d+ of 50 answers", occurrence.note or "") for occurrence in alarm.tasks]
    assert counted == [[f"{12 + task} of 50 answers"] for task in range(tasks)]


def test_beside_a_pack_no_limit_of_tokens_is_another(tmp_path: Path) -> None:
    """What verify stored names no limit: answers were recorded under the settings of the pack."""
    baseline, candidate = (
        extracted(tmp_path / "a", 0, "[invalid]"),
        extracted(tmp_path / "b", 60, "[invalid]", right=140),
    )
    (task,) = candidate.tasks.values()
    asked = replace(task, provenance=replace(task.provenance, decoding={"max_gen_toks": 2048}))
    recorded = entry(200, primary_metric="exact_match,strict", filters=("strict",))
    docs = {name: of.docs for name, of in baseline.tasks.items()}
    judgement = judge(None, replace(candidate, tasks={"gsm8k": asked}), manifest(gsm8k=recorded), stored(docs))
    (note,) = (each.note or "" for alarm in judgement.alarms if alarm.kind == NOT_READ for each in alarm.tasks)
    assert "docs it" in note and "shorter ones" not in note
