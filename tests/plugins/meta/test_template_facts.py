"""What the shipped templates say of themselves: families, groups and published numbers, compared with the catalog."""

from __future__ import annotations

from golden import shipped
from marks import each

from meta_eval.pack.templates import Template
from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog import grader_validation

TASKS = shipped().tasks
ALL = {"instruct": "meta_instruct_all", "pretrain": "meta_pretrain_all"}
SECTIONS = {
    "meta_general", "meta_knowledge", "meta_reasoning", "meta_reading", "meta_maths", "meta_code", "meta_tools",
    "meta_long_context", "meta_multilingual",
}  # fmt: skip
each_task = each("task", TASKS.values())


@each_task
def test_every_family_of_a_task_has_its_subset(task: Template) -> None:
    for variant in task.spec.variants:
        for family in task.spec.families:
            assert task.spec.subset in catalog.list_subsets(family, variant)


@each_task
def test_a_task_is_in_the_group_of_all_and_in_a_section_for_all_its_families(task: Template) -> None:
    for family in task.spec.families:
        groups = {group for group in task.spec.groups if task.in_group(group, family)}
        assert {ALL[variant] for variant in task.spec.variants} == groups & set(ALL.values())
        assert groups & SECTIONS


@each_task
def test_the_dataset_that_a_template_names_is_of_its_family_and_variant(task: Template) -> None:
    dataset_id = task.settings["dataset_path"]
    identity = catalog.identify_dataset(dataset_id)
    assert catalog.is_listed(dataset_id)
    assert identity.family in task.spec.families
    assert identity.variant in task.spec.variants
    assert task.settings["dataset_name"] == f"{identity.model}-evals__{task.spec.subset}__details"


@each_task
def test_a_task_that_answers_published_numbers_answers_one_of_the_catalog(task: Template) -> None:
    models = [
        dataset.model
        for dataset in map(catalog.find_dataset, catalog.list_dataset_ids())
        if dataset and dataset.family in task.spec.families and dataset.variant in task.spec.variants
    ]
    known = [number for model in models for number in catalog.find_published(model, task.spec.subset)]
    # The others may stand in the __metrics subset of the evals dataset alone.
    assert not task.spec.published or any(
        wanted.averaging in (None, number.averaging) and wanted.benchmark in (None, number.benchmark)
        for wanted in task.spec.published
        for number in known
    )


@each_task
def test_a_published_number_belongs_to_a_metric_and_a_filter_of_the_task(task: Template) -> None:
    for wanted in task.spec.published:
        metric, _, name = wanted.metric.partition(",")
        assert metric in task.metrics
        assert name in task.filters


@each_task
def test_the_format_that_a_template_claims_is_what_its_rows_were_compared_with(task: Template) -> None:
    assert task.spec.row_format == grader_validation.find_format_status(task.name)
