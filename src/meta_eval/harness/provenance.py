"""Provenance of results: the settings of a task in lm_eval's results file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from meta_eval.base.display import one_line
from meta_eval.base.hashing import hash_address, hash_text
from meta_eval.base.pack_names import join_names
from meta_eval.base.secrets import HIDDEN, is_secret, redact_secrets
from meta_eval.base.thresholds import MAX_GEN_TOKS, NAMED
from meta_eval.harness.compared_settings import flatten_settings
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.results_file import ResultsFile, as_mapping, read_finite_number, to_datetime
from meta_eval.harness.settings import OF_DRAWS

# The check of an endpoint whose prompts hold no tools, though it takes them.
TOOLS_LOST = "tools in the prompt"

# What is noted of an answer that ended with ``length`` before the limit of its request.
CUT_EARLY = "an answer was cut before its limit"

# Whether examples are messages of their own, in results files.
AS_MULTITURN = "fewshot_as_multiturn"

# The longest sentence, and the most of a kind.
_LONGEST = 300
_MOST = 40


@dataclass(frozen=True, slots=True)
class EndpointNotes:
    """What was seen of an endpoint."""

    passed: tuple[str, ...]
    """The names of the checks that passed."""

    faults: tuple[str, ...]
    """What is not as it should be, each a clause."""

    unknown: tuple[str, ...]
    """What could not be checked, each a clause."""

    retries: str = ""
    """Why requests were sent again, and how often."""

    def __str__(self) -> str:
        unknown = [f"{name} ({why})" if why else name for name, _, why in (one.partition(": ") for one in self.unknown)]
        parts = [("", self.faults), ("as expected: ", self.passed), ("not checked: ", unknown)]
        return "; ".join(f"{name}{', '.join(some)}" for name, some in parts if some)


def merge_endpoint_notes(notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the notes of several runs: the last check, all fields that were left out, and all oddities."""
    merged: dict[str, Any] = {}
    for note in notes:
        if "checked" in note:
            merged["checked"] = note["checked"]
        for name in ("omitted", "oddities", "retries"):
            if isinstance(seen := note.get(name), Mapping):
                merged.setdefault(name, {}).update(
                    {key: _add(merged[name].get(key), value) for key, value in seen.items()}
                )
    return merged


def _add(before: object, now: object) -> object:
    return before + now if isinstance(before, int) and isinstance(now, int) else now


def read_endpoint_notes(content: object) -> EndpointNotes | None:
    """Read the notes of a results file; None if there are none. Whatever is not a note is left out."""
    if not isinstance(content, Mapping):
        return None
    checked = [check for some in _list(content.get("checked")) for check in _list(some.get("checks"))]
    by_result: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for check in checked:
        result = check.get("passed")
        name, what = _text(check.get("name")), _text(check.get("what"))
        if result is None or isinstance(result, bool):
            by_result[result].append(name if result else f"{name}: {what}")
    omitted, oddities = content.get("omitted"), content.get("oddities")
    faults = [*by_result[False]]
    faults += [f"{_text(name)} is not accepted, and was left out" for name in _names(omitted)]
    faults += [f"{_text(what)} ({_text(times)} times)" for what, times in _names(oddities).items()]
    passed, found, unknown = (tuple(dict.fromkeys(some))[:_MOST] for some in (by_result[True], faults, by_result[None]))
    counts = {_text(name): _count(times) or 0 for name, times in _names(content.get("retries")).items()}
    return EndpointNotes(passed, found, unknown, describe_retries(counts))


def describe_retries(counts: Mapping[str, int]) -> str:
    """Say how often requests were sent again, and why: ``sent again once, which changes no score: 503 (1)``.

    Args:
        counts: How often, by the reason.
    """
    if not counts:
        return ""
    kinds = ", ".join(f"{name} ({count:,})" for name, count in [*counts.items()][:_MOST])
    total = sum(counts.values())
    return f"sent again {'once' if total == 1 else f'{total:,} times'}, which changes no score: {kinds}"


def reads_tools_lost(note: Mapping[str, Any]) -> bool | None:
    """Whether the check in a note found that tools do not reach the prompt; None if the note holds no check."""
    checks = [check for some in _list(note.get("checked")) for check in _list(some.get("checks"))]
    lost = any(check.get("name") == TOOLS_LOST and check.get("passed") is False for check in checks)
    return lost if checks else None


def _list(content: object) -> Iterator[Mapping[str, Any]]:
    return (item for item in (content if isinstance(content, list) else ()) if isinstance(item, Mapping))


def _names(content: object) -> Mapping[Any, Any]:
    return content if isinstance(content, Mapping) else {}


