"""A record made of the log of another harness: answers with the verdicts that the harness gave.

A format reads its files to answers (`record_answer`), and `LogRecord` does the rest: answers to one question become a
doc, docs are paired by content, and what has no verdict is left out and counted. The grader of a log is its own. A pack
needs one that runs here: the exact match with the right answer, where it gives every recorded verdict.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from meta_eval.base.assets.details.details_scoring import exact_match
from meta_eval.base.assets.details.text_matching import text_match
from meta_eval.base.display import one_line, plural, quoted
from meta_eval.base.errors import DataError, SourceError, locating
from meta_eval.base.hashing import hash_pieces, hash_text, hash_texts
from meta_eval.base.inputs import parse_json
from meta_eval.base.pack_names import is_name, join_names
from meta_eval.base.secrets import hide_secrets, redact_secrets
from meta_eval.base.thresholds import SAME_VALUE
from meta_eval.harness.answer import join_ends
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.records.format import Grader, Reading, Record, RecordedScore, RecordedTask
from meta_eval.pack.records.log_entries import advising
from meta_eval.pack.records.recorded_docs import (
    RecordedDoc,
    RecordedDocs,
    count_repeated_prompts,
    format_chat_body,
    format_doc,
)
from meta_eval.pack.records.task_code import make_grader_code
from meta_eval.pack.records.task_groups import ALL
from meta_eval.stats import mean

# The shipped graders of texts, by what they call their verdict.
_EXACT, _MATCH = "em,none", "match,none"
_GRADERS = {_EXACT: "exact_match", _MATCH: "text_match"}


@dataclass(slots=True)
class LoggedTask:
    """A task of a log."""

    name: str
    """Its name in the log."""

    answers: Sequence[RecordedDoc]
    """Each with one answer, in the log's order."""

    harness: str
    """The harness that wrote it."""

    model: str | None = None
    """The model; None if unknown."""

    time: str | None = None
    """When it was run, ISO 8601 without a zone, in UTC; None if unknown."""

    file: str | None = None
    """The name of its file inside the place; None if the place is the file."""

    generation: Mapping[str, Any] | None = None
    """The settings of generation, by lm-eval's names; None if unknown."""

    scores: Mapping[str, float] = field(default_factory=dict)
    """The log's own means over all docs, by metric. They are compared with the verdicts."""

    rounding: float = 0.51e-4
    """How far ``scores`` may be from the means of the verdicts."""

    grader: str | None = None
    """The harness's grader in words; None if unknown."""

    settings: Mapping[str, Any] | None = None
    """The settings that change what was asked, without those of generation: see `RecordFormat.settings`. None if
    unknown."""

    grader_settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the grader: see `RecordFormat.grader_settings`."""

    version: str | None = None
    """The task's version; None if unknown."""

    shots: int | None = None
    """Number of examples before each question; None if unknown."""

    missing: int = 0
    """Docs of the task that were not run."""

    warnings: Sequence[str] = ()
    """What a reader has to know, each a clause."""

    has_stable_keys: bool = False
    """Whether a key names the same question in every run. Keys then tell questions apart whose content is the same,
    which are otherwise paired in their order."""

    matching: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By metric how it looks for the right answer, as the shipped grader ``text_match`` reads it: ``location``,
    ``ignore_case`` and ``numeric``. None of metrics that do something else."""

    obstacle: str | None = None
    """Why it cannot be asked again, a clause; None if nothing is known to prevent it."""

    def __post_init__(self) -> None:
        """Take no credential of a log: packs and pages have these values."""
        self.model = self.model and redact_secrets(self.model)
        self.generation, self.settings = hide_secrets(self.generation), hide_secrets(self.settings)
        self.grader_settings = hide_secrets(self.grader_settings)


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A run of a task that a place holds."""

    task: str
    """The task, as its harness names it."""

    read: Callable[[], LoggedTask]
    """Reads it. It may raise a `DataError` or a `SourceError`, which concerns this task alone."""

    time: str = ""
    """When it was run; empty if unknown."""

    results: Path | None = None
    """A file that names it alone; None if there is none."""


