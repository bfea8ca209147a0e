"""Makes a task of a pack of a recorded task: its files (`meta_eval.pack.records.task_files`) and its manifest entry."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from meta_eval.base.display import quoted
from meta_eval.base.errors import DataError, locating
from meta_eval.base.inputs import format_json
from meta_eval.base.thresholds import MARGIN
from meta_eval.harness.clusters import find_field, make_missing_field_error, read_field
from meta_eval.harness.shared_texts import TextReading, choose_cluster_field, list_uncounted
from meta_eval.pack.manifest import RecordEntry, ReferenceScoreEntry, SharedTextEntry, TaskEntry
from meta_eval.pack.prepared_task import PrepareContext, PreparedTask, measure_length
from meta_eval.pack.records.recorded_docs import RecordedDoc, RecordedDocs
from meta_eval.pack.records.task_code import TaskCode
from meta_eval.pack.records.task_files import make_task_files, make_template
from meta_eval.pack.task_choice import MEAN_KEY, ROLLING
from meta_eval.pack.templates.spec import Template

if TYPE_CHECKING:
    import pyarrow as pa


_log = logging.getLogger("meta_eval")

_HINT = "The record is damaged: take the file as its run wrote it"


def check_rows(rows: RecordedDocs, clusters: Sequence[str | None]) -> None:
    """Check the texts and the generation settings of a task's docs.

    Args:
        rows: The docs.
        clusters: The cluster of each doc.

    Raises:
        DataError: UTF-8 cannot encode a text, or no engine accepts a setting.
    """
    if rows.generation is not None:
        _check_generation(rows.generation)
    for number, (row, cluster) in enumerate(zip(rows.rows, clusters, strict=True)):
        if not all(map(_is_text, (cluster or "", *_texts(row)))):
            with locating(f"doc {number}", behind=", "):
                raise DataError("holds half of a surrogate pair, which is not text", hint=_HINT)


def _texts(row: RecordedDoc) -> Iterator[str]:
    yield from (row.prompt, row.gold, row.question_hash, *row.continuations, *row.prompts, *row.metrics)
    yield from (text for text in (row.finish_reason, row.doc.get("subtask_name")) if isinstance(text, str))
    yield from (text for request in row.responses or () for text in request if isinstance(text, str))


def _check_generation(settings: Mapping[str, Any]) -> None:
    limit = settings.get("max_gen_toks", 1)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise _refused("max_gen_toks", limit, "no number of tokens")
    stops = settings.get("until")
    for stop in stops if isinstance(stops, list) else [] if stops is None else [stops]:
        if not _is_text(stop):
            raise _refused("until", stop, "no text")
    for key, value in settings.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise _refused(key, value, "no number")


def _is_text(value: object) -> bool:
    """Whether it is text that UTF-8 can encode."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _refused(key: str, value: object, what: str) -> DataError:
    return DataError(f"was generated with {quoted(key)}: {quoted(value)}, which is {what}", hint=_HINT)


# lm-eval's aggregations over all docs at once, and metrics that use them by default.
_OF_ALL_DOCS = frozenset(("bleu", "chrf", "ter", "f1", "mcc", "matthews_corrcoef"))


def make_task(
    code: TaskCode,
    rows: RecordedDocs,
    record: RecordEntry,
    context: PrepareContext,
    *,
    dataset_id: str,
    revision: str,
    primary_metric: str,
    filters: Sequence[str],
    published: Sequence[ReferenceScoreEntry],
    delimiter: str | None = None,
) -> PreparedTask:
    """Make a task.

    Args:
        code: Its grader.
        rows: Its docs.
        record: Their origin.
        context: What the tasks of the pack share.
        dataset_id: The record, as the user wrote it.
        revision: The revision of its files.
        primary_metric: The ``metric,filter`` that says whether one answer is right.
        filters: The names of the task's filters.
        published: The record's own scores.
        delimiter: Between prompt and choice, if different from the task's own.

    Raises:
        ConfigError: A prompt does not fit the context.
        DataError: A pack cannot hold a doc.
        TemplateError: The task's YAML needs something that a record cannot replace.
    """
    with locating(f"{dataset_id}, {code.name}"):
        clusters, chosen, uncounted = _clusters(rows, code.name, context)
        check_rows(rows, clusters)
    is_chat = rows.asked_as == "chat"
    template = make_template(code, rows.generation)
    made = make_task_files(
        code, rows, primary_metric, clusters,
        published=[entry.metric for entry in published], delimiter=delimiter,
    )  # fmt: skip
    table = made.table
    entry = TaskEntry(
        template=made.file.as_posix(),
        model=record.model,
        family=None,
        variant=None,
        dataset_id=dataset_id,
        dataset_revision=revision,
        dataset_config=code.name,
        subset=f"{code.name} (recorded)",  # facts about Meta's subset of that name do not apply here
        output_type=template.output_type,
        rows=table.num_rows,
        docs=table.num_rows,
        docs_file=made.docs_file,
        columns=tuple(table.column_names),
        join=None,
        warnings=rows.warnings,
        recorded_settings={"num_few_shot": (record.shots,)} if record.shots else {},
        choice_scoring=None if rows.generation is not None or template.output_type == ROLLING else "likelihood",
        likelihood_reason=_kept_likelihood(template, context),
        longest_prompt=measure_length(template, _longest(table, is_chat=is_chat), context),
        reference_scores=tuple(published),
        row_format="seen",
        filters=tuple(filters),
        primary_metric=primary_metric,
        recorded_metric=primary_metric,
        graded_by="program",
        min_agreement=1.0,
        unsafe_code=template.unsafe_code,
        record=record,
        asked_as=rows.asked_as,
        answer=rows.answer,
        generation=None if rows.generation is None else dict(rows.generation),
        cluster_field=chosen,
        uncounted_texts=uncounted,
    )
    return PreparedTask(code.name, entry, code.files(), made.files, made.is_ifeval, made.needs_punkt)


