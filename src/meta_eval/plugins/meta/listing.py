"""Lists tasks with their catalog entries, for ``meta-eval tasks`` and docs/plugins/meta/tasks.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meta_eval.pack.templates.spec import Template
from meta_eval.pack.templates.template_folder import TemplateFolder
from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog import grader_validation
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.source.dataset import EvalsDataset
from meta_eval.plugins.meta.task_selection import explain_refusal


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task in a listing."""

    task: str
    """Its name."""

    subset: str
    """The details subset that it reads."""

    variants: tuple[str, ...]
    """``instruct``, ``pretrain``."""

    families: tuple[str, ...]
    """Llama families, ``3.1``."""

    groups: tuple[str, ...]
    """Its groups (for the family of the evals dataset, if given)."""

    shots: str
    """Published number of shots, ``5``; empty if nothing is published."""

    max_gen_toks: int
    """Tokens that an answer may have; 0 for choice tasks."""

    metric: str
    """The metric that is compared with the published score, or else the first."""

    join: str | None
    """The original dataset with the ground truth, or None."""

    published: tuple[tuple[str, float, str | None, bool], ...]
    """Scores as (model, percent, averaging, same_settings)."""

    row_format: str
    """seen, documented or assumed."""

    grading: str
    """Its grader validation: ``verified on 1,324 answers``, ``grader of meta_math_hard``, or ``-``."""

    def to_json(self) -> dict[str, Any]:
        numbers = [
            {"model": model, "value": value, "averaging": averaging, "same_settings": same}
            for model, value, averaging, same in self.published
        ]
        return {**asdict(self), "published": numbers}


def list_tasks(folder: TemplateFolder, datasets: Sequence[EvalsDataset] | None) -> list[TaskLine]:
    """List the tasks of a template folder, or only those that an evals dataset offers."""
    lines = []
    for template in sorted(folder.tasks.values(), key=lambda task: task.name):
        if datasets is None:
            listed = map(catalog.identify_dataset, catalog.list_dataset_ids())
            identities = [identity for identity in listed if _fits(template, identity)]
        else:
            identities = [part.identity for part in datasets if explain_refusal(template, part) is None][:1]
            if not identities:
                continue
        lines.append(_line(template, identities, every_family=datasets is None))
    return lines


def _fits(template: Template, identity: Identity) -> bool:
    return (
        identity.variant in template.spec.variants
        and identity.family in template.spec.families
        and template.spec.subset in catalog.list_subsets(identity.family, identity.variant)
    )


def _line(template: Template, identities: Iterable[Identity], *, every_family: bool) -> TaskLine:
    spec = template.spec
    numbers = [
        (identity.model, number)
        for identity in identities
        if identity.model
        for metric in spec.published
        for number in catalog.find_published(identity.model, spec.subset)
        if metric.averaging in (None, number.averaging) and metric.benchmark in (None, number.benchmark)
    ]
    families = {identity.family for identity in identities}
    groups = tuple(
        group for group in spec.groups if every_family or any(template.in_group(group, family) for family in families)
    )
    shots = sorted({number.shots for _, number in numbers if number.shots and number.same_settings})
    return TaskLine(
        task=template.name,
        subset=spec.subset,
        variants=spec.variants,
        families=spec.families,
        groups=groups,
        shots=" or ".join(shots),
        max_gen_toks=template.max_gen_toks,
        metric=spec.published[0].metric if spec.published else f"{template.metrics[0]},{template.filters[0]}",
        join=spec.join,
        published=tuple((model, n.value, n.averaging, n.same_settings) for model, n in numbers),
        row_format=spec.row_format,
        grading=grader_validation.describe_grading(template.name, template.primary_metric),
    )