def make_task_name(name: str) -> str:
    """The name of a task for lm-eval: other characters become ``_``. A name in another script gets a hash, so that two
    such names differ."""
    name = redact_secrets(name)  # before it is no address any more
    made = re.sub(r"[^A-Za-z0-9_.:+-]+", "_", name).lstrip("-.:+")[:100]
    made = made if name.isascii() and made else f"{made or '_'}{hash_text(name)[:8]}"
    return made if is_name(made) else f"_{hash_text(name)[:8]}"


class LogRecord(Record):
    """A run of another harness.

    Args:
        name: The place, as the user wrote it.
        tasks: The tasks of the run, also those that are still to be read.

    Raises:
        SourceError: There is no task, or two have one name.
    """

    def __init__(self, name: str, tasks: Sequence[LoggedTask | FoundLog]) -> None:
        names = [make_task_name(task.task if isinstance(task, FoundLog) else task.name) for task in tasks]
        if not tasks:
            raise SourceError("holds no task", where=name)
        if twice := [task for task, count in Counter(names).items() if count > 1]:
            raise SourceError(
                f"holds {join_names(twice, 3)} more than once", where=name, hint="Name the file of one run"
            )
        self.name, self.tasks = name, tuple(names)
        self.groups = {ALL: self.tasks}
        self._tasks = dict(zip(names, tasks, strict=True))

    @advising()
    def read(self, task: str, reading: Reading) -> RecordedTask:
        found = self._tasks[task]
        logged = found.read() if isinstance(found, FoundLog) else found
        answers = _group(logged.answers)
        if not answers:
            raise DataError("holds no answer", hint="Use the log of a run that ended")
        metric = _find_main_metric(logged.answers)
        docs = [[answer for answer in some if not answer.fault and metric in answer.metrics] for some in answers]
        graded = [some for some in docs if some]
        if metric is None or not graded:
            faults = [answer.fault for answer in logged.answers if answer.fault]
            first = f"; the first: {one_line(faults[0])[:200]}" if faults else ""
            raise DataError(
                f"no answer has a verdict{first}", hint="Score the log first, or use the log of another run"
            )
        rows = [_join(some, metric) for some in graded]
        if logged.has_stable_keys:
            _tell_apart(rows)
        counts = {
            "unanswered": len(docs) - len(graded),
            "partial_run": logged.missing,
            "duplicate_prompts": count_repeated_prompts(rows),
        }
        is_chat = {answer.is_chat for some in graded for answer in some if answer.prompt}
        recorded = RecordedTask(
            rows=RecordedDocs(
                rows, dict(logged.generation or {}), None, counts,
                asked_as="chat" if is_chat == {True} else "text",
            ),
            output_type="generate_until",
            revision="sha256:" + hash_pieces(f"{answer!r}\n" for answer in logged.answers),
            entry=RecordEntry(
                model=logged.model, time=logged.time, results_file=logged.file, lm_eval=None, backend=logged.harness,
                bos_text=None, chat_template=is_chat == {True}, task_version=logged.version,
                shots=None if logged.shots is None else str(logged.shots),
            ),
            benchmark=logged.name,
            specs=[f"{name},none" for name in dict.fromkeys(name for some in graded for name in some[0].metrics)],
            about=logged,
            grader=logged.grader,
            settings=logged.settings,
            grader_settings=logged.grader_settings,
        )  # fmt: skip
        recorded.warnings = [*_list_warnings(logged, docs, counts), *self._compare_scores(recorded, logged)]
        if reading.output_type is None:
            _take_grader(recorded, f"{metric},none", is_chat, logged)
        return recorded

    def grader(self, task: str, recorded: RecordedTask, reading: Reading) -> Grader:  # noqa: ARG002
        (metric_key,) = recorded.specs
        return Grader(make_grader_code(_GRADERS[metric_key], task), metric_key)

    def _compare_scores(self, recorded: RecordedTask, logged: LoggedTask) -> list[str]:
        """Take the log's own means that its verdicts give, also as percents; of each other a warning."""
        rows, warnings, scores = recorded.rows.rows, [], {}
        for metric, value in logged.scores.items():
            key = f"{_clean_metric(metric)},none"
            values = [row.metrics[key] for row in rows if key in row.metrics]
            if not values:
                continue
            tolerance = max(SAME_VALUE, logged.rounding)
            if any(math.isclose(scale * mean(values), value, abs_tol=scale * tolerance) for scale in (1, 100)):
                scores[key] = RecordedScore(mean(values))
            else:
                reasons = (
                    why for other, why in _list_other_means(metric, values, logged) if abs(other - value) <= tolerance
                )
                why = next(reasons, None)
                warnings.append(
                    f"its log says {metric} {value:.4f}, and its verdicts give {mean(values):.4f}"
                    f"{f' ({why})' if why else ''}: these count"
                )
        recorded.scores = scores
        return warnings


