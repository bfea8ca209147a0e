"""Which docs are asked first: a few of every task and subtask, with what Meta recorded of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_eval.answers.requests import Request
from meta_eval.pack.manifest import Manifest
from meta_eval.running.wanted import Wanted

# How many in all.
DOCS = 32


@dataclass(frozen=True, slots=True)
class Recorded:
    """What Meta recorded of a doc.

    Attributes:
        text: Of ``generate``.
        nlls: Of ``choices``: negative log-likelihoods, in nats, by continuation.
    """

    text: str | None = None
    nlls: Sequence[float] = ()

    def answers(self, request: Request) -> bool:
        """Whether a request can be compared with it."""
        if request.kind == "generate":
            return self.text is not None
        return len(self.nlls) == len(request.continuations)


class Recordings:
    """What Meta recorded, by task; read task by task from the docs of a pack."""

    def __init__(self, pack: Path, manifest: Manifest) -> None:
        self._pack, self._manifest = pack, manifest

    def of(self, task: str) -> tuple[list[Recorded | None], list[str | None]]:
        """By doc what was recorded, None where nothing was, and its subtask."""
        import pyarrow.parquet as pq

        entry = self._manifest.tasks[task]
        if entry.docs_file is None:
            return [], []
        names = ("recorded_output", "recorded_negative_log_likelihoods", "subtask_name")
        table = pq.read_table(self._pack / entry.docs_file, columns=[one for one in names if one in entry.columns])
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        nothing = [None] * table.num_rows
        texts, nlls, subtasks = (columns.get(name, nothing) for name in names)
        return [_recorded(text, of_doc) for text, of_doc in zip(texts, nlls, strict=True)], subtasks


def _recorded(text: str | None, nlls: Sequence[float] | None) -> Recorded | None:
    whole = nlls and all(value is not None and math.isfinite(value) for value in nlls)
    found = Recorded(text if text and text.strip() else None, tuple(nlls) if nlls and whole else ())
    return found if found.text or found.nlls else None


def first_of(wanted: Wanted, recordings: Recordings) -> dict[str, tuple[Request, Recorded]]:
    """What is asked first, by id, with what Meta recorded: of what is not answered yet."""
    recorded, eligible = {}, {}
    for task, left in wanted.left.items():
        if left:
            recorded[task], subtasks = recordings.of(task)
            docs = wanted.docs_left(task)
            eligible[task] = [
                (name or "") if one is not None and doc in docs else None
                for doc, (one, name) in enumerate(zip(recorded[task], subtasks, strict=True))
            ]
    found = {}
    for request in wanted.of_docs(chosen(eligible)):
        one = recorded[request.task][request.doc]
        if one is not None and request.repeat == 0 and one.answers(request):
            found[request.id] = request, one
    return found


def chosen(tasks: Mapping[str, Sequence[str | None]], docs: int = DOCS) -> dict[str, list[int]]:
    """Docs spread over tasks, and in each over its subtasks; the same for the same input.

    Args:
        tasks: By task, the subtask of each doc; None for a doc that cannot be compared.
        docs: How many in all.
    """
    turns = {task: iter(_in_turns(subtasks)) for task, subtasks in tasks.items()}
    names = list(turns)
    if len(names) > docs:  # every so many of them, for those that are alike stand beside each other
        names = [names[number * len(names) // docs] for number in range(docs)]
    found: dict[str, list[int]] = {}
    taken = 0
    while names and taken < docs:
        for name in list(names):
            doc = next(turns[name], None)
            if doc is None:
                names.remove(name)
            elif taken < docs:
                found.setdefault(name, []).append(doc)
                taken += 1
    return {name: sorted(numbers) for name, numbers in found.items()}


def _in_turns(subtasks: Sequence[str | None]) -> Iterator[int]:
    """One doc of each subtask, then the next of each."""
    by_name: dict[str, list[int]] = {}
    for doc, name in enumerate(subtasks):
        if name is not None:
            by_name.setdefault(name, []).append(doc)
    for row in itertools.zip_longest(*by_name.values()):
        yield from (doc for doc in row if doc is not None)
