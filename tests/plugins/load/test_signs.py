"""What an answer under load is, and what the answers of a level say of the server."""

from __future__ import annotations

from typing import Any

import pytest

from meta_eval.harness.answer import Answer
from meta_eval.plugins.load.in_flight import find_in_flight
from meta_eval.plugins.load.level_decision import Counts, Verdicts, decide, find_smallest_rate
from meta_eval.plugins.load.signs import OtherTexts, ScoredSign, classify
from meta_eval.plugins.load.thresholds import SAME_DOCS

LONG = "The river runs to the sea, and so the best answer is C."


def answer(text: str | None = LONG, **fields: Any) -> Answer:
    return Answer(
        id="t/1", text=text, **{"finish_reason": "stop", "completion_tokens": 14, "prompt_tokens": 9, **fields}
    )


NEAR, FAR = ScoredSign(0.2, 3), ScoredSign(7.0, 12)


@pytest.mark.parametrize(
    ("alone", "loaded", "scored", "kind", "sign"),
    [
        (answer(), answer(), None, "same", None),
        (answer(), answer("The river is wide, and so it is D."), None, "parted", None),
        (answer(), answer("The river is wide, and so it is D."), NEAR, "near tie", None),
        (answer(), answer("The river is wide, and so it is D."), FAR, "corrupted", "an unlikely token"),
        (answer(), answer(LONG[:30]), NEAR, "corrupted", "lost text"),
        (answer(), answer(LONG[:-6]), None, "parted", None),  # its last word
        (answer(), answer(LONG[:-20], completion_tokens=9), None, "parted", "ended early"),
        (answer(LONG[:-20], completion_tokens=9), answer(), None, "parted", "ended early alone"),
        (answer(), answer(LONG[:-6], completion_tokens=12), NEAR, "near tie", None),
        (answer(), answer(LONG[:-20], completion_tokens=9), NEAR, "near tie", "ended early"),
        (answer(), answer(LONG[20:]), NEAR, "corrupted", "lost beginning"),  # as many tokens as alone
        (answer(), answer(LONG[20:], completion_tokens=9), FAR, "corrupted", "lost beginning"),
        (answer(), answer(LONG[20:], completion_tokens=9), None, "parted", "lost beginning"),
        (answer(), answer(LONG + "\nQ: And now?"), NEAR, "corrupted", "went on behind its stop text"),
        (answer(LONG + "\nQ: No?"), answer(LONG + "\nQ: And now?"), NEAR, "near tie", None),  # as alone
        (answer(), answer(LONG[:30], finish_reason=None, completion_tokens=None), None, "corrupted", "cut off"),
        (answer(), answer(LONG[:30], finish_reason="length", completion_tokens=7), NEAR, "corrupted", "cut off"),
        (answer(), answer("", completion_tokens=1), None, "parted", "empty"),
        (answer(), answer("  \n", completion_tokens=2), None, "parted", "empty"),
        (answer(), answer("The river, and 河水 runs 到海."), None, "parted", "another script"),
        (answer(), answer("The river, and 河 runs."), None, "parted", None),
        (answer(), answer("The river\ufffd runs to it."), None, "parted", "another script"),
        (answer("河水到海"), answer("河水 runs"), None, "parted", None),
        (answer('{"a": 1}'), answer('{"a": 1'), None, "parted", "broken JSON"),
        (answer('{"a": 1}'), answer('{"b": "x": 2}'), None, "parted", "broken JSON"),
        (answer('{"a": 1}'), answer('{"b": 2}'), None, "parted", None),
        (answer("```json\n[1]\n```"), answer("```json\n[1, 2]\n```"), None, "parted", None),
        (answer(), answer("It is D.", prompt_tokens=8), None, "corrupted", "a shorter prompt"),
        (answer(), answer("It is D.", prompt_tokens=29), FAR, "corrupted", "a longer prompt"),
        (answer(prompt_tokens=None), answer("It is D.", prompt_tokens=8), None, "parted", None),
        (answer(), answer(None, error="400: no", retry=False), None, "corrupted", "refused"),
        (answer(), answer(None, error="500: later"), None, "failed", None),
    ],
)
def test_an_answer_under_load_is(
    alone: Answer, loaded: Answer, scored: ScoredSign | None, kind: str, sign: str | None
) -> None:
    seen = classify([alone], loaded, "What does it do? 1 token", None, scored, 1.0, stop=("\nQ:",))
    assert (seen.kind, seen.signs[0] if seen.signs else None) == (kind, sign)


def test_a_text_of_either_answer_alone_is_the_same() -> None:
    other = answer("It is D.")
    assert classify([answer(), other], other, "", None, None, 1.0).kind == "same"


