"""The report of two runs' greedy texts, and its document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from meta_eval.base.display import plural
from meta_eval.base.plain_data import NOT_WRITTEN, make_plain, written
from meta_eval.base.thresholds import LEVEL_TEXT, NEAR_TIE_NATS
from meta_eval.judge.decide import SAMENESS_CODES
from meta_eval.judge.text_partings import Parting, TextComparison, TextFigures
from meta_eval.reports.document import (
    Column,
    Document,
    Fact,
    Item,
    Listing,
    Row,
    RunProvenance,
    Section,
    Table,
    Verdict,
)
from meta_eval.reports.report_data import title_two_runs
from meta_eval.reports.text import NONE, format_count, format_interval, format_nats, format_percent, name_task

TEXTS_SCHEMA = 1

# Number of partings in tables; JSON has all.
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class TextsReport:
    """What views read."""

    a: RunProvenance = field(metadata=written(asdict))
    b: RunProvenance = field(metadata=written(asdict))
    """Where the runs come from."""

    comparison: TextComparison = field(metadata=written(make_plain, spread=True))
    """The comparison."""

    unit: str
    """``token``, or ``character`` without a tokenizer."""

    decode: Callable[[list[int]], str] = field(metadata=NOT_WRITTEN)
    """Makes a text of ids, as `Parting` has them."""

    notes: tuple[str, ...] = ()
    """What must be known of the runs and tables."""

    exit_follows_decision: bool = False
    """Whether the exit code follows the outcome."""

    json_also: ClassVar = ("summary", "exit_code")

    @property
    def summary(self) -> str:
        """The result in one line."""
        pooled = self.comparison.figures[0]
        texts = f"{format_count(pooled.docs - pooled.partings)} of {plural(pooled.docs, 'text')} identical"
        return f"{self.comparison.outcome}: {self.comparison.reason}; {texts}"

    @property
    def exit_code(self) -> int:
        """0; where it is a gate 0 for the same, 1 for different, 3 for undecided."""
        return SAMENESS_CODES[self.comparison.outcome] if self.exit_follows_decision else 0

    def document(self) -> Document:
        """The document that views show."""
        return Document(
            "texts", f"Texts of {title_two_runs(self.a, self.b)}", self.comparison.outcome,
            f"{self.summary}.", _verdict(self), tuple(_sections(self)), (self.a, self.b), (), self.notes,
            self.exit_code, self, heading="Texts",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data, with both tokens of each parting; shares from 0 to 1, nats."""
        plain: dict[str, Any] = {
            "schema_version": TEXTS_SCHEMA,
            "document_type": "texts",
            "near_tie_nats": NEAR_TIE_NATS,
            **make_plain(self),
        }
        for parting, found in zip(plain["partings"], self.comparison.partings, strict=True):
            tokens = {side: parting[side] for side in ("token_a", "token_b") if parting[side] is not None}
            parting |= {side: self.decode([token]) for side, token in tokens.items()}
            parting["before"] = self.describe_context(found)
        return plain

    def describe_token(self, token: int | None) -> str:
        """A token as text; the end of a text in words."""
        return "end of text" if token is None else self.decode([token])

    def describe_context(self, parting: Parting) -> str:
        """The end of what both texts share."""
        return self.decode(list(parting.before[-40:]))[-60:]


def _verdict(report: TextsReport) -> Verdict:
    pooled = report.comparison.figures[0]
    facts = (
        Fact("identical texts", format_percent(pooled.identical), "%", format_interval(pooled.identical_interval)),
        Fact("partings", format_count(pooled.partings)),
        Fact("near ties", format_count(pooled.near_ties)),
        Fact("changes", format_count(pooled.changes)),
        Fact("not measured", format_count(pooled.not_measured)),
    )
    return Verdict(
        report.comparison.outcome, facts=facts, reasons=(report.comparison.reason,), advice=_advise(pooled)
    )  # fmt: skip


def _advise(pooled: TextFigures) -> str:
    if not pooled.not_measured:
        return ""
    return (
        "To tell near ties from changes at every parting, score A's texts with the trusted copy "
        "(`fidelity --top-k 20`) and name the table: --tokens TABLE. Where A's text ends first, score B's texts, too."
    )


