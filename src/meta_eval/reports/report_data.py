"""What a report holds, for its tables and as JSON: what is decided of a run or of two, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from meta_eval.base.plain_data import make_plain, written
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.decision import META, LmEvalAverage
from meta_eval.judge.evidence import NamedFindings
from meta_eval.reports.document import RunProvenance, VerdictOwner
from meta_eval.reports.text import write_headline

# 2: decisions with drops in the place of verdicts and a gate; alarms by kind; an interval is an object.
REPORT_SCHEMA = 3


def shorten_folders(folders: Sequence[str]) -> list[str]:
    """The shortest end of each folder that no other has, and never a whole path from the root of the disk."""
    parts = [[part for part in folder.split("/") if part] or ["/"] for folder in folders]
    others = [*map(list, dict.fromkeys(map(tuple, parts)))]  # the baseline may be a candidate, too
    return [
        next(
            (
                "/".join(of[-depth:])
                for depth in range(1, len(of))
                if sum(other[-depth:] == of[-depth:] for other in others) == 1
            ),
            "/".join(of),
        )
        for of in parts
    ]


def tell_runs_apart(runs: Sequence[RunProvenance]) -> list[str]:
    """What tells runs apart: the end of their folders, else their files, else their models."""
    folders = [run.folder for run in runs if run.folder]
    if len(set(folders)) == len(runs):
        return shorten_folders(folders)
    files = [dict(run.provenance).get("results") for run in runs]
    files_differ = len(set(files)) == len(files)
    short = [run.folder and shorten_folders([run.folder])[0] for run in runs]
    return [
        (file if files_differ else None) or folder or run.model
        for file, folder, run in zip(files, short, runs, strict=True)
    ]


def title_two_runs(a: RunProvenance, b: RunProvenance) -> str:
    """Name both models. If the names are equal, name what tells the runs apart."""
    first, second = tell_runs_apart((a, b))
    if a.model != b.model or first == second:
        return f"{b.model or 'B'} (B) beside {a.model or 'A'} (A)"
    return f"{a.model}: {second} (B) beside {first} (A)" if a.model else f"{second} (B) beside {first} (A)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData(RunDecision):
    """What is decided of a run, or of two that are compared, and where it comes from."""

    document_type: Literal["report", "compare"]
    """Whether it is of a run, or of two that are compared."""

    title: str
    """The model, or both."""

    runs: tuple[RunProvenance, ...]
    """Where the numbers come from."""

    group_averages: tuple[LmEvalAverage, ...] = ()
    """What lm-eval averaged over groups of tasks, and what a board would show."""

    exit_follows_decision: bool = False
    """Whether the exit code follows the decision."""

    evidence: tuple[NamedFindings, ...] = field(
        default=(),
        metadata=written(
            lambda evidence: {named.name: named.findings.json for named in evidence if named.findings.json is not None},
            spread=True,
        ),
    )
    """What the evidence of plug-ins found."""

    json_also: ClassVar = ("summary", "exit_code")

    @property
    def summary(self) -> str:
        """The result in at most three lines."""
        return write_headline(self.decision, self.alarms)

    @property
    def baseline_owner(self) -> str:
        """Whose recorded answers and verdicts stand beside the run's: ``Meta's`` or ``the record's``; else ``the
        baseline's``. In a comparison A is the baseline, so that what its docs hold is the record's."""
        if self.document_type != "report":
            return "the record's"
        return next((task.flips.baseline for task in self.tasks if task.flips), "the baseline's")

    @property
    def baseline_owner_recorded(self) -> str:
        """The same before *answers* or *verdicts*: ``Meta's recorded``, or ``the record's``."""
        return f"{META} recorded" if self.baseline_owner == META else self.baseline_owner

    @property
    def sides(self) -> tuple[VerdictOwner, VerdictOwner]:
        """Whose the two verdicts on each doc are."""
        if self.document_type != "compare":
            owner = self.baseline_owner
            label = owner.removeprefix("the ").removesuffix("'s") if owner != META else owner
            other = VerdictOwner(label, f"{owner}, recorded", f"{self.baseline_owner_recorded} answers")
            return VerdictOwner("ours", "ours", "this run"), other
        first, second = (
            VerdictOwner(
                run.label,
                f"{run.label} · {name}",
                f"{run.label} is {run.model}, from {name if run.folder else 'an unknown folder'}",
            )
            for run, name in zip(self.runs, tell_runs_apart(self.runs), strict=True)
        )
        return first, second

    @property
    def published_label(self) -> str:
        """What the scores stand beside: ``published numbers``, or of a recorded run its ``recorded scores``; else the
        empty text."""
        numbers = [score.reference for task in self.tasks for score in task.scores if score.reference]
        if not numbers:
            return ""
        return "recorded scores" if all(number.origin == "recorded" for number in numbers) else "published numbers"

    @property
    def exit_code(self) -> int:
        """0, or where the report is a gate 0 for SHIP, 1 for DON'T SHIP, 3 for UNDECIDED."""
        return self.decision.exit_code if self.exit_follows_decision else 0

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; scores, drops and bounds are from 0 to 1."""
        head = {"document_type": self.document_type, "title": self.title, "summary": self.summary}
        return {"schema_version": REPORT_SCHEMA, **head, **make_plain(self)}  # what people look for stands first
