"""What Meta recorded of its own model's answers, as an engine would have to say it again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from meta_eval.answers.answer_matching import cut_at_stop
from meta_eval.answers.requests import Request, build_requests
from meta_eval.boundary.inputs import read_table
from meta_eval.catalog.families import list_answer_ends
from meta_eval.pack.manifest import Manifest
from meta_eval.verification.evaluator import Evaluator


@dataclass(frozen=True, slots=True)
class Recorded:
    """What Meta recorded of a doc.

    Attributes:
        text: Of ``generate``.
        nlls: Of ``choices``: negative log-likelihoods, in nats, by continuation.
    """

    text: str | None = None
    nlls: Sequence[float] = ()

    def can_answer(self, request: Request) -> bool:
        """Whether a request can be compared with it."""
        if request.kind == "generate":
            return self.text is not None
        return len(self.nlls) == len(request.continuations)


class Recordings:
    """What Meta recorded, by task; read task by task from the docs of a pack."""

    def __init__(self, pack: Path, manifest: Manifest) -> None:
        self._pack, self._manifest = pack, manifest

    def read_task(self, task: str) -> tuple[list[Recorded | None], list[str | None]]:
        """By doc what was recorded, None where nothing was, and its subtask."""

        entry = self._manifest.tasks[task]
        if entry.docs_file is None:
            return [], []
        names = ("recorded_output", "recorded_negative_log_likelihoods", "subtask_name")
        table = read_table(self._pack / entry.docs_file, columns=[name for name in names if name in entry.columns])
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        nothing = [None] * table.num_rows
        texts, nlls, subtasks = (columns.get(name, nothing) for name in names)
        return [_recorded(text, of_doc) for text, of_doc in zip(texts, nlls, strict=True)], subtasks


def _recorded(text: str | None, nlls: Sequence[float] | None) -> Recorded | None:
    whole = nlls and all(value is not None and math.isfinite(value) for value in nlls)
    recorded = Recorded(text if text and text.strip() else None, tuple(nlls) if nlls and whole else ())
    return recorded if recorded.text or recorded.nlls else None


def scoring_request(request: Request, recorded: Recorded | None) -> Request | None:
    """What asks how likely each token of the recorded answer is; None where nothing was recorded.

    Of ``generate`` it is of kind ``force``, one a doc, however often the doc is asked otherwise; ``choices`` stay as
    they are: their recorded likelihoods are compared.
    """
    if recorded is None or request.repeat or not recorded.can_answer(request):
        return None
    if request.kind == "choices":
        return request
    text = cut_at_stop(recorded.text or "", request.stop)
    for end in list_answer_ends():  # where a recorded text keeps it
        text = text.removesuffix(end)
    if not text:
        return None
    return replace(
        request, id=f"{request.task}/{request.doc}", kind="force", stop=(), max_tokens=0, settings=None,
        continuations=(text,),
    )  # fmt: skip


def build_scoring_requests(
    evaluator: Evaluator,
    name: str,
    limit: float | None,
    recorded: Sequence[Recorded | None],
    docs: Sequence[int] | None = None,
) -> Iterator[Request]:
    """What asks how likely the recorded answers of one task are, in its order; of docs that have one.

    Args:
        evaluator: Of the pack.
        name: The task.
        limit: ``--limit`` of the pack's command.
        recorded: By doc what was recorded.
        docs: The numbers of some docs, to have no others; None for all.

    Raises:
        PackError: As of `build_requests`.
    """
    for request in build_requests(evaluator, name, limit, docs):
        scoring = scoring_request(request, recorded[request.doc] if request.doc < len(recorded) else None)
        if scoring is not None:
            yield scoring