class TextRecord(Record):
    """A recorded run that consists of texts only: prompt, answer and gold, graded by exact match.

    Args:
        name: The place, as the user wrote it.
        answers: The answers of each task, one for each doc. Their only verdict is ``em``.
        model: The model that answered; None if unknown.
        generation: lm-eval's generation settings of every request, such as ``until`` and ``max_gen_toks``; without
            ``max_gen_toks`` the limit is `meta_eval.base.thresholds.MAX_GEN_TOKS`.
    """

    def __init__(
        self,
        name: str,
        answers: Mapping[str, Sequence[RecordedDoc]],
        *,
        model: str | None = None,
        generation: Mapping[str, object] | None = None,
    ) -> None:
        self.name, self.tasks, self.groups = name, tuple(answers), {ALL: tuple(answers)}
        self._answers, self._model = answers, model
        self._generation = {"until": [], "do_sample": False, **(generation or {})}

    def read(self, task: str, reading: Reading) -> RecordedTask:  # noqa: ARG002
        answers, where = self._answers[task], f"{self.name}, {task}"
        if not answers:
            raise DataError("holds no answer", where=where)
        for number, answer in enumerate(answers):
            with locating(f"{where}, doc {number}"):
                if not answer.prompt:
                    raise DataError("has no prompt")
                text = answer.responses[0][0] if answer.responses else None
                _check_texts(answer=text, gold=answer.gold)
        rows = [_join([_ask_text(answer)], "em") for answer in answers]
        verdicts = [row.metrics[_EXACT] for row in rows if row.metrics]
        return RecordedTask(
            rows=RecordedDocs(
                rows, dict(self._generation), None, {"duplicate_prompts": count_repeated_prompts(rows)}
            ),
            output_type="generate_until",
            revision="sha256:" + hash_pieces(f"{answer!r}\n" for answer in answers),
            entry=RecordEntry(
                model=self._model, time=None, results_file=None, lm_eval=None, backend=None, bos_text=None,
                chat_template=False, shots=None, task_version=None,
            ),
            benchmark=task,
            scores={_EXACT: RecordedScore(mean(verdicts))} if len(verdicts) == len(answers) else {},
            specs=[_EXACT],
        )  # fmt: skip

    def grader(self, task: str, recorded: RecordedTask, reading: Reading) -> Grader:  # noqa: ARG002
        return Grader(make_grader_code(_GRADERS[_EXACT], task), _EXACT)


def _ask_text(answer: RecordedDoc) -> RecordedDoc:
    """An answer to a text that is graded by exact match."""
    golds = [answer.gold, *answer.doc.get("other_golds", ())]
    doc = {"query": answer.prompt, "gold": answer.gold, "golds": golds, **answer.doc}
    doc.pop("other_golds", None)
    return replace(answer, doc=doc)


def _check_texts(**values: object) -> None:
    """Check that a format gave a text for each of these: a missing column is often None.

    Raises:
        DataError: It gave something else.
    """
    for name, value in values.items():
        if not isinstance(value, str):
            found = "has no" if value is None else f"has {value!r:.40} as"
            raise DataError(f"{found} {name}", hint=f"A row needs a text as {name}: look at its columns")


