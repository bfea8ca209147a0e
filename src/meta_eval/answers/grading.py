"""grade: answers from anywhere, scored by lm-eval's own evaluator and written down as lm_eval writes them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from meta_eval.answers.answer_files import Answers, AnswersError, EngineAnswer, read_answers
from meta_eval.answers.answer_matching import Matched, Problems, cut_at_stop, match_answers, note_unknown_answers
from meta_eval.answers.requests import build_requests
from meta_eval.answers.results_writer import Speed, Writer
from meta_eval.boundary.inputs import expand_home
from meta_eval.messages.errors import UserError
from meta_eval.messages.logs import log
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.manifest import Manifest, read_manifest
from meta_eval.pack.task_choice import choose_tasks_to_grade
from meta_eval.verb_options import GradingOptions, ScoringOptions
from meta_eval.verification.evaluator import Evaluated, Evaluator
from meta_eval.verification.replay import Answers as Replayed

# Draws of a standard error that has no formula; lm_eval's command line has 100,000. It is right to 2 % then.
_BOOTSTRAP_ITERS = 1000


@dataclass(slots=True)
class Graded:
    """What was graded.

    Attributes:
        results: The results file; the samples lie beside it.
        model: Whose answers they are.
        speed: Tokens and seconds of the answers.
        scores: By task, 0 to 1 by ``metric,filter``, as the task's own aggregations give them.
        missing: Requests without an answer, left out.
        failed: Requests whose every attempt failed, left out.
        broken: By task why it could not be graded, where the others were graded all the same.
    """

    results: Path
    model: str
    speed: Speed
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    missing: int = 0
    failed: int = 0
    broken: dict[str, str] = field(default_factory=dict)


def grade_answers(answers: Sequence[Path], pack: Path, options: GradingOptions) -> Graded:
    """Score answers with the filters and metrics of a pack.

    Args:
        answers: Files of answers, read as one.
        pack: The folder that prepare wrote.
        options: Which of them, and how.

    Raises:
        AnswersError: A file cannot be read, is of another pack, of several models or settings; an answer is missing,
            and ``partial`` is not asked for.
        PackError: The folder is no pack or was edited, or the results cannot be written.
        ConfigError: A name that the pack does not have, or a task that runs code.
    """
    grading = Grading(pack, options)
    given = read_answers(answers, prefer=options.prefer)
    if len(given.settings) > 1:
        listed = ", ".join(given.settings.values())
        raise AnswersError(
            f"these answers were generated with different settings: {listed}", hint="Grade them one at a time"
        )
    output = None if options.output is None else Path(options.output)
    return grading.grade(given, output=output, partial=options.partial)


class Grading:
    """A pack, ready to grade answers to what it asks.

    Args:
        pack: The folder that prepare wrote.
        options: Which of its tasks.

    Attributes:
        options: Which of its tasks.
        tasks: Which are graded, in order.
        evaluator: Of the pack.

    Raises:
        PackError: The folder is no pack or was edited.
        ConfigError: A name that the pack does not have, or a task that runs code.
    """

    def __init__(self, pack: Path, options: ScoringOptions) -> None:
        self._started, self._pack = time.time(), pack
        self._manifest = read_manifest(pack)
        self.tasks = choose_tasks_to_grade(self._manifest, options.tasks, allow_code=options.allow_code)
        self.options = options
        self._changed = check_unchanged(pack, self._manifest, edited=options.edited)
        self.evaluator = Evaluator(pack)

    def score(self, name: str, given: Answers) -> dict[str, float]:
        """The scores of one task, 0 to 1 by ``metric,filter``, and nothing written.

        Raises:
            AnswersError: Not one of its requests is answered.
            PackError: lm-eval cannot score it.
        """
        matched = match_answers(build_requests(self.evaluator, name, self._manifest.run.limit), given, Problems())
        if not matched.docs:
            raise AnswersError("holds no gradable answer", where=name)
        return self.evaluate(name, matched.docs).scores

    def grade(
        self,
        given: Answers,
        *,
        output: Path | None = None,
        partial: bool = False,
        price_per_hour: float | None = None,
        stopped: Mapping[str, Any] | None = None,
        go_on: bool = False,
    ) -> Graded:
        """Score all tasks, and write results and samples as lm_eval does.

        Args:
            given: The answers.
            output: The folder to write into, as ``--output_path`` of lm_eval; None for that of the pack.
            partial: Grade the docs that are answered where others are not.
            price_per_hour: What the machines that answered cost an hour; None where nobody says.
            stopped: When and how a run was decided before its end; the results file says so.
            go_on: Grade the other tasks where one cannot be graded; else the first such ends it.

        Raises:
            AnswersError: They are of another pack or of several models; one is missing, and ``partial`` is not asked
                for.
            PackError: The results cannot be written.
        """
        manifest, problems = self._manifest, Problems()
        matched = _match_all(self.evaluator, manifest, self.tasks, given, problems)
        problems.check(given, partial=partial)
        chosen = [name for name in self.tasks if matched[name].docs]
        if not chosen:
            raise AnswersError("hold no gradable answer", where="the answers")
        used = [
            answer for task_answers in matched.values() for of_doc in task_answers.docs.values() for answer in of_doc
        ]
        model = _one_model(used, manifest)
        _say(matched, problems, given)
        writer = Writer(output or expand_home(manifest.run.output_path, where=str(self._pack)), model)
        price = manifest.run.price_per_hour if price_per_hour is None else price_per_hour
        done = Graded(Path(), model, Speed.of(used, price), {}, len(problems.missing), len(problems.failed))
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
                writer.add(name, evaluated, matched[name].docs)
            engines = sorted({answer.engine for answer in used if answer.engine})
            done.results = writer.finish(
                engine=", ".join(engines) or "unknown engine",
                limit=manifest.run.limit,
                started=min((answer.span[0] for answer in used if answer.span), default=self._started),
                made={
                    **asdict(done.speed),
                    **({"edited": self._changed} if self._changed else {}),
                    **({"stopped": dict(stopped)} if stopped else {}),
                },
            )
        return done

    def evaluate(
        self, name: str, docs: Mapping[int, Sequence[EngineAnswer]], *, bootstrap_iters: int = 0, hashed: bool = False
    ) -> Evaluated:
        """What lm-eval's evaluator makes of answers.

        Args:
            name: The task.
            docs: By doc the answer to each of its repeats; only these docs are scored.
            bootstrap_iters: lm-eval's, for standard errors; 0 for none.
            hashed: Whether its samples are written, with lm-eval's hashes.

        Raises:
            PackError: lm-eval cannot score them.
        """
        task = self.evaluator.load(name)
        numbers = sorted(docs)
        settings = task.config.generation_kwargs or {}
        stop = settings.get("until") or ()
        stop = (stop,) if isinstance(stop, str) else tuple(stop)
        return self.evaluator.evaluate(
            name,
            task=task,
            answers=[_replayed(docs[number], stop, int(task.config.repeats or 1)) for number in numbers],
            indices=numbers if len(numbers) < len(task.eval_docs) else None,
            allow_code=self.options.allow_code,
            bootstrap_iters=bootstrap_iters,
            hashed=hashed,
        )


def _match_all(
    evaluator: Evaluator,
    manifest: Manifest,
    chosen: Sequence[str],
    given: Answers,
    problems: Problems,
) -> dict[str, Matched]:
    """Match the answers of all tasks before the first is graded, so that faults show at once."""
    matched = {}
    known = set(manifest.tasks) - set(chosen)
    for name in chosen:

        def noted(name: str = name) -> Iterable[Any]:
            for request in build_requests(evaluator, name, manifest.run.limit):
                known.add(request.id)
                yield request

        matched[name] = match_answers(noted(), given, problems)
    note_unknown_answers(given, chosen, known, problems)
    return matched


def _replayed(of_doc: Sequence[EngineAnswer], stop: Sequence[str], repeats: int) -> Replayed:
    """A doc's answers as a model gives them: by the index of the request, one for each time that it was asked.

    Args:
        of_doc: The answers; of choices behind several prompts those behind each prompt, in order.
        stop: Texts at which an answer ends.
        repeats: How often the task asks each request.
    """
    if of_doc[0].text is not None:
        return {0: [cut_at_stop(answer.text or "", stop) for answer in of_doc]}
    if repeats == 1:
        choices = [choice for answer in of_doc for choice in answer.choices]
        return {index: [(value, bool(greedy))] for index, (value, greedy) in enumerate(choices)}
    return {
        index: [(answer.choices[index][0], bool(answer.choices[index][1])) for answer in of_doc]
        for index in range(len(of_doc[0].choices))
    }


def _one_model(used: Sequence[EngineAnswer], manifest: Manifest) -> str:
    models = {answer.model: answer.where for answer in reversed(used) if answer.model}
    if len(models) > 1:
        listed = ", ".join(f"{name} ({where})" for name, where in sorted(models.items()))
        raise AnswersError(f"these answers come from {len(models)} models: {listed}", hint="Grade one model at a time")
    return next(iter(models), manifest.run.model_name)


def _say(matched: dict[str, Matched], problems: Problems, given: Answers) -> None:
    if given.cut_off:
        log.warning(f"{len(given.cut_off):,} truncated lines were ignored; the first is {given.cut_off[0]}")
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
