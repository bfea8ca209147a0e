"""SQuAD, QuAC, DROP and TriviaQA: each after the rule of its own script."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import TEMPLATES
from rows import make_row
from template_modules import template_module

from meta_eval.pack.templates import read_template_yaml

spans = template_module("_common/spans.py")
tasks = template_module("squad/utils.py")
drop = template_module("squad/drop.py")


def doc(*golds: str) -> dict:
    return spans.make_doc(make_row(gold=golds))


def squad(answer: str, *golds: str) -> tuple[float, float]:
    result = tasks.squad(doc(*golds), [answer])
    return result["exact_match"], result["f1"]


# Docs and the filter


def test_empty_correct_responses_are_left_out_and_the_first_other_is_the_gold() -> None:
    made = doc("", "rye", " ", "barley")
    assert (made["gold"], made["answers"]) == ("rye", ["rye", "barley"])


def test_a_row_without_any_is_refused_with_its_hash() -> None:
    with pytest.raises(ValueError, match=r"question hash \w+: all correct responses are empty"):
        spans.make_doc(make_row(gold=["", " "]))


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (" Jonas Brandt", ["Jonas Brandt"]),
        (" Jonas Brandt\n\nQ: When?\nA: 1741", ["Jonas Brandt"]),
        ("\n\n Jonas\nBrandt", ["Jonas"]),
        (" \n ", []),
        ("", []),
    ],
)
def test_a_base_model_s_answer_is_its_first_line_that_is_not_empty(output: str, answer: list[str]) -> None:
    base = read_template_yaml(TEMPLATES / "_base_span_yaml")
    assert re.findall(base["filter_list"][0]["filter"][0]["regex_pattern"], output) == answer


# SQuAD


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "f1"),
    [
        ("The Flood!", ("flood",), 1, 1),
        ("flood of 1902", ("flood", "flood of 1902"), 1, 1),
        ("big flood", ("flood", "water"), 0, 2 / 3),
        ("flood flood", ("flood",), 0, 2 / 3),  # words count as often as they occur
        ("well-known", ("wellknown",), 1, 1),  # punctuation goes and leaves no space
        ("Theo", ("o",), 0, 0),  # articles go as words only
        ("rye", ("wheat",), 0, 0),
        ("unanswerable", ("rye",), 0, 0),
        ("unanswerable", ("unanswerable",), 1, 1),
        ("No answer.", ("unanswerable",), 1, 1),
        ("rye", ("unanswerable",), 0, 0),
        ("Not in background.", ("in the background",), 0, 0),  # shares no word with a span
        ("far in background", ("in the background",), 0, 0.8),
        ("the", ("rye",), 0, 0),
        ("the", ("The", "rye"), 0, 0),  # a gold of which nothing is left does not count beside others
        ("the", ("The",), 1, 1),
        ("rye", ("The",), 0, 0),
    ],
)
def test_squad(answer: str, golds: tuple[str, ...], exact: float, f1: float) -> None:
    assert squad(answer, *golds) == (exact, pytest.approx(f1))


# QuAC


@pytest.mark.parametrize(
    ("answer", "golds", "f1", "best"),
    [
        ("in 1990", ("in 1990",), 1, 1),
        ("1990", ("in 1990",), 2 / 3, 2 / 3),
        # Each left out once: the second best stands in where the best is missing.
        ("in 1990", ("in 1990", "1990"), (1 + 2 / 3) / 2, 1),
        ("in 1990", ("in 1990", "in 1990", "no"), 1, 1),
        ("in 1990", ("in 1990", "1990", "no"), (1 + 1 + 2 / 3) / 3, 1),
        ("CANNOTANSWER", ("CANNOTANSWER",), 1, 1),
        ("CANNOTANSWER \r", ("CANNOTANSWER",), 1, 1),
        ("CANNOTANSWER", ("CANNOTANSWER", "in 1990"), 1, 1),  # half of them is enough
        ("cannotanswer", ("CANNOTANSWER", "in 1990"), 0, 0),  # to the letter
        ("Cannot answer", ("CANNOTANSWER",), 0, 0),
        ("CANNOTANSWER", ("cannotanswer",), 1, 1),  # a text like any other
        ("cannotanswer", ("cannotanswer", "in 1990"), 0.5, 1),
        ("in 1990", ("CANNOTANSWER", "in 1990"), 0, 0),
        ("in 1990", ("CANNOTANSWER", "in 1990", "in 1990"), 1, 1),
        ("CANNOTANSWER", ("CANNOTANSWER", "in 1990", "1990"), 0, 0),
        ("the", ("a",), 0, 0),  # no word is shared
    ],
)
def test_quac(answer: str, golds: tuple[str, ...], f1: float, best: float) -> None:
    result = tasks.quac(doc(*golds), [answer])
    assert (result["f1"], result["f1_best"]) == (pytest.approx(f1), pytest.approx(best))


def quac_by_its_description(answer: str, golds: list[str]) -> float:
    """The paper's rule (Choi et al. 2018, section 5.1), each step as it is told."""
    cannot = golds.count("CANNOTANSWER")
    if 2 * cannot >= len(golds):
        return float(answer == "CANNOTANSWER")
    spans_left = [gold for gold in golds if gold != "CANNOTANSWER"]
    if len(spans_left) == 1:
        return word_f1(answer, spans_left[0])
    best = [
        max(word_f1(answer, gold) for at, gold in enumerate(spans_left) if at != left_out)
        for left_out in range(len(spans_left))
    ]
    return sum(best) / len(best)


