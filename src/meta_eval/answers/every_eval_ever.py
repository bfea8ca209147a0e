"""Exports results of a run in the schema Every Eval Ever, without any text of a doc.

The aggregate file holds every average, the instance file every value of every doc. Rows of Meta's datasets are gated,
and choices or answers may quote them. So a doc appears only as hashes. ``sample_hash`` is computed from prompt and
target, exactly as the schema's own converter of lm-eval does. Samples of both can be matched.

Source: every-eval-ever 0.3.0 (its schemas, and ``converters/lm_eval``).
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from meta_eval.boundary.hashing import hash_json, hash_text
from meta_eval.boundary.ownership import replace_folder
from meta_eval.boundary.staging import NewFiles
from meta_eval.messages.errors import PackError
from meta_eval.pack.manifest import Manifest, TaskEntry, read_manifest
from meta_eval.results.doc_results import ResultsError
from meta_eval.results.lm_eval_run import TaskRun, read_run
from meta_eval.results.sample_files import open_samples
from meta_eval.results.sample_parser import read_arguments
from meta_eval.version import __version__

SCHEMA = "0.3.0"
COLLECTION = "meta-eval"
_WITHHELD = "withheld"


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The export: the aggregate file, the instance file, and their numbers of averages and instances."""

    aggregate: Path
    instances: Path
    results: int
    rows: int


def export_results(pack: Path, results: Path, folder: Path) -> Exchanged:
    """Write the results of a run as ``data/meta-eval/DEVELOPER/MODEL/UUID.json`` and ``UUID_samples.jsonl``.

    Args:
        pack: The pack.
        results: Results folder of lm_eval or `meta-eval run`.
        folder: Where to write. An earlier export is replaced; any other folder is refused.

    Raises:
        PackError: The folder is not a pack.
        ResultsError: There are no results, they are damaged, or none belongs to a task of the pack.
        OutputError: The folder cannot be written.
    """
    manifest = read_manifest(pack)
    run = read_run([results])
    tasks = {name: task for name, task in sorted(run.tasks.items()) if name in manifest.tasks}
    if not tasks:
        raise ResultsError(
            f"holds no results for the tasks of {pack}", where=str(results), hint="Name the pack that was run"
        )
    first = next(iter(tasks.values())).provenance
    developer, model = _model(first.model or manifest.run.model_name)
    when = _moment(first.date)
    evaluation = f"{COLLECTION}/{developer}_{model}/{when}"
    name = _uuid(evaluation, tasks)
    place = f"data/{COLLECTION}/{developer}/{model}"
    samples = f"{place}/{name}_samples.jsonl"
    about = {"evaluation_id": evaluation, "model_id": f"{developer}/{model}"}
    with replace_folder(folder, "every_eval_ever", inputs=[pack, results]) as new:
        rows = (row for task, ran in tasks.items() for row in _instances(task, ran, about))
        count, checksum = _write_rows(new, samples, rows)
        listed = [result for task, ran in tasks.items() for result in _results(task, ran, manifest.tasks[task])]
        head = _head(manifest, tasks, evaluation, when, f"{developer}/{model}", developer)
        if count:
            head["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": samples,
                "hash_algorithm": "sha256",
                "checksum": checksum,
                "total_rows": count,
            }
        text = json.dumps({**head, "evaluation_results": listed}, indent=2, ensure_ascii=False, allow_nan=False)
        new.write(f"{place}/{name}.json", (text + "\n").encode())
    return Exchanged(folder / place / f"{name}.json", folder / samples, len(listed), count)


def _write_rows(new: NewFiles, name: str, rows: Iterator[dict[str, Any]]) -> tuple[int, str]:
    """Write JSON lines, and return their number and the file's SHA-256. No rows, no file."""
    digest, count, first = hashlib.sha256(), 0, next(rows, None)
    if first is None:
        return 0, ""
    with new.create(name) as file:
        for count, row in enumerate(chain([first], rows), 1):  # noqa: B007
            line = json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n"
            file.write(line)
            digest.update(line.encode())
    return count, digest.hexdigest()


