"""``meta-eval thresholds``: a gate made of score thresholds of CI, or thresholds made of past runs."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from meta_eval.base.outputs import replace_file
from meta_eval.base.thresholds import MARGIN, PLANNED_FLIPS
from meta_eval.sockets import ConfigError, err, print_result

_TARGET = Path("gate.yaml")


def thresholds(
    file: Path = typer.Argument(
        ..., metavar="FILE", help="A file of thresholds of vLLM's or SGLang's CI; or the folder of a history."
    ),
    docs: int | None = typer.Option(
        None, "--docs", metavar="N", min=1, max=10**7, help="Number of docs of each task. Default: the file's limit."
    ),
    once_in: float | None = typer.Option(
        None,
        "--once-in",
        metavar="RUNS",
        min=2,
        max=10**6,
        help="Of a history: print thresholds, each of which an identical model fails once in so many runs. A job of "
        "several tasks fails more often. Default: 1000.",
    ),
) -> None:
    """Write gate.yaml, with the tolerance of score thresholds in points, and say what such thresholds can see.

    Of the folder of a history it prints thresholds instead, in the form of vLLM's and SGLang's CI.

    It says how often a threshold fails an identical model, and the drop that it sees in 80 % of runs. A gate.yaml that
    exists is never overwritten.

    Example: meta-eval thresholds Meta-Llama-3-8B-Instruct.yaml
    """
    from meta_eval.plugins.nightly.score_thresholds import read_thresholds, write_gate

    if file.is_dir():
        _print_of_runs(file, 1000.0 if once_in is None else once_in)
        return
    if once_in is not None and not file.exists():
        raise ConfigError("there is no such folder", where=str(file), hint="Name a folder of past runs")
    if once_in is not None:
        raise ConfigError("is of a history's runs, and this is a file", where="--once-in", hint="Name a folder")
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
    if without := [threshold.task for threshold in read if not threshold.has_tolerance]:
        tasks = ", ".join(dict.fromkeys(without))
        err.print(
            f"{tasks}: no tolerance; the margin of the gate is the default {100 * MARGIN:g} point", soft_wrap=True
        )
    err.print(f"assumed: {100 * PLANNED_FLIPS:g} % of the docs flip between two runs of a model", soft_wrap=True)
    err.print(f"next: meta-eval compare BASELINE CANDIDATE --gate {_TARGET}")


def _print_of_runs(folder: Path, once_in: float) -> None:
    """Print thresholds from past runs, and what each can see."""
    from meta_eval.plugins.nightly.run_history import read_history
    from meta_eval.plugins.nightly.run_thresholds import find_run_thresholds, format_run_thresholds

    runs = read_history(folder)
    found = find_run_thresholds(runs, once_in)
    for one in found:
        err.print(
            f"{one.task} {one.metric}: mean {100 * one.mean:.1f} of {one.runs} runs over {one.docs:,} docs; below "
            f"{100 * one.floor:.1f} fails once in {once_in:g} runs of an identical model, and in 80 % of those of a "
            f"model that lost {100 * one.visible_drop:.1f} points",
            soft_wrap=True,
        )  # fmt: skip
    if len(found) > 1:
        err.print(
            f"the job of these {len(found)} tasks: at most {100 * min(1.0, len(found) / once_in):.2g} % of the runs of "
            "an identical model fail any of them",
            soft_wrap=True,
        )
    print_result(format_run_thresholds(found, runs[-1].model))


def _percent(share: float) -> str:
    return "under 0.01 %" if share < 1e-4 else f"{100 * share:.2g} %"
