"""The tables of a fidelity report: how likely the recorded answers are, and how far the copy is from a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from meta_eval.plugins.tokens import fidelity_text as write
from meta_eval.plugins.tokens.thresholds import FIDELITY_LEVEL_TEXT, FIDELITY_NOISE_SEEN
from meta_eval.reports import text
from meta_eval.sockets import Column, Row, Table

if TYPE_CHECKING:
    from meta_eval.plugins.tokens.comparison import Paired, TableComparison
    from meta_eval.plugins.tokens.token_figures import ChoiceFigures, Estimate, Figures

_LONG = ("html", "markdown")

_T = TypeVar("_T")


def _figure(
    key: str, heading: str, figure: Callable[[_T], Estimate], legend: str = "", short: str = "", *, share: bool = False
) -> Column[_T]:
    """The column of a figure that has an interval."""
    bounds = write.format_share_interval if share else write.format_nats_interval

    def detail(subject: _T) -> str | None:
        interval = figure(subject).interval
        return bounds(interval) if interval else None

    return Column(
        key, heading, lambda row: figure(row).value, write.format_share if share else write.format_nats,
        legend, detail, _LONG,
        {"terminal": short or heading}, strong=True,
    )  # fmt: skip


def make_figure_table(figures: Iterable[Figures]) -> Table[Figures]:
    columns: tuple[Column[Figures], ...] = (
        Column("docs", "docs", lambda task: task.docs, text.format_count),
        Column("tokens", "tokens", lambda task: task.tokens, text.format_count),
        _figure(
            "top1", "top-1", lambda task: task.top1, "percent of the tokens that no other token is likelier than",
            share=True,
        ),
        _figure(
            "logprob", "log-probability", lambda task: task.logprob, "the mean over tokens, in nats", "log-prob."
        ),
        Column(
            "perplexity", "perplexity", lambda task: task.perplexity, "{:.3g}".format, headings={"terminal": "perpl."}
        ),
        _figure(
            "margin", "margin", lambda task: task.margins.mean,
            "nats that a token lies below the likeliest, the mean",
        ),
        _figure(
            "greedy", "greedy", lambda task: task.greedy,
            "percent of the answers of which every token is the likeliest", share=True,
        ),
        Column(
            "divergence", "divergence", lambda task: task.divergence.median or "never", _place,
            "the median place of the first token that is not the likeliest", headings={"terminal": "div."},
        ),
    )  # fmt: skip
    legend = "Percent of tokens and of answers; nats; the median place of the first token that is not the likeliest."
    return Table("figures", "How likely the copy finds the recorded answers", columns, _rows(figures), legend)


def _place(median: float | str) -> str:
    return median if isinstance(median, str) else f"{median:,}"


@dataclass(frozen=True, slots=True)
class _KindRow:
    """A kind of token: its own figures, and those beside the baseline."""

    figures: Any
    compared: Any


def make_kind_table(figures: Figures, comparison: TableComparison | None) -> Table[_KindRow]:
    columns: list[Column[_KindRow]] = [
        Column("number", "number", lambda kind: kind.figures.tokens, text.format_count),
        Column("top1", "top-1", lambda kind: kind.figures.top1, write.format_share),
        Column(
            "logprob", "log-probability", lambda kind: kind.figures.logprob, write.format_nats,
            headings={"terminal": "log-prob."},
        ),
    ]  # fmt: skip
    if comparison is not None:
        columns += [
            Column("distance", "distance", lambda kind: kind.compared and kind.compared.distance, write.format_nats),
            Column("shift", "shift", lambda kind: kind.compared and kind.compared.shift, write.format_nats),
        ]
    compared_kinds = {kind.name: kind for kind in comparison.kinds} if comparison else {}
    rows = tuple(Row(kind.name, _KindRow(kind, compared_kinds.get(kind.name))) for kind in figures.kinds)
    return Table("kinds", "By kind of token", tuple(columns), rows, first="tokens")


def make_baseline_table(key: str, title: str, comparison: TableComparison | None, unit: str) -> Table[Paired]:
    changed = "top-1 changed" if unit == "token" else "best changed"
    has_noise = comparison is not None and comparison.all.noise is not None
    columns: tuple[Column[Paired], ...] = (
        Column("docs", "docs", lambda paired: paired.docs, text.format_count),
        Column("tokens", f"{unit}s", lambda paired: paired.tokens, text.format_count,
               headings={"terminal": "", **({"html": ""} if has_noise else {})}),
        Column("distance", "distance", lambda paired: paired.distance.value, write.format_nats, f"nats a {unit}",
               strong=not has_noise),
        *(_noise_columns() if has_noise else (_distance_interval(),)),
        Column(
            "shift", "shift", lambda paired: paired.shift.value, write.format_nats, "positive for worse",
            lambda paired: write.format_nats_interval(paired.shift_interval), _LONG,
        ),
        Column(
            "changed", changed, lambda paired: paired.changed, write.format_share,
            f"percent of {unit}s whose likeliest one is another" if unit == "token" else
            "percent of choices of docs whose best one is another",
            headings={"terminal": "changed", "html": "changed"},
        ),
    )  # fmt: skip
    return Table(key, title, columns, _paired(comparison), _baseline_legend(comparison, unit))


def _distance_interval() -> Column[Paired]:
    return Column(
        "interval", f"{FIDELITY_LEVEL_TEXT} interval", lambda paired: paired.interval, write.format_nats_interval,
        headings={"html": FIDELITY_LEVEL_TEXT, "terminal": FIDELITY_LEVEL_TEXT},
    )  # fmt: skip


def _noise_columns() -> Iterator[Column[Paired]]:
    yield Column(
        "noise", "noise", lambda paired: paired.noise.value if paired.noise else None, write.format_nats,
        "the distance of the baseline from itself",
    )  # fmt: skip
    yield Column(
        "times_noise", "times noise", lambda paired: paired.times_noise, write.format_times,
        "the distance divided by the noise", headings={"terminal": "times"}, strong=True,
    )  # fmt: skip
    yield Column(
        "times_noise_interval", f"{FIDELITY_LEVEL_TEXT} interval", lambda paired: paired.times_noise_interval,
        write.format_times_interval, headings={"html": FIDELITY_LEVEL_TEXT, "terminal": FIDELITY_LEVEL_TEXT},
    )  # fmt: skip


def _baseline_legend(comparison: TableComparison | None, unit: str) -> str:
    if comparison is None:
        return ""
    if comparison.all.noise is not None:
        decides = (
            f"the distance divided by the noise decides, by its {FIDELITY_LEVEL_TEXT} interval: {write.NOISE_LIMITS}"
        )
    elif comparison.margin is not None:
        decides = (
            f"the distance decides, by its {FIDELITY_LEVEL_TEXT} interval beside the margin of {comparison.margin:g}"
        )
    else:
        decides = f"without a measured noise only a distance above {FIDELITY_NOISE_SEEN:g} decides"
    return f"Nats a {unit}; {decides}; a positive shift is worse."


def _paired(comparison: TableComparison | None) -> tuple[Row[Paired], ...]:
    if comparison is None:
        return ()
    first_row = Row(write.name_task(None), comparison.all, comparison.outcome, whole=True)
    return (first_row, *(Row(write.name_task(task.name), task, task.outcome) for task in comparison.tasks))


def make_choice_table(choices: Iterable[ChoiceFigures]) -> Table[ChoiceFigures]:
    columns: tuple[Column[ChoiceFigures], ...] = (
        Column("docs", "docs", lambda task: task.docs, text.format_count),
        _figure(
            "mean_difference", "mean difference", lambda task: task.mean_difference,
            "of the log-likelihoods from the recorded ones, nats a choice", "mean diff.",
        ),
        Column("median_difference", "median", lambda task: task.median_difference, write.format_nats),
        _figure("shift", "shift", lambda task: task.shift),
        Column(
            "correlation", "correlation", lambda task: task.correlation, "{:.4f}".format,
            headings={"terminal": "correl."},
        ),
        _figure(
            "same_best", "same best", lambda task: task.same_best,
            "percent of the docs whose likeliest choice is the recorded one", share=True,
        ),
    )  # fmt: skip
    return Table(
        "choices", "Choices: log-likelihoods beside the recorded ones", columns, _rows(choices),
        "Nats; same best in percent.", first="choices of",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """A position where the copy's likeliest token differs, in words."""

    task: str
    doc: int
    at: int
    context: str
    recorded: str
    baseline_token: str
    candidate_token: str
    difference: float


def change_table(changes: Iterable[Change]) -> Table[Change]:
    """Table of positions whose likeliest token changed. Only pages have it, because it quotes answers."""

    def words(key: str, heading: str, figure: Callable[[Change], str]) -> Column[Change]:
        return Column(key, heading, figure, _one_line, words=True)

    columns: tuple[Column[Change], ...] = (
        Column("at", "token", lambda change: change.at, text.format_count),
        words("context", "said before", lambda change: change.context),
        words("recorded", "recorded", lambda change: change.recorded),
        words("baseline", "baseline", lambda change: change.baseline_token),
        words("candidate", "copy", lambda change: change.candidate_token),
        Column(
            "difference", "less likely by", lambda change: change.difference, write.format_nats,
            "nats by which the copy finds the recorded token less likely",
        ),
    )  # fmt: skip
    rows = tuple(Row(f"{change.task}/{change.doc}", change) for change in changes)
    return Table("changes", "Tokens whose likeliest one changed", columns, rows, first="doc", views=("html",))


def _one_line(words: str) -> str:
    return words.replace("\n", "↵")


def _rows(figures: Iterable[Any]) -> tuple[Row[Any], ...]:
    return tuple(Row(write.name_task(figure.name), figure, whole=figure.name is None) for figure in figures)
