"""The committed comparisons: true to themselves, bound to tasks that exist, and shown to the user."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from golden import shipped
from marks import each
from places import REPOSITORY
from pydantic import ValidationError

from meta_eval.pack.templates.spec import Template
from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog import grader_validation
from meta_eval.plugins.meta.catalog.grader_validation import Comparison, find_trust
from meta_eval.plugins.meta.listing import list_tasks

PAGE = REPOSITORY / "docs/plugins/meta/grader_validation.md"
TASKS = shipped().tasks
each_check = each("check", grader_validation.list_comparisons())


# Of a rule that was read off some of these.
MANY = {"answers": 1000, "agreed": 1000, "rest": []}


def a_check(**keys: Any) -> Comparison:
    return Comparison(
        **{
            "id": "x", "date": "2026-01-02", "subsets": {"pretrain": ["bbh"]}, "tasks": ["meta_bbh"], "aspect": "grading",
            "compared_with": "official scorer", "reference": "r", "source": "s", "real": True, "answers": 100,
            "agreed": 98, "command": "c", "rest": [{"count": 2, "why": "w"}], "metric": "em,official", **keys,
        }
    )  # fmt: skip


@each_check
def test_a_check_speaks_of_subsets_and_tasks_that_exist(check: Comparison) -> None:
    for variant, subsets in check.subsets.items():
        published = {s for family in ("3.1", "3.2", "3.3") for s in catalog.list_subsets(family, variant)}
        assert set(subsets) <= published
    for name in check.tasks:
        assert TASKS[name].spec.subset in {s for subsets in check.subsets.values() for s in subsets}


@each_check
def test_a_check_names_a_metric_of_its_tasks(check: Comparison) -> None:
    if check.metric is not None:
        metric, _, name = check.metric.partition(",")
        for task in check.tasks:
            assert metric in TASKS[task].metrics
            assert name in ("", *TASKS[task].filters)


@each_check
def test_the_command_of_a_check_runs_a_script_of_the_repository(check: Comparison) -> None:
    if check.command is not None:
        python, script, *_ = check.command.split()
        assert python == "python"
        assert script.startswith("tools/grader_validation/")
        assert (REPOSITORY / script).is_file()


@pytest.mark.parametrize(
    "keys",
    [
        {"rest": []}, {"rest": [{"count": 3, "why": "w"}]}, {"agreed": 101, "rest": []}, {"agreed": None}, {"command": None},
        {"metric": None}, {"held_out": {"answers": 101, "agreed": 98, "how": "h"}}, {"held_out": {"answers": 50, "agreed": 51, "how": "h"}},
    ],
    ids=[
        "not explained", "too much explained", "more agreed than compared", "half a count", "no command",
        "no metric", "more held out than compared", "more agreed than held out",
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="x"):
        a_check(**keys)


@pytest.mark.parametrize(
    ("keys", "proves"),
    [
        ({}, True),
        ({"metric": "em_macro,official"}, True),  # its mean over subtasks
        ({"metric": "em,flexible-extract"}, False),
        ({"metric": "exact_match,official"}, False),
        ({"answers": 99, "agreed": 99, "rest": []}, False),
        ({**MANY, "held_out": {"answers": 100, "agreed": 99, "how": "h"}}, True),
        ({**MANY, "held_out": {"answers": 100, "agreed": 97, "how": "h"}}, False),
        ({**MANY, "held_out": {"answers": 0, "agreed": 0, "how": "h"}}, False),
        ({"agreed": 97, "rest": [{"count": 3, "why": "w"}]}, False),
        ({"real": False}, False),
        ({"compared_with": "reference implementation"}, False),
        ({"aspect": "format"}, False),
    ],
    ids=[
        "official and real", "its macro average", "another filter", "another metric", "too few",
        "held out", "held out and too many differ", "none held out", "too many differ", "made up", "no official scorer",
        "format only",
    ],
)  # fmt: skip
def test_only_the_verdict_on_real_answers_under_an_official_scorer_proves_a_grader(
    keys: dict[str, Any], proves: bool
) -> None:
    assert a_check(**keys).proves("em,official") is proves


def test_the_list_of_tasks_says_what_the_verdict_of_each_was_compared_with() -> None:
    lines = {line.task: line for line in list_tasks(shipped(), None)}
    for name, line in lines.items():
        assert line.grading == grader_validation.describe_grading(name, TASKS[name].primary_metric)
        check = grader_validation.find_grading(name, TASKS[name].primary_metric)
        assert (check is None) == line.grading.startswith(("-", "grader of"))
        if check is not None and check.metric is not None:
            assert check.metric.replace("_macro,", ",") == TASKS[name].primary_metric
    assert grader_validation.describe_grading("my_own_task", "exact_match,none") == "-"


def test_real_answers_count_before_more_cases_made_up() -> None:
    task = "meta_mmlu__0_shot__cot"
    verdict = TASKS[task].primary_metric
    check = grader_validation.find_grading(task, verdict)
    assert check is not None
    assert check.real
    others = [other for other in grader_validation.list_task_comparisons(task) if other.judges_by(verdict)]
    assert max(other.evidence.answers for other in others) > check.evidence.answers


def test_what_was_compared_by_another_metric_earns_nothing() -> None:
    by_filter = {
        check.metric
        for check in grader_validation.list_task_comparisons("meta_gsm8k")
        if check.compared_with == "official scorer"
    }
    assert by_filter == {"exact_match,flexible-extract"}
    assert grader_validation.describe_grading("meta_gsm8k", "exact_match,flexible-extract").startswith("verified")
    assert grader_validation.describe_grading("meta_gsm8k", TASKS["meta_gsm8k"].primary_metric).startswith("compared")


def test_the_readme_counts_the_subsets_that_are_verified() -> None:
    verified = {
        (variant, TASKS[line.task].spec.subset)
        for line in list_tasks(shipped(), None)
        for variant in line.variants
        if line.grading.startswith("verified")
    }
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert f": {len(verified)} subsets *verified*" in " ".join(text.split())


def grader_of(task: Template) -> object:
    """What a verdict is made of: these keys of a task's YAML, and the modules that its template needs."""
    keys = (
        "output_type", "filter_list", "metric_list", "process_results", "process_docs", "doc_to_target", "doc_to_choice"
    )  # fmt: skip
    modules = sorted(str(file) for file in task.files if file.suffix == ".py")
    return repr((task.primary_metric, [task.settings.get(key) for key in keys], modules))


