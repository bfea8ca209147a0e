"""Finds answers that are not all of the requested model, or not all of one deployment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.harness.answer_origins import AnswerOrigins, count_names
from meta_eval.harness.lm_eval_run import Run
from meta_eval.judge.decision import AlarmOccurrence

RaisedOrigin = tuple[Literal["models", "endpoints"], AlarmOccurrence]


def find_task_origins(task: str, origins: AnswerOrigins) -> Iterator[RaisedOrigin]:
    """Several models or deployments in the answers of a task forbid SHIP; a single other name is only said.

    Args:
        task: Its name.
        origins: Of its answers.
    """
    total = sum(origins.models.values())
    if len(origins.models) > 1:
        other = total - origins.models.get(origins.asked or "", max(origins.models.values()))
        asked = f", and {origins.asked} was requested" if origins.asked else ""
        yield "models", AlarmOccurrence(task, None, other, total, f"they name {count_names(origins.models)}{asked}")
    elif origins.other_models:
        (name,) = origins.models
        note = f"all name {name}, and {origins.asked} was requested"
        yield "models", AlarmOccurrence(task, None, total, total, note, veto=False)
    if len(origins.endpoints) > 1:
        yield "endpoints", AlarmOccurrence(task, note=_count_deployments(origins))


def find_run_origins(run: Run, side: str | None = None) -> Iterator[RaisedOrigin]:
    """The same across the tasks and runs of a model. Tasks whose own answers have several origins are left out.

    Args:
        run: The run.
        side: ``A`` or ``B`` if two runs are compared.
    """
    where = f"in {side}, " if side else ""
    models: dict[str, list[str]] = {}
    endpoints: dict[tuple[str, ...], list[str]] = {}
    for task in run.tasks:
        for origins in (result.provenance.origins for result in run.all_runs(task)):
            if len(origins.models) == 1:
                models.setdefault(next(iter(origins.models)), []).append(task)
            if len(origins.endpoints) == 1:
                (addresses,) = origins.endpoints
                own = next((some for some in endpoints if set(some) & set(addresses)), addresses)
                endpoints.setdefault(own, []).append(task)
    if len(models) > 1:
        yield "models", AlarmOccurrence(None, side, note=f"{where}tasks name {_list_tasks(models)}")
    if len(endpoints) > 1:
        named = {", ".join(addresses): tasks for addresses, tasks in endpoints.items()}
        note = f"{where}tasks came from {_list_tasks(named)}"
        yield "endpoints", AlarmOccurrence(None, side, note=note, veto=False)


def _count_deployments(origins: AnswerOrigins) -> str:
    return count_names({" and ".join(addresses): count for addresses, count in origins.endpoints.items()})


def _list_tasks(tasks: dict[str, list[str]]) -> str:
    return "; ".join(f"{name} ({join_names(list(dict.fromkeys(some)), NAMED)})" for name, some in tasks.items())
