"""Prepares a pack: of a record in any format, or of lm-eval's own tasks."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from meta_eval.base.errors import ConfigError, UserError, locating
from meta_eval.base.logs import log, report_progress
from meta_eval.harness.clusters import check_fields
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.config import Config, ValuePlace
from meta_eval.pack.manifest import Manifest, read_manifest
from meta_eval.pack.margins import describe_margin, expand_margins
from meta_eval.pack.pack_builder import Pack, build_pack
from meta_eval.pack.pack_writer import check_target, write_pack
from meta_eval.pack.prepared_task import PrepareContext
from meta_eval.pack.records.baseline_run import add_baseline, open_baseline
from meta_eval.pack.records.format_registry import explain_unreadable, find_format, find_place
from meta_eval.pack.records.lm_eval_source import LmEvalSource
from meta_eval.pack.records.lm_eval_tasks import LM_EVAL
from meta_eval.pack.records.request_parity import check_requests
from meta_eval.pack.records.task_source import TaskSource


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of prepare: the pack's manifest, and the folder as the user wrote it."""

    manifest: Manifest
    work_dir: str


def prepare_config(config: Config, config_place: ValuePlace) -> Prepared:
    """Make the pack of a configuration in its ``work_dir``.

    Args:
        config: What to evaluate.
        config_place: Where its values were written, for messages.

    Raises:
        UserError: Anything that the user can fix; work_dir is then as it was.
    """
    check_target(Path(config.work_dir))
    baseline = open_baseline(config, config_place)
    if config.evals_dataset != LM_EVAL:
        for key, default in (("apply_chat_template", False), ("system_instruction", None)):
            if getattr(config, key) != default:
                raise ConfigError(
                    f"the prompts of {config.evals_dataset} are used as recorded, without a chat template",
                    where=config_place.name_key(key),
                    hint=f"Set it to {'false' if default is False else 'null'}",
                )
    pack = _build(config, config_place, _open_source(config, config_place))
    if baseline:
        with locating(config_place.name_key("baseline")):
            pack = add_baseline(pack, baseline)
    if isinstance(config.margin, dict):
        with locating(config_place.name_key("margin")):
            expand_margins(config.margin, [*pack.manifest.tasks, *pack.manifest.left_out], pack.manifest.groups)
    _warn_of_new_rules(Path(config.work_dir), config)
    if left_out := pack.manifest.left_out:
        of = len(left_out) + len(pack.manifest.tasks)
        log.warning(
            f"{len(left_out)} of {of} tasks are left out; the reasons are in manifest.json: {', '.join(left_out)}"
        )
    report_progress(f"writing {config.work_dir}")
    write_pack(Path(config.work_dir), pack.files, pack.manifest)
    return Prepared(pack.manifest, config.work_dir)


def _warn_of_new_rules(work_dir: Path, config: Config) -> None:
    """Warn if the new pack decides otherwise than the old one: report applies its rules to earlier results too."""
    try:
        old_run = read_manifest(work_dir).run_settings
    except UserError:  # no manifest, or of an older version
        return
    changes = {
        "margin": (describe_margin(old_run.margin).removesuffix(" points"), describe_margin(config.margin)),
        "weights": (old_run.weights, config.weights),
    }
    for name, (old, new) in changes.items():
        if getattr(old_run, name) != getattr(config, name):
            log.warning(
                f"the {name} of {work_dir} {'changes' if name == 'margin' else 'change'} from {old} to {new}; `report` "
                "uses this for all results, also existing ones. A gate.yaml overrides it"
            )


def _open_source(config: Config, config_place: ValuePlace) -> TaskSource:
    """Open what ``evals_dataset`` names."""
    if config.evals_dataset == LM_EVAL:
        if config.evals_run is not None:
            raise ConfigError(
                f"{LM_EVAL} is not a folder of recorded runs",
                where=config_place.name_key("evals_run"),
                hint="Set it to null",
            )
        return LmEvalSource(config, config_place)
    place = find_place(config.evals_dataset, revision=config.evals_revision, key="evals_dataset")
    record_format = find_format(place)
    if record_format is None:
        raise explain_unreadable(config.evals_dataset, where="evals_dataset")
    return record_format.open_tasks(place, config, config_place)


def _build(config: Config, config_place: ValuePlace, source: TaskSource) -> Pack:
    """Make the tasks, check that lm-eval builds the recorded requests, and leave out tasks that cannot be made.

    Raises:
        UserError: No task can be made.
    """
    with locating(config_place.name_key("tasks")):
        names, groups = source.choose(config.tasks)
    for warning in find_backend(config.backend).find_warnings(config):
        log.warning(warning)
    with tempfile.TemporaryDirectory(prefix="meta-eval-record-") as scratch:
        context = PrepareContext(config)
        left_out = context.left_out
        candidates = list(left_out.make_each(names, lambda name: source.prepare(name, context)).values())
        check_fields(
            config.cluster, [candidate.task.name for candidate in candidates], config_place.name_key("cluster")
        )
        checked = check_requests(candidates, Path(scratch) / "pack", left_out)
        groups = left_out.without({**groups, **source.find_more_groups([candidate.task for candidate in checked])})
        tasks = [candidate.postprocess(candidate.task) for candidate in checked]
        if assumed := [task.name for task in tasks if task.entry.row_format == "assumed"]:
            log.warning(
                "the formats of these templates are assumptions, never compared with real rows. Check them with "
                f"`meta-eval verify` before you trust a score: {', '.join(assumed)}"
            )
        folder = source.read_folder(Path(scratch) / "groups", list(groups))
        return build_pack(tasks, groups, context, folder, source.list_originals())
