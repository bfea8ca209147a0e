"""A fidelity report on a terminal of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from meta_eval.report import fidelity_text as write
from meta_eval.report.terminal import Speaker
from meta_eval.report.text import NONE, count, visible
from meta_eval.thresholds import FIDELITY_LEVEL_TEXT

if TYPE_CHECKING:
    from rich.console import Console

    from meta_eval.report.fidelity import FidelityReport
    from meta_eval.token_fidelity.comparison import Against

STYLES = {"same": "bold green", "different": "bold red", "not shown": "bold yellow"}


def show(report: FidelityReport, console: Console) -> None:
    """Print it: the verdict, what sets the copy apart, the figures, the comparison, the choices."""
    say = Speaker(console)
    say.line(f"{report.model}{f' beside {report.baseline}' if report.baseline else ''}", "bold")
    say.line(report.summary, STYLES[report.outcome] if report.outcome else "")
    if report.finding is not None:
        say.line(f"! {report.finding.headline}", "red")
        say.line(f"  {report.finding.evidence}. {report.finding.todo}.", "red")
    for note in report.notes:
        say.line(f"note: {note}", "yellow")
    say.line()
    if report.against is not None:
        console.print(_against(report.against))
        say.line(
            f"Nats a token; the distance decides, by its {FIDELITY_LEVEL_TEXT} interval beside the margin; "
            "a positive shift is worse.",
            "dim",
        )
        if report.against.divergence is not None:
            say.line(_divergence(report), "dim")
        say.line()
    if report.figures:
        console.print(_figures(report))
        say.line("top-1, greedy: percent; the others: nats, median place of the first divergence.", "dim")
        say.line()
        console.print(_kinds(report))
    if report.choices:
        say.line()
        console.print(_choices(report))
        say.line("Log-likelihoods of choices beside the recorded ones, nats; same best in percent.", "dim")
        if report.choices_against is not None:
            console.print(_against(report.choices_against))
            say.line("Beside the baseline's, nats a choice; changed: percent, of docs with another best.", "dim")
    if report.against is None and report.figures:
        say.line()
        say.line(f"{write.YARDSTICK}.", "dim")


def table(*headings: str) -> Table:
    """Without borders; the first column is a name, the others are numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for place, heading in enumerate(headings):
        made.add_column(
            heading,
            justify="right" if place else "left",
            no_wrap=bool(place),
            overflow="fold",
            ratio=None if place else 1,
        )
    return made


def _name(task: str | None) -> Text:
    return Text(visible(write.name(task)), style="" if task else "bold")


def _figures(report: FidelityReport) -> Table:
    made = table("task", "docs", "tokens", "top-1", "log-prob.", "perpl.", "margin", "greedy", "div.")
    for one in report.figures:
        median = one.divergence.median
        made.add_row(
            _name(one.name), count(one.docs), count(one.tokens), write.share(one.top1.value),
            write.nats(one.logprob.value), f"{one.perplexity:.3g}", write.nats(one.margins.mean.value),
            write.share(one.greedy.value), "never" if median is None else count(median),
        )  # fmt: skip
    return made


def _kinds(report: FidelityReport) -> Table:
    made = table("tokens", "number", "top-1", "log-prob.", *(("distance", "shift") if report.against else ()))
    beside = {one.name: one for one in report.against.kinds} if report.against else {}
    for one in report.figures[0].kinds:
        cells = [one.name, count(one.tokens), write.share(one.top1), write.nats(one.logprob)]
        if report.against:
            other = beside.get(one.name)
            cells += [write.nats(other.distance), write.nats(other.shift)] if other else [NONE] * 2
        made.add_row(*cells)
    return made


def _against(found: Against) -> Table:
    made = table("task", "verdict", "docs", "distance", FIDELITY_LEVEL_TEXT, "shift", "changed")
    for one in (found.all, *found.tasks):
        outcome = found.outcome if one.name is None else one.outcome
        made.add_row(
            _name(one.name), Text(outcome, style=STYLES[outcome]), count(one.docs), write.nats(one.distance.value),
            write.nats_interval(one.interval), write.nats(one.shift.value), write.share(one.changed),
        )  # fmt: skip
    return made


def _divergence(report: FidelityReport) -> str:
    assert report.against and report.against.divergence  # noqa: S101
    return write.divergence(report.against.divergence)


def _choices(report: FidelityReport) -> Table:
    made = table("task", "docs", "mean diff.", "median", "shift", "correl.", "same best")
    for one in report.choices:
        made.add_row(
            _name(one.name), count(one.docs), write.nats(one.mean_difference.value), write.nats(one.median_difference),
            write.nats(one.shift.value), NONE if one.correlation is None else f"{one.correlation:.4f}",
            write.share(one.same_best.value),
        )  # fmt: skip
    return made
