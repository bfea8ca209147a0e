"""Reads the runs of any harness for a comparison: lm_eval's files, or else what a record format reads.

A record has docs with verdicts. Here each doc becomes a sample as lm-eval's evaluator makes it. So pairs, repeats,
alarms and reports are those of lm_eval's runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval.base.errors import ConfigError, UserError, locating
from meta_eval.base.inputs import format_json, parse_json
from meta_eval.base.logs import report_progress
from meta_eval.harness.choice import Choice, Groups
from meta_eval.harness.clusters import Fields
from meta_eval.harness.compared_settings import flatten_settings
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.lm_eval_run import Run, read_run
from meta_eval.harness.output_index import LoggedRun, OutputIndex, TaskOutput, parse_time
from meta_eval.harness.provenance import Provenance, make_grader_facts, read_decoding
from meta_eval.harness.sample_files import CountTokens
from meta_eval.pack.baseline import read_verified
from meta_eval.pack.records.format import Place, Reading, Record, RecordedTask, RecordFormat
from meta_eval.pack.records.recorded_docs import RecordedDoc
from meta_eval.pack.records.task_groups import ALL

# A record is read as a baseline: an answer that is its own gold has no verdict.
_READING = Reading(Path("meta_template"), output_type="generate_until")

_MISSING = ("unanswered", "partial_run")


def read_any_run(
    paths: Sequence[Path],
    *,
    skip_damaged: bool = False,
    repeats: bool = False,
    count_tokens: CountTokens | None = None,
    clusters: Fields | None = None,
    choice: Choice | None = None,
    groups: Groups | None = None,
    needs_verdicts: bool = True,
) -> Run:
    """Read a run: the output of lm_eval, what verify stored of a pack, or logs that a record format reads.

    Args:
        paths: Folders and files. ``FILE#RUN`` chooses one of several runs of a log, by what `RecordFormat.open_run`
            takes.
        skip_damaged, repeats, count_tokens, clusters, choice, groups: See `read_run`.
        needs_verdicts: Refuse a log without verdicts, of which only the texts can be compared.

    Raises:
        UserError: As of `read_run`, or a log cannot be read.
    """

    def read(files: OutputIndex | None) -> Run:
        return read_run(
            paths, skip_damaged=skip_damaged, repeats=repeats, count_tokens=count_tokens, clusters=clusters,
            choice=choice, groups=groups, files=files,
        )  # fmt: skip

    verified = read_verified(paths[0], choice or Choice(), groups or {}) if len(paths) == 1 else None
    if verified is not None:
        return verified
    try:
        return read(None)
    except ResultsError as error:
        places = [_split_run(path) for path in paths]
        formats = [_find_other_format(place) for place, _ in places]
        if None in formats:
            raise _name_formats(error, places) from None
    records = [
        record
        for (place, run), of in zip(places, formats, strict=True)
        if of is not None
        for record in (of.open_runs(place) if run is None else [of.open_run(place, run, (ALL,))])
    ]
    index = index_records(
        records, choice or Choice(), groups or {}, needs_verdicts=needs_verdicts, skip_damaged=skip_damaged
    )
    if not repeats:
        _check_times(index)
    return read(index)


def _name_formats(error: ResultsError, places: Sequence[tuple[Place, str | None]]) -> ResultsError:
    """The error of files that are none of lm_eval's, with the other formats of runs; of files that are, as it is."""
    from meta_eval.pack.records.format_registry import list_formats

    if "lm_eval" not in error.what or not all(place.path and place.path.exists() for place, _ in places):
        return error
    names = [of.name for of in list_formats() if of.holds_runs]
    return ResultsError(
        error.what, where=error.where, hint=f"{error.hint}. Runs that are read: {'; '.join(names)}",
    )  # fmt: skip


def _split_run(path: Path) -> tuple[Place, str | None]:
    """The place, and the run that is meant."""
    name, sign, run = str(path).rpartition("#")
    if not sign or path.exists():
        return Place(str(path), path), None
    return Place(str(path), Path(name)), run


