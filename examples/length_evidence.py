"""Evidence: an alarm where the candidate's answers are much shorter than the baseline's, and a section of lengths.

Name it in your package's pyproject.toml, and `meta-eval compare` uses it:

    [project.entry-points."meta_eval.evidence"]
    brevity = "length_evidence:LengthEvidence"

`brevity: {shortest: 0.5}` in gate.yaml sets the limit.
"""

from pydantic import BaseModel

from meta_eval.sockets import AlarmKind, AlarmOccurrence, Evidence, Findings, Item, Listing, Section, average_figures

SHORTER = AlarmKind("shorter answers", "The candidate answers in fewer tokens: look at its answers.")


class LengthRules(BaseModel, extra="forbid"):
    shortest: float = 0.8


class LengthEvidence(Evidence):
    rules = LengthRules
    alarm_kinds = (SHORTER,)

    def find(self, case) -> Findings:
        if case.baseline is None:
            return Findings()
        rules, shares = case.rules or LengthRules(), {}
        for task in sorted(case.baseline.tasks.keys() & case.candidate.tasks.keys()):
            docs = (run.tasks[task].docs for run in (case.baseline, case.candidate))
            before, after = (average_figures(doc.figures for doc in of_side).get("answer_tokens") for of_side in docs)
            if before and after is not None:
                shares[task] = after / before
        alarms = tuple(
            (SHORTER.name, AlarmOccurrence(task, note=f"{share:.0%} of the baseline's"))
            for task, share in shares.items()
            if share < rules.shortest
        )
        return Findings(alarms, data=shares, json=shares)

    def make_sections(self, findings: Findings) -> list[Section]:
        items = tuple(Item((task,), f"{share:.0%}") for task, share in (findings.data or {}).items())
        return [Section("length", "Length beside the baseline's", "Length", (Listing(items),))]
