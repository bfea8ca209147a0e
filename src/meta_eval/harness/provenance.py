"""Provenance of results: the settings of a task in lm_eval's results file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meta_eval.base.secrets import HIDDEN, is_secret
from meta_eval.base.thresholds import MAX_GEN_TOKS
from meta_eval.harness.answer_origins import AnswerOrigins, read_origins
from meta_eval.harness.endpoint_notes import EndpointNotes, read_endpoint_notes
from meta_eval.harness.grader_facts import GraderFacts, read_grader_facts
from meta_eval.harness.rerun_values import RerunValues, describe_order, read_rerun
from meta_eval.harness.results_file import ResultsFile, as_mapping, read_finite_number, to_datetime
from meta_eval.harness.settings import SAMPLING

# Model arguments that change the model behind the same name.
_IDENTITY = ("revision", "dtype", "quantization", "load_in_4bit", "load_in_8bit", "peft", "delta", "gguf_file")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The provenance of a task's results. None or empty means unknown.

    Attributes:
        results_file: The results file; None if there are only samples.
        model: The model's name, else the folder that lm_eval made for it.
        backend: lm-eval's name of the backend: ``vllm``, ``hf``, ``local-completions``, ….
        model_args: Its arguments, without secrets.
        lm_eval: lm-eval's version.
        engine: The engine's version, if lm_eval's description of the environment has it.
        date: When it was started, UTC.
        duration_s: Seconds of the whole lm_eval command; for answers from elsewhere, seconds for these.
        limit: ``--limit``.
        gen_kwargs: Generation settings given on the command line.
        chat_template: Whether a chat template was applied.
        system_instruction: Whether there was a system instruction.
        docs_sha256: SHA-256 of the docs file in the pack.
        dataset_revision: Commit of the evals dataset, for packs made with ``bundle: false``.
        docs_of_task: Number of docs of the task, before a limit.
        docs_run: Number of docs that lm_eval reports as run; with ``--samples`` and lm-eval up to 0.4.11 all docs.
        completion_tokens: Tokens of all answers, if the engine's count was kept.
        tokens_per_second: Tokens per second over all answers.
        median_seconds: Median seconds from a request to its answer.
        stopped: The decision of a run that stopped early; None for a complete run.
        cost: Cost of all answers, in the unit of the given price per hour.
        shots: Number of examples before each question.
        decoding: The generation settings of task and command line that affect answers: no seed, and for greedy decoding
            no settings of sampling.
        origins: Which models and deployments gave its answers.
        endpoint: What was seen of a chat endpoint; None of another.
        order: The random order of its docs, in words; None of another order.
        rerun: Second answers to some docs; None where there are none.
        grader: What graded the answers.
    """

    results_file: Path | None
    model: str | None
    backend: str | None
    model_args: Mapping[str, str]
    lm_eval: str | None
    engine: str | None
    date: str | None
    duration_s: float | None
    limit: float | None
    gen_kwargs: Mapping[str, Any]
    chat_template: bool
    system_instruction: bool
    docs_sha256: str | None
    dataset_revision: str | None
    docs_of_task: int | None
    docs_run: int | None
    completion_tokens: float | None = None
    tokens_per_second: float | None = None
    median_seconds: float | None = None
    stopped: str | None = None
    cost: float | None = None
    shots: int | None = None
    decoding: Mapping[str, Any] = field(default_factory=dict)
    origins: AnswerOrigins = field(default_factory=AnswerOrigins)
    endpoint: EndpointNotes | None = None
    order: str | None = None
    rerun: RerunValues | None = None
    grader: GraderFacts = field(default_factory=GraderFacts)

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The values that must be equal in all results of a run; None if unknown."""
        if self.results_file is None:
            return None
        return (str(self.model_args.get("pretrained") or self.model_args.get("model") or self.backend), *(
            f"{name}={self.model_args[name]}" for name in _IDENTITY if name in self.model_args
        ))  # fmt: skip


def read_provenance(results: ResultsFile | None, folder: str, task: str) -> Provenance:
    """Read the provenance of a task from its results file.

    Args:
        results: The file; None if there is none.
        folder: The name of the folder of results or samples, which lm_eval names after the model.
        task: The task.
    """
    tree: Mapping[str, Any] = results.tree if results else {}
    config = results.config(task) if results else {}
    settings, kwargs = as_mapping(tree.get("config")), as_mapping(config.get("dataset_kwargs"))
    arguments = _arguments(settings.get("model_args"))
    date = read_finite_number(tree.get("date"))
    started = None if date is None else to_datetime(date)
    # The environment is a few KB of text; the bounded gap keeps the search linear.
    engine = re.search(r"\bvllm\D{1,12}(\d+\.\d+\S*)", str(tree.get("pretty_env_info")), re.IGNORECASE)
    generation = settings.get("gen_kwargs")
    changed = _changed(generation if isinstance(generation, dict) else _arguments(generation))
    shots = as_mapping(tree.get("n-shot")).get(task)
    elsewhere = as_mapping(settings.get("meta_eval"))  # facts that `meta-eval grade` keeps about answers from elsewhere
    return Provenance(
        results_file=results.path if results else None,
        model=arguments.get("pretrained") or arguments.get("model") or _text(tree.get("model_name")) or folder,
        backend=_text(settings.get("model") or tree.get("model_source")),
        model_args=arguments,
        lm_eval=_text(tree.get("lm_eval_version")),
        engine=engine[1] if engine else None,
        date=None if started is None else started.isoformat(timespec="seconds"),
        duration_s=read_finite_number(
            elsewhere.get("seconds") if elsewhere else tree.get("total_evaluation_time_seconds")
        ),
        limit=read_finite_number(settings.get("limit")),
        gen_kwargs=changed,
        chat_template=bool(tree.get("chat_template")),
        system_instruction=bool(tree.get("system_instruction")),
        docs_sha256=_text(kwargs.get("sha256")),
        dataset_revision=_text(kwargs.get("revision")),
        docs_of_task=results.count(task, "original") if results else None,
        docs_run=results.count(task, "effective") if results else None,
        completion_tokens=read_finite_number(elsewhere.get("completion_tokens")),
        tokens_per_second=read_finite_number(elsewhere.get("tokens_per_second")),
        median_seconds=read_finite_number(elsewhere.get("median_seconds")),
        stopped=_stopped(elsewhere.get("stopped")),
        cost=read_finite_number(elsewhere.get("cost")),
        shots=shots if isinstance(shots, int) else None,
        origins=read_origins(as_mapping(elsewhere.get("origins")).get(task), arguments),
        endpoint=read_endpoint_notes(elsewhere.get("endpoint")),
        order=describe_order(elsewhere),
        rerun=read_rerun(elsewhere, task),
        grader=read_grader_facts(results, task),
        decoding=_decoding({**as_mapping(config.get("generation_kwargs")), **changed}),
    )


def _decoding(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that affect answers. A number written as text counts as a number."""
    temperature = read_finite_number(settings.get("temperature"))
    is_greedy = str(settings.get("do_sample")) != "True" if temperature is None else temperature == 0
    idle = ("seed", *(SAMPLING if is_greedy else ()))
    defaults = {"max_gen_toks": MAX_GEN_TOKS}.items()  # the default, so it changes nothing
    effective = {
        name: value for name, value in _changed(settings).items() if name not in idle and (name, value) not in defaults
    }
    return {
        name: value if isinstance(value, bool) or read_finite_number(value) is None else read_finite_number(value)
        for name, value in effective.items()
    }


def _changed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Generation settings without those that our command adds for a server and lm_eval's vllm has built in."""
    changed = ("skip_special_tokens", "spaces_between_special_tokens")
    return {name: value for name, value in settings.items() if not (name in changed and str(value) == "False")}


def _arguments(arguments: Any) -> dict[str, str]:
    """Parse model arguments: an object, or text ``a=1,b=2``. Secret values are dropped."""
    if isinstance(arguments, str):
        parts = (part.partition("=") for part in arguments.split(",") if part)
        arguments = {name: value for name, _, value in parts}
    if not isinstance(arguments, dict):
        return {}
    return {str(name): HIDDEN if is_secret(str(name), value) else str(value) for name, value in arguments.items()}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _stopped(stop: Any) -> str | None:
    """Format run's early stop: ``SHIP at a margin of 1 points after 1,953 of 12,032 docs``."""
    if not isinstance(stop, Mapping):
        return None
    margin, docs, of = (read_finite_number(stop.get(name)) for name in ("margin", "docs", "of"))
    if margin is None or docs is None or of is None:
        return str(stop.get("outcome"))[:20]
    return f"{str(stop.get('outcome'))[:20]} at a margin of {100 * margin:g} points after {docs:,.0f} of {of:,.0f} docs"
