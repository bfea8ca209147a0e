"""From everything that was asked to the report of a load."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meta_eval import api
from meta_eval.ask.answer_files import Answers
from meta_eval.ask.grading import Grading
from meta_eval.base.logs import report_progress
from meta_eval.pack.pack_options import ScoringOptions
from meta_eval.plugins.load.in_flight import find_in_flight
from meta_eval.plugins.load.level_decision import Counts, LevelDecision, Verdicts, count, decide
from meta_eval.plugins.load.load_run import AGAIN, Asking, LoadDoc, LoadRun, Phase
from meta_eval.plugins.load.options import LoadOptions
from meta_eval.plugins.load.signs import OtherTexts, Seen, classify
from meta_eval.plugins.load.thresholds import (
    CLOSE,
    MADE_UP,
    NEAR_TIE,
    NEAR_TIE_FACTOR,
    SEARCHED,
    SHARED,
    SHARED_UNSCORED,
    UNUSABLE,
)
from meta_eval.plugins.load.traffic import make_prompt
from meta_eval.sockets import Answer, RunSettings, UserError, plural

LOAD_SCHEMA = 2


@dataclass(frozen=True, slots=True)
class Level:
    """What one level is, beside the answers alone."""

    level: int
    """Requests in flight at each server."""

    counts: Counts
    """What its answers are."""

    verdicts: Verdicts | None
    """Its verdicts beside those alone; None if none are there."""

    decision: LevelDecision
    """What follows."""

    seconds: float | None
    """The median time of an answer; None if unknown."""

    pool: float | None
    """The largest use of the KV pool that the engine named, 0 to 1; None if it named none."""

    preemptions: int | None
    """Requests that lost their place in the pool meanwhile; None likewise."""

    by_pool: tuple[tuple[str, int, int, int], ...]
    """By the use of the pool while an answer was made: its range, answers, partings, corrupted answers."""

    traffic: Mapping[str, int]
    """What became of the made-up requests."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A corrupted answer beside its answer alone."""

    level: int
    """Requests in flight."""

    seen: Seen
    """What it is."""

    alone: str
    """The answer alone."""

    loaded: str
    """The answer under load."""


@dataclass(frozen=True, slots=True)
class Found:
    """All that a report shows."""

    model: str
    engine: str
    """The model that was asked, and its engine; empty if nothing was asked."""

    alone: Counts
    """The answers alone, asked again, beside those asked first."""

    levels: tuple[Level, ...]
    """In ascending order."""

    shown: tuple[Shown, ...]
    """The clearest corrupted answers."""

    limit: float | None
    """The largest distance of a near tie, nats; None if nothing was scored."""

    notes: tuple[str, ...]
    """What must be known of it."""


def run_load(pack: Path, settings: RunSettings, options: LoadOptions) -> Found:
    """Ask, search where it begins, have answers scored, and judge.

    Raises:
        UserError: Anything that the user can fix. Earlier answers are kept; the same call resumes.
        Interrupted: By Ctrl-C; likewise.
    """
    with Asking(pack, settings, options) as asking:
        asking.ask_all(options.concurrency)
        asking.score([asking.run.again, *asking.run.levels])
        judge = Judge(asking, settings, options)
        if options.search and options.ask:
            for _ in range(SEARCHED):
                level = choose_next_level(judge.levels, options.alone)
                if level is None:
                    break
                asking.score([asking.ask_level(level)])
                judge = Judge(asking, settings, options)
        return judge.find()


def choose_next_level(levels: Sequence[Level], alone: int) -> int | None:
    """The level between the highest that is not worse and the lowest that is; None if they are close, or none is."""
    bad = [level.level for level in levels if level.decision.outcome == "worse"]
    if not bad:
        return None
    good = max((level.level for level in levels if level.level < min(bad)), default=alone)
    middle = round(math.sqrt(good * min(bad)))
    return middle if min(bad) > CLOSE * good and good < middle < min(bad) else None


