"""The record format of EvalScope's runs: their reviews, and the predictions beside these.

A dataset is a task, and its subsets are subtasks. Reviews before EvalScope 1.0 have another form, which is read too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from meta_eval.base.inputs import format_json
from meta_eval.base.yaml_files import read_yaml
from meta_eval.pack.records.log_entries import advising, read_log_lines, to_number
from meta_eval.pack.records.log_format import choose_by_model
from meta_eval.plugins.evalscope.evalscope_folder import EvalscopeRun, find_runs, read_report, split_stem
from meta_eval.sockets import (
    SURE,
    DataError,
    FoundLog,
    LogEntry,
    LoggedTask,
    LogRecord,
    Place,
    Record,
    RecordedDoc,
    RecordFormat,
    locating,
    peek_log,
    plural,
    record_answer,
)

_ENDS = {
    "stop": "stop", "max_tokens": "length", "length": "length", "model_length": "length", "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}  # fmt: skip

# lm-eval's names of settings of generation. Of two names of one setting the last that is there counts.
_SETTINGS = {
    "max_tokens": "max_gen_toks", "max_new_tokens": "max_gen_toks", "temperature": "temperature", "top_p": "top_p",
    "top_k": "top_k", "seed": "seed", "do_sample": "do_sample",
}  # fmt: skip

# What else changes what a model was asked.
_ASKED = {
    **{name: f"generation_config.{name}" for name in (
        "stop_seqs", "frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "reasoning_effort",
        "reasoning_tokens", "reasoning_history", "response_schema", "extra_body",
    )},
    **{name: f"dataset_args.DATASET.{name}" for name in (
        "prompt_template", "few_shot_prompt_template", "query_template", "system_prompt", "few_shot_num",
        "few_shot_random", "shuffle_choices", "extra_params",
    )},
    "chat_template": "chat_template", "agent_config": "agent_config",
}  # fmt: skip

_GRADED = {
    **{name: f"dataset_args.DATASET.{name}" for name in ("metric_list", "filters")},
    "aggregation_of_scores": "dataset_args.DATASET.aggregation",
    "judge_strategy": "judge_strategy",
    **{f"judge.{name}": f"judge_model_args.{name}" for name in (
        "model_id", "generation_config", "system_prompt", "prompt_template", "score_type", "score_pattern",
    )},
}  # fmt: skip

_OBSTACLE = "its log has no messages as they were sent, only a text of them"


class EvalscopeFormat(RecordFormat):
    """Runs of EvalScope. A dataset is a task."""

    name = "evalscope"
    reads = "folders of EvalScope's reviews"
    settings: ClassVar[Mapping[str, str]] = {
        **{theirs: f"generation_config.{name}" for name, theirs in _SETTINGS.items() if name != "seed"},
        **_ASKED,
    }
    grader_settings = _GRADED

    def detect(self, place: Place) -> float:
        return SURE if any(map(_holds_reviews, find_runs(place))) else 0

    @advising()
    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:  # noqa: ARG002
        return _make_record(place, choose_by_model(find_runs(place), run, place.name))

    @advising()
    def open_runs(self, place: Place) -> Sequence[Record]:
        runs = find_runs(place)
        if len({run.model for run in runs}) > 1:
            return [self.open_run(place, None, ())]
        return [_make_record(place, run) for run in runs]


def _holds_reviews(run: EvalscopeRun) -> bool:
    """Whether a file of a run looks like one of EvalScope; a file that is empty or cut off may."""
    starts = (peek_log(path) for path in list(run.reviews.values())[:3])
    return (
        any(
            not start.strip() or b'"sample_score"' in start or b'"review' in start or b'"index"' in start
            for start in starts
        )
        or (run.root / "reports").is_dir()
    )


def _make_record(place: Place, run: EvalscopeRun) -> LogRecord:
    reports = run.find_reports()
    config = _read_config(run.root)
    parts: dict[str, list[tuple[str | None, str]]] = {}
    for stem in run.reviews:
        dataset, subset = split_stem(stem, reports)
        parts.setdefault(dataset, []).append((subset, stem))

    def read(dataset: str) -> LoggedTask:
        task = _read_task(run, dataset, parts[dataset], reports.get(dataset))
        return replace(
            task,
            generation=_read_generation(config) if config.tree else None,
            settings=_find_settings(config, _ASKED, dataset) if config.tree else None,
            grader_settings={**_find_settings(config, _GRADED, dataset), **task.grader_settings},
        )

    return LogRecord(place.name, [FoundLog(dataset, partial(read, dataset)) for dataset in parts])


def _find_settings(config: LogEntry, places: Mapping[str, str], dataset: str) -> dict[str, Any]:
    return config.find_settings({name: place.replace("DATASET", dataset) for name, place in places.items()})


def _read_config(root: Path) -> LogEntry:
    """The configuration of a run; empty if it is not there.

    Raises:
        YamlError: It cannot be read.
    """
    paths = sorted((root / "configs").glob("task_config*.yaml")) if (root / "configs").is_dir() else []
    return LogEntry.of(read_yaml(paths[-1], error=DataError).tree, str(paths[-1])) if paths else LogEntry({}, str(root))


def _read_generation(config: LogEntry) -> dict[str, Any]:
    settings = config.find_entry("generation_config").tree
    made = {theirs: settings[name] for name, theirs in _SETTINGS.items() if settings.get(name) is not None}
    return {"until": [], **({} if "temperature" in made or "do_sample" in made else {"do_sample": True}), **made}


def _read_task(
    run: EvalscopeRun, dataset: str, subsets: Sequence[tuple[str | None, str]], report_path: Path | None
) -> LoggedTask:
    report = None if report_path is None else read_report(report_path)
    answers: list[RecordedDoc] = []
    in_turns = missing = 0
    judges: set[str] = set()
    warnings = []
    for subset, stem in subsets:
        predictions = {}
        if (path := run.find_predictions(stem)) is not None:
            for row in read_log_lines(path):
                predictions[row.find_key("index")] = row
        seen, indices, unpredicted = Counter[str](), set[str](), 0
        for review in read_log_lines(run.reviews[stem]):
            index = review.find_key("index")
            if index in indices:
                raise DataError(
                    f"repeats the index {index}", where=review.where, hint="Use the log of one run, as it was written"
                )
            indices |= {index} if index is not None else set()
            prediction = predictions.pop(index, None)
            with locating(review.where):
                answer, turns = _read_answer(review, prediction, stem, subset, seen)
            unpredicted += prediction is None and "sample_score" in review
            answers.append(answer)
            judges |= _name_judge(review)
            in_turns += turns > 1
        missing += len(predictions)
        if unpredicted:
            warnings.append(
                f"{unpredicted:,} of {plural(seen.total(), 'review')} of {stem} have no prediction: what the model was "
                "sent there, and whether its answer was cut, is unknown"
            )
        total = report.subsets.get(subset or "") if report else None
        if total is not None and total > seen.total() + len(predictions):
            missing += total - seen.total() - len(predictions)
        elif total is not None and total < seen.total():
            warnings.append(f"has {seen.total():,} reviews of {stem}, and its report says {total:,}")
    if report is None:
        warnings.append("has no report: its run still writes, or was broken off")
    unsent = not all(answer.is_chat for answer in answers)
    turns_words = f"{in_turns} of {len(answers)} samples took several turns" if in_turns else None
    return LoggedTask(
        name=dataset,
        answers=answers,
        harness="evalscope",
        model=run.model,
        time=run.time,
        file=_name_file(run, subsets),
        scores=report.scores if report else {},
        rounding=2e-4,  # subsets are rounded to four digits, and again their mean
        grader=f"evalscope {dataset}",
        grader_settings={"judge": ", ".join(sorted(judges))} if judges else {},
        missing=missing,
        has_stable_keys=True,
        warnings=warnings,
        obstacle=turns_words or (_OBSTACLE if unsent else None),
    )


def _name_file(run: EvalscopeRun, subsets: Sequence[tuple[str | None, str]]) -> str:
    path = run.reviews[subsets[0][1]]
    return str(path.relative_to(run.folder)) if path.is_relative_to(run.folder) else path.name


def _read_answer(
    review: LogEntry, prediction: LogEntry | None, stem: str, subset: str | None, seen: Counter[str]
) -> tuple[RecordedDoc, int]:
    """Read a review with its prediction, and count the turns that the answer took."""
    if "sample_score" not in review and "choices" in review:
        return _read_old(review, stem, subset, seen), 1
    sample_score = review.find_entry("sample_score")
    score = sample_score.find_entry("score")
    key = sample_score.find_key("group_id") or sample_score.find_key("sample_id") or review.find_key("index")
    if key is None:
        raise DataError("has no index")
    key = f"{stem} {key}"
    output = prediction.find_entry("model_output") if prediction else LogEntry({}, review.where)
    messages = prediction.find_entries("messages") if prediction else []
    sent, turns = _split_messages(messages)
    choices = output.find_entries("choices")
    error = output.find_text("error")
    given = review.tree.get("input")
    verdicts = _read_verdicts(score)
    answer = record_answer(
        key=key,
        subtask=subset,
        repeat=seen[key],
        question={"query": given if isinstance(given, str) else format_json(given)},
        gold=_to_text(review.tree.get("target")),
        prompt=sent or (given if prediction and isinstance(given, str) else None),
        answer=_to_text(score.tree.get("prediction")) or (_read_content(choices[0]) if choices else ""),
        verdicts=verdicts,
        extracted=score.find_text("extracted_prediction"),
        finish_reason=_ENDS.get(choices[0].find_text("stop_reason") or "") if choices else None,
        completion_tokens=output.find_entry("usage").find_count("output_tokens"),
        fault=f"the model failed: {error}" if error and not verdicts else None,
        turns=[message.tree for message in messages[len(sent) :]] if turns > 1 else (),
    )
    seen[key] += 1
    return answer, turns


def _name_judge(review: LogEntry) -> set[str]:
    """The model that graded a review; none where a program did."""
    graded = review.find_entry("sample_score").find_entry("score").find_entry("metadata")
    model = graded.tree.get("model")
    return {model} if graded.tree.get("source") == "llm_judge" and isinstance(model, str) else set()


def _read_old(review: LogEntry, stem: str, subset: str | None, seen: Counter[str]) -> RecordedDoc:
    """Read a review of EvalScope before 1.0."""
    choices = review.find_entries("choices")
    index = review.find_key("index") or review.find_key("review_id") or str(seen.total())
    key = f"{stem} {index}"
    if not choices:
        raise DataError("has no choices")
    verdict = choices[0].find_entry("review")
    result = verdict.tree.get("result")
    values = result if isinstance(result, dict) else {"acc": result}
    numbers = {name: number for name, value in values.items() if (number := to_number(value)) is not None}
    given = review.tree.get("raw_input")
    if isinstance(given, dict):  # some versions keep the model's answers there
        given = {name: value for name, value in given.items() if name not in ("choices", "model_spec")}
    seen[key] += 1
    return record_answer(
        key=key,
        subtask=subset,
        prompt=None,
        repeat=seen[key] - 1,
        question={"query": given if isinstance(given, str) else format_json(given)},
        gold=_to_text(verdict.tree.get("gold")),
        answer=_read_content(choices[0]),
        verdicts=numbers,
        extracted=pred if isinstance(pred := verdict.tree.get("pred"), str) else None,
    )


def _read_verdicts(score: LogEntry) -> dict[str, float]:
    """The scores of a sample, the main one first."""
    value = score.tree.get("value")
    values: Mapping[str, Any] = value if isinstance(value, dict) else {"score": value}
    main = score.find_text("main_score_name")
    names = sorted(values, key=lambda name: name != main)
    return {name: number for name in names if (number := to_number(values[name])) is not None}


def _split_messages(messages: Sequence[LogEntry]) -> tuple[list[dict[str, Any]], int]:
    """The messages before the model first answered, and how often it did. Logs without what was sent have none."""
    roles = [message.text("role") for message in messages]
    made = [
        place
        for place, (role, message) in enumerate(zip(roles, messages, strict=True))
        if role == "assistant" and message.tree.get("source") == "generate"
    ]
    first = made[0] if made else len(messages)
    contents = [message.tree.get("content") for message in messages[:first]]
    sent = [
        {"role": role, "content": content if isinstance(content, str | list) else ""}
        for role, content in zip(roles, contents, strict=False)
    ]
    return sent, len(made)


def _read_content(choice: LogEntry) -> str:
    return _to_text(choice.find_entry("message").tree.get("content"))


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else format_json(value)
