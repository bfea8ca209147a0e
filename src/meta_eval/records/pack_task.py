"""Makes a task of a pack of a recorded task: its own code, with recorded docs and prompts instead of its dataset.

The YAML that prepare writes includes the task's own YAML and replaces the keys for docs and prompts. Filters, targets,
choices, ``process_results`` and metrics stay unchanged.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import TaggedScalar

from meta_eval import assets
from meta_eval.boundary.hashing import hash_bytes, hash_text
from meta_eval.boundary.json_text import format_json
from meta_eval.messages.errors import TemplateError, locating
from meta_eval.pack.doc_table import RECORDED_DOC, encode_parquet
from meta_eval.pack.manifest import RecordEntry, ReferenceScoreEntry, TaskEntry
from meta_eval.pack.punkt import INSTRUCTIONS
from meta_eval.pack.task_choice import ROLLING
from meta_eval.pack.task_preparation import PrepareContext, PreparedTask, measure_length
from meta_eval.records.recorded_docs import RecordedDoc, RecordedDocs, format_doc
from meta_eval.records.task_code import TaskCode, name_copied_yaml
from meta_eval.records.text_checks import check_rows
from meta_eval.results.answer_endings import RECORDED_FINISH_REASON
from meta_eval.results.clusters import find_field, make_missing_field_error, read_field
from meta_eval.templates.spec import TaskSpec, Template
from meta_eval.templates.task_yaml import CHAT_MODULE, LOADER_MODULE, PUNKT_MODULE
from meta_eval.thresholds import MAX_GEN_TOKS

if TYPE_CHECKING:
    import pyarrow as pa

_HEAD = """\
# Written by meta-eval prepare. The docs, prompts and answers are those of a recorded run of lm-eval. The included file
# is the task's own ({origin}), which grades answers.
"""

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
        check_rows(rows)
    where = str(code.root / code.file)
    if code.settings.get("use_prompt"):
        raise TemplateError("use_prompt: makes prompts that a record cannot replace", where=where)
    is_chat = rows.asked_as == "chat"
    if is_chat and "class" in code.settings:
        raise TemplateError("class: makes requests that cannot be asked as chat messages", where=where)
    template = _template(code, rows.generation)
    has_own_prompts = any(row.prompts for row in rows.rows)
    if has_own_prompts:
        with locating(where):
            _check_metrics(code)
    table = make_docs_table(rows, template.output_type, primary_metric, _clusters(rows, code.name, context))
    content = encode_parquet(table)
    docs_file = f"{code.name}.parquet"
    file = code.folder / (code.output_yaml or code.file)
    ifeval = any(INSTRUCTIONS in row.doc for row in rows.rows)
    text = write_task_yaml(
        code,
        docs_file="../" * len(file.parent.parts) + docs_file,
        sha256=hash_bytes(content),
        generation=template.settings.get("generation_kwargs") if rows.generation is not None else None,
        primary_metric=primary_metric,
        published=[entry.metric for entry in published],
        delimiter=delimiter,
        has_own_prompts=has_own_prompts,
        loader=PUNKT_MODULE if ifeval else LOADER_MODULE,
        chat={name: value for name, value in (("asked_as", rows.asked_as), ("answer", rows.answer)) if value != "text"},
    )
    entry = TaskEntry(
        template=file.as_posix(),
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
        docs_file=docs_file,
        columns=tuple(table.column_names),
        join=None,
        warnings=rows.warnings,
        recorded_settings={"num_few_shot": (record.shots,)} if record.shots else {},
        choice_scoring=None if rows.generation is not None or template.output_type == ROLLING else "likelihood",
        likelihood_reason=_kept_likelihood(template, context),
        longest_prompt=measure_length(template, _longest(table, is_chat=is_chat), context),
        reference_scores=tuple(published),
        row_format="verified",
        filters=tuple(filters),
        primary_metric=primary_metric,
        recorded_metric=primary_metric,
        graded_by="program",
        min_agreement=1.0,
        unsafe_code=template.unsafe_code,
        record=record,
        asked_as=rows.asked_as,
        answer=rows.answer,
    )
    files = {
        docs_file: content,
        file.as_posix(): text.encode(),
        (file.parent / f"{LOADER_MODULE}.py").as_posix(): assets.read_asset("pack_docs.py"),
    }
    if is_chat:
        files[(file.parent / f"{CHAT_MODULE}.py").as_posix()] = assets.read_asset("chat_task.py")
    if ifeval:
        files[(file.parent / f"{PUNKT_MODULE}.py").as_posix()] = assets.read_asset("punkt_docs.py")
    return PreparedTask(code.name, entry, code.files(), files, ifeval)


def make_docs_table(
    rows: RecordedDocs, output_type: str, primary_metric: str, clusters: Sequence[str | None]
) -> pa.Table:
    """Make the docs of a pack: the task's own doc as text, and the columns that every doc has."""
    import pyarrow as pa

    text, texts = pa.string(), pa.list_(pa.string())
    recorded_docs = rows.rows
    columns: dict[str, pa.Array] = {
        RECORDED_DOC: pa.array([format_doc(row.doc) for row in recorded_docs], text),
        "prompt": pa.array([row.prompt for row in recorded_docs], text),
        "gold": pa.array([row.gold for row in recorded_docs], text),
        "subtask_name": pa.array([_text(row.doc.get("subtask_name")) for row in recorded_docs], text),
        "cluster": pa.array(clusters, text),
        "input_question_hash": pa.array([row.question_hash for row in recorded_docs], text),
        "input_final_prompts_hash": pa.array([_hashes(row) for row in recorded_docs], texts),
        "recorded_output": pa.array([_output(row) for row in recorded_docs], text),
        "recorded_is_correct": pa.array([_is_correct(row, primary_metric) for row in recorded_docs], pa.bool_()),
        "recorded_metrics": pa.array([_json(row.metrics) for row in recorded_docs], text),
        "recorded_responses": pa.array([_json(row.responses) for row in recorded_docs], text),
    }
    if output_type not in ("generate_until", ROLLING):
        columns["continuations"] = pa.array([row.continuations for row in recorded_docs], texts)
        costs = [_costs(row) for row in recorded_docs]
        columns["recorded_negative_log_likelihoods"] = pa.array(costs, pa.list_(pa.float64()))
    if any(row.finish_reason for row in recorded_docs):
        columns[RECORDED_FINISH_REASON] = pa.array([row.finish_reason for row in recorded_docs], text)
    if any(row.prompts for row in recorded_docs):
        columns["recorded_prompts"] = pa.array([row.prompts for row in recorded_docs], texts)
    return pa.table(columns)


