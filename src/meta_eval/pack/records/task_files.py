"""Makes the docs and the YAML of a task of a pack of a recorded task: its own code over recorded docs and prompts.

The YAML includes the task's own YAML and replaces the keys for docs and prompts. Filters, targets, choices,
``process_results`` and metrics stay unchanged.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.comments import TaggedScalar

from meta_eval.base import assets
from meta_eval.base.errors import TemplateError, locating
from meta_eval.base.hashing import hash_bytes, hash_text
from meta_eval.base.thresholds import MAX_GEN_TOKS
from meta_eval.harness.sample_files import RECORDED_FINISH_REASON
from meta_eval.pack.doc_table import RECORDED_DOC, encode_parquet
from meta_eval.pack.punkt import INSTRUCTIONS, need_punkt
from meta_eval.pack.records.recorded_docs import RecordedDoc, RecordedDocs, format_doc
from meta_eval.pack.records.task_code import TaskCode, name_copied_yaml
from meta_eval.pack.task_choice import ROLLING
from meta_eval.pack.templates.spec import TaskSpec, Template
from meta_eval.pack.templates.task_yaml import CHAT_MODULE, LOADER_MODULE, PUNKT_MODULE

if TYPE_CHECKING:
    import pyarrow as pa

_HEAD = """\
# Written by meta-eval prepare. The docs, prompts and answers are those of a recorded run of lm-eval. The included file
# is the task's own ({origin}), which grades answers.
"""


class TaskFiles(NamedTuple):
    """The files of a task in a pack, without its grader's own."""

    table: pa.Table
    """Its docs."""

    docs_file: str
    """Their file."""

    file: PurePosixPath
    """Its YAML."""

    files: dict[str, bytes]
    """The contents by path."""

    is_ifeval: bool
    """Whether it checks instructions, some of which need nltk's Punkt model."""

    needs_punkt: bool
    """Whether a doc names such an instruction."""


def make_task_files(
    code: TaskCode,
    rows: RecordedDocs,
    primary_metric: str,
    clusters: Sequence[str | None],
    *,
    published: Sequence[str] = (),
    delimiter: str | None = None,
) -> TaskFiles:
    """Make the docs and the YAML of a task.

    Args:
        code, rows, primary_metric, delimiter: As of `make_task`.
        clusters: The cluster of each doc.
        published: Each ``metric,filter`` with a score in the record.

    Raises:
        TemplateError: The task's YAML needs something that a record cannot replace.
    """
    where = str(code.root / code.file)
    if code.settings.get("use_prompt"):
        raise TemplateError("use_prompt: makes prompts that a record cannot replace", where=where)
    is_chat = rows.asked_as == "chat"
    if is_chat and "class" in code.settings:
        raise TemplateError("class: makes requests that cannot be asked as chat messages", where=where)
    template = make_template(code, rows.generation)
    has_own_prompts = any(row.prompts for row in rows.rows)
    if has_own_prompts:
        with locating(where):
            _check_metrics(code)
    table = make_docs_table(rows, template.output_type, primary_metric, clusters)
    content = encode_parquet(table)
    docs_file = f"{code.name}.parquet"
    file = code.folder / (code.output_yaml or code.file)
    is_ifeval = any(INSTRUCTIONS in row.doc for row in rows.rows)
    text = write_task_yaml(
        code,
        docs_file="../" * len(file.parent.parts) + docs_file,
        sha256=hash_bytes(content),
        generation=template.settings.get("generation_kwargs") if rows.generation is not None else None,
        primary_metric=primary_metric,
        published=published,
        delimiter=delimiter,
        has_own_prompts=has_own_prompts,
        loader=PUNKT_MODULE if is_ifeval else LOADER_MODULE,
        chat={name: value for name, value in (("asked_as", rows.asked_as), ("answer", rows.answer)) if value != "text"},
    )
    files = {
        docs_file: content,
        file.as_posix(): text.encode(),
        (file.parent / f"{LOADER_MODULE}.py").as_posix(): assets.read_asset("pack_docs.py"),
    }
    if is_chat:
        files[(file.parent / f"{CHAT_MODULE}.py").as_posix()] = assets.read_asset("chat_task.py")
    if is_ifeval:
        files[(file.parent / f"{PUNKT_MODULE}.py").as_posix()] = assets.read_asset("punkt_docs.py")
    named = (row.doc.get(INSTRUCTIONS) for row in rows.rows)
    needs_punkt = need_punkt(
        [name for name in names if isinstance(name, str)] for names in named if isinstance(names, list)
    )
    return TaskFiles(table, docs_file, file, files, is_ifeval, needs_punkt)


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
        "recorded_metrics": pa.array([_json(row.metrics or None) for row in recorded_docs], text),
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


def make_template(code: TaskCode, generation: Mapping[str, Any] | None) -> Template:
    """The task as a `Template`, as the rest of prepare reads it."""
    settings = dict(code.settings)
    if generation is not None:
        settings["generation_kwargs"] = {"max_gen_toks": MAX_GEN_TOKS, **generation}
    # A record's tasks have no subset of Meta's and no family.
    spec = TaskSpec(subset=code.name, variants=("instruct", "pretrain"), families=("any",))
    file = PurePosixPath(code.file)
    return Template(code.name, file, spec, settings, frozenset(), code.folder_of_key, ())


def _output(row: RecordedDoc) -> str | None:
    """The answer, if it is a single text."""
    first = row.responses[0] if row.responses else []
    return first[0] if first and isinstance(first[0], str) else None


def _costs(row: RecordedDoc) -> list[float] | None:
    if row.responses is None or len(row.responses) != len(row.continuations) * (1 + row.unconditional):
        return None
    return [-float(request[0][0]) for request in row.responses[: len(row.continuations)]]


def _is_correct(row: RecordedDoc, verdict: str) -> bool | None:
    value = row.metrics.get(verdict)
    return bool(value) if isinstance(value, (bool, int, float)) and value in (0, 1) else None


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
