"""How results are read and judged: what `report` and `compare` have in common, handed on whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.verb_options import Options

if TYPE_CHECKING:
    from meta_eval.harness.lm_eval_run import Choice
    from meta_eval.judge.gate import Gate
    from meta_eval.pack.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingOptions(Options):
    """What `report` and `compare` read, and by which rules they decide.

    Attributes:
        pack: The pack that was run: published numbers and missing tasks need it.
        margin: The largest drop that is allowed, in points; None for the gate's, else the pack's.
        cap: What no task and no subtask may lose at the worse end of its interval, in points; None for the gate's,
            else 5.
        gate: Decide by these rules, or by those of a file; ``exit_code`` then follows the decision.
        cluster: By task (or by a pattern such as ``mmlu_*``) the field of its docs that says which share a passage, a
            question or a source, and so are not independent; beside what the gate names.
        tasks: Only these tasks and groups, or patterns such as ``mmlu_*``; empty for all. A minus leaves one out:
            ``-mmlu_law``.
        repeats: Average all runs of a task instead of taking the newest.
        skip_damaged: Leave damaged files, lines and docs out instead of refusing them.
        regrade: Grade all recorded answers again with one grader, and decide on that: with the pack's, else with the
            task of that name in ``include_path`` or the installed lm-eval.
        include_path: A folder of lm-eval tasks for ``regrade``.
        allow_code: With ``regrade``, also grade tasks whose scoring runs code that the model wrote.
    """

    pack: Path | str | None = None
    margin: float | None = None
    cap: float | None = None
    gate: Gate | Path | str | None = None
    cluster: Mapping[str, str] | None = None
    tasks: Sequence[str] = ()
    repeats: bool = False
    skip_damaged: bool = False
    regrade: bool = False
    include_path: Path | str | None = None
    allow_code: bool = False

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
        from meta_eval.harness.lm_eval_run import Choice

        return Choice.of_names(self.tasks)

    def read_rules(self) -> Gate:
        """The rules of the gate, with the margin and the cap.

        Raises:
            UserError: The file of the gate cannot be read, or the margin or the cap is none.
        """
        from meta_eval.judge.gate import Gate, read_gate

        gate = read_gate(Path(self.gate)) if isinstance(self.gate, Path | str) else self.gate or Gate()
        gate = gate if self.cap is None else gate.with_cap(self.cap)
        return gate if self.margin is None else gate.with_margin(self.margin)

    def read_manifest(self) -> Manifest | None:
        """The manifest of the pack; None without a pack.

        Raises:
            UserError: It cannot be read.
        """
        from meta_eval.pack.manifest import read_manifest

        return None if self.folder is None else read_manifest(self.folder)
