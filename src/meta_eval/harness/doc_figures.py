"""Figures of single answers, such as their length, of which reports show the mean of each task.

A figure is a row of `FIGURES`. Runs, baselines, JSON and every view have it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any


@dataclass(frozen=True, slots=True)
class DocFigure:
    """A figure of an answer.

    Attributes:
        key: Its name for machines.
        heading: Its name for people.
        legend: What it is, in full.
        read: Takes it from a sample of lm-eval and the texts of its answers, of which a choice by likelihood has none.
            None where it is not known.
    """

    key: str
    heading: str
    legend: str
    read: Callable[[Mapping[str, Any], Sequence[str]], float | None]


def _read_tokens(sample: Mapping[str, Any], answers: Sequence[str]) -> float | None:
    tokens = sample.get("completion_tokens")
    return tokens / len(answers) if answers and isinstance(tokens, int) else None


FIGURES = (
    DocFigure("answer_tokens", "answer tokens", "mean tokens of an answer, as the engine counted", _read_tokens),
)


def read_figures(sample: Mapping[str, Any], answers: Sequence[str]) -> dict[str, float]:
    """The figures of a sample, by key. Those that are not known are left out."""
    return {figure.key: value for figure in FIGURES if (value := figure.read(sample, answers)) is not None}


def average_figures(docs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each figure over the docs that have it, by key."""
    values: dict[str, list[float]] = {}
    for figures in docs:
        for key, value in figures.items():
            values.setdefault(key, []).append(value)
    return {key: fmean(of_key) for key, of_key in values.items()}
