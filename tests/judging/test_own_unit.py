"""Tasks that are no shares from 0 to 1: judged by their own interval and margin, beside the mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from marks import few
from stock_runs import Row, make_choice, make_sample, read_stock_run

from meta_eval.harness.lm_eval_run import Run
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.gate import Gate
from meta_eval.judge.runs import judge
from meta_eval.pack.baseline import Baseline
from meta_eval.reports.text import write_headline

SHARES = [make_choice(number, ["-1.0", "-2.0"], number % 2 == 0) for number in range(100)]


def compare(
    folder: Path,
    before: list[Row],
    after: list[Row],
    gate: Gate,
    averages: tuple[Mapping[str, Any] | None, ...] = (None, None),
    shares: tuple[str, ...] = ("shares",),
) -> RunDecision:
    sides = zip("ab", (before, after), averages, strict=True)
    return judge(*(read_once(folder / name, *side, shares) for name, *side in sides), gate=gate)


_READ: dict[str, Run] = {}


def read_once(folder: Path, rows: list[Row], own: Mapping[str, Any] | None, shares: tuple[str, ...]) -> Run:
    """A run of its tasks. That of a folder of this name with the same rows is not made again: no test changes it."""
    key = repr((folder.name, rows, own, shares))
    if key not in _READ:
        averages = {"own": own} if own is not None else {}
        _READ[key] = read_stock_run(folder, {**dict.fromkeys(shares, SHARES), "own": rows}, averages=averages)
    return _READ[key]


def judged(value: Callable[[int], float], metric: str = "judge_score") -> list[Row]:
    return [make_sample(number, "none", {metric: value(number)}) for number in range(105)]


@pytest.mark.parametrize(
    ("drop", "margin", "outcome", "kind"),
    [
        (40.0, 5.0, "UNDECIDED", "worse by more than a tenth"),
        (4.0, 5.0, "SHIP", None),  # a twentieth
        (-40.0, 5.0, "SHIP", None),
        (4.0, {"own": 2}, "DON'T SHIP", "beyond its margin"),
        (4.0, {"o*": 6}, "SHIP", None),
        (4.0, {"own": 4}, "UNDECIDED", "margin not shown"),
    ],
)
def test_a_score_of_100_is_judged_in_its_own_unit(
    tmp_path: Path, drop: float, margin: Any, outcome: str, kind: str | None
) -> None:
    before, after = judged(lambda n: 80.0 + n % 7), judged(lambda n: 80.0 + n % 7 - drop + (n % 3 - 1))
    judgement = compare(
        tmp_path, before, after, Gate(margin=margin if isinstance(margin, float) else {"mean": 5, **margin})
    )
    assert [alarm.kind for alarm in judgement.alarms] == ([kind] if kind else [])
    assert judgement.decision.outcome == outcome
    assert "mean drop of 1 of 2 tasks" in write_headline(judgement.decision)
    own = next(task.own_unit for task in judgement.tasks if task.name == "own")
    assert own is not None and own.interval is not None
    assert own.value == pytest.approx(drop, abs=0.02) and own.value in own.interval


@pytest.mark.parametrize(
    ("drop", "margin", "outcome", "said"),
    [
        (
            4.0,
            2.0,
            "DON'T SHIP",
            "Why: beyond its margin: own (judge_score,none fell from 83 to 79, a drop of 4 (",
        ),
        (0.0, 2.0, "UNDECIDED", "Why: there is no task to decide on."),
    ],
)
def test_without_a_share_a_task_beyond_its_margin_still_fails_the_run(
    tmp_path: Path, drop: float, margin: float, outcome: str, said: str
) -> None:
    before, after = judged(lambda n: 80.0 + n % 7), judged(lambda n: 80.0 + n % 7 - drop + (n % 3 - 1))
    judgement = compare(tmp_path, before, after, Gate(margin={"mean": 5, "own": margin}), shares=())
    assert judgement.decision.outcome == outcome
    headline = write_headline(judgement.decision)
    assert headline.startswith(f"{outcome}: {'no mean drop' if drop else 'nothing was compared'}, margin 5.")
    assert said in headline


def test_a_text_that_is_more_than_certain_is_no_perplexity(tmp_path: Path) -> None:
    before, after = (
        [make_sample(n, "none", {"word_perplexity": [sign * (40.0 + n % 5), 20]}) for n in range(60)]
        for sign in (-1, 1)
    )
    averages = tuple(
        {"word_perplexity,none": math.exp(sign * sum(40 + n % 5 for n in range(60)) / 1200)} for sign in (1, -1)
    )
    judgement = compare(tmp_path, before, after, Gate(margin={"mean": 5, "own": 0.5}), averages)
    assert judgement.decision.outcome != "SHIP"


def test_a_perplexity_of_words_that_are_counted_otherwise_is_never_within_its_margin(tmp_path: Path) -> None:
    costs = [(-40.0 - number % 5, number) for number in range(60)]
    sides = [[make_sample(n, "none", {"word_perplexity": [cost, words]}) for cost, n in costs] for words in (20, 10)]
    averages = tuple(
        {"word_perplexity,none": math.exp(-sum(cost for cost, _ in costs) / (60 * words))} for words in (20, 10)
    )
    judgement = compare(tmp_path, *sides, Gate(margin={"mean": 5, "own": 0.2}), averages)
    assert judgement.decision.outcome == "DON'T SHIP"


@pytest.mark.parametrize(
    ("metric", "nats", "outcome"),
    few(
        [
            (metric, nats, outcome)
            for metric in ("word_perplexity", "bits_per_byte", "perplexity")
            for nats, outcome in ((0.05, "SHIP"), (0.3, "UNDECIDED"), (-0.3, "SHIP"))
        ],
        2,
    ),
)
def test_a_perplexity_is_compared_doc_by_doc(tmp_path: Path, metric: str, nats: float, outcome: str) -> None:
    def rows(extra: float) -> tuple[list[Row], dict[str, float]]:
        costs = [(2.0 + number % 5 / 10 + extra, 20 + number % 9) for number in range(60)]
        if metric == "perplexity":
            samples = [make_sample(number, "none", {metric: -cost}) for number, (cost, _) in enumerate(costs)]
            return samples, {f"{metric},none": math.exp(sum(cost for cost, _ in costs) / 60)}
        samples = [make_sample(n, "none", {metric: [-cost * words, words]}) for n, (cost, words) in enumerate(costs)]
        mean = sum(cost * words for cost, words in costs) / sum(words for _, words in costs)
        return samples, {f"{metric},none": mean / math.log(2) if metric == "bits_per_byte" else math.exp(mean)}

    (before, first), (after, second) = rows(0.0), rows(nats)
    judgement = compare(tmp_path, before, after, Gate(margin=5.0), (first, second))
    assert judgement.decision.outcome == outcome
    own = next(task.own_unit for task in judgement.tasks if task.name == "own")
    assert own is not None and own.interval is not None
    assert own.value == pytest.approx(second[own.metric] - first[own.metric])
    assert own.interval.upper - own.interval.lower < 1e-6  # every doc moved alike


@pytest.mark.parametrize(
    ("after", "stderr", "outcome"),
    [(20.0, 0.5, "UNDECIDED"), (20.0, 3.0, "SHIP"), (20.0, "N/A", "UNDECIDED"), (26.0, "N/A", "SHIP")],
)
def test_an_average_that_docs_do_not_have_is_compared_by_its_standard_error(
    tmp_path: Path, after: float, stderr: Any, outcome: str
) -> None:
    rows = [make_sample(number, "none", {"bleu": ["one text", "another"]}) for number in range(50)]
    averages = tuple({"bleu,none": value, "bleu_stderr,none": stderr} for value in (27.0, after))
    assert compare(tmp_path, rows, rows, Gate(margin=5.0), averages).decision.outcome == outcome


def test_a_share_in_one_run_alone_forbids_ship(tmp_path: Path) -> None:
    judgement = compare(tmp_path, judged(lambda _: 80.0), judged(lambda _: 0.5), Gate(margin=5.0))
    assert judgement.decision.outcome == "UNDECIDED"


def test_a_metric_that_one_run_alone_has_forbids_ship(tmp_path: Path) -> None:
    nothing = [make_sample(number, "none", {"judge_score": None}) for number in range(105)]
    judgement = compare(tmp_path, judged(lambda _: 80.0), nothing, Gate(margin=5.0), (None, {}))
    assert judgement.decision.outcome == "UNDECIDED"


def test_a_huge_value_is_no_traceback(tmp_path: Path) -> None:
    judgement = compare(
        tmp_path, judged(lambda _: 80.0), judged(lambda n: -1e308 if n == 0 else 80.0), Gate(margin=5.0)
    )
    assert judgement.decision.outcome == "UNDECIDED"


def test_several_such_tasks_share_one_error_rate(tmp_path: Path) -> None:
    """Twenty tasks at a drop of a tenth: each alone would be called worse in 2.5 % of draws."""
    import random

    draw = random.Random(4)
    rows: dict[str, dict[str, list[Row]]] = {"a": {"shares": SHARES}, "b": {"shares": SHARES}}
    for task in range(8):
        for side, shift in (("a", 0.0), ("b", -8.0)):
            values = [80.0 + shift + draw.gauss(0, 3) for _ in range(30)]
            rows[side][f"own{task}"] = [make_sample(n, "none", {"judge": value}) for n, value in enumerate(values)]
    runs = [read_stock_run(tmp_path / side, tasks) for side, tasks in rows.items()]
    assert judge(*runs, gate=Gate(margin=5.0)).decision.outcome == "SHIP"


def test_prompts_that_differ_make_it_invalid_too(tmp_path: Path) -> None:
    before = judged(lambda n: 80.0 + n % 7)
    after = [make_sample(n, "none", {"judge_score": 80.0 + n % 7}, prompt=f"Other {n}") for n in range(105)]
    assert compare(tmp_path, before, after, Gate(margin=5.0)).decision.invalid


@pytest.mark.parametrize(("drop", "is_worse"), [(40.0, True), (2.0, False)])
def test_a_report_judges_what_was_recorded_in_its_own_unit(tmp_path: Path, drop: float, is_worse: bool) -> None:
    rows = [judged(lambda n, less=less: 80.0 + n % 7 - less) for less in (0.0, drop)]
    recorded, run = (
        read_stock_run(tmp_path / name, {"shares": SHARES, "own": own}) for name, own in zip("ab", rows, strict=True)
    )
    stored = Baseline(Run(), recorded=recorded)
    judgement = judge(None, run, None, stored)
    own = next(task.own_unit for task in judgement.tasks if task.name == "own")
    assert own is not None and own.value == pytest.approx(drop)
    kinds = {alarm.kind for alarm in judgement.alarms}
    assert ("worse by more than a tenth" in kinds) == is_worse
    assert "nothing to compare with" not in kinds
