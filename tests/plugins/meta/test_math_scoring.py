"""Grading MATH answers: extraction, normalisation, the graders and what happens when one fails."""

from __future__ import annotations

import logging
import shutil
import sys
import threading
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
import pytest
from growth import check_growth
from hypothesis import example, given, settings
from hypothesis import strategies as st
from marks import each, few, thorough
from places import TEMPLATES, THOROUGH
from stack import stack_of
from template_modules import inner_module, load_module, template_module

TEMPLATE = TEMPLATES / "math_hard"


def template() -> ModuleType:
    return template_module("math_hard/utils.py")


def score(gold: str, output: str, *recorded: str) -> dict:
    """With Meta's recorded golds where they are given, else with the original's alone."""
    return template().process_results(
        {
            "gold": gold,
            "answers": list(recorded) or [gold],
            "subtask_name": "algebra",
            "input_question_hash": "ab12",
        },
        [output],
    )


def row(**changes: object) -> dict:
    made = {
        "input_question": "What is 3 + 4?",
        "input_final_prompts": ["<|begin_of_text|>Problem: What is 3 + 4?"],
        "input_question_hash": "ab12",
        "input_final_prompts_hash": ["cd34"],
        "subtask_name": None,
        "output_prediction_text": [r"It is $\boxed{7}$."],
        "is_correct": True,
        "input_correct_responses": ["7.00e+0"],
        "solution": r"First $\boxed{3}$, and then $3+4=\boxed{7}$.",
        "level": "Level 5",
        "type": "Algebra",
    }
    return made | changes


# Extraction


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (r"so $\boxed{7}$.", "7"),
        (r"first \boxed{3}, at last \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\text{of \{1, 2\}}}", r"\text{of \{1, 2\}}"),
        (r"\boxed{\left\{ 3 \right.}", r"\left\{ 3 \right."),
        (r"\boxed {7}", "7"),
        (r"so $\boxed 7$ it is", "7"),
        (r"so \(\boxed 7\) it is", "7"),
        (r"\boxed 12.", "12"),
        (r"\fbox{7}", "7"),
        (r"\fbox{7} or \boxed{8}", "8"),
        (r"\boxed{8} or \fbox{7}", "8"),
        (r"\boxed{7} but then \boxed{8", None),
        (r"\boxed{}", None),
        (r"\boxed", None),
        (r"\boxedx{7}", None),
        ("the answer is 7", None),
    ],
)
def test_the_last_box_is_the_answer(text: str, held: str | None) -> None:
    assert template().last_boxed(text) == held


# The recipe's equivalence


