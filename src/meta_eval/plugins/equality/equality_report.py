"""The report of a test of equality, and its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from meta_eval.judge.decide import SAMENESS_CODES
from meta_eval.plugins.equality.equality_decision import EqualityDecision
from meta_eval.plugins.equality.sides import PromptKey, Side
from meta_eval.plugins.equality.thresholds import DIFFERENT, NOT_SAME, POWER, SHOWN
from meta_eval.plugins.equality.two_samples import PromptSamples
from meta_eval.reports.document import Fact, RunProvenance, Verdict
from meta_eval.reports.report_data import title_two_runs
from meta_eval.reports.text import format_count, format_percent
from meta_eval.sockets import Column, Document, Item, Listing, Row, Section, Table, plural

EQUALITY_SCHEMA = 1

# Characters of an answer that a list shows.
_LENGTH = 160


@dataclass(frozen=True, slots=True)
class EqualityReport:
    """What views read."""

    a: Side
    b: Side
    """The sides."""

    paired: Mapping[PromptKey, PromptSamples]
    """The answers of both by prompt."""

    decision: EqualityDecision
    """What follows."""

    notes: tuple[str, ...] = ()
    """What must be known of it."""

    @property
    def summary(self) -> str:
        """The result in one line."""
        return f"{self.decision.outcome}: {self.decision.reason}"

    @property
    def exit_code(self) -> int:
        """0 for the same, 1 for different, 3 for undecided."""
        return SAMENESS_CODES[self.decision.outcome]

    def document(self) -> Document:
        """The document that views show."""
        runs = tuple(
            RunProvenance(side.label, side.model, (("engine", side.engine),) if side.engine else (), side.place)
            for side in (self.a, self.b)
        )
        return Document(
            "equality", title_two_runs(*runs), self.decision.outcome, f"{self.summary}.", _make_verdict(self),
            tuple(_list_sections(self)), runs, (), self.notes, self.exit_code, self, heading="Equality",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; shares, p values and powers from 0 to 1."""
        decision = self.decision
        return {
            "schema_version": EQUALITY_SCHEMA,
            "document_type": "equality",
            "summary": self.summary,
            "outcome": decision.outcome,
            "p": decision.test.p,
            "mmd": decision.test.discrepancy,
            "mmd_p": decision.test.discrepancy_p,
            "typicality": list(decision.test.typicality),
            "power": None if decision.power is None else decision.power.power,
            "prompts": len(self.paired),
            "answers": decision.answers,
            "answers_needed": decision.needed,
            "sides": [_describe(side) for side in (self.a, self.b)],
            "notes": list(self.notes),
            "exit_code": self.exit_code,
        }


def _describe(side: Side) -> dict[str, Any]:
    figures: dict[str, Any] = {
        name: getattr(side, name) for name in ("label", "model", "place", "engine", "wanted", "cut")
    }
    figures |= {"answers": len(side.all_texts), "median_characters": side.length, "distinct": side.distinct}
    return figures


def _make_verdict(report: EqualityReport) -> Verdict:
    decision = report.decision
    facts = [
        Fact("p", format_percent(decision.test.p, 2), "%", f"different up to {100 * DIFFERENT:.0f} %"),
        Fact("prompts", format_count(len(report.paired)), "", f"{decision.answers:,.1f} answers a side to each"),
    ]
    if decision.power is not None:
        facts.append(
            Fact("power", format_percent(decision.power.power, 0), "%", f"same from {100 * POWER:.0f} % on")
        )  # fmt: skip
    if decision.needed is not None:
        facts.append(Fact("answers that would do", format_count(decision.needed), "", "of each side to each prompt"))
    return Verdict(decision.outcome, facts=tuple(facts), reasons=(decision.reason,), advice=decision.advice)


def _list_sections(report: EqualityReport) -> Iterator[Section]:
    columns: tuple[Column[Side], ...] = (
        Column("answers", "answers", lambda side: len(side.all_texts), format_count),
        Column("missing", "missing", lambda side: side.missing, format_percent, "percent of answers that failed"),
        Column("length", "length", lambda side: side.length, "{:,.0f}".format, "median characters of an answer"),
        Column("cut", "cut", lambda side: side.cut / max(1, len(side.all_texts)), format_percent,
               "percent of answers that the limit of tokens cut"),
        Column("distinct", "distinct", lambda side: side.distinct, format_percent,
               "percent of answers whose text no earlier answer to the prompt has"),
    )  # fmt: skip
    legend = (
        f"The test compares the answers character by character, prompt by prompt. Different: p is at most "
        f"{100 * DIFFERENT:.0f} %. Same: p is above {100 * NOT_SAME:.0f} %, and a mixture with 10 % of another model "
        f"would be found with a probability of {100 * POWER:.0f} %."
    )
    rows = tuple(Row(side.label, side) for side in (report.a, report.b))
    yield Section("sides", "Both sides", "Sides", (Table("sides", "Both sides", columns, rows, legend, first="side"),))
    yield Section("prompts", "Where they differ most", "Prompts", (_list_prompts(report),))


def _list_prompts(report: EqualityReport) -> Listing:
    keys = sorted(report.paired)
    found = sorted(zip(report.decision.test.by_prompt, keys, strict=True), key=lambda one: (-one[0], one[1]))
    items = [
        Item(
            (report.a.names[key],),
            f"{distance:.3f}: A ⟦{report.paired[key].a[0][:_LENGTH]}⟧ B ⟦{report.paired[key].b[0][:_LENGTH]}⟧",
        )
        for distance, key in found[:SHOWN]
    ]
    title = f"The distance (MMD²) of {plural(len(items), 'prompt')}, and the first answer of each side"
    return Listing(tuple(items), title)
