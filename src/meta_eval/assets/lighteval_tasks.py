"""The tasks of a pack as custom tasks of lighteval 0.13; `meta-eval export --to lighteval` puts it beside their docs.

    lighteval vllm "model_name=MODEL,override_chat_template=False" meta_gsm8k --custom-tasks meta_eval_tasks.py

It needs nothing of meta-eval. The docs lie in ``docs/``, the code that grades them in ``code/``, as the pack has it,
and ``tasks.json`` says what belongs together. A doc's query is the recorded prompt, with its examples and chat headers
in it, and without BOS, which the engine adds: a task takes no examples (``|0``), and no chat template is put around it.

A metric is called as lm-eval calls it, ``metric,filter``; each doc's value is what lm-eval's own task would give it.
"""

import hashlib
import json
import math
import re
import string
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

HERE = Path(__file__).resolve().parent
NO_MATCH = "[invalid]"  # what lm-eval's regex filter hands on when nothing matched

_MODULES: dict[str, Any] = {}
_GRADERS: dict[str, "Grader"] = {}


# Code of the pack


def _function(place: list[str]) -> Callable[..., Any]:
    """A function of the pack by ``[file, name]``, its file loaded by its path as lm-eval loads it."""
    file, name = place
    if file not in _MODULES:
        path = HERE / "code" / file
        spec = spec_from_file_location(str(path.with_suffix("")), path)
        module = module_from_spec(spec)  # type: ignore[arg-type]
        try:
            spec.loader.exec_module(module)  # type: ignore[union-attr]
        except ModuleNotFoundError as error:
            raise ImportError(f"{path} needs {error.name}: install it beside lighteval") from error
        _MODULES[file] = module
    function: Callable[..., Any] = getattr(_MODULES[file], name)
    return function


# Filters, as lm-eval applies them to the outputs of all docs of a task


# The outputs of each doc, and the docs.
Step = Callable[[list[Any], list[dict[str, Any]]], list[Any]]


def _regex(step: dict[str, Any]) -> Step:
    pattern = re.compile(step["regex_pattern"])
    which, fallback = step.get("group_select", 0), step.get("fallback", NO_MATCH)

    def read(output: Any) -> str:
        matches = pattern.findall(output if isinstance(output, str) else "")
        if not matches:
            return str(fallback)
        taken = matches[which]
        if isinstance(taken, tuple):
            taken = next(filter(None, taken), fallback)
        return str(taken).strip()

    return lambda outputs, _docs: [[read(output) for output in of_doc] for of_doc in outputs]


def _custom(step: dict[str, Any]) -> Step:
    return _function(step["filter_fn"])


def _take_first(_step: dict[str, Any]) -> Step:
    return lambda outputs, _docs: [of_doc[0] for of_doc in outputs]


STEPS: dict[str, Callable[[dict[str, Any]], Step]] = {"regex": _regex, "custom": _custom, "take_first": _take_first}


# Grading


class Scored(float):
    """A doc's value as a number, with what its metric's own average is made of."""

    item: Any = None


class Grader:
    """One task's graders: what its filters and its ``process_results`` make of the answers."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.filters = {
            filter_settings["name"]: [STEPS[step["function"]](step) for step in filter_settings["steps"]]
            for filter_settings in task["filters"]
        }
        self.process = _function(task["process_results"]) if task["process_results"] else None
        self.prompt = _function(task["doc_to_text"]) if task["doc_to_text"] else None
        self.averages: dict[str, Callable[[list[Any]], float]] = {
            metric_settings["metric"]: _function(metric_settings["aggregation"])
            if metric_settings["aggregation"]
            else _mean
            for metric_settings in task["metrics"]
        }
        self.graded: tuple[Any, dict[str, list[Scored]]] | None = None

    def check(self, query: str, doc: dict[str, Any]) -> None:
        """Ask the task whether it can grade, before anything is generated: some say so where they make prompts."""
        if self.prompt is not None and self.prompt(doc) != query:
            raise ValueError(f"{self.task['name']}: the pack's task makes another prompt of a doc than it recorded")

    def grade(self, docs: list[Any], responses: list[Any]) -> dict[str, list[Scored]]:
        """By ``metric,filter`` the value of each doc; asked once for each metric, and graded once for all."""
        for doc, response in zip(docs, responses, strict=True):
            _as_recorded(doc, response)
        if self.graded is None or self.graded[0] is not responses:
            self.graded = (responses, self._grade(docs, responses))
        return self.graded[1]

    def _grade(self, docs: list[Any], responses: list[Any]) -> dict[str, list[Scored]]:
        own = [json.loads(doc.specific["doc"]) for doc in docs]
        scores: dict[str, list[Scored]] = {f"{metric},{name}": [] for name in self.filters for metric in self.averages}
        for name, steps in self.filters.items():
            if self.task["kind"] == "choices":
                results: list[Any] = [
                    list(zip(response.logprobs, response.argmax_logits_eq_gold, strict=True)) for response in responses
                ]
            else:
                outputs: list[Any] = [[response.text[0]] for response in responses]
                for step in steps:
                    outputs = step(outputs, own)
                results = [[output] for output in outputs]
            for doc, asked, result in zip(own, docs, results, strict=True):
                values = self.process(doc, result) if self.process else self._plain(asked, result)
                for metric in self.averages:
                    scores[f"{metric},{name}"].append(self._number(metric, values.get(metric)))
        return scores

    def _plain(self, asked: Any, result: list[Any]) -> dict[str, float]:
        """lm-eval's own scores where a task has no function for them."""
        values = {}
        for metric_settings in self.task["metrics"]:
            metric = metric_settings["metric"]
            if metric == "exact_match":
                values[metric] = float(_same(result[0], asked.choices[0], metric_settings))
            else:
                lengths = asked.specific["lengths"] if metric == "acc_norm" else [1] * len(result)
                scores = [likelihood / length for (likelihood, _), length in zip(result, lengths, strict=True)]
                # As numpy's argmax: the first of equals, and before all else what is no number.
                best = next((n for n, score in enumerate(scores) if math.isnan(score)), scores.index(max(scores)))
                values[metric] = float(best == asked.gold_index)
        return values

    def _number(self, metric: str, value: Any) -> Scored:
        if isinstance(value, (bool, int, float)):
            number = Scored(value)
        else:  # with its subtask, or one for each instruction; none where the doc has no such metric
            number = Scored(math.nan if value is None else self.averages[metric]([value]))
        number.item = value
        return number


