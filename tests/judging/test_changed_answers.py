"""What changed in the answers of a candidate is named, with its part of the drop."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from named_pairs import WORDS
from stock_runs import make_sample, read_stock_run

from meta_eval.harness.answer_traits import find_traits
from meta_eval.harness.lm_eval_run import Run
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.runs import judge

CHANGED = "answers changed"


def salad(number: int) -> str:
    return " ".join(random.Random(number).choices(WORDS, k=90)) + " 4"


def run(folder: Path, right: Callable[[int], bool], text: Callable[[int], str]) -> Run:
    rows = [
        make_sample(number, "strict", {"exact_match": float(right(number))}, text=text(number), extracted="5")
        for number in range(400)
    ]
    return read_stock_run(folder, {"gsm8k": rows})


def compare(tmp_path: Path, *, text: Callable[[int], str], right: Callable[[int], bool] | None = None) -> RunDecision:
    """B's answers to every eighth doc are as given, and wrong."""
    a = run(tmp_path / "a", lambda number: number % 10 > 0, lambda number: f"It is {number}.")
    b = run(
        tmp_path / "b",
        right or (lambda number: number % 10 > 0 and number % 8 > 0),
        lambda number: text(number) if number % 8 == 0 else f"It is {number}!",
    )
    return judge(a, b)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lambda number: f"<think>1 or 2</think>It is {number}.", "hold thoughts up to </think>"),
        (lambda number: f"```python\nprint({number})", "leave a fence of code open"),
        (lambda number: f"It is {number} " + "ho " * 30, "repeat themselves to the end"),
        (lambda number: f"It is {number} " + "!" * 120, "repeat themselves to the end"),
        (salad, "are words without a sentence"),
        (lambda number: f"Let me see. Is it {number}? " * 12, "are more than five times as long"),
    ],
)
def test_a_form_of_lost_answers_is_named_with_its_part_of_the_drop(
    text: Callable[[int], str], said: str, tmp_path: Path
) -> None:
    caveats = [caveat for caveat in compare(tmp_path, text=text).decision.caveats if caveat.startswith(CHANGED)]
    assert len(caveats) == 1
    assert (
        f"50 of 400 answers {said}, 0 of the baseline's; of the drop of 10.0 points, 10.0 come from these" in caveats[0]
    )


def test_answers_that_are_the_baselines_behind_their_thoughts_are_counted(tmp_path: Path) -> None:
    (caveat,) = compare(tmp_path, text=lambda number: f"<think>1 or 2</think>\n\nIt is {number}.").decision.caveats
    assert "behind it 50 are the baseline's word for word" in caveat


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (lambda number: f"Is it {number}?", None),  # nothing of their form changed
        (lambda number: f"```python\nprint({number})", lambda number: number % 10 > 0),  # nothing is lost with it
    ],
)
def test_what_changed_nothing_is_not_said(
    text: Callable[[int], str], right: Callable[[int], bool] | None, tmp_path: Path
) -> None:
    kinds = [alarm.kind for alarm in compare(tmp_path, text=text, right=right).alarms]
    assert CHANGED not in kinds


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "```", "``` a ```", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", "\ud800" * 5, "a. " * 30,
        "The answer follows from the sum of both, and is 5. " * 20, "\n".join(map(str, range(300))), "</think",
    ],
)  # fmt: skip
def test_odd_and_plain_texts_have_a_trait_or_none(text: str) -> None:
    assert set(find_traits([text])) <= {"leave a fence of code open", "repeat themselves to the end"}
    assert not find_traits([text]) or "`" in text or len(set(text.split())) < 4


def test_empty_answers_are_called_empty_and_no_limit_is_blamed(tmp_path: Path) -> None:
    judgement = compare(tmp_path, text=lambda _: "")
    said = " ".join([*judgement.decision.caveats, *(alarm.hint for alarm in judgement.alarms)])
    assert "50 of 400 answers are empty" in said
    assert "reasoning_content" in said and "stop text" in said
    assert "max_gen_toks" not in said and "truncation" not in said
