"""Runs by lm-eval itself, and runs in its format with chosen verdicts."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import orjson

from meta_eval.harness.settings import RunSettings
from meta_eval.pack.manifest import (
    SCHEMA_VERSION,
    LengthEntry,
    Manifest,
    PreparedFrom,
    ReferenceScoreEntry,
    TaskEntry,
    VersionRange,
)

if TYPE_CHECKING:
    from meta_eval.harness.lm_eval_run import Run

TIME = "2026-01-02T03-04-05.000006"
DOCS_SHA256 = "d" * 64

RUN = RunSettings(model_name="org/Some-Model", tasks=("meta_some",), include_path="./work_dir")
ASKED = PreparedFrom(
    evals_dataset="org/Some-Model-evals", evals_revision=None, tasks=("meta_some",), template_dir="./meta_template",
    originals={}, bundle=True, allow_unmatched=False, allow_code=False,
)  # fmt: skip


@contextmanager
def cheaper_evaluator() -> Iterator[None]:
    """Let lm-eval keep compiled templates, and start no git. No test reads the commit of its folder."""
    from meta_eval.harness.evaluator_patches import keep_templates

    keep_templates()
    with patch("lm_eval.evaluator.get_git_commit_hash", return_value=None):
        yield


def run_lm_eval(
    pack: Path, tasks: Sequence[str], output: Path, *, model_name: str = "org/Some-Model", **options: Any
) -> Path:
    """Let lm-eval replay tasks of a pack and write results and samples as its command line does. Return the folder."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from meta_eval.harness.replay import ReplayLM

    tracker = EvaluationTracker(output_path=str(output))
    with cheaper_evaluator():
        results = lm_eval.simple_evaluate(
            model=ReplayLM(), model_args={"pretrained": model_name}, tasks=list(tasks), log_samples=True,
            task_manager=TaskManager(include_path=str(pack), include_defaults=False), evaluation_tracker=tracker,
            bootstrap_iters=0, **options,
        )  # fmt: skip
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task, rows in samples.items():
        tracker.save_results_samples(task_name=task, samples=rows)
    return output


# No two runs take the same time.
_SECONDS = itertools.count(12)