def _find_other_format(place: Place) -> RecordFormat | None:
    """The format of a place; None if it is lm_eval's, or none."""
    from meta_eval.pack.records.format_registry import find_format
    from meta_eval.pack.records.lm_eval_format import LmEvalFormat

    if place.path is None or not place.path.exists():
        return None
    found = find_format(place)
    return None if found is None or isinstance(found, LmEvalFormat) or not found.holds_runs else found


def index_records(
    records: Sequence[Record],
    choice: Choice,
    groups: Groups,
    *,
    needs_verdicts: bool = True,
    skip_damaged: bool = False,
) -> OutputIndex:
    """Read the chosen tasks of records.

    Args:
        records: The runs.
        choice: The tasks. Others are listed, and not read.
        groups: Groups that the choice may name.
        needs_verdicts: See `read_any_run`.
        skip_damaged: Leave out what cannot be read, with a note; else the run of its task is its damage.

    Raises:
        UserError: No chosen task can be read, or has a verdict.
    """
    tasks: dict[str, list[TaskOutput]] = {}
    damaged: dict[str, UserError] = {}
    notes: list[str] = []
    for record in records:
        chosen = choice.of(record.tasks, {**groups, **record.groups})
        for name in record.tasks:
            path = _split_run(Path(record.name))[0].path or Path()
            if name not in chosen:
                tasks.setdefault(name, []).append(TaskOutput(name, ""))
                continue
            report_progress(f"reading {name}")
            outputs = tasks.setdefault(name, [])
            try:
                with locating(f"{record.name}, {name}"):
                    recorded = record.read(name, _READING)
                    samples = list(_make_samples(recorded, needs_verdicts=needs_verdicts))
            except UserError as error:
                damaged.setdefault(name, error)
                notes += [f"skipped: {error}"] if skip_damaged else []
                continue
            path = _name_file(path, recorded)
            notes += [f"{name}: {warning}" for warning in recorded.warnings]
            scores = {key: score.value for key, score in recorded.scores.items() if score.is_mean}
            log = LoggedRun(samples, scores, _describe(recorded, path))
            time = (recorded.entry.time or "").replace(":", "-")
            outputs.append(TaskOutput(name, time, samples=path, of_log=log))
    for outputs in tasks.values():
        outputs.sort(key=lambda output: (output.time, str(output.samples)), reverse=True)
    if damaged and not any(output.of_log for outputs in tasks.values() for output in outputs):
        raise next(iter(damaged.values()))
    for name, fault in damaged.items() if not skip_damaged else ():
        # Which of several runs is the newest is unknown, since the time of a damaged one is.
        damage = ResultsError(fault.what, where=fault.where, hint=fault.hint)
        tasks[name] = [TaskOutput(name, "", damage=damage)]
    return OutputIndex(dict(sorted(tasks.items())), {}, notes=notes)


def _check_times(index: OutputIndex) -> None:
    """Refuse several runs of a task of which the newest is unknown.

    Raises:
        ConfigError: There are some.
    """
    for task, outputs in index.tasks.items():
        if len(outputs) > 1 and not outputs[-1].time and any(output.of_log for output in outputs):
            files = ", ".join(str(output.samples) for output in outputs[:4])
            raise ConfigError(
                f"there are {len(outputs)} runs, and their logs do not say which is the newest: {files}", where=task,
                hint="Name the log of one run, or add --repeats if they are runs of one model",
            )  # fmt: skip


def _name_file(path: Path, recorded: RecordedTask) -> Path:
    """The file that messages name. A record with a file for each task says which."""
    file = recorded.entry.results_file
    return path / file if file is not None and path.is_dir() else path


