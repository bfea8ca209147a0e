"""The recorded answers of Meta's model, in the form of requests and responses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from meta_eval.ask.answers.answer_matching import cut_at_stop
from meta_eval.ask.answers.requests import Request, build_requests
from meta_eval.base.inputs import read_table
from meta_eval.harness.evaluator import Evaluator
from meta_eval.harness.families import list_answer_ends
from meta_eval.pack.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded answer to a doc.

    Attributes:
        text: For ``generate`` and ``chat``.
        nlls: For ``choices``: negative log-likelihood of each continuation, in nats.
    """

    text: str | None = None
    nlls: Sequence[float] = ()

    def can_answer(self, request: Request) -> bool:
        """Whether a request can be compared with it."""
        if request.kind in ("generate", "chat"):
            return self.text is not None
        return len(self.nlls) == len(request.continuations)


class Recordings:
    """Recorded answers by task. Each task is read from the pack on demand.

    Attributes:
        missing: Why a doc has no scoring request.
        adds_bos: Whether BOS is put before prompts; False where a chat template writes it.
    """

    missing = "no recorded answer"
    adds_bos = True

    def __init__(self, pack: Path, manifest: Manifest) -> None:
        self._pack, self._manifest = pack, manifest

    def read_task(self, task: str) -> tuple[list[Recorded | None], list[str | None]]:
        """Read a task: by doc, the recorded answer (or None) and the subtask."""

        entry = self._manifest.tasks[task]
        if entry.docs_file is None:
            return [], []
        names = ("recorded_output", "recorded_negative_log_likelihoods", "subtask_name")
        table = read_table(self._pack / entry.docs_file, columns=[name for name in names if name in entry.columns])
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        nothing = [None] * table.num_rows
        texts, nlls, subtasks = (columns.get(name, nothing) for name in names)
        return [_recorded(text, doc_nlls) for text, doc_nlls in zip(texts, nlls, strict=True)], subtasks

    def read_clusters(self, task: str) -> dict[int, str]:
        """Read the clusters of a task: the name by doc, for docs that share it with others."""
        entry = self._manifest.tasks[task]
        if entry.docs_file is None or "cluster" not in entry.columns:
            return {}
        names = read_table(self._pack / entry.docs_file, columns=["cluster"]).column("cluster").to_pylist()
        return {doc: str(name) for doc, name in enumerate(names) if name is not None}

    def build_scoring_requests(
        self, evaluator: Evaluator, name: str, limit: float | None, docs: Sequence[int] | None = None
    ) -> Iterator[Request]:
        """Yield the requests for the log-probabilities of the answers of a task, in order.

        Args:
            evaluator: Evaluator of the pack.
            name: The task.
            limit: ``--limit`` of the pack's command.
            docs: Numbers of the docs to use. None means all.

        Raises:
            PackError: As in `build_requests`.
        """
        recorded, _ = self.read_task(name)
        for request in build_requests(evaluator, name, limit, docs):
            scoring = make_scoring_request(request, recorded[request.doc] if request.doc < len(recorded) else None)
            if scoring is not None:
                yield scoring


def _recorded(text: str | None, nlls: Sequence[float] | None) -> Recorded | None:
    is_complete = nlls and all(value is not None and math.isfinite(value) for value in nlls)
    recorded = Recorded(text if text and text.strip() else None, tuple(nlls) if nlls and is_complete else ())
    return recorded if recorded.text or recorded.nlls else None


def make_scoring_request(request: Request, recorded: Recorded | None) -> Request | None:
    """Make the request for the log-probabilities of the recorded answer. None if nothing was recorded.

    A ``generate`` request becomes a ``force`` request, a single request per doc even if the doc has repeats.
    ``choices`` requests stay the same, because their recorded likelihoods are compared. ``chat`` has none: an endpoint
    does not score a given answer.
    """
    if recorded is None or request.repeat or request.kind == "chat" or not recorded.can_answer(request):
        return None
    if request.kind == "choices":
        return request
    text = cut_at_stop(recorded.text or "", request.stop)
    for end in list_answer_ends():  # a recorded text may keep its end token
        text = text.removesuffix(end)
    if not text:
        return None
    return replace(
        request, id=f"{request.task}/{request.doc}", kind="force", stop=(), max_tokens=0, settings=None,
        continuations=(text,),
    )  # fmt: skip
