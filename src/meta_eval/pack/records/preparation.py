"""Prepares a pack: of a record in any format, or of lm-eval's own tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.base.errors import ConfigError, DataError, UserError, locating
from meta_eval.base.garbage import collect_seldom
from meta_eval.base.inputs import noting_files
from meta_eval.base.logs import log, report_progress
from meta_eval.base.outputs import write_file
from meta_eval.harness.clusters import check_fields
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.config import Config, ValuePlace
from meta_eval.pack.manifest import Manifest, read_manifest
from meta_eval.pack.pack_builder import Pack, build_pack, check_target, write_pack
from meta_eval.pack.prepared_task import LeftOut, PrepareContext
from meta_eval.pack.records.format import LM_EVAL, Record
from meta_eval.pack.records.format_registry import explain_unreadable, find_format, find_place
from meta_eval.pack.records.record_source import open_record
from meta_eval.pack.records.recorded_docs import RecordedDoc
from meta_eval.pack.records.task_source import CandidateTask, TaskSource
from meta_eval.pack.source_files import collect_source_files
from meta_eval.pack.task_choice import describe_margin, expand_margins

if TYPE_CHECKING:
    from meta_eval.harness.evaluator import Evaluator


# Docs whose requests are held at a time, as in `meta_eval.ask.request_kinds`.
_CHUNK = 512


def check_requests(tasks: Sequence[CandidateTask], scratch: Path, left_out: LeftOut) -> list[CandidateTask]:
    """Have lm-eval build the requests of every doc, and compare each with the recorded request.

    Args:
        tasks: All of the pack. Those without recorded requests are not checked.
        scratch: An empty folder, for what lm-eval reads.
        left_out: Receives tasks with a different prompt or continuation, and tasks that cannot build their requests.

    Returns:
        The tasks with the recorded requests; some have another delimiter, because chat templates omit it.

    Raises:
        DataError: No task has the recorded requests.
    """
    if all(candidate.rows is None for candidate in tasks):
        return list(tasks)
    from meta_eval.harness.evaluator import Evaluator

    for candidate in tasks:
        for name, content in {**candidate.task.template_files, **candidate.task.files}.items():
            write_file(scratch / name, content)
    evaluator = Evaluator(scratch)
    checked = []
    for candidate in tasks:
        if candidate.rows is None:
            checked.append(candidate)
            continue
        report_progress(f"{candidate.task.name}: asking lm-eval for its requests")
        with left_out.task(candidate.task.name):
            _check(candidate, candidate.rows.rows, evaluator)
            checked.append(candidate)
    left_out.check(checked)
    return checked


def _check(candidate: CandidateTask, rows: Sequence[RecordedDoc], evaluator: Evaluator) -> None:
    try:
        task = evaluator.load(candidate.task.name)
    except UserError as error:
        raise DataError(
            f"lm-eval does not take these docs: {error.what}",
            where=candidate.where,
            hint="Install the lm-eval version of the record",
        ) from None
    (split, docs), *_ = task.dataset.items()
    delimiter = str(task.config.target_delimiter)
    fits = _fits(rows[0], _requests(evaluator, task, candidate, split, docs[:1]))
    if not fits and str(task.OUTPUT_TYPE) == "multiple_choice" and delimiter:
        task.config.target_delimiter = ""  # as under a chat template
        if candidate.rebuild and _fits(rows[0], _requests(evaluator, task, candidate, split, docs[:1])):
            candidate.task = candidate.rebuild("")
    for start in range(0, len(docs), _CHUNK):
        chunk = docs[start : start + _CHUNK]
        built: dict[int, list[Any]] = {}
        for instance in _requests(evaluator, task, candidate, split, chunk):
            built.setdefault(instance.doc_id, []).append(instance)
        for number in range(len(chunk)):
            row = rows[start + number]
            if not _fits(row, built.get(number, [])):
                raise _differs(row, start + number, built.get(number, []), candidate)


def _requests(evaluator: Evaluator, task: Any, candidate: CandidateTask, split: str, docs: Any) -> list[Any]:
    task.dataset = {split: list(docs)}
    return evaluator.instances(candidate.task.name, task)


def _built_requests(instances: Sequence[Any]) -> Iterator[tuple[str, ...]]:
    for instance in sorted(instances, key=lambda instance: instance.idx):
        yield tuple(text for text in instance.args if isinstance(text, str))


def _fits(row: RecordedDoc, instances: Sequence[Any]) -> bool:
    return list(_built_requests(instances)) == _recorded_requests(row)


def _recorded_requests(row: RecordedDoc) -> list[tuple[str, ...]]:
    if not row.continuations:
        return [(row.prompt,)]
    unconditional = [("", text) for text in row.continuations] if row.unconditional else []
    return [*zip(row.prompts or [row.prompt] * len(row.continuations), row.continuations, strict=True), *unconditional]


def _differs(row: RecordedDoc, number: int, instances: Sequence[Any], candidate: CandidateTask) -> DataError:
    built = list(_built_requests(instances))
    what = f"{len(built)} requests and {len(_recorded_requests(row))} were recorded"
    recorded = _recorded_requests(row)
    if len(built) == len(recorded):
        built_request, recorded_request = next(
            (request, other) for request, other in zip(built, recorded, strict=True) if request != other
        )
        if len(built_request) < len(recorded_request):  # a doc without text
            what = f"asks without a text, and {recorded_request[len(built_request)]!r:.80} was recorded"
        elif built_request[0] != recorded_request[0]:
            what = f"asks {built_request[0]!r:.80}, and {recorded_request[0]!r:.80} was recorded"
        else:
            what = f"continues with {built_request[1]!r:.80}, and {recorded_request[1]!r:.80} was recorded"
    return DataError(
        f"the installed task makes a different request: it {what}",
        where=f"{candidate.where}, doc {number} (question hash {row.question_hash})",
        hint="Install the lm-eval version of the record, or copy the task of that version into template_dir",
    )


@dataclass(frozen=True, slots=True)
class Prepared:
    """The result of prepare: the pack's manifest, the folder as the user wrote it, and the models besides the
    first."""

    manifest: Manifest
    work_dir: str
    other_models: tuple[str, ...] = ()


def prepare_config(config: Config, config_place: ValuePlace) -> Prepared:
    """Make the pack of a configuration in its ``work_dir``.

    Args:
        config: What to evaluate.
        config_place: Where its values were written, for messages.

    Raises:
        UserError: Anything that the user can fix; work_dir is then as it was.
    """
    check_target(Path(config.work_dir), config)
    if config.evals_dataset != LM_EVAL:
        for key, default in (("apply_chat_template", False), ("system_instruction", None)):
            if getattr(config, key) != default:
                raise ConfigError(
                    f"the prompts of {config.evals_dataset} are used as recorded, without a chat template",
                    where=config_place.name_key(key),
                    hint=f"Set it to {'false' if default is False else 'null'}",
                )
    with noting_files() as opened:
        baseline = _open_baseline(config, config_place)
        source = _open_source(config, config_place)
        pack = _build(config, config_place, source)
        if baseline:
            with locating(config_place.name_key("baseline")):
                from meta_eval.pack.records.baseline_run import add_baseline

                pack = add_baseline(pack, baseline)
    sources = collect_source_files(config, pack.manifest, opened, source.list_files())
    pack = Pack(pack.files, pack.manifest.model_copy(update={"sources": sources}))
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
    return Prepared(pack.manifest, config.work_dir, config.other_models)


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


def _open_baseline(config: Config, config_place: ValuePlace) -> list[Record]:
    """Open the records that ``baseline:`` names; empty without that key."""
    if not config.baseline:
        return []
    from meta_eval.pack.records.baseline_run import open_baseline

    return open_baseline(config, config_place)


def _open_source(config: Config, config_place: ValuePlace) -> TaskSource:
    """Open what ``evals_dataset`` names."""
    if config.evals_dataset == LM_EVAL:
        for key, kind in (("evals_run", "a folder of recorded runs"), ("evals_revision", "a dataset on the hub")):
            if getattr(config, key) is not None:
                raise ConfigError(f"{LM_EVAL} is not {kind}", where=config_place.name_key(key), hint="Set it to null")
        from meta_eval.pack.records.lm_eval_tasks import LmEvalSource

        return LmEvalSource(config, config_place)
    place = find_place(config.evals_dataset, revision=config.evals_revision, key="evals_dataset")
    record_format = find_format(place)
    if record_format is None:
        raise explain_unreadable(config.evals_dataset, where="evals_dataset")
    source = record_format.open_tasks(place, config, config_place)
    return source or open_record(record_format, place, config, config_place)


def _build(config: Config, config_place: ValuePlace, source: TaskSource) -> Pack:
    """Make the tasks, check that lm-eval builds the recorded requests, and leave out tasks that cannot be made.

    Raises:
        UserError: No task can be made.
    """
    with locating(config_place.name_key("tasks")):
        names, groups = source.choose(config.tasks)
    for warning in find_backend(config.backend).find_warnings(config):
        log.warning(warning)
    with collect_seldom(), tempfile.TemporaryDirectory(prefix="meta-eval-record-") as scratch:
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
