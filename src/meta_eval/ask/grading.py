"""Grades answers from any source with lm-eval's evaluator, and writes results as lm_eval does.

Answers are matched with requests first, and problems reported before grading starts.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from meta_eval.ask.answer_files import Answers, read_bound_answers
from meta_eval.ask.ask_options import GradingOptions
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import build_requests, choose_tasks_to_grade, find_request_kind, find_task_kind
from meta_eval.base.errors import UserError, locating
from meta_eval.base.inputs import expand_home
from meta_eval.base.logs import log
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.harness.answer import Answer, AnswersError
from meta_eval.harness.each_answer import add_each_answer
from meta_eval.harness.evaluator import Evaluated, Evaluator
from meta_eval.harness.results_writer import Speed, Writer
from meta_eval.harness.settings import Settings
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.manifest import Manifest, read_manifest
from meta_eval.pack.pack_options import ScoringOptions


@dataclass(slots=True)
class Matched:
    """The answers of a task."""

    docs: dict[int, list[Answer]] = field(default_factory=dict)
    """By doc, in the order of the task: the answer to each repeat. Only docs with all repeats answered."""

    cut_by_us: int = 0
    """Number of texts that continued after a stop sequence."""

    cut_early: int = 0
    """Number of texts that ended with ``length`` before max_tokens."""


@dataclass(slots=True)
class Problems:
    """Problems that prevent grading, by kind: their places, in the order of the pack."""

    missing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)
    requests: int = 0

    def check(self, answers: Answers, *, partial: bool) -> None:
        """Refuse answers that must not be graded.

        Args:
            answers: The answers that were matched.
            partial: Accept missing answers. Answers to something else are refused anyway.

        Raises:
            AnswersError: There is a problem.
        """
        problems = list(self._problems(partial))
        if not problems:
            return
        if answers.cut_off:
            lines = "line" if len(answers.cut_off) == 1 else "lines"
            problems.append(f"{len(answers.cut_off):,} {lines} cut off ({_first(answers.cut_off)})")
        hints = []
        if self.missing or self.failed:
            hints.append("Answer what is missing and append it, or grade what is there with --partial")
        if self.foreign:
            hints.append("Name the pack whose requests were answered with --pack")
        if self.doubled:
            hints.append("`grade --prefer last` takes the last of several answers")
        raise AnswersError(f"of {self.requests:,} requests: {'; '.join(problems)}", hint=". ".join(hints) or None)

    def _problems(self, partial: bool) -> Iterator[str]:
        if not partial:
            if self.missing:
                yield f"{len(self.missing):,} have no answer ({_first(self.missing)})"
            if self.failed:
                yield f"{len(self.failed):,} failed ({_first(self.failed)})"
        if self.doubled:
            yield f"{len(self.doubled):,} have answers that are not alike ({_first(self.doubled)})"
        if self.foreign:
            yield f"{len(self.foreign):,} answers are of another pack ({_first(self.foreign)})"
        if self.unfit:
            yield f"{len(self.unfit):,} answers do not fit their requests ({_first(self.unfit)})"


def match_answers(requests: Iterable[Request], answers: Answers, problems: Problems) -> Matched:
    """Find the answer to each request of a task.

    Args:
        requests: All requests of the task, in order.
        answers: All answers.
        problems: Collects the problems.
    """
    matched = Matched()
    has_all_answers: dict[int, bool] = {}
    for request in requests:
        problems.requests += 1
        answer = _answer(request, answers, problems)
        has_all_answers[request.doc] = has_all_answers.get(request.doc, True) and answer is not None
        if answer is not None:
            matched.docs.setdefault(request.doc, []).append(answer)
            if answer.text is not None:
                matched.cut_by_us += any(stop and stop in answer.text for stop in request.stop)
                tokens = answer.completion_tokens
                matched.cut_early += (
                    answer.finish_reason == "length" and tokens is not None and tokens < request.max_tokens
                )
    matched.docs = {doc: doc_answers for doc, doc_answers in matched.docs.items() if has_all_answers[doc]}
    return matched


def note_unknown_answers(answers: Answers, tasks: Iterable[str], unchosen: set[str], problems: Problems) -> None:
    """Report answers that belong to no request of the pack.

    Args:
        answers: All answers.
        tasks: The tasks that are graded.
        unchosen: Ids of their requests, and names of the pack's other tasks.
        problems: Collects the problems.
    """
    graded = set(tasks)
    for answer in (*answers.by_key.values(), *answers.failed.values()):
        task = answer.task
        if answer.id not in unchosen and (task in graded or task not in unchosen):
            problems.foreign.append(f"{answer.id} in {answer.where}")


def is_answered(request: Request, answers: Answers) -> bool:
    """Whether a request has an answer that can be graded."""
    return _answer(request, answers, Problems()) is not None


def _answer(request: Request, answers: Answers, problems: Problems) -> Answer | None:
    key = answers.key(request.id, request.sha256)
    if key in answers.failed:
        why = (answers.failed[key].error or "").strip() or "no reason was given"
        problems.failed.append(f"{request.id}: {why:.120}")
        return None
    answer = answers.by_key.get(key)
    if answer is None:
        if request.id in answers.otherwise:
            problems.foreign.append(f"{request.id} in {answers.otherwise[request.id]}: asked otherwise")
        else:
            problems.missing.append(request.id)
        return None
    if key in answers.doubled:
        problems.doubled.append(f"{request.id} in {' and '.join(answers.doubled[key])}")
        return None
    bound = answer.request_sha256 if answer.prompt_sha256 is None else answer.prompt_sha256 == request.prompt_sha256
    if not bound:
        problems.foreign.append(f"{request.id} in {answer.where}")
        return None
    wrong = find_request_kind(request.kind).explain_unfit(request, answer)
    if wrong:
        problems.unfit.append(f"{request.id} in {answer.where}: {wrong}")
        return None
    return answer


def _first(items: list[str]) -> str:
    more = f" and {len(items) - NAMED:,} more" if len(items) > NAMED else ""
    return f"{', '.join(items[:NAMED])}{more}"


# Models that are counted by name.
_MOST_NAMES = 20

# Stands in every set of endpoints of which the user says that it is the deployment of all other answers.
SAME = "same"


def join_endpoints(deployments: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """Join sets of endpoints that have one in common."""
    joined: list[frozenset[str]] = []
    for deployment in deployments:
        apart = [other for other in joined if not other & deployment]
        joined = [*apart, deployment.union(*(other for other in joined if other & deployment))]
    return joined


def count_origins(answers: Iterable[Answer], deployments: Sequence[frozenset[str]]) -> dict[str, Any]:
    """Count answers by the model that they name and by deployment, the most frequent first; empty if nothing is known.

    Args:
        answers: The answers of a task.
        deployments: Sets of endpoints that are one deployment.
    """
    joined = join_endpoints(deployments)
    names, models, endpoints = Counter[str](), Counter[str](), Counter[frozenset[str]]()
    for answer in answers:
        names.update(filter(None, [answer.model]))
        models.update(filter(None, [answer.response_model]))
        if answer.endpoint is not None:
            own = next((some for some in joined if answer.endpoint in some), frozenset({answer.endpoint}))
            endpoints[own] += 1
    deployed = [{"addresses": sorted(some - {SAME}), "answers": count} for some, count in endpoints.most_common()]
    named = dict(models.most_common(_MOST_NAMES))
    if rest := models.total() - sum(named.values()):
        named["others"] = rest
    origins = {"asked": next(iter(names), None), "models": named, "endpoints": deployed}
    return {name: value for name, value in origins.items() if value} if models or deployed else {}


# Bootstrap iterations for standard errors without a formula. lm_eval uses 100,000; 1,000 give an error of about 2 %.
_BOOTSTRAP_ITERS = 1000


@dataclass(slots=True)
class Graded:
    """The result of grading."""

    results: Path
    """The results file. The samples are beside it."""

    model: str
    """The model that gave the answers."""

    speed: Speed
    """Tokens and seconds of the answers."""

    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    """By task: ``metric,filter`` to a score from 0 to 1, by the task's own aggregation."""

    missing: int = 0
    """Number of requests without an answer. They are left out."""

    failed: int = 0
    """Number of requests that failed at every attempt. They are left out."""

    broken: dict[str, str] = field(default_factory=dict)
    """By task: why it could not be graded. The other tasks were graded."""


