"""Exports a pack as custom tasks of lighteval. The pack's own code grades each doc.

The folder works without meta-eval. It holds the module that lighteval loads (`assets/lighteval_tasks.py`, the same for
every pack), its ``tasks.json``, lm-eval's docs with the recorded prompts, and the grading code. A task that lighteval
cannot express exactly is left out, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from meta_eval import assets
from meta_eval.answers.requests import Request, build_requests, docs_to_run
from meta_eval.boundary.hashing import hash_bytes, hash_file
from meta_eval.boundary.inputs import read_regular
from meta_eval.boundary.ownership import replace_folder
from meta_eval.boundary.pack_names import COPIED_SUFFIX
from meta_eval.boundary.staging import NewFiles
from meta_eval.messages.errors import PackError
from meta_eval.messages.logs import log, report_progress
from meta_eval.pack.doc_table import parquet_bytes
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.manifest import MANIFEST, Manifest, TaskEntry, read_manifest
from meta_eval.pack.task_choice import choose_tasks_to_ask
from meta_eval.templates.spec import FunctionRef
from meta_eval.templates.template_folder import FolderReader, merge_includes
from meta_eval.verb_options import TaskOptions
from meta_eval.verification.evaluator import Evaluator

MODULE = "meta_eval_tasks.py"
TASKS = "tasks.json"
NAMES = "tasks.txt"  # a file of task names that lighteval accepts

# Scores that the module computes itself for tasks without their own function, as lm-eval does.
_PLAIN = {"generate": {"exact_match"}, "choices": {"acc", "acc_norm"}}
_FILTERS = {"regex": {"regex_pattern", "group_select", "fallback"}, "custom": {"filter_fn"}, "take_first": set()}
_OPTIONS = ("ignore_case", "ignore_punctuation", "ignore_numbers", "regexes_to_ignore")


@dataclass(slots=True)
class LightevalExport:
    """The export: the folder, the number of docs per task, and the reasons for omitted tasks."""

    folder: Path
    tasks: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


class _CannotError(Exception):
    """Why lighteval cannot express a task."""


def export_to_lighteval(pack: Path, folder: Path, options: TaskOptions) -> LightevalExport:
    """Write a pack as custom tasks of lighteval, whole or not at all.

    Args:
        pack: The pack.
        folder: Where to write. An earlier export is replaced; any other folder is refused.
        options: Tasks to export. ``tasks.json`` records edits of the pack.

    Raises:
        PackError: The folder is not a pack or was edited, or lighteval can express none of its tasks.
        OutputError: The folder cannot be written.
        ConfigError: The pack lacks a named task.
    """
    manifest = read_manifest(pack)
    chosen = choose_tasks_to_ask(manifest, options.tasks)
    changed = check_unchanged(pack, manifest, edited=options.edited)
    evaluator = Evaluator(pack)
    done = LightevalExport(folder)
    with replace_folder(folder, "lighteval", inputs=[pack]) as new:
        listed = []
        for name in chosen:
            report_progress(name, 0, manifest.tasks[name].docs)
            try:
                description, docs = _task(pack, manifest, name, evaluator)
            except _CannotError as why:
                done.left_out[name] = str(why)
                log.warning(f"{name}: skipped, because {why}")
                continue
            new.write(description["docs"], docs)
            listed.append(description)
            done.tasks[description["name"]] = description["count"]
            report_progress(name, description["count"], manifest.tasks[name].docs)
        if not listed:
            raise PackError("has no task that lighteval can run", where=str(pack), hint="See the reasons above")
        _code(pack, manifest, new)
        new.write(".gitignore", assets.read_asset("work_dir.gitignore"))
        new.write(MODULE, assets.read_asset("lighteval_tasks.py"))
        new.write(NAMES, "".join(f"{task['name']}\n" for task in listed).encode())
        head = {
            "format": "meta-eval tasks for lighteval",
            "version": 1,
            "manifest_sha256": hash_file(pack / MANIFEST),
            **({"edited": list(changed)} if changed else {}),
        }
        text = json.dumps({**head, "tasks": listed, "left_out": done.left_out}, indent=1, ensure_ascii=False)
        new.write(TASKS, (text + "\n").encode())
    return done


def _task(pack: Path, manifest: Manifest, name: str, evaluator: Evaluator) -> tuple[dict[str, Any], bytes]:
    """Make a task's entry in ``tasks.json`` and its file of docs.

    Raises:
        _CannotError: lighteval cannot express it.
    """
    entry = manifest.tasks[name]
    settings, origins, _ = merge_includes(FolderReader(pack), PurePosixPath(entry.template), ())
    kind = _kind(entry, settings)
    graders = _graders(settings, origins, kind)
    task = evaluator.load(name)
    limit = manifest.run.limit
    docs = [task.eval_docs[number] for number in docs_to_run(len(task.eval_docs), limit)]
    try:
        requests = list(build_requests(evaluator, name, limit))
    except PackError as error:
        raise _CannotError(f"it {error.what}") from None
    if any(request.repeat for request in requests):
        raise _CannotError("it makes more than one request per doc")
    shared = _shared(requests, len(docs))
    lengths = _lengths(task, docs) if kind == "choices" and graders["process_results"] is None else None
    content = parquet_bytes(_table(task, docs, requests, lengths, kind))
    # Avoid names of lighteval's own tasks.
    named = name if entry.record is None else f"recorded_{name}"
    description = {
        "name": named,
        "task": name,
        "kind": kind,
        "docs": f"docs/{named}/test.parquet",
        "sha256": hash_bytes(content),
        "count": len(docs),
        **shared,
        **graders,
    }
    return description, content


def _kind(entry: TaskEntry, settings: Mapping[str, Any]) -> str:
    if entry.unsafe_code:
        raise _CannotError("it runs model-written code, and lighteval does not ask for permission first")
    if "class" in settings:
        raise _CannotError("a Python class makes its requests, and lighteval has one token limit for all docs")
    kind = {"generate_until": "generate", "multiple_choice": "choices"}.get(entry.output_type)
    if kind is None:
        raise _CannotError(f"lighteval has no counterpart of its output type {entry.output_type}")
    if settings.get("repeats", 1) != 1:
        raise _CannotError("it asks each doc several times")
    return kind


def _graders(settings: Mapping[str, Any], origins: Mapping[str, PurePosixPath], kind: str) -> dict[str, Any]:
    def function(key: str, reference: FunctionRef) -> list[str]:
        return [(origins[key] / reference.module_file).as_posix(), reference.function]

    def optional(key: str) -> list[str] | None:
        value = settings.get(key)
        return function(key, value) if isinstance(value, FunctionRef) else None

    process = optional("process_results")
    if process is None and settings.get("process_results") is not None:
        raise _CannotError("its process_results is not a function in a file")
    return {
        "process_results": process,
        "doc_to_text": optional("doc_to_text"),
        "filters": [
            {"name": str(group["name"]), "steps": [_step(step, function) for step in group["filter"]]}
            for group in settings.get("filter_list") or [{"name": "none", "filter": [{"function": "take_first"}]}]
        ],
        "metrics": [_metric(metric, function, process is None, kind) for metric in settings["metric_list"]],
    }


def _step(step: Mapping[str, Any], function: Callable[[str, FunctionRef], list[str]]) -> dict[str, Any]:
    name = str(step.get("function"))
    options = {key: value for key, value in step.items() if key != "function"}
    if name not in _FILTERS or not set(options) <= _FILTERS[name]:
        raise _CannotError(f"its filter {name} {sorted(options)} is built into lm-eval")
    if name == "custom":
        options = {"filter_fn": function("filter_list", options["filter_fn"])}
    return {"function": name, **options}


def _metric(
    metric: Mapping[str, Any], function: Callable[[str, FunctionRef], list[str]], plain: bool, kind: str
) -> dict[str, Any]:
    name, aggregation = metric["metric"], metric.get("aggregation", "mean")
    if not isinstance(name, str) or isinstance(name, FunctionRef):
        raise _CannotError(f"its metric {name} is a bare function")
    if plain and name not in _PLAIN[kind]:
        raise _CannotError(f"its metric {name} is built into lm-eval")
    if not isinstance(aggregation, FunctionRef) and aggregation != "mean":
        raise _CannotError(f"its metric {name} is aggregated by lm-eval's {aggregation}")
    return {
        "metric": str(name),
        "aggregation": function("metric_list", aggregation) if isinstance(aggregation, FunctionRef) else None,
        "higher_is_better": bool(metric.get("higher_is_better", True)),
        **{key: metric[key] for key in _OPTIONS if key in metric},
    }


def _shared(requests: Sequence[Request], docs: int) -> dict[str, Any]:
    """The settings that all requests of a task share. lighteval has them only per task."""
    asked = {(request.stop, request.max_tokens, json.dumps(request.settings, sort_keys=True)) for request in requests}
    if len(requests) != docs:
        raise _CannotError("it asks each doc several times, or gives each choice its own prompt")
    if len(asked) != 1:
        raise _CannotError("its docs differ in limits or settings, and lighteval has one for all docs")
    (first,) = {(request.stop, request.max_tokens) for request in requests}
    settings = requests[0].settings or {}
    if settings.get("do_sample") or settings.get("temperature"):
        raise _CannotError("it samples, and lighteval sets sampling per model, not per task")
    return {"stop": list(first[0]), "max_tokens": first[1] or None}


def _lengths(task: Any, docs: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """The length of each choice in characters. lm-eval's acc_norm divides by it."""
    return [[len(choice) for choice in task.doc_to_choice(doc)] for doc in docs]


