"""Entry points that a test offers beside those that are installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from meta_eval.base import extensions


class Offered(EntryPoint):
    """An entry point of an object that is in no package."""

    objects: dict[tuple[str, str], Any] = {}  # noqa: RUF012 (of all tests in a process)

    def load(self) -> Any:
        return self.objects[self.group, self.name]


def offer(monkeypatch: pytest.MonkeyPatch, group: str, *, only: bool = False, **things: Any) -> None:
    """Offer objects in a group of entry points, each under its name; with ``only`` in place of all others."""
    _offer(monkeypatch, group, [_make(group, name, thing) for name, thing in things.items()], only=only)


def withhold(monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    """Let nobody offer anything in a group."""
    _offer(monkeypatch, group, [], only=True)


def _offer(monkeypatch: pytest.MonkeyPatch, group: str, points: Sequence[EntryPoint], *, only: bool) -> None:
    read = extensions.entry_points

    def entry_points(*, group: str, of: str = group) -> list[EntryPoint]:
        others = read(group=group)
        return [*(() if only and group == of else others), *(points if group == of else ())]

    monkeypatch.setattr(extensions, "entry_points", entry_points)


def _make(group: str, name: str, thing: Any) -> EntryPoint:
    Offered.objects[group, name] = thing
    return Offered(name, f"{type(thing).__module__}:{name}", group)