@each(
    ("gold", "answer"),
    [
        ("7", "7"),
        ("7", "x = 7"),
        ("7", "7.0"),
        (r"\frac{1}{2}", r"\frac12"),
        (r"\frac{1}{2}", "0.5"),
        (r"\frac{1}{72}", r"\frac1{72}"),
        (r"\frac{\pi}{2}", r"\dfrac\pi2"),
        (r"\sqrt[3]{2}", r"\sqrt[3]2"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        (r"2\pi r", r"2 r \pi"),
        (r"\left(0, \frac{1}{2}\right)", r"(0,\frac12)"),
        (r"\left[ 0, \infty \right)", r"[0,\infty)"),
        ("(3, 4)", r"(3,\,4)"),
        ("15", r"15\text{ square cm}"),
        ("15", r"15 \mbox{ feet}"),
        ("15", r"15\text{ cm}^2"),
        ("15", "15 cm^2"),
        ("15", r"15\,\mathrm{cm}"),
        ("90", r"90^\circ"),
        ("90", r"90^{\circ}"),
        ("10000", r"10,\!000"),
        ("10000", "10{,}000"),
        ("1250000.5", "1,250,000.5"),
        ("18.90", r"\$18.90"),
        ("18.9", r"$18.9$ dollars"),
        ("3,5", r"3 \text{ and } 5"),
        ("triangle", "a triangle"),
        (r"\text{(B)}", "(B)"),
        ("7", r"\fbox{7}"),
        (r"1\frac{12}{13}", r"\frac{25}{13}"),
        (r"x \le 3", r"x \leq 3"),
        (r"\sum_{k=1}^{4} k", "10"),
        (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5+2\sqrt{6}}"),
        (r"\cos 20^\circ", r"\sin 70^\circ"),
        ("2i", r"(1+i)^2"),
        (r"\frac13", r"0.\overline{3}"),
        (r"\left(\frac{1}{2}, 3\right)", r"(\dfrac{1}{2},3)"),
        (r"\left(\frac{1}{2}, 3\right)", "(0.5, 3)"),
        ("231_4", "231_{4}"),
        ("231_4", r"231_{\text{four}}"),
        ("231_4", "231"),
        ("231", "231_4"),
        (r"\begin{pmatrix} 1/2 \\ 3 \end{pmatrix}", r"\begin{bmatrix} \frac12 \\ 3 \end{bmatrix}"),
        (r"\begin{pmatrix} 1 & 2 \end{pmatrix}", r"\left[\begin{array}{cc} 1 & 2 \end{array}\right]"),
        (r"35\%", "35"),
        (r"35\%", "35%"),
        (r"35\%", r"35 \text{ percent}"),
        (r"(2,\infty)", r"(2,+\infty)"),
        ("12", r"12 \text{ apples}"),
        ("12", r"12~\mathrm{km}^2"),
        ("12", "12 marbles"),
        ("12", "12 miles per hour."),
        (r"4\sqrt{3}", r"4\sqrt{3}\text{ units}"),
        (r"12\pi", "12π"),
        (r"7\text{ a.m.}", "7:00 AM"),
        ("2x+3y=6", "4x+6y-12=0"),
        ("2x+3y=6", "6 = 3y+2x"),
        ("y=2x+3", "2x+3"),
        ("y=2x+3", "2x-y+3=0"),
        ("12", "a+b=12"),
        ("12", "12=x"),
        ("3,5", "5, 3"),
        ("3,5", "x=5, x=3"),
        (r"\{3,5\}", r"\{5,3\}"),
        (r"1\pm\sqrt{2}", r"1+\sqrt{2},1-\sqrt{2}"),
        (r"(-\infty,1)\cup(2,3]", r"(2,3]\cup(-\infty,1)"),
        (r"x \in [1,2]", "[1,2]"),
        ("x<5", "5>x"),
        (r"\text{north}", "North."),
        (r"\text{B, D}", r"\text{D},\text{B}"),
        ("abc", "cab"),
        ("11 2/3", r"\frac{35}{3}"),
    ],
)
def test_equal_answers_are_found_equal(gold: str, answer: str) -> None:
    assert score(gold, rf"Thus \boxed{{{answer}}}.")["exact_match"] == 1


@each(
    ("gold", "answer"),
    [
        ("7", "8"),
        ("1", r"\sum_{k=1}^{2020}\frac1k"),
        (r"\frac{1}{k}", r"\sum_{k=1}^{2020}\frac1k"),
        ("5", "5)"),
        ("5", "5 ] or 6"),
        ("b", "a + b"),
        (r"\frac{1}{2}", r"1\frac{1}{2}"),
        ("01", "0,1"),
        ("3", r"x \ge 3"),
        ("5", "x <= 5"),
        ("(1,2)", "(2,1)"),
        ("25", "5 cm^2"),
        (r"\text{cm}", r"\text{ft}"),
        ("7", r"\text{seven}"),
        ("2x+3y-6=0", "0"),
        ("2x+3y-6=0", "2x+4y-6=0"),
        ("0", "2x+3y-6=0"),
        ("2x+3y=6", "6"),
        ("[10,20]", "(10,20)"),
        ("(10,20]", "(10,20)"),
        ("[10,20]", "10,20"),
        (r"(-\infty,2)", r"(\infty,2)"),
        (r"\text{seat}", r"\text{east}"),
        ("seat", "east"),
        ("0.3", r"0.\overline{3}"),
        ("0.33", r"\frac13"),
        ("231_4", "231_5"),
        ("231_4", "45"),
        (r"\begin{pmatrix} 1 & 2 \end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{vmatrix} 1 \\ 2 \end{vmatrix}"),
        (r"7\text{ a.m.}", "7 p.m."),
        ("3,5", "3"),
        ("3,5,5", "3,3,5"),
        ("4", "4abc"),
        ("p-q", "q-p"),
        ("x<5", "x>5"),
        ("x<5", r"x \le 5"),
        (r"\sqrt{2}", "1.41421356"),
        ("2:1", "1:2"),
        ("12345678901234567890", "12345678901234567891"),
    ],
)
def test_different_answers_are_not_confused(gold: str, answer: str) -> None:
    result = score(gold, rf"Thus \boxed{{{answer}}}.")
    assert (result["exact_match"], result["ungraded"]) == (0, 0)


@pytest.mark.parametrize(
    "command",
    [r"\left(0,1\right)", r"\infty", r"\sqrt{2}", r"\theta ^2", r"\alpha + 1", r"\times 2", r"\footnote{s}"],
)
def test_the_normaliser_leaves_commands_whole(command: str) -> None:
    normal = template().equivalence.normalise(command)
    assert r"\le" not in normal
    assert normal == "".join(command.replace(r"\left", "").replace(r"\right", "").split())


def test_an_answer_of_units_alone_is_not_emptied() -> None:
    assert template().equivalence.normalise(" feet ") == "feet"


numbers = st.integers(0, 10**7).map(str)
atoms = st.one_of(
    numbers,
    st.sampled_from(["x", "y", r"\pi", r"\infty", r"\theta"]),
    st.tuples(numbers, numbers).map(lambda pair: rf"\frac{{{pair[0]}}}{{{pair[1]}}}"),
    numbers.map(lambda number: rf"\sqrt{{{number}}}"),
)
expressions = st.lists(atoms, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from(["+", "-", ","]).map(lambda sign: sign.join(parts))
)
units = st.sampled_from(["cm", "feet", "ft", "square inches", "hours", "dollars", "degrees", "square  units"])


@given(expressions)
def test_how_an_expression_is_dressed_does_not_matter(expression: str) -> None:
    normalise = template().equivalence.normalise
    plain = normalise(f"({expression})")
    assert normalise(rf"\left({expression}\right)") == plain
    assert normalise(f"$({expression})$") == plain
    assert normalise(rf"\text{{({expression})}}") == plain
    assert normalise(f" ( {expression} ) ") == plain


@given(expressions, units, st.sampled_from(["", "^2", "^{3}"]))
def test_units_do_not_matter(expression: str, unit: str, power: str) -> None:
    normalise = template().equivalence.normalise
    assert normalise(rf"({expression})\text{{ {unit}}}{power}") == normalise(f"({expression})")
    assert normalise(f"({expression}) {unit}{power}") == normalise(f"({expression})")


@given(st.integers(-(10**12), 10**12))
def test_groups_of_thousands_do_not_matter(number: int) -> None:
    normalise = template().equivalence.normalise
    assert normalise(f"{number:,}") == normalise(f"{number:,}".replace(",", "{,}")) == str(number)


@given(st.text(st.sampled_from("\\{}[]$^_=., ab12\n") | st.characters(), max_size=60))
def test_extraction_and_normalisation_take_any_text(text: str) -> None:
    utils = template()
    assert utils.equivalence.normalise(text) or not text.strip()
    answer = utils.last_boxed(rf"\boxed{{{text}}}")
    assert answer is None or answer == answer.strip() != ""


fragments = st.lists(
    st.sampled_from(
        [r"\frac", r"\sqrt", "{", "}", "(", ")", "1", "2", "x", "+", "^", ",", "=", r"\left", r"\text{", "$"]
    ),
    max_size=8,
).map("".join)


@settings(max_examples=40 if THOROUGH else 10, deadline=None)
@given(st.one_of(fragments, st.text(max_size=20)), st.booleans())
def test_no_output_raises(text: str, boxed: bool) -> None:
    result = score("7", rf"\boxed{{{text}}}" if boxed else text)
    assert result["exact_match"] in (0, 1)
    assert result["math_verify"] in (0, 1)


@settings(max_examples=25 if THOROUGH else 8, deadline=None)
@example("0", r"\frac{0}{0}")
@example("7", r"\frac{7}{1-1}")
@example("0", r"0-\infty")
@given(expressions, expressions)
def test_the_verdict_is_symmetric_and_reflexive(first: str, second: str) -> None:
    assert score(first, rf"\boxed{{{first}}}")["exact_match"] == 1
    one_way, other_way = score(first, rf"\boxed{{{second}}}"), score(second, rf"\boxed{{{first}}}")
    assert one_way["exact_match"] == other_way["exact_match"]


# math-verify, and what is counted beside the two verdicts


def test_math_verify_reads_the_whole_output() -> None:
    result = score("7", "The final answer is $7$.")
    assert (result["math_verify"], result["exact_match"], result["unextracted"]) == (1, 0, 1)


@pytest.mark.parametrize("recorded", ["1.21e+3", "1.21e+03"])
@pytest.mark.parametrize(("answer", "right"), [("1212", 1), ("1208", 1), (r"\frac{2416}{2}", 1), ("1216", 0)])
def test_an_exponent_may_be_written_with_a_zero(recorded: str, answer: str, right: int) -> None:
    assert score("1208", rf"\boxed{{{answer}}}", recorded)["final_em"] == right


@pytest.mark.parametrize(("gold", "answer"), [("0", r"\frac{0}{0}"), (r"\frac{0}{0}", "0"), ("5", r"5+\frac{0}{2-2}")])
def test_what_is_divided_by_zero_equals_no_number(gold: str, answer: str) -> None:
    assert score(gold, rf"\boxed{{{answer}}}")["exact_match"] == 0


@pytest.mark.parametrize(("gold", "answer", "opinion"), [("231_4", "231_5", 1), (r"35\%", "35", 0)])
def test_math_verify_is_its_own_opinion_right_or_wrong(gold: str, answer: str, opinion: int) -> None:
    result = score(gold, rf"$\boxed{{{answer}}}$")
    assert (result["math_verify"], result["exact_match"], result["ungraded"]) == (opinion, 1 - opinion, 0)


# What Meta published: its recorded golds have three digits


@pytest.mark.parametrize(
    ("gold", "recorded", "answer", "counts"),
    [
        (r"6\sqrt{7}", "1.59e+1", r"6\sqrt{7}", 1),
        (r"6\sqrt{7}", "1.59e+1", "15.9", 1),
        (r"6\sqrt{7}", "1.59e+1", "15.95", 0),
        ("1208", "1.21e+3", "1212", 1),
        ("1208", "1.21e+3", "x = 1{,}210", 1),
        ("1208", "1.21e+3", "1220", 0),
        (r"\frac{1}{5120}", "1.95e-4", r"\frac{1}{17280}", 1),  # less than half a hundredth off
        ("0.326", "3.26e-1", "0.328", 1),
        ("0.753", "7.53e-1", "0.759", 0),
        ("231_4", "2.31e+2", "2310_4", 0),
        ("2315_4", "2.32e+3", "2321_4", 1),  # its digits are read as they stand
        ("2315_4", "2.32e+3", "2321", 1),
        (r"1\frac12", "5.00e-1", r"1\frac{1}{2}", 1),  # a product to Meta: right as it stands, wrong as 3/2
        (r"1\frac12", "5.00e-1", r"\frac32", 0),
        ("2x+3y-6=0", "0", "x+y=0", 1),  # Meta keeps the right side
        ("0", "0", "1", 0),
        ("4,-2", "4.00e+0", "4, -2", 1),
        (r"\left[\frac{1}{8},3\right]", r"\le[1.25e-01,3]", "[0.125,3]", 1),
        (r"\left[\frac{1}{7},3\right]", r"\le[1.43e-01,3]", "[0.143,3]", 1),
        (r"\left[\frac{1}{7},3\right]", r"\le[1.43e-01,3]", "[0.143,3.001]", 0),
        (r"\left[\frac{1}{7},3\right]", r"\le[1.43e-01,3]", "(0.143,3]", 0),
        (r"\text{north}", "north", "north", 1),
        ("x^2-1", "x^2-1", "(x-1)(x+1)", 1),
        ("7", "7.00e+0", r"\frac{7}{0}", 0),
        ("7", "7.00e+0", "n", 0),
        ("1", "1.00e+0", r"\frac{2+P(1)}{P(1)+2}", 1),
    ],
)
def test_final_em_follows_the_recorded_gold(gold: str, recorded: str, answer: str, counts: int) -> None:
    assert score(gold, rf"$\boxed{{{answer}}}$", recorded)["final_em"] == counts


@pytest.mark.parametrize(("answer", "counts"), [("1208", 1), ("1208.0", 1), ("1212", 0)])
def test_without_a_recorded_gold_only_an_equal_answer_counts(answer: str, counts: int) -> None:
    doc = template().make_doc(row(solution=r"\boxed{1208}", input_correct_responses=None))
    result = template().process_results(doc, [rf"\boxed{{{answer}}}"])
    assert (result["final_em"], result["exact_match"]) == (counts, counts)


@given(st.integers(-(10**9), 10**9).filter(bool), st.integers(1, 10**6))
def test_every_fraction_counts_for_what_meta_records_of_it(top: int, bottom: int) -> None:
    recorded = f"{Decimal(top) / Decimal(bottom):.2e}"
    assert score("7", rf"\boxed{{\frac{{{top}}}{{{bottom}}}}}", recorded)["final_em"] == 1


fractions = st.fractions(max_denominator=10**6).filter(lambda value: abs(value) < 10**9)


@given(fractions, fractions)
def test_a_number_equals_itself_alone(first: Fraction, second: Fraction) -> None:
    def written(value: Fraction) -> str:
        return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"

    result = template().equivalence.equal(written(first), written(second), never)
    assert result.equal == (first == second)
    assert template().equivalence.equal(written(first), f"{first.numerator}/{first.denominator}", never).equal


polynomials = st.lists(st.integers(-20, 20), min_size=1, max_size=4).filter(any)


@given(polynomials, polynomials)
def test_polynomials_are_told_apart_without_algebra(first: list[int], second: list[int]) -> None:
    def written(terms: list[int], order: int) -> str:
        return "+".join(f"({c})x^{{{n}}}" for n, c in list(enumerate(terms))[::order])

    def trimmed(terms: list[int]) -> list[int]:
        return trimmed(terms[:-1]) if terms and not terms[-1] else terms

    grade = template().equivalence.equal(written(first, 1), written(second, -1), never)
    assert grade.equal == (trimmed(first) == trimmed(second))


def never(gold: str, answer: str) -> tuple[bool, str | None]:
    raise AssertionError(f"sympy was asked about {gold} and {answer}")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("(1,2)", "(1,3)"), (r"\sqrt{2}", r"\sqrt{3}"), ("x+1", "x+2"), ("7", r"\frac{14}{2}"), (r"\text{a}", "b")],
)
def test_what_numbers_decide_is_not_asked_of_sympy(gold: str, answer: str) -> None:
    template().equivalence.equal(gold, answer, never)


