"""Prepares packs of Meta's evals datasets, from a configuration to a pack and the command that runs it.

In order: rows are fetched, read, checked and joined (`task_rows`), the template makes docs of them (`task_docs`), docs
are measured and the YAML is written (`task_preparation`), tasks are combined (`pack_builder`). `records/preparation.py`
writes the pack (`pack_writer`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog.dataset_names import SAMPLE, parse_variant
from meta_eval.plugins.meta.joins.original_reader import Originals
from meta_eval.plugins.meta.source.lookup import open_evals_dataset
from meta_eval.plugins.meta.task_docs import read_docs
from meta_eval.plugins.meta.task_preparation import PrepareContext, prepare_task
from meta_eval.plugins.meta.task_selection import Selection, find_withheld_tasks, select_tasks
from meta_eval.sockets import (
    NAMED,
    Config,
    ConfigError,
    Manifest,
    Pack,
    TemplateFolder,
    ValuePlace,
    assets,
    build_pack,
    find_backend,
    join_names,
    locating,
    log,
    read_templates,
    report_progress,
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of prepare: the pack's manifest, and the folder as the user wrote it."""

    manifest: Manifest
    work_dir: str


def assemble_pack(config: Config, config_place: ValuePlace) -> Pack:
    """Build the pack of one of Meta's evals datasets in memory; arguments and errors as of `meta_eval.prepare`."""
    report_progress(f"opening {config.evals_dataset}")
    datasets = open_evals_dataset(config.evals_dataset, revision=config.evals_revision)
    templates = read_templates(_template_dir(config))
    with locating(config_place.name_key("tasks")):
        selections, groups = select_tasks(templates, config.tasks, datasets, allow_code=config.allow_code)
    left_out = () if config.allow_code else find_withheld_tasks(templates, groups, datasets)
    if left_out:
        names = ", ".join(left_out)
        log.warning(f"left out, because they run model-written code and allow_code is false: {names}")
    _warn_about_model(config, selections)
    if not config.bundle:
        _check_on_hub(selections)

    originals = Originals(config.originals.by_join(), of_sample=config.evals_dataset == SAMPLE)
    context = PrepareContext(config, templates, originals)
    chosen = {selection.template.name: selection for selection in selections}
    tasks = context.left_out.make_each(
        chosen, lambda name: prepare_task(chosen[name].template, chosen[name].dataset, context)
    ).values()
    assumed = [task.name for task in tasks if task.entry.row_format == "assumed"]
    if assumed:
        log.warning(
            "the formats of these templates are assumptions, never compared with real rows. Check them with `meta-eval "
            f"verify` before you trust a score: {', '.join(assumed)}"
        )
    return build_pack(list(tasks), groups, context)


def make_first_doc(templates: TemplateFolder, selection: Selection) -> dict[str, Any]:
    """The first doc of a task, made as prepare makes it; a join reads its default original.

    Raises:
        UserError: Anything that the user can fix.
    """
    originals = Originals(of_sample=selection.dataset.kind == "sample")
    docs = read_docs(templates.root, selection.template, selection.dataset, originals, first=1)
    doc: dict[str, Any] = docs.table.to_pylist()[0]
    return doc


def _template_dir(config: Config) -> Path:
    path = Path(config.template_dir)
    default = type(config).model_fields["template_dir"].default
    if not path.exists() and config.template_dir == default:
        log.warning(f"{default} not found: using the shipped templates (`meta-eval init` copies them)")
        return assets.asset_path("meta_template")
    return path


def _check_on_hub(selections: Sequence[Selection]) -> None:
    """Raises:
    ConfigError: ``bundle: false`` needs rows on the hub, and they are not there.
    """
    for selection in selections:
        if selection.dataset.kind != "hub" and selection.template.spec.join is None:
            raise ConfigError(
                f"bundle: false leaves the rows on the hub, and {selection.dataset.dataset_id} is not there",
                hint="Set bundle: true, or evals_dataset to a hub id",
            )


def _warn_about_model(config: Config, selections: Sequence[Selection]) -> None:
    model = catalog.identify_dataset(f"{config.model_name}-evals")
    variant = model.variant or parse_variant(config.model_name)
    others = {
        selection.template.name: selection.template.spec.variants
        for selection in selections
        if variant is not None and variant not in selection.template.spec.variants
    }
    if others:
        named = "an instruct" if variant == "instruct" else "a base"
        meant = " and ".join(dict.fromkeys(itertools.chain(*others.values())))
        log.warning(
            f"{config.model_name} is the name of {named} model, and tasks have prompts for {meant} models: "
            f"{join_names(list(others), NAMED)}"
        )
    for identity in dict.fromkeys(s.dataset.identity for s in selections if s.dataset.kind != "sample"):
        if model.variant and identity.variant and model.variant != identity.variant:
            continue  # said above
        if model.model and identity.model and model.model != identity.model:
            log.warning(f"published numbers and recorded verdicts are from {identity.model}, not {model.model}")
    for warning in find_backend(config.backend).find_warnings(config):
        log.warning(warning)
