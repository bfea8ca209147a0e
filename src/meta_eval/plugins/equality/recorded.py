"""Recorded answers: files of answers of `meta-eval run`, or samples of a run with several answers to a doc."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meta_eval.ask.answer_files import read_answers
from meta_eval.ask.recorded_answers import check_same_decoding
from meta_eval.base.inputs import expand_home, open_regular
from meta_eval.base.logs import report_progress
from meta_eval.base.pack_names import join_names
from meta_eval.harness.choice import Choice
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.lm_eval_run import Run, check_choice
from meta_eval.harness.sample_parser import read_arguments, read_outputs, read_settings
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.plugins.equality.options import EqualityOptions
from meta_eval.plugins.equality.sides import Side, say
from meta_eval.sockets import ConfigError, DataError

# What the first line of a file of answers has.
_ANSWERS = re.compile(rb'^\s*\{.*"(?:format": "meta-eval answers|prompt_sha256)"')
_PEEKED = 1 << 16
_NUMBER = re.compile(r"[0-9]{1,9}")


def read_sides(options: EqualityOptions) -> tuple[Side, Side]:
    """Read the recorded answers of both sides.

    Raises:
        UserError: Files cannot be read, were generated greedily, hold one answer to each doc, or hold answers that were
            generated with other settings on the two sides.
    """
    places = [expand_home(place, where=name) for name, place in (("A", options.a), ("B", options.b))]
    files = [_find_answer_files(place) for place in places]
    choice, runs = Choice.of_names(options.tasks), list[Run]()
    sides = []
    for label, place, some in zip("AB", places, files, strict=True):
        report_progress(f"reading {place}")
        if some:
            if options.tasks:
                raise ConfigError("files of answers are read as a whole", where="--tasks", hint="Leave it out")
            sides.append(_read_answer_files(label, place, some))
            continue
        run = read_any_run([place], choice=choice, needs_verdicts=False)
        check_choice(choice, [run])
        if run.faults:
            raise ResultsError(next(iter(run.faults.values())), hint="Leave the task out with --tasks")
        runs.append(run)
        sides.append(_read_run(label, place, run))
    if len(runs) == 2:
        check_same_decoding(*runs)
    a, b = (side.decoding for side in sides)
    for task, name in sorted(a.keys() & b.keys()):
        if a[task, name] != b[task, name]:
            raise ResultsError(
                f"{name} is {a[task, name]!r:.80} in A and {b[task, name]!r:.80} in B", where=task,
                hint="Generate both runs with the same settings, or leave the task out with --tasks",
            )  # fmt: skip
    return sides[0], sides[1]


def _find_answer_files(place: Path) -> list[Path]:
    """The files of answers that a place is, or has directly in it."""
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place] if place.is_file() else []
    return [file for file in files if _holds_answers(file)]


def _holds_answers(file: Path) -> bool:
    try:
        with open_regular(file) as lines:
            return bool(_ANSWERS.match(lines.readline(_PEEKED)))
    except OSError:
        return False


def _read_answer_files(label: str, place: Path, files: list[Path]) -> Side:
    answers = read_answers(files)
    if answers.doubled:
        (name, _), (first, second) = next(iter(answers.doubled.items()))
        raise DataError(
            f"{name} has two answers that are not alike, in {first} and {second}", where=str(place),
            hint="Name the files of one run, each answer with a number of its own: TASK/DOC/N",
        )  # fmt: skip
    if len(answers.settings) > 1:
        raise DataError("holds answers of runs with other settings", where=str(place), hint="Name the file of one run")
    given = {answer.where: answer for answer in answers.by_key.values() if answer.text is not None}
    side, times = Side(label, "", str(place), wanted=len(given) + len(answers.failed)), []
    side.model = join_names(sorted({answer.model for answer in given.values() if answer.model}))
    for answer in given.values():
        task, doc, number = (*answer.id.split("/"), "", "")[:3]
        key = task, doc, answer.prompt_sha256 or ""
        at = int(number) if _NUMBER.fullmatch(number) else 0
        if at in side.texts.get(key, {}):
            raise DataError(
                f"{answer.id} is answered twice, as requests with different settings are", where=answer.where,
                hint="Name answers to requests with the same settings, each with a number of its own: TASK/DOC/N",
            )  # fmt: skip
        side.add(key, f"{task}/{doc}", at, say(answer))
        side.cut += answer.finish_reason == "length"
        side.engine = side.engine or answer.engine or ""
        times += [answer.started] if answer.started is not None else []
    side.times = (min(times), max(times)) if times else None
    _check_several(side, place)
    return side


def _read_run(label: str, place: Path, run: Run) -> Side:
    model = next((task.provenance.model for task in run.tasks.values()), None)
    side = Side(label, model or "", str(place), notes=[f"{label}: {note}" for note in run.notes])
    seen: Counter[tuple[str, str]] = Counter()
    for task in run.tasks.values():
        _check_sampled(task.task, task.provenance.decoding, place)
        if task.samples_file is None:
            continue
        with task.open_samples() as read:
            for doc in task.docs:
                if not doc.filter_results:
                    continue
                sample = read(next(iter(doc.filter_results.values())))
                settings, requests = read_settings(sample), read_arguments(sample)
                outputs = read_outputs(sample, settings)
                if not outputs or len(requests) > 1:
                    continue
                _check_sampled(task.task, settings, place)
                side.decoding |= {(task.task, name): value for name, value in settings.items()}
                prompt = doc.sent_hash or doc.question_hash
                key = task.task, prompt, f"{seen[task.task, prompt]:09}"
                seen[task.task, prompt] += 1
                for number, text in enumerate(outputs):
                    side.add(key, f"{task.task}/{doc.doc_id}", number, text)
    side.wanted = len(side.all_texts)
    _check_several(side, place)
    return side


def _check_sampled(task: str, settings: Mapping[str, Any], place: Path) -> None:
    temperature, samples = settings.get("temperature"), settings.get("do_sample")
    if temperature in (0, "0", "0.0") or (temperature is None and samples in (False, "False")):
        raise ResultsError(
            f"{task} was generated greedily, and this test is of sampled answers", where=str(place),
            hint="Compare greedy answers with `meta-eval compare A B --texts`, or leave the task out with --tasks",
        )  # fmt: skip


def _check_several(side: Side, place: Path) -> None:
    if not any(len(texts) > 1 for texts in side.texts.values()):
        what = "holds one answer to each prompt" if side.texts else "holds no generated text"
        raise DataError(
            f"{what}, and this test needs several", where=str(place),
            hint="Record them with `repeats: 10` in the task, at temperature 1",
        )  # fmt: skip
