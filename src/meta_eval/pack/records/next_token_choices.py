"""Scores lm-eval's own choice tasks by the next token, if that gives the same verdicts.

It does if every choice is a single token after the prompt and the metrics need only the likeliest choice. These metrics
are acc, and for choices of equal length, such as letters, acc_norm and acc_bytes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace

from meta_eval import assets
from meta_eval.base.errors import locating
from meta_eval.base.hashing import hash_bytes
from meta_eval.base.logs import log
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.doc_table import encode_parquet
from meta_eval.pack.next_token_scoring import COLUMN, NotOneTokenError, find_shared_ids, list_tokenizer_models
from meta_eval.pack.prepared_task import PrepareContext, PreparedTask
from meta_eval.pack.records.recorded_docs import RecordedDocs
from meta_eval.pack.records.task_code import TaskCode
from meta_eval.pack.templates import task_yaml

# The index of the right choice.
RIGHT = "choice_gold"

_BY_LENGTH = {"acc_norm": len, "acc_bytes": lambda text: len(text.encode("utf-8", "surrogatepass"))}


def add_next_token_choices(
    task: PreparedTask, rows: RecordedDocs, code: TaskCode, context: PrepareContext
) -> PreparedTask:
    """Score a task by the next token if configured and possible. Otherwise the reason is logged and recorded.

    Args:
        task: The task, scored by likelihoods.
        rows: Its docs.
        code: Its grader.
        context: What the tasks of the pack share.
    """
    config, entry = context.config, task.entry
    if config.choice_scoring != "next_token" or entry.output_type != "multiple_choice":
        return task
    import pyarrow as pa
    import pyarrow.parquet as pq

    docs_file = entry.docs_file or ""
    table = pq.read_table(io.BytesIO(task.files[docs_file]))
    try:
        _check(code, rows)
        if not find_backend(config.backend).restricts_tokens:
            raise NotOneTokenError(f"backend {config.backend} cannot restrict generation to given tokens")
        ids = find_shared_ids(table, list_tokenizer_models(config))
    except NotOneTokenError as why:
        log.warning(f"{task.name}: scored by likelihood, not by the next token: {why}")
        return replace(task, entry=entry.model_copy(update={"likelihood_reason": str(why)}))
    table = table.append_column(COLUMN, pa.array(ids, pa.list_(pa.int64())))
    table = table.append_column(RIGHT, pa.array([row.right for row in rows.rows], pa.int64()))
    content = encode_parquet(table)
    old_hash, new_hash = (hash_bytes(parquet) for parquet in (task.files[docs_file], content))
    text = task.files[entry.template].decode().replace(old_hash, new_hash)
    with locating(entry.template):
        yaml = task_yaml.rewrite_for_next_token(text, inherited=set(code.settings))
    module = f"{entry.template.rpartition('/')[0]}/{task_yaml.CHOOSING_MODULE}.py".lstrip("/")
    files = {
        docs_file: content,
        entry.template: yaml.encode(),
        module: assets.read_asset("next_token.py"),
    }
    changes = {"choice_scoring": "next_token", "likelihood_reason": None, "columns": tuple(table.column_names)}
    return replace(task, entry=entry.model_copy(update=changes), files={**task.files, **files})


def _check(code: TaskCode, rows: RecordedDocs) -> None:
    """Raises:
    NotOneTokenError: Its metrics need more than the likeliest choice.
    """
    if code.settings.get("process_results") is not None:
        raise NotOneTokenError("it has its own scorer, which needs likelihoods")
    listed = code.settings.get("metric_list")
    names = (
        [metric.get("metric") for metric in listed if isinstance(metric, Mapping)] if isinstance(listed, list) else []
    )
    if other := [name for name in names if name not in ("acc", *_BY_LENGTH)]:
        raise NotOneTokenError(f"{other[0]} is computed from likelihoods")
    for number, row in enumerate(rows.rows):
        if row.right is None or row.prompts:
            raise NotOneTokenError(f"doc {number} has several right choices, or a prompt for each")
        for name in names:
            if name in _BY_LENGTH and len(set(map(_BY_LENGTH[name], row.continuations))) > 1:
                raise NotOneTokenError(f"{name} divides by the length of a choice, and those of doc {number} differ")
