"""Reads names of tasks, groups and patterns: the tasks of a pack that they choose, and the margins that they get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from meta_eval.base.errors import ConfigError, suggest_name
from meta_eval.base.logs import log
from meta_eval.base.pack_names import expand_patterns, join_names, split_excluded
from meta_eval.base.thresholds import MARGIN
from meta_eval.pack.manifest import Manifest

# The log-likelihood of a whole text.
ROLLING = "loglikelihood_rolling"


def choose_tasks(manifest: Manifest, names: Sequence[str]) -> list[str]:
    """Choose tasks by names of tasks and groups, in the manifest's order.

    Args:
        manifest: Of the pack.
        names: Tasks, groups and patterns such as ``mmlu_*``; empty for all tasks. A minus leaves out: ``-mmlu_law``.

    Raises:
        ConfigError: The pack lacks a name, or nothing is left.
    """
    included, excluded = split_excluded(expand_patterns(names, manifest.tasks))
    chosen, without = _tasks(manifest, included), _tasks(manifest, excluded)
    left = [name for name in manifest.tasks if (not included or name in chosen) and name not in without]
    if not left:
        raise ConfigError("leaves out every task", where="--tasks", hint=f"The pack has {', '.join(manifest.tasks)}")
    return left


def leave_out_tasks(chosen: Sequence[str], unfit: Sequence[str], why: str, *, hint: str) -> list[str]:
    """Leave out the tasks that do not fit, and name them in a warning.

    Args:
        chosen: The tasks.
        unfit: Those to leave out.
        why: What is wrong with each of these.
        hint: What to do about it.

    Raises:
        ConfigError: No task is left.
    """
    left = [name for name in chosen if name not in unfit]
    if not left:
        raise ConfigError(f"{', '.join(unfit)}: {why}", where="--tasks", hint=hint)
    if unfit:
        log.warning(f"left out: {', '.join(unfit)}: {why}. {hint}")
    return left


def _tasks(manifest: Manifest, names: Sequence[str]) -> set[str]:
    members: set[str] = set()
    for name in names:
        if name not in manifest.tasks and name not in manifest.groups:
            existing = [*manifest.groups, *manifest.tasks]
            raise ConfigError(
                f"unknown task or group {name!r}{suggest_name(name, existing)}",
                where="--tasks",
                hint=f"The pack has {join_names(existing, 12)}",
            )
        members |= set(manifest.groups.get(name, (name,)))
    return members


# The key of a mapping that says the margin of the mean drop, and of every task that the mapping does not name.
MEAN_KEY = "mean"


def expand_margins(
    margins: Mapping[str, float], tasks: Iterable[str], groups: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """The margin of the mean, and of each task and group that the mapping names.

    A task's own name goes before a group that it is of, and a group before a pattern such as ``mmlu_*``.

    Args:
        margins: In points; ``mean`` is 1 where it is missing.
        tasks: The tasks that there are.
        groups: The groups, each with its tasks.

    Raises:
        ConfigError: A name is of no task and no group.
    """
    names = list(dict.fromkeys([*tasks, *groups]))
    of_patterns: dict[str, float] = {}
    of_groups: dict[str, float] = {}
    of_tasks: dict[str, float] = {}
    for name, points in margins.items():
        if name == MEAN_KEY:
            continue
        matches = [match for match in expand_patterns([name], names) if match in names]
        if not matches:
            raise ConfigError(
                f"{name}: there is no such task or group{suggest_name(name, names)}",
                hint=f"Tasks and groups: {', '.join(sorted(names))}",
            )
        if name in groups:
            of_groups |= dict.fromkeys((name, *groups[name]), points)
        elif name in names:
            of_tasks[name] = points
        else:
            of_patterns |= dict.fromkeys(matches, points)
    return {MEAN_KEY: margins.get(MEAN_KEY, 100 * MARGIN), **of_patterns, **of_groups, **of_tasks}


def describe_margin(margin: float | Mapping[str, float]) -> str:
    """``1 points``, or ``mean 1, gpqa 3 points``."""
    if isinstance(margin, Mapping):
        return f"{', '.join(f'{name} {points:g}' for name, points in margin.items())} points"
    return f"{margin:g} points"
