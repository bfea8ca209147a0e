"""Meta's evals datasets as a format of records.

In order: rows are fetched, read, checked and joined, the template makes docs of them (`task_docs`), docs are measured
and the YAML is written (`task_preparation`). The core combines the tasks and writes the pack.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from meta_eval.base.logs import report_progress
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.pack.config import Config, ValuePlace
from meta_eval.pack.manifest import OriginalEntry
from meta_eval.pack.pack_options import TEMPLATES
from meta_eval.pack.templates.spec import Variant
from meta_eval.pack.templates.template_folder import TemplateFolder
from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog.dataset_names import SAMPLE, Identity, is_other_family, parse_variant
from meta_eval.plugins.meta.config_keys import MetaKeys
from meta_eval.plugins.meta.joins.original_reader import Originals
from meta_eval.plugins.meta.source.card import is_data_file
from meta_eval.plugins.meta.source.lookup import is_hub_id, open_evals_dataset
from meta_eval.plugins.meta.task_docs import read_docs
from meta_eval.plugins.meta.task_preparation import MetaContext, prepare_task
from meta_eval.plugins.meta.task_selection import Selection, find_withheld_tasks, select_meta_tasks
from meta_eval.plugins.meta.templates import add_shipped_templates, open_templates
from meta_eval.sockets import GUESS, CandidateTask, ConfigError, Place, PrepareContext, RecordFormat, TaskSource, log


class MetaFormat(RecordFormat):
    """Meta's evals datasets on the hub or in a folder, and the embedded sample."""

    name = "meta"
    reads = "Meta's evals datasets (a snapshot, or files such as mmlu_pro.parquet)"
    words = (SAMPLE,)
    holds_runs = False

    def detect(self, place: Place) -> float:
        if place.name == SAMPLE:
            return 1
        if place.path is None:
            return 0
        if place.path.exists():
            from meta_eval.plugins.meta.source.local_folder import lists_subsets

            is_dataset = any(map(is_data_file, place.files)) or lists_subsets(place.path, place.files)
            return GUESS if is_dataset else 0
        return GUESS if is_hub_id(place.name) or catalog.identify_dataset(place.name).model else 0

    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> NoReturn:  # noqa: ARG002
        raise ConfigError(f"{place.name} holds no recorded run")

    def open_tasks(self, place: Place, config: Config, config_place: ValuePlace) -> TaskSource:
        name = place.name
        if config.evals_run is not None:
            raise ConfigError(
                f"{name} is not a folder of recorded runs",
                where=config_place.name_key("evals_run"),
                hint="Set it to null",
            )
        is_local = name == SAMPLE or (place.path is not None and place.path.exists())
        if config.evals_revision is not None and is_local:
            raise ConfigError(
                f"names a hub commit, but {name} is local",
                where=config_place.name_key("evals_revision"),
                hint="Set it to null",
            )
        if config.cluster:
            raise ConfigError(
                f"cannot be set for {name}: its templates define clusters",
                where=config_place.name_key("cluster"),
                hint="Set `cluster` in the template (metadata.meta_eval.cluster), or leave it out",
            )
        work_dir, template_dir = (Path(os.path.realpath(place)) for place in (config.work_dir, config.template_dir))
        if work_dir.is_relative_to(template_dir):
            raise ConfigError(
                f"{config.work_dir} lies in template_dir, so that its tasks would be templates, too",
                where=config_place.name_key("work_dir"),
                hint="Name a folder outside of it",
            )
        return MetaSource(config, config_place)


class MetaSource(TaskSource):
    """The tasks of the templates that an evals dataset has rows for."""

    def __init__(self, config: Config, config_place: ValuePlace) -> None:
        report_progress(f"opening {config.evals_dataset}")
        self._config, self._keys, self._place = config, config.read_keys(MetaKeys), config_place
        self._named = _warn_by_names(config)
        self._datasets = open_evals_dataset(config.evals_dataset, revision=config.evals_revision)
        self._templates = self._shipped = _open_templates(Path(config.template_dir))
        self._originals = Originals(self._keys.originals.by_join(), of_sample=config.evals_dataset == SAMPLE)
        self._own = MetaContext(self._templates, self._originals, self._keys.allow_unmatched)
        self._chosen: dict[str, Selection] = {}

    def choose(self, names: Sequence[str]) -> tuple[list[str], Mapping[str, tuple[str, ...]]]:
        allow_code = self._config.allow_code
        aliases = (alias for template in self._templates.tasks.values() for alias in template.spec.aliases)
        known = {*self._templates.tasks, *self._templates.groups, *aliases}
        if any(name.removeprefix("-") not in known for name in names):
            self._templates, self._shipped = add_shipped_templates(self._templates)
        selections, groups = select_meta_tasks(self._templates, names, self._datasets, allow_code=allow_code)
        withheld = () if allow_code else find_withheld_tasks(self._templates, groups, self._datasets)
        if withheld:
            log.warning(f"left out, because they run model-written code and allow_code is false: {', '.join(withheld)}")
        _warn_about_model(self._config, selections, self._named)
        if not self._config.bundle:
            _check_on_hub(selections, self._place.name_key("bundle"))
        self._chosen = {selection.template.name: selection for selection in selections}
        return list(self._chosen), groups

    def prepare(self, task: str, context: PrepareContext) -> CandidateTask:
        chosen = self._chosen[task]
        is_own = task in self._own.templates.tasks
        shared = self._own if is_own else replace(self._own, templates=self._shipped)
        return CandidateTask(prepare_task(chosen.template, chosen.dataset, context, shared))

    def read_folder(self, scratch: Path, groups: Sequence[str]) -> TemplateFolder:  # noqa: ARG002
        return self._templates

    def list_originals(self) -> Mapping[str, OriginalEntry]:
        return {
            name: OriginalEntry(id=rows.dataset_id, revision=rows.revision, fallback=rows.fallback)
            for name, rows in self._originals.read.items()
        }


