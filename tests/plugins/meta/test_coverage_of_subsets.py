"""Every subset that Meta published is a task, for every family that has it, and the sample shows each distinct one."""

from __future__ import annotations

from golden import all_tasks, shipped
from marks import each
from places import GOLDEN

from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.source import sample

TASKS = shipped().tasks
PUBLISHED = sorted(
    {
        (identity.family, identity.variant, subset)
        for identity in map(catalog.identify_dataset, catalog.list_dataset_ids())
        for subset in catalog.list_subsets(str(identity.family), str(identity.variant))
    }
)


@each(("family", "variant", "subset"), PUBLISHED)
def test_a_published_subset_is_read_by_exactly_one_task(family: str, variant: str, subset: str) -> None:
    readers = [
        name
        for name, task in TASKS.items()
        if task.spec.subset == subset and variant in task.spec.variants and family in task.spec.families
    ]
    assert len(readers) == 1


def test_there_are_55_distinct_subsets_and_the_sample_has_them_all() -> None:
    distinct = {(variant, subset) for _, variant, subset in PUBLISHED}
    assert len(distinct) == 55
    assert {(part.identity.variant, subset) for part in sample.list_parts() for subset in part.subsets} == distinct


def test_every_task_has_golden_verdicts() -> None:
    assert set(all_tasks()) == set(TASKS) == {path.stem for path in GOLDEN.glob("*.jsonl")}
