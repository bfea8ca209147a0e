"""Reads from a gate when a run may stop early."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from meta_eval.ask.early_stop import StopRules
from meta_eval.base.errors import ConfigError
from meta_eval.harness.settings import RunSettings
from meta_eval.judge.gate import Gate, read_gate
from meta_eval.pack.manifest import Manifest


def read_stop_rules(
    file: Path | str | None, manifest: Manifest, tasks: Sequence[str], settings: RunSettings
) -> StopRules:
    """The rules of a gate, else those of the settings.

    Args:
        file: A gate.yaml; None for the margin and the weights of the settings.
        manifest: Of the pack.
        tasks: The tasks that are asked.
        settings: Of the run.

    Raises:
        ConfigError: The file is wrong, or counts cut answers in another way than as they were graded.
    """
    gate = Gate() if file is None else read_gate(Path(file))
    rules = {"margin": gate.margin or settings.margin, "weights": gate.weights or settings.weights}
    cut_answers = gate.cut_answers or settings.cut_answers
    if cut_answers != "graded":
        raise ConfigError(
            f"cut_answers is {cut_answers}, and a run that stops early takes answers as they were graded",
            where="--stop-when-decided",
            hint="Run all docs, or set cut_answers: graded",
        )
    gate = gate.model_copy(update=rules).complete(manifest, manifest.tasks, manifest.groups)
    chosen, names = gate.choose(list(tasks), manifest.groups, manifest.left_out)
    expanded = chosen.expand_groups(manifest.groups)
    decided = [name for name in expanded.chosen if name in tasks] or names
    margins = {name: expanded.task_rules(name).margin_fraction for name in decided}
    return StopRules(decided, margins, expanded.margin_fraction, expanded.weights or "precision")
