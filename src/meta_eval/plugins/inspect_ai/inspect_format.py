"""The record format of inspect_ai's logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from meta_eval.base.inputs import format_json
from meta_eval.pack.records.log_format import find_each
from meta_eval.plugins.inspect_ai.inspect_files import InspectLog, is_log, open_log
from meta_eval.plugins.inspect_ai.inspect_sample import Attachments, read_logged_sample
from meta_eval.sockets import (
    SURE,
    FoundLog,
    LogEntry,
    LogFormat,
    LoggedTask,
    Place,
    RecordedDoc,
    SourceError,
    find_logs,
)

# inspect_ai's settings of generation by lm-eval's names.
_GENERATION = {
    "max_gen_toks": "max_tokens", "until": "stop_seqs", "temperature": "temperature", "top_p": "top_p",
    "top_k": "top_k", "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty",
    "reasoning_effort": "reasoning_effort",
}  # fmt: skip

# Those that lm-eval does not have.
_FURTHER = (
    "system_message", "best_of", "num_choices", "logit_bias", "parallel_tool_calls", "internal_tools",
    "max_tool_output", "verbosity", "effort", "reasoning_mode", "reasoning_tokens", "reasoning_history",
    "response_schema", "fallback_models", "extra_body",
)  # fmt: skip

# What else changes what a model was asked, and how long it may work.
_ASKED = {
    "solver": "plan.steps", "task_args": "eval.task_args", "model_roles": "eval.model_roles",
    "sandbox": "eval.sandbox", **{name: f"eval.config.{name}" for name in (
        "message_limit", "token_limit", "token_limit_type", "time_limit", "working_limit", "cost_limit", "turn_limit",
        "approval",
    )},
}  # fmt: skip

_PLACES = {**_GENERATION, **dict(zip(_FURTHER, _FURTHER, strict=True))}

# The role of a model that grades.
_GRADER = "grader"

# Means over samples, whose names inspect_ai gives them.
_MEANS = ("accuracy", "mean")


class InspectFormat(LogFormat):
    """Logs of inspect_ai. A log is a task."""

    name = "inspect_ai"
    reads = "logs of inspect_ai (.eval and .json)"
    settings: ClassVar[Mapping[str, str]] = {
        **{name: f"plan.config.{place}" for name, place in _PLACES.items()},
        **_ASKED,
    }
    grader_settings: ClassVar[Mapping[str, str]] = {"scorer": "results.scores", "judge": "eval.model_roles.grader"}

    def detect(self, place: Place) -> float:
        return SURE if find_logs(place, is_log) else 0

    def list_logs(self, place: Place) -> Sequence[FoundLog]:
        """The logs of a place. One that did not end is left out where another one of its task did."""
        unended: set[str] = set()

        def find(file: str, path: Path) -> FoundLog:
            log = open_log(path)
            if log.header.find_text("status") != "success":
                unended.add(file)
            return FoundLog(_name_task(log), partial(_read_task, log, _name_file(place, file)), _read_time(log) or "")

        found = find_each(find_logs(place, is_log), find)
        ended = {log.task for file, log in found.items() if file not in unended}
        return [log for file, log in found.items() if file not in unended or log.task not in ended]


def _name_file(place: Place, file: str) -> str | None:
    return file if place.path is not None and place.path.is_dir() else None


def _name_task(log: InspectLog) -> str:
    spec = log.header.find_entry("eval")
    return spec.find_text("task_display_name") or spec.text("task")


def _read_time(log: InspectLog) -> str | None:
    """When the run began, in UTC."""
    return log.header.find_entry("eval").find_time("created")


def _read_task(log: InspectLog, file: str | None) -> LoggedTask:
    """Read a log.

    Raises:
        SourceError, DataError: It is damaged, holds no samples, or did not end.
    """
    header = log.header
    if (status := header.find_text("status")) != "success":
        error = header.find_entry("error").find_text("message")
        raise SourceError(
            f"its run has the status {status!r}{f' ({error[:200]})' if error else ''}, and did not end",
            where=str(log.path), hint="Finish it with `inspect eval-retry`",
        )  # fmt: skip
    spec, results = header.find_entry("eval"), header.find_entry("results")
    model = spec.find_text("model")
    attachments = Attachments()
    read = [read_logged_sample(sample, model, attachments) for sample in log.read_samples()]
    answers, in_turns = [answer for answer, _ in read], sum(several for _, several in read)
    completed = results.find_count("completed_samples")
    if not answers:
        raise SourceError(
            "holds no samples", where=str(log.path), hint="Run inspect with samples in the log (--log-samples)"
        )
    docs, dataset = len({answer.key for answer in answers}), spec.find_entry("dataset").find_count("samples")
    reducers = spec.find_entry("config").find_list("epochs_reducer")
    several = len(answers) > docs
    warnings = []
    if completed is not None and len(answers) < completed:
        warnings.append(f"its log holds {len(answers):,} of {completed:,} samples: it is not as inspect wrote it")
    if several and reducers and reducers != ["mean"]:
        warnings.append(f"its log reduces epochs by {format_json(reducers)}; here their mean counts")
    if header.tree.get("invalidated") is True:
        warnings.append("its log was declared invalid, in part or as a whole")
    return LoggedTask(
        name=_name_task(log),
        answers=answers,
        harness="inspect_ai",
        model=model,
        time=_read_time(log),
        file=file,
        generation=_read_generation(header),
        scores=_read_means(results, answers) if not several or reducers in ([], ["mean"]) else {},
        grader=_describe_grader(results),
        settings=_read_settings(header),
        grader_settings=_read_grader_settings(header),
        version=spec.find_key("task_version"),
        matching=_read_matching(header),
        missing=max(0, (dataset or 0) - docs, (completed or 0) - len(answers)),
        warnings=warnings,
        obstacle=f"{in_turns} of {len(answers)} samples took several turns" if in_turns else None,
    )


def _read_generation(header: LogEntry) -> dict[str, Any]:
    """The settings of generation that lm-eval has, and its seed."""
    settings: dict[str, Any] = {}
    for config in _list_configs(header):
        settings |= config.find_settings({**_GENERATION, "seed": "seed"})
        settings |= {"until": [str(stop) for stop in config.find_list("stop_seqs")]} if "stop_seqs" in config else {}
    if "temperature" not in settings:  # the model's own, which is not 0
        settings["do_sample"] = True
    return {"until": [], **settings}


def _list_configs(header: LogEntry) -> tuple[LogEntry, LogEntry]:
    """The settings of generation of the model, and those of the run, which come first."""
    return header.find_entry("eval").find_entry("model_generate_config"), header.find_entry("plan").find_entry("config")


def _read_settings(header: LogEntry) -> dict[str, Any]:
    """What else was asked; of each step of the solver its name and its parameters."""
    settings = header.find_settings(_ASKED)
    for config in _list_configs(header):
        settings |= config.find_settings(dict(zip(_FURTHER, _FURTHER, strict=True)))
    roles = settings.get("model_roles")
    if isinstance(roles, dict):
        settings["model_roles"] = {name: role for name, role in roles.items() if name != _GRADER}
    # Newer logs have defaults among the arguments, and apart what was passed, which is all that older logs have.
    if (passed := header.find_entry("eval").tree.get("task_args_passed")) is not None:
        settings["task_args"] = passed
    steps = header.find_entry("plan").find_entries("steps")
    return {**settings, "solver": ", ".join(map(_describe_step, steps))}


def _describe_step(step: LogEntry) -> str:
    """``react(attempts=3)``."""
    given = step.find_entry("params_passed" if "params_passed" in step else "params").tree
    inside = ", ".join(f"{name}={format_json(value)}" for name, value in given.items())
    return f"{step.tree.get('solver')}({inside})" if inside else str(step.tree.get("solver"))


def _read_means(results: LogEntry, answers: Sequence[RecordedDoc]) -> Mapping[str, float]:
    """The log's own means over samples, by the names of `read_scores`."""
    metrics = {name for answer in answers for name in answer.metrics}
    means: dict[str, float] = {}
    for score in results.find_entries("scores"):
        name, scorer = score.find_text("name") or "", score.find_text("scorer") or ""
        label = next((label for label in (name, f"{scorer}/{name}") if label in metrics), None)
        if label is None or score.find_text("reducer") not in (None, "mean"):
            continue
        for kind in _MEANS:
            value = score.find_entry("metrics").find_entry(kind).find_number("value")
            if value is not None:
                means[label] = value
                break
    return means