def _same(answer: Any, gold: Any, options: dict[str, Any]) -> bool:
    """Whether two texts are equal, without what the task says is to be left out."""
    both = [str(answer), str(gold)]
    for pattern in options.get("regexes_to_ignore") or ():
        both = [re.sub(pattern, "", text) for text in both]
    if options.get("ignore_case"):
        both = [text.lower() for text in both]
    marks = (string.punctuation if options.get("ignore_punctuation") else "") + (
        string.digits if options.get("ignore_numbers") else ""
    )
    left, right = (text.translate(str.maketrans("", "", marks)) for text in both)
    return left == right


def _as_recorded(doc: Any, response: Any) -> None:
    """Raises:
    ValueError: The engine was asked otherwise than was recorded, so that the score would be one of another prompt.
    """
    if doc.fewshot_samples:
        raise ValueError(f"{doc.task_name}: the recorded prompts hold their examples already. Ask for it with |0")
    asked = response.input
    if isinstance(asked, str) and asked != doc.query:
        raise ValueError(
            f"{doc.task_name}: the engine was asked something else than the recorded prompt, as where a chat template "
            "or a system prompt was put around it. Add override_chat_template=False to the model's arguments"
        )


def _grader(name: str) -> Grader:
    if name not in _GRADERS:
        _GRADERS[name] = Grader(TASKS[name])
    return _GRADERS[name]


class Verdict(SampleLevelComputation):  # type: ignore[misc]
    """One metric of one task; all metrics of a task are graded together."""

    def __init__(self, task: str, metric: str) -> None:
        self.task, self.metric = task, metric

    def compute(self, docs: list[Any], responses: list[Any], **_: Any) -> list[Scored]:
        return _grader(self.task).grade(docs, responses)[self.metric]


# What averages the docs' values; lighteval takes what has "mean" in its name for one whose standard error needs no
# resampling, which its processes could not do with functions of a custom task.


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _average(task: str, metric: str) -> Callable[[list[Any]], float]:
    def mean_of_the_task(values: list[Any]) -> float:
        return float(_grader(task).averages[metric]([getattr(value, "item", value) for value in values]))

    return mean_of_the_task


# Tasks


def _prompt_function(name: str) -> Callable[..., Any]:
    def prompt(line: dict[str, Any], task_name: str | None = None) -> Any:
        if line["__few_shots"]:
            raise ValueError(f"{name}: the recorded prompts hold their examples already. Ask for it with |0")
        _grader(name).check(line["query"], json.loads(line["doc"]))
        return Doc(
            query=line["query"],
            choices=line["choices"],
            gold_index=line["gold_index"],
            specific={"doc": line["doc"], "lengths": line["lengths"]},
            task_name=task_name,
        )

    return prompt


def _config(task: dict[str, Any]) -> Any:
    name = task["name"]
    file = HERE / task["docs"]
    if hashlib.sha256(file.read_bytes()).hexdigest() != task["sha256"]:
        raise ValueError(f"{file} is not the file that was exported. Export the pack again")
    choices = task["kind"] == "choices"
    metrics = [
        SampleLevelMetric(
            metric_name=f"{metric_settings['metric']},{named['name']}",
            higher_is_better=metric_settings["higher_is_better"],
            category=SamplingMethod.LOGPROBS if choices else SamplingMethod.GENERATIVE,
            sample_level_fn=Verdict(name, f"{metric_settings['metric']},{named['name']}"),
            corpus_level_fn=_average(name, metric_settings["metric"]),
            batched_compute=True,
        )
        for named in task["filters"]
        for metric_settings in task["metrics"]
    ]
    return LightevalTaskConfig(
        name=name,
        prompt_function=_prompt_function(name),
        hf_repo=str(file.parent),
        hf_subset="default",
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        metrics=metrics,
        generation_size=task["max_tokens"],
        stop_sequence=task["stop"],
        version=0,
    )


TASKS = {task["name"]: task for task in json.loads((HERE / "tasks.json").read_text(encoding="utf-8"))["tasks"]}
TASKS_TABLE = [_config(task) for task in TASKS.values()]
