"""``baseline:``: the answers of another recorded run, put beside the docs of a pack, doc by doc.

A pack of whatever evals dataset is then gated against them: verify grades them with the pack's own graders, report
pairs a new run with these. They lie in ``baseline/<task>.parquet`` of the pack, so that it can still be moved.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meta_eval.config import Config
from meta_eval.errors import ConfigError, UserError
from meta_eval.notes import Progress, log
from meta_eval.pack.build import Pack
from meta_eval.pack.columns import parquet_bytes
from meta_eval.pack.manifest import BaselineEntry, FileEntry, TaskEntry
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.records.details import DetailsRecord, files_in, holds_details, open_details
from meta_eval.records.details_prepare import rows_of_details
from meta_eval.records.details_tokens import TokenCheck
from meta_eval.records.remote import details_on_hub, holds_samples, open_on_hub
from meta_eval.records.rows import Row, Rows, asked_with_bos, read_rows
from meta_eval.records.runs import ALL, Record, is_record, open_record
from meta_eval.results.answers import arguments
from meta_eval.results.run import TaskRun, read_newest
from meta_eval.results.samples import open_samples

# What a baseline's answers are called in a pack's folder.
FOLDER = "baseline"

_GENERATED = "generate_until"


@dataclass(frozen=True, slots=True)
class _Doc:
    """What tells a doc of the pack: its question, prompt, target and continuations."""

    question_hash: str
    prompt: str
    gold: str | None
    continuations: tuple[str, ...]
    prompts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Answers:
    """What a record holds of one task.

    Attributes:
        rows: Its docs.
        asked: The output type that they were asked by.
        entry: What the manifest says of it, as far as the record says it.
        with_bos: Whether a BOS stood before its prompts; None where nobody says it, or docs differ.
    """

    rows: Rows
    asked: str
    entry: Mapping[str, str | None]
    with_bos: bool | None


def open_baseline(config: Config, config_place: str, progress: Progress) -> Record | DetailsRecord | None:
    """The record, or the details, that the configuration names; None where it names none.

    Raises:
        ConfigError: It is no record, holds several runs, or the docs of the pack stay on the hub.
    """
    if config.baseline is None:
        return None
    where = f"{config_place}: baseline"
    if not config.bundle:
        raise ConfigError("a baseline's answers stand beside the pack's docs", where=where, hint="Set bundle: true")
    try:
        if holds_details(files := files_in(config.baseline)):
            return open_details(config.baseline, files, None, (ALL,))
        if is_record(config.baseline):
            return open_record(config.baseline, None)
        asked = config.model_copy(update={"evals_dataset": config.baseline, "evals_revision": None})
        repository = details_on_hub(asked, progress)
        if repository is not None and holds_samples(repository):
            return open_on_hub(repository, None, (ALL,), where)
        if repository is not None and holds_details(repository.names):
            return open_details(repository, repository.names, None, (ALL,))
        raise ConfigError(f"{config.baseline} is no folder that lm_eval wrote samples into, nor details", where=where)
    except UserError as error:
        hint = (
            "Name one run: the folder or results file of `lm_eval --log_samples --output_path`, or details of one run"
        )
        raise ConfigError(error.what, where=where, hint=hint) from None


def with_baseline(pack: Pack, record: Record | DetailsRecord, progress: Progress, where: str) -> Pack:
    """The pack with the answers of a recorded run.

    Args:
        pack: As it was made.
        record: The baseline.
        progress: Called with what is being done.
        where: The key, for messages.

    Raises:
        ConfigError: It has no task of the pack, or no doc of one.
        DataError: A sample of it is not what its hash says.
    """
    manifest = pack.manifest
    common = [name for name in manifest.tasks if name in record.tasks]
    if not common:
        raise ConfigError(
            f"{record.name} holds no task of this pack: it holds {', '.join(list(record.tasks)[:10])}",
            where=where,
            hint=f"The pack has {', '.join(list(manifest.tasks)[:10])}",
        )
    if lacking := [name for name in manifest.tasks if name not in record.tasks]:
        log.warning(f"the baseline has no {', '.join(lacking)}: these are compared with what else there is")
    files, tasks = dict(pack.files), dict(manifest.tasks)
    entries = dict(manifest.files)
    for name in common:
        progress(f"{name}: reading the baseline's answers")
        path = f"{FOLDER}/{name}.parquet"
        entry, content = _task(name, tasks[name], pack, record, path, where)
        tasks[name] = tasks[name].model_copy(update={"baseline": entry})
        files[path] = content
        entries[path] = FileEntry(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    kept = {"tasks": tasks, "files": dict(sorted(entries.items()))}
    return replace(pack, files=files, manifest=manifest.model_copy(update=kept))


def _task(
    name: str, entry: TaskEntry, pack: Pack, record: Record | DetailsRecord, path: str, where: str
) -> tuple[BaselineEntry, bytes]:
    if isinstance(record, DetailsRecord):
        found = _of_details(record, name, pack.manifest.run.model_name)
    else:
        found = _of_record(record, name, entry.output_type, where)
    asked, wanted = found.asked, _GENERATED if _by_token(entry) else entry.output_type
    docs = _docs(pack.files[entry.docs_file or ""])
    pairs = _pairs(docs, found.rows)
    if not pairs:
        raise ConfigError(
            f"{record.name} answers no doc of {name} in this pack", where=where,
            hint="Prepare the pack from the data that the baseline was run on",
        )  # fmt: skip
    if asked != wanted:
        log.warning(
            f"{name}: the baseline was asked by {asked}, this pack asks by {wanted}: its verdicts stay as recorded"
        )
    if found.with_bos not in (None, pack.manifest.run.add_bos_token):
        log.warning(
            f"{name}: the baseline was asked with{'' if found.with_bos else 'out'} a BOS, and this pack asks "
            f"with{'out' if found.with_bos else ''} one"
        )
    made = [_line(number, docs[number], row, regraded=asked == wanted) for number, row in sorted(pairs.items())]
    others = sum(not line["same_prompt"] for line in made)
    if len(pairs) < len(docs):
        log.warning(f"{name}: the baseline has no answer to {len(docs) - len(pairs):,} of {len(docs):,} docs")
    if others:
        log.warning(f"{name}: the baseline was asked {others:,} of {len(pairs):,} docs with another prompt ({path})")
    kept = BaselineEntry.model_validate(
        {"name": record.name, **found.entry, "file": path, "docs": len(pairs), "other_prompts": others}
    )
    return kept, _content(made)


def _of_record(record: Record, name: str, output_type: str, where: str) -> _Answers:
    run = read_newest(record.files, record.files.tasks[name], say=log.warning)
    if run is None or run.samples_file is None:
        raise ConfigError(f"{record.name} holds no sample of {name}", where=where)
    asked = _asked(run, output_type)
    rows = read_rows(run, record.results(name), asked, f"{record.name}, {name}")
    provenance = record.provenance(name)
    said = {"revision": record.revision, "model": provenance.model, "lm_eval": provenance.lm_eval}
    entry = {**said, "time": record.files.tasks[name][0].time or None}
    return _Answers(rows, asked, entry, asked_with_bos(provenance, rows))


def _of_details(record: DetailsRecord, name: str, model: str) -> _Answers:
    # lighteval may keep prompts as token ids alone, which are read by the model's own tokenizer.
    check = TokenCheck(find_tokenizer(model))
    found = rows_of_details(record, name, check)
    asked = _GENERATED if found.delimiter is None else "multiple_choice"
    said = {"revision": record.revision([name]), "model": record.model, "lm_eval": None}
    return _Answers(found.rows, asked, {**said, "time": record.tasks[name].time}, check.with_bos)


def _by_token(entry: TaskEntry) -> bool:
    return entry.choice_scoring == "next_token"


def _asked(run: TaskRun, output_type: str) -> str:
    """How the baseline was asked, by its first sample: a choice may have been asked for by the next token."""
    first = run.docs[0]
    assert run.samples_file is not None  # noqa: S101 (a record has samples)
    with open_samples(run.samples_file) as whole:
        requests = arguments(whole(next(iter(first.answers.values()))))
    settings = requests[0][1] if requests and len(requests[0]) > 1 else None
    if isinstance(settings, dict):
        return _GENERATED
    return "multiple_choice" if output_type == _GENERATED else output_type


def _docs(content: bytes) -> list[_Doc]:
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    nothing = [None] * table.num_rows
    names = ("input_question_hash", "prompt", "gold", "continuations", "recorded_prompts")
    columns = [table.column(one).to_pylist() if one in table.column_names else nothing for one in names]
    return [_Doc(a, b, c, tuple(d or ()), tuple(e or ())) for a, b, c, d, e in zip(*columns, strict=True)]


def _pairs(docs: Sequence[_Doc], rows: Rows) -> dict[int, Row]:
    """By number of the pack's doc the row that answers it: with its prompt, else of its question and target, else of
    its question; of several the first goes with the first."""
    keys: list[tuple[Callable[[_Doc], Hashable], Callable[[Row], Hashable]]] = [
        (lambda doc: (doc.question_hash, doc.prompt), lambda row: (row.question_hash, row.prompt)),
        (lambda doc: (doc.question_hash, doc.gold), lambda row: (row.question_hash, _gold(row))),
        (lambda doc: doc.question_hash, lambda row: row.question_hash),
    ]
    found: dict[int, Row] = {}
    left = list(rows.rows)
    for of_doc, of_row in keys:
        waiting: dict[Hashable, list[Row]] = {}
        for row in reversed(left):
            waiting.setdefault(of_row(row), []).append(row)
        for number, doc in enumerate(docs):
            if number not in found and (same := waiting.get(of_doc(doc))):
                found[number] = same.pop()
        left = [row for same in waiting.values() for row in reversed(same)]
    return found


def _gold(row: Row) -> str:
    own = row.doc.get("gold")
    return own if isinstance(own, str) else row.gold


def _line(number: int, doc: _Doc, row: Row, *, regraded: bool) -> Mapping[str, Any]:
    same = (doc.prompt, doc.prompts) == (row.prompt, row.prompts)
    same = same and (not row.continuations or doc.continuations == row.continuations)
    # As many answers as the doc has requests, or today's graders cannot take them.
    whole = regraded and len(row.continuations) == (len(doc.continuations) if row.continuations else 0)
    return {
        "doc": number,
        "question_hash": doc.question_hash,
        "same_prompt": same,
        "responses": json.dumps(row.responses) if whole and row.responses is not None else None,
        "metrics": json.dumps(row.metrics or {}),
    }


def _content(lines: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow as pa

    types = {
        "doc": pa.int64(), "question_hash": pa.string(), "same_prompt": pa.bool_(), "responses": pa.string(),
        "metrics": pa.string(),
    }  # fmt: skip
    return parquet_bytes(pa.table({name: pa.array([line[name] for line in lines], of) for name, of in types.items()}))