def _list_other_means(metric: str, values: Sequence[float], logged: LoggedTask) -> Iterator[tuple[float, str]]:
    """Means that a harness may write instead of that of its docs, each with how it comes about.

    Args:
        metric: The metric.
        values: Its value of each doc.
        logged: The task.
    """
    of_answers = [answer.metrics[metric] for answer in logged.answers if not answer.fault and metric in answer.metrics]
    count, without = len(logged.answers), len(logged.answers) - len(of_answers)
    if without:
        yield sum(of_answers) / count, f"{without} of {plural(count, 'answer')} without a verdict count as 0 in the log"
    yield (
        mean(of_answers),
        f"over {plural(len(of_answers), 'answer')} in the log, over {plural(len(values), 'doc')} here",
    )
    yield min(1.0, max(0.0, mean(values))), "the log clips its mean to 0 to 1"
    yield mean([min(1.0, max(0.0, value)) for value in values]), "the log clips each verdict to 0 to 1"


def _find_main_metric(answers: Sequence[RecordedDoc]) -> str | None:
    """The metric that says whether an answer is right: of those that at least half of the answers have, the one that
    most often stands first where there are several. None without any."""
    verdicts = [answer.metrics for answer in answers if not answer.fault and answer.metrics]
    counts = Counter(chain.from_iterable(verdicts))
    usual = {name for name, count in counts.items() if 2 * count >= len(verdicts)} or set(counts)
    several = [some for some in verdicts if len(some) > 1] or verdicts
    firsts = Counter(name for some in several if (name := next((name for name in some if name in usual), None)))
    return max(firsts, key=firsts.__getitem__, default=None)


def _group(answers: Sequence[RecordedDoc]) -> list[list[RecordedDoc]]:
    """The answers of each doc, in the log's order.

    Raises:
        DataError: One is there twice, or answers of a doc are to different questions.
    """
    docs: dict[str, dict[int, RecordedDoc]] = {}
    for answer in answers:
        _check_texts(key=answer.key, gold=answer.gold)
        others = docs.setdefault(answer.key, {})
        if answer.repeat in others:
            raise DataError(f"holds {quoted(answer.key)} twice", hint="Use the log of one run, as it was written")
        first = next(iter(others.values()), answer)
        if _get_question(first) != _get_question(answer):
            raise DataError(f"holds two questions with the id {quoted(answer.key)}", hint="Use the log of one run")
        others[answer.repeat] = answer
    return [[some[repeat] for repeat in sorted(some)] for some in docs.values()]


def _get_question(answer: RecordedDoc) -> dict[str, Any]:
    return {name: value for name, value in answer.doc.items() if name not in ("other_golds", "subtask_name")}


def _clean_metric(name: str) -> str:
    """A metric's name without the comma that separates it from its filter."""
    return one_line(name.replace(",", "_"))[:100]


def _join(answers: Sequence[RecordedDoc], metric: str) -> RecordedDoc:
    """The doc of some answers to it, with the verdicts that all of them have, the metric's first."""
    first, several = answers[0], len(answers) > 1
    names = [name for name in first.metrics if all(name in answer.metrics for answer in answers)]
    names.sort(key=lambda name: name != metric)
    values = {f"{_clean_metric(name)},none": [float(answer.metrics[name]) for answer in answers] for name in names}
    shares = {key: some for key, some in values.items() if all(0 <= value <= 1 for value in some)}
    ends, tokens = [answer.finish_reason for answer in answers], [answer.completion_tokens for answer in answers]
    known_tokens = [count for count in tokens if count is not None]
    extracted = [text for answer in answers for text in answer.extracted or ()]
    texts = [text for answer in answers for (text,) in answer.responses or ()]
    return replace(
        first,
        doc={**first.doc},
        question_hash=hash_text(format_doc(first.doc)),
        responses=[texts] if len(texts) == len(answers) else None,
        metrics={key: mean(some) for key, some in values.items()},
        finish_reason=join_ends(ends),
        completion_tokens=sum(known_tokens) if len(known_tokens) == len(tokens) else None,
        extracted=tuple(extracted) if len(extracted) == len(answers) else None,
        verdict_of_each=shares if several else None,
        finish_reasons=tuple(ends) if several else None,
        turns=hash_texts(answer.turns for answer in answers) if any(answer.turns for answer in answers) else "",
    )


