"""Prepares a pack of any evals dataset: Meta's, a recorded run, or lm-eval's own tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from meta_eval.base.errors import ConfigError, UserError, locating
from meta_eval.base.logs import log, report_progress
from meta_eval.base.pack_names import split_excluded
from meta_eval.harness.clusters import check_fields
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.config import Config, ValuePlace
from meta_eval.pack.manifest import RecordEntry, read_manifest
from meta_eval.pack.margins import describe_margin, expand_margins
from meta_eval.pack.pack_builder import Pack, build_pack
from meta_eval.pack.pack_writer import check_target, write_pack
from meta_eval.pack.records.baseline_run import add_baseline, open_baseline
from meta_eval.pack.records.chat_template import Chat, read_chat_template
from meta_eval.pack.records.format import Place, Reading, Record, RecordFormat
from meta_eval.pack.records.format_registry import find_format, find_place
from meta_eval.pack.records.lm_eval_tasks import LM_EVAL, find_lm_eval_tasks, hash_requests, read_lm_eval_task
from meta_eval.pack.records.next_token_choices import add_next_token_choices
from meta_eval.pack.records.pack_task import choose_first_metric, list_filters, make_task
from meta_eval.pack.records.recorded_docs import describe_cut_answers
from meta_eval.pack.records.request_parity import CandidateTask, check_requests
from meta_eval.pack.records.run_selection import select_tasks
from meta_eval.pack.records.task_code import TaskCode, find_allowed_code, read_group
from meta_eval.pack.templates.template_folder import TemplateFolder
from meta_eval.plugins.boards.board_groups import find_board_groups
from meta_eval.plugins.meta import meta_pack as of_meta
from meta_eval.plugins.meta.catalog.dataset_names import SAMPLE
from meta_eval.plugins.meta.joins.original_reader import Originals
from meta_eval.plugins.meta.meta_pack import Prepared
from meta_eval.plugins.meta.published_numbers import make_recorded_number
from meta_eval.plugins.meta.task_preparation import PrepareContext, PreparedTask


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
    pack = _assemble(config, config_place)
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


def _assemble(config: Config, config_place: ValuePlace) -> Pack:
    """Build the pack of any evals dataset."""
    name = config.evals_dataset
    place = record_format = None
    if name not in (LM_EVAL, SAMPLE):
        place = find_place(name, revision=config.evals_revision, key="evals_dataset")
        record_format = find_format(place)
    if place is not None and record_format is not None:
        return _prepare_record(config, config_place, place, record_format)
    if config.evals_run is not None:
        raise ConfigError(
            f"{name} is not a folder of recorded runs", where=config_place.name_key("evals_run"), hint="Set it to null"
        )
    if name == LM_EVAL:
        return _prepare_tasks(config, config_place)
    if config.cluster:
        raise ConfigError(
            f"cannot be set for {name}: its templates define clusters",
            where=config_place.name_key("cluster"),
            hint="Set `cluster` in the template (metadata.meta_eval.cluster), or leave it out",
        )
    return of_meta.assemble_pack(config, config_place)


def _prepare_record(config: Config, config_place: ValuePlace, place: Place, record_format: RecordFormat) -> Pack:
    """Build the pack of a recorded run of any format."""
    report_progress(f"reading {config.evals_dataset}")
    where = config_place.name_key("tasks")
    if not config.bundle:
        raise ConfigError(
            "a recorded run must be in the pack", where=config_place.name_key("bundle"), hint="Set bundle: true"
        )
    if place.repository is None and config.evals_revision is not None:
        raise ConfigError(
            "names a hub commit, but the record is local",
            where=config_place.name_key("evals_revision"),
            hint="To choose among several runs, set evals_run",
        )
    with locating(where):
        record = record_format.open_run(place, config.evals_run, split_excluded(config.tasks)[0])
        names, groups = select_tasks(record, config.tasks)
    return _build_pack(
        config, config_place, names, groups, lambda name, context: recorded_task(record, name, context), record.groups
    )


def recorded_task(record: Record, name: str, context: PrepareContext) -> CandidateTask:
    """Make a task of a recorded run, with its grader.

    Raises:
        UserError: It cannot be asked or graded again.
    """
    report_progress(f"{name}: reading its answers")
    config, where = context.config, f"{record.name}, {name}"
    reading = Reading(Path(config.template_dir), config.allow_code, lambda: context.tokenizer)
    recorded = record.read(name, reading)
    grader = record.grader(name, recorded, reading)
    for warning in (*recorded.warnings, *filter(None, [describe_cut_answers(recorded.rows)])):
        log.warning(f"{name}: {warning}")
    entry = recorded.entry.model_copy(
        update={"grader_source": grader.code.source_label, "grader_version": grader.code.version}
    )
    specs = sorted(recorded.scores, key=lambda metric_key: metric_key != grader.primary_metric)
    published = [
        make_recorded_number(
            entry, metric_key, recorded.scores[metric_key].value, benchmark=recorded.benchmark,
            averaging=recorded.scores[metric_key].averaging,
        )
        for metric_key in specs
    ]  # fmt: skip

    def make(delimiter: str | None) -> PreparedTask:
        return make_task(
            grader.code, recorded.rows, entry, context, dataset_id=record.name, revision=recorded.revision,
            primary_metric=grader.primary_metric, filters=grader.filters, published=published, delimiter=delimiter,
        )  # fmt: skip

    return CandidateTask(make(grader.delimiter), recorded.rows, where, make)


def _prepare_tasks(config: Config, config_place: ValuePlace) -> Pack:
    """Build a pack of lm-eval's own tasks, without answers."""
    if not config.bundle:
        raise ConfigError(
            "docs of lm-eval's tasks must be in the pack",
            where=config_place.name_key("bundle"),
            hint="Set bundle: true",
        )
    with locating(config_place.name_key("tasks")):
        shots, groups = find_lm_eval_tasks(config.tasks, Path(config.template_dir))
    with locating(config_place.name_key("apply_chat_template")):
        chat = read_chat_template(config)

    def make(name: str, context: PrepareContext) -> CandidateTask:
        code = find_allowed_code(name, Path(config.template_dir), allow_code=config.allow_code)
        return _make_lm_eval_task(code, shots[name], context, chat)

    return _build_pack(config, config_place, list(shots), groups, make)