def _longest(table: pa.Table, *, is_chat: bool) -> pa.Table:
    """Keep only the longest prompt of each doc, and of chat messages their texts."""
    import pyarrow as pa

    if is_chat:
        longest = [_join_texts(json.loads(body)) for body in table.column("prompt").to_pylist()]
    elif "recorded_prompts" in table.column_names:
        longest = [max(prompts, key=len) for prompts in table.column("recorded_prompts").to_pylist()]
    else:
        return table
    return table.set_column(table.column_names.index("prompt"), "prompt", pa.array(longest, pa.string()))


def _join_texts(body: Mapping[str, Any]) -> str:
    """The texts of a chat request. The model's template adds a few tokens a turn."""
    texts = [message.get("content") for message in body["messages"]]
    others = [format_json(value) for name, value in body.items() if name in ("tools", "response_format")]
    return "\n\n".join([*(text if isinstance(text, str) else format_json(text) for text in texts), *others])


def _kept_likelihood(template: Template, context: PrepareContext) -> str | None:
    """Why requested next-token scoring is not possible; None if it was not requested."""
    if context.config.choice_scoring != "next_token" or template.output_type != "multiple_choice":
        return None
    return "its choices are compared by likelihood, as they were recorded"


def list_filters(code: TaskCode) -> tuple[str, ...]:
    """The names of a task's filters, as lm-eval has them."""
    return make_template(code, None).filters


def choose_first_metric(code: TaskCode) -> str:
    """Choose the ``metric,filter`` of a task without recorded answers: its first metric under its first filter.

    If that metric is computed over all docs at once, and so has no verdict per doc, take the first mean over docs.
    """
    template = make_template(code, None)
    listed = template.settings.get("metric_list")
    aggregations = {
        metric.get("metric"): metric.get("aggregation") for metric in listed or () if isinstance(metric, Mapping)
    }
    first = template.metrics[0]
    if {first, aggregations.get(first)}.isdisjoint(_OF_ALL_DOCS):
        return template.primary_metric
    mean = next((name for name in template.metrics if aggregations.get(name) == "mean"), first)
    return f"{mean},{template.filters[0]}"


# The cluster of each doc, the field whose texts make them, and the fields whose shared texts make none.
_Clusters = tuple[list[str | None], str | None, tuple[SharedTextEntry, ...]]


def _clusters(rows: RecordedDocs, task: str, context: PrepareContext) -> _Clusters:
    field = find_field(context.config.cluster, task)
    labels = [read_field(row.doc, field or "cluster") for row in rows.rows]
    if field is not None and not any(labels):
        raise make_missing_field_error(
            field, sorted({name for row in rows.rows for name in row.doc}), f"cluster: {task}"
        )
    return (labels, None, ()) if any(labels) else _name_shared_texts(rows, task, context)


def _name_shared_texts(rows: RecordedDocs, task: str, context: PrepareContext) -> _Clusters:
    """The clusters of docs that share a long text; None of each where no field makes enough for the task's margin."""
    reading = TextReading()
    for number, row in enumerate(rows.rows):
        reading.add(number, row.doc, row.prompt)
    margin = context.config.margin
    if isinstance(margin, dict):
        named = next((points for name, points in margin.items() if fnmatchcase(task, name)), None)
        margin = named or margin.get(MEAN_KEY, 100 * MARGIN)
    numbers = range(len(rows.rows))
    shared = reading.collect(numbers)
    chosen = choose_cluster_field(shared, len(numbers), margin / 100)
    names = {number: f"{chosen.name} {text}" for number, text in chosen.texts.items()} if chosen else {}
    labels = [names.get(number) for number in numbers]
    uncounted = [each.counts for each in list_uncounted(shared, dict(enumerate(labels)))]
    for other in uncounted:
        _log.warning(
            f"{task}: {other.docs:,} docs share {other.texts:,} texts, and count as independent. Name their field: "
            f"cluster: {{{task}: {other.name}}}"
        )
    entries = tuple(SharedTextEntry(field=each.name, texts=each.texts, docs=each.docs) for each in uncounted)
    return labels, chosen.name if chosen else None, entries