def grade_answers(answers: Sequence[Path], pack: Path, options: GradingOptions) -> Graded:
    """Score answers with the filters and metrics of a pack.

    Args:
        answers: Files of answers, read together. Files of requests beside results of batches say what was asked.
        pack: The pack.
        options: Tasks, and options of grading.

    Raises:
        AnswersError: A file cannot be read, is of another pack, or mixes models or settings. Or an answer is missing
            without ``partial``.
        PackError: The folder is not a pack or was edited, or the results cannot be written.
        ConfigError: The pack lacks a named task, or a task runs code.
    """
    grading = Grading(pack, options)
    engine_answers = read_bound_answers(answers, grading.build_requests, prefer=options.prefer)
    if engine_answers.second:
        raise AnswersError(
            "holds second answers, which change no score",
            where=engine_answers.second[0],
            hint="Leave this file out; `meta-eval run --grade-only` reads it",
        )
    if len(engine_answers.settings) > 1:
        places = list(engine_answers.settings.values())
        is_joined = len({place.rpartition(", line ")[0] for place in places}) < len(places)
        raise AnswersError(
            f"these answers were generated with different settings: {'; '.join(places)}",
            hint=f"{'Split a file before such a line, and grade the parts' if is_joined else 'Grade them'} one by one",
        )
    if engine_answers.cut_off and not engine_answers.by_key and not engine_answers.failed:
        raise AnswersError(
            "no line is an answer", where=join_names([str(file) for file in answers], 3),
            hint="Each line of a file of answers is JSON with the id of a request of `meta-eval export` and its text",
        )  # fmt: skip
    output = None if options.output is None else Path(options.output)
    with locating(join_names([str(file) for file in answers], 3)):
        return grading.grade(engine_answers, output=output, partial=options.partial)