def _tell_apart(rows: Sequence[RecordedDoc]) -> None:
    """Put the key into docs whose content another doc has, too."""
    counts = Counter(row.question_hash for row in rows)
    for row in rows:
        if counts[row.question_hash] > 1:
            row.doc["key"] = row.key
            row.question_hash = hash_text(format_doc(row.doc))


def _list_warnings(logged: LoggedTask, docs: Sequence[Sequence[RecordedDoc]], counts: Mapping[str, int]) -> list[str]:
    warnings = list(logged.warnings)
    if counts["unanswered"]:
        fault = next((answer.fault for answer in logged.answers if answer.fault), None)
        first = f"; the first: {one_line(fault)[:200]}" if fault else ""
        words = "doc has no verdict in the log, and is left out"
        many = "docs have no verdict in the log, and are left out"
        number = counts["unanswered"]
        warnings.append(f"{number:,} {words if number == 1 else many}{first}")
    lost = sum(1 for answer in logged.answers if answer.fault) - sum(not some for some in docs)
    if lost > 0 and any(len(some) > 1 for some in docs):
        warnings.append(f"{plural(lost, 'repeated answer')} failed, and the others of their docs count")
    return warnings


def _take_grader(recorded: RecordedTask, metric_key: str, is_chat: set[bool], logged: LoggedTask) -> None:
    """Grade by exact match, else as the log matched texts: a pack can do both. The recorded verdicts must be the same.

    Raises:
        SourceError: They are not, or the log does not say what was sent.
    """
    rows = recorded.rows.rows
    hint = "`meta-eval compare` reads its verdicts; for a pack, record the task with `lm_eval --log_samples`"
    if logged.obstacle:
        raise SourceError(f"cannot be asked again: {logged.obstacle}", hint=hint)
    if not is_chat or not all(row.prompt and row.responses for row in rows):
        raise SourceError(
            "does not say what the model was sent and what it answered, so that it cannot be asked again", hint=hint
        )
    if is_chat == {True, False}:
        raise SourceError("has prompts that are texts, and others that are chat messages", hint=hint)
    for row in rows:
        if is_chat == {True}:
            messages = parse_json(row.prompt)["messages"]
            format_chat_body(messages)
            if not all(map(_is_text, messages)):
                raise SourceError("has prompts with images, audio or other parts that are no text", hint=hint)
        golds = [row.gold, *row.doc.pop("other_golds", ())]
        row.doc = {**row.doc, "query": row.prompt, "gold": row.gold, "golds": golds}
    recorded_verdicts = [row.metrics.get(metric_key) for row in rows]
    matching = logged.matching.get(metric_key.removesuffix(",none"))
    graders: list[tuple[str, Mapping[str, Any]]] = [(_EXACT, {}), *([(_MATCH, matching)] if matching else [])]
    for spec, settings in graders:
        verdicts = [_grade({**row.doc, **settings}, row.responses or [], spec) for row in rows]
        if verdicts == recorded_verdicts:
            break
    else:
        grader = f" ({logged.grader:.200})" if logged.grader else ""
        raise SourceError(
            f"was graded by {logged.harness}{grader}, which meta-eval does not run: an exact match with the right "
            f"answer {'or a match of texts ' if matching else ''}does not give the recorded verdicts",
            hint=hint,
        )
    for row, verdict in zip(rows, verdicts, strict=True):
        row.doc |= settings
        row.metrics = {spec: verdict}
    recorded.specs, recorded.scores = [spec], {spec: RecordedScore(mean(verdicts))}


def _is_text(message: Mapping[str, Any]) -> bool:
    """Whether a chat message is text, also in parts."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return all(isinstance(part, Mapping) and part.get("type") == "text" for part in parts)


def _grade(doc: Mapping[str, Any], responses: Sequence[Sequence[str]], spec: str) -> float:
    """The verdict of a shipped grader on the only answer to a doc; NaN where there are several."""
    answers = responses[0] if responses else ()
    if len(answers) != 1:
        return math.nan
    if spec == _EXACT:
        return exact_match(dict(doc), list(answers))["em"]
    return text_match(dict(doc), list(answers))["match"]