class Judge:
    """Judges what was asked.

    Attributes:
        levels: The levels, judged.
    """

    def __init__(self, asking: Asking, settings: RunSettings, options: LoadOptions) -> None:
        self._asking, self._settings, self._options = asking, settings, options
        # What --max-tokens cuts is no limit of the engine's own.
        self._originals = {
            doc: [_cut(request, options.max_tokens) for request in some] for doc, some in asking.run.originals.items()
        }
        self._run: LoadRun = asking.run
        self.notes: list[str] = []
        self._limit = self._find_limit()
        traffic = {phase.level: phase.traffic.get("begun", 0) for phase in self._run.levels}
        self.notes += [
            f"at {level:,} in flight, answers were compared with the first {MADE_UP:,} of {made_up:,} made-up requests"
            for level, made_up in traffic.items() if made_up > MADE_UP
        ]  # fmt: skip
        texts: dict[LoadDoc, set[str]] = {}
        for phase in (self._run.alone, self._run.again):
            for doc, answer in phase.answers.items():
                texts.setdefault(doc, set()).add(answer.text or "")
        self._others = OtherTexts(
            {doc: request.prompt for doc, request in self._run.requests.items()}, texts,
            SHARED if self._limit is not None else SHARED_UNSCORED,
            [
                make_prompt(f"{self._run.seed} {level}", number, settings.max_model_len)[0]
                for level, made_up in traffic.items() for number in range(min(MADE_UP, made_up))
            ],
        )  # fmt: skip
        self._alone = self._look(self._run.again)
        unknown = sum(answer.error is not None for answer in self._run.alone.answers.values())
        if unknown := unknown + len(self._run.requests) - len(self._run.alone.answers):
            self.notes.append(f"{plural(unknown, 'doc')} left out: no answer alone")
        if not self._alone:
            self.notes.append("the docs were not asked alone again, so the server's own noise is not known")
        beside = count(self._alone)
        verdicts = self._grade()
        self.seen = {phase.level: self._look(phase) for phase in self._run.levels}
        self.levels = [
            self._judge(phase, self.seen[phase.level], beside, verdicts.get(phase.name)) for phase in self._run.levels
        ]
        self._beside = beside

    def find(self) -> Found:
        """All that a report shows."""
        run = self._run
        every = (self._beside, *(level.counts for level in self.levels))
        if run.not_scored is not None and any(counts.parting for counts in every):
            self.notes.append(f"answers that part were not scored, so near ties are not known: {run.not_scored}")
        return Found(
            self._settings.model_name, run.engine, self._beside, tuple(self.levels), tuple(self._choose_shown()),
            self._limit, tuple(self.notes),
        )  # fmt: skip

    def _find_limit(self) -> float | None:
        """The largest distance of a near tie, by answers that were given alone; None if nothing can be scored."""
        run = self._run
        if run.not_scored is not None:
            return None
        alone = [
            scored.distance for doc, answer in run.alone.answers.items()
            if (scored := self._asking.find_scored(doc, answer)) is not None
        ]  # fmt: skip
        if not alone:
            self.notes.append("no answer was scored, so near ties are not known")
            return None
        limit = max(NEAR_TIE, NEAR_TIE_FACTOR * max(alone))
        if limit > UNUSABLE:
            self.notes.append(
                f"near ties are not known: the server finds a token of its own answers {max(alone):.1f} nats below the "
                "likeliest one"
            )
            return None
        return limit

    def _look(self, phase: Phase) -> list[Seen]:
        run = self._run
        beside = (run.alone,) if phase.name == AGAIN else (run.alone, run.again)
        alone = {
            doc: given for doc in sorted(phase.answers)  # not as they came
            if (given := [of.answers[doc] for of in beside if doc in of.answers and of.answers[doc].error is None])
        }  # fmt: skip
        scored = (
            {} if self._limit is None else {doc: self._asking.find_scored(doc, phase.answers[doc]) for doc in alone}
        )
        parted = [doc for doc in alone if phase.answers[doc].text not in {given.text for given in alone[doc]}]
        foreign, by_chance = self._find_foreign(phase, parted, {doc for doc in parted if scored.get(doc) is None})
        return [
            classify(
                given, phase.answers[doc], run.requests[doc].prompt, foreign.get(doc), scored.get(doc),
                self._limit or 0.0, by_chance=doc in by_chance, stop=run.requests[doc].stop,
            )
            for doc, given in alone.items()
        ]  # fmt: skip

    def _find_foreign(
        self, phase: Phase, parted: Collection[LoadDoc], unscored: Collection[LoadDoc]
    ) -> tuple[dict[LoadDoc, str], Collection[LoadDoc]]:
        """By doc what its answer shares with another request; and the docs of which chance may explain it.

        Where an answer is scored, its tokens say whether a text is its own. Elsewhere a text of another doc counts only
        if that was in flight.
        """
        found = {doc: self._others.find(doc, phase.answers[doc].text or "") for doc in parted}
        foreign = {doc: part for doc, part in found.items() if part is not None}
        owners = {doc: self._others.find_owner(foreign[doc]) for doc in unscored if doc in foreign}
        docs = {doc: owner for doc, owner in owners.items() if owner in self._run.requests}
        spans = {doc: answer.span for doc, answer in phase.answers.items() if answer.span}
        in_flight, is_chance = find_in_flight(docs, spans)
        kept = {doc: part for doc, part in foreign.items() if doc not in docs or doc in in_flight}
        return kept, in_flight if is_chance else ()

    def _judge(self, phase: Phase, seen: Sequence[Seen], beside: Counts, verdicts: Verdicts | None) -> Level:
        counts = count(seen)
        spans = sorted(answer.span[1] - answer.span[0] for answer in phase.answers.values() if answer.span)
        pool = max((figures.pool for figures in phase.figures if figures.pool is not None), default=None)
        preempted = [figures.preemptions for figures in phase.figures if figures.preemptions is not None]
        return Level(
            phase.level, counts, verdicts, decide(counts, beside, verdicts, is_scored=self._limit is not None),
            spans[len(spans) // 2] if spans else None, pool,
            int(preempted[-1] - preempted[0]) if preempted else None, _sort_by_pool(phase, seen), phase.traffic,
        )  # fmt: skip

    def _grade(self) -> dict[str, Verdicts]:
        """By phase its verdicts beside those alone. Graders that fail are a note."""
        run, found = self._run, dict[str, Verdicts]()
        if not run.levels:
            return found
        report_progress("grading")
        with tempfile.TemporaryDirectory() as folder:
            try:
                options = ScoringOptions(
                    tasks=self._options.tasks, edited=self._options.edited, allow_code=self._options.allow_code
                )
                grading = Grading(run.pack, options)
                grading.requests = {
                    name: [request for (task, _), some in self._originals.items() if task == name for request in some]
                    for name in grading.tasks
                }
                alone = self._write_results(grading, run.alone, Path(folder))
            except UserError as error:
                self.notes.append(f"no verdicts: {error}")
                return found
            for phase in run.levels:
                try:
                    results = self._write_results(grading, phase, Path(folder))
                    report = api.compare([alone], [results], progress=lambda *_: None)
                except UserError as error:
                    self.notes.append(f"no verdicts at {phase.level:,}: {error}")
                    continue
                flips = [task.flips for task in report.tasks if task.flips is not None]
                if flips:
                    found[phase.name] = Verdicts(
                        sum(flip.compared for flip in flips), sum(flip.baseline_only for flip in flips),
                        sum(flip.candidate_only for flip in flips),
                    )  # fmt: skip
        return found

    def _write_results(self, grading: Grading, phase: Phase, folder: Path) -> Path:
        answers = Answers()
        for doc, originals in self._originals.items():
            answer = phase.answers.get(doc)
            if doc[0] not in grading.tasks or answer is None or answer.error is not None:
                continue
            for request in originals:
                own = _answer_to(request, answer, self._settings.model_name)
                answers.by_key[own.key] = own
        return grading.grade(answers, output=folder / phase.name, partial=True, go_on=True).results

    def _choose_shown(self) -> list[Shown]:
        run, shown = self._run, []
        worse = {level.level for level in self.levels if level.decision.outcome == "worse"}
        for phase in run.levels:
            for seen in self.seen[phase.level]:
                if seen.kind == "corrupted" or (phase.level in worse and seen.direction > 0):
                    doc = seen.task, seen.doc
                    texts = (run.alone.answers[doc].text or "", phase.answers[doc].text or "")
                    shown.append(Shown(phase.level, seen, *texts))
        return sorted(shown, key=_rank)


def _rank(shown: Shown) -> tuple[bool, int, float, int, str, int]:
    """The clearest first: sure signs, many of them, far from the likeliest token."""
    seen = shown.seen
    return seen.kind != "corrupted", -len(seen.signs), -round(seen.distance or 0.0, 3), shown.level, seen.task, seen.doc


def _cut(request: Any, most: int | None) -> Any:
    """The request with at most so many tokens of an answer."""
    return request if most is None else replace(request, max_tokens=min(most, request.max_tokens))


def _answer_to(request: Any, answer: Answer, model: str) -> Answer:
    return replace(
        answer, id=request.id, request_sha256=request.sha256, prompt_sha256=request.prompt_sha256, model=model,
        engine=answer.engine or "server",
    )  # fmt: skip


_POOL = ((0.0, 0.5, "below 50 %"), (0.5, 0.9, "50 to 90 %"), (0.9, 9.9, "above 90 %"))


def _sort_by_pool(phase: Phase, seen: Sequence[Seen]) -> tuple[tuple[str, int, int, int], ...]:
    """How many answers parted and are corrupted, by the largest use of the pool while they were made."""
    known = [(figures.time, figures.pool) for figures in phase.figures if figures.pool is not None]
    rows = {words: [0, 0, 0] for _, _, words in _POOL}
    for one in seen:
        span = phase.answers[one.task, one.doc].span
        if span is None or one.kind == "failed":
            continue
        uses = [use for at, use in known if span[0] - 0.5 <= at <= span[1] + 0.5]
        if uses:
            words = next(words for low, high, words in _POOL if low <= max(uses) < high)
            rows[words] = [
                rows[words][0] + 1, rows[words][1] + (one.kind != "same"), rows[words][2] + (one.kind == "corrupted"),
            ]  # fmt: skip
    return tuple((words, *figures) for words, figures in rows.items() if figures[0])  # type: ignore[misc]
