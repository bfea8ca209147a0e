"""A fidelity report on a terminal of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meta_eval.reports import fidelity_text as write
from meta_eval.reports.fidelity_tables import fidelity_tables
from meta_eval.reports.terminal import Speaker, print_table
from meta_eval.thresholds import FIDELITY_LEVEL_TEXT

if TYPE_CHECKING:
    from rich.console import Console

    from meta_eval.reports.fidelity import FidelityReport

STYLES = {"same": "bold green", "different": "bold red", "not shown": "bold yellow"}


def show(report: FidelityReport, console: Console) -> None:
    """Print it: the verdict, what sets the copy apart, the figures, the comparison, the choices."""
    say, shown = Speaker(console), {table.key: table for table in fidelity_tables(report)}
    say.line(report.title, "bold")
    say.line(report.summary, STYLES[report.outcome] if report.outcome else "")
    if report.finding is not None:
        say.line(f"! {report.finding.headline}", "red")
        say.line(f"  {report.finding.evidence}. {report.finding.todo}.", "red")
    for note in report.notes:
        say.line(f"note: {note}", "yellow")
    say.line()
    if report.against is not None:
        print_table(console, shown["against"])
        say.line(
            f"Nats a token; the distance decides, by its {FIDELITY_LEVEL_TEXT} interval beside the margin; "
            "a positive shift is worse.",
            "dim",
        )
        if report.against.divergence is not None:
            say.line(_divergence(report), "dim")
        say.line()
    if report.figures:
        print_table(console, shown["figures"])
        say.line("top-1, greedy: percent; the others: nats, median place of the first divergence.", "dim")
        say.line()
        print_table(console, shown["kinds"])
    if report.choices:
        say.line()
        print_table(console, shown["choices"])
        say.line("Log-likelihoods of choices beside the recorded ones, nats; same best in percent.", "dim")
        if report.choices_against is not None:
            print_table(console, shown["choices_against"])
            say.line("Beside the baseline's, nats a choice; changed: percent, of docs with another best.", "dim")
    if report.against is None and report.figures:
        say.line()
        say.line(f"{write.YARDSTICK}.", "dim")


def _divergence(report: FidelityReport) -> str:
    assert report.against and report.against.divergence  # noqa: S101
    return write.divergence(report.against.divergence)