def test_only_what_a_single_other_request_has_is_anothers_text() -> None:
    examples = "Here are some examples that every prompt of this task begins with, all the same. "
    own, other, third = ("t", 1), ("t", 2), ("t", 3)
    prompts = {own: examples + "What is rain?", other: examples + "What is snow?", third: examples + "What is ice?"}
    wide = "Rain is water that falls from clouds in drops, more or less of it."
    answers = {own: [wide], other: ["Snow is ice that falls slowly in the cold months of the year."], third: [wide]}
    others = OtherTexts(prompts, answers, 40)
    assert others.find(own, "Well: Snow is ice that falls slowly in the cold months of the year.")
    assert others.find(own, examples) is None  # of all
    assert others.find(own, wide) is None  # its own, too
    assert others.find(other, wide) is None  # of two others
    assert others.find(other, "Snow is ice that falls slowly") is None  # its own, and short
    mixed = others.find(third, "x" * 300 + " Snow is ice that falls slowly in the cold months of the year.")
    assert mixed is not None and mixed in answers[other][0]


def test_text_of_another_in_flight_is_a_sign_where_more_is_than_chance_explains() -> None:
    """Of 200 docs eight are in flight at once."""
    spans = {("t", doc): (doc // 8 + 0.1, doc // 8 + 0.9) for doc in range(200)}
    mates = {("t", doc): ("t", doc + 1) for doc in (8, 48, 88)}
    others = {("t", doc): ("t", 199 - doc) for doc in range(60)}
    assert find_in_flight(mates, spans) == (set(mates), False)
    assert find_in_flight(others, spans) == (set(), True)
    assert find_in_flight({("t", 8): ("t", 9)}, spans) == ({("t", 8)}, True), "one is an accident"
    assert find_in_flight(mates, dict.fromkeys(spans, (0.0, 9.0))) == (set(mates), True), "all are in flight"
    assert find_in_flight(mates, {}) == (set(), True)
    seen = classify([answer()], answer("It is D."), "", "It is", None, 1.0, by_chance=True)
    assert (seen.kind, seen.signs) == ("parted", ("another request's text",))
    assert classify([answer()], answer("It is D."), "", "It is", None, 1.0).kind == "corrupted"


def test_texts_without_spaces_are_searched_at_each_letter() -> None:
    snow = "雪是冬天里从天上落下来的冰晶它们在寒冷的月份里慢慢地飘落到地面上覆盖了整个山谷和河流以及村庄的屋顶"
    others = OtherTexts({("t", 1): "a", ("t", 2): "b"}, {("t", 2): [snow]}, 40)
    assert others.find(("t", 1), "天气" + snow[3:]) is not None


def counts(answers: int, sure: int = 0, weak: int = 0, failed: int = 0, weak_alone: int = 0, parted: int = 0) -> Counts:
    return Counts(answers, answers - sure - parted, 0, parted, sure, failed, (), weak, weak_alone)


@pytest.mark.parametrize(
    ("level", "alone", "verdicts", "outcome"),
    [
        (counts(500), counts(500), Verdicts(500, 0, 0), "same"),
        (counts(SAME_DOCS), counts(SAME_DOCS), Verdicts(SAME_DOCS, 0, 0), "same"),
        (counts(SAME_DOCS - 1), counts(SAME_DOCS - 1), Verdicts(SAME_DOCS - 1, 0, 0), "undecided"),
        (counts(500), counts(500), None, "same"),
        (counts(100), counts(100), None, "undecided"),  # 100 may hide 3 %
        (counts(500, sure=1), counts(500), None, "undecided"),
        (counts(500, sure=2), counts(500), None, "worse"),
        (counts(500, sure=2), counts(500, sure=1), None, "undecided"),
        (counts(500, sure=20), counts(500, sure=2), None, "worse"),
        (counts(500, weak=5, weak_alone=4, parted=9), counts(500), None, "no fault seen"),
        (counts(500, weak=5, weak_alone=4), counts(500), None, "same"),
        (counts(200, weak=5), counts(200), None, "undecided"),  # may hide 5 %
        (counts(500, weak=20, weak_alone=2), counts(500), None, "worse"),
        (counts(500, weak=20, weak_alone=15), counts(500), None, "undecided"),
        (counts(500, parted=30), counts(500), Verdicts(500, 0, 0), "no fault seen"),
        (counts(500), counts(500), Verdicts(500, 12, 1), "worse"),
        (counts(500), counts(500), Verdicts(500, 12, 11), "undecided"),  # a loss of 2 points is not ruled out
        (counts(500), counts(500), Verdicts(500, 1, 12), "same"),
        (counts(500, failed=100), counts(500), None, "undecided"),
        (counts(0, failed=100), counts(500), None, "undecided"),
        (counts(500), counts(0), None, "same"),
        (counts(500, weak=20), counts(0), None, "worse"),
    ],
)
def test_a_level_is_decided(level: Counts, alone: Counts, verdicts: Verdicts | None, outcome: str) -> None:
    assert decide(level, alone, verdicts).outcome == outcome


def test_the_smallest_rate_is_what_two_answers_need() -> None:
    """At a rate r two of n are corrupted in 95 % of draws where n r is about 4.74 (Poisson)."""
    assert find_smallest_rate(1000, counts(1000)) == pytest.approx(4.74 / 1000, abs=0.001)
    assert find_smallest_rate(1000, counts(1000, sure=3)) > 0.01
    assert find_smallest_rate(0, counts(0)) == 1.0
