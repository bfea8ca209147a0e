"""The recorded answers of Meta's model, in the form of requests and responses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import Recorded, build_requests, find_kind
from meta_eval.base.inputs import read_table
from meta_eval.harness.evaluator import Evaluator
from meta_eval.pack.manifest import Manifest


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
    """Make the request for the log-probabilities of a recorded answer, a single one per doc. None if nothing was
    recorded, or its kind has none."""
    kind = find_kind(request.kind)
    if recorded is None or request.repeat or not kind.is_comparable(request, recorded):
        return None
    return kind.make_scoring_request(request, recorded)