def _make_samples(recorded: RecordedTask, *, needs_verdicts: bool) -> Iterator[dict[str, Any]]:
    """The samples of a task, as lm_eval would write them: a sample for each doc and filter.

    Raises:
        ConfigError: No doc has a verdict.
    """
    rows = recorded.rows.rows
    filters = dict.fromkeys(key.partition(",")[2] for row in rows for key in row.metrics)
    if not filters and needs_verdicts:
        raise ConfigError(
            "holds no verdict on any answer", hint="Compare graded runs, or only the texts of both with --texts"
        )
    for number, row in enumerate(rows):
        common = _describe_doc(number, row, recorded)
        for name in filters or ("none",):
            metrics = {key.partition(",")[0]: value for key, value in _of_filter(row.metrics, name)}
            each = {key.partition(",")[0]: values for key, values in _of_filter(row.verdict_of_each, name)}
            answer = {
                "finish_reason": list(row.finish_reasons) if row.finish_reasons else row.finish_reason,
                "completion_tokens": row.completion_tokens,
                "each_answer": each or None,
                "turns": row.turns or None,
            }
            yield {**common, "answer": answer, "filter": name, "metrics": list(metrics), **metrics}


def _of_filter(by_key: Mapping[str, Any] | None, name: str) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in (by_key or {}).items() if key.partition(",")[2] == name]


def _describe_doc(number: int, row: RecordedDoc, recorded: RecordedTask) -> dict[str, Any]:
    """What all samples of a doc share. What is unknown is left out."""
    responses, extracted = row.responses or [], row.extracted
    filtered = list(extracted) if extracted else [answers[0] for answers in responses if row.continuations]
    return {
        "doc_id": number,
        "doc": row.doc,
        "target": row.gold,
        "arguments": {f"gen_args_{place}": request for place, request in enumerate(_list_requests(row, recorded))},
        "resps": responses,
        "doc_hash": row.question_hash,
        "prompt_hash": row.prompt_hash if row.prompt else "",  # unknown
        "target_hash": "",
        **({"filtered_resps": filtered} if filtered else {}),
    }


def _list_requests(row: RecordedDoc, recorded: RecordedTask) -> list[dict[str, Any]]:
    """What the model was asked; empty if the record has no prompt."""
    if row.continuations:
        prompts = row.prompts or [row.prompt] * len(row.continuations)
        return [{"arg_0": prompt, "arg_1": text} for prompt, text in zip(prompts, row.continuations, strict=True)]
    if not row.prompt:
        return []
    prompt: Any = row.prompt
    if recorded.rows.asked_as == "chat":
        prompt = [format_json(parse_json(row.prompt)["messages"])]
    return [{"arg_0": prompt, "arg_1": recorded.rows.generation or {}}]


def _describe(recorded: RecordedTask, file: Path) -> Provenance:
    """Where a task of a record comes from, as far as the record says."""
    entry, rows = recorded.entry, recorded.rows
    metrics = dict.fromkeys(key.partition(",")[0] for row in rows.rows for key in row.metrics)
    grader = {**recorded.grader_settings, **({"grader": recorded.grader} if recorded.grader else {})}
    config = {"metric_list": [{**grader, "metric": metric} for metric in metrics]}
    started = parse_time(entry.time.replace(":", "-")) if entry.time else None
    return Provenance(
        results_file=file,
        model=entry.model or file.parent.name,
        backend=entry.backend,
        model_args={"pretrained": entry.model} if entry.model else {},
        lm_eval=entry.lm_eval,
        harness=entry.backend or "a record",
        date=None if started is None else started.isoformat(timespec="seconds"),
        chat_template=entry.chat_template if any(row.prompt for row in rows.rows) else None,
        docs_of_task=len(rows.rows) + sum(rows.warnings.get(key, 0) for key in _MISSING),
        docs_run=len(rows.rows),
        shots=int(entry.shots) if entry.shots and entry.shots.isdecimal() else None,
        decoding=read_decoding(rows.generation or {}, has_default=False),
        grader=make_grader_facts(config, entry.lm_eval, entry.task_version),
        settings=None if recorded.settings is None else flatten_settings(recorded.settings),
    )
