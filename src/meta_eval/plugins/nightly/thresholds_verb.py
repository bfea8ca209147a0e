"""``meta-eval thresholds``: a gate made of the score thresholds of vLLM's CI."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from meta_eval.sockets import PLANNED_FLIPS, ConfigError, err, replace_file

_TARGET = Path("gate.yaml")


def thresholds(
    file: Path = typer.Argument(..., metavar="FILE", help="A file of .buildkite/lm-eval-harness/configs of vLLM."),
    docs: int | None = typer.Option(
        None, "--docs", metavar="N", min=1, max=10**7, help="Number of docs of each task. Default: the file's limit."
    ),
) -> None:
    """Write gate.yaml, with the tolerance of score thresholds in points, and say what such thresholds can see.

    It says how often a threshold fails an identical model, and the drop that it sees in 80 % of runs. A gate.yaml that
    exists is never overwritten.

    Example: meta-eval thresholds Meta-Llama-3-8B-Instruct.yaml
    """
    from meta_eval.plugins.nightly.score_thresholds import read_thresholds, write_gate

    read = read_thresholds(file, docs)
    if os.path.lexists(_TARGET):
        raise ConfigError("already exists", where=str(_TARGET), hint="Move it away, or go to another folder")
    with replace_file(_TARGET) as out:
        out.write(write_gate(read, file.name))
    err.print(f"wrote {_TARGET}", soft_wrap=True)
    for threshold in read:
        least = 100 * (threshold.value - threshold.tolerance)
        name = f"{threshold.task} {threshold.metric} >= {least:.1f}"
        failures, drop = threshold.find_failures(), threshold.find_visible_drop()
        if failures is None:
            err.print(f"{name}: the file has no limit; --docs N says what it can see", soft_wrap=True)
            continue
        seen = (
            "no loss in 80 % of runs" if drop is None else f"80 % of those of a model that lost {100 * drop:.1f} points"
        )
        failing = f"fails {_percent(failures)} of the runs of an identical model"
        err.print(f"{name}, {threshold.docs:,} docs: {failing}, and {seen}", soft_wrap=True)
    err.print(f"assumed: {100 * PLANNED_FLIPS:g} % of the docs flip between two runs of a model", soft_wrap=True)
    err.print(f"next: meta-eval compare BASELINE CANDIDATE --gate {_TARGET}")


def _percent(share: float) -> str:
    return "under 0.01 %" if share < 1e-4 else f"{100 * share:.2g} %"
