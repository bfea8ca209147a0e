"""Alarms of a run: of its files, its settings and its answers.

Faults of single docs raise an alarm by the rule of its kind, in `meta_eval.judge.alarms`. `meta_eval.judge.pair_alarms`
has the alarms of both runs together.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from meta_eval import stats
from meta_eval.base.display import plural
from meta_eval.base.errors import UserError
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import (
    ALARM_BAD_LIKELIHOOD,
    ALARM_FLOOR,
    ALARM_FLOOR_OF_BASELINE,
    ALARM_LIMIT_HIT,
    ALARM_NONE_RIGHT,
    ALARM_OTHER_FORMAT,
    ALPHA,
    NAMED,
)
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import Run, TaskRun, is_same_run
from meta_eval.harness.provenance import AnswerOrigins, Provenance, count_names
from meta_eval.harness.scores import ScoredRun
from meta_eval.judge.alarm_kinds import AlarmOccurrence, DocsAbove, RaisedAlarm
from meta_eval.judge.alarms import INVALID, OF_DOCS, list_doc_rules
from meta_eval.pack.backends.base import AddedBos, UnknownBackendError
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.manifest import TaskEntry
from meta_eval.pack.prompt_lengths import find_tokenizer


def find_alarms(
    task: str, result: TaskRun | None, scored: ScoredRun, run: int, metric_key: str, *,
    beside: ScoredRun | None, expected: float | None, is_candidate: bool = True, of_pack: bool = False,
) -> Iterator[RaisedAlarm]:  # fmt: skip
    """Find what is wrong with a run of a task.

    Args:
        task: Its name.
        result: The run; None for recorded verdicts, of which nothing but the docs is known.
        scored: All runs of the model.
        run: The index of the run.
        metric_key: The ``metric,filter`` of single verdicts.
        beside: What the model stands beside: of a candidate the baseline, and of a baseline the candidate. Rules
            with ``beside`` take off the share of its docs.
        expected: The score of a baseline, or the published one; None if neither is known.
        is_candidate: Whether the run is the candidate's.
        of_pack: Whether it is what the pack recorded: what the pack asks is what it was asked.
    """
    docs = scored.runs[run]
    if not docs:
        return
    filter_name = metric_key.partition(",")[2]
    if result is not None:
        yield from find_task_origins(task, result.provenance.origins)
        yield from _find_other_format(task, result, scored, run, metric_key)
        if not of_pack:
            yield from _find_unjudged_answers(task, result, docs, filter_name)
    for kind, rule in list_doc_rules():
        if of_pack and kind in INVALID:
            continue
        count, known = _count(scored, run, rule, filter_name)
        others, of = _count(beside, 0, rule, filter_name) if beside and rule.beside else (0, 0)
        if rule.of_candidate and (not is_candidate or (rule.beside and not of)):
            continue
        of = of or 1
        more, all_pairs = count * of - others * known, known * of  # whole numbers: 7 % less 5 % are 2 %
        if more > rule.above * all_pairs:
            by_chance = rule.beyond_chance and stats.tail_p_value(count, known, rule.above) >= ALPHA
            # A baseline that is cut more often makes nobody look better than he is.
            is_harmless = by_chance or (kind == "limit" and not is_candidate)
            veto = more > rule.grave * all_pairs and not is_harmless
            yield kind, AlarmOccurrence(task, None, count, known, veto=veto)
    if bad := sum(doc.has_bad_likelihood for doc in docs):
        yield "likelihoods", AlarmOccurrence(task, None, bad, len(docs), veto=bad >= ALARM_BAD_LIKELIHOOD * len(docs))
    yield from _find_low_score(task, scored, run, metric_key, expected)
    hit, _ = _count(scored, run, OF_DOCS["limit"], filter_name)
    unknown = sum(doc.limit_hit is None and not doc.is_cut_thinking and doc.answer_tail != "" for doc in docs)
    if unknown and hit <= ALARM_LIMIT_HIT * len(docs) < hit + unknown:
        yield "cut unknown", AlarmOccurrence(task, None, unknown, len(docs), veto=False)


def _count(scored: ScoredRun, run: int, rule: DocsAbove, filter_name: str) -> tuple[int, int]:
    """The docs of a run with a fault, and those of which it is known; each side is asked for its own alarms and beside
    the other's."""
    key = run, rule, filter_name
    if rule.metric is not None and rule.metric not in scored.list_metrics(run):
        return 0, len(scored.runs[run])
    if key not in scored.counted:
        marks = [rule.has(doc, filter_name) for doc in scored.runs[run]]
        scored.counted[key] = sum(map(bool, marks)), len(marks) - marks.count(None)
    return scored.counted[key]