def _text(content: object) -> str:
    return one_line(redact_secrets(str(content)))[:_LONGEST]


@dataclass(frozen=True, slots=True)
class AnswerOrigins:
    """Which models and deployments gave answers."""

    asked: str | None = None
    """The requested model; None if unknown."""

    models: Mapping[str, int] = field(default_factory=dict)
    """Answers by the model that they name. Answers that name none are in no count."""

    endpoints: Mapping[tuple[str, ...], int | None] = field(default_factory=dict)
    """Answers by deployment, given by the hashes of its addresses; None where the number is unknown."""

    @property
    def other_models(self) -> dict[str, int]:
        """Answers by the model that they name, without those that name the requested model."""
        return {name: count for name, count in self.models.items() if name != self.asked}

    def __str__(self) -> str:
        parts = []
        if self.other_models:
            parts.append(f"answers name {count_names(self.models)}")
        parts += [f"address {', '.join(addresses)}" for addresses in self.endpoints]
        return "; ".join(parts)


def count_names(counts: Mapping[Any, int | None]) -> str:
    """``org/model-0806 (60), org/model-0513 (60)``."""
    return join_names([name if count is None else f"{name} ({count:,})" for name, count in counts.items()], NAMED)


def read_origins(content: object, model_args: Mapping[str, str]) -> AnswerOrigins:
    """Read the origins of a task's answers. Whatever is no origin is left out.

    Args:
        content: The entry of the task in ``config.meta_eval.origins``.
        model_args: Of lm-eval, whose ``base_url`` is the address of all answers.
    """
    origins = as_mapping(content)
    endpoints: dict[tuple[str, ...], int | None] = {}
    deployed = origins.get("endpoints")
    for entry in deployed[:_MOST] if isinstance(deployed, list) else ():
        addresses = as_mapping(entry).get("addresses")
        if isinstance(addresses, list) and addresses:
            endpoints[tuple(_text(address) for address in addresses[:_MOST])] = _count(as_mapping(entry).get("answers"))
    if not endpoints and "base_url" in model_args:
        with suppress(ValueError):
            endpoints[hash_address(model_args["base_url"]),] = None
    named = ((_text(name), _count(count)) for name, count in list(as_mapping(origins.get("models")).items())[:_MOST])
    asked = origins.get("asked")
    return AnswerOrigins(
        _text(asked) if isinstance(asked, str) else None, {name: count or 0 for name, count in named}, endpoints
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


@dataclass(frozen=True, slots=True)
class RerunValues:
    """What second answers to docs of one task were graded as."""

    metric: str
    """``metric,filter`` of the values."""

    values: Mapping[int, float]
    """By doc, from 0 to 1."""


def read_rerun(config: Mapping[str, Any], task: str) -> RerunValues | None:
    """The second answers of a task; None where there are none.

    Args:
        config: ``config.meta_eval`` of the results file.
        task: The task.

    Raises:
        ResultsError: They are not what `meta-eval run` writes.
    """
    content = as_mapping(as_mapping(config.get("rerun")).get(task))
    if not content:
        return None
    metric, docs, values = (content.get(name) for name in ("metric", "docs", "values"))
    docs, values = (part if isinstance(part, list) else [None] for part in (docs, values))
    shares = [read_finite_number(value) for value in values]
    is_valid = isinstance(metric, str) and all(type(doc) is int for doc in docs)
    if not is_valid or len(shares) != len(docs) or any(share is None or not 0 <= share <= 1 for share in shares):
        raise ResultsError(f"{task}: its second answers are damaged", hint="Grade the run again with --grade-only")
    return RerunValues(str(metric), {doc: share for doc, share in zip(docs, shares, strict=True) if share is not None})


def describe_order(config: Mapping[str, Any]) -> str | None:
    """The random order of a run in words; None where there is none.

    Raises:
        ResultsError: Its seed is not the one whose hash was recorded.
    """
    order = as_mapping(config.get("order"))
    if not order:
        return None
    seed, sha256 = str(order.get("seed")), str(order.get("seed_sha256"))
    if hash_text(seed) != sha256:
        raise ResultsError("the seed of the order is not the one whose hash was recorded before the run")
    return f"random, seed {seed[:80]}, {'secret until the end' if order.get('secret') is True else 'not secret'}"


# Keys of a metric that say how docs are averaged, and not what a doc gets.
_OF_AVERAGES = ("aggregation", "higher_is_better")

# Steps of filters that make one answer of several, or may do so.
_VOTES = ("majority_vote", "custom")


@dataclass(frozen=True, slots=True)
class GraderFacts:
    """What is known of a grader. None or empty means unknown."""

    lm_eval: str | None = None
    """lm-eval's version."""

    task_version: str | None = None
    """The task's version, as text."""

    filters: Mapping[str, str] = field(default_factory=dict)
    """The steps of each filter, as text, by name."""

    metrics: Mapping[str, str] = field(default_factory=dict)
    """The settings of each metric, as text, by name."""

    scorer: str | None = None
    """The source of the task's own scorer."""

    voting: frozenset[str] = frozenset()
    """The filters that make one answer of several, or may do so."""

    runs_code: bool = False
    """Whether scoring runs programs that the model wrote."""


def read_grader_facts(results: ResultsFile | None, task: str) -> GraderFacts:
    """Read the facts of a task from its results file."""
    if results is None:
        return GraderFacts()
    lm_eval = _read_text(results.tree.get("lm_eval_version"))
    return make_grader_facts(results.config(task), lm_eval, results.version(task))


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
        task_version=_read_text(number),
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


# Model arguments that change the model behind the same name.
_IDENTITY = ("revision", "dtype", "quantization", "load_in_4bit", "load_in_8bit", "peft", "delta", "gguf_file")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The provenance of a task's results. None or empty means unknown."""

    results_file: Path | None = None
    """The results file; None if there are only samples."""

    model: str | None = None
    """The model's name, else the folder that lm_eval made for it."""

    backend: str | None = None
    """lm-eval's name of the backend, such as ``local-completions``."""

    model_args: Mapping[str, str] = field(default_factory=dict)
    """Its arguments, without secrets."""

    lm_eval: str | None = None
    """lm-eval's version."""

    harness: str | None = None
    """The harness that wrote the record, where it is not lm-eval."""

    engine: str | None = None
    """The engine's version, if lm_eval's description of the environment has it."""

    date: str | None = None
    """When it was started, UTC."""

    duration_s: float | None = None
    """Seconds of the whole lm_eval command; for answers from elsewhere, seconds for these."""

    limit: float | None = None
    """``--limit``."""

    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Generation settings given on the command line."""

    chat_template: bool | None = False
    """Whether a chat template was applied; None if unknown."""

    system_instruction: bool | None = False
    """Whether there was a system instruction; None if unknown."""

    prompt_texts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the texts of ``system_instruction`` and ``chat_template``; without those that are not known."""

    docs_sha256: str | None = None
    """SHA-256 of the docs file in the pack."""

    dataset_revision: str | None = None
    """Commit of the evals dataset, for packs made with ``bundle: false``."""

    docs_of_task: int | None = None
    """Number of docs of the task, before a limit."""

    docs_run: int | None = None
    """Number of docs that lm_eval reports as run; with ``--samples`` and lm-eval up to 0.4.11 all docs."""

    completion_tokens: float | None = None
    """Tokens of all answers, if the engine's count was kept."""

    tokens_per_second: float | None = None
    """Tokens per second over all answers."""

    median_seconds: float | None = None
    """Median seconds from a request to its answer."""

    stopped: str | None = None
    """The decision of a run that stopped early; None for a complete run."""

    cost: float | None = None
    """Cost of all answers, in the unit of the given price per hour."""

    shots: int | None = None
    """Number of examples before each question."""

    decoding: Mapping[str, Any] = field(default_factory=dict)
    """The generation settings of task and command line that affect answers: no seed, and for greedy decoding no
    settings of sampling."""

    origins: AnswerOrigins = field(default_factory=AnswerOrigins)
    """Which models and deployments gave its answers."""

    endpoint: EndpointNotes | None = None
    """What was seen of a chat endpoint; None of another."""

    order: str | None = None
    """The random order of its docs, in words; None of another order."""

    rerun: RerunValues | None = None
    """Second answers to some docs; None where there are none."""

    grader: GraderFacts = field(default_factory=GraderFacts)
    """What graded the answers."""

    settings: Mapping[str, Any] | None = None
    """What else changes what was asked, by name: the settings that the record's format compares. None if unknown."""

    names_engine: bool = False
    """Whether ``backend`` is the engine that answered meta-eval, by its own name, and no backend of lm-eval."""

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
    shots = results.shots(task) if results else None
    elsewhere = as_mapping(settings.get("meta_eval"))  # facts that `meta-eval grade` keeps about answers from elsewhere
    return Provenance(
        results_file=results.path if results else None,
        model=arguments.get("pretrained") or arguments.get("model") or _read_text(tree.get("model_name")) or folder,
        backend=_read_text(settings.get("model") or tree.get("model_source")),
        model_args=arguments,
        lm_eval=_read_text(tree.get("lm_eval_version")),
        harness=_read_text(tree.get("harness")),
        engine=_read_text(engine[1]) if engine else None,
        date=None if started is None else started.isoformat(timespec="seconds"),
        duration_s=read_finite_number(
            elsewhere.get("seconds") if elsewhere else tree.get("total_evaluation_time_seconds")
        ),
        limit=read_finite_number(settings.get("limit")),
        gen_kwargs=changed,
        chat_template=bool(tree.get("chat_template")) if results else None,
        system_instruction=bool(tree.get("system_instruction")) if results else None,
        prompt_texts={
            name: hash_text(text)
            for name in ("system_instruction", "chat_template")
            if isinstance(text := tree.get(name), str) and text
        },
        docs_sha256=_read_text(kwargs.get("sha256")),
        dataset_revision=_read_text(kwargs.get("revision")),
        docs_of_task=results.count(task, "original") if results else None,
        docs_run=results.count(task, "effective") if results else None,
        completion_tokens=read_finite_number(elsewhere.get("completion_tokens")),
        tokens_per_second=read_finite_number(elsewhere.get("tokens_per_second")),
        median_seconds=read_finite_number(elsewhere.get("median_seconds")),
        stopped=_stopped(elsewhere.get("stopped")),
        cost=read_finite_number(elsewhere.get("cost")),
        shots=shots,
        origins=read_origins(as_mapping(elsewhere.get("origins")).get(task), arguments),
        endpoint=read_endpoint_notes(elsewhere.get("endpoint")),
        order=describe_order(elsewhere),
        rerun=read_rerun(elsewhere, task),
        grader=read_grader_facts(results, task),
        names_engine=bool(elsewhere),
        settings=_read_settings(tree, config),
        decoding=read_decoding(
            {**as_mapping(config.get("generation_kwargs")), **changed},
            has_default="harness" not in tree,
        ),
    )


def _read_settings(tree: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The further settings of a task: of lm-eval how examples are sent, of another harness what its format compares."""
    settings = config.get("settings") if "harness" in tree else {AS_MULTITURN: tree.get(AS_MULTITURN)}
    return flatten_settings(settings) if isinstance(settings, Mapping) else None


def read_decoding(settings: Mapping[str, Any], *, has_default: bool) -> dict[str, Any]:
    """The settings that affect answers. A number written as text counts as a number.

    Args:
        settings: Those of the task and of the command line.
        has_default: Whether lm-eval asked, whose limit of tokens is `MAX_GEN_TOKS` where none is set.
    """
    temperature = read_finite_number(settings.get("temperature"))
    is_greedy = str(settings.get("do_sample")) != "True" if temperature is None else temperature == 0
    idle = ("seed", *(OF_DRAWS if is_greedy else ()))
    defaults = {"max_gen_toks": MAX_GEN_TOKS}.items() if has_default else ()
    effective = {
        name: value for name, value in _changed(settings).items() if name not in idle and (name, value) not in defaults
    }
    return {
        name: value if isinstance(value, bool) or read_finite_number(value) is None else read_finite_number(value)
        for name, value in effective.items()
    }


def _changed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Generation settings without those that our command adds for a server and lm_eval's own engines have built in."""
    changed = ("skip_special_tokens", "spaces_between_special_tokens")
    return {name: value for name, value in settings.items() if not (name in changed and str(value) == "False")}


def _arguments(arguments: Any) -> dict[str, str]:
    """Parse model arguments: an object, or text ``a=1,b=2``. Secret values are dropped."""
    if isinstance(arguments, str):
        parts = (part.partition("=") for part in arguments.split(",") if part)
        arguments = {name: value for name, _, value in parts}
    if not isinstance(arguments, dict):
        return {}
    return {
        str(name): HIDDEN if is_secret(str(name), value) else redact_secrets(str(value))
        for name, value in arguments.items()
    }


def _read_text(value: Any) -> str | None:
    return None if value is None else redact_secrets(str(value))


def _stopped(stop: Any) -> str | None:
    """Format run's early stop: ``SHIP at a margin of 1 points after 1,953 of 12,032 docs``."""
    if not isinstance(stop, Mapping):
        return None
    margin, docs, of = (read_finite_number(stop.get(name)) for name in ("margin", "docs", "of"))
    if margin is None or docs is None or of is None:
        return str(stop.get("outcome"))[:20]
    return f"{str(stop.get('outcome'))[:20]} at a margin of {100 * margin:g} points after {docs:,.0f} of {of:,.0f} docs"
