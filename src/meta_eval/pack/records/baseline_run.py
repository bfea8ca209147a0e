"""``baseline:``: adds the answers of other recorded runs to a pack, doc by doc.

The pack of any evals dataset is then gated against these answers. verify grades them with the pack's graders, and
report pairs a new run with them. They are in ``baseline/<task>.parquet`` of the pack, those of a second run in
``baseline/2/<task>.parquet``, so the pack stays relocatable.

Several runs are runs of one model. One that cannot be read is left out with a warning, as long as another is left.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from meta_eval.base.errors import ConfigError, UserError, locating
from meta_eval.base.hashing import hash_bytes
from meta_eval.base.inputs import expand_home, suggest_path
from meta_eval.base.logs import log, report_progress
from meta_eval.base.thresholds import MAX_GEN_TOKS, MIN_RECORDED
from meta_eval.harness.compared_settings import describe_changes
from meta_eval.harness.provenance import read_decoding
from meta_eval.pack.config import Config, ValuePlace
from meta_eval.pack.doc_table import encode_parquet
from meta_eval.pack.manifest import BaselineEntry, FileEntry, TaskEntry
from meta_eval.pack.pack_builder import Pack
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.pack.records.format import Reading, Record
from meta_eval.pack.records.format_registry import find_format, find_place, list_formats
from meta_eval.pack.records.recorded_docs import RecordedDoc, RecordedDocs
from meta_eval.pack.records.task_groups import ALL

_T = TypeVar("_T")
_R = TypeVar("_R")

# Folder of the baseline's answers in a pack.
_FOLDER = "baseline"

_GENERATED = "generate_until"


@dataclass(frozen=True, slots=True)
class _PackDoc:
    """The identity of a doc of the pack: its question, prompt, target and continuations."""

    question_hash: str
    prompt: str
    gold: str | None
    continuations: tuple[str, ...]
    prompts: tuple[str, ...]


def open_baseline(config: Config, config_place: ValuePlace) -> list[Record]:
    """Open the records that ``baseline:`` names.

    Raises:
        ConfigError: None is a record of a single run, or the pack's docs stay on the hub.
    """
    where = config_place.name_key("baseline")
    if not config.bundle:
        raise ConfigError("a baseline needs the pack's docs in the pack", where=where, hint="Set bundle: true")
    places = [place for name in config.baseline for place in _expand(name, where)]
    return _keep_readable(places, lambda place: _open(place, where), lambda place: place)


def _expand(name: str, where: str) -> list[str]:
    """The folders and files that a pattern matches, by name; a name without ``*`` stands for itself.

    Raises:
        ConfigError: It matches nothing.
    """
    if "*" not in name:
        return [name]
    path = expand_home(name, where="baseline")
    matches = sorted(map(str, Path(path.anchor).glob(str(path.relative_to(path.anchor)))))
    if not matches:
        raise ConfigError(f"{name} matches no folder and no file", where=where, hint="Name the results of earlier runs")
    return matches


def _keep_readable(values: Sequence[_T], read: Callable[[_T], _R], name: Callable[[_T], str]) -> list[_R]:
    """Read each value. Where there are several, leave out those with an error, with a warning.

    Raises:
        UserError: The error of the first, if none is left.
    """
    results: list[_R] = []
    errors: list[tuple[str, UserError]] = []
    for value in values:
        try:
            results.append(read(value))
        except UserError as error:
            errors.append((name(value), error))
    if not results:
        raise errors[0][1]
    for left_out, reason in errors:
        log.warning(f"a run of the baseline is left out: {left_out}: {reason.what}")
    return results


def _open(name: str, where: str) -> Record:
    try:
        place = find_place(name, revision=None, key="baseline")
        record_format = find_format(place)
        if place.path is not None and not place.path.exists():
            raise ConfigError(f"{name}: there is no such file or folder{suggest_path(place.path)}")
        if record_format is None or not record_format.holds_runs:
            names = ", ".join(record_format.name for record_format in list_formats() if record_format.holds_runs)
            raise ConfigError(f"{name} holds no recorded run in a known format ({names})", where=where)
        with locating(where):
            return record_format.open_run(place, None, (ALL,))
    except UserError as error:
        hint = (
            "Name one run: the folder or results file of `lm_eval --log_samples --output_path`, or details of one run"
        )
        raise ConfigError(error.what, where=where, hint=hint) from None


def add_baseline(pack: Pack, records: Sequence[Record]) -> Pack:
    """Add the answers of recorded runs to a pack.

    Args:
        pack: The pack without a baseline.
        records: The runs of the baseline.

    Raises:
        ConfigError: The records have no task of the pack, or none of the docs of a task; or they are of several models,
            or one twice.
        DataError: A sample does not match its hash.
    """
    manifest = pack.manifest
    recorded = {name for record in records for name in record.tasks}
    common = [name for name in manifest.tasks if name in recorded]
    if not common:
        raise ConfigError(
            f"{records[0].name} has no task in common with this pack: it has {', '.join(sorted(recorded)[:10])}",
            hint=f"The pack has {', '.join(list(manifest.tasks)[:10])}",
        )
    if lacking := [name for name in manifest.tasks if name not in recorded]:
        log.warning(f"the baseline has no {', '.join(lacking)}: these tasks are compared with the next best baseline")
    for record in records:
        if lacking := [name for name in common if name not in record.tasks]:
            log.warning(
                f"{record.name} of the baseline has no {', '.join(lacking)}: the baseline's other runs count there"
            )
    files, tasks = dict(pack.files), dict(manifest.tasks)
    entries = dict(manifest.files)
    for name in common:
        report_progress(f"{name}: reading the baseline's answers")
        runs = _keep_readable(
            [(number, record) for number, record in enumerate(records, 1) if name in record.tasks],
            partial(_make_entry, name, tasks[name], pack),
            lambda run: run[1].name,
        )
        runs = _drop_partial_runs(name, runs)
        _check_runs(name, [entry for entry, _ in runs])
        tasks[name] = tasks[name].model_copy(update={"baseline": tuple(entry for entry, _ in runs)})
        for entry, content in runs:
            files[entry.file] = content
            entries[entry.file] = FileEntry(sha256=hash_bytes(content), bytes=len(content))
    changes = {"tasks": tasks, "files": dict(sorted(entries.items()))}
    return replace(pack, files=files, manifest=manifest.model_copy(update=changes))


def _drop_partial_runs(task: str, runs: Sequence[tuple[BaselineEntry, bytes]]) -> list[tuple[BaselineEntry, bytes]]:
    """Leave out runs that have far fewer docs than another, with a warning: the docs of all runs alone are compared."""
    most = max(run.docs for run, _ in runs)
    kept = []
    for run, content in runs:
        if run.docs < MIN_RECORDED * most:
            log.warning(
                f"a run of the baseline is left out: {task}: {run.name} has {run.docs:,} docs, another {most:,}"
            )
        else:
            kept.append((run, content))
    return kept


def _find_path(task: str, number: int) -> str:
    """Where the answers of a run are in the pack, by its number from 1."""
    return f"{_FOLDER}/{task}.parquet" if number == 1 else f"{_FOLDER}/{number}/{task}.parquet"


def _check_runs(task: str, runs: Sequence[BaselineEntry]) -> None:
    """Check that runs are different runs of one model.

    Raises:
        ConfigError: They are not.
    """
    first, *others = runs
    for other in others:
        if other.model != first.model:
            raise ConfigError(
                f"{task}: the runs are of several models: {first.model} in {first.name}, {other.model} in {other.name}",
                hint="Name runs of one model",
            )
    revisions = [run.revision for run in runs]
    for number, run in enumerate(runs):
        if run.revision in revisions[:number]:
            raise ConfigError(
                f"{task}: {run.name} and {runs[revisions.index(run.revision)].name} are the same run",
                hint="Name each run once",
            )


def _make_entry(name: str, entry: TaskEntry, pack: Pack, run: tuple[int, Record]) -> tuple[BaselineEntry, bytes]:
    record, path = run[1], _find_path(name, run[0])
    prepared_from, settings = pack.manifest.prepared_from, pack.manifest.run_settings
    reading = Reading(
        Path(prepared_from.template_dir),
        prepared_from.allow_code,
        lambda: find_tokenizer(settings.tokenizer_of()),
        entry.output_type,
    )
    recorded_task = record.read(name, reading)
    recorded_type, pack_type = (
        recorded_task.output_type,
        _GENERATED if entry.choice_scoring == "next_token" else entry.output_type,
    )
    docs = _docs(pack.files[entry.docs_file or ""])
    pairs = _pairs(docs, recorded_task.rows)
    if not pairs:
        raise ConfigError(
            f"{record.name} has no answer to any doc of {name} in this pack",
            hint="Prepare the pack from the data of the baseline run",
        )
    if recorded_type != pack_type:
        log.warning(
            f"{name}: the baseline was scored by {recorded_type}, this pack scores by {pack_type}: the recorded "
            "verdicts are kept"
        )
    with_bos = recorded_task.entry.bos_in_prompts
    if with_bos not in (None, pack.manifest.run_settings.add_bos_token):
        words = ("with", "without") if with_bos else ("without", "with")
        log.warning(f"{name}: the baseline was run {words[0]} a BOS, and this pack runs {words[1]} one")
    lines = [
        _line(number, docs[number], row, regraded=recorded_type == pack_type) for number, row in sorted(pairs.items())
    ]
    others = sum(not line["prompt_matches"] for line in lines)
    if len(pairs) < len(docs):
        log.warning(f"{name}: the baseline has no answer to {len(docs) - len(pairs):,} of {len(docs):,} docs")
    if others:
        log.warning(f"{name}: the baseline used a different prompt for {others:,} of {len(pairs):,} docs ({path})")
    other_settings = _describe_settings(entry, recorded_task.rows)
    if other_settings:
        log.warning(f"{name}: the baseline was generated with other settings: {other_settings}")
    baseline_entry = BaselineEntry.model_validate(
        {
            "name": record.name,
            "revision": recorded_task.revision,
            "file": path,
            "docs": len(pairs),
            "docs_with_other_prompt": others,
            "other_settings": other_settings,
            **{key: getattr(recorded_task.entry, key) for key in ("model", "lm_eval", "time")},
        }
    )
    return baseline_entry, _content(lines)


def _describe_settings(entry: TaskEntry, rows: RecordedDocs) -> str:
    """The settings of generation that differ between the record of the pack and the baseline; empty if unknown."""
    if entry.generation is None or rows.generation is None:
        return ""
    own, others = (
        {"max_gen_toks": MAX_GEN_TOKS, **read_decoding(settings, has_default=False)}
        for settings in (entry.generation, rows.generation)
    )
    return "; ".join(describe_changes(own, others, ("the pack", "the baseline")))


def _docs(content: bytes) -> list[_PackDoc]:
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    nothing = [None] * table.num_rows
    names = ("input_question_hash", "prompt", "gold", "continuations", "recorded_prompts")
    columns = [table.column(name).to_pylist() if name in table.column_names else nothing for name in names]
    return [_PackDoc(a, b, c, tuple(d or ()), tuple(e or ())) for a, b, c, d, e in zip(*columns, strict=True)]


def _pairs(docs: Sequence[_PackDoc], rows: RecordedDocs) -> dict[int, RecordedDoc]:
    """Map the index of a pack's doc to the recorded row. Match by prompt, else by question and target, else by
    question; duplicates match in order."""
    keys: list[tuple[Callable[[_PackDoc], Hashable], Callable[[RecordedDoc], Hashable]]] = [
        (lambda doc: (doc.question_hash, doc.prompt), lambda row: (row.question_hash, row.prompt)),
        (lambda doc: (doc.question_hash, doc.gold), lambda row: (row.question_hash, _gold(row))),
        (lambda doc: doc.question_hash, lambda row: row.question_hash),
    ]
    pairs: dict[int, RecordedDoc] = {}
    left = list(rows.rows)
    for doc_key, row_key in keys:
        waiting: dict[Hashable, list[RecordedDoc]] = {}
        for row in reversed(left):
            waiting.setdefault(row_key(row), []).append(row)
        for number, doc in enumerate(docs):
            if number not in pairs and (same := waiting.get(doc_key(doc))):
                pairs[number] = same.pop()
        left = [row for same in waiting.values() for row in reversed(same)]
    return pairs


def _gold(row: RecordedDoc) -> str:
    gold = row.doc.get("gold")
    return gold if isinstance(gold, str) else row.gold


def _line(number: int, doc: _PackDoc, row: RecordedDoc, *, regraded: bool) -> Mapping[str, Any]:
    same = (doc.prompt, doc.prompts) == (row.prompt, row.prompts)
    same = same and (not row.continuations or doc.continuations == row.continuations)
    # Today's graders need as many answers as the doc has requests.
    is_gradable = regraded and len(row.continuations) == (len(doc.continuations) if row.continuations else 0)
    return {
        "doc": number,
        "question_hash": doc.question_hash,
        "prompt_matches": same,
        "responses": json.dumps(row.responses) if is_gradable and row.responses is not None else None,
        "metrics": json.dumps(row.metrics),
    }


def _content(lines: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow as pa

    types = {
        "doc": pa.int64(), "question_hash": pa.string(), "prompt_matches": pa.bool_(), "responses": pa.string(),
        "metrics": pa.string(),
    }  # fmt: skip
    return encode_parquet(pa.table({name: pa.array([line[name] for line in lines], of) for name, of in types.items()}))
