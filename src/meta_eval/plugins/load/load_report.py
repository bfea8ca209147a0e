"""The report of a load, and its document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from meta_eval.base.plain_data import make_plain
from meta_eval.plugins.load.level_decision import Counts, LevelOutcome, Verdicts
from meta_eval.plugins.load.load_build import LOAD_SCHEMA, Found, Level, Shown
from meta_eval.plugins.load.load_plot import draw_load_plot
from meta_eval.plugins.load.thresholds import AT_MOST, CLEAREST, FOUND
from meta_eval.reports import text
from meta_eval.reports.document import Fact, Figure, RunProvenance, Verdict
from meta_eval.reports.text import format_count, format_percent
from meta_eval.sockets import Column, Document, Item, Listing, Row, Section, Table
from meta_eval.stats import Interval

_PACKAGE = "meta_eval.plugins.load"

# Characters before and after a cut that a page shows.
_BEFORE, _AFTER = 160, 320


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What views read."""

    found: Found
    """What was found."""

    @property
    def outcome(self) -> LevelOutcome:
        """worse if any level is; else undecided if any is; no fault seen unless all are the same."""
        outcomes = {level.decision.outcome for level in self.found.levels} or {"undecided"}
        return next(outcome for outcome in ("worse", "undecided", "no fault seen", "same") if outcome in outcomes)

    @property
    def summary(self) -> str:
        """The result in one line."""
        levels = self.found.levels
        if not levels:
            return "undecided: no level was asked"
        worse = [level for level in levels if level.decision.outcome == "worse"]
        if worse:
            good = [level.level for level in levels if level.level < worse[0].level]
            since = f"from {worse[0].level:,} in flight on"
            since += f" (not at {good[-1]:,})" if good else ""
            return f"worse under load {since}: {worse[0].decision.reason}"
        if self.outcome != "undecided":
            return f"{self.outcome} under load up to {levels[-1].level:,} in flight: {levels[-1].decision.reason}"
        doubt = next(level for level in reversed(levels) if level.decision.outcome == "undecided")
        return f"undecided at {doubt.level:,} in flight: {doubt.decision.reason}"

    @property
    def exit_code(self) -> int:
        """0 for the same and where no fault was seen, 1 for worse, 3 for undecided."""
        return {"same": 0, "no fault seen": 0, "worse": 1, "undecided": 3}[self.outcome]

    def document(self) -> Document:
        """The document that views show."""
        found = self.found
        runs = (RunProvenance("server", found.model, (("engine", found.engine),) if found.engine else ()),)
        return Document(
            "load", f"{found.model} under load", self.outcome, f"{self.summary}.", _make_verdict(self),
            tuple(_list_sections(found)), runs, (), found.notes, self.exit_code, self, heading="Load",
            style=f"{_PACKAGE}:load.css",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; shares from 0 to 1, nats, seconds."""
        found = self.found
        return {
            "schema_version": LOAD_SCHEMA,
            "document_type": "load",
            "summary": self.summary,
            "outcome": self.outcome,
            "model": found.model,
            "engine": found.engine,
            "alone_again": make_plain(found.alone),
            "levels": make_plain(found.levels),
            "corrupted": [
                {"level": shown.level, **make_plain(shown.seen), "alone": shown.alone, "loaded": shown.loaded}
                for shown in found.shown
            ],
            "near_tie_nats": found.limit,
            "notes": list(found.notes),
            "exit_code": self.exit_code,
        }


def _make_verdict(report: LoadReport) -> Verdict:
    found = report.found
    if not found.levels:
        return Verdict(report.outcome, reasons=("no level was asked",))
    worst = max(
        found.levels, key=lambda level: (level.decision.outcome == "worse", level.counts.corrupted, level.level)
    )
    facts = [
        Fact(
            f"corrupted at {worst.level:,}", f"{worst.counts.corrupted:,}", f"of {worst.counts.answers:,}",
            _format_bounds(worst.counts.interval),
        ),
        Fact("partings there", format_percent(worst.counts.parting), "%",
             f"alone {format_percent(found.alone.parting)}"),
    ]  # fmt: skip
    if worst.verdicts is not None:
        facts.append(Fact("verdicts lost, won", f"{worst.verdicts.lost:,}, {worst.verdicts.won:,}"))
    facts.append(
        Fact("smallest rate found", format_percent(worst.decision.smallest), "%", f"in {100 * FOUND:.0f} % of draws")
    )
    reasons = tuple(f"{level.level:,} in flight: {level.decision.reason}" for level in found.levels)
    advice = ""
    if report.outcome == "undecided":
        advice = "More docs (--docs) make rarer faults visible; verdicts need most."
    elif report.outcome == "worse":
        advice = "Restart the server with one feature off, and run the same command with another --output FOLDER."
    return Verdict(report.outcome, facts=tuple(facts), reasons=reasons, advice=advice)


def _list_sections(found: Found) -> Iterator[Section]:
    table = _make_level_table(found)
    plot = Figure("load", draw_load_plot(found), package=_PACKAGE)
    yield Section("levels", table.title, "Levels", (plot, table, _list_signs(found)))
    pool = _make_pool_table(found)
    yield Section("pool", pool.title, "KV pool", (pool,))
    shown = found.shown[:CLEAREST]
    figure = Figure("corrupted", [_cut(one) for one in shown] or None, package=_PACKAGE)
    listing = Listing(
        tuple(Item((f"{one.seen.task}/{one.seen.doc}",), _describe(one)) for one in shown),
        views=("terminal", "markdown"),
    )
    yield Section("corrupted", "The clearest corrupted answers", "Answers", (figure, listing))


@dataclass(frozen=True, slots=True)
class _Line:
    """A level, or the answers alone."""

    counts: Counts
    level: Level | None

    @property
    def verdicts(self) -> Verdicts | None:
        return self.level.verdicts if self.level else None


def _make_level_table(found: Found) -> Table[_Line]:
    page = {"terminal": ""}
    lines = [_Line(level.counts, level) for level in found.levels]
    columns: list[Column[_Line]] = [
        Column("answers", "answers", lambda line: line.counts.answers, format_count),
        Column("parting", "partings", lambda line: line.counts.parting, format_percent,
               "percent of answers whose text is not that of an answer alone",
               lambda line: _format_bounds(line.counts.parting_interval), detailed=("html", "markdown")),
        Column("near_ties", "near ties", lambda line: line.counts.near_ties, format_count,
               "answers that part where two tokens are nearly as likely, which is no fault"),
        Column("unknown", "not known", lambda line: line.counts.parted, format_count,
               "answers that part, and nobody knows why", headings=page),
        Column("corrupted", "corrupted", lambda line: line.counts.corrupted, format_count,
               "answers that are not the model's to this request; percent, with the 95 % interval",
               lambda line: _format_bounds(line.counts.interval), strong=True),
        Column("failed", "failed", lambda line: line.counts.failed, format_count, headings=page),
        Column("lost", "lost", lambda line: line.verdicts.lost if line.verdicts else None, format_count,
               "verdicts that are right alone and wrong under load"),
        Column("won", "won", lambda line: line.verdicts.won if line.verdicts else None, format_count,
               "verdicts that are wrong alone and right under load"),
        Column("drop", "drop", lambda line: line.verdicts.drop if line.verdicts else None, text.format_drop,
               "lost less won, points", lambda line: _format_drop_bounds(line.verdicts), headings=page),
        Column("seconds", "seconds", lambda line: line.level.seconds if line.level else None, _format_seconds,
               "median time of an answer", headings=page),
        Column("pool", "KV pool", lambda line: line.level.pool if line.level else None, _format_whole,
               "largest use that the engine named, percent", headings=page),
        Column("preempted", "preempted", lambda line: line.level.preemptions if line.level else None, format_count,
               "requests that lost their place in the pool", headings=page),
        Column("smallest", "smallest rate", lambda line: line.level.decision.smallest if line.level else None,
               format_percent, f"percent of corrupted answers that are found in {100 * FOUND:.0f} % of draws",
               headings=page),
    ]  # fmt: skip
    # An engine without a page of metrics has none of these.
    shown = tuple(one for one in columns if one.key not in ("pool", "preempted") or any(map(one.value, lines)))
    rows = (
        Row("alone", _Line(found.alone, None)),
        *(
            Row(f"{level.level:,}", line, level.decision.outcome)
            for level, line in zip(found.levels, lines, strict=True)
        ),
    )
    ties = "" if found.limit is None else f" A near tie is at most {found.limit:.1f} nats."
    best = "Same" if found.limit is not None else "No fault seen"
    legend = (
        f"Beside the answers that the same docs got alone.{ties} {best}: no answer is corrupted, and it is ruled "
        f"out that {100 * AT_MOST:.0f} % are, or that {100 * AT_MOST:.0f} points of verdicts are lost."
    )
    return Table("levels", "Answers by requests in flight", shown, rows, legend, first="in flight")


def _list_signs(found: Found) -> Listing:
    items = [
        Item((f"{level.level:,}",), ", ".join(f"{sign} {number:,}" for sign, number in level.counts.signs))
        for level in found.levels if level.counts.signs
    ]  # fmt: skip
    return Listing(tuple(items), "Signs, by requests in flight")


@dataclass(frozen=True, slots=True)
class _Pool:
    answers: int
    partings: int
    corrupted: int


def _make_pool_table(found: Found) -> Table[_Pool]:
    columns: tuple[Column[_Pool], ...] = (
        Column("answers", "answers", lambda row: row.answers, format_count),
        Column("parting", "partings", lambda row: row.partings / row.answers, format_percent, "percent"),
        Column("corrupted", "corrupted", lambda row: row.corrupted, format_count, strong=True),
    )
    rows = tuple(
        Row(f"{level.level:,}: {words}", _Pool(*figures))
        for level in found.levels for words, *figures in level.by_pool
    )  # fmt: skip
    legend = "By the largest use of the engine's KV pool while an answer was made."
    return Table("pool", "Answers by use of the KV pool", columns, rows, legend, first="in flight, use")


def _describe(shown: Shown) -> str:
    words = f"at {shown.level:,} in flight: {', '.join(shown.seen.signs)}"
    cut = _cut(shown)
    return f"{words}: … {cut.before[-40:]}⟦{cut.loaded[:60]}⟧ where alone it is ⟦{cut.alone[:60]}⟧"


@dataclass(frozen=True, slots=True)
class CutPair:
    """Two answers around the place where they differ."""

    title: str
    before: str
    loaded: str
    alone: str
    at: int


def _cut(shown: Shown) -> CutPair:
    seen = shown.seen
    at = min(seen.at, len(shown.loaded))
    distance = "" if seen.distance is None else f"; {seen.distance:.1f} nats"
    title = f"{seen.task}/{seen.doc} at {shown.level:,} in flight: {', '.join(seen.signs)}{distance}"
    return CutPair(
        title,
        shown.loaded[max(0, at - _BEFORE) : at],
        shown.loaded[at : at + _AFTER],
        shown.alone[at : at + _AFTER],
        at,
    )


def _format_drop_bounds(verdicts: Verdicts | None) -> str | None:
    return text.format_drop_interval(verdicts.interval) if verdicts and verdicts.docs else None


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.1f}"


def _format_whole(share: float) -> str:
    return format_percent(share, 0)


def _format_bounds(bounds: Interval) -> str:
    return f"{format_percent(bounds.lower)} to {format_percent(bounds.upper)}"