def _make_lm_eval_task(code: TaskCode, shots: int | None, context: PrepareContext, chat: Chat | None) -> CandidateTask:
    report_progress(f"{code.name}: asking lm-eval for its docs")
    rows, shots = read_lm_eval_task(code, shots, chat, context.config.system_instruction)
    entry = RecordEntry(
        model=None, time=None, results_file=None, lm_eval=None, backend=None, bos_text=chat.bos if chat else None,
        chat_template=chat is not None and chat.asked_as == "text", shots=str(shots), task_version=code.version,
        grader_source=code.source_label, grader_version=code.version,
    )  # fmt: skip
    revision = hash_requests(rows)

    def make(delimiter: str | None) -> PreparedTask:
        return make_task(
            code, rows, entry, context, dataset_id=LM_EVAL, revision=revision, primary_metric=choose_first_metric(code),
            filters=list_filters(code), published=(), delimiter=delimiter,
        )  # fmt: skip

    def postprocess(task: PreparedTask) -> PreparedTask:
        return add_next_token_choices(task, rows, code, context)

    return CandidateTask(make(None), rows, f"{LM_EVAL}, {code.name}", make, postprocess)


def _build_pack(
    config: Config,
    config_place: ValuePlace,
    names: Sequence[str],
    groups: Mapping[str, tuple[str, ...]],
    make: Callable[[str, PrepareContext], CandidateTask],
    record_groups: Mapping[str, tuple[str, ...]] | None = None,
) -> Pack:
    """Make the tasks, check that lm-eval builds the recorded requests, and leave out tasks that cannot be made.

    Args:
        config: What prepare was asked for.
        config_place: Where its values were written, for messages.
        names: The tasks.
        groups: The requested groups.
        make: Makes one task.
        record_groups: The groups of a record; their tasks may belong to a leaderboard.

    Raises:
        UserError: No task can be made.
    """
    for warning in find_backend(config.backend).find_warnings(config):
        log.warning(warning)
    with tempfile.TemporaryDirectory(prefix="meta-eval-record-") as scratch:
        folder = Path(scratch) / "groups"
        context = PrepareContext(config, TemplateFolder(folder, {}, {}), Originals())
        left_out = context.left_out
        candidates = list(left_out.make_each(names, lambda name: make(name, context)).values())
        check_fields(
            config.cluster, [candidate.task.name for candidate in candidates], config_place.name_key("cluster")
        )
        checked = check_requests(candidates, Path(scratch) / "pack", left_out)
        if record_groups is not None:
            entries = {candidate.task.name: candidate.task.entry.record for candidate in checked}
            shots = {name: record.shots if record else None for name, record in entries.items()}
            groups = {**groups, **find_board_groups(shots, record_groups)}
        context.templates = _groups_folder(folder, left_out.without(groups))
        return build_pack([candidate.postprocess(candidate.task) for candidate in checked], groups, context)


def _groups_folder(folder: Path, groups: Mapping[str, Sequence[str]]) -> TemplateFolder:
    """The YAML of groups, as the installed lm-eval averages them."""
    files = {}
    folder.mkdir(parents=True)
    for name in groups:
        text = read_group(name)
        if text is not None:
            file = PurePosixPath(f"{name}.yaml")
            (folder / file).write_text(text, encoding="utf-8")
            files[name] = file
    return TemplateFolder(folder, {}, files)