def make_first_doc(templates: TemplateFolder, selection: Selection) -> dict[str, Any]:
    """The first doc of a task, made as prepare makes it; a join reads its default original.

    Raises:
        UserError: Anything that the user can fix.
    """
    originals = Originals(of_sample=selection.dataset.kind == "sample")
    docs = read_docs(templates.root, selection.template, selection.dataset, originals, first=1)
    doc: dict[str, Any] = docs.table.to_pylist()[0]
    return doc


def _open_templates(root: Path) -> TemplateFolder:
    if root == TEMPLATES and not root.exists():
        log.warning(f"./{root} not found: using the shipped templates (`meta-eval init` copies them)")
    return open_templates(root)


def _check_on_hub(selections: Sequence[Selection], where: str) -> None:
    """Raises:
    ConfigError: ``bundle: false`` needs rows on the hub, and they are not there.
    """
    for selection in selections:
        if selection.dataset.kind != "hub" and selection.template.spec.join is None:
            raise ConfigError(
                f"false leaves the rows on the hub, and {selection.dataset.dataset_id} is not there",
                where=where,
                hint="Set bundle: true, or evals_dataset to a hub id",
            )


def _identify_model(config: Config) -> Identity:
    return catalog.identify_dataset(f"{config.model_name}-evals")


def _find_variant(config: Config) -> Variant | None:
    return _identify_model(config).variant or parse_variant(config.model_name)


def _warn_by_names(config: Config) -> Identity:
    """Say where the model and the evals dataset do not fit, as their names tell: before anything is downloaded.

    Returns: The model of the evals dataset, as far as its name tells.
    """
    named = catalog.identify_dataset(catalog.find_canonical_id(config.evals_dataset))
    variant = _find_variant(config)
    if variant and named.variant and variant != named.variant:
        log.warning(
            f"{config.model_name} is the name of {_NAMED_VARIANT[variant]} model, and {config.evals_dataset} has "
            f"prompts for {named.variant} models"
        )
    else:
        _warn_about_identity(config, named)
    if named.variant == "instruct":
        _warn_about_family(config)
    return named


_NAMED_VARIANT: Mapping[Variant, str] = {"instruct": "an instruct", "pretrain": "a base"}


def _warn_about_family(config: Config) -> None:
    if is_other_family(config.model_name):
        log.warning(
            f"{config.model_name} is the name of no Llama, and the prompts are written in Llama 3's chat template: the "
            "model is asked in that, not in its own"
        )


def _warn_about_identity(config: Config, identity: Identity) -> None:
    model = _identify_model(config)
    if model.model and identity.model and model.model != identity.model:
        log.warning(f"published numbers and recorded verdicts are from {identity.model}, not {model.model}")


def _warn_about_model(config: Config, selections: Sequence[Selection], named: Identity) -> None:
    """Say where the model and the tasks do not fit, unless `_warn_by_names` has said it."""
    variant = _find_variant(config)
    others = {
        selection.template.name: selection.template.spec.variants
        for selection in selections
        if variant is not None and variant not in selection.template.spec.variants
    }
    if others and not named.variant:
        meant = " and ".join(dict.fromkeys(itertools.chain(*others.values())))
        log.warning(
            f"{config.model_name} is the name of {_NAMED_VARIANT[variant or 'instruct']} model, and tasks have prompts "
            f"for {meant} models: {join_names(list(others), NAMED)}"
        )
    if not named.variant and any("instruct" in selection.template.spec.variants for selection in selections):
        _warn_about_family(config)
    for identity in dict.fromkeys(s.dataset.identity for s in selections if s.dataset.kind != "sample"):
        if identity != named and not (variant and identity.variant and variant != identity.variant):
            _warn_about_identity(config, identity)