def _read_grader_settings(header: LogEntry) -> dict[str, Any]:
    """The settings of each scorer, and the judge that it does not name: the grader's role, else the model itself."""
    scores, spec = header.find_entry("results").find_entries("scores"), header.find_entry("eval")
    scorers = {str(score.tree.get("scorer")): score.find_entry("params").tree for score in scores}
    judge = spec.find_entry("model_roles").tree.get(_GRADER)
    if judge is None and any(
        _is_judge(name) and not params.get("model") and "(" not in name for name, params in scorers.items()
    ):
        judge = spec.find_text("model")
    return {"scorer": scorers, "judge": judge}


def _read_matching(header: LogEntry) -> dict[str, dict[str, Any]]:
    """How inspect_ai's own `match` and `includes` look for the target, by the names of the scores."""
    matching = {}
    for score in header.find_entry("results").find_entries("scores"):
        given, scorer = score.find_entry("params").tree, str(score.tree.get("scorer")).removeprefix("inspect_ai/")
        if scorer in ("match", "includes"):
            matching[str(score.tree.get("name"))] = {
                "location": str(given.get("location", "end")) if scorer == "match" else scorer,
                "ignore_case": given.get("ignore_case", True) is True,
                "numeric": given.get("numeric", False) is True,
            }
    return matching


def _is_judge(scorer: str) -> bool:
    """Whether a scorer asks the model of the role "grader", else the model itself."""
    return scorer.rpartition("/")[2].startswith("model_graded")


def _describe_grader(results: LogEntry) -> str | None:
    """The scorers, as text."""
    scorers = {str(score.tree.get("scorer")) for score in results.find_entries("scores")}
    return f"inspect_ai {', '.join(sorted(scorers))}" if scorers else None