class Grading:
    """A pack that is ready to grade answers.

    Args:
        pack: The pack.
        options: Tasks to grade.

    Attributes:
        options: Tasks to grade.
        tasks: Names of these tasks, in order.
        evaluator: Evaluator of the pack.
        requests: The requests of each task, if they were built before; otherwise grading builds them.

    Raises:
        PackError: The folder is not a pack or was edited.
        ConfigError: The pack lacks a named task, or a task runs code.
    """

    def __init__(self, pack: Path, options: ScoringOptions) -> None:
        self._started, self._pack = time.time(), pack
        self._manifest = read_manifest(pack)
        self.tasks = choose_tasks_to_grade(self._manifest, options.tasks, allow_code=options.allow_code)
        self.options = options
        self._changed = check_unchanged(pack, self._manifest, edited=options.edited)
        self.evaluator = Evaluator(pack)
        self.requests: Mapping[str, Sequence[Request]] = {}

    def build_requests(self) -> Iterator[Request]:
        """Build the requests of all tasks."""
        for name in self.tasks:
            yield from build_requests(self.evaluator, name, self._manifest.run_settings.limit)

    def score(self, name: str, engine_answers: Answers) -> dict[str, float]:
        """Compute the scores of a task, 0 to 1 by ``metric,filter``. Writes nothing.

        Raises:
            AnswersError: None of its requests has an answer.
            PackError: lm-eval cannot score it.
        """
        matched = match_answers(self._read_requests(name), engine_answers, Problems())
        if not matched.docs:
            raise AnswersError("holds no gradable answer", where=name)
        return self.evaluate(name, matched.docs).scores

    def grade(
        self,
        engine_answers: Answers,
        *,
        output: Path | None = None,
        partial: bool = False,
        prices: Settings | None = None,
        facts: Mapping[str, Any] | None = None,
        go_on: bool = False,
    ) -> Graded:
        """Score all tasks, and write results and samples as lm_eval does.

        Args:
            engine_answers: The answers.
            output: Output folder, as lm_eval's ``--output_path``. None means the pack's.
            partial: Grade the docs with answers although others have none.
            prices: Settings with the prices of the machines or tokens. None means the pack's.
            facts: Further entries of the results file about how the answers were made.
            go_on: If a task cannot be graded, grade the others. Otherwise the first such task ends grading.

        Raises:
            AnswersError: The answers are of another pack or of several models, or an answer is missing without
                ``partial``.
            PackError: The results cannot be written.
        """
        manifest, problems = self._manifest, Problems()
        matched = self._match_all(engine_answers, problems)
        problems.check(engine_answers, partial=partial)
        chosen = [name for name in self.tasks if matched[name].docs]
        if not chosen:
            again, ask = "rerun the same command: it asks them again", "`meta-eval run` without --grade-only"
            if not go_on:
                again, ask = "have the requests answered again", "`meta-eval export` writes what it must answer"
            if problems.failed:
                raise AnswersError(
                    f"every request failed ({problems.failed[0]})",
                    hint=f"Mend what the error names, and {again}",
                )
            raise AnswersError("none of the answers can be graded", hint=f"Ask the model: {ask}")
        used = [
            answer
            for task_answers in matched.values()
            for doc_answers in task_answers.docs.values()
            for answer in doc_answers
        ]
        model = _one_model(used, manifest)
        _log_problems(matched, problems, engine_answers)
        writer = Writer(output or expand_home(manifest.run_settings.output_path, where=str(self._pack)), model)
        origins = {
            name: origin
            for name in chosen
            if (origin := count_origins(itertools.chain(*matched[name].docs.values()), engine_answers.deployments))
        }
        speed = Speed.of(used, prices or manifest.run_settings)
        done = Graded(Path(), model, speed, {}, len(problems.missing), len(problems.failed))
        with writer:
            for name in chosen:
                try:
                    evaluated = self.evaluate(name, matched[name].docs, bootstrap_iters=_BOOTSTRAP_ITERS, hashed=True)
                except UserError as error:
                    if not go_on or len(done.broken) + 1 == len(chosen):
                        raise
                    log.warning(f"{name}: not graded: {error}")
                    done.broken[name] = str(error)
                    continue
                done.scores[name] = evaluated.scores
                if (metric := manifest.tasks[name].primary_metric) not in evaluated.scores:
                    given = join_names([*evaluated.scores], NAMED) or "no other"
                    log.warning(
                        f"{name}: its grader gives no {metric}, so reports have no score of it; it gives {given}"
                    )
                writer.add(name, evaluated, matched[name].docs)
            engines = sorted({answer.engine for answer in used if answer.engine})
            done.results = writer.finish(
                engine=", ".join(engines) or "unknown engine",
                limit=manifest.run_settings.limit,
                started=min((answer.span[0] for answer in used if answer.span), default=self._started),
                identity={
                    **asdict(done.speed),
                    **({"origins": origins} if origins else {}),
                    **({"edited": self._changed} if self._changed else {}),
                    **(facts or {}),
                },
            )
        return done

    def evaluate(
        self, name: str, docs: Mapping[int, Sequence[Answer]], *, bootstrap_iters: int = 0, hashed: bool = False
    ) -> Evaluated:
        """Run lm-eval's evaluator on answers.

        Args:
            name: The task.
            docs: By doc: the answer to each repeat. Only these docs are scored.
            bootstrap_iters: lm-eval's parameter for standard errors. 0 means none.
            hashed: Whether to add lm-eval's hashes, for samples that are written.

        Raises:
            PackError: lm-eval cannot score them.
        """
        task = self.evaluator.load(name)
        numbers = sorted(docs)
        kind = find_task_kind(name, task)
        answers = [kind.replay(docs[number], task) for number in numbers]
        indices, allow_code = numbers if len(numbers) < len(task.eval_docs) else None, self.options.allow_code
        evaluated = self.evaluator.evaluate(
            name, task=task, answers=answers, indices=indices, allow_code=allow_code,
            bootstrap_iters=bootstrap_iters, hashed=hashed,
        )  # fmt: skip
        add_each_answer(self.evaluator, name, answers, evaluated, indices=indices, allow_code=allow_code)
        return evaluated

    def _read_requests(self, name: str) -> Iterable[Request]:
        if name in self.requests:
            return self.requests[name]
        return build_requests(self.evaluator, name, self._manifest.run_settings.limit)

    def _match_all(self, engine_answers: Answers, problems: Problems) -> dict[str, Matched]:
        """Match the answers of all tasks before grading, so that problems show at once."""
        matched = {}
        unchosen = set(self._manifest.tasks) - set(self.tasks)
        for name in self.tasks:

            def noted(name: str = name) -> Iterable[Request]:
                for request in self._read_requests(name):
                    unchosen.add(request.id)
                    yield request

            matched[name] = match_answers(noted(), engine_answers, problems)
        note_unknown_answers(engine_answers, self.tasks, unchosen, problems)
        return matched