def test_a_task_that_was_never_compared_has_the_grader_of_one_that_was_if_there_is_one() -> None:
    compared = {name for name, task in TASKS.items() if grader_validation.find_grading(name, task.primary_metric)}
    graders = {name: grader_of(TASKS[name]) for name in TASKS}
    for name in TASKS:
        other = grader_validation.find_same_grader(name)
        if other is not None:
            assert name not in compared
            assert other in compared
            assert graders[other] == graders[name]
        elif name not in compared:
            assert graders[name] not in {graders[known] for known in compared}, f"{name}: add it to same_graders.yaml"


@pytest.mark.parametrize(
    ("task", "verdict", "trust"),
    [
        ("meta_math_hard", "final_em,none", "verified"),
        ("meta_gpqa", "exact_match,strict-match", "compared"),
        ("my_own", "acc,none", "never compared"),
        ("meta_math", "final_em,none", "with a verified grader"),
        ("meta_gpqa_cot", "exact_match,strict-match", "with a compared grader"),
        ("meta_math_hard", "other,none", "never compared"),
    ],
)
def test_how_far_verdicts_are_proven(task: str, verdict: str, trust: str) -> None:
    assert find_trust(task, verdict) == trust


def test_a_page_sorts_all_tasks_by_how_far_they_can_be_trusted() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("## How far each task can be trusted")[2]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert {row[0].strip("| `") for row in rows} == set(TASKS)
    kinds = [re.sub("`.*`", "", row[1]) for row in rows]
    assert list(dict.fromkeys(kinds)) == [
        "verified on real answers", "the verified grader of ", "compared on real answers", "compared on made-up cases",
        "the compared grader of ", "nothing to compare with",
    ]  # fmt: skip
    assert any(row[0] == "| `meta_math`" and row[1] == "the verified grader of `meta_math_hard`" for row in rows)
    named = {re.findall("`(.*)`", row[3])[0] for row in rows if row[3] != "-"}
    comparisons = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
    assert named <= {comparison["id"] for comparison in comparisons}
