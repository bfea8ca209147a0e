"""BIG-Bench Hard: what is taken for the answer, and when it is right."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from golden import shipped
from rows import make_row
from template_modules import template_module

from meta_eval.pack.templates import Template

bbh = template_module("bbh/utils.py")
shared = template_module("_common/rows.py")
TASKS = shipped().tasks


@functools.cache
def filters() -> dict[str, Any]:
    from lm_eval.filters.extraction import RegexFilter

    steps = {pipeline["name"]: pipeline["filter"][0] for pipeline in TASKS["meta_bbh"].settings["filter_list"]}
    return {name: RegexFilter(regex_pattern=step["regex_pattern"]) for name, step in steps.items()}


def score(filter_name: str, output: str, gold: str) -> dict[str, Any]:
    ((extracted,),) = filters()[filter_name].apply([[output]], [{}])
    result: dict[str, Any] = bbh.process_results(shared.make_doc(make_row(gold=[gold], subtask="bbh.x")), [extracted])
    return result


@pytest.mark.parametrize(
    ("output", "gold", "right"),
    [
        ("So the answer is (B).", "(B)", 1),
        ("So the answer is (B)", "(B)", 1),  # cut off before the full stop
        ("So the answer is (B).\n\nQ: Next?\nA: the answer is (C).", "(B)", 1),
        ("So the answer is B.", "(B)", 0),
        ("So the answer is (b).", "(B)", 0),
        ("So the answer is -20.", "-20", 1),
        ("So the answer is 20.", "-20", 0),
        ("So the answer is 3.5.", "3.5", 1),
        ("So the answer is 35.", "3.5", 0),
        ("So the answer is ] > ).", "] > )", 1),
        ("So the answer is ) ) ).", "] > )", 0),
        ("So the answer is ] > ) .", "] > )", 1),
        ("So the answer is ant bee cow.", "ant bee cow", 1),
        ("So the answer is ant cow bee.", "ant bee cow", 0),
        ("the answer is not clear. So the answer is Yes.", "Yes", 0),  # the first one counts
        ("So The answer is Yes.", "Yes", 0),
        ("so Yes", "Yes", 0),
        ("", "invalid", 0),
        ("So the answer is invalid.", "invalid", 1),
    ],
)
def test_the_authors_comparison(output: str, gold: str, right: float) -> None:
    result = score("official", output, gold)
    assert (result["em"], result["em_macro"]) == (right, ("bbh.x", right))


@pytest.mark.parametrize(
    ("output", "gold", "recipe", "letter"),
    [
        ("So the answer is 20.", "-20", 1, 0),
        ("So the answer is ) ) ).", "] > )", 1, 0),
        ("So the answer is 3.5.", "3.5", 0, 0),  # up to the first full stop
        ("So the answer is (B)", "(B)", 0, 0),
        ("So the answer is .", "]", 0, 0),  # nothing, and of the gold punctuation leaves nothing
        ("I cannot say", "invalid", 0, 0),
    ],
)
def test_the_recipe_s_comparison_stays_but_for_answers_in_which_nothing_was_found(
    output: str, gold: str, recipe: float, letter: float
) -> None:
    result = score("strict-match", output, gold)
    assert (result["exact_match"], result["em"]) == (recipe, letter)


# Every task: nothing found is never right


def extracting() -> dict[str, Template]:
    """The tasks of which a pattern takes the answer, and a function of theirs scores it."""
    return {
        name: task
        for name, task in TASKS.items()
        if any(pipeline["filter"][0]["function"] == "regex" for pipeline in task.settings.get("filter_list") or ())
    }


@pytest.mark.parametrize("name", extracting())
def test_an_answer_in_which_nothing_was_found_is_wrong_even_where_the_gold_reads_like_it(name: str) -> None:
    task = extracting()[name]
    reference = task.settings["process_results"]
    module = template_module(f"{task.folder_of_key['process_results']}/{reference.module_file}")
    for gold in ("invalid", "[invalid]"):
        doc = {"gold": gold, "answers": [gold], "subtask_name": "x", "choices": None}
        result = getattr(module, reference.function)(doc, ["[invalid]"])
        assert result.pop("unextracted") == 1
        assert {value[1] if isinstance(value, tuple) else value for value in result.values()} == {0.0}