def _one_model(used: Sequence[Answer], manifest: Manifest) -> str:
    models = {answer.model: answer.where for answer in reversed(used) if answer.model}
    if len(models) > 1:
        listed = ", ".join(f"{name} ({where})" for name, where in sorted(models.items()))
        raise AnswersError(f"these answers come from {len(models)} models: {listed}", hint="Grade one model at a time")
    return next(iter(models), manifest.run_settings.model_name)


def _log_problems(matched: dict[str, Matched], problems: Problems, engine_answers: Answers) -> None:
    if engine_answers.cut_off:
        log.warning(
            f"{len(engine_answers.cut_off):,} truncated lines were ignored; the first is {engine_answers.cut_off[0]}"
        )
    if problems.missing or problems.failed:
        first = (problems.missing or problems.failed)[0]
        log.warning(
            f"this run is unfinished: of {problems.requests:,} requests, {len(problems.missing):,} have no answer and "
            f"{len(problems.failed):,} failed; the first: {first}"
        )
    for what, counts in (
        (
            "go on past a stop sequence, and are cut there as lm_eval cuts them",
            [task_answers.cut_by_us for task_answers in matched.values()],
        ),
        (
            "end with 'length' and fewer tokens than max_tokens, by a limit of the engine's own, such as its context",
            [task_answers.cut_early for task_answers in matched.values()],
        ),
    ):
        if sum(counts):
            tasks = ", ".join(f"{name} {count:,}" for name, count in zip(matched, counts, strict=True) if count)
            log.warning(f"answers that {what}: {tasks}")
