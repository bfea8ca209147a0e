"""Numbers as people read them; foreign texts are made visible by `meta_eval.shown`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meta_eval.shown import visible as visible  # noqa: PLC0414 (the views find all of a report's words here)

if TYPE_CHECKING:
    from meta_eval.report.model import Average, Report

MINUS = "\N{MINUS SIGN}"
NONE = "-"


def percent(share: float | None, digits: int = 1) -> str:
    """``47.9`` for 0.479."""
    return NONE if share is None else f"{100 * share:.{digits}f}"


def points(share: float | None) -> str:
    """A difference with its sign, in points: ``+0.4``."""
    if share is None:
        return NONE
    written = f"{abs(100 * share):.1f}"
    return written if float(written) == 0 else f"{'+' if share > 0 else MINUS}{written}"


def interval(low: float | None, high: float | None) -> str:
    """``46.9 to 48.8``."""
    return NONE if low is None or high is None else f"{percent(low)} to {percent(high)}"


def points_interval(low: float | None, high: float | None) -> str:
    """A difference's bounds with their signs."""
    return NONE if low is None or high is None else f"{points(low)} to {points(high)}"


def p_value(p: float | None) -> str:
    """``0.031``, and ``<0.001`` for what is smaller."""
    if p is None:
        return NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def count(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 doc``, ``2,000 docs``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short_names(names: list[str]) -> dict[str, str]:
    """``mmlu_pro_chat.physics`` is ``physics`` where all names begin with the same part."""
    prefixes = {name.rpartition(".")[0] for name in names}
    if len(prefixes) != 1 or not (prefix := prefixes.pop()):
        return {name: name for name in names}
    return {name: name[len(prefix) + 1 :] for name in names}


def averages(report: Report) -> list[tuple[str, str]]:
    """Groups and tasks with lm-eval's own averages of them: ``("wikitext", "word_perplexity,none 181.3")``."""
    told: dict[str, list[str]] = {}
    for one in (*report.totals, *(one for task in report.tasks for one in task.averages)):
        told.setdefault(one.name, []).append(f"{one.metric} {_average(one)}")
    return [(name, "; ".join(lines)) for name, lines in told.items()]


def _average(one: Average) -> str:
    if one.share:
        return percent(one.value) + (f" ({interval(one.low, one.high)})" if one.low is not None else "")
    return f"{one.value:.4g}" + (f" ({one.low:.4g} to {one.high:.4g})" if one.low is not None else "")