def count_changed_prompts(docs: Sequence[DocResult]) -> int:
    """Count the docs that were asked with another prompt than the pack's."""
    return sum(doc.prompt_matches is False for doc in docs)


def find_faults(run: Run, side: str | None = None) -> list[RaisedAlarm]:
    """The tasks of a run that cannot be judged, because their files are damaged or have other docs.

    Args:
        run: The run.
        side: ``A`` or ``B`` if two runs are compared.
    """
    return [("left out", AlarmOccurrence(task, side, note=reason)) for task, reason in run.faults.items()]


def find_same_run(baseline: Run, candidate: Run) -> list[RaisedAlarm]:
    """Raise an alarm if both sides are one run: one file, or a copy."""
    for task in sorted(baseline.tasks.keys() & candidate.tasks.keys()):
        sides = [run.tasks[task] for run in (baseline, candidate)]
        if is_same_run(*sides):
            files = [side.provenance.results_file for side in sides]
            names = ["/".join(file.parent.resolve().parts[-2:]) for file in files if file]
            return [("same run", AlarmOccurrence(None, note=" and ".join(names)))]
    return []


def identify_answers(run: Run) -> int | None:
    """A number that two runs share if their answers to all docs are the same; None if an answer is not known."""
    answers = tuple((task, doc.doc_id, doc.answer_hash) for task, of in sorted(run.tasks.items()) for doc in of.docs)
    return hash(answers) if answers and all(answer for *_, answer in answers) else None


def _find_low_score(
    task: str, scored: ScoredRun, run: int, metric_key: str, expected: float | None
) -> Iterator[RaisedAlarm]:
    scores = scored.scores_of_run(run, metric_key)
    if scores is None or scores.lower_is_better:
        return
    counts = [scored.runs[run][position].n_choices for position in scores.doc_indices]
    choice_counts = [count for count in counts if count]
    upper, score = scores.interval.upper, 100 * scores.value
    if len(choice_counts) == len(counts):
        chance = stats.mean([1 / count for count in choice_counts])
        if upper < chance:
            yield "chance", AlarmOccurrence(task, note=f"{score:.1f}, and guessing would give {100 * chance:.1f}")
    elif upper < max(ALARM_FLOOR, ALARM_FLOOR_OF_BASELINE * (expected or 0.0)) or (
        not score and len(counts) >= ALARM_NONE_RIGHT
    ):
        expectation = "" if not expected else f", and {100 * expected:.1f} was to be expected"
        shown = f"{score:.{1 if score >= 0.1 else 2}f}" if score else f"none of {len(counts):,} docs"
        yield "floor", AlarmOccurrence(task, note=f"{shown}{expectation}")


def _find_other_format(
    task: str, result: TaskRun, scored: ScoredRun, run: int, metric_key: str
) -> Iterator[RaisedAlarm]:
    """Raise an alarm if another filter of the same metric scores much higher than the verdict's filter."""
    metric, _, strict = metric_key.partition(",")
    verdict_scores = scored.scores_of_run(run, metric_key)
    others = {name: scored.scores_of_run(run, f"{metric},{name}") for name in result.filters if name != strict}
    sign = -1 if verdict_scores and verdict_scores.lower_is_better else 1
    best = max(((sign * other.value, name) for name, other in others.items() if other is not None), default=None)
    if verdict_scores is None or best is None or best[0] - sign * verdict_scores.value <= ALARM_OTHER_FORMAT:
        return
    note = f"filter {best[1]} scores {100 * abs(best[0]):.1f}, and {strict} {100 * verdict_scores.value:.1f}"
    yield "format", AlarmOccurrence(task, note=note, veto=False)


def _find_unjudged_answers(task: str, result: TaskRun, docs: Sequence[DocResult], name: str) -> Iterator[RaisedAlarm]:
    """Raise an alarm if a filter takes one of several answers to a doc. A vote takes all of them."""
    if name in result.provenance.grader.voting or "maj" in name.lower():
        return
    answers = [(doc.filter_results.get(name), len(doc.cuts)) for doc in docs if len(doc.cuts) > 1]
    counts = [count for answer, count in answers if answer and answer.answers_given == 1 and not answer.verdict_of_each]
    if counts:
        yield "one of several", AlarmOccurrence(task, note=f"{name} judges 1 of {max(counts)} answers", veto=False)


