"""What a run noted about its chat endpoint, as its results file tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meta_eval.base.escaping import one_line

# The check of an endpoint whose prompts hold no tools, though it takes them.
TOOLS_LOST = "tools in the prompt"

# What is noted of an answer that ended with ``length`` before the limit of its request.
CUT_EARLY = "an answer was cut before its limit"

# The longest sentence, and the most of a kind.
_LONGEST = 300
_MOST = 40


@dataclass(frozen=True, slots=True)
class EndpointNotes:
    """What was seen of an endpoint.

    Attributes:
        passed: The names of the checks that passed.
        faults: What is not as it should be, each a clause.
        unknown: What could not be checked, each a clause.
    """

    passed: tuple[str, ...]
    faults: tuple[str, ...]
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        parts = [("", self.faults), ("as expected: ", self.passed), ("not checked: ", self.unknown)]
        return "; ".join(f"{name}{', '.join(some)}" for name, some in parts if some)


def merge_endpoint_notes(notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the notes of several runs: the last check, all fields that were left out, and all oddities."""
    merged: dict[str, Any] = {}
    for note in notes:
        if "checked" in note:
            merged["checked"] = note["checked"]
        for name in ("omitted", "oddities"):
            if isinstance(seen := note.get(name), Mapping):
                merged.setdefault(name, {}).update(
                    {key: _add(merged[name].get(key), value) for key, value in seen.items()}
                )
    return merged


def _add(before: object, now: object) -> object:
    return before + now if isinstance(before, int) and isinstance(now, int) else now


def read_endpoint_notes(content: object) -> EndpointNotes | None:
    """Read the notes of a results file; None if there are none. Whatever is not a note is left out."""
    if not isinstance(content, Mapping):
        return None
    checked = [check for some in _list(content.get("checked")) for check in _list(some.get("checks"))]
    by_result: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for check in checked:
        result = check.get("passed")
        name, what = _text(check.get("name")), _text(check.get("what"))
        if result is None or isinstance(result, bool):
            by_result[result].append(name if result else f"{name}: {what}")
    omitted, oddities = content.get("omitted"), content.get("oddities")
    faults = [*by_result[False]]
    faults += [f"{_text(name)} is not accepted, and was left out" for name in _names(omitted)]
    faults += [f"{_text(what)} ({_text(times)} times)" for what, times in _names(oddities).items()]
    return EndpointNotes(*(tuple(dict.fromkeys(some))[:_MOST] for some in (by_result[True], faults, by_result[None])))


def reads_tools_lost(note: Mapping[str, Any]) -> bool | None:
    """Whether the check in a note found that tools do not reach the prompt; None if the note holds no check."""
    checks = [check for some in _list(note.get("checked")) for check in _list(some.get("checks"))]
    lost = any(check.get("name") == TOOLS_LOST and check.get("passed") is False for check in checks)
    return lost if checks else None


def _list(content: object) -> Iterator[Mapping[str, Any]]:
    return (item for item in (content if isinstance(content, list) else ()) if isinstance(item, Mapping))


def _names(content: object) -> Mapping[Any, Any]:
    return content if isinstance(content, Mapping) else {}


def _text(content: object) -> str:
    return one_line(str(content))[:_LONGEST]
