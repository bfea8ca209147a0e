"""Chooses tasks of a pack by names of tasks and groups."""

from __future__ import annotations

from collections.abc import Sequence

from meta_eval.base.errors import ConfigError, suggest_name
from meta_eval.base.logs import log
from meta_eval.base.pack_names import expand_patterns, join_names, split_excluded
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
