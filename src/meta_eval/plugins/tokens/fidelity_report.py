"""What a fidelity run says: its figures, a baseline beside it, where it differs, and some answers token by token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from meta_eval.base.plain_data import NOT_WRITTEN, make_plain
from meta_eval.judge.alarm_kinds import Alarm
from meta_eval.judge.decide import SAMENESS_CODES
from meta_eval.plugins.tokens import fidelity_tables
from meta_eval.plugins.tokens import fidelity_text as write
from meta_eval.plugins.tokens.fidelity_figures import draw_distance_plot, make_survival
from meta_eval.plugins.tokens.fidelity_tables import Change
from meta_eval.plugins.tokens.thresholds import FIDELITY_LEVEL_TEXT
from meta_eval.reports.document import BUT_PAGES, Fact, Figure, RunProvenance, Verdict
from meta_eval.reports.text import format_count
from meta_eval.sockets import Document, Item, Listing, Section

if TYPE_CHECKING:
    from meta_eval.judge.decide import Sameness
    from meta_eval.plugins.tokens.causes import FoundCause
    from meta_eval.plugins.tokens.comparison import TableComparison
    from meta_eval.plugins.tokens.token_figures import ChoiceFigures, Figures
    from meta_eval.sockets import Table

_SCHEMA_VERSION = 3

# Where templates and styles of its figures are.
_PACKAGE = "meta_eval.plugins.tokens"


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a recorded answer."""

    text: str
    """Its text; ``#17`` where no tokenizer is there."""

    shade: int
    """From 0, the likeliest, to 5."""

    margin: float
    """Nats below the likeliest."""

    logprob: float
    """Nats."""

    rank: int
    """0 where the engine does not say."""

    top_token: str | None
    """The copy's likeliest token if it differs; None if it is the same or not known."""

    baseline_token: str | None
    """The same of the baseline; None without a baseline."""

    diverges: bool
    """Whether it is the first of its answer that is not the likeliest."""


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """An answer token by token; ``more`` tokens of it are not shown, and ``why`` it is here of all."""

    task: str
    doc: int
    tokens: tuple[Token, ...]
    more: int
    why: str


@dataclass(frozen=True, slots=True)
class FidelityReport:
    """What views read."""

    model: str
    """The copy."""

    engine: str
    """What answered."""

    table: str
    """The file."""

    figures: tuple[Figures, ...]
    """All, and each task where there are several; empty where nothing but choices was asked."""

    choices: tuple[ChoiceFigures, ...] = ()
    """Likewise of choices; empty where there are none."""

    baseline: str | None = None
    """The model of the baseline, with its engine; None without a baseline."""

    noise: str | None = None
    """The second table of the baseline's model; None without one."""

    is_noise: bool = False
    """Whether this table is itself the second one of its baseline, so that it shows the noise."""

    baseline_figures: tuple[Figures, ...] = field(default=(), metadata=NOT_WRITTEN)
    """The same of the baseline; empty without a baseline."""

    comparison: TableComparison | None = None
    """The comparison; None without a baseline."""

    choice_comparison: TableComparison | None = None
    """The comparison of the choices; None without a baseline's."""

    finding: FoundCause | None = None
    """What sets the copy apart; None for nothing."""

    answers: tuple[AnswerTokens, ...] = field(default=(), metadata=NOT_WRITTEN)
    """Some answers token by token, the farthest first."""

    changes: tuple[Change, ...] = field(default=(), metadata=NOT_WRITTEN)
    """Some positions whose likeliest token changed."""

    notes: tuple[str, ...] = ()
    """What must be known of the tables."""

    tokenizer: bool = field(default=True, metadata=NOT_WRITTEN)
    """Whether texts could be shown."""

    exit_follows_decision: bool = False
    """Whether the exit code follows the outcome."""

    json_also: ClassVar = ("summary", "outcome", "exit_code")

    @property
    def title(self) -> str:
        """The copy, and the baseline if there is any."""
        return f"{self.model} beside {self.baseline}" if self.baseline else self.model

    @property
    def summary(self) -> str:
        """The result in one line."""
        if self.is_noise:
            return write.describe_yardstick(self.comparison, self.choice_comparison)
        return write.write_fidelity_headline(self.comparison, self.choice_comparison, self.figures, self.choices)

    @property
    def outcome(self) -> Sameness | None:
        """Of texts and choices together; None without a baseline, and for the noise itself. Either may show a
        difference, and where both decide something both must be the same."""
        if self.is_noise:
            return None
        comparisons = [comparison for comparison in (self.comparison, self.choice_comparison) if comparison is not None]
        outcomes = [comparison.outcome for comparison in comparisons if comparison.is_enough] or [
            comparison.outcome for comparison in comparisons
        ]
        return next((outcome for outcome in ("different", "undecided", "same") if outcome in outcomes), None)

    @property
    def exit_code(self) -> int:
        """0; where it is a gate 0 for the same, 1 for different, 3 for undecided."""
        return SAMENESS_CODES[self.outcome] if self.exit_follows_decision and self.outcome else 0

    def document(self) -> Document:
        """The document that views show."""
        return Document(
            "fidelity", self.title, self.outcome, self.summary, _verdict(self), tuple(_sections(self)),
            tuple(_runs(self)), tuple(_alarms(self)), self.notes, self.exit_code, self, heading="Fidelity",
            style=f"{_PACKAGE}:fidelity.css",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data, without the texts of answers; shares from 0 to 1, nats."""
        return {"schema_version": _SCHEMA_VERSION, "document_type": "fidelity", **make_plain(self)}


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
    shown = replace(comparison, views=BUT_PAGES)
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
    yield fidelity_tables.make_kind_table(report.figures[0], report.comparison)
    yield replace(_sentence(write.describe_margins(report.figures[0].margins)), views=("html",))
    yield Figure("survival", make_survival(report.figures, report.baseline_figures), package=_PACKAGE)


def _worst(report: FidelityReport) -> Iterator[Listing]:
    """The docs whose choices differ most."""
    if report.choices:
        worst = report.choices[0].worst
        items = (Item((f"{choice.task}/{choice.doc}",), write.describe_choice_difference(choice)) for choice in worst)
        yield Listing(tuple(items), "The docs that differ most", ("html",), ("html",))


def _sentence(words: str) -> Listing:
    return Listing((Item((), words),))
