"""What is extracted of an answer that is a letter: after an assistant prefix, and at the end of a chain of thought.

Three tables of answers of our own, one a family of filters: what strict-match and what flexible-extract take of each.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
from golden import shipped
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import each
from template_modules import template_module

from meta_eval.pack.templates import FunctionRef

NONE = "[invalid]"  # lm-eval's word for it


@functools.cache
def filters(task: str) -> dict[str, Any]:
    import lm_eval.filters  # noqa: F401 (registers them)
    from lm_eval.api.registry import get_filter

    template = shipped().tasks[task]
    extractors = {}
    for pipeline in template.settings["filter_list"]:
        arguments = {key: value for key, value in pipeline["filter"][0].items() if key != "function"}
        if isinstance(reference := arguments.get("filter_fn"), FunctionRef):
            module = template_module((template.folder_of_key["filter_list"] / reference.module_file).as_posix())
            arguments["filter_fn"] = getattr(module, reference.function)
        extractors[pipeline["name"]] = get_filter(pipeline["filter"][0]["function"])(**arguments)
    return extractors


def extract(task: str, answer: str) -> tuple[str, str]:
    """What strict-match and flexible-extract make of it."""
    strict, flexible = (
        list(filters(task)[name].apply([[answer]], [{}])) for name in ("strict-match", "flexible-extract")
    )
    ((first,),) = strict
    ((second,),) = flexible
    return first, second


# Behind "The best answer is" of the prompt.

FOLLOWING = [
    (" B", "B", "B"),
    (" B.", "B", "B"),
    ("B", "B", "B"),
    ("\n\nB", "B", "B"),
    (" B\n\nB", "B", "B"),
    (" B. I hope it helps. A", "B", "B"),  # the first letter, not the last
    (" B) Paris", "B", "B"),
    (" B: Paris", "B", "B"),
    (" B, since A is too long", "B", "B"),
    (" B because it is", "B", "B"),
    (" A because it is", "A", "A"),
    (" A. A proton", "A", "A"),
    (" A is right", "A", "A"),
    (" **B**", NONE, "B"),
    (" __B__", NONE, "B"),
    (" *B*.", NONE, "B"),
    (" (B)", NONE, "B"),
    (" [B]", NONE, "B"),
    (" {B}", NONE, "B"),
    (' "B"', NONE, "B"),
    (" 'B'", NONE, "B"),
    (" “B”", NONE, "B"),
    (" «B»", NONE, "B"),
    (" 「B」", NONE, "B"),
    (" `B`", NONE, "B"),
    (" : B", NONE, "B"),
    (r" \(B\)", NONE, "B"),
    (r" \[B\]", NONE, "B"),
    (" $B$", NONE, "B"),
    (r" $\boxed{B}$", NONE, "B"),
    (r" \boxed{\text{B}}", NONE, "B"),
    (r" \boxed{\mathbf{(B)}}", NONE, "B"),
    (r" \textbf{B}", NONE, "B"),
    (" option B", "B", "B"),
    (" Option B.", "B", "B"),
    (" the option B", "B", "B"),
    (" **Option B**", "B", "B"),
    (" choice (B)", NONE, "B"),
    (" b.", NONE, "b"),
    (" b", NONE, "b"),
    (" (b)", NONE, "b"),
    (" a proton", NONE, NONE),  # an article
    (" A proton", NONE, NONE),
    (" a melhor resposta", NONE, NONE),
    (" Both", NONE, NONE),
    (" Both A and B", NONE, NONE),
    (" A or B", NONE, NONE),
    (" **A** and **B**", NONE, NONE),
    (" B/C", NONE, NONE),
    (" not B", NONE, NONE),
    (" Ça dépend", NONE, NONE),
    (" É B", NONE, NONE),
    (" H₂O", NONE, NONE),
    (" D2", NONE, NONE),
    (" D-glucose", NONE, NONE),
    (" C_3", NONE, NONE),
    (" C++", NONE, NONE),
    (" I'm not sure", NONE, NONE),
    (" I think so", NONE, NONE),
    (" E", NONE, "E"),  # no choice, and wrong
    (" टोक्यो", NONE, NONE),
    (" โตเกียว B", NONE, NONE),
    (" 42", NONE, NONE),
    ("", NONE, NONE),
    # The sentence said anew, in the languages of the multilingual tasks.
    (" The best answer is B.", "B", "B"),
    (" The correct answer is A.", "A", "A"),
    (" The correct answer is **B**", NONE, "B"),
    (" A resposta correta é B", "B", "B"),
    (" A resposta correta é a B.", "B", "B"),
    (" A resposta correta é (B)", NONE, "B"),
    (" A melhor resposta é A", "A", "A"),
    (" A alternativa correta é a letra C", "C", "C"),
    (" A letra D", "D", "D"),
    (" A resposta não é B", NONE, NONE),
    (" La respuesta correcta es B", "B", "B"),
    (" La mejor respuesta es la A.", "A", "A"),
    (" La opción correcta es: D", "D", "D"),
    (" La respuesta no es B", NONE, NONE),
    (" La bonne réponse est B", "B", "B"),
    (" La meilleure réponse est la D.", "D", "D"),
    (" La réponse C est correcte", "C", "C"),
    (" La risposta corretta è B", "B", "B"),
    (" La risposta migliore è la C", "C", "C"),
    (" L'opzione D", "D", "D"),
    (" Die richtige Antwort ist B", "B", "B"),
    (" Die beste Antwort lautet A.", "A", "A"),
    (" Antwort C", "C", "C"),
    (" Die Antwort ist nicht B", NONE, NONE),
    (" सही उत्तर B है", "B", "B"),
    (" सबसे अच्छा उत्तर A है।", "A", "A"),
    (" सही विकल्प: C", "C", "C"),
    (" A है", "A", "A"),
    (" คำตอบที่ถูกต้องคือ B", "B", "B"),
    (" คำตอบที่ดีที่สุดคือ A", "A", "A"),
    (" ข้อ C", "C", "C"),
]


@each(("answer", "strict", "flexible"), FOLLOWING)
@pytest.mark.parametrize("task", ["meta_arc_challenge_instruct", "meta_multilingual_mmlu_pt", "meta_mmlu_thai_chat"])
def test_the_letter_after_the_prefix(task: str, answer: str, strict: str, flexible: str) -> None:
    assert extract(task, answer) == (strict, flexible)


@each(("answer", "_", "flexible"), FOLLOWING)
def test_every_task_after_a_prefix_reads_as_flexibly(answer: str, _: str, flexible: str) -> None:
    letters = {
        extract(task, answer)[1]
        for task in ("meta_gpqa", "meta_mmlu_instruct", "meta_hellaswag_chat", "meta_mmlu_hindi_chat")
    }
    assert letters == {flexible}


@pytest.mark.parametrize(
    ("answer", "gpqa", "mmlu"),
    [
        (" B.", "B", "B"),
        (" B. I hope it helps", "I", "B"),
        (" B. The third", "T", "B"),
        (" A... no: B", "B", "B"),
        ("B", NONE, NONE),
        (" b", NONE, NONE),
        (" **B**", NONE, NONE),
        (" A resposta correta é B", "B", "B"),
        ("", NONE, NONE),
    ],
)
def test_the_recipes_patterns_after_a_prefix_stay(answer: str, gpqa: str, mmlu: str) -> None:
    assert (extract("meta_gpqa", answer)[0], extract("meta_mmlu_instruct", answer)[0]) == (gpqa, mmlu)


@settings(deadline=None)  # the first example loads the template
@given(st.text(" \n", max_size=3), st.sampled_from("ABCD"), st.text())
def test_a_letter_that_stands_alone_is_found_whatever_follows(space: str, letter: str, rest: str) -> None:
    after = f". {rest}"
    assert extract("meta_hellaswag_chat", space + letter + after) == (letter, letter)


# At the end of a chain of thought.

ANNOUNCED = [
    ("So: the best answer is C.", "C", "C"),
    ("The best answer is C", "C", "C"),
    ("The best answer is A. Wait, no.\n\nThe best answer is C.", "C", "C"),  # the last one
    ("The best answer is A.\n\nBEST ANSWER IS **C**.", "A", "C"),  # in other letters
    ("The best answer is C.\n\nThe best answer is none of the others.", "C", "C"),
    ("The best answer is C. I hope it is correct.", "C", "C"),
    ("The best answer is C, not A.", "C", "C"),
    ("The best answer is A because it is short.", "A", "A"),
    ("The best answer is I.", "I", "I"),
    ("The best answer is C and I am sure.", "C", "C"),
    ("The best answer is **C**.", NONE, "C"),
    ("**The best answer is C.**", "C", "C"),
    ("The best answer is __C__.", NONE, "C"),
    ("The best answer is (C).", NONE, "C"),
    ("The best answer is [C].", NONE, "C"),
    ("The best answer is: C", NONE, "C"),
    ("The best answer is\n\nC", NONE, "C"),
    ("The best answer is:\n\n**C. Water**", NONE, "C"),
    ('The best answer is "C".', NONE, "C"),
    ("The best answer is “C”.", NONE, "C"),
    ("The best answer is `C`.", NONE, "C"),
    ("The best answer is … C.", NONE, "C"),
    ("The best answer is - C", NONE, "C"),
    (r"The best answer is \(C\).", NONE, "C"),
    (r"The best answer is \[C\].", NONE, "C"),
    ("The best answer is $C$.", NONE, "C"),
    (r"The best answer is $\boxed{C}$.", NONE, "C"),
    (r"The best answer is \boxed{\text{C}}.", NONE, "C"),
    (r"The best answer is $\boxed{\textbf{(C)}}$", NONE, "C"),
    (r"The best answer is $\mathrm{C}$.", NONE, "C"),
    ("The best answer is option C.", NONE, "C"),
    ("The best answer is the option (C).", NONE, "C"),
    ("The best answer is **Option C: water**", NONE, "C"),
    ("The best answer is choice C.", NONE, "C"),
    ("THE BEST ANSWER IS C.", NONE, "C"),
    ("The best answer is c.", NONE, "c"),
    ("The best answer is (c).", NONE, "c"),
    ("The best answer is a proton.", NONE, NONE),
    ("The best answer is A proton.", "A", NONE),  # as the recipe has it
    ("The best answer is I think C.", "I", NONE),
    ("The best answer is I'm not sure.", "I", NONE),
    ("The best answer is None of these.", "N", NONE),  # as the recipe has it; wrong either way
    ("The best answer is D-glucose.", "D", NONE),
    ("The best answer is C_3.", "C", NONE),
    ("The best answer is A or B.", "A", NONE),
    ("The best answer is (A) and (B).", NONE, NONE),
    ("The best answer is not A.", NONE, NONE),
    ("The best answer is neither A nor B.", NONE, NONE),
    ("The best answer is [the_answer_letter].", NONE, NONE),
    ("The best answer is C. The best answer is unclear.", "C", "C"),
    # Other words, where the ones that were asked for are missing.
    ("The correct answer is C.", NONE, "C"),
    ("The final answer is $\\boxed{C}$.", NONE, "C"),
    ("**Answer:** (C)", NONE, "C"),
    ("The answer is C. No, the answer is D.", NONE, "D"),
    ("So option C is correct.", NONE, "C"),
    ("Therefore (C) is the best of them.", NONE, "C"),
    (r"Hence $\boxed{\text{C}}$.", NONE, "C"),
    ("It is water.\n\n**C.**", NONE, "C"),
    ("It is water.\n\n(C)\n", NONE, "C"),
    (r"The area is $\boxed{12}$.", NONE, NONE),
    ("Option A is wrong.", NONE, NONE),
    ("It is C.", NONE, NONE),
    ("A is too long and B is too short.", NONE, NONE),
    ("The answer is a proton.", NONE, NONE),
    ("", NONE, NONE),
]


@each(("answer", "strict", "flexible"), ANNOUNCED)
@pytest.mark.parametrize(
    "task", ["meta_gpqa_cot", "meta_gpqa_diamond", "meta_mmlu__0_shot__cot", "meta_mmlu_pro_instruct"]
)
def test_the_letter_that_ends_a_chain_of_thought(task: str, answer: str, strict: str, flexible: str) -> None:
    assert extract(task, answer) == (strict, flexible)


# Of a base model.


@pytest.mark.parametrize(
    ("answer", "strict", "flexible"),
    [
        (" It doubles. The answer is (C).", "C", "C"),
        ("The answer is (C).\n\nQ: What else? The answer is (D).", "C", "C"),  # the first one
        ("so the answer is (C): water", "C", "C"),
        ("The answer is C.", NONE, "C"),
        ("The answer is **(C)**.", "C", "C"),
        ("The answer is: (C)", NONE, "C"),
        (r"The answer is \(C\).", NONE, "C"),
        ("The answer is (c).", NONE, "c"),
        ("The answer is option C.", NONE, "C"),
        ("The answer is a proton.", NONE, NONE),
        ("The answer is January 22nd. The answer is (H).", "H", "H"),
        ("The answer is (B) and (D).", "B", NONE),
        ("The answer is (Left ventricle).", NONE, NONE),
        ("The answer follows.", NONE, NONE),
        ("", NONE, NONE),
    ],
)
def test_the_letter_of_a_base_model(answer: str, strict: str, flexible: str) -> None:
    if answer == "The answer is **(C)**.":
        strict = NONE  # the recipe's pattern knows no emphasis
    assert extract("meta_mmlu_pro_pretrain", answer) == (strict, flexible)


# Properties

DRESSES = [
    "{}",
    "**{}**",
    "({})",
    "`{}`",
    '"{}"',
    r"\({}\)",
    r"$\boxed{{{}}}$",
    r"\boxed{{\text{{{}}}}}",
    "option {}",
    ": {}",
]


@settings(deadline=None)
@given(st.sampled_from("ABCDEFGHIJ"), st.lists(st.sampled_from(DRESSES), min_size=1, max_size=3), st.text(max_size=20))
def test_a_letter_is_found_in_every_dress(letter: str, dresses: list[str], before: str) -> None:
    dressed = functools.reduce(lambda inner, dress: dress.format(inner), dresses, letter)
    assert extract("meta_gpqa_cot", f"{before}\nThe best answer is {dressed}.")[1] == letter
    assert extract("meta_gpqa", f" {dressed}.")[1] == letter


@settings(deadline=None)  # the first example loads the template
@given(
    st.text()
    | st.lists(st.sampled_from(["The best answer is ", "A", "b", "*", "\\boxed{", " or ", "option ", "\n", "("])).map(
        "".join
    )
)
def test_no_answer_makes_a_filter_fail(answer: str) -> None:
    for task in ("meta_arc_challenge_instruct", "meta_gpqa_diamond", "meta_mmlu_pro_pretrain"):
        for letter in extract(task, answer):
            assert letter == NONE or re.fullmatch("[A-Za-z]", letter)


@pytest.mark.parametrize(
    "answer", ["The best answer is " * 4000, " " * 60000, "\\boxed{" * 8000, "answer:" + "*" * 60000]
)
def test_long_answers_take_no_time(answer: str) -> None:
    import time

    start = time.process_time()
    for task in ("meta_arc_challenge_instruct", "meta_gpqa_diamond", "meta_mmlu_pro_pretrain"):
        extract(task, answer)
    assert time.process_time() - start < 1
