"""run --rerun: some docs asked again, later and in another order, so that noise and drift have figures of their own.

Second answers lie apart, in ``OUTPUT/answers/rerun``, and change no score. What they are graded as goes into the
results file, ``config.meta_eval.rerun``, where `report` puts it beside the first answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meta_eval.ask.answers.answer_files import Answers
from meta_eval.ask.answers.grading import Grading
from meta_eval.ask.canary import check_token_counts
from meta_eval.ask.client import Client, with_token_ids
from meta_eval.ask.journal import Journal
from meta_eval.ask.model_tokens import ModelTokens
from meta_eval.ask.pending_requests import PendingRequests
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import build_requests
from meta_eval.ask.retry_rounds import ask_in_rounds
from meta_eval.ask.run_order import RunOrder
from meta_eval.base.errors import UserError
from meta_eval.base.logs import log, report_progress
from meta_eval.harness.answer import Answer
from meta_eval.harness.scores import ScoredRun
from meta_eval.pack.baseline import collect_graded_docs
from meta_eval.pack.manifest import Manifest

# Early docs that a run which may stop asks again before it ends. A loss of 20 points shows in 19 of 20 such runs.
EARLY = 64

FOLDER = "rerun"


@dataclass(slots=True)
class SecondAnswers:
    """The second answers of one run.

    Attributes:
        journal: Where they are kept; entered only while docs are asked again.
        grading: Of the pack.
        manifest: Of the pack.
        run_requests: What the run asks.
        count: How many docs have a second answer when it ends.
        asked: Requests that were asked again.
    """

    journal: Journal
    grading: Grading
    manifest: Manifest
    run_requests: PendingRequests
    count: int
    asked: int = 0

    @property
    def pending(self) -> bool:
        """Whether docs are to be asked again, as far as is known before the others are asked."""
        return self.count > sum(map(len, self._docs(self.journal.read()).values()))

    def ask(
        self,
        client: Client,
        tokens: ModelTokens,
        order: RunOrder,
        first: Answers,
        among: Collection[tuple[str, int]] | None = None,
    ) -> None:
        """Ask docs again, drawn and sorted by the run's seed. None is asked a third time.

        Args:
            client: What answers.
            tokens: Of the model.
            order: Of the run.
            first: The first answers: only docs that have one are asked again.
            among: The docs to draw from; None for all.
        """
        docs = {(name, doc) for name, numbers in self._docs(first).items() for doc in numbers}
        chosen = order.sort(docs if among is None else docs & set(among), "rerun")[: self.count]
        second = self.journal.read()
        requests = [request for request in self._requests(chosen) if not _is_given(request, second)]
        if not requests:
            return
        report_progress(f"asking {len(chosen):,} docs again")
        with self.journal as journal:
            for answer in ask_in_rounds(lambda some: self._answers(client, tokens, some), requests):
                journal.add(answer, engine=client.engine)
                self.asked += 1
                report_progress("asking again", self.asked, len(requests))

    def grade(self) -> dict[str, Any]:
        """By task the docs with a second answer and its verdict; empty where there is none.

        A task that cannot be graded is only said: no score depends on it.
        """
        second = self.journal.read()
        graded = {}
        for name, docs in self._docs(second).items():
            metric_key = self.manifest.tasks[name].primary_metric
            if not docs or metric_key is None:
                continue
            answers: dict[int, list[Answer]] = {}
            for request in build_requests(self.grading.evaluator, name, self.manifest.run_settings.limit, sorted(docs)):
                answers.setdefault(request.doc, []).append(second.by_key[request.key])
            try:
                scored = collect_graded_docs(self.grading.evaluate(name, answers).samples)
            except UserError as error:
                log.warning(f"{name}: its second answers cannot be graded: {error}")
                continue
            scores = ScoredRun([scored]).scores_of_run(0, metric_key)
            if scores is not None:
                numbers = [scored[position].doc_id for position in scores.doc_indices]
                graded[name] = {"metric": metric_key, "docs": numbers, "values": list(scores.doc_scores)}
        return graded

    def _docs(self, answers: Answers) -> dict[str, list[int]]:
        """By task the docs of which every request is answered."""
        docs = {}
        for name in self.run_requests.total:
            requests = {key: int(key[0].split("/")[1]) for key in self.run_requests.hashes(name).items()}
            lacking = {doc for key, doc in requests.items() if key not in answers.by_key}
            docs[name] = sorted(set(requests.values()) - lacking)
        return docs

    def _requests(self, docs: list[tuple[str, int]]) -> list[Request]:
        by_task: dict[str, list[int]] = {}
        for name, doc in docs:
            by_task.setdefault(name, []).append(doc)
        places = {doc: place for place, doc in enumerate(docs)}
        requests = [
            request
            for name, numbers in by_task.items()
            for request in build_requests(
                self.grading.evaluator, name, self.manifest.run_settings.limit, sorted(numbers)
            )
        ]
        return sorted(requests, key=lambda request: places[request.task, request.doc])

    def _answers(self, client: Client, tokens: ModelTokens, requests: Any) -> Iterator[tuple[Request, Answer]]:
        return check_token_counts(client, with_token_ids(requests, tokens.encoder), check=False)


def open_second_answers(
    output: Path, model: str, identity: Mapping[str, Any], grading: Grading, manifest: Manifest,
    pending: PendingRequests, count: int,
) -> SecondAnswers:  # fmt: skip
    """The second answers of a run, those that are there and those that are to be asked."""
    journal = Journal(output / "answers" / FOLDER, model, identity, second=True)
    return SecondAnswers(journal, grading, manifest, pending, count)


def _is_given(request: Request, answers: Answers) -> bool:
    return request.key in answers.by_key
