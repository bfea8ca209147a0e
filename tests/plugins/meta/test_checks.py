"""Checking rows: what stops with its key, what is only counted."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import make_row

from meta_eval.base.errors import DataError
from meta_eval.harness.families import list_bos_tokens
from meta_eval.plugins.meta.row_checks import CheckedRows, check_evals_rows, describe_warning
from meta_eval.plugins.meta.source.rows import RowPlace

BOS = list_bos_tokens()[0]

PLACE = RowPlace("my/evals", "mmlu_pro")


def check(rows: list[dict[str, Any]], output_type: str = "generate_until", needs_gold: bool = True) -> CheckedRows:
    return check_evals_rows(rows, PLACE, output_type=output_type, needs_gold=needs_gold)


def test_good_rows_pass_unchanged_without_a_warning() -> None:
    rows = [make_row("one"), make_row("two")]
    checked = check(rows)
    assert checked.rows == rows
    assert checked.warnings == {}


@pytest.mark.parametrize("column", ["input_question", "input_final_prompts", "input_question_hash"])
def test_a_missing_column_stops_and_is_named(column: str) -> None:
    rows = [make_row()]
    del rows[0][column]
    with pytest.raises(DataError, match=column):
        check(rows)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("input_question", 3),
        ("input_question", ["a text in a list"]),
        ("input_final_prompts_hash", ["0" * 64, None]),
        ("input_final_prompts", "not a list"),
        ("input_correct_responses", [1]),
        ("is_correct", "yes"),
        ("input_choice_list", ["A"]),
        ("eval_config", "x"),
    ],
)
def test_a_value_of_another_type_stops_with_row_and_hash(column: str, value: object) -> None:
    bad = make_row("two", **{column: value})
    with pytest.raises(
        DataError, match=rf"my/evals, subset mmlu_pro, row 1 \(question hash {bad['input_question_hash']}\)"
    ):
        check([make_row("one"), bad])


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("input_correct_responses", ["B", None], "holds None as item 1 and should be a list of strings"),
        ("input_final_prompts", [3], "holds 3 as item 0 and should be a list of strings"),
        ("input_choice_list", {"A": "3", "B": 3}, "holds 3 as item 'B' and should be a struct of strings"),
        ("input_choice_list", ["A"], "is list and should be a struct of strings"),
        ("input_correct_responses", "B", "is str and should be a list of strings"),
    ],
)
def test_an_item_of_another_type_is_named(column: str, value: object, words: str) -> None:
    with pytest.raises(DataError, match=rf"row 1 .*: column {column} {words}. Fix {column} of this row"):
        check([make_row("one"), {**make_row("two"), column: value}])


def test_structs_may_lack_keys() -> None:
    assert check([make_row(input_choice_list={"A": "x"}, eval_config={})]).warnings == {}


@pytest.mark.parametrize("prompt", ["", "  \n", BOS])
def test_an_empty_prompt_stops(prompt: str) -> None:
    with pytest.raises(DataError, match="empty prompt. Fix input_final_prompts of this row"):
        check([make_row(prompts=[prompt])])


def test_a_row_without_gold_stops_where_the_gold_is_needed() -> None:
    row = make_row(gold=[])
    with pytest.raises(DataError, match="no correct response.* Fix input_correct_responses of this row"):
        check([row])
    assert check([row], needs_gold=False).rows == [row]


def test_the_number_of_prompts_must_fit_the_task() -> None:
    several, single = make_row(prompts=["a A", "a B"]), make_row()
    with pytest.raises(DataError, match="2 prompts.* Fix input_final_prompts of this row"):
        check([several])
    with pytest.raises(DataError, match="1 prompt.* Fix input_final_prompts of this row"):
        check([single], output_type="multiple_choice")
    assert check([several], output_type="multiple_choice").rows == [several]


@pytest.mark.parametrize("column", ["input_question_hash", "input_final_prompts_hash"])
def test_one_differing_hash_among_good_ones_is_corruption(column: str) -> None:
    wrong: Any = "0" * 64 if column == "input_question_hash" else ["0" * 64]
    with pytest.raises(DataError, match=r"row 1 .*recorded SHA-256 0{64} \(1 of 3 differ\)"):
        check([make_row("a"), make_row("b", **{column: wrong}), make_row("c")])


def test_every_hash_differing_is_a_warning() -> None:
    checked = check([make_row(q, input_question_hash=hashlib.sha256(b"x" + q.encode()).hexdigest()) for q in "abc"])
    assert checked.warnings == {"question_hash_differs_in_every_row": 3}


def test_missing_hashes_verdicts_and_outputs_are_counted() -> None:
    row = make_row("a", input_question_hash=None, input_final_prompts_hash=None, correct=None)
    row["output_prediction_text"] = None
    warnings = check([row, make_row("b")]).warnings
    assert warnings == {"question_hash_missing": 1, "prompt_hash_missing": 1, "verdict_missing": 1, "output_missing": 1}


def test_a_choice_row_has_no_output_to_miss() -> None:
    assert check([make_row(prompts=["q A", "q B"], output=None)], output_type="multiple_choice").warnings == {}


def test_duplicate_prompts_are_kept_and_counted() -> None:
    checked = check([make_row("same"), make_row("same"), make_row("other")])
    assert len(checked.rows) == 3
    assert checked.warnings == {"duplicate_prompts": 1}


def test_duplicate_prompts_with_other_golds_are_counted() -> None:
    rows = [make_row("same", input_correct_responses=[gold]) for gold in "AAB"]
    assert check(rows).warnings == {"duplicate_prompts": 2, "duplicate_prompts_with_other_golds": 1}


def test_a_leading_bos_is_taken_off_after_the_hash_was_checked() -> None:
    checked = check([make_row(prompts=[BOS + BOS + "hello"]), make_row("other")])
    assert checked.rows[0]["input_final_prompts"] == ["hello"]
    assert checked.warnings == {"prompt_with_bos": 1}


def test_recorded_settings_are_collected() -> None:
    rows = [make_row("a"), make_row("b", eval_config={"max_gen_len": "512", "seed": None})]
    assert check(rows).recorded_settings == {"max_gen_len": ["1024", "512"], "num_few_shot": ["5"]}


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"token": "abc"}, {"token": ["…"]}),
        ({"note": f"hf_{'aB3' * 11}"}, {"note": ["…"]}),
        ({"client": {"api_key": "abc", "retries": 2}}, {"client": ["{'api_key': '…', 'retries': 2}"]}),
    ],
)
def test_recorded_settings_hold_no_credential(settings: dict[str, Any], kept: dict[str, list[str]]) -> None:
    assert check([make_row("a", eval_config=settings)]).recorded_settings == kept


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=2, unique=True), st.data())
def test_any_changed_question_among_good_rows_is_found(questions: list[str], data: st.DataObject) -> None:
    rows = [make_row(question, prompts=["p" + question]) for question in questions]
    check(rows)
    victim = data.draw(st.integers(0, len(rows) - 1))
    rows[victim]["input_question"] += "x"
    with pytest.raises(DataError, match=f"row {victim} "):
        check(rows)


def test_a_warning_is_a_sentence() -> None:
    rows = [make_row("a", correct=None), make_row("b")]
    for row in rows:
        del row["eval_config"]
    warnings = [describe_warning(key, count, len(rows)) for key, count in check(rows).warnings.items()]
    assert warnings == [
        "the evals dataset has no column eval_config",
        "1 of 2 rows have no recorded verdict, so verify has nothing to compare ours with",
    ]
