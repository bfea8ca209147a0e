"""What this plug-in adds to a report: the figures of the tables in ``fidelity/`` beside the results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from meta_eval.judge.token_table import TABLES
from meta_eval.sockets import Evidence, EvidenceCase, Findings, Item, Listing, Section

if TYPE_CHECKING:
    from meta_eval.judge.gate import Gate
    from meta_eval.sockets import Table

# The name of the evidence: its key in gate.yaml, and in the JSON of a report.
KEY = "fidelity"


class FidelityRule(BaseModel):
    """The rules of `meta-eval fidelity`; other commands ignore them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    margin: Annotated[float, Field(gt=0, lt=100, allow_inf_nan=False, strict=True)] | None = None
    """The largest allowed distance, in nats per token; None for the default."""

    min_docs: Annotated[int, Field(ge=1, strict=True)] | None = None
    """With fewer docs the outcome is undecided. None for the default."""


def find_rule(gate: Gate) -> FidelityRule:
    """The rules of a gate for this plug-in."""
    rule = gate.rules_of_evidence.get(KEY)
    return rule if isinstance(rule, FidelityRule) else FidelityRule()


class FidelityEvidence(Evidence):
    """The figures of tables beside the results of a run. They raise no alarm."""

    rules: ClassVar[type[BaseModel] | None] = FidelityRule

    def find(self, case: EvidenceCase) -> Findings:
        """See `Evidence.find`."""
        if not any((place / TABLES).is_dir() for place in case.places):
            return Findings(data=(), json=[])
        from meta_eval.plugins.tokens.fidelity_build import read_fidelity_reports

        reports, notes = read_fidelity_reports(case.places, case.manifest_sha256)
        return Findings(notes=notes, data=reports, json=[report.to_json() for report in reports])

    def make_sections(self, findings: Findings) -> Iterator[Section]:
        """See `Evidence.make_sections`."""
        blocks = tuple(_make_blocks(findings))
        yield Section("fidelity", "How likely it finds the recorded answers", "Fidelity", blocks)


def _make_blocks(findings: Findings) -> Iterator[Table[Any] | Listing]:
    from meta_eval.plugins.tokens.fidelity_tables import make_choice_table, make_figure_table

    for facts in findings.data:
        yield Listing((Item((), f"fidelity of {facts.model}: {facts.summary}"),), views=("markdown", "terminal"))
        yield Listing((Item((facts.table,), f"{facts.model}, {facts.engine}"),), views=("html",))
        yield replace(make_figure_table(facts.figures), title="Texts", views=("html",))
        yield replace(make_choice_table(facts.choices), title="Choices", views=("html",))
