"""Questions about long texts, needles in a haystack, and rewriting."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import make_row
from template_modules import template_module

long = template_module("long_context/utils.py")
spans = template_module("_common/spans.py")
rewriting = template_module("openrewrite/utils.py")

OPTIONS = {"A": "A copper lamp", "B": "On a roof", "C": "In a barn", "D": "Nobody"}
CHOICES = [{"key": key, "text": text} for key, text in OPTIONS.items()]


def doc(subtask: str | None, *golds: str, metrics: dict | None = None, options: dict | None = None) -> dict:
    row = make_row(gold=golds, subtask=subtask, output_metrics=metrics, input_choice_list=options)
    made: dict = long.make_doc(row)
    return made


# Which benchmark a doc is of


@pytest.mark.parametrize(
    ("subtask", "metrics", "kind"),
    [
        ("infinite_bench.longbook_qa", None, "span"),
        ("longbookqa", None, "span"),
        ("infinite_bench.longbook_choice", None, "choice"),
        ("InfiniteBench/En.MC", None, "choice"),
        ("InfiniteBench/En.QA", None, "span"),
        ("zero_shot_scrolls.quality", None, "choice"),
        ("zero_shot_scrolls.squality", None, "summary"),
        ("zero_shot_scrolls.qasper", None, "span"),
        (None, {"f1": 0.5, "em": 0.0}, "span"),
        (None, {"acc": 1.0}, "choice"),
        ("x.books", {"rougeL": 0.1, "rouge1": 0.2}, "summary"),
    ],
)
def test_the_subtask_or_else_the_recorded_metrics_tell(subtask: str | None, metrics: dict | None, kind: str) -> None:
    assert doc(subtask, "B", metrics=metrics)["kind"] == kind


def test_a_row_that_nothing_tells_of_is_refused_with_its_hash() -> None:
    with pytest.raises(ValueError, match=r"question hash \w+: neither the subtask 'x.books'"):
        doc("x.books", "B", metrics={"bleu": 1.0})


def test_a_choice_whose_gold_is_none_of_the_choices_is_refused_with_its_hash() -> None:
    with pytest.raises(ValueError, match=r"question hash \w+: none of \['the well'\]"):
        doc("x.quality", "the well", options=OPTIONS)


@pytest.mark.parametrize(
    ("subtask", "metrics", "score"),
    [
        ("x.qasper", {"f1": 0.5, "em": 0.0}, 0.5),
        ("x.quality", {"em": 1.0}, 1.0),
        ("x.squality", {"rouge1": 0.4, "rougeL": 0.3}, 0.3),
    ],
)
def test_meta_s_value_stands_as_score_beside_what_was_recorded(subtask: str, metrics: dict, score: float) -> None:
    assert json.loads(doc(subtask, "B", metrics=metrics)["recorded_metrics"]) == {**metrics, "score": score}


# Choices


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("B.", "B"),
        ("(B)", "B"),
        ("**B**", "B"),
        ("B. On a roof", "B"),
        ("B because of the roof", "B"),
        ("A", "A"),
        ("A. A copper lamp", "A"),
        ("The answer is C.", "C"),
        ("The answer is: **C**", "C"),
        ("Answer: (D)", "D"),
        ("A or B? The best answer is B", "B"),
        ("on a roof.", "B"),
        ("A copper lamp", "A"),  # the wording of a choice
        ("It must be C, I think", "C"),
        ("A dog barked", None),  # an article
        ("Bees", None),
        ("B or C", "B"),
        ("A or B", "A"),
        ("A is correct", "A"),
        ("The answer is a lamp", None),
        ("It is B or C", None),
        ("", None),
    ],
)
def test_a_text_makes_this_choice(text: str, letter: str | None) -> None:
    assert long.choice(text, CHOICES) == letter


@pytest.mark.parametrize("golds", [("B",), ("(B)",), ("On a roof",), ("On a roof", "B")])
def test_a_gold_may_be_the_letter_or_the_wording_of_a_choice(golds: tuple[str, ...]) -> None:
    made = doc("x.longbook_choice", *golds, options=OPTIONS)
    assert long.gold_letters(made) == {"B"}
    assert {"B", "On a roof"} <= set(long.accepted(made))
    assert [long.infinite_bench(made, [answer])["acc"] for answer in ("B", "On a roof", "C")] == [1, 1, 0]


def test_a_letter_in_the_wording_of_the_right_choice_is_no_letter_that_is_right() -> None:
    assert long.gold_letters(doc("x.longbook_choice", "Aunt B", "D")) == {"D"}


@pytest.mark.parametrize(
    ("answer", "official", "flexible"),
    [
        ("B", 1, 1),
        (" B. On a roof", 1, 1),
        ("B or C", 1, 1),
        ("Both", 1, 0),  # the first letter is what counts
        ("A or B", 0, 0),
        ("On a roof", 1, 1),
        ("on a roof", 0, 1),
        ("(B)", 0, 1),
        ("**B**", 0, 1),
        ('"B".', 1, 1),
        ("The answer is B", 1, 1),
        ("The answer is: B", 1, 1),
        ("The answer is On a roof", 1, 0),
        ("The answer is C, not B", 0, 0),
        ("The answer is (B)", 0, 1),
        ("The answer is", 0, 0),
        ("My option is B", 1, 1),
        ("Well, B is correct", 1, 1),
        ("It is not C but B", 0, 0),  # the first letter that stands alone
        ("It is AB or B", 0, 1),  # AB is taken for a letter
        ("It is on a roof", 0, 0),
        ("", 0, 0),
        (" \n", 0, 0),
    ],
)
def test_infinite_bench_counts_a_choice_as_its_script_does(answer: str, official: float, flexible: float) -> None:
    result = long.infinite_bench(doc("x.longbook_choice", "B", options=OPTIONS), [answer])
    assert (result["acc"], result["acc_flexible"]) == (official, flexible)
    assert result["score"] == result["acc"]


def test_an_answer_of_which_nothing_is_left_shares_nothing_with_such_a_gold() -> None:
    assert long.infinite_bench(doc("x.longbook_qa", "the"), ["a"])["f1"] == 0


# Several benchmarks in one subset


def test_each_doc_has_the_metric_of_its_benchmark_and_the_score() -> None:
    assert long.infinite_bench(doc("x.longbook_qa", "a big roof", "roof"), ["the roof"]) == {
        "score": 1.0, "f1": 1.0, "acc": None, "acc_flexible": None, "unextracted": 0.0,
    }  # fmt: skip
    assert long.scrolls(doc("x.quality", "C"), ["perhaps"]) == {
        "score": 0.0, "acc": 0.0, "f1": None, "rougeL": None, "rouge": None, "unextracted": 1.0,
    }  # fmt: skip
    summary = long.scrolls(doc("x.squality", "the lamp hides a map", "other"), ["the lamp hides it"])
    # Three words of five and four in a row, two pairs of four and three.
    assert summary["rougeL"] == summary["score"] == pytest.approx(6 / 9)
    assert summary["rouge"] == pytest.approx((6 / 9, 4 / 7, 6 / 9))


def test_a_mean_is_over_the_docs_that_have_the_metric() -> None:
    assert long.mean([1.0, None, 0.0, None]) == 0.5
    assert math.isnan(long.mean([None]))


def test_the_rouges_of_summaries_are_averaged_before_their_geometric_mean() -> None:
    assert long.geometric_mean([(1.0, 0.0, 0.5), None, (0.0, 1.0, 0.5)]) == pytest.approx(0.5)
    assert math.isnan(long.geometric_mean([None]))


def test_each_part_of_zero_scrolls_is_asked_for_as_many_tokens_as_meta_generated(tmp_path: Path) -> None:
    from golden import prepare_sample, replay

    prepare_sample(tmp_path / "pack", ["meta_zero_shot_scrolls"])
    limits: dict[str, set[int]] = {}
    for sample in replay(tmp_path / "pack", ["meta_zero_shot_scrolls"])["samples"]["meta_zero_shot_scrolls"]:
        arguments = sample["arguments"]
        settings = arguments["gen_args_0"]["arg_1"] if isinstance(arguments, dict) else arguments[0][1]
        limits.setdefault(sample["doc"]["kind"], set()).add(settings["max_gen_toks"])
        assert settings["until"] == []
    assert limits == {"choice": {64}, "summary": {64}, "span": {128}}


@pytest.mark.parametrize(
    ("subtask", "recorded", "limit"),
    [("x.quality", {}, 64), ("x.squality", {}, 64), ("x.qasper", {}, 128), ("x.qasper", {"max_gen_len": "32"}, 32)],
)
def test_a_limit_is_the_recorded_one_or_else_the_documented(subtask: str, recorded: dict, limit: int) -> None:
    (made,) = long.process_docs_with_limits([make_row(gold=["B"], subtask=subtask, eval_config=recorded)])
    assert made["max_gen_toks"] == limit


# Needles


@pytest.mark.parametrize(
    ("golds", "answer", "recall"),
    [
        (("4127", "9038"), "The numbers are 4127 and 9038.", 1),
        (("4127", "9038"), "9038, 4127", 1),
        (("4127", "9038"), "4127", 1 / 2),
        (("12", "7"), "7 and 127", 1 / 2),  # as whole words only
        (("dark green",), "Dark\n Green!", 1),
        (("dark green",), "green, dark", 0),
        (("oak", "oak"), "oak", 1),
        (("oak", "oak", "tin"), "oak", 1 / 2),
        (("oak",), "", 0),
    ],
)
def test_recall_is_the_share_of_the_needles_that_an_answer_holds(
    golds: tuple[str, ...], answer: str, recall: float
) -> None:
    result = long.needles(spans.make_doc(make_row(gold=golds, subtask="nih.2000")), [answer])
    assert result == {
        "recall": recall, "recall_macro": ("nih.2000", recall), "unextracted": float(not answer),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "exact", "contained"),
    [
        ("Climb the tower, at dawn.", 1, 1),
        ("climb the tower at dawn with a lamp", 0, 1),
        ("climb the tower", 0, 0),
        ("climb the tower at dawning", 0, 0),
        ("[invalid]", 0, 0),
    ],
)
def test_one_needle_is_given_exactly_or_contained(answer: str, exact: float, contained: float) -> None:
    result = long.haystack(spans.make_doc(make_row(gold=["climb the tower at dawn"])), [answer])
    assert (result["exact_match"], result["contained"]) == (exact, contained)


# Rewriting


@pytest.mark.parametrize(
    ("references", "output", "score"),
    [
        (("the cat slept",), "The cat slept!", 1),
        (("the cat slept",), "the dog slept", 2 / 3),
        (("the cat slept", "a dog barked"), "a dog barked", 1),
        (("the cats sleep",), "the cat slept", 1 / 3),  # no stemming
        (("the cat slept",), " ", 0),
    ],
)
def test_rouge_l(references: tuple[str, ...], output: str, score: float) -> None:
    made = spans.make_doc(make_row(gold=references))
    assert rewriting.process_results(made, [output]) == {
        "rougeL": pytest.approx(score), "unextracted": float(not output.strip()),
    }  # fmt: skip


@given(st.text(), st.lists(st.text().filter(str.strip), min_size=1, max_size=3))
def test_every_score_is_from_0_to_1_whatever_is_written(output: str, golds: list[str]) -> None:
    plain = spans.make_doc(make_row(gold=golds))
    scores = [rewriting.process_results(plain, [output]), long.haystack(plain, [output])]
    scores += [long.scrolls({**plain, "kind": kind}, [output]) for kind in ("choice", "span", "summary")]
    scores.append({"recall": long.needles(plain, [output])["recall"]})
    values = [value for result in scores for name, value in result.items() if name != "rouge" and value is not None]
    assert all(isinstance(value, float) and 0 <= value <= 1 for value in values)
