"""The margin of each task: one number, or a mapping of tasks, groups and patterns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from meta_eval.base.errors import ConfigError, suggest_name
from meta_eval.base.pack_names import expand_patterns
from meta_eval.base.thresholds import MARGIN

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
                hint=f"Tasks and groups: {', '.join(names)}",
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
