"""The socket for evidence: what a plug-in adds to a decision.

Evidence raises alarms, which may forbid SHIP, adds rules to ``gate.yaml`` and conditions to its ``limits``, and shows a
section in the report. A package adds it by an entry point of the group ``meta_eval.evidence``. Its name there is its
key in ``gate.yaml`` and in the JSON of a report. ``examples/length_evidence.py`` is a small one.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from meta_eval.base.extensions import Extension, ExtensionError, find_extensions, load_extension
from meta_eval.judge.alarm_kinds import AlarmKind, Condition, DocsAbove, RaisedAlarm

if TYPE_CHECKING:
    from meta_eval.harness.lm_eval_run import Run
    from meta_eval.pack.manifest import Manifest

EVIDENCE_GROUP = "meta_eval.evidence"


@dataclass(frozen=True, slots=True)
class EvidenceCase:
    """What is judged."""

    candidate: Run
    """The run that is judged."""

    baseline: Run | None = None
    """What it is judged by: the other run, or the recorded answers as the pack grades them. None without either."""

    places: tuple[Path, ...] = ()
    """The files and folders of results that `report` was given; empty in `compare`."""

    manifest: Manifest | None = None
    """The manifest of the pack; None without a pack."""

    manifest_sha256: str | None = None
    """Its hash."""

    rules: Any = None
    """What ``gate.yaml`` says under the key of this evidence; None if it says nothing."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What an evidence found."""

    alarms: tuple[RaisedAlarm, ...] = ()
    """The kind and occurrence of each alarm. An occurrence with ``veto`` forbids SHIP."""

    notes: tuple[str, ...] = ()
    """What the reader must know of the files that were read."""

    data: Any = None
    """For `Evidence.make_sections`."""

    json: Any = None
    """Plain JSON data, which the JSON of the report has under the name of the evidence; None for none."""


class Evidence(ABC):  # noqa: B024 (all has a default)
    """What a plug-in adds to a decision. Override what you need."""

    rules: ClassVar[type[BaseModel] | None] = None
    """The model of its key in ``gate.yaml``; None for no key."""

    alarm_kinds: ClassVar[tuple[AlarmKind, ...]] = ()
    """The kinds of its alarms. A kind with a rule for docs needs no code; `find` raises the others."""

    conditions: ClassVar[tuple[Condition, ...]] = ()
    """Conditions that ``limits`` of ``gate.yaml`` may name."""

    def find(self, case: EvidenceCase) -> Findings:  # noqa: ARG002 (for those that override it)
        """Find alarms and facts, before the decision.

        Raises:
            UserError: What it reads cannot be read.
        """
        return Findings()

    def make_sections(self, findings: Findings) -> Iterable[Any]:  # noqa: ARG002 (for those that override it)
        """Make the sections of the report: objects of `meta_eval.sockets.Section`. Empty ones are not shown."""
        return ()


@dataclass(frozen=True, slots=True)
class NamedFindings:
    """What an evidence found, and its name."""

    name: str
    evidence: Evidence
    findings: Findings = field(default_factory=Findings)


def find_evidence(name: str) -> Evidence | None:
    """The evidence of a name; None if there is none.

    Raises:
        ExtensionError: Its package cannot be loaded.
    """
    extension = find_extensions(EVIDENCE_GROUP).get(name)
    return None if extension is None else _load(extension)


def list_evidence() -> dict[str, Evidence]:
    """All evidence by name. Broken ones are left out; `collect_findings` names them."""
    loaded: dict[str, Evidence] = {}
    for name, extension in find_extensions(EVIDENCE_GROUP).items():
        try:
            loaded[name] = _load(extension)
        except ExtensionError:
            continue
    return loaded


def collect_findings(case: EvidenceCase, rules: Mapping[str, Any]) -> tuple[NamedFindings, ...]:
    """Let all evidence find what it finds. A broken one is a note, so that the report says what was not looked at.

    Args:
        case: What is judged, without rules.
        rules: The rules of the gate by name of the evidence.

    Raises:
        ExtensionError: An evidence gives something else than findings, or raises an alarm of an undeclared kind.
        UserError: What an evidence reads cannot be read.
    """
    collected = []
    for name, extension in find_extensions(EVIDENCE_GROUP).items():
        try:
            evidence = _load(extension)
        except ExtensionError as error:
            collected.append(NamedFindings(name, Evidence(), Findings(notes=(str(error),))))
            continue
        findings = evidence.find(replace(case, rules=rules.get(name)))
        _check(name, evidence, findings)
        collected.append(NamedFindings(name, evidence, findings))
    return tuple(collected)


def list_alarms(collected: Iterable[NamedFindings]) -> list[RaisedAlarm]:
    """The alarms of all evidence."""
    return [raised for named in collected for raised in named.findings.alarms]


def _load(extension: Extension) -> Evidence:
    evidence: Evidence = load_extension(extension, Evidence, alarm_kinds=(tuple,), conditions=(tuple,))
    if evidence.rules is not None and not (isinstance(evidence.rules, type) and issubclass(evidence.rules, BaseModel)):
        raise ExtensionError("rules is not a class of pydantic models", where=extension.points[0].value)
    for wrong in _list_wrong(evidence):
        raise ExtensionError(wrong, where=extension.points[0].value)
    return evidence


def _list_wrong(evidence: Evidence) -> Iterator[str]:
    """What its kinds of alarms and conditions are instead."""
    wanted: tuple[tuple[str, type], ...] = (("alarm_kinds", AlarmKind), ("conditions", Condition))
    for name, kind in wanted:
        yield from (
            f"{name} holds {type(each).__name__} and no {kind.__name__}"
            for each in getattr(evidence, name)
            if not isinstance(each, kind)
        )
    for each in evidence.alarm_kinds:
        rule = each.docs
        if not isinstance(rule, DocsAbove | None):
            yield f"docs of the alarm {each.name!r} is a {type(rule).__name__} and no DocsAbove"
        elif rule is not None:
            yield from (
                f"{name} of the alarm {each.name!r} is {share!r} and no share from 0 to 1"
                for name, share in (("above", rule.above), ("grave", rule.grave))
                if not isinstance(share, int | float) or not 0 <= share <= 1  # NaN, too: it would never be raised
            )


def _check(name: str, evidence: Evidence, findings: Any) -> None:
    if not isinstance(findings, Findings):
        raise ExtensionError(f"find gave {type(findings).__name__} and no Findings", where=f"evidence {name}")
    kinds = {kind.name for kind in evidence.alarm_kinds}
    unknown = next((kind for kind, _ in findings.alarms if kind not in kinds), None)
    if unknown is not None:
        raise ExtensionError(
            f"raises an alarm of the kind {unknown!r}, which is not in alarm_kinds", where=f"evidence {name}"
        )
