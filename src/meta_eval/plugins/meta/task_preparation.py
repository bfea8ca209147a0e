"""Prepares a task of a pack: measures its docs, rewrites its YAML, and fills its manifest entry."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from meta_eval.base import assets
from meta_eval.base.errors import TemplateError
from meta_eval.base.hashing import hash_bytes
from meta_eval.base.inputs import read_text
from meta_eval.base.secrets import holds_secret
from meta_eval.pack.doc_table import encode_parquet
from meta_eval.pack.manifest import JoinEntry, ReferenceScoreEntry, TaskEntry, TextDifferenceEntry
from meta_eval.pack.prepared_task import measure_length
from meta_eval.pack.punkt import INSTRUCTIONS, need_punkt
from meta_eval.pack.records.next_token import score_by_next_token
from meta_eval.pack.templates import task_yaml
from meta_eval.pack.templates.checks import check_functions
from meta_eval.pack.templates.spec import Template
from meta_eval.pack.templates.template_folder import TemplateFolder, locate_file
from meta_eval.plugins.meta.catalog.grader_validation import find_trust
from meta_eval.plugins.meta.choice_tokens import add_choice_tokens, needs_choice_tokens
from meta_eval.plugins.meta.joins.join import Joined
from meta_eval.plugins.meta.joins.original_reader import Originals
from meta_eval.plugins.meta.published_numbers import find_known_gaps, find_published_numbers, read_published_metrics
from meta_eval.plugins.meta.row_checks import describe_warning
from meta_eval.plugins.meta.source.dataset import EvalsDataset
from meta_eval.plugins.meta.source.rows import SourceRow
from meta_eval.plugins.meta.task_docs import TaskDocs, read_docs
from meta_eval.sockets import PrepareContext, PreparedTask, locating, log, read_regular

if TYPE_CHECKING:
    pass


@dataclass
class MetaContext:
    """What the tasks of a pack of an evals dataset share besides. Each part is read once."""

    templates: TemplateFolder
    """The template folder."""

    originals: Originals
    """The original datasets that the joins read."""

    allow_unmatched: bool = False
    """Whether rows without an original are left out."""

    _metrics: dict[int, list[SourceRow]] = field(default_factory=dict)

    def metrics(self, dataset: EvalsDataset) -> list[SourceRow]:
        """The scores that an evals dataset contains."""
        if id(dataset) not in self._metrics:
            self._metrics[id(dataset)] = read_published_metrics(dataset)
        return self._metrics[id(dataset)]


def prepare_task(
    template: Template, dataset: EvalsDataset, context: PrepareContext, shared: MetaContext
) -> PreparedTask:
    """Fetch, check and join the rows of a task, make its docs, measure them, and rewrite its YAML.

    Raises:
        UserError: Anything that the user can fix.
    """
    config, spec, root = context.config, template.spec, shared.templates.root
    check_functions(functools.partial(locate_file, root), template.settings, template.folder_of_key, template.file)
    docs_file = _docs_file(template) if config.bundle or spec.join is not None else None
    next_token = _is_choice(template) and config.choice_scoring == "next_token"
    counts = needs_choice_tokens(template) and not next_token
    docs = read_docs(
        root, template, dataset, shared.originals, allow_unmatched=shared.allow_unmatched,
        written=docs_file is not None and not next_token and not counts,
    )  # fmt: skip
    join = _join_entry(template, docs.joined, docs.matched)
    published = _published(template, dataset, docs, shared)
    warnings = _warnings(docs)
    _log_warnings(template, warnings, docs)
    token, kept_likelihood = None, None
    if next_token:
        token, kept_likelihood = score_by_next_token(
            template, docs.table, config, functools.partial(locate_file, root), bundled=docs_file is not None
        )
    table = token.docs if token else docs.table
    if needs_choice_tokens(template) and token is None:
        table = add_choice_tokens(template, table, config)
    longest = measure_length(template, docs.table, context)
    content = docs.content.result() if docs.content else encode_parquet(table) if docs_file else b""
    files = _files(template, dataset, shared.templates, docs, docs_file, content)
    if token is not None:
        files |= token.files(files, template)
    entry = TaskEntry(
        template=template.file.as_posix(),
        model=dataset.identity.model,
        family=dataset.identity.family,
        variant=dataset.identity.variant,
        dataset_id=dataset.dataset_id,
        dataset_revision=dataset.revision,
        dataset_config=dataset.config_name(spec.subset),
        subset=spec.subset,
        output_type="generate_until" if token else template.output_type,
        choice_scoring=("next_token" if token else "likelihood") if _is_choice(template) else None,
        likelihood_reason=kept_likelihood,
        rows=docs.rows,
        docs=table.num_rows,
        docs_file=docs_file,
        columns=tuple(table.column_names),
        join=join,
        warnings=warnings,
        recorded_settings={key: tuple(values) for key, values in docs.checked.recorded_settings.items()},
        longest_prompt=longest,
        reference_scores=published,
        row_format=spec.row_format,
        filters=template.filters,
        primary_metric=template.primary_metric,
        recorded_metric=spec.recorded_metric,
        is_correct_metric=spec.is_correct_metric,
        graded_by=spec.graded_by,
        min_agreement=template.min_agreement,
        unsafe_code=template.unsafe_code,
        asked_as=spec.asked_as,
        answer=spec.answer,
        known_gaps=find_known_gaps(template, dataset.identity),
        trust=None if dataset.kind == "sample" else find_trust(template.name, template.primary_metric),
        invented=dataset.kind == "sample",
    )
    template_files = {file.as_posix(): _read_file(root, file) for file in template.files}
    is_ifeval = INSTRUCTIONS in entry.columns
    needs = is_ifeval and need_punkt(table.column(INSTRUCTIONS).to_pylist())
    return PreparedTask(template.name, entry, template_files, files, is_ifeval, needs)


def _read_file(root: Path, file: PurePosixPath) -> bytes:
    """A file of the template folder as it goes into the pack.

    Raises:
        TemplateError: It holds a credential.
    """
    place = locate_file(root, file)
    content = read_regular(place)
    if holds_secret(content.decode("utf-8", "replace")):
        hint = "Take it out, and read it from the environment where it is needed"
        raise TemplateError("holds a credential, and packs are passed on", where=str(place), hint=hint)
    return content


def _join_entry(template: Template, joined: Joined | None, matched: int) -> JoinEntry | None:
    if joined is None or template.spec.join is None:
        return None
    for digest, kind in joined.left_out:
        log.warning(f"{template.name}: left out, {kind}: question hash {digest}")
    if joined.normalised:
        log.warning(
            f"{template.name}: {len(joined.normalised)} rows match their originals only after Unicode and white-space "
            "normalisation; the manifest lists them"
        )
    for pair in joined.known_differences:
        log.warning(
            "%s: the text of %s differs from the original (question hash %s); known to be the same row: %s",
            template.name,
            pair.difference.name,
            pair.question_hash,
            pair.difference.why,
        )
    return JoinEntry(
        original=template.spec.join,
        matched=matched,
        matched_normalised=joined.normalised,
        unmatched=joined.left_out,
        known_text_differences=tuple(
            TextDifferenceEntry(
                name=pair.difference.name,
                question_hash=pair.question_hash,
                text_sha256=pair.text_sha256,
                original_sha256=pair.original_sha256,
            )
            for pair in joined.known_differences
        ),
    )


def _warnings(docs: TaskDocs) -> dict[str, int]:
    """How often each warning was seen on the way from rows to docs."""
    warnings = dict(docs.checked.warnings)
    unmatched = len(docs.joined.left_out) if docs.joined else 0
    if docs.table.num_rows != docs.rows - unmatched:
        warnings["rows_left_out_by_the_template"] = docs.rows - docs.table.num_rows
    if docs.joined and docs.joined.shown:
        warnings["question_is_not_the_originals_text_but_the_prompt_shows_it"] = len(docs.joined.shown)
    if docs.unclustered:
        warnings[docs.unclustered] = docs.table.num_rows
    return dict(sorted(warnings.items()))


def _log_warnings(template: Template, warnings: Mapping[str, int], docs: TaskDocs) -> None:
    for key, count in warnings.items():
        log.warning(f"{template.name}: {describe_warning(key, count, docs.rows)}")
    recorded = docs.checked.recorded_settings.get("max_gen_len", [])
    one_limit = template.output_type == "generate_until" and "max_gen_toks" not in docs.table.column_names
    if one_limit and recorded and recorded != [str(template.max_gen_toks)]:
        is_shorter = any(limit.isdecimal() and int(limit) > template.max_gen_toks for limit in recorded)
        effect = "more may be cut: raise max_gen_toks in the template" if is_shorter else "none is cut sooner"
        log.warning(
            f"{template.name}: an answer may have {template.max_gen_toks} tokens here, and up to "
            f"{' or '.join(recorded)} in Meta's run, so {effect}"
        )


def _is_choice(template: Template) -> bool:
    return template.output_type == "multiple_choice"


def _docs_file(template: Template) -> str:
    name = template.name
    return f"joined_{name.removeprefix('meta_')}.parquet" if template.spec.join else f"{name}.parquet"


def _files(
    template: Template,
    dataset: EvalsDataset,
    templates: TemplateFolder,
    docs: TaskDocs,
    docs_file: str | None,
    content: bytes,
) -> dict[str, bytes]:
    """The task's YAML, which reads docs in the pack or rows on the hub."""
    folder, text = template.file.parent, read_text(templates.root / template.file)
    joined_files = docs.joined.files if docs.joined else {}
    with locating(templates.root / template.file):
        if docs_file is None:
            config_name = dataset.config_name(template.spec.subset)
            text = task_yaml.rewrite_for_hub(
                text, dataset_path=dataset.dataset_id, dataset_name=config_name, revision=dataset.revision
            )
            return {template.file.as_posix(): text.encode()}
        text = task_yaml.bundle_task(
            text,
            inherited=template.inherited,
            docs_file="../" * len(folder.parts) + docs_file,
            sha256=hash_bytes(content),
            beside={name: hash_bytes(brought) for name, brought in joined_files.items()},
        )
    loader = (folder / f"{task_yaml.LOADER_MODULE}.py").as_posix()
    return {
        docs_file: content,
        **{(folder / name).as_posix(): brought for name, brought in joined_files.items()},
        loader: assets.read_asset("pack_docs.py"),
        template.file.as_posix(): text.encode(),
    }


def _published(
    template: Template, dataset: EvalsDataset, docs: TaskDocs, shared: MetaContext
) -> tuple[ReferenceScoreEntry, ...]:
    entries = find_published_numbers(template, dataset, docs.labels, shared.metrics(dataset))
    recorded = set(docs.checked.recorded_settings.get("num_few_shot", ()))
    published = {entry.shots for entry in entries if entry.shots and entry.shots.isdigit()}
    if recorded and published and not recorded & published and dataset.kind != "sample":
        log.warning(
            f"{template.name}: the rows are {' or '.join(sorted(recorded))}-shot, and the number published for "
            f"{dataset.identity.model} is {' or '.join(sorted(published))}-shot"
        )
    return entries