def write_run(
    folder: Path,
    verdicts: Sequence[float],
    *,
    task: str = "meta_some",
    recorded: Sequence[bool | None] | None = None,
    subtasks: Sequence[str] | None = None,
    time: str = TIME,
    metric: str = "exact_match",
    filters: Sequence[str] = ("strict-match",),
    order: Sequence[int] | None = None,
    doc: dict[str, Any] | None = None,
    line: dict[str, Any] | None = None,
    results: bool = True,
    samples: bool = True,
    config: dict[str, Any] | None = None,
    model_args: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Write results and samples of a task as lm-eval 0.4.13 does, and return the folder. Doc i has the verdict i.

    ``doc`` and ``line`` change every doc and line. ``config`` and ``extra`` change the results file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if samples:
        lines = []
        for name in filters:
            for index in order or range(len(verdicts)):
                values = (
                    index, verdicts[index], recorded[index] if recorded else None, subtasks[index] if subtasks else None,
                    metric, name,
                )  # fmt: skip
                plain = not doc and not line
                whole = _plain_line(*values) if plain else _encode(sample(*values, doc or {}) | (line or {}))
                lines.append(whole)
        (folder / f"samples_{task}_{time}.jsonl").write_bytes(b"".join(whole + b"\n" for whole in lines))
    groups: dict[str | None, list[float]] = {}
    for index, verdict in enumerate(verdicts):
        groups.setdefault(subtasks[index] if subtasks else None, []).append(verdict)
    macro = sum(sum(group) / len(group) for group in groups.values()) / len(groups)
    averages = {}
    for name in filters:
        averages |= {f"{metric},{name}": sum(verdicts) / len(verdicts), f"{metric}_stderr,{name}": 0.01}
        averages |= {f"{metric}_macro,{name}": macro, f"{metric}_macro_stderr,{name}": "N/A"}
    tree = {
        "results": {task: {"name": task, "alias": task, "sample_len": len(verdicts), **averages}},
        "configs": {task: {"task": task, "dataset_kwargs": {"docs_file": "../x.parquet", "sha256": DOCS_SHA256}}},
        "n-samples": {task: {"original": len(verdicts), "effective": len(verdicts)}},
        "config": {
            "model": "vllm", "model_args": model_args or {"pretrained": "org/Some-Model"}, "limit": None,
            "gen_kwargs": {}, **(config or {}),
        },
        "date": 1767322800.0,
        "lm_eval_version": "0.4.13",
        "model_name": "org/Some-Model",
        "total_evaluation_time_seconds": f"{next(_SECONDS)}.5",
        **(extra or {}),
    }  # fmt: skip
    if results:
        (folder / f"results_{time}.json").write_text(json.dumps(tree), encoding="utf-8")
    return folder


_READ: dict[str, Run] = {}


def write_and_read(folder: Path, verdicts: Sequence[float], **options: Any) -> Run:
    """Write a run and read it. The same again is neither written nor read, for nothing changes a `Run`."""
    from meta_eval.harness.lm_eval_run import read_run

    key = repr((list(verdicts), sorted(options.items())))
    if key not in _READ:
        _READ[key] = read_run([write_run(folder, verdicts, **options)])
    return _READ[key]


def write_and_read_group(folder: Path, tasks: Mapping[str, Sequence[float]], **options: Any) -> Run:
    """Write a run of `write_group` and read it, as `write_and_read` does."""
    from meta_eval.harness.lm_eval_run import read_run

    key = repr((sorted(tasks.items()), sorted(options.items())))
    if key not in _READ:
        _READ[key] = read_run([write_group(folder, tasks, **options)])
    return _READ[key]


def write_group(
    folder: Path, tasks: Mapping[str, Sequence[float]], *, group: str = "mmlu_pro", by_docs: bool = True, **options: Any
) -> Path:
    """Write several tasks into one results file, with a group that lm-eval averages over docs or over tasks."""
    whole: dict[str, Any] = {}
    for task, verdicts in tasks.items():
        write_run(folder, verdicts, task=task, **options)
        samples = folder / f"samples_{task}_{TIME}.jsonl"
        lines = read_lines(samples)
        for line in lines:
            line["doc"]["input_question_hash"] = digest(f"{task} {line['doc_id']}")
        write_lines(samples, lines)
        path = folder / f"results_{TIME}.json"
        tree = json.loads(path.read_text(encoding="utf-8"))
        for part in ("results", "configs", "n-samples"):
            tree[part] = {**whole.get(part, {}), **tree[part]}
        whole = tree
    sizes = [len(verdicts) if by_docs else 1 for verdicts in tasks.values()]
    means = [sum(verdicts) / len(verdicts) for verdicts in tasks.values()]
    average = sum(size * mean for size, mean in zip(sizes, means, strict=True)) / sum(sizes)
    metric = options.get("metric", "exact_match")
    whole["groups"] = {
        group: {"alias": group, f"{metric},strict-match": average, f"{metric}_stderr,strict-match": 0.01}
    }
    whole["group_subtasks"] = {group: list(tasks)}
    (folder / f"results_{TIME}.json").write_text(json.dumps(whole), encoding="utf-8")
    return folder


def sample(
    index: int, verdict: float, recorded: bool | None, subtask: str | None, metric: str, name: str, doc: dict[str, Any]
) -> dict[str, Any]:
    """Make a line of a samples file."""
    prompt = f"Question {index}?"
    return {
        "doc_id": index,
        "doc": {
            "question": f"{index}?", "prompt": prompt, "gold": "A", "subtask_name": subtask, "choices": None,
            "input_question_hash": digest(f"{index}?"), "input_final_prompts_hash": [digest(prompt)],
            "recorded_output": "The answer is A.", "recorded_is_correct": recorded, **doc,
        },
        "target": "A",
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": [], "max_gen_toks": 1024}}},
        "resps": [[f"The answer is {'A' if verdict else 'B'}."]],
        "filtered_resps": ["A" if verdict else "B"],
        "filter": name,
        "metrics": [metric, f"{metric}_macro", "unextracted"],
        "doc_hash": digest(f"doc {index}"),
        "prompt_hash": digest(prompt),
        "target_hash": digest("A"),
        metric: float(verdict),
        f"{metric}_macro": [subtask, float(verdict)],
        "unextracted": 0.0,
    }  # fmt: skip


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a samples file."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write the lines of a samples file."""
    path.write_bytes(b"".join(_encode(line) + b"\n" for line in lines))


def _encode(line: Mapping[str, Any]) -> bytes:
    """Encode as `json` does, which is slow, where orjson made a null of what is no None: of NaN."""
    text = orjson.dumps(line)
    if not (nulls := text.count(b"null")):
        return text
    values = [*line.values(), *(line["doc"].values() if isinstance(line.get("doc"), dict) else ())]
    nones = sum([value is None for value in values]) + sum([v.count(None) for v in values if isinstance(v, list)])
    if nulls == nones:
        return text
    return json.dumps(line, ensure_ascii=False).encode()


@functools.lru_cache(maxsize=20_000)
def _plain_line(
    index: int, verdict: float, recorded: bool | None, subtask: str | None, metric: str, name: str
) -> bytes:
    """A line of a samples file to which a test adds nothing: many tests write the same ones."""
    return _encode(sample(index, verdict, recorded, subtask, metric, name, {}))


@functools.cache
def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def published(value: float, **other: Any) -> ReferenceScoreEntry:
    fields = {
        "metric": "exact_match,strict-match", "benchmark": "Some", "value": value, "source_metric": "em",
        "averaging": None, "shots": "0", "cot": False, "same_settings": True, "source": "a card", "note": None,
    }  # fmt: skip
    return ReferenceScoreEntry(**{**fields, **other})


def entry(docs: int, *numbers: ReferenceScoreEntry, **other: Any) -> TaskEntry:
    """Make the manifest's entry of a task with ``docs`` docs.

    Raises:
        TypeError: A key that the manifest does not have.
    """
    if unknown := sorted(other.keys() - TaskEntry.model_fields.keys()):
        raise TypeError(f"an entry of the manifest has no {', '.join(unknown)}")
    fields = {
        "template": "some/some.yaml", "model": "Some-Model", "family": "3.1", "variant": "instruct",
        "dataset_id": "org/Some-Model-evals", "dataset_revision": "0" * 40, "dataset_config": "Some__some__details",
        "subset": "some", "output_type": "generate_until", "rows": docs, "docs": docs, "docs_file": "meta_some.parquet",
        "columns": (), "join": None, "warnings": {}, "recorded_settings": {},
        "longest_prompt": LengthEntry(tokens=9, method="counted", max_gen_toks=1024, max_model_len=8192),
        "reference_scores": numbers, "row_format": "seen", "filters": ("strict-match",), "primary_metric": "exact_match,strict-match",
        "recorded_metric": None, "graded_by": "program", "min_agreement": 0.99, "unsafe_code": False,
    }  # fmt: skip
    return TaskEntry(**{**fields, **other})


def manifest(**tasks: TaskEntry) -> Manifest:
    """Make the manifest of these tasks, whose docs files all have `DOCS_SHA256`."""
    files = {task.docs_file for task in tasks.values()} | {run.file for task in tasks.values() for run in task.baseline}
    return Manifest(
        schema_version=SCHEMA_VERSION, meta_eval="0", lm_eval=VersionRange(minimum="0.4.11", below="0.5"), prepared_from=ASKED,
        run_settings=RUN, originals={}, tasks=tasks, groups={}, command=(),
        files={name: {"sha256": DOCS_SHA256, "bytes": 1} for name in sorted(filter(None, files))},
    )  # fmt: skip


def embed_samples(folder: Path, file: Path) -> Path:
    """Write the result of ``simple_evaluate`` as its caller does, in a single file with the samples."""
    results = next(folder.rglob("*results*.json"))
    tree = json.loads(results.read_text(encoding="utf-8"))
    result: dict[str, list[Any]] = {}
    for path in sorted(folder.rglob("*.jsonl")) + sorted(folder.rglob("samples_*.json")):
        task = next(task for task in tree["configs"] if re.search(rf"_{task}(_\d{{4}}-.*)?\.jsonl?$", path.name))
        text = path.read_text(encoding="utf-8")
        result[task] = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    for sample in (sample for samples in result.values() for sample in samples):
        if isinstance(sample["arguments"], dict):
            sample["arguments"] = [list(argument.values()) for argument in sample["arguments"].values()]
    tree["git_hash"] = "ä🙂"  # more bytes than letters before the samples
    tree |= {"samples": result, "config": tree.pop("config")}
    file.write_text(json.dumps(tree, ensure_ascii=False, indent=1), encoding="utf-8")
    return file
