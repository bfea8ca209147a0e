"""Asking what a run wants, answer by answer: the canary first, then all of it, or batches until it is decided.

``run --rerun`` asks some docs again, later and in another order, so that noise and drift have figures of their own.
Second answers lie apart, in ``OUTPUT/answers/rerun``, and change no score. What they are graded as goes into the
results file, ``config.meta_eval.rerun``, where `report` puts it beside the first answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meta_eval.ask.answer_files import Answers
from meta_eval.ask.canary import Canary, Summary, check_token_counts, choose_first_requests
from meta_eval.ask.client import Client, ask_in_rounds
from meta_eval.ask.early_stop import Stopping
from meta_eval.ask.grading import Grading
from meta_eval.ask.journal import Journal, RunOrder
from meta_eval.ask.model_tokens import ModelTokens
from meta_eval.ask.pending_requests import PendingRequests, keep_beginnings_together
from meta_eval.ask.recorded_answers import Recordings
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import build_requests, encode_requests
from meta_eval.base.errors import UserError
from meta_eval.base.inputs import read_table
from meta_eval.base.logs import log, report_progress
from meta_eval.harness.answer import Answer
from meta_eval.harness.provenance import reads_tools_lost
from meta_eval.harness.sample_files import read_graded
from meta_eval.harness.scores import ScoredRun
from meta_eval.pack.manifest import Manifest
from meta_eval.stats.sequential import State

# Reading a prompt token costs about a thirtieth of writing a token, on measured engines. This only has to separate
# tasks with long prompts from tasks with long answers.
_PROMPT = 1 / 30

# Answers of a task from which its own mean length counts more than that of the recorded answers. Also the number of
# answers, and of durations of an answer, after which the speed is known.
_ENOUGH = 32
_WAVES = 2

# Characters per token of English in Llama 3's tokenizer.
_CHARACTERS = 4.4


class Pace:
    """Counts answers, and estimates the remaining time.

    Args:
        left: Number of pending requests by task.
        expected: Expected tokens of an answer by task, from `estimate_tokens`.
        clock: Seconds.
    """

    def __init__(
        self,
        left: Mapping[str, int],
        expected: Mapping[str, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left, self._expected, self._clock = dict(left), expected, clock
        self._total = sum(left.values())
        self._tokens = {name: [0, 0] for name in left}  # answers, their tokens
        self._prompts = [0, 0]  # prompts, their tokens
        self.failed = 0
        self.begin()

    def begin(self) -> None:
        """Measure the speed from now on. Earlier requests, such as the canary, have other delays."""
        self._began = self._clock()
        self._answers = self._written = self._read = 0
        self._work = self._waited = 0.0

    def add(self, answer: Answer) -> None:
        """Count an answer."""
        task = answer.task
        self._left[task] -= 1
        if answer.error is not None:
            self.failed += 1
            return
        written = answer.completion_tokens or 0
        fresh = max(0, (answer.prompt_tokens or 0) - (answer.cached_tokens or 0))
        for counts, tokens in ((self._tokens[task], written), (self._prompts, fresh)):
            counts[0] += 1
            counts[1] += tokens
        self._answers += 1
        self._written += written
        self._read += fresh
        self._work += written + fresh * _PROMPT
        self._waited += (answer.ended or 0.0) - (answer.started or answer.ended or 0.0)
        done = self._total - sum(self._left.values())
        report_progress(": ".join(filter(None, (task, self.describe()))), done, self._total)

    def describe(self) -> str:
        """``1.2M tokens, 3,400 tokens a second, 12 min left``. Prompt tokens count if an engine writes none."""
        tokens = sum(written for _, written in self._tokens.values())
        name, total, new = (
            ("tokens", tokens, self._written) if tokens else ("prompt tokens", self._prompts[1], self._read)
        )
        words = [f"{_short(total)} {name}"] if total else []
        rate = new / self._seconds if new else 0.0
        words += [f"{rate:,.0f} {name} a second" if rate >= 10 else f"{rate:.2g} {name} a second"] if new else []
        left = self.seconds_left()
        if left is not None:
            words.append(f"{format_duration(left)} left")
        if self.failed:
            words.append(f"{self.failed:,} failed")
        return ", ".join(words)

    def seconds_left(self) -> float | None:
        """The estimated remaining seconds; None without data."""
        if not self._work or self._answers < _ENOUGH or self._seconds * self._answers < _WAVES * self._waited:
            return None
        prompt = self._prompts[1] / self._prompts[0] * _PROMPT
        work = sum(count * (self._mean(task) + prompt) for task, count in self._left.items())
        return work * self._seconds / self._work

    @property
    def _seconds(self) -> float:
        return max(self._clock() - self._began, 1e-9)

    def _mean(self, task: str) -> float:
        answers, written = self._tokens[task]
        return written / answers if answers >= _ENOUGH else self._expected.get(task, 0.0) * self._ratio()

    def _ratio(self) -> float:
        """The length of this model's answers so far, relative to the recorded ones."""
        pairs = [
            (written, answers * self._expected.get(task, 0.0)) for task, (answers, written) in self._tokens.items()
        ]
        expected = sum(of for _, of in pairs)
        return sum(written for written, of in pairs if of) / expected if expected else 1.0