def _table(
    task: Any,
    docs: Sequence[Mapping[str, Any]],
    requests: Sequence[Request],
    lengths: Sequence[Sequence[int]] | None,
    kind: str,
) -> Any:
    import pyarrow as pa

    golds = [_right_choice(task, doc) if kind == "choices" else task.doc_to_target(doc) for doc in docs]
    try:
        texts = [json.dumps(doc, ensure_ascii=False) for doc in docs]
    except TypeError as error:
        raise _CannotError(f"a doc cannot be written as JSON ({error})") from None
    answers = [
        list(request.continuations) if kind == "choices" else [str(gold)]
        for request, gold in zip(requests, golds, strict=True)
    ]
    return pa.table(
        {
            "query": pa.array([request.prompt for request in requests], pa.string()),
            "choices": pa.array(answers, pa.list_(pa.string())),
            "gold_index": pa.array(golds if kind == "choices" else [0] * len(docs), pa.int64()),
            "lengths": pa.array(lengths if lengths is not None else [None] * len(docs), pa.list_(pa.int64())),
            "doc": pa.array(texts, pa.string()),
        }
    )


def _right_choice(task: Any, doc: Mapping[str, Any]) -> int:
    """The index of the right choice. A task may give its text instead."""
    gold = task.doc_to_target(doc)
    choices = task.doc_to_choice(doc)
    if isinstance(gold, str) and gold in choices:
        return int(choices.index(gold))
    if type(gold) is not int or not 0 <= gold < len(choices):
        raise _CannotError("a doc has no single right choice")
    return gold


def _code(pack: Path, manifest: Manifest, new: NewFiles) -> None:
    """Copy the files that grade: all except docs, YAML and files that only prepare reads."""
    docs = {entry.docs_file for entry in manifest.tasks.values()}
    for name in manifest.files:
        last = PurePosixPath(name).name
        if name in docs or last.endswith((".yaml", "_yaml", COPIED_SUFFIX)) or last in (".gitignore", "pack_docs.py"):
            continue
        new.write(f"code/{name}", read_regular(pack / name))