def find_run_problems(
    name: str, runs: Sequence[TaskRun], entry: TaskEntry | None, *, needs_all: bool
) -> list[RaisedAlarm]:
    """Find what is wrong with a run, apart from its answers.

    Args:
        name: The task.
        runs: Its runs.
        entry: What the pack says of it.
        needs_all: Whether all docs of the pack are needed.
    """
    problems: list[RaisedAlarm] = []
    for result in runs:
        if not result.docs:
            problems.append(("no samples", AlarmOccurrence(name)))
            continue
        part = explain_unfinished(result, entry) if entry and needs_all else None
        problems += [("unfinished", AlarmOccurrence(name, note=part))] if part else []
        faults = result.provenance.endpoint.faults if result.provenance.endpoint else ()
        problems += [("endpoint", AlarmOccurrence(name, note="; ".join(faults), veto=False))] if faults else []
        settings = find_other_generation(result) if entry else None
        problems += [("settings", AlarmOccurrence(name, note=settings.partition(": ")[2]))] if settings else []
        problems += [("two bos", two_bos)] if (two_bos := find_two_bos(result)) else []
        problems += [("no bos", no_bos)] if entry and (no_bos := _find_no_bos(result, entry)) else []
    problems += [("sample", AlarmOccurrence(name))] if entry and entry.invented else []
    return problems


def explain_unfinished(result: TaskRun, entry: TaskEntry) -> str | None:
    """Why a run does not have all docs of the pack, or why this is unknown; None if it has."""
    provenance = result.provenance
    if provenance.results_file is None:
        return "there is no results file beside the samples, so nobody knows what was run"
    if result.skipped:
        return f"{result.skipped} damaged lines or docs are left out"
    if len(result.docs) != entry.docs:
        limited = f" (--limit {provenance.limit:g})" if provenance.limit is not None else ""
        stopped = f": it stopped when it was decided, {provenance.stopped}" if provenance.stopped else ""
        return f"{len(result.docs)} of {entry.docs} docs were run{limited}{stopped}"
    return None


def find_other_settings(result: TaskRun) -> str | None:
    """Why the answers are not to the pack's requests under its settings; None if they are."""
    changed = count_changed_prompts(result.docs)
    if changed:
        return f"{changed} of {len(result.docs)} prompts did not reach the model as they stand in the pack"
    return find_other_generation(result)


def find_other_generation(result: TaskRun) -> str | None:
    settings = ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in sorted(result.provenance.gen_kwargs.items())
    )
    return f"the answers were generated with other settings than the task's: {settings}" if settings else None


RaisedOrigin = tuple[Literal["models", "endpoints"], AlarmOccurrence]


def find_task_origins(task: str, origins: AnswerOrigins) -> Iterator[RaisedOrigin]:
    """Several models or deployments in the answers of a task forbid SHIP; a single other name is only said.

    Args:
        task: Its name.
        origins: Of its answers.
    """
    total = sum(origins.models.values())
    if len(origins.models) > 1:
        other = total - origins.models.get(origins.asked or "", max(origins.models.values()))
        asked = f", and {origins.asked} was requested" if origins.asked else ""
        yield "models", AlarmOccurrence(task, None, other, total, f"they name {count_names(origins.models)}{asked}")
    elif origins.other_models:
        (name,) = origins.models
        note = f"all name {name}, and {origins.asked} was requested"
        yield "models", AlarmOccurrence(task, None, total, total, note, veto=False)
    if len(origins.endpoints) > 1:
        named = {" and ".join(addresses): count for addresses, count in origins.endpoints.items()}
        yield "endpoints", AlarmOccurrence(task, note=count_names(named))


def find_run_origins(run: Run, side: str | None = None) -> Iterator[RaisedOrigin]:
    """The same across the tasks and runs of a model. Tasks whose own answers have several origins are left out.

    Args:
        run: The run.
        side: ``A`` or ``B`` if two runs are compared.
    """
    where = f"in {side}, " if side else ""
    models: dict[str, list[str]] = {}
    endpoints: dict[tuple[str, ...], list[str]] = {}
    for task in run.tasks:
        for origins in (result.provenance.origins for result in run.all_runs(task)):
            if len(origins.models) == 1:
                models.setdefault(next(iter(origins.models)), []).append(task)
            if len(origins.endpoints) == 1:
                (addresses,) = origins.endpoints
                own = next((some for some in endpoints if set(some) & set(addresses)), addresses)
                endpoints.setdefault(own, []).append(task)
    if len(models) > 1:
        yield "models", AlarmOccurrence(None, side, note=f"{where}tasks name {_list_tasks(models)}")
    if len(endpoints) > 1:
        named = {", ".join(addresses): tasks for addresses, tasks in endpoints.items()}
        note = f"{where}tasks came from {_list_tasks(named)}"
        yield "endpoints", AlarmOccurrence(None, side, note=note, veto=False)


