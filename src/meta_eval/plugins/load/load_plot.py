"""The plot of a load: partings and corrupted answers by requests in flight."""

from __future__ import annotations

import math
from dataclasses import dataclass

from meta_eval.plugins.load.load_build import Found
from meta_eval.reports.text import format_percent
from meta_eval.stats import Interval

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 230, 46, 40


@dataclass(frozen=True, slots=True)
class Bar:
    """A point with its interval, in pixels; its kind, and its words."""

    kind: str
    x: float
    y: float
    top: float
    bottom: float
    title: str


@dataclass(frozen=True, slots=True)
class LoadPlot:
    """Bars, ticks (label and place in pixels), and width, height, left, bottom."""

    bars: tuple[Bar, ...]
    across: tuple[tuple[str, float], ...]
    up: tuple[tuple[str, float], ...]
    size: tuple[int, int, int, int] = (_WIDTH, _HEIGHT, _LEFT, _BOTTOM)


def draw_load_plot(found: Found) -> LoadPlot | None:
    """The plot; None without a level."""
    if not found.levels:
        return None
    columns = [("alone", found.alone), *((f"{level.level:,}", level.counts) for level in found.levels)]
    uppers = [max(counts.parting_interval.upper, counts.interval.upper) for _, counts in columns if counts.answers]
    highest = max(uppers, default=0.0)
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.25) if highest <= 4 * step or step == 0.25)
    top = step * max(1, math.ceil(highest / step - 1e-9))

    def y(share: float) -> float:
        return round(10 + (_HEIGHT - _BOTTOM - 10) * (1 - min(share, top) / top), 1)

    room = (_WIDTH - _LEFT - 24) / len(columns)
    bars, across = [], []
    for place, (label, counts) in enumerate(columns):
        x = round(_LEFT + 12 + room * (place + 0.5), 1)
        across.append((label, x))
        if counts.answers:
            bars.append(_make_bar("parting", x - 8, counts.parting, counts.parting_interval, y, f"{label}: partings"))
            share = counts.corrupted / counts.answers
            bars.append(_make_bar("corrupted", x + 8, share, counts.interval, y, f"{label}: corrupted"))
    up = tuple((f"{100 * step * n:g}", y(step * n)) for n in range(round(top / step) + 1))
    return LoadPlot(tuple(bars), tuple(across), up)


def _make_bar(kind: str, x: float, share: float, bounds: Interval, y: object, words: str) -> Bar:
    assert callable(y)  # noqa: S101 (see the caller)
    percent = f"{format_percent(share)} % ({format_percent(bounds.lower)} to {format_percent(bounds.upper)})"
    return Bar(kind, round(x, 1), y(share), y(bounds.upper), y(bounds.lower), f"{words} {percent}")
