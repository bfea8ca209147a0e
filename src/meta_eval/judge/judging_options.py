"""Options of the verbs that judge runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.base.thresholds import CAP, MARGIN
from meta_eval.base.verb_options import Options, option, split_names
from meta_eval.pack.pack_options import GATE

if TYPE_CHECKING:
    from meta_eval.harness.choice import Choice
    from meta_eval.judge.gate import Gate
    from meta_eval.pack.manifest import Manifest


def _read_clusters(assignments: list[str]) -> Mapping[str, str]:
    from meta_eval.harness.clusters import read_fields

    return read_fields(assignments)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingOptions(Options):
    """What `report` and `compare` read, and by which rules they decide."""

    pack: Path | str | None = option(
        None, Path | None, "--pack WORK_DIR", "The pack that was run. It names the baseline."
    )
    """The pack that was run: published numbers and missing tasks need it."""

    margin: float | None = option(
        None, float | None, "--margin POINTS",
        f"The largest drop that you accept. Default: the pack's margin, {100 * MARGIN:g} unless set.",
    )  # fmt: skip
    """The largest drop that is allowed, in points; None for the gate's, else the pack's."""

    cap: float | None = option(
        None, float | None, "--cap POINTS",
        f"No SHIP if a task or subtask may have lost more than this. Default: {100 * CAP:g}.",
    )  # fmt: skip
    """What no task and no subtask may lose at the worse end of its interval, in points; None for the gate's, else 5."""

    gate: Gate | Path | str | None = option(None, Path | None, "--gate FILE", GATE)
    """Decide by these rules, or by those of a file; ``exit_code`` then follows the decision."""

    cluster: Mapping[str, str] | None = option(
        None, list[str], "--cluster TASK=FIELD",
        "Treat docs of TASK with the same FIELD as a cluster. TASK may be a pattern such as 'mmlu_*'.",
        read=_read_clusters, shown=lambda _: [],
    )  # fmt: skip
    """By task (or by a pattern such as ``mmlu_*``) the field of its docs that says which share a passage, a question or
    a source, and so are not independent; beside what the gate names.
    """

    tasks: Sequence[str] = option(
        (), list[str], "--tasks NAMES", "Only these tasks, groups or patterns, comma-separated. -NAME excludes NAME.",
        read=split_names,
    )  # fmt: skip
    """Only these tasks and groups, or patterns such as ``mmlu_*``; empty for all. A minus leaves one out:
    ``-mmlu_law``.
    """

    repeats: bool = option(
        False, bool, "--repeats", "Average all runs of the same model and pack. Default: take the newest."
    )
    """Average all runs of a task instead of taking the newest."""

    skip_damaged: bool = option(False, bool, "--skip-damaged", "Leave out damaged files, lines and docs, and say so.")
    """Leave damaged files, lines and docs out instead of refusing them."""

    regrade: bool = option(
        False, bool, "--regrade",
        "Grade all recorded answers again with one grader, the pack's or the installed lm-eval's, and decide on that.",
    )  # fmt: skip
    """Grade all recorded answers again with one grader, and decide on that: with the pack's, else with the task of that
    name in ``include_path`` or the installed lm-eval.
    """

    include_path: Path | str | None = option(
        None, Path | None, "--include-path FOLDER",
        "With --regrade: a folder of lm-eval tasks, which come before lm-eval's.",
    )  # fmt: skip
    """A folder of lm-eval tasks for ``regrade``."""

    allow_code: bool = option(
        False, bool, "--allow-code", "With --regrade: also grade tasks whose scoring runs code that the model wrote."
    )
    """With ``regrade``, also grade tasks whose scoring runs code that the model wrote."""

    @property
    def folder(self) -> Path | None:
        """The folder of the pack."""
        return None if self.pack is None else Path(self.pack)

    @property
    def exit_follows_decision(self) -> bool:
        """Whether the exit code follows the decision."""
        return self.gate is not None

    @property
    def choice(self) -> Choice:
        """The tasks that are meant."""
        from meta_eval.harness.choice import Choice

        return Choice.of_names(self.tasks)

    def read_rules(self) -> Gate:
        """The rules of the gate, with the margin and the cap.

        Raises:
            UserError: The file of the gate cannot be read, or the margin or the cap is none.
        """
        from meta_eval.judge.gate import Gate, read_gate

        gate = read_gate(Path(self.gate)) if isinstance(self.gate, Path | str) else self.gate or Gate()
        gate = gate if self.cap is None else gate.with_cap(self.cap)
        gate = gate if self.margin is None else gate.with_margin(self.margin)
        gate.note_small_margin()
        return gate

    def read_manifest(self) -> Manifest | None:
        """The manifest of the pack; None without a pack.

        Raises:
            UserError: It cannot be read.
        """
        from meta_eval.pack.manifest import read_manifest

        return None if self.folder is None else read_manifest(self.folder)
