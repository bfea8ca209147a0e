"""What outputs of ``llama-perplexity`` say: how likely two models find one text. Nothing is decided."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from meta_eval.plugins.tokens import fidelity_text as write
from meta_eval.plugins.tokens.thresholds import FIDELITY_LEVEL, FIDELITY_LEVEL_TEXT
from meta_eval.reports.document import RunProvenance, Verdict
from meta_eval.reports.text import format_count
from meta_eval.sockets import Column, Document, Item, Listing, Row, Section, Table, plural
from meta_eval.stats import Interval

if TYPE_CHECKING:
    from meta_eval.plugins.tokens.perplexity_comparison import PerplexityComparison, PerplexityFigures
    from meta_eval.plugins.tokens.perplexity_log import PerplexityLog
    from meta_eval.stats.ratio import Mean

_SCHEMA_VERSION = 1

_LIMITS = (
    "Nothing is decided: a log has no distance of each token, which decides whether two models are the same, and the "
    "likelihood of a text is not the score of a task"
)


@dataclass(frozen=True, slots=True)
class PerplexityReport:
    """What views read."""

    log: PerplexityLog
    """The copy's."""

    baseline: PerplexityLog | None
    """The baseline's; None without one."""

    figures: PerplexityFigures
    """Of the copy alone."""

    comparison: PerplexityComparison | None
    """None if there is nothing to compare with."""

    notes: tuple[str, ...]
    """What must be known of the logs."""

    @property
    def title(self) -> str:
        """The copy, and what it is compared with."""
        return self.log.name if self.comparison is None else f"{self.log.name} beside {self._baseline_name}"

    @property
    def _baseline_name(self) -> str:
        return "its base" if self.baseline is None else self.baseline.name

    @property
    def summary(self) -> str:
        """The result in one line."""
        if self.comparison is None:
            return f"Perplexity {format_perplexity(self.figures.perplexity)} over {plural(self.log.chunks, 'chunk')}."
        return _describe(self.comparison)

    def document(self) -> Document:
        """The document that views show."""
        advice = "" if self.comparison else "Name the baseline's log with --baseline."
        return Document(
            "fidelity", self.title, None, self.summary,
            Verdict("Not decided", reasons=(self.summary.rstrip("."), _LIMITS), advice=advice),
            tuple(self._sections()), tuple(self._runs()), (), (*self.notes, _LIMITS), 0, self, heading="Perplexity",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; nats, and shares from 0 to 1."""
        compared = self.comparison
        return {
            "schema_version": _SCHEMA_VERSION,
            "document_type": "fidelity",
            "source": "llama-perplexity",
            "summary": self.summary,
            "log": str(self.log.path),
            "model": self.log.model,
            "baseline": None if self.baseline is None else str(self.baseline.path),
            "outcome": None,
            "chunks": self.log.chunks,
            "figures": _plain_figures(self.figures),
            "comparison": None if compared is None else _plain_comparison(compared),
            "notes": list(self.notes),
            "exit_code": 0,
        }

    def _runs(self) -> Iterator[RunProvenance]:
        for label, log in (("the baseline", self.baseline), ("this copy", self.log)):
            if log is not None:
                facts = {"chunks": log.chunks, "context": log.context}
                shown = tuple((name, str(value)) for name, value in facts.items() if value is not None)
                yield RunProvenance(label, log.model, shown, str(log.path))

    def _sections(self) -> Iterator[Section]:
        if self.comparison is not None:
            table = _make_comparison_table(self.comparison)
            errors = _describe_errors(self.comparison)
            yield Section("comparison", table.title, "Difference", (table, *errors))
        sides = (self.figures,) if self.comparison is None else (self.comparison.baseline, self.comparison.copy)
        figures = _make_figure_table(self.log.chunks if self.comparison is None else self.comparison.chunks, sides)
        yield Section("figures", figures.title, "Likelihood", (figures,))


def make_perplexity_report(log: PerplexityLog, baseline: PerplexityLog | None) -> PerplexityReport:
    """Report a log, and compare it with a baseline's or with the base of its own table.

    Raises:
        UserError: The two are not of the same chunks.
    """
    from meta_eval.plugins.tokens.perplexity_comparison import compare_perplexity_logs, measure_text, note_end

    if baseline is not None:
        ends = zip(log.path.absolute().parts[::-1], baseline.path.absolute().parts[::-1], strict=False)
        parts = 1 + next((number for number, (a, b) in enumerate(ends) if a != b), 0)
        log, baseline = replace(log, parts=parts), replace(baseline, parts=parts)
    comparison = compare_perplexity_logs(log, baseline)
    notes = comparison.notes if comparison else tuple(note_end(log))
    return PerplexityReport(log, baseline, measure_text(log), comparison, notes)


def format_perplexity(value: float | None) -> str:
    """``6.4071``, ``341,000``."""
    return write.format_nats(None) if value is None else f"{value:.4f}" if value < 1000 else f"{value:,.0f}"


def _signed_share(value: float) -> str:
    return write.format_share(value).replace("-", chr(0x2212))


def _signed_share_bounds(bounds: Interval | None) -> str:
    return "" if bounds is None else f"{_signed_share(bounds.lower)} to {_signed_share(bounds.upper)}"


def _bounds_of(compared: PerplexityComparison) -> dict[str, Interval | None]:
    """The intervals of the three figures of a comparison. Divergences are on a log scale, and shares from 0 to 1."""
    divergence, changed, alone = compared.divergence, compared.changed, compared.is_from_base
    bounds = {
        "shift": compared.shift.interval(FIDELITY_LEVEL),
        "divergence": divergence.interval(FIDELITY_LEVEL) if divergence else None,
        "changed": changed.interval(FIDELITY_LEVEL) if changed else None,
    }
    if alone and divergence:
        bounds["divergence"] = divergence.positive_interval(FIDELITY_LEVEL)
    if alone and (share := bounds["changed"]):
        bounds["changed"] = Interval(max(0.0, share.lower), min(1.0, share.upper))
    return bounds


def _describe(compared: PerplexityComparison) -> str:
    bounds = _bounds_of(compared)
    shift = bounds["shift"]
    if shift is None:
        start = "Too few chunks for an interval"
    elif shift.lower > 0:
        start = "The copy finds the text less likely"
    elif shift.upper < 0:
        start = "The copy finds the text likelier"
    else:
        start = "No difference of the likelihood is shown"
    parts = [
        f"{start}: shift {write.format_nats(compared.shift.value)} nats a token{_in_words(shift)}",
        f"perplexity {' to '.join(format_perplexity(side.perplexity) for side in (compared.baseline, compared.copy))}",
    ]
    if compared.divergence is not None and compared.changed is not None:
        figures = (
            ("divergence", "{} % of the likeliest tokens changed")
            if compared.is_from_base
            else ("divergence less the baseline's", "likeliest tokens changed less the baseline's: {} points")
        )
        nats = write.format_nats(compared.divergence.value)
        parts += [
            f"{figures[0]} {nats}{_in_words(bounds['divergence'])}",
            figures[1].format(_signed_share(compared.changed.value)),
        ]
    return f"{'; '.join(parts)}; {plural(compared.chunks, 'chunk')}."


def _in_words(bounds: Interval | None) -> str:
    return "" if bounds is None else f" ({FIDELITY_LEVEL_TEXT} interval {write.format_nats_interval(bounds)})"


def _describe_errors(compared: PerplexityComparison) -> Iterator[Listing]:
    if compared.errors is None or not compared.shift.freedom:
        return
    means = (compared.shift, compared.divergence, compared.changed)
    parts = [
        f"{error * factor:.2g} for the {name} ({_error(mean) * factor:.2g} over blocks)"
        for name, factor, mean, error in zip(
            ("shift", "divergence", "changed tokens"), (1, 1, 100), means, compared.errors, strict=True
        )
        if mean is not None and math.isfinite(error)
    ]
    if parts:
        words = f"Standard errors that llama.cpp prints, as if tokens were independent: {', '.join(parts)}."
        yield Listing((Item((), words),))


def _error(mean: Mean) -> float:
    return math.sqrt(mean.variance)


def _make_comparison_table(compared: PerplexityComparison) -> Table[PerplexityComparison]:
    bounds = _bounds_of(compared)
    more = "" if compared.is_from_base else "more "
    share_bounds = write.format_share_interval if compared.is_from_base else _signed_share_bounds
    columns: list[Column[PerplexityComparison]] = [
        Column("chunks", "chunks", lambda of: of.chunks, format_count),
        Column("shift", "shift", lambda of: of.shift.value, write.format_nats, "positive for worse", strong=True),
        _interval("shift_interval", bounds["shift"], write.format_nats_interval),
        Column(
            "perplexity_ratio", "ratio", lambda of: math.exp(of.shift.value), "{:.4f}".format,
            "of the perplexities, the copy's divided by the baseline's",
        ),
    ]  # fmt: skip
    if compared.divergence is not None:
        columns += [
            Column(
                "divergence", f"{more}divergence", lambda of: of.divergence.value if of.divergence else None,
                write.format_nats, "of Kullback and Leibler, from the base; nats a token",
                headings={"terminal": f"{more}diverg."},
            ),
            _interval("divergence_interval", bounds["divergence"], write.format_nats_interval),
            Column(
                "changed", f"{more}top-1 changed", lambda of: of.changed.value if of.changed else None, _signed_share,
                "percent of tokens whose likeliest one is another than the base's",
                lambda _: share_bounds(bounds["changed"]), ("html", "markdown"),
                headings={"terminal": f"{more}changed"},
            ),
        ]  # fmt: skip
    legend = (
        "Nats and percent of tokens; a positive shift is worse. Intervals are over blocks of consecutive chunks. "
        f"Rounding of what is printed changes the shift by at most {compared.rounding:.1g}."
    )
    return Table("comparison", "How far from the baseline", tuple(columns), (Row("all", compared),), legend, first="")


def _interval(
    key: str, bounds: Interval | None, words: Callable[[Interval | None], str]
) -> Column[PerplexityComparison]:
    return Column(
        key, f"{FIDELITY_LEVEL_TEXT} interval", lambda _: bounds, words,
        headings={"html": FIDELITY_LEVEL_TEXT, "terminal": FIDELITY_LEVEL_TEXT},
    )  # fmt: skip


def _make_figure_table(chunks: int, sides: tuple[PerplexityFigures, ...]) -> Table[PerplexityFigures]:
    columns: list[Column[PerplexityFigures]] = [
        Column("chunks", "chunks", lambda _: chunks, format_count),
        Column(
            "logprob", "log-probability", lambda of: of.logprob, write.format_nats, "the mean over tokens, in nats",
            headings={"terminal": "log-prob."},
        ),
        Column("perplexity", "perplexity", lambda of: of.perplexity, format_perplexity),
    ]  # fmt: skip
    if any(side.divergence is not None for side in sides):
        columns += [
            Column("divergence", "divergence", lambda of: of.divergence, write.format_nats, "from the base"),
            Column(
                "changed", "top-1 changed", lambda of: of.changed, write.format_share, headings={"terminal": "changed"}
            ),
        ]
    rows = tuple(Row(side.name, side) for side in sides)
    return Table("figures", "How likely each finds the text", tuple(columns), rows, first="log")


def _plain_figures(figures: PerplexityFigures) -> dict[str, Any]:
    return {**dataclasses.asdict(figures), "perplexity": figures.perplexity}


def _plain_comparison(compared: PerplexityComparison) -> dict[str, Any]:
    return {
        "chunks": compared.chunks,
        "is_from_base": compared.is_from_base,
        "baseline": _plain_figures(compared.baseline),
        "copy": _plain_figures(compared.copy),
        **{name: _plain_mean(getattr(compared, name), bounds) for name, bounds in _bounds_of(compared).items()},
        "perplexity_ratio": math.exp(compared.shift.value),
        "printed_errors": [error if math.isfinite(error) else None for error in compared.errors or ()],
        "rounding": compared.rounding,
    }


def _plain_mean(mean: Mean | None, bounds: Interval | None) -> dict[str, Any] | None:
    if mean is None:
        return None
    return {
        "value": mean.value,
        "standard_error": _error(mean) if mean.freedom else None,
        "interval": None if bounds is None else dataclasses.asdict(bounds),
        "blocks": mean.docs,
    }
