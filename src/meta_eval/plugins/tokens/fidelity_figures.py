"""The figures of a fidelity page: distances on an axis of powers of ten, and the survival of answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meta_eval.plugins.tokens.thresholds import FIDELITY_DIFFERENT_TIMES, FIDELITY_LEVEL_TEXT
from meta_eval.reports.plot import Mark, Plot, Tick
from meta_eval.sockets import Row, Table

if TYPE_CHECKING:
    from meta_eval.plugins.tokens.comparison import Paired
    from meta_eval.plugins.tokens.token_figures import Figures

# The axis of distances, powers of ten in nats a token.
_LOWEST, _HIGHEST = -4, 1

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 220, 46, 34


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of the survival plot, as an SVG's path, and what it is of."""

    label: str
    shape: str
    path: str


@dataclass(frozen=True, slots=True)
class Survival:
    """Curves, the ticks of both axes (label and place in pixels), and width, height, left and lower edge."""

    curves: tuple[Curve, ...]
    across: tuple[tuple[str, float], ...]
    up: tuple[tuple[str, float], ...]
    size: tuple[int, int, int, int] = (_WIDTH, _HEIGHT, _LEFT, _BOTTOM)


def make_survival(copy: Sequence[Figures], baseline: Sequence[Figures]) -> Survival | None:
    """The share of answers that has not diverged so far, over the logarithm of the place."""
    sides = (("this copy", "copy", copy), ("the baseline", "base", baseline))
    lines = [
        (label, shape, figures[0])
        for label, shape, figures in sides
        if figures and len(figures[0].divergence.survival) > 1
    ]
    if not lines:
        return None
    last = max(max(figures.divergence.survival) for *_, figures in lines)
    reach = math.log2(last) or 1.0

    def x(place: int) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 12) * math.log2(place) / reach, 1)

    def y(share: float) -> float:
        return round(8 + (_HEIGHT - _BOTTOM - 8) * (1 - share), 1)

    def path(points: Sequence[tuple[int, float]]) -> str:
        return "M" + "L".join(f"{x(place)} {y(share)}" for place, share in points)

    places = sorted({place for *_, figures in lines for place in figures.divergence.survival})
    return Survival(
        tuple(
            Curve(label, shape, path(sorted(figures.divergence.survival.items()))) for label, shape, figures in lines
        ),
        tuple((f"{place:,}", x(place)) for place in places),
        tuple((f"{share}", y(share / 100)) for share in (0, 25, 50, 75, 100)),
    )


def draw_distance_plot(table: Table[Paired]) -> Plot | None:
    """A mark per task, and one for all, with the limit of each; None without a row."""
    if not table.rows:
        return None
    ticks = (Tick(_log_place(10.0**power), f"{10.0**power:g}") for power in range(_LOWEST, _HIGHEST + 1))
    marks = tuple(map(_distance_mark, table.rows))
    axis = "distance, nats a token, by powers of ten"
    by_noise = any(row.subject.noise is not None for row in table.rows)
    band = f"0 to {FIDELITY_DIFFERENT_TIMES:g} times the noise" if by_noise else "allowed: 0 to the margin"
    return Plot(table, marks, tuple(ticks), 0.0, axis, f"{FIDELITY_LEVEL_TEXT} interval", band=band)


def _distance_mark(row: Row[Paired]) -> Mark:
    bounds, limit = row.subject.interval, row.subject.limit
    low, high = (_log_place(bounds.lower), _log_place(bounds.upper)) if bounds else (None, None)
    return Mark(row, _log_place(row.subject.distance.value), low, high, None if limit is None else _log_place(limit))


def _log_place(value: float) -> float:
    """Where nats stand on the axis, in percent; what is beyond an end stands at it."""
    power = math.log10(value) if value > 0 else _LOWEST
    return round(100 * (min(max(power, _LOWEST), _HIGHEST) - _LOWEST) / (_HIGHEST - _LOWEST), 2)