def estimate_tokens(pack: Path, manifest: Manifest, task: str) -> float:
    """The mean length of a task's recorded answers, in tokens; 0 for choices and without recorded answers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    file = manifest.tasks[task].docs_file
    if file is None or "recorded_output" not in manifest.tasks[task].columns:
        return 0.0
    if "continuations" in manifest.tasks[task].columns:
        return 0.0
    texts = read_table(pack / file, columns=["recorded_output"]).column(0)
    if not pa.types.is_string(texts.type):  # where no doc has a text, the column has no type either
        return 0.0
    mean = pc.mean(pc.utf8_length(texts)).as_py()
    return (mean or 0.0) / _CHARACTERS


def format_duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _short(count: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 10 * size or (count >= size and letter != "k"):
            return f"{count / size:.1f}{letter}"
    return f"{count:,.0f}"


# Early docs that a run which may stop asks again before it ends. A loss of 20 points shows in 19 of 20 such runs.
EARLY = 64

_FOLDER = "rerun"


@dataclass(slots=True)
class SecondAnswers:
    """The second answers of one run."""

    journal: Journal
    """Where they are kept; entered only while docs are asked again."""

    grading: Grading
    """Of the pack."""

    manifest: Manifest
    """Of the pack."""

    run_requests: PendingRequests
    """What the run asks."""

    count: int
    """How many docs have a second answer when it ends."""

    asked: int = 0
    """Requests that were asked again."""

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
        requests = [request for request in self._requests(chosen) if request.key not in second.by_key]
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
                scored = read_graded(self.grading.evaluate(name, answers).samples)
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
        return {name: sorted(self.run_requests.find_answered_docs(name, answers)) for name in self.run_requests.total}

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
        return keep_beginnings_together(sorted(requests, key=lambda request: places[request.task, request.doc]))

    def _answers(self, client: Client, tokens: ModelTokens, requests: Any) -> Iterator[tuple[Request, Answer]]:
        return check_token_counts(client, encode_requests(requests, tokens.encoder), check=False)


def open_second_answers(
    output: Path, model: str, identity: Mapping[str, Any], grading: Grading, manifest: Manifest,
    pending: PendingRequests, count: int,
) -> SecondAnswers:  # fmt: skip
    """The second answers of a run, those that are there and those that are to be asked."""
    journal = Journal(output / "answers" / _FOLDER, model, identity, second=True)
    return SecondAnswers(journal, grading, manifest, pending, count)


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
        endpoint_check: Whether the client examines the endpoint first.

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
        *,
        endpoint_check: bool = True,
    ) -> None:
        self._client, self._journal, self._tokens, self._pending, self._pace = client, journal, tokens, pending, pace
        self._recordings, self._endpoint_check = recordings, endpoint_check
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
        seen = self._client.examine(self._pending.first_requests()) if self._endpoint_check else {}
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
            self._recordings.describe_other_model(
                self._client.model, {request.task for request, _ in first.values()}
            )
            if self._recordings
            else None,
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

    def note_endpoint(self) -> Mapping[str, Any]:
        """Keep what was odd about the answers, and return it."""
        if seen := self._client.summarise():
            self._journal.note(endpoint=seen)
        return seen

    def _ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Answer]]:
        encoded = encode_requests(requests, self._tokens.encoder)
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