@pytest.mark.parametrize("part", few(["7", "1,000", r"\choose ", r"\over", "{", r"\frac", "(", r"\text{a}"], 3))
def test_an_answer_that_repeats_itself_takes_time_in_proportion(part: str) -> None:
    def compare(times: int) -> None:
        template().equivalence.equal("12345", part * times, lambda _, __: template().equivalence.Verdict(False, None))

    check_growth(partial(compare, 4000), partial(compare, 16_000), at_most=8, seconds=0.1)


def test_an_empty_output_is_wrong_and_unextracted() -> None:
    result = score("7", "")
    assert (result["exact_match"], result["math_verify"], result["unextracted"], result["ungraded"]) == (0, 0, 1, 0)


def test_the_macro_average_counts_every_subtask_the_same() -> None:
    items = [("algebra", 1.0), ("algebra", 1.0), ("algebra", 0.0), ["geometry", 0.0]]
    assert template().macro_average(items) == pytest.approx((2 / 3 + 0) / 2)


# Graders that fail

POWER_TOWER = "9^{9^{9^9}}"


def test_what_takes_too_long_is_wrong_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    utils = load_module(TEMPLATE / "utils.py")
    utils.LIMIT_S = 0.1
    with caplog.at_level(logging.WARNING):
        result = utils.process_results(
            {"gold": "7", "subtask_name": "algebra", "input_question_hash": "ab12"}, [rf"$\boxed{{{POWER_TOWER}}}$"]
        )
    assert (result["exact_match"], result["math_verify"], result["ungraded"]) == (0, 0, 1)
    assert "ab12" in caplog.text
    assert "0.1 s" in caplog.text


