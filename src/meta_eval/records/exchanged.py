"""Every Eval Ever: which evaluations there are in a folder, and of several which is meant.

An evaluation is two files: ``UUID.json`` has its averages and settings, ``UUID_samples.jsonl`` a row for every value of
every doc. Which files are such instances is told by what they hold.

Source: every-eval-ever 0.3.0, its schemas.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meta_eval.boundary.inputs import expand, parse_json, read_text, sha256_of
from meta_eval.errors import SourceError
from meta_eval.records.runs import ALL, choose
from meta_eval.results.answers import ResultsError, parse
from meta_eval.results.find import Found
from meta_eval.results.pieces import pieces
from meta_eval.results.results_file import mapping
from meta_eval.shown import quoted

_SAMPLES = "_samples.jsonl"
_VERSION = re.compile(r"0\.3\.\d+")
_MOST_AVERAGES = 2**26
_UNNAMED = "a score without evaluation_result_id"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation that left instances.

    Attributes:
        name: Its ``evaluation_id``.
        model: Its ``model_id``.
        instances: The file of its rows.
        aggregate: The averages and settings, as the file beside it has them.
        tasks: Each ``evaluation_name`` in its rows, by the name that a pack gives it.
    """

    name: str
    model: str
    instances: Path
    aggregate: Mapping[str, Any]
    tasks: Mapping[str, str]

    @property
    def aggregate_file(self) -> Path:
        return aggregate_of(self.instances)

    def results(self, said: str) -> dict[str, Mapping[str, Any]]:
        """The averages of an ``evaluation_name``, by ``evaluation_result_id``."""
        listed = self.aggregate.get("evaluation_results")
        found = [mapping(one) for one in listed] if isinstance(listed, list) else []
        return {result_id(one): one for one in found if one.get("evaluation_name") == said}

    def rows(self, said: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Its rows of an ``evaluation_name``, each with its place."""
        for where, row in _rows(self.instances):
            if row.get("evaluation_name") == said:
                yield where, row


@dataclass(frozen=True, slots=True)
class ExchangedRecord:
    """Evaluations of one model, of each task the one that is meant.

    Attributes:
        name: The folder or file, as the user wrote it.
        tasks: By task the evaluation that has it.
        groups: All of it.
    """

    name: str
    tasks: Mapping[str, Evaluation]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def revision(self, task: str) -> str:
        """``sha256:`` over the two files of a task's evaluation."""
        one = self.tasks[task]
        lines = "".join(f"{path.name}\t{sha256_of(path)}\n" for path in (one.aggregate_file, one.instances))
        return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def is_exchanged(name: str) -> bool:
    """Whether a name of the configuration is a folder or file of instances of Every Eval Ever."""
    return any(map(_is_instances, _files(name)))


def result_id(tree: Mapping[str, Any]) -> str:
    """Which score a row or an average is of; the schema lets it out where there is one alone."""
    return str(tree.get("evaluation_result_id") or _UNNAMED)


def aggregate_of(instances: Path) -> Path:
    """The file of averages that belongs to a file of instances."""
    return instances.with_name(instances.name.removesuffix(_SAMPLES).removesuffix(".jsonl") + ".json")


def open_exchanged(name: str, run: str | None, wanted: Sequence[str]) -> ExchangedRecord:
    """Open evaluations on this machine.

    Args:
        name: The folder, or the file of instances, as the user wrote it.
        run: The ``evaluation_id`` that is meant, or its beginning; None where a task has but one.
        wanted: The tasks that are asked for; with a name that is none, all of them are.

    Raises:
        ConfigError: A task has several evaluations and nobody says which, or there is none of this name.
        SourceError: Of another version, without its averages, not the file that these are of, or of several models.
        ResultsError: A row cannot be read.
    """
    found = [_open(path) for path in _files(name) if _is_instances(path)]
    runs: dict[str, list[Found]] = {}
    by_place: dict[tuple[str, Path], Evaluation] = {}
    for one in found:
        for task in one.tasks:
            runs.setdefault(task, []).append(Found(task, one.name, samples=one.instances))
            by_place[task, one.instances] = one
    chosen = choose(dict(sorted(runs.items())), run, wanted, name)
    tasks = {task: by_place[task, one.samples] for task, one in chosen.items() if one.samples is not None}
    models = sorted({one.model for one in tasks.values()})
    if len(models) > 1:
        raise SourceError(
            f"holds evaluations of {len(models)} models: {', '.join(map(quoted, models))}",
            where=name,
            hint="Name one evaluation as evals_run, or its file of instances as evals_dataset",
        )
    return ExchangedRecord(name, tasks, {ALL: tuple(tasks)})


def _files(name: str) -> list[Path]:
    path = expand(name, where="evals_dataset")
    if path.is_dir():
        return sorted(one for one in path.rglob(f"*{_SAMPLES}") if one.is_file())
    return [path] if path.is_file() and path.suffix == ".jsonl" else []


def _is_instances(path: Path) -> bool:
    try:
        _, row = next(_rows(path), ("", {}))
    except ResultsError:
        return False
    return {"schema_version", "evaluation_id", "evaluation_name", "sample_id", "interaction_type"} <= set(row)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for piece in pieces(path):
        yield piece.where, parse(piece.content, piece.where, cut=piece.last and not piece.content.endswith(b"\n"))


def _open(path: Path) -> Evaluation:
    ids: dict[tuple[str, str], None] = {}
    said: dict[str, None] = {}
    count = 0
    for where, row in _rows(path):
        _check_version(row, where)
        ids[str(row.get("evaluation_id")), str(row.get("model_id"))] = None
        said[str(row.get("evaluation_name"))] = None
        count += 1
    if len(ids) != 1:
        raise SourceError(
            f"mixes {len(ids)} evaluations or models: {', '.join(quoted(' of '.join(one)) for one in list(ids)[:4])}",
            where=str(path),
            hint="One file holds the instances of one evaluation: take it as it was published",
        )
    ((name, model),) = ids
    tasks = {re.sub(r"[^A-Za-z0-9_.]+", "_", one).strip("_") or "evaluation": one for one in said}
    if len(tasks) < len(said):
        raise SourceError(
            f"holds evaluations whose names differ in signs alone: {', '.join(map(quoted, said))}", where=str(path)
        )
    return Evaluation(name, model, path, _aggregate(path, name, model, count), tasks)


def _aggregate(path: Path, name: str, model: str, count: int) -> Mapping[str, Any]:
    """The averages beside the instances, which must be of them."""
    file = aggregate_of(path)
    if not file.is_file():
        raise SourceError(
            f"has no {file.name} beside it, so nobody can say what its rows should average to",
            where=str(path),
            hint="Copy the evaluation's file of averages there",
        )
    try:
        tree = parse_json(read_text(file, limit=_MOST_AVERAGES))
    except ValueError:
        raise SourceError("is not JSON", where=str(file), hint="Fetch it again") from None
    tree = mapping(tree)
    _check_version(tree, str(file))
    if tree.get("evaluation_id") != name or mapping(tree.get("model_info")).get("id", model) != model:
        raise SourceError(
            f"is of {quoted(tree.get('evaluation_id'))}, and the instances beside it are of {quoted(name)} by {model}",
            where=str(file),
        )
    said = mapping(tree.get("detailed_evaluation_results"))
    rows, digest = said.get("total_rows"), said.get("checksum")
    if isinstance(rows, int) and rows != count:
        raise SourceError(
            f"holds {count:,} rows, and {file.name} says {rows:,}", where=str(path), hint="Fetch it again"
        )
    if isinstance(digest, str) and said.get("hash_algorithm") == "sha256" and digest.lower() != sha256_of(path):
        raise SourceError(f"does not have the SHA-256 that {file.name} gives", where=str(path), hint="Fetch it again")
    return tree


def _check_version(tree: Mapping[str, Any], where: str) -> None:
    version = tree.get("schema_version")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise SourceError(
            f"is of version {quoted(version)} of Every Eval Ever's schema, and 0.3 is read",
            where=where,
            hint="Convert it with every-eval-ever 0.3",
        )
