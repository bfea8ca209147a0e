"""What graded a task's answers: lm-eval's release, and the settings of the task that verdicts depend on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from meta_eval.harness.results_file import ResultsFile, as_mapping

# Keys of a metric that say how docs are averaged, and not what a doc gets.
_OF_AVERAGES = ("aggregation", "higher_is_better")

# Steps of filters that make one answer of several, or may do so.
_VOTES = ("majority_vote", "custom")


@dataclass(frozen=True, slots=True)
class GraderFacts:
    """What is known of a grader. None or empty means unknown.

    Attributes:
        lm_eval: lm-eval's version.
        task_version: The task's version, as text.
        filters: The steps of each filter, as text, by name.
        metrics: The settings of each metric, as text, by name.
        scorer: The source of the task's own scorer.
        voting: The filters that make one answer of several, or may do so.
        runs_code: Whether scoring runs programs that the model wrote.
    """

    lm_eval: str | None = None
    task_version: str | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    scorer: str | None = None
    voting: frozenset[str] = frozenset()
    runs_code: bool = False


def read_grader_facts(results: ResultsFile | None, task: str) -> GraderFacts:
    """Read the facts of a task from its results file."""
    if results is None:
        return GraderFacts()
    lm_eval = results.tree.get("lm_eval_version")
    task_version = as_mapping(results.tree.get("versions")).get(task)
    return make_grader_facts(results.config(task), None if lm_eval is None else str(lm_eval), task_version)


def make_grader_facts(config: Mapping[str, Any], lm_eval: str | None, task_version: object) -> GraderFacts:
    """Make the facts of a task's configuration, as a results file has it.

    Args:
        config: The configuration.
        lm_eval: lm-eval's version.
        task_version: The version in ``versions``; otherwise that in the task's metadata counts.
    """
    number = as_mapping(config.get("metadata")).get("version") if task_version is None else task_version
    filters = {str(entry.get("name")): entry.get("filter") for entry in _list_entries(config.get("filter_list"))}
    metrics = {
        str(entry.get("metric")): {key: value for key, value in entry.items() if key not in _OF_AVERAGES}
        for entry in _list_entries(config.get("metric_list"))
    }
    scorer = config.get("process_results")
    return GraderFacts(
        lm_eval=lm_eval,
        task_version=None if number is None else str(number),
        filters={name: _format(steps) for name, steps in filters.items()},
        metrics={name: _format(settings) for name, settings in metrics.items()},
        scorer=scorer if isinstance(scorer, str) and "\n" in scorer else None,
        voting=frozenset(
            name
            for name, steps in filters.items()
            if any(step.get("function") in _VOTES for step in _list_entries(steps))
        ),
        runs_code=config.get("unsafe_code") is True,
    )


def find_installed_lm_eval() -> str | None:
    """The version of the installed lm-eval, which is not imported; None if there is none."""
    try:
        return version("lm_eval")
    except PackageNotFoundError:
        return None


def _list_entries(value: Any) -> Sequence[Mapping[str, Any]]:
    return [as_mapping(entry) for entry in value] if isinstance(value, list) else []


def _format(settings: Any) -> str:
    """Settings as text. The place of a function in memory, which lm-eval may write, differs in every run."""
    return re.sub(r" at 0x[0-9a-f]+", "", json.dumps(settings, sort_keys=True, default=str))
