"""Instances of Every Eval Ever as the rows of a task: checked, and graded again where exact match is what graded them.

The schema names no code. A score is graded again only where exact match against the references gives it for every doc;
a task of which that is true of no score is refused, since a new answer could not be graded.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from meta_eval.assets.details.details_scoring import lighteval_em
from meta_eval.errors import DataError
from meta_eval.records.exchanged import Evaluation, result_id
from meta_eval.records.rows import Row, Rows, doc_json
from meta_eval.results.results_file import mapping
from meta_eval.shown import quoted

# What begins a prompt that a chat template rendered; every engine adds one.
_BOS = ("<|begin_of_text|>", "<s>", "<bos>", "<|startoftext|>")

# Averages are written with that many digits by some.
_SAME = 1e-4


@dataclass(frozen=True, slots=True)
class ExchangedRows:
    """The rows of a task.

    Attributes:
        rows: As any record's, graded by ``em``.
        average: Of the score that is graded again, as the rows give it.
        metric: The ``evaluation_result_id`` of that score.
        kept: Those that were recorded and that nothing here grades again.
        shots: Examples in front of each question, where somebody says it.
    """

    rows: Rows
    average: float
    metric: str
    kept: tuple[str, ...]
    shots: str | None


@dataclass(slots=True)
class _Reading:
    rows: dict[str, Row] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)  # a digest of what was asked and answered
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    warnings: Counter[str] = field(default_factory=Counter)
    bos: str | None = None


def read_exchanged(evaluation: Evaluation, said: str, where: str) -> ExchangedRows:
    """Rows of a task.

    Args:
        evaluation: What holds it.
        said: Its ``evaluation_name``.
        where: The record and task, for messages.

    Raises:
        DataError: A doc cannot be asked again, or no score can be graded again or has its average.
        ResultsError: A row cannot be read.
    """
    reading = _Reading()
    by_lm_eval = mapping(evaluation.aggregate.get("eval_library")).get("name") == "lm_eval"
    for line, row in evaluation.rows(said):
        _add(reading, row, f"{line}, sample {quoted(row.get('sample_id'))}", by_lm_eval=by_lm_eval)
    averages = evaluation.results(said)
    metric = _graded(reading, averages, where)
    values = reading.scores[metric]
    average = sum(values.values()) / len(values)
    _check_average(average, len(values), averages, metric, where)
    generation, shots = _generation(averages[metric], where, by_lm_eval=by_lm_eval)
    if not generation["until"]:
        reading.warnings["stops_unknown"] = len(reading.rows)
    prompts = Counter(row.prompt for row in reading.rows.values())
    reading.warnings["duplicate_prompts"] = sum(prompts.values()) - len(prompts)
    for name, one in reading.rows.items():
        one.metrics = {"em,none": values[name]}
    warnings = {name: count for name, count in sorted(reading.warnings.items()) if count}
    kept = tuple(name for name in reading.scores if name != metric)
    rows = Rows(list(reading.rows.values()), generation, reading.bos, warnings)
    return ExchangedRows(rows, average, metric, kept, shots)


def _add(reading: _Reading, row: Mapping[str, Any], where: str, *, by_lm_eval: bool) -> None:
    name, metric = str(row.get("sample_id")), result_id(row)
    score = mapping(row.get("evaluation")).get("score")
    if not isinstance(score, (bool, int, float)) or not math.isfinite(score):
        raise DataError("has a score that is no number", where=where)
    scores = reading.scores.setdefault(metric, {})
    if name in scores:
        raise DataError(
            f"stands there twice with a score of {quoted(metric)}",
            where=where,
            hint="Fetch the file again, or name one run",
        )
    scores[name] = float(score)
    story = _story(row, where)
    if name in reading.said:
        if reading.said[name] != story:
            raise DataError("was asked or answered otherwise in a row before it", where=where)
        return
    reading.said[name] = story
    reading.rows[name] = _row(reading, row, where, by_lm_eval=by_lm_eval)


def _story(row: Mapping[str, Any], where: str) -> str:
    try:
        return _digest(json.dumps([row.get("input"), row.get("output")], sort_keys=True))
    except RecursionError:
        raise DataError("is nested too deep", where=where) from None


def _row(reading: _Reading, row: Mapping[str, Any], where: str, *, by_lm_eval: bool) -> Row:
    asked = mapping(row.get("input"))
    prompt, answer = _prompt(row, asked, where), _answer(row, where, by_lm_eval=by_lm_eval)
    bos = next((one for one in _BOS if prompt.startswith(one)), None)
    if bos is not None:
        if reading.bos not in (None, bos):
            raise DataError(f"begins with {bos}, and docs before it with {reading.bos}", where=where)
        reading.bos, prompt = bos, prompt[len(bos) :]
        reading.warnings["prompt_with_bos"] += 1
    golds, choices = asked.get("reference"), asked.get("choices")
    if not isinstance(golds, list) or not golds or not all(isinstance(one, str) for one in golds):
        raise DataError("names no reference, so no answer to it can be graded", where=where)
    if isinstance(choices, list) and not all(isinstance(one, str) for one in choices):
        raise DataError("has choices that are no texts", where=where)
    if isinstance(choices, list) and answer in choices:
        raise DataError(
            "is answered with one of its choices word for word: the schema does not say whether the model wrote it or "
            "found it likeliest, and holds no likelihoods",
            where=where,
            hint="Leave the task out of tasks, or take the samples that lm-eval wrote",
        )
    doc: dict[str, Any] = {"query": str(asked.get("raw")), "gold": golds[0], "golds": golds}
    if isinstance(choices, list):
        doc["choices"] = choices
    return Row(
        doc={**doc, "sample_id": str(row.get("sample_id"))},
        prompt=prompt,
        continuations=(),
        question_hash=_digest(doc_json(doc)),
        prompt_hash=_digest(prompt),
        gold=golds[0],
        responses=[[answer]],
    )


def _prompt(row: Mapping[str, Any], asked: Mapping[str, Any], where: str) -> str:
    """What the model was given: ``formatted``, or what has the hash that lm-eval gave its prompt."""
    if row.get("interaction_type") != "single_turn":
        raise DataError("is a conversation of several turns, and a pack asks once", where=where)
    prompt, raw = asked.get("formatted"), asked.get("raw")
    if isinstance(prompt, str) and prompt:
        return prompt
    if isinstance(raw, str) and raw and mapping(row.get("metadata")).get("prompt_hash") == _digest(raw):
        return raw
    raise DataError(
        "has no input.formatted, which is what the model was given: it cannot be asked again",
        where=where,
        hint="Take the output of the tool that ran it, such as lm-eval's samples",
    )


def _answer(row: Mapping[str, Any], where: str, *, by_lm_eval: bool) -> str:
    if row.get("error"):
        raise DataError(f"ended with an error: {quoted(row['error'])}", where=where)
    answers = mapping(row.get("output")).get("raw")
    if not isinstance(answers, list) or len(answers) != 1 or not isinstance(answers[0], str):
        count = len(answers) if isinstance(answers, list) else 0
        raise DataError(f"was answered {count} times, and a pack asks once", where=where)
    answer: str = answers[0]
    listed = row.get("answer_attribution")
    for one in map(mapping, listed if isinstance(listed, list) else []):
        method = one.get("extraction_method")
        filtered = by_lm_eval and method not in (None, "none")
        if filtered or (one.get("is_terminal") and str(one.get("extracted_value")).strip() != answer.strip()):
            raise DataError(
                f"was graded by what {quoted(method)} extracted from the answer, which nothing here extracts again",
                where=where,
                hint="Leave the task out of tasks, or take the samples that lm-eval wrote",
            )
    return answer


def _graded(reading: _Reading, averages: Mapping[str, Mapping[str, Any]], where: str) -> str:
    """The score that exact match gives again, of every doc."""
    if not reading.rows:
        raise DataError("holds no row", where=where)
    computed = {
        name: lighteval_em(row.doc, [(row.responses or [[""]])[0][0]])["em"] for name, row in reading.rows.items()
    }
    first = ""
    for metric, scores in reading.scores.items():
        if mapping(averages.get(metric, {}).get("metric_config")).get("lower_is_better"):
            continue
        other = next((name for name, value in computed.items() if scores.get(name) != value), None)
        if other is None and any(computed.values()):
            return metric
        if other is None:
            first = first or f"not one answer is right by {quoted(metric)}, so nothing says that exact match graded it"
        else:
            score = scores.get(other)
            first = (
                first
                or f"sample {quoted(other)}: exact match gives {computed[other]:g}, and {quoted(metric)} is "
                + ("missing" if score is None else f"{score:g}")
            )
    raise DataError(
        f"has no score that exact match against the references gives again ({first or 'none where more is better'})",
        where=where,
        hint="Its scores are recorded and no new answer can be graded: leave the task out of tasks",
    )


def _check_average(
    average: float, count: int, averages: Mapping[str, Mapping[str, Any]], metric: str, where: str
) -> None:
    if metric not in averages:
        raise DataError(f"has scores of {quoted(metric)}, of which the averages beside them know nothing", where=where)
    score = mapping(averages[metric].get("score_details")).get("score")
    if (
        isinstance(score, (int, float))
        and mapping(averages[metric].get("metric_config")).get("metric_unit") == "percent"
    ):
        score = score / 100
    if not isinstance(score, (int, float)) or not abs(score - average) <= min(_SAME, 0.25 / count):
        raise DataError(
            f"the scores of {quoted(metric)} average to {average:.6g}, and {quoted(score)} stands in the averages "
            "beside them",
            where=where,
            hint="The files are not of one run, or rows are missing: fetch both again",
        )


def _generation(result: Mapping[str, Any], where: str, *, by_lm_eval: bool) -> tuple[dict[str, Any], str | None]:
    """The generation settings, and the shots; stop texts of lm-eval and HELM are put among the details."""
    config = mapping(result.get("generation_config"))
    given, details = mapping(config.get("generation_args")), mapping(config.get("additional_details"))
    limit, temperature = given.get("max_tokens"), given.get("temperature")
    if limit is None and not (by_lm_eval and "until" in details):  # of which lm-eval's own limit is known
        raise DataError(
            "does not say how many tokens an answer may have (generation_args.max_tokens)", where=where,
            hint="Write it into the file of averages, if you know it",
        )  # fmt: skip
    if not (limit is None or (type(limit) is int and limit > 0)) or isinstance(temperature, (str, list, dict)):
        raise DataError(
            f"has settings that are none: {quoted(limit)} tokens, temperature {quoted(temperature)}", where=where
        )
    settings: dict[str, Any] = {"until": _stops(details, where), "do_sample": False}
    if limit is not None:
        settings["max_gen_toks"] = limit
    if temperature:
        settings |= {"do_sample": True, "temperature": temperature}
    shots = details.get("num_fewshot")
    return settings, str(shots) if shots is not None else None


def _stops(details: Mapping[str, Any], where: str) -> list[str]:
    said = details.get("until", details.get("stop_sequences"))
    if said is None:
        return []
    try:
        stops = json.loads(said) if str(said).startswith("[") else [said]
    except ValueError:
        stops = None
    if not isinstance(stops, list) or not all(isinstance(one, str) for one in stops):
        raise DataError(f"has stop texts that cannot be read: {quoted(said)}", where=where)
    return stops


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
