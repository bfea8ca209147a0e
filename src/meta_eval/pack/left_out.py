"""Keeps tasks that cannot be prepared out of the pack, each with its reason. The others go on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from meta_eval.base.errors import UserError
from meta_eval.pack.source.hub_faults import UnreachableError

T = TypeVar("T")


@dataclass(slots=True)
class LeftOut:
    """The tasks that stay out of a pack.

    Attributes:
        errors: What is wrong with each, in the order in which it was found.
    """

    errors: dict[str, UserError] = field(default_factory=dict)

    @property
    def reasons(self) -> dict[str, str]:
        """The reason for each left-out task, by name: a line that also says what to do."""
        return {name: str(error) for name, error in self.errors.items()}

    @contextmanager
    def task(self, name: str) -> Iterator[None]:
        """Work on a task in this block. A user error in it leaves the task out.

        Raises:
            UnreachableError: The hub cannot be reached, which is no fault of the task.
        """
        try:
            yield
        except UnreachableError:
            raise
        except UserError as error:
            self.errors[name] = error

    def make_each(self, names: Collection[str], make: Callable[[str], T]) -> dict[str, T]:
        """Make something for each task; tasks that fail are left out.

        Raises:
            UserError: All fail; the error of the first.
        """
        results = {}
        for name in names:
            with self.task(name):
                results[name] = make(name)
        self.check(results)
        return results

    def check(self, prepared: Sized) -> None:
        """Raises:
        UserError: No task is left: the error of the first that was left out.
        """
        if not prepared and self.errors:
            raise next(iter(self.errors.values()))

    def without(self, groups: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The groups without the tasks that are left out. Empty groups are dropped."""
        remaining = {
            name: tuple(member for member in members if member not in self.errors) for name, members in groups.items()
        }
        return {name: members for name, members in remaining.items() if members}