def _sections(report: TextsReport) -> Iterator[Section]:
    figures = _make_figure_table(report)
    advice = _advise(report.comparison.figures[0])
    blocks = (figures, Listing((Item((), _describe_survival(report)),)))
    more = (Listing((Item((), advice),), views=("terminal", "markdown")),) if advice else ()
    yield Section("texts", figures.title, "Texts", (*blocks, *more))
    partings = _make_parting_table(report)
    yield Section("partings", partings.title, "Partings", (partings,))


def _describe_survival(report: TextsReport) -> str:
    pooled = report.comparison.figures[0]
    steps = ", ".join(f"{format_percent(share, 0)} % after {step:,}" for step, share in pooled.first.survival.items())
    words = f"Of texts that are at least so long, still identical: {steps} {report.unit}s."
    if pooled.not_measured:
        return words
    most = format_percent(pooled.changed_interval.upper)
    return f"{words} At most {most} % of such docs part at a change ({LEVEL_TEXT} interval)."


def _make_figure_table(report: TextsReport) -> Table[TextFigures]:
    columns: tuple[Column[TextFigures], ...] = (
        Column("docs", "docs", lambda task: task.docs, format_count),
        Column(
            "identical", "identical", lambda task: task.identical, format_percent, "percent of the texts",
            lambda task: format_interval(task.identical_interval), strong=True,
        ),
        Column(
            "median", "first difference", lambda task: task.first.median, format_count,
            f"the {report.unit} by which half of the texts have parted", _describe_median,
            headings={"terminal": "first diff."},
        ),
        Column("partings", "partings", lambda task: task.partings, format_count),
        Column("near_ties", "near ties", lambda task: task.near_ties, format_count),
        Column("changes", "changes", lambda task: task.changes, format_count),
        Column("not_measured", "not measured", lambda task: task.not_measured, format_count),
    )  # fmt: skip
    figures = report.comparison.figures
    rows = tuple(Row(name_task(task.name), task, whole=task.name is None) for task in figures)
    legend = (
        f"Near tie: the two tokens' log-probabilities differ by at most {NEAR_TIE_NATS:g} nats under the trusted copy, "
        "so rounding may decide. Change: by more."
    )
    return Table("texts", "Greedy texts, side by side", columns, rows, legend)


def _describe_median(task: TextFigures) -> str | None:
    lower, upper = task.median_interval
    if lower is None:
        return None
    return f"{lower:,} to {'never' if upper is None else f'{upper:,}'}"


def _make_parting_table(report: TextsReport) -> Table[Parting]:
    def words(key: str, heading: str, figure: Callable[[Parting], str], short: str | None = None) -> Column[Parting]:
        headings = {} if short is None else {"terminal": short}
        return Column(key, heading, figure, _write_line, headings=headings, words=True)

    def share(key: str, heading: str, figure: Callable[[Parting], float | None]) -> Column[Parting]:
        return Column(key, heading, figure, format_nats, headings={"terminal": ""})

    columns: tuple[Column[Parting], ...] = (
        words("kind", "parting", lambda parting: parting.kind),
        Column("at", report.unit, lambda parting: parting.at, format_count),
        words("before", "after", report.describe_context, ""),
        words("a", "A", lambda parting: report.describe_token(parting.token_a)),
        words("b", "B", lambda parting: report.describe_token(parting.token_b)),
        share("logprob_a", "log-probability of A's", lambda parting: parting.logprob_a),
        share("logprob_b", "of B's", lambda parting: parting.logprob_b),
        Column(
            "gap", "gap", lambda parting: parting.gap, format_nats, "nats between the two tokens",
            lambda parting: "at least" if parting.at_least else None, strong=True, beside=True,
        ),
    )  # fmt: skip
    partings = report.comparison.partings
    rows = tuple(Row(f"{parting.task}/{parting.doc}", parting) for parting in partings[:_SHOWN])
    more = f" The JSON has all {len(partings):,}." if len(partings) > _SHOWN else ""
    legend = f"Changes first, the largest gap first.{more}"
    return Table("partings", "Where texts part", columns, rows, legend, first="doc")


def _write_line(words: str) -> str:
    return words.replace("\n", "↵")[-24:] if words.strip(" ") else "␣" * len(words) or NONE