@thorough
def test_the_grader_works_on_after_a_kill_and_off_the_main_thread() -> None:
    grader = inner_module(TEMPLATE / "math_grader.py").Grader(limit_s=0.8)
    verdicts: list[object] = []

    def ask() -> None:
        verdicts.append(grader.grade("sympy", "7", POWER_TOWER).failure)
        verdicts.append(grader.grade("sympy", r"\frac{1}{2}", "0.5"))
        verdicts.append(grader.grade("math_verify", "7", "$7$"))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    grader.close()
    assert verdicts == ["no verdict within 0.8 s", (True, None), (True, None)]


def test_a_process_that_cannot_have_the_memory_is_a_failure_not_a_crash() -> None:
    grader = inner_module(TEMPLATE / "math_grader.py").Grader(limit_s=5.0, memory_bytes=1)
    verdict = grader.grade("sympy", "1", "2")
    grader.close()
    assert not verdict.equal
    assert verdict.failure


def test_an_antlr_that_sympy_refuses_stops_the_task_at_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "antlr4_python3_runtime-4.13.2.dist-info" / "METADATA"
    record.parent.mkdir()
    record.write_text("Metadata-Version: 2.1\nName: antlr4-python3-runtime\nVersion: 4.13.2\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ImportError, match=r'pip install .*"antlr4-python3-runtime==4\.11'):
        load_module(TEMPLATE / "utils.py")


# Docs


def test_the_doc_has_the_common_columns() -> None:
    docs = template().process_docs(datasets.Dataset.from_list([row(), row(subtask_name="math.geometry")]))
    assert docs[0] == {
        "question": "What is 3 + 4?",
        "prompt": "Problem: What is 3 + 4?",
        "gold": "7",
        "subtask_name": "Algebra",
        "choices": None,
        "input_question_hash": "ab12",
        "input_final_prompts_hash": ["cd34"],
        "recorded_output": r"It is $\boxed{7}$.",
        "recorded_is_correct": True,
        "recorded_metrics": None,
        "answers": ["7.00e+0"],
    }
    assert docs[1]["subtask_name"] == "math.geometry"


def test_a_solution_without_a_box_is_refused_with_its_hash() -> None:
    with pytest.raises(ValueError, match=r"ab12.*boxed"):
        template().make_doc(row(solution="It is 7."))


# Through lm-eval

FIXTURE = """
import datasets


def load(**kwargs):
    rows = {rows!r}
    return {{"latest": datasets.Dataset.from_list(rows)}}
"""


TOKENS = {"meta_math_hard": 5120, "meta_math": 512}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What lm-eval says of both tasks, and under ``asked`` what it asks the model for, by task."""
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    pack = tmp_path_factory.mktemp("math") / "pack"
    folder = pack / "math_hard"
    shutil.copytree(TEMPLATE.parent, folder.parent, ignore=shutil.ignore_patterns("__pycache__"))
    rows = [
        row(input_final_prompts=["right"], type="Algebra"),
        row(input_final_prompts=["right too"], type="Algebra"),
        row(input_final_prompts=["wrong"], type="Geometry"),
        row(input_final_prompts=["no box"], type="Geometry"),
    ]
    (folder / "fixture.py").write_text(FIXTURE.format(rows=rows))
    for path in folder.glob("*.yaml"):
        path.write_text(path.read_text() + "custom_dataset: !function fixture.load\n")
    answers = {"right": r"\boxed{7}", "right too": r"$\boxed{\frac{14}{2}}$", "wrong": r"\boxed{8}", "no box": "7"}
    asked: dict[str, Any] = {}

    class Answering(LM):
        def generate_until(self, requests: list, disable_tqdm: bool = False) -> list[str]:
            asked.update((request.task_name, request.args[1]) for request in requests)
            return [answers[request.args[0]] for request in requests]

        def loglikelihood(self, requests: list) -> list:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    manager = TaskManager(include_path=str(pack), include_defaults=False)
    evaluation: dict[str, Any] = lm_eval.simple_evaluate(
        model=Answering(), tasks=list(TOKENS), task_manager=manager, bootstrap_iters=0
    )
    return {**evaluation, "asked": asked}


@pytest.mark.parametrize(("task", "tokens"), TOKENS.items())
def test_lm_eval_loads_the_task_and_scores_with_it(task: str, tokens: int, evaluated: dict[str, Any]) -> None:
    scores = evaluated["results"][task]
    assert {name: scores[f"{name},none"] for name in ("exact_match", "exact_match_macro", "math_verify")} == {
        "exact_match": 0.5,
        "exact_match_macro": 0.5,
        "math_verify": 0.75,
    }
    assert scores["final_em,none"] == 0.5
    assert (scores["unextracted,none"], scores["ungraded,none"]) == (0.25, 0)
    assert evaluated["higher_is_better"][task] == {
        "exact_match": True,
        "exact_match_macro": True,
        "final_em": True,
        "math_verify": True,
        "unextracted": False,
        "ungraded": False,
    }
    assert evaluated["asked"][task] == {"until": [], "do_sample": False, "temperature": 0, "max_gen_toks": tokens}


DEEP = {
    "a sum": lambda n: "1" + "+1" * n, "factorials": lambda n: "x" + "!" * n, "functions": lambda n: r"\sin" * n + "x",
    "brackets": lambda n: "(" * n + "x" + ")" * n, "minuses": lambda n: "-" * n + "x", "powers": lambda n: "2^" * n + "x",
    "braces": lambda n: "{" * n + "x" + "}" * n, "roots": lambda n: "sqrt(" * n + "x" + ")" * n,
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
def test_what_is_read_does_not_depend_on_the_stack_of_a_python(name: str) -> None:
    values = inner_module(TEMPLATE / "values.py")
    for count in (20, 60, 99, 130, 199, 390):
        found = []
        for frames in (700, 9000):
            values.read.cache_clear()
            with stack_of(frames):
                tree = values.read(DEEP[name](count))
                found.append((tree, tree and values.names(tree)))
        assert found[0] == found[1], count
