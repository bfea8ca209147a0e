"""Settings of two runs side by side: nested settings under names with dots, and what differs in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from meta_eval.base.display import one_line
from meta_eval.base.inputs import format_json
from meta_eval.base.secrets import HIDDEN, is_secret, redact_secrets

# The most characters of a value in a message, and those that stand before the first difference of long values.
_SHOWN, _BEFORE = 60, 15

# The most differences of one kind in a message.
_MOST = 6

# The place of a Python object in memory, which differs in every run.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def flatten_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of nested settings: ``{"task_args": {"level": 2}}`` gives ``{"task_args.level": 2}``.

    What is null or empty is left out, like what is not there. Values of credentials are hidden.
    """
    return dict(_flatten(settings, ""))


def _flatten(settings: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            yield f"{prefix}{name}", HIDDEN if is_secret(str(name), value) else value


def describe_changes(a: Mapping[str, Any], b: Mapping[str, Any], sides: tuple[str, str] = ("A", "B")) -> list[str]:
    """Name the settings that differ: ``temperature: none in A, 0.7 in B``.

    Args:
        a, b: Values by name, as `flatten_settings` gives them.
        sides: The names of both sides.
    """
    changes = []
    for name in sorted({*a, *b}):
        texts = [_format(side.get(name)) for side in (a, b)]
        if texts[0] != texts[1]:
            first, second = _shorten(
                *("no" if side.get(name) is False else text for side, text in zip((a, b), texts, strict=True))
            )
            changes.append(f"{one_line(name)[:_SHOWN]}: {first} in {sides[0]}, {second} in {sides[1]}")
    more = len(changes) - _MOST
    return [*changes[:_MOST], *([f"{more} more settings"] if more > 0 else [])]


def _format(value: object) -> str:
    """A setting in a few words: ``none``, ``yes``, ``0.7``."""
    if value is None or value == [] or isinstance(value, bool):
        return "yes" if value else "none"
    text = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else format_json(value)
    return one_line(redact_secrets(_ADDRESS.sub("", text)))


def _shorten(a: str, b: str) -> tuple[str, str]:
    """The values as far as they are shown; of long values the part in which they differ."""
    same = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = same - _BEFORE if same > _SHOWN - _BEFORE else 0
    return tuple(f"{'…' if start else ''}{text[start : start + _SHOWN]}" for text in (a, b))  # type: ignore[return-value]
