"""Whether a model grades a task, as far as its log names the grader.

inspect_ai names its scorers and the model that grades, promptfoo the kinds of assertions and their provider, evalscope
the judge's arguments, HELM its annotators, NeMo Evaluator its judge. simple_evals names no grader, but its benchmarks.
"""

from __future__ import annotations

import json
import re
from typing import Any

from meta_eval.harness.compared_settings import flatten_settings
from meta_eval.harness.provenance import GraderFacts, Provenance

# Names of graders that are models, and of the settings that name one.
_JUDGES = re.compile(
    r"(?<![a-z])(?:model[-_ ]?graded|llm|judge|jury|rubric|g[-_]?eval\b|factuality|closedqa|answer-relevance"
    r"|context-(?:recall|relevance|faithfulness)|conversation-relevance|select-best)",
    re.IGNORECASE,
)
# Benchmarks that a model grades, whichever harness runs them.
_BENCHMARKS = re.compile(
    r"(?<![a-z])(?:health_?bench(?!_meta)|(?:chinese_?)?simple_?qa|browse_?comp|arena_?hard|alpaca_?eval|mt_?bench|wild_?bench"
    r"|omni_?math|simple_evals math$)",
    re.IGNORECASE,
)
_MODEL = re.compile(r"(?:^|[._])model(?:_id|_name)?$", re.IGNORECASE)
# HELM's annotators that run programs, or draw.
_PROGRAMS = re.compile(r"bigcodebench|chart2csv|lilypond|latex|webpage|image", re.IGNORECASE)
# Metrics that lm-eval itself computes of an answer and the gold.
_COMPUTED = frozenset(("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "em", "f1"))


def is_computed(provenance: Provenance, metric: str) -> bool:
    """Whether lm-eval computes a metric without a scorer of the task's own: another verdict is then another grader.

    Args:
        provenance: Of the task's results.
        metric: The metric, without its filter.
    """
    return provenance.harness is None and provenance.grader.scorer is None and metric in _COMPUTED


def names_judge(grader: GraderFacts, metric: str) -> bool:
    """Whether the settings of a metric name a model as its grader.

    Args:
        grader: What is known of the grader.
        metric: The metric, without its filter.
    """
    tree = json.loads(grader.metrics.get(metric) or "{}")
    tree = tree if isinstance(tree, dict) else {}
    scorers = tree.get("scorer")
    if isinstance(scorers, dict) and len(scorers) > 1:  # a log of inspect_ai may have one of them a metric
        own = {name: value for name, value in scorers.items() if name.rpartition("/")[2] == metric.partition("/")[0]}
        tree = {"scorer": own} if own else tree
    settings = flatten_settings(tree)
    strategy = str(settings.pop("judge_strategy", ""))  # evalscope's, which "auto" leaves to each benchmark
    if strategy == "rule":
        settings = {name: value for name, value in settings.items() if not name.startswith("judge.")}
    return strategy.startswith("llm") or any(_is_of_judge(name, value) for name, value in settings.items())


def _is_of_judge(name: str, value: Any) -> bool:
    if value is False:
        return False
    if name == "annotators":
        return any(not _PROGRAMS.search(json.dumps(each)) for each in (value if isinstance(value, list) else [value]))
    text = value if isinstance(value, str) else json.dumps(value)
    return any(pattern.search(part) for pattern in (_JUDGES, _BENCHMARKS) for part in (name, text)) or (
        _MODEL.search(name) is not None
    )
