"""Scores choice tasks by the next token: a prompt for each doc, and a single answer token.

lm-eval sends a prompt for each choice and compares their likelihoods; vLLM computes every whole prompt again. If every
choice is a single token after the same context, one forward pass has the likelihoods of all. The likeliest choice is
then the greedy answer among the choices.

Of lm-eval's own tasks this gives the same verdicts if every choice is a single token after the prompt and the metrics
need only the likeliest choice. These metrics are acc, and for choices of equal length, such as letters, acc_norm and
acc_bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from meta_eval.base import assets
from meta_eval.base.errors import locating
from meta_eval.base.hashing import hash_bytes
from meta_eval.base.logs import log
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.config import Config
from meta_eval.pack.doc_table import encode_parquet
from meta_eval.pack.prepared_task import PrepareContext, PreparedTask
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.pack.records.recorded_docs import RecordedDocs
from meta_eval.pack.records.task_code import TaskCode
from meta_eval.pack.templates import task_yaml
from meta_eval.pack.templates.checks import defines_function
from meta_eval.pack.templates.spec import FunctionRef, Template

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer


# The column of the docs.
_COLUMN = "choice_token_ids"

# Suffix for the name of the function that scores a token instead of likelihoods.
_SUFFIX = "_of_token"

# Docs encoded at a time. An encoding is far larger than its text.
_BATCH = 64


class NotOneTokenError(ValueError):
    """Why a task keeps to likelihoods."""


@dataclass(frozen=True, slots=True)
class NextToken:
    """How a task is scored by the next token."""

    docs: pa.Table
    """Its docs, with the column `_COLUMN`: the token id of each choice, in order."""

    def files(self, files: Mapping[str, bytes], template: Template) -> dict[str, bytes]:
        """The task's YAML, which asks for tokens, and the class that it needs.

        Args:
            files: The files made for the task by path, including its YAML.
            template: The task.
        """
        yaml, folder = template.file.as_posix(), template.file.parent
        with locating(yaml):
            text = task_yaml.rewrite_for_next_token(files[yaml].decode(), inherited=template.inherited)
        module_path = (folder / f"{task_yaml.CHOOSING_MODULE}.py").as_posix()
        return {yaml: text.encode(), module_path: assets.read_asset("next_token.py")}


def score_by_next_token(
    template: Template, docs: pa.Table, config: Config, place: Callable[[PurePosixPath], Path], *, bundled: bool
) -> tuple[NextToken | None, str | None]:
    """Score a choice task by the next token, or return None and the reason for staying with likelihoods, which is also
    logged.

    Args:
        template: The task.
        docs: Its docs, with ``prompt`` and ``continuations``.
        config: What prepare was asked for.
        place: Gives the location of a file of the template folder.
        bundled: Whether its docs are part of the pack.
    """
    try:
        _check_scorer(template, place)
        if not find_backend(config.backend).restricts_tokens:
            raise NotOneTokenError(f"backend {config.backend} cannot restrict generation to given tokens")
        if not bundled:
            raise NotOneTokenError("its docs stay on the hub (bundle: false)")
        ids = find_shared_ids(docs, list_tokenizer_models(config))
    except NotOneTokenError as why:
        log.warning(f"{template.name}: scored by likelihood, not by the next token: {why}")
        return None, str(why)
    import pyarrow as pa

    return NextToken(docs.append_column(_COLUMN, pa.array(ids, pa.list_(pa.int64())))), None


def list_tokenizer_models(config: Config) -> tuple[str, ...]:
    """The models or folders whose tokenizers make the prompts."""
    return tuple(dict.fromkeys(config.tokenizer_of(model) for model in (config.model_name, *config.other_models)))


def find_shared_ids(docs: pa.Table, models: Sequence[str]) -> list[list[int]]:
    """Find the token of each choice of each doc. All models must have the same tokens.

    Args:
        docs: With the columns ``prompt`` and ``continuations``.
        models: Their names or folders.

    Raises:
        NotOneTokenError: A tokenizer is not here, or models have different tokens; also as `find_choice_ids`.
    """
    shared: list[list[int]] = []
    for model in models:
        tokenizer = find_tokenizer(model)
        if tokenizer is None:
            raise NotOneTokenError(f"the tokenizer of {model} is not on this machine")
        ids = list(find_choice_ids(_texts(docs), tokenizer))
        if shared and shared != ids:
            raise NotOneTokenError(f"{model} has other tokens than {models[0]}")
        shared = ids
    return shared


def _check_scorer(template: Template, place: Callable[[PurePosixPath], Path]) -> None:
    settings = template.settings
    if settings.get("doc_to_choice") != "continuations" or settings.get("target_delimiter") != "":
        raise NotOneTokenError("its choices are not used as continuations unchanged")
    if "class" in settings:
        raise NotOneTokenError("it has its own Python class")
    scorer = settings.get("process_results")
    problem = "lm-eval's own scorer"
    if isinstance(scorer, FunctionRef):
        problem = f"{scorer.function} has no twin {_SUFFIX}"
        if defines_function(
            place(template.folder_of_key["process_results"] / scorer.module_file), f"{scorer.function}{_SUFFIX}"
        ):
            return
    raise NotOneTokenError(f"its metrics are computed from likelihoods ({problem})")


def _texts(docs: pa.Table) -> Iterator[tuple[str, Sequence[str]]]:
    for batch in docs.select(["prompt", "continuations"]).to_batches(_BATCH):
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def find_choice_ids(docs: Iterator[tuple[str, Sequence[str]]], tokenizer: Tokenizer) -> Iterator[list[int]]:
    """Find the token of each choice of each doc, as it follows the context when both are tokenized together.

    Args:
        docs: Pairs of a context and its continuations.
        tokenizer: The model's.

    Raises:
        NotOneTokenError: A continuation has several tokens or changes the tokens of its context; two continuations have
            the same token; or the token's text is not the continuation, so that the answer would not be recognised.
    """
    import itertools

    tokenizer.no_padding()
    tokenizer.no_truncation()
    number = 0
    while some := list(itertools.islice(docs, _BATCH)):
        texts = [text for context, ends in some for text in (context, *(context + end for end in ends))]
        encoded = iter(tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        for context, ends in some:
            prompt_ids = next(encoded).ids
            yield _check_doc(number, context, ends, prompt_ids, [next(encoded).ids for _ in ends], tokenizer)
            number += 1


def _check_doc(
    number: int,
    context: str,
    ends: Sequence[str],
    prompt_ids: Sequence[int],
    all_choice_ids: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
) -> list[int]:
    # lm-eval moves white space from a context's end to the continuations. A shared prompt cannot do that.
    if context != context.rstrip():
        raise NotOneTokenError(f"the context of doc {number} ends in white space")
    ids = []
    for end, choice_ids in zip(ends, all_choice_ids, strict=True):
        if choice_ids[: len(prompt_ids)] != prompt_ids:
            raise NotOneTokenError(f"doc {number}: {end[:40]!r} changes the tokens before it")
        if len(choice_ids) != len(prompt_ids) + 1:
            raise NotOneTokenError(f"doc {number}: {end[:40]!r} is {len(choice_ids) - len(prompt_ids)} tokens")
        ids.append(choice_ids[-1])
        if tokenizer.decode([ids[-1]], skip_special_tokens=False).strip() != end.strip() or not end.strip():
            raise NotOneTokenError(f"doc {number}: {end[:40]!r} is not the text of its token")
    if len({end.strip() for end in ends}) < len(ends):
        raise NotOneTokenError(f"doc {number}: two of its choices are the same")
    return ids


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
    table = table.append_column(_COLUMN, pa.array(ids, pa.list_(pa.int64())))
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
