"""No SHIP for answers that no model gave."""

from __future__ import annotations

from typing import ClassVar

from meta_eval.plugins.stand_in.backend import ENGINE
from meta_eval.sockets import AlarmKind, AlarmOccurrence, Evidence, EvidenceCase, Findings

NO_MODEL = AlarmKind("no model", "The record answered, so the decision says nothing about a model.")


class StandInEvidence(Evidence):
    """An alarm on results of the backend ``recorded`` and of `meta-eval stand-in`, which forbids SHIP."""

    alarm_kinds: ClassVar[tuple[AlarmKind, ...]] = (NO_MODEL,)

    def find(self, case: EvidenceCase) -> Findings:
        """See `Evidence.find`."""
        names = {
            name
            for run in (case.baseline, case.candidate)
            for name, task in (run.tasks.items() if run else ())
            if ENGINE in (task.provenance.backend or "").split(", ")
        }
        alarms = ((NO_MODEL.name, AlarmOccurrence(name, veto=True)) for name in sorted(names))
        return Findings(tuple(alarms))