def _list_tasks(tasks: dict[str, list[str]]) -> str:
    return "; ".join(f"{name} ({join_names(list(dict.fromkeys(some)), NAMED)})" for name, some in tasks.items())


def find_two_bos(run: TaskRun) -> AlarmOccurrence | None:
    """Find the prompts of a run that reached the model with two BOS tokens; None if there are none."""
    added = _explain_added_bos(run.provenance)
    brought = Counter(doc.leading_bos for doc in run.docs if doc.leading_bos)
    brought = Counter({texts: count for texts, count in brought.items() if _count_bos(texts) + bool(added) > 1})
    if not brought:
        return None
    texts, count = brought.most_common(1)[0][0], sum(brought.values())
    begin = "begins" if count == 1 else "begin"
    prompts = f"{count:,} of {plural(len(run.docs), 'prompt')} {begin} with {texts:.60}"
    return AlarmOccurrence(run.task, note=f"{prompts}, and {added}" if added else prompts)


def _find_no_bos(run: TaskRun, entry: TaskEntry) -> AlarmOccurrence | None:
    """Find that the prompts of a run reached the model without the BOS that they rely on; None if they did not, or if
    that is unknown: its tokenizer must lie in a folder on this machine."""
    arguments = run.provenance.model_args
    model = next(filter(None, map(arguments.get, ("tokenizer", "pretrained", "model"))), None)
    is_off = arguments.get("add_bos_token", "").lower() == "false"
    if run.is_chat or not (is_off or (model and Path(model).is_dir())) or not entry.needs_bos:
        return None
    if any(doc.leading_bos for doc in run.docs):
        return None
    try:
        tokenizer = None if is_off else find_tokenizer(model or "")
    except UserError:
        return None
    if tokenizer is not None and not tokenizer.encode("", add_special_tokens=True).ids:
        return AlarmOccurrence(run.task, note=f"the tokenizer of {run.provenance.model} puts none before a text")
    return AlarmOccurrence(run.task, note="add_bos_token=False") if is_off else None


def _count_bos(texts: str) -> int:
    return len(re.findall(r"[<\[][^<\[]*", texts))


def _explain_added_bos(provenance: Provenance) -> str | None:
    """How lm-eval's backend put a BOS before the prompt, a clause; None if it did not, or if that is unknown."""
    numbers = re.match(r"\d{1,9}(?:\.\d{1,9})*", provenance.lm_eval or "")
    added = _find_added_bos(provenance.backend or "")
    if added is None or numbers is None:
        return None
    if added.until is not None and tuple(map(int, numbers[0].split("."))) >= added.until:
        return None
    if provenance.model_args.get("add_bos_token", "").lower() == "true":
        why = "add_bos_token=True"
    elif added.for_gemma and "gemma" in (provenance.model or "").lower():
        why = "as for every Gemma"
    else:
        return None
    later = f"; {'.'.join(map(str, added.until))} does not" if added.until else ""
    return f"lm-eval {numbers[0]} put another in front on {provenance.backend} ({why}{later})"


def _find_added_bos(backend: str) -> AddedBos | None:
    try:
        return find_backend(backend).added_bos
    except UnknownBackendError:
        return None


def has_fixed_order(result: TaskRun, entry: TaskEntry | None) -> bool:
    """Whether a run has all docs that it was meant to have, so that what it lacks does not depend on its answers.

    A model that does not answer the docs it would get wrong must not gain by it, whatever number of docs a gate asks
    for. These are the docs of its pack; those of a stop by `run --stop-when-decided`, in its random order; or the first
    docs of the task, as many as its ``--limit`` says.
    """
    provenance, numbers = result.provenance, sorted(doc.doc_id for doc in result.docs)
    if result.skipped:
        return False
    if provenance.stopped or (entry is not None and len(numbers) == entry.docs):
        return True
    limit = provenance.limit
    if limit is not None and limit < 1:
        limit = None if provenance.docs_of_task is None else math.ceil(limit * provenance.docs_of_task)
    return limit is not None and 0 < int(limit) <= len(numbers) and numbers == list(range(len(numbers)))
