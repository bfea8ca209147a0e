"""Dataclasses as plain JSON data, by their fields: a new field is in the JSON without further code.

The metadata of a field says whether its content is written in another way (`written`), or not at all (`NOT_WRITTEN`). A
class names properties and methods that are written too in ``json_also``; a class of which only some names are written
has ``json_only`` instead. The key of a property ``json_NAME`` is ``NAME``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

NOT_WRITTEN: Mapping[str, Any] = {"json": None}
"""The metadata of a field that JSON leaves out."""


def written(write: Callable[[Any], Any], *, spread: bool = False) -> Mapping[str, Any]:
    """The metadata of a field of which JSON has what a function makes of it; with ``spread`` an object whose keys
    stand beside the other fields."""
    return {"json": write, "spread": spread}


def make_plain(value: Any) -> Any:
    """Plain JSON data: objects of dataclasses and mappings become dictionaries with texts as keys, sequences lists, and
    numbers that JSON cannot have None."""
    if is_dataclass(value):
        return dict(_list_items(value))
    if isinstance(value, Mapping):
        return {f"{key:g}" if isinstance(key, float) else str(key): make_plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(map(make_plain, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _list_items(value: Any) -> Iterator[tuple[str, Any]]:
    only: tuple[str, ...] = getattr(value, "json_only", ())
    for attribute in () if only else fields(value):
        if (write := attribute.metadata.get("json", make_plain)) is not None:
            plain = make_plain(write(getattr(value, attribute.name)))
            yield from plain.items() if attribute.metadata.get("spread") else ((attribute.name, plain),)
    for name in only or getattr(value, "json_also", ()):
        found = getattr(value, name)
        yield name.removeprefix("json_"), make_plain(found() if callable(found) else found)
