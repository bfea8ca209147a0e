"""Finds the files of EvalScope's runs in a folder.

A run writes ``reviews/MODEL/DATASET_SUBSET.jsonl`` with verdicts, ``predictions/MODEL/DATASET_SUBSET.jsonl`` with
answers, ``reports/MODEL/DATASET.json`` at its end, and ``configs/task_config*.yaml``. Its folder is named by its time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from meta_eval.sockets import Place, read_log

_REVIEW = re.compile(r"(?P<root>(?:.*/)?)reviews/(?P<model>[^/]+)/(?P<stem>[^/]+)\.jsonl", re.DOTALL)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)")


@dataclass(frozen=True, slots=True)
class EvalScopeReport:
    """What a run says of a dataset at its end."""

    scores: Mapping[str, float]
    """Its means over all samples, by metric."""

    subsets: Mapping[str, int | None]
    """The samples of each subset; None if unknown."""


@dataclass(slots=True)
class EvalscopeRun:
    """The files of a model in a run."""

    model: str
    root: Path
    folder: Path
    """What the user named."""

    reviews: dict[str, Path] = field(default_factory=dict)
    """By dataset and subset, as their names are joined."""

    @property
    def time(self) -> str | None:
        """When it was run, by its folder's name; None if that is no time."""
        for part in reversed(self.root.absolute().parts):
            if match := _TIME.fullmatch(part):
                year, month, day, *clock = match.groups()
                return f"{year}-{month}-{day}T{':'.join(clock)}"
        return None

    def find_predictions(self, stem: str) -> Path | None:
        """The answers of a dataset's subset; None if they are not there."""
        path = self.root / "predictions" / self.model / f"{stem}.jsonl"
        return path if path.is_symlink() or path.exists() else None

    def find_reports(self) -> dict[str, Path]:
        """The reports by dataset; empty for a run that did not end."""
        folder = self.root / "reports" / self.model
        paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
        return {path.stem: path for path in paths}


def find_runs(place: Place) -> list[EvalscopeRun]:
    """The runs of a place: a folder of runs or of one, its folder ``reviews``, or a model's folder in that."""
    path = place.path
    if path is None or not path.is_dir():
        return []
    if path.name == "reviews" and path.parent != path:
        return _list_runs(path.parent, [f"reviews/{file}" for file in place.files], path)
    if path.parent.name == "reviews":
        return _list_runs(path.parent.parent, [f"reviews/{path.name}/{file}" for file in place.files], path)
    return _list_runs(path, place.files, path)


def _list_runs(root: Path, files: list[str] | tuple[str, ...], folder: Path) -> list[EvalscopeRun]:
    runs: dict[tuple[str, str], EvalscopeRun] = {}
    for file in files:
        match = _REVIEW.fullmatch(file)
        if match is None:
            continue
        key = match["root"], match["model"]
        run = runs.setdefault(key, EvalscopeRun(match["model"], root / match["root"], folder))
        run.reviews[match["stem"]] = root / file
    return list(runs.values())


def read_report(path: Path) -> EvalScopeReport:
    """Read a report.

    Raises:
        SourceError, DataError: It cannot be read.
    """
    report = read_log(path)
    scores: dict[str, float] = {}
    subsets: dict[str, int | None] = {}
    for metric in report.find_entries("metrics"):
        name = (metric.find_text("name") or "").removeprefix("mean_")
        value = metric.find_number("score")
        if value is not None:
            scores[name] = value
        for category in metric.find_entries("categories"):
            for subset in category.find_entries("subsets"):
                subsets[subset.find_text("name") or ""] = subset.find_count("num")
    return EvalScopeReport(scores, subsets)


def split_stem(stem: str, datasets: Mapping[str, object]) -> tuple[str, str | None]:
    """The dataset and the subset of a file's name; the whole name where no report says which is which."""
    fitting = [name for name in datasets if stem == name or stem.startswith(f"{name}_")]
    if not fitting:
        return stem, None
    dataset = max(fitting, key=len)
    return dataset, stem[len(dataset) + 1 :] or None
