"""The plot of a history: the score of each run, the mean before it, and the runs of an alarm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meta_eval.plugins.nightly.history_alarm import Chart
from meta_eval.plugins.nightly.run_history import PastRun

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 220, 46, 34

# Runs of a plot, the newest; labels of runs under it.
_SHOWN, _LABELS = 120, 6


@dataclass(frozen=True, slots=True)
class Dot:
    """A run: its place in pixels, whether it is part of an alarm, and its name and score."""

    x: float
    y: float
    is_alarmed: bool
    title: str


@dataclass(frozen=True, slots=True)
class RunPlot:
    """Dots, the line of means as an SVG's path, ticks (label and place in pixels), and width, height, left, bottom."""

    name: str
    dots: tuple[Dot, ...]
    means: str
    across: tuple[tuple[str, float], ...]
    up: tuple[tuple[str, float], ...]
    size: tuple[int, int, int, int] = (_WIDTH, _HEIGHT, _LEFT, _BOTTOM)


def draw_run_plot(chart: Chart, runs: Sequence[PastRun]) -> RunPlot | None:
    """The plot of a chart; None with a single run.

    Args:
        chart: The chart.
        runs: All runs of the history, which the chart's places refer to.
    """
    pairs = list(zip(chart.runs, chart.points, strict=True))[-_SHOWN:]
    if len(pairs) < 2:
        return None
    values = [value for _, point in pairs for value in (point.score, point.mean) if value is not None]
    low, high = min(values), max(values)
    room = max(high - low, 0.02) / 8
    low, high = max(0.0, low - room), min(1.0, high + room)

    def x(place: int) -> float:
        return round(_LEFT + 8 + (_WIDTH - _LEFT - 24) * place / (len(pairs) - 1), 1)

    def y(score: float) -> float:
        return round(8 + (_HEIGHT - _BOTTOM - 8) * (high - score) / (high - low), 1)

    dots = tuple(
        Dot(x(place), y(point.score), point.state != "ok", f"{runs[run].label}: {100 * point.score:.1f}")
        for place, (run, point) in enumerate(pairs)
    )
    # The mean is missing at the first runs, and stays as it was during an alarm.
    means = [(x(place), y(point.mean)) for place, (_, point) in enumerate(pairs) if point.mean is not None]
    path = "M" + "L".join(f"{across} {up}" for across, up in means) if means else ""
    step = max(1, -(-len(pairs) // _LABELS))
    across = tuple((runs[pairs[place][0]].time[5:10], x(place)) for place in range(0, len(pairs), step))
    up = tuple((f"{100 * score:.1f}", y(score)) for score in (low, (low + high) / 2, high))
    return RunPlot(chart.name, dots, path, across, up)
