"""The document of a fidelity report: which tables, lists and figures it has, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from meta_eval.plugins.tokens import fidelity_tables
from meta_eval.plugins.tokens import fidelity_text as write
from meta_eval.plugins.tokens.fidelity_figures import draw_distance_plot, make_survival
from meta_eval.plugins.tokens.thresholds import FIDELITY_LEVEL_TEXT
from meta_eval.sockets import (
    Alarm,
    Document,
    Fact,
    Figure,
    Item,
    Listing,
    RunProvenance,
    Section,
    Verdict,
    format_count,
)

if TYPE_CHECKING:
    from meta_eval.plugins.tokens.comparison import TableComparison
    from meta_eval.plugins.tokens.fidelity_report import FidelityReport
    from meta_eval.sockets import Table


# Where templates and styles of its figures are.
_PACKAGE = "meta_eval.plugins.tokens"


def make_fidelity_document(report: FidelityReport) -> Document:
    """The document of a fidelity report."""
    return Document(
        "fidelity", report.title, report.outcome, report.summary, _verdict(report), tuple(_sections(report)),
        tuple(_runs(report)), tuple(_alarms(report)), report.notes, report.exit_code, report, heading="Fidelity",
        style=f"{_PACKAGE}:fidelity.css",
    )  # fmt: skip


def _runs(report: FidelityReport) -> Iterator[RunProvenance]:
    if report.baseline:
        yield RunProvenance("the baseline", report.baseline, (), "")
    if report.noise:
        yield RunProvenance("its second table", report.noise, (), "")
    yield RunProvenance("this copy", f"{report.model} ({report.engine})", (), report.table)


def _alarms(report: FidelityReport) -> Iterator[Alarm]:
    if report.finding is not None:
        evidence = report.finding.evidence
        hint = f"{evidence[:1].upper()}{evidence[1:]}. {report.finding.todo}."
        yield Alarm(report.finding.headline, hint, None, ())


def _verdict(report: FidelityReport) -> Verdict:
    texts, choices = report.comparison, report.choice_comparison
    if report.is_noise:
        return Verdict("Noise", reasons=(report.summary.rstrip("."),))
    if report.outcome is None:
        return Verdict("Without a baseline", reasons=(report.summary.rstrip("."),), advice=f"{write.YARDSTICK}.")
    of_choices = write.describe_comparison(choices, "choice").rstrip(".") if choices else ""
    if texts is None:
        return Verdict(report.outcome, reasons=(of_choices,))
    more = (f"Choices: {of_choices}",) if choices else ()
    return Verdict(report.outcome, facts=tuple(_facts(texts)), reasons=(*texts.reasons, *more))


def _facts(texts: TableComparison) -> Iterator[Fact]:
    pooled = texts.all
    yield Fact("distance", write.format_nats(pooled.distance.value), "nats a token")
    if pooled.noise is not None:
        yield Fact("times the noise", write.format_times(pooled.times_noise))
        yield Fact(f"{FIDELITY_LEVEL_TEXT} interval", write.format_times_interval(pooled.times_noise_interval))
        yield Fact("limits", write.NOISE_LIMITS)
    else:
        yield Fact(f"{FIDELITY_LEVEL_TEXT} interval", write.format_nats_interval(pooled.interval))
    if texts.margin is not None:
        yield Fact("margin", f"{texts.margin:g}")
    yield Fact("shift", write.format_nats(pooled.shift.value), detail=write.format_nats_interval(pooled.shift_interval))
    yield Fact("tokens, docs", f"{format_count(pooled.tokens)}, {format_count(pooled.docs)}")


def _sections(report: FidelityReport) -> Iterator[Section]:
    comparison = fidelity_tables.make_baseline_table(
        "comparison", "How far from the baseline", report.comparison, "token"
    )
    drawn = draw_distance_plot(comparison) if report.comparison else None
    if report.is_noise:
        rows = tuple(replace(row, outcome="") for row in comparison.rows)
        comparison = replace(
            comparison, title="How far the two measurements are apart", rows=rows, legend=write.OF_NOISE
        )
    shown = replace(comparison, views=("json", "markdown", "terminal"))
    yield Section("comparison", comparison.title, "Distance", (Figure("plot", drawn), shown, *_divergence(report)))
    figures = fidelity_tables.make_figure_table(report.figures)
    yield Section("figures", figures.title, "Likelihood", (figures, *_about_figures(report)))
    choices = fidelity_tables.make_choice_table(report.choices)
    other = fidelity_tables.make_baseline_table(
        "choice_comparison", "Beside the baseline's", report.choice_comparison, "choice"
    )
    yield Section("choices", choices.title, "Choices", (choices, other, *_worst(report)))
    changes = fidelity_tables.change_table(report.changes)
    yield Section("changes", changes.title, "Changed tokens", (changes,))
    yield Section(
        "answers",
        "Answers, token by token",
        "Answers",
        (Figure("answers", report if report.answers else None, package=_PACKAGE),),
    )


def _divergence(report: FidelityReport) -> Iterator[Listing]:
    if report.comparison and report.comparison.divergence:
        yield _sentence(write.describe_divergence(report.comparison.divergence))


def _about_figures(report: FidelityReport) -> Iterator[Table[Any] | Listing | Figure]:
    if not report.figures:
        return
    if report.comparison is None:
        yield replace(_sentence(f"{write.YARDSTICK}."), views=("markdown", "terminal"))
    yield fidelity_tables.make_kind_table(report)
    yield replace(_sentence(write.describe_margins(report.figures[0].margins)), views=("html",))
    yield Figure("survival", make_survival(report), package=_PACKAGE)


def _worst(report: FidelityReport) -> Iterator[Listing]:
    """The docs whose choices differ most."""
    if report.choices:
        worst = report.choices[0].worst
        items = (Item((f"{choice.task}/{choice.doc}",), write.describe_choice_difference(choice)) for choice in worst)
        yield Listing(tuple(items), "The docs that differ most", ("html",), ("html",))


def _sentence(words: str) -> Listing:
    return Listing((Item((), words),))