def _model(name: str) -> tuple[str, str]:
    """Split a model name into developer and model. For a local folder, keep only its last part."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    local = len(parts) != 2 or name.startswith(("/", ".", "~"))
    if not parts:
        raise PackError("names no model", where="model_name")
    return ("local" if local else parts[0]), parts[-1]


def _moment(date: str | None) -> int:
    """Start of the run in seconds since 1970. 0 if unknown, so that the same results give the same bytes."""
    if date is None:
        return 0
    try:
        moment = datetime.fromisoformat(date)
    except ValueError:
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _uuid(evaluation: str, tasks: Mapping[str, TaskRun]) -> uuid.UUID:
    """A UUID, as the schema requires. The same results give the same UUID."""
    text = json.dumps([evaluation, {name: [ran.time, len(ran.docs)] for name, ran in tasks.items()}])
    return uuid.UUID(hex=hash_text(text)[:32], version=4)


def _head(
    manifest: Manifest, tasks: Mapping[str, TaskRun], evaluation: str, when: int, model_id: str, developer: str
) -> dict[str, Any]:
    first = next(iter(tasks.values())).provenance
    return {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation,
        **({"evaluation_timestamp": first.date} if first.date else {}),
        "retrieved_timestamp": str(when),
        "source_metadata": {
            "source_name": "meta-eval",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": {"meta_eval": __version__, "pack": manifest.meta_eval},
        },
        "eval_library": {"name": "lm_eval", "version": first.lm_eval or "unknown"},
        "model_info": {
            "name": model_id.partition("/")[2],
            "id": model_id,
            "developer": developer,
            "inference_engine": {
                "name": first.backend or "unknown",
                **({"version": first.engine} if first.engine else {}),
            },
            "additional_details": {"deployment_type": "self_deployed", "model_availability": "unknown"},
        },
    }


def _results(task: str, ran: TaskRun, entry: TaskEntry) -> Iterator[dict[str, Any]]:
    for spec, aggregate in ran.aggregates.items():
        if not math.isfinite(aggregate.value):
            continue
        metric, _, name = spec.partition(",")
        error = aggregate.stderr
        yield {
            "evaluation_result_id": f"{task}:{spec}",
            "evaluation_name": task if name in ("", "none") else f"{task}/{name}",
            "source_data": {
                "dataset_name": entry.dataset_config,
                "source_type": "hf_dataset",
                "hf_repo": entry.dataset_id,
                "samples_number": len(ran.docs) or entry.docs,
                "additional_details": {"revision": entry.dataset_revision, "docs_of_task": str(entry.docs)},
            },
            "metric_config": {
                "metric_id": metric,
                "metric_name": spec,
                "lower_is_better": metric in ran.lower_is_better,
                "score_type": "continuous",
                **({"min_score": 0, "max_score": 1, "metric_unit": "proportion"} if aggregate.share else {}),
            },
            "score_details": {
                "score": aggregate.value,
                **(
                    {"uncertainty": {"standard_error": {"value": error}, "num_samples": len(ran.docs) or entry.docs}}
                    if error is not None and math.isfinite(error)
                    else {}
                ),
            },
        }


def _instances(task: str, ran: TaskRun, shared: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each value of each doc that is a single number."""
    if ran.samples_file is None:
        return
    with open_samples(ran.samples_file) as whole:
        for doc in ran.docs:
            for name, answer in doc.answers.items():
                sample = whole(answer)
                for metric, value in answer.metrics.items():
                    if not isinstance(value, (bool, int, float)) or not math.isfinite(value):
                        continue
                    yield {
                        "schema_version": SCHEMA,
                        **shared,
                        "evaluation_name": task if name == "none" else f"{task}/{name}",
                        "evaluation_result_id": f"{task}:{metric},{name}",
                        "sample_id": str(doc.doc_id),
                        "sample_hash": _sample_hash(sample),
                        "interaction_type": "single_turn",
                        "input": {"raw": _WITHHELD, "reference": []},
                        "output": {"raw": []},
                        "answer_attribution": [],
                        "evaluation": {"score": float(value), "is_correct": value == 1},
                        "metadata": {"question_hash": doc.question_hash, "filter": name},
                    }


def _sample_hash(sample: Mapping[str, Any]) -> str:
    """SHA-256 of prompt and target, as in every-eval-ever's converter of lm-eval."""
    asked = read_arguments(sample)
    prompt = asked[0][0] if asked and asked[0] else ""
    return hash_json({"raw": prompt, "reference": str(sample.get("target", ""))})
