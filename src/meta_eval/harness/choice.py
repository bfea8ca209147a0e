"""Chooses tasks of a run by names of tasks and groups, and by patterns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from meta_eval.base.errors import ConfigError, suggest_name
from meta_eval.base.pack_names import expand_patterns, join_names, split_excluded

Groups = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Choice:
    """Names of tasks and groups, and patterns such as ``mmlu_*``."""

    tasks: tuple[str, ...] = ()
    """Only these; empty for all."""

    excluded: tuple[str, ...] = ()
    """None of these."""

    @classmethod
    def of_names(cls, names: Sequence[str]) -> Self:
        """Make a choice from names; a minus leaves a name out: ``mmlu_*``, ``-mmlu_law``."""
        tasks, excluded = split_excluded(names)
        return cls(tuple(tasks), tuple(excluded))

    def of(self, existing: Iterable[str], groups: Groups) -> list[str]:
        """The chosen tasks among the known tasks. Unknown names are skipped."""
        names = list(existing)
        chosen = _matching(self.tasks, names, groups) if self.tasks else set(names)
        return [name for name in names if name in chosen - _matching(self.excluded, names, groups)]

    def check(self, existing: Iterable[str], groups: Groups, *, where: str = "--tasks", chooses: bool = True) -> None:
        """Refuse unknown names.

        Args:
            existing: The existing tasks.
            groups: The tasks of each group.
            where: The place of the names, for messages.
            chooses: Whether other tasks than the named ones are left out.

        Raises:
            ConfigError: A name is unknown, or no task is left.
        """
        names = sorted({*existing})
        for name in (*self.tasks, *self.excluded):
            if not _matching((name,), names, groups):
                raise ConfigError(
                    f"unknown task {name!r}{suggest_name(name, [*names, *groups])}", where=where,
                    hint=f"Tasks: {join_names(names, 12)}",
                )  # fmt: skip
        if not (self if chooses else Choice((), self.excluded)).of(names, groups):
            raise ConfigError("no task is left", where=where, hint=f"Tasks: {join_names(names, 12)}")


def _matching(patterns: Iterable[str], names: Sequence[str], groups: Groups) -> set[str]:
    matches: set[str] = set()
    for name in expand_patterns(list(patterns), names):
        matches.update({name, *groups.get(name, ())} & {*names})
    return matches
