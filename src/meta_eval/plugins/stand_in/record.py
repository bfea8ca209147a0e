"""The recorded answers of a pack as answers to its requests, a share of them spoiled."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval.ask.request_kinds import cut_at_stop
from meta_eval.base.hashing import hash_text
from meta_eval.base.inputs import read_table
from meta_eval.sockets import Answer, Request, read_manifest

# The answer to a spoiled doc. Graders find nothing in it.
SPOILED = "I do not know."

_COLUMNS = ("recorded_output", "recorded_negative_log_likelihoods", "recorded_responses")


def is_spoiled(task: str, doc: int, share: float) -> bool:
    """Whether the answers to a doc are spoiled: by a hash of its name, so that each call spoils the same docs.

    Args:
        task: The task.
        doc: lm-eval's number of the doc.
        share: The share of docs to spoil, 0 to 1. The docs of a smaller share are among those of a larger one.
    """
    return int(hash_text(f"{task}/{doc}")[:8], 16) / 2**32 < share


class StandInRecord:
    """The record of a pack. Each task is read on demand.

    Args:
        pack: The pack.
        spoil: The share of docs whose answers are spoiled.

    Raises:
        PackError: The folder is not a pack.
    """

    def __init__(self, pack: Path, spoil: float) -> None:
        self._pack, self._spoil, self._manifest = pack, spoil, read_manifest(pack)
        self._docs: dict[str, list[dict[str, Any]]] = {}

    def answer(self, request: Request) -> Answer:
        """The recorded answer; one with an error where none is recorded."""
        docs = self._docs[request.task] if request.task in self._docs else self._read(request.task)
        doc = docs[request.doc] if request.doc < len(docs) else {}
        spoiled = is_spoiled(request.task, request.doc, self._spoil)
        if request.kind == "choices":
            if (choices := _find_choices(doc, request)) is None:
                return _missing(request)
            return request.answer(choices=[*choices[1:], choices[0]] if spoiled else choices)
        text = _find_text(doc, request)
        if text is None:
            return _missing(request)
        return request.answer(text=SPOILED if spoiled else cut_at_stop(text, request.stop), finish_reason="stop")

    def _read(self, task: str) -> list[dict[str, Any]]:
        entry = self._manifest.tasks[task]
        names = [name for name in _COLUMNS if name in entry.columns]
        if entry.docs_file is not None and names:
            self._docs[task] = read_table(self._pack / entry.docs_file, columns=names).to_pylist()
        return self._docs.setdefault(task, [])


def _missing(request: Request) -> Answer:
    return request.answer(error="nothing is recorded for it", retry=False)


def _responses(doc: Mapping[str, Any]) -> Sequence[Any]:
    """Per instance the recorded responses, of a record of lm-eval; empty of any other."""
    recorded = doc.get("recorded_responses")
    return json.loads(recorded) if recorded else ()


def _find_text(doc: Mapping[str, Any], request: Request) -> str | None:
    """The text of a request. Its number is that of a repeat."""
    if responses := _responses(doc):
        text = responses[0][request.repeat % len(responses[0])]
        return text if isinstance(text, str) else None
    text = doc.get("recorded_output")
    return text if isinstance(text, str) else None


def _find_choices(doc: Mapping[str, Any], request: Request) -> list[tuple[float, bool | None]] | None:
    """The likelihoods of a request. Its number is that of its first choice, or of a repeat."""
    count = len(request.continuations)
    if responses := _responses(doc):
        first = request.repeat if len(responses) >= request.repeat + count else 0
        pairs = [given[0] for given in responses[first : first + count]]
        return [(float(value), bool(greedy)) for value, greedy in pairs] if len(pairs) == count else None
    costs = (doc.get("recorded_negative_log_likelihoods") or [])[request.repeat : request.repeat + count]
    if len(costs) != count or not all(isinstance(cost, float) and math.isfinite(cost) for cost in costs):
        return None
    return [(-cost, None) for cost in costs]
