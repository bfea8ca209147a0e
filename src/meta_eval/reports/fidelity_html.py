"""A fidelity report as one page without a script: what the report's page does about hostile text holds here too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meta_eval.reports import fidelity_text as write
from meta_eval.reports import tables
from meta_eval.reports.fidelity_tables import fidelity_tables_by_key
from meta_eval.reports.html import asset, digest, environment
from meta_eval.version import __version__

if TYPE_CHECKING:
    from meta_eval.reports.fidelity import FidelityReport
    from meta_eval.token_fidelity.comparison import Paired
    from meta_eval.token_fidelity.token_figures import Figures

_SHAPES = {"same": "holds", "different": "below", "not shown": "unknown"}

# The axis of distances, powers of ten in nats a token.
_LOWEST, _HIGHEST = -4, 1

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 220, 46, 34


@dataclass(frozen=True, slots=True)
class Row:
    """A distance on the axis, in percent of its width; None where there is no interval."""

    line: tables.Row[Paired]
    outcome: str
    x: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of the survival plot, as an SVG's path, and what it is of."""

    label: str
    shape: str
    path: str


def fidelity_page(report: FidelityReport) -> Iterable[str]:
    """A fidelity report as one self-contained page, in pieces."""
    from markupsafe import Markup

    style = asset("report.css") + asset("fidelity.css")
    shown = fidelity_tables_by_key(report)
    return (
        environment()
        .get_template("fidelity.html.j2")
        .generate(
            report=report,
            tables=shown,
            write=write,
            rows=_rows(shown["against"]),
            margin=_at(report.against.margin) if report.against else None,
            ticks=[(f"{10.0**power:g}", _at(10.0**power)) for power in range(_LOWEST, _HIGHEST + 1)],
            survival=_survival(report),
            size=(_WIDTH, _HEIGHT, _LEFT, _BOTTOM),
            shapes=_SHAPES,
            style=Markup(style),  # noqa: S704 (our own file)
            style_hash=digest(style),
            version=__version__,
        )
    )


def _at(value: float) -> float:
    """Where nats stand on the axis, in percent; what is beyond an end stands at it."""
    power = math.log10(value) if value > 0 else _LOWEST
    return round(100 * (min(max(power, _LOWEST), _HIGHEST) - _LOWEST) / (_HIGHEST - _LOWEST), 2)


def _rows(table: tables.Table[Paired] | None) -> list[Row]:
    return [
        Row(
            row,
            row.outcome,
            _at(row.subject.distance.value),
            _at(row.subject.interval.lower) if row.subject.interval else None,
            _at(row.subject.interval.upper) if row.subject.interval else None,
        )
        for row in (table.rows if table else ())
    ]


@dataclass(frozen=True, slots=True)
class Survival:
    """Curves with the ticks of both axes: label and place in pixels."""

    curves: tuple[Curve, ...]
    across: tuple[tuple[str, float], ...]
    up: tuple[tuple[str, float], ...]


def _survival(report: FidelityReport) -> Survival | None:
    """The share of answers that has not diverged so far, over the logarithm of the place."""
    lines: list[tuple[str, str, Figures]] = []
    if report.figures:
        lines.append(("this copy", "copy", report.figures[0]))
    if report.baseline_figures:
        lines.append(("the baseline", "base", report.baseline_figures[0]))
    lines = [line for line in lines if len(line[2].divergence.survival) > 1]
    if not lines:
        return None
    last = max(max(one.divergence.survival) for *_, one in lines)
    reach = math.log2(last) or 1.0

    def x(place: int) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 12) * math.log2(place) / reach, 1)

    def y(share: float) -> float:
        return round(8 + (_HEIGHT - _BOTTOM - 8) * (1 - share), 1)

    def path(points: Sequence[tuple[int, float]]) -> str:
        return "M" + "L".join(f"{x(place)} {y(share)}" for place, share in points)

    places = sorted({place for *_, one in lines for place in one.divergence.survival})
    return Survival(
        tuple(Curve(label, shape, path(sorted(one.divergence.survival.items()))) for label, shape, one in lines),
        tuple((f"{place:,}", x(place)) for place in places),
        tuple((f"{share}", y(share / 100)) for share in (0, 25, 50, 75, 100)),
    )