def word_f1(answer: str, gold: str) -> float:
    ours, right = (
        [
            word
            for word in "".join(c for c in text.lower() if c.isalnum() or c.isspace()).split()
            if word not in ARTICLES
        ]
        for text in (answer, gold)
    )
    shared = sum(min(ours.count(word), right.count(word)) for word in set(ours))
    return 2 * shared / (len(ours) + len(right)) if shared else 0.0


ARTICLES = ("a", "an", "the")
quac_texts = st.one_of(
    st.sampled_from(["CANNOTANSWER", "cannotanswer", "CannotAnswer", "CANNOT ANSWER", "CANNOTANSWER."]),
    st.lists(st.sampled_from(["the", "in", "In", "1990", "1990,", "she", "won", "a", "prize"]), min_size=1).map(
        " ".join
    ),
)


@given(quac_texts, st.lists(quac_texts, min_size=1, max_size=4))
def test_quac_is_what_its_description_says(answer: str, golds: list[str]) -> None:
    assert tasks.quac(doc(*golds), [answer])["f1"] == pytest.approx(quac_by_its_description(answer, golds))


@pytest.mark.parametrize(
    ("golds", "kept"),
    [
        (("in 1990",), True),
        (("in 1990", "1990"), True),
        (("in 1990", "he won"), False),  # people who share no word
        (("in 1990", "in 1990", "he won"), True),  # (1 + 1 + 0) / 3
        (("a b c d e", "a f g h i", "j"), False),
        (("CANNOTANSWER", "in 1990"), True),
    ],
)
def test_questions_on_which_people_agree_too_little_leave_the_filtered_f1(golds: tuple[str, ...], kept: bool) -> None:
    for answer in (golds[0], "[invalid]"):
        result = tasks.quac(doc(*golds), [answer])
        assert result["f1_filtered"] == (result["f1"] if kept else None)


def test_the_filtered_f1_is_a_mean_over_the_questions_that_are_left() -> None:
    assert tasks.mean([1.0, None, 0.0, None]) == 0.5


# DROP


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "f1"),
    [
        ("19", ("19",), 1, 1),
        ("19.0", ("19",), 1, 1),
        ("1,900", ("1900",), 1, 1),
        ("19 points", ("19",), 0, 0.67),
        ("20 points", ("19 points",), 0, 0),  # the numbers must agree
        ("nineteen points", ("19 points",), 0, 0),
        ("the Bears", ("Bears",), 1, 1),
        ("Vik-Lund", ("Vik Lund",), 1, 1),
        ("Lund", ("Lund Vik Berg",), 0, 0.5),
        ("Lund", ("Vik", "Lund"), 1, 1),
        ("Lund Lund", ("Lund",), 0, 1),  # words are a set
    ],
)
def test_drop(answer: str, golds: tuple[str, ...], exact: float, f1: float) -> None:
    result = drop.process_results(doc(*golds), [answer])
    assert (result["exact_match"], result["f1"]) == (exact, f1)


# TriviaQA


@pytest.mark.parametrize(
    ("answer", "golds", "right"),
    [
        ("The Nile", ("Nile", "River Nile"), 1),
        ("river nile.", ("Nile", "River Nile"), 1),
        ("Quick-silver", ("quick silver",), 1),  # punctuation parts words
        ("Quick-silver", ("quicksilver",), 0),
        ("quick_silver", ("quick silver",), 1),
        ("\u2018Oslo\u2019", ("Oslo",), 1),
        ("Oslo, Norway", ("Oslo",), 0),
    ],
)
def test_triviaqa(answer: str, golds: tuple[str, ...], right: float) -> None:
    assert tasks.triviaqa(doc(*golds), [answer])["exact_match"] == right


# All of them

SCORERS = (tasks.squad, tasks.quac, tasks.triviaqa, drop.process_results)


def test_an_answer_in_which_nothing_was_found_is_wrong_whatever_the_gold() -> None:
    for scorer in SCORERS:
        result = scorer(doc("invalid"), ["[invalid]"])
        assert result.pop("unextracted") == 1
        assert set(result.values()) == {0.0}


@given(st.text(), st.lists(st.text().filter(str.strip), min_size=1, max_size=4))
def test_every_score_is_from_0_to_1_whatever_is_written(answer: str, golds: list[str]) -> None:
    for scorer in SCORERS:
        result = scorer(doc(*golds), [answer])
        assert all(isinstance(value, float) and 0 <= value <= 1 for value in result.values() if value is not None)


golds_of_texts = st.lists(
    st.text().filter(lambda text: text.strip() not in ("", tasks.NO_MATCH)), min_size=1, max_size=4
)


@given(golds_of_texts, st.randoms(use_true_random=False))
def test_the_order_of_correct_responses_is_nothing_and_the_gold_itself_is_right(
    golds: list[str], random: object
) -> None:
    shuffled = golds[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for scorer in SCORERS:
        assert scorer(doc(*golds), ["x y"]) == pytest.approx(scorer(doc(*shuffled), ["x y"]))
    assert tasks.triviaqa(doc(*golds), [shuffled[0]])["exact_match"] == 1
    if spans.normalise(shuffled[0]):
        assert tasks.squad(doc(*golds), [shuffled[0]])["exact_match"] == 1


@given(st.text(), st.text())
def test_f1_does_not_know_which_text_is_the_gold(text: str, other: str) -> None:
    assert spans.overlap(text, other) == pytest.approx(spans.overlap(other, text))