def write_task_yaml(
    code: TaskCode,
    *,
    docs_file: str,
    sha256: str,
    generation: Mapping[str, Any] | None,
    primary_metric: str,
    published: Sequence[str],
    delimiter: str | None,
    has_own_prompts: bool = False,
    loader: str = LOADER_MODULE,
    chat: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write the YAML of the pack's task, which includes the task's own YAML.

    Args:
        code: Its grader.
        docs_file: The parquet file, relative to the YAML.
        sha256: Its digest.
        generation: The recorded generation settings; None if there are none.
        primary_metric: ``metric,filter``.
        published: Each ``metric,filter`` with a score in the record.
        delimiter: See `make_task`.
        has_own_prompts: Whether each choice has its own prompt.
        loader: The module that reads the docs.
        chat: The entries ``asked_as`` and ``answer`` of the block, where they are not of texts.
    """
    metadata = code.settings.get("metadata")
    tree: dict[str, Any] = {
        "include": name_copied_yaml(code.file).name,
        "task": code.name,
        "custom_dataset": TaggedScalar(f"{loader}.load", style=None, tag="!function"),
        "dataset_path": None,
        "dataset_name": None,
        "dataset_kwargs": {"docs_file": docs_file, "sha256": sha256},
        "process_docs": None,
        "training_split": None,
        "validation_split": None,
        "test_split": "latest",
        "fewshot_split": None,
        "fewshot_config": {"samples": []},
        "num_fewshot": 0,
        "description": "",
        "gen_prefix": None,
    }
    if has_own_prompts:  # doc_to_text is then the index of the right choice, doc_to_target the text scored after each
        tree["doc_to_choice"] = "recorded_prompts"
    elif code.settings.get("output_type") != ROLLING:
        tree["doc_to_text"] = "recorded_prompt"
    if chat.get("asked_as") == "chat":
        tree["class"] = TaggedScalar(f"{CHAT_MODULE}.ChatTask", style=None, tag="!function")
    if delimiter is not None:
        tree["target_delimiter"] = delimiter
    if generation is not None:
        tree["generation_kwargs"] = dict(generation)
    block = {
        "record": True,
        **chat,
        "primary_metric": primary_metric,
        "published": [{"metric": metric} for metric in published],
    }
    old_metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    tree["metadata"] = {
        **{str(key): value for key, value in old_metadata.items() if key != "meta_eval"},
        "meta_eval": block,
    }
    out = io.StringIO()
    yaml = YAML(typ="rt")
    yaml.width = 1_000_000
    yaml.representer.ignore_aliases = lambda _: True
    yaml.dump(tree, out)
    return _HEAD.format(origin=code.source_label) + out.getvalue()


def _check_metrics(code: TaskCode) -> None:
    """Refuse metrics that divide by the length of a choice. In a pack the whole prompt takes the place of the choice.

    Raises:
        TemplateError: There is one.
    """
    listed = code.settings.get("metric_list")
    names = (
        [metric.get("metric") for metric in listed if isinstance(metric, Mapping)] if isinstance(listed, list) else []
    )
    by_length = [name for name in names if name in ("acc_norm", "acc_bytes", "acc_mutual_info")]
    if by_length:
        raise TemplateError(
            f"{by_length[0]} divides by the characters of a choice, which in a pack is the whole prompt, because "
            "each choice has its own prompt",
            hint="Leave the task out of tasks",
        )


def _hashes(row: RecordedDoc) -> list[str]:
    if not row.prompts:
        return [row.prompt_hash]
    return [hash_text(prompt) for prompt in row.prompts]


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


def _template(code: TaskCode, generation: Mapping[str, Any] | None) -> Template:
    """The task as a `Template`, for the rest of prepare."""
    settings = dict(code.settings)
    if generation is not None:
        settings["generation_kwargs"] = {"max_gen_toks": MAX_GEN_TOKS, **generation}
    # A record's tasks have no subset of Meta's and no family.
    spec = TaskSpec(subset=code.name, variants=("instruct", "pretrain"), families=("any",))
    file = PurePosixPath(code.file)
    return Template(code.name, file, spec, settings, frozenset(), code.folder_of_key, ())


def _kept_likelihood(template: Template, context: PrepareContext) -> str | None:
    """Why requested next-token scoring is not possible; None if it was not requested."""
    if context.config.choice_scoring != "next_token" or template.output_type != "multiple_choice":
        return None
    return "its choices are compared by likelihood, as they were recorded"


def list_filters(code: TaskCode) -> tuple[str, ...]:
    """The names of a task's filters, as lm-eval has them."""
    return _template(code, None).filters


def choose_first_metric(code: TaskCode) -> str:
    """Choose the ``metric,filter`` of a task without recorded answers: its first metric under its first filter.

    If that metric is computed over all docs at once, and so has no verdict per doc, take the first mean over docs.
    """
    template = _template(code, None)
    listed = template.settings.get("metric_list")
    aggregations = {
        metric.get("metric"): metric.get("aggregation") for metric in listed or () if isinstance(metric, Mapping)
    }
    first = template.metrics[0]
    if {first, aggregations.get(first)}.isdisjoint(_OF_ALL_DOCS):
        return template.primary_metric
    mean = next((name for name in template.metrics if aggregations.get(name) == "mean"), first)
    return f"{mean},{template.filters[0]}"


def _output(row: RecordedDoc) -> str | None:
    """The answer, if it is a single text."""
    first = row.responses[0] if row.responses else []
    return first[0] if first and isinstance(first[0], str) else None


def _costs(row: RecordedDoc) -> list[float] | None:
    if row.responses is None or len(row.responses) != len(row.continuations) * (1 + row.unconditional):
        return None
    return [-float(request[0][0]) for request in row.responses[: len(row.continuations)]]


def _is_correct(row: RecordedDoc, verdict: str) -> bool | None:
    value = (row.metrics or {}).get(verdict)
    return bool(value) if isinstance(value, (bool, int, float)) and value in (0, 1) else None


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value)


def _clusters(rows: RecordedDocs, task: str, context: PrepareContext) -> list[str | None]:
    field = find_field(context.config.cluster, task)
    labels = [read_field(row.doc, field or "cluster") for row in rows.rows]
    if field is not None and not any(labels):
        raise make_missing_field_error(
            field, sorted({name for row in rows.rows for name in row.doc}), f"cluster: {task}"
        )
    return labels


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
