"""The recorded answers of a pack, and the texts of a run, each with the request that scores it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import build_requests, find_request_kind
from meta_eval.base.inputs import read_table
from meta_eval.base.pack_names import join_names
from meta_eval.harness.answer import Answer
from meta_eval.harness.doc_results import ResultsError, Sample
from meta_eval.harness.evaluator import Evaluator
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.sample_parser import read_arguments
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

    def read_task(self, task: str) -> tuple[list[Answer | None], list[str | None]]:
        """Read a task: by doc, the recorded answer (or None) and the subtask."""

        entry = self._manifest.tasks[task]
        if entry.docs_file is None:
            return [], []
        names = ("recorded_output", "recorded_negative_log_likelihoods", "subtask_name")
        table = read_table(self._pack / entry.docs_file, columns=[name for name in names if name in entry.columns])
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        nothing = [None] * table.num_rows
        texts, nlls, subtasks = (columns.get(name, nothing) for name in names)
        return [
            _recorded(f"{task}/{doc}", text, doc_nlls)
            for doc, (text, doc_nlls) in enumerate(zip(texts, nlls, strict=True))
        ], subtasks

    def describe_other_model(self, model: str, tasks: Collection[str]) -> str | None:
        """Describe whose the recorded answers of tasks are, if none is known to be of a model; else None."""
        names = {self._manifest.tasks[task].model for task in tasks}
        if any(name is not None and _is_same_name(name, model) for name in names):
            return None
        known = sorted(name for name in names if name is not None)
        return f"the record is of {join_names(known)}" if known else "the record names no model"

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


def _is_same_name(one: str, other: str) -> bool:
    """Whether a name is part of another, apart from owner, case and punctuation: ``org/m-7b`` of ``M-7B-fp8``."""
    plain, others = (re.sub(r"[^a-z0-9]", "", name.rpartition("/")[2].casefold()) for name in (one, other))
    return bool(plain and others) and (plain in others or others in plain)


def _recorded(own_id: str, text: str | None, nlls: Sequence[float | None] | None) -> Answer | None:
    """A recorded answer, from its text or its negative log-likelihoods in nats."""
    choices = [(-value, None) for value in nlls or () if value is not None and math.isfinite(value)]
    text, choices = text if text and text.strip() else None, choices if len(choices) == len(nlls or ()) else []
    return Answer(id=own_id, text=text, choices=choices) if text or choices else None


def make_scoring_request(request: Request, recorded: Answer | None) -> Request | None:
    """Make the request for the log-probabilities of a recorded answer, a single one per doc. None if nothing was
    recorded, or its kind has none."""
    kind = find_request_kind(request.kind)
    if recorded is None or request.repeat or not kind.is_comparable(request, recorded):
        return None
    return kind.make_scoring_request(request, recorded)


# Task, SHA-256 of the prompt, and the number of earlier docs of the task with the same prompt.
TextKey = tuple[str, str, int]


def read_run_texts(run: Run, side: str) -> tuple[dict[TextKey, tuple[Request, Answer]], Counter[str]]:
    """Read the generated texts of a run. Choices have none.

    Args:
        run: The run.
        side: Its name in messages.

    Returns:
        The texts, and by task the number of docs that are left out because they have several answers. Of each text the
        request without its prompt, and the answer: cut at the first stop sequence, without an end token, and with the
        hash of the request that scores it, or None if it is empty.

    Raises:
        ResultsError: An answer was sampled, no text was generated, or a file has changed.
    """
    texts: dict[TextKey, tuple[Request, Answer]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    several: Counter[str] = Counter()
    for task in run.tasks.values():
        _check_greedy(task.task, task.provenance.decoding, side)
        for request, text in _read_texts(task, side, several):
            key = task.task, request.prompt_sha256
            texts[*key, seen[key]] = request.without_texts(), text
            seen[key] += 1
    if not texts:
        raise ResultsError(
            "holds no generated text", where=side,
            hint="Run lm_eval with --log_samples on a task that generates a single answer per doc",
        )  # fmt: skip
    return texts, several


def check_same_decoding(a: Run, b: Run) -> None:
    """Refuse two runs with other settings of generation: their texts differ for that reason alone.

    Raises:
        ResultsError: A task was generated with other settings.
    """
    for name in sorted(a.tasks.keys() & b.tasks.keys()):
        first, second = (run.tasks[name].provenance for run in (a, b))
        if first.results_file is None or second.results_file is None:
            continue
        for key in sorted(first.decoding.keys() | second.decoding.keys()):
            values = first.decoding.get(key), second.decoding.get(key)
            if values[0] != values[1]:
                raise ResultsError(
                    f"{key} is {values[0]!r:.80} in A and {values[1]!r:.80} in B", where=name,
                    hint="Generate both runs with the same settings, or leave the task out with --tasks",
                )  # fmt: skip


def _check_greedy(task: str, settings: Mapping[str, Any], side: str) -> None:
    """Refuse sampled answers: two samples of the same model part at once, and that says nothing."""
    temperature = settings.get("temperature")
    sampled = bool(temperature) or (temperature is None and settings.get("do_sample") not in (None, False, "False"))
    if sampled:
        how = f"temperature {temperature:g}" if isinstance(temperature, int | float) else "do_sample"
        raise ResultsError(
            f"{task} was sampled ({how}), and two samples of the same model differ", where=side,
            hint="Compare greedy runs (temperature 0), or leave the task out with --tasks",
        )  # fmt: skip


def _read_texts(task: TaskRun, side: str, several: Counter[str]) -> Iterator[tuple[Request, Answer]]:
    """Yield each request with its text, by doc. Count docs with several answers."""
    if task.samples_file is None:
        return
    with task.open_samples() as read:
        for doc in task.docs:
            sample = read(next(iter(doc.filter_results.values())))
            request = _read_request(task.task, doc.doc_id, sample)
            responses = [response if isinstance(response, list) else [response] for response in sample["resps"]]
            answers = [answer for response in responses for answer in response]
            if request is None or not answers or not isinstance(answers[0], str):
                continue
            if len(answers) > 1:
                several[task.task] += 1
                continue
            _check_greedy(task.task, request.settings or {}, side)
            scoring = make_scoring_request(request, Answer(id=request.id, text=answers[0]))
            text, sha256 = (scoring.continuations[0], scoring.sha256) if scoring else ("", None)
            yield request, Answer(id=request.id, text=text, request_sha256=sha256)


def _read_request(task: str, doc: int, sample: Sample) -> Request | None:
    """The first request of a sample; None unless it generates."""
    requests = read_arguments(sample)
    if not requests or len(requests[0]) < 2 or not isinstance(requests[0][1], dict):
        return None
    settings = dict(requests[0][1])
    stop, limit = settings.pop("until", None) or (), settings.pop("max_gen_toks", None)
    stops = (stop,) if isinstance(stop, str) else tuple(map(str, stop)) if isinstance(stop, list | tuple) else ()
    limit = limit if isinstance(limit, int) else 0
    return Request(f"{task}/{doc}", task, doc, 0, "generate", str(requests[0][0]), stops, limit, settings)
