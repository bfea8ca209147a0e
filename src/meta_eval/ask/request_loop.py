"""Asking what a run wants, answer by answer: the canary first, then all of it, or batches until it is decided."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from meta_eval.ask.answers.recorded_answers import Recordings
from meta_eval.ask.canary import Canary, Summary, check_token_counts
from meta_eval.ask.canary_docs import choose_first_requests
from meta_eval.ask.client import Client, with_token_ids
from meta_eval.ask.early_stop import Stopping
from meta_eval.ask.journal import Journal
from meta_eval.ask.model_tokens import ModelTokens
from meta_eval.ask.pending_requests import PendingRequests
from meta_eval.ask.request import Request
from meta_eval.ask.retry_rounds import ask_in_rounds
from meta_eval.ask.run_order import RunOrder
from meta_eval.ask.second_answers import SecondAnswers
from meta_eval.ask.time_left import Pace
from meta_eval.base.logs import log, report_progress
from meta_eval.harness.answer import Answer
from meta_eval.harness.endpoint_notes import reads_tools_lost
from meta_eval.stats.sequential import State

_TOOLS_LOST = "The endpoint's chat template leaves tools out of the prompt: serve the model with one that has them"


class RequestLoop:
    """Sends pending requests in rounds until each is answered or has failed for good.

    Args:
        client: What answers.
        journal: Where answers are kept.
        tokens: Of the model.
        pending: The requests that are not answered yet.
        pace: Counts the answers.
        recordings: Recorded answers, which the canary compares the first with; None for no canary.

    Attributes:
        asked: Requests that were asked.
        failed: Those of them whose every attempt failed.
        last: Tasks that were done when nothing else was left to ask.
        canary: What the first answers showed; None where there were none.
    """

    def __init__(
        self,
        client: Client,
        journal: Journal,
        tokens: ModelTokens,
        pending: PendingRequests,
        pace: Pace,
        recordings: Recordings | None,
    ) -> None:
        self._client, self._journal, self._tokens, self._pending, self._pace = client, journal, tokens, pending, pace
        self._recordings = recordings
        self._left = dict(pending.left)
        self.asked = self.failed = 0
        self.last: list[str] = []
        self.canary: Summary | None = None

    @property
    def total(self) -> int:
        """Requests of the run, answered or not."""
        return sum(self._pending.total.values())

    @property
    def kept(self) -> int:
        """Answers that were kept."""
        return self.asked - self.failed

    def all(self) -> Iterator[str]:
        """Ask all pending requests; the name of each task that is done before the last."""
        return self.run(self._pending)

    def ask_again(
        self, second: SecondAnswers, order: RunOrder, among: Collection[tuple[str, int]] | None = None
    ) -> None:
        """Ask docs a second time; see `SecondAnswers.ask`."""
        second.ask(self._client, self._tokens, order, self._journal.read(), among)

    def until_decided(self, stopping: Stopping) -> State:
        """Ask batch by batch until the gate is decided, or all docs are asked."""
        self._journal.places = stopping.places
        state = stopping.grade_new(self._journal.read())
        for batch in stopping.batches():
            for _ in self.run([request for request in batch if not self._pending.is_answered(request)]):
                pass
            state = stopping.grade_new(self._journal.read())
        self._journal.places = {}
        return state

    def run(self, requests: Sequence[Request] | PendingRequests) -> Iterator[str]:
        """Send requests, and yield the name of each task that is done while others are not."""
        for answer in ask_in_rounds(self._ask, requests):
            yield from self._keep(answer)

    def first(self) -> Iterator[str]:
        """Check the endpoint, run the canary, and yield the name of each task that is done, as `run`.

        Its answers are kept only after they pass. Otherwise the answers of a broken server would count after a repair,
        because the settings are the same.
        """
        yield from (name for name in self._left if self._is_done(name))
        seen = self._client.examine(self._pending.first_requests()) if self._recordings else {}
        if seen:
            self._journal.note(endpoint=seen)
        first = choose_first_requests(self._pending, self._recordings) if self._recordings else {}
        if not first:
            return
        report_progress(f"canary: {len(first)} docs first, beside the recorded answers")
        encoder = self._tokens.encoder
        canary = Canary(
            self._client, {name: recorded for name, (_, recorded) in first.items()},
            encoder.encode_text if encoder else list, encoder.bos if encoder else None,
            _TOOLS_LOST if reads_tools_lost(seen) else None,
        )  # fmt: skip
        held: list[tuple[Request, Answer]] = []
        for pair in self._ask([request for request, _ in first.values()]):
            held.append(pair)
            report_progress("canary", len(held), len(first))
        self.canary = canary.check(held)
        report_progress(f"canary: {self.canary}")
        for _, answer in held:
            if answer.error is None:
                self._pending.note(answer)
                yield from self._keep(answer)
        self._pace.begin()

    def note_endpoint(self) -> None:
        """Keep what was odd about the answers."""
        if seen := self._client.summarise():
            self._journal.note(endpoint=seen)

    def _ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Answer]]:
        encoded = with_token_ids(requests, self._tokens.encoder)
        return check_token_counts(self._client, encoded, check=self._recordings is not None)

    def _keep(self, answer: Answer) -> Iterator[str]:
        self._journal.add(answer, engine=self._client.engine)
        self._pace.add(answer)
        if answer.error is not None and not self.failed:
            log.warning(f"{answer.id} has no answer: {answer.error}")
        self.asked += 1
        self.failed += answer.error is not None
        task = answer.task
        self._left[task] -= 1
        if self._is_done(task):
            yield task

    def _is_done(self, task: str) -> bool:
        """Whether a task is done, and others are not; tasks that are done last go to `last`."""
        if self._left[task]:
            return False
        if any(self._left.values()):
            return True
        self.last.append(task)
        return False
