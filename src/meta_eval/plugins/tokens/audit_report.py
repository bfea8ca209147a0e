"""The report of an endpoint's audit, and its document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, ClassVar

from meta_eval.base.plain_data import NOT_WRITTEN, make_plain
from meta_eval.judge.decide import SAMENESS_CODES, Sameness
from meta_eval.plugins.tokens.answer_audit import AnswerFigures, GroupVerdict, find_outcome
from meta_eval.plugins.tokens.answer_scores import TEMPERATURES
from meta_eval.plugins.tokens.audit_causes import AuditCause, PromptCount
from meta_eval.plugins.tokens.fidelity_text import (
    format_nats,
    format_nats_interval,
    format_share,
    format_share_interval,
    name_task,
)
from meta_eval.plugins.tokens.thresholds import AUDIT_MOST_REGRET, FIDELITY_LEVEL_TEXT
from meta_eval.reports.document import Fact, RunProvenance, Verdict
from meta_eval.reports.text import format_count
from meta_eval.sockets import Column, Document, Item, Listing, Row, Section, Table, plural
from meta_eval.stats import Interval

_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What views read."""

    endpoint: str
    """The model that the endpoint names."""

    trusted: str
    """The trusted copy."""

    engine: str
    """Its engine."""

    table: str
    """The table with its log-probabilities."""

    noise: str | None
    """The table of the A/A pair; None without one."""

    verdicts: tuple[GroupVerdict, ...]
    """On greedy and on sampled answers."""

    causes: tuple[AuditCause, ...]
    """What may differ."""

    prompts: PromptCount | None
    """The endpoint's counts of prompt tokens; None without any."""

    notes: tuple[str, ...] = ()
    """What must be known of the answers."""

    exit_follows_decision: bool = False
    """Whether the exit code follows the outcome."""

    answers: str = field(default="", metadata=NOT_WRITTEN)
    """Where the answers are from: their file, or the record."""

    json_also: ClassVar = ("outcome", "summary", "exit_code")

    @property
    def outcome(self) -> Sameness:
        """same, different or undecided. Another prompt is not the same, whatever the answers."""
        outcome = find_outcome(self.verdicts)
        return "undecided" if outcome == "same" and self.causes else outcome

    @property
    def summary(self) -> str:
        """The result in one line."""
        return f"{self.outcome}: {'; '.join(self.reasons)}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Clauses: of the verdicts, then of the causes."""
        several = len(self.verdicts) > 1
        of_verdicts = (
            f"{_name_group(verdict.figures)} answers: {verdict.reason}" if several else verdict.reason
            for verdict in self.verdicts
        )  # fmt: skip
        return (*of_verdicts, *(cause.text for cause in self.causes))

    @property
    def exit_code(self) -> int:
        """0; where it is a gate 0 for the same, 1 for different, 3 for undecided."""
        return SAMENESS_CODES[self.outcome] if self.exit_follows_decision else 0

    def document(self) -> Document:
        """The document that views show."""
        return make_audit_document(self)

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; shares from 0 to 1, nats a token."""
        return {"schema_version": _SCHEMA_VERSION, "document_type": "audit", **make_plain(self)}


def make_audit_document(report: AuditReport) -> Document:
    """The document of an audit."""
    runs = (RunProvenance("trusted copy", report.trusted, (("engine", report.engine), ("table", report.table))),)
    return Document(
        "audit", _make_title(report), report.outcome, f"{report.summary}.",
        _make_verdict(report), tuple(_list_sections(report)), runs, (), report.notes, report.exit_code, report,
    )  # fmt: skip


def _make_title(report: AuditReport) -> str:
    """The two models and where the answers are from; where both have one name, also what serves the copy."""
    endpoint, trusted = report.endpoint, name_place(report.trusted)
    if endpoint == trusted:
        trusted = f"the trusted copy {trusted} on {report.engine}" if report.engine else f"the trusted copy {trusted}"
    answers = f" ({report.answers})" if report.answers else ""
    return f"Answers of {endpoint}{answers} scored by {trusted}"


def name_place(path: str) -> str:
    """A path as it was named; of one from the root of the disk its last part alone, since a title is passed on."""
    return PurePath(path).name or path if path.startswith("/") else path


def _make_verdict(report: AuditReport) -> Verdict:
    facts: list[Fact] = []
    for verdict in report.verdicts:
        figures = verdict.figures
        what, unit = ("regret", "nats") if figures.is_greedy else ("depth", "")
        facts += [
            Fact(f"mean {what}", format_nats(figures.score.value), unit, format_nats_interval(figures.interval)),
            Fact("limit", format_nats(verdict.limit), unit),
            Fact(f"{_name_group(figures)} answers", format_count(figures.docs)),
        ]
    return Verdict(report.outcome, facts=tuple(facts), reasons=report.reasons)


def _list_sections(report: AuditReport) -> Iterator[Section]:
    todos = dict.fromkeys(cause.todo for cause in report.causes if cause.todo)
    if todos:
        yield Section("causes", "What to look at", "Causes", (Listing(tuple(Item((), f"{todo}.") for todo in todos)),))
    for verdict in report.verdicts:
        key = _name_group(verdict.figures)
        title = f"{key.capitalize()} answers"
        by_task = _make_table(verdict, key, title, (verdict.figures, *verdict.tasks))
        by_length = _make_table(verdict, f"{key}_lengths", f"{title} by length", verdict.lengths, "length")
        yield Section(key, title, title, (by_task, Listing(tuple(_list_facts(verdict, report))), by_length))


def _list_facts(verdict: GroupVerdict, report: AuditReport) -> Iterator[Item]:
    lowest = verdict.figures.is_greedy and verdict.temperature == TEMPERATURES[0]
    if verdict.temperature is not None and verdict.temperature_interval is not None and not lowest:
        bounds = verdict.temperature_interval
        yield Item(
            (), f"The answers fit a temperature of {verdict.temperature:g} best ({FIDELITY_LEVEL_TEXT} interval "
            f"{bounds.lower:g} to {bounds.upper:g}).",
        )  # fmt: skip
    if verdict.figures.is_greedy and verdict.outcome != "different":
        unfit = verdict.figures.unfit_interval
        yield Item(
            (), f"{format_share(verdict.figures.unfit)} % of the answers, each by itself, look like another model's "
            f"({FIDELITY_LEVEL_TEXT} interval {format_share_interval(unfit)}). So at most "
            f"{format_share(min(1.0, unfit.upper))} % of requests went to a model whose answers look so.",
        )  # fmt: skip
    if verdict.noise is not None:
        unit = " nats a token" if verdict.figures.is_greedy else ""
        yield Item((), f"The noise of the same weights is {format_nats(verdict.noise)}{unit}.")
    if report.prompts is not None:
        counts = report.prompts
        than = (
            f"{abs(counts.more):,} {'more' if counts.more > 0 else 'fewer'} tokens than"
            if counts.more
            else "the tokens of"
        )
        yield Item(
            (), f"Of {plural(counts.docs, 'prompt')}, the endpoint counts {than} the trusted copy in "
            f"{format_share(counts.share)} %.",
        )  # fmt: skip


def _make_table(
    verdict: GroupVerdict, key: str, title: str, figures: Sequence[AnswerFigures], first: str = "task"
) -> Table[AnswerFigures]:
    is_greedy = verdict.figures.is_greedy
    score, unit = ("regret", "mean, nats a token") if is_greedy else ("depth", "mean, a share of probability")
    most = AUDIT_MOST_REGRET if is_greedy else 0.5
    columns: tuple[Column[AnswerFigures], ...] = (
        Column("docs", "answers", lambda task: task.docs, format_count),
        Column("tokens", "tokens", lambda task: task.tokens, format_count),
        Column(
            "score", score, lambda task: task.score.value, format_nats, unit,
            lambda task: format_nats_interval(_clamp(task.interval, most)), strong=True,
        ),
        Column("opening", "first 16 tokens", lambda task: task.opening, format_nats, "mean of the first 16 tokens"),
        Column("later", "later tokens", lambda task: task.later, format_nats, "mean of later tokens"),
        Column(
            "unlikely", "not likeliest" if is_greedy else "outside", lambda task: task.unlikely, format_share,
            "percent of tokens",
        ),
        *(() if is_greedy else (Column("surprise", "surprise", _get_surprise, format_nats, "mean, nats a token"),)),
        Column("unfit", "like another's", lambda task: task.unfit, format_share,
               "percent of answers that, each by itself, look like another model's"),
    )  # fmt: skip
    rows = tuple(Row(name_task(task.name), task, whole=task.name is None) for task in figures)
    legend = (
        "Regret, in nats: the trusted copy's log-probability of its likeliest token, less that of the answer's token."
        if is_greedy
        else "Depth: the probability of likelier tokens and half the token's own, less one half. Surprise: minus the "
        "log-probability, less the entropy. The mean of both is 0 for the same model."
    )  # fmt: skip
    return Table(key, title, columns, rows, legend, first=first)


def _clamp(bounds: Interval | None, most: float) -> Interval | None:
    """An interval of few answers may be wider than what is possible."""
    return bounds and replace(bounds, lower=max(bounds.lower, -most), upper=min(bounds.upper, most))


def _get_surprise(figures: AnswerFigures) -> float | None:
    return figures.surprise


def _name_group(figures: AnswerFigures) -> str:
    return "greedy" if figures.is_greedy else "sampled"
