"""Checks a template for mistakes that lm-eval would report hours later or not at all.

lm-eval's names are listed here, because importing it takes seconds. A test compares the lists with the installed
lm-eval.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Set
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from meta_eval.base.display import quoted
from meta_eval.base.errors import TemplateError, suggest_name
from meta_eval.base.inputs import describe_error, read_regular
from meta_eval.harness.sample_parser import SAMPLE_FIELDS
from meta_eval.harness.settings import SAMPLING
from meta_eval.pack.templates.spec import FunctionRef, find_functions

# The fields of lm-eval's TaskConfig, 0.4.11 to 0.4.13, and other keys that a YAML may have.
KEYS = frozenset(
    (
        "task", "task_alias", "tag", "custom_dataset", "dataset_path", "dataset_name", "dataset_kwargs",
        "training_split", "validation_split", "test_split", "fewshot_split", "process_docs", "doc_to_text",
        "doc_to_target", "doc_to_image", "doc_to_audio", "unsafe_code", "doc_to_choice", "process_results",
        "use_prompt", "description", "target_delimiter", "fewshot_delimiter", "fewshot_config", "num_fewshot",
        "metric_list", "output_type", "generation_kwargs", "repeats", "filter_list", "should_decontaminate",
        "doc_to_decontamination_query", "gen_prefix", "metadata", "include", "class",
    )
)  # fmt: skip
FILTERS = frozenset(
    (
        "custom", "format_span", "lowercase", "majority_vote", "map", "multi_choice_regex", "regex",
        "regex_pos", "remove_whitespace", "take_first", "take_first_k", "uppercase",
    )
)  # fmt: skip
_REGEX = ("regex_pattern", "group_select", "fallback")
# The arguments of the filters that take no others.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "map": ("mapping_dict", "default_value"), "regex": _REGEX, "regex_pos": _REGEX,
    "multi_choice_regex": (*_REGEX, "ignore_case", "ignore_punctuation", "regexes_to_ignore"),
}  # fmt: skip
AGGREGATIONS = frozenset(
    (
        "bits_per_byte", "bleu", "brier_score", "bypass", "chrf", "chrf++", "f1", "matthews_corrcoef", "mean", "median",
        "nanmean", "perplexity", "ter", "weighted_perplexity",
    )
)  # fmt: skip
OUTPUT_TYPES = frozenset(("generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling"))

# What to do about a file that a template names and that is not there.
NEEDS_FILE = "Copy the file into the template folder, or correct the name in the YAML"

# The engine decides the keys of generation_kwargs; a key that resembles one of these is a misspelling.
_GENERATION = (
    *SAMPLING, "until", "max_gen_toks", "skip_special_tokens", "ignore_eos", "stop", "n", "best_of",
    "spaces_between_special_tokens", "include_stop_str_in_output", "bad_words", "logit_bias", "stop_token_ids",
)  # fmt: skip
_METRIC = ("metric", "aggregation", "higher_is_better")
# The keys of a group's YAML, and of one of its averages.
_GROUP = frozenset(("group", "group_alias", "task", "aggregate_metric_list", "metadata", "tag", "include"))
_AVERAGE = frozenset(("metric", "aggregation", "weight_by_size", "filter_list"))


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that lm-eval does not know or cannot use.

    Args:
        settings: The whole task, includes merged in.

    Raises:
        TemplateError: A key, filter, pattern, metric or limit is invalid.
    """
    check_keys(settings)
    output_type = settings.get("output_type", "generate_until")
    if not isinstance(output_type, str) or output_type not in OUTPUT_TYPES:
        suggestion = suggest_name(str(output_type), OUTPUT_TYPES)
        raise TemplateError(
            f"output_type: unknown to lm-eval: {quoted(output_type)}{suggestion}",
            hint=f"Write one of {', '.join(sorted(OUTPUT_TYPES))}",
        )
    for key in ("doc_to_image", "doc_to_audio"):
        if settings.get(key):
            raise TemplateError(f"{key}: a pack holds texts, and no pictures or sounds", hint=f"Take {key} out")
    check_numbers(settings)
    _check_generation(settings.get("generation_kwargs") or {})
    _check_filters(settings.get("filter_list"))
    check_metrics(settings.get("metric_list"))


def check_keys(settings: Mapping[str, Any]) -> None:
    """Refuse a key that lm-eval does not know: it would end with a TypeError.

    Raises:
        TemplateError: There is one.
    """
    for key in settings:
        if key not in KEYS:
            raise TemplateError(
                f"{quoted(key)}: unknown key of lm-eval{suggest_name(key, KEYS)}",
                hint="Put meta-eval's settings in metadata.meta_eval, and your own in metadata",
            )


def check_group(settings: Mapping[str, Any]) -> None:
    """Refuse a group's YAML that ends lm-eval.

    Raises:
        TemplateError: It has an unknown key, or an average that is none.
    """
    listed = settings.get("aggregate_metric_list")
    averages = _entries([listed] if isinstance(listed, dict) else listed, "aggregate_metric_list")
    for keys, known in ((settings, _GROUP), *((average, _AVERAGE) for average in averages)):
        for key in keys:
            if key not in known:
                what = f"{quoted(key)}: unknown key of a group of lm-eval{suggest_name(str(key), known)}"
                raise TemplateError(what, hint=f"Known keys: {', '.join(sorted(known))}")


def check_functions(
    place: Callable[[PurePosixPath], Path],
    settings: Mapping[str, Any],
    folder_of_key: Mapping[str, PurePosixPath],
    file: PurePosixPath,
) -> None:
    """Refuse a function that its module does not define, without running the module.

    Args:
        place: Gives the location of a file of the template folder.
        settings: The whole task, includes merged in.
        folder_of_key: For each key, the folder that its ``!function`` paths are relative to.
        file: The YAML of the task.

    Raises:
        TemplateError: A module cannot be read or parsed, or lacks the function.
    """
    for key, value in settings.items():
        for reference in find_functions(value):
            path = place(folder_of_key[key] / reference.module_file)
            names = _defined(path)
            if names is not None and reference.function not in names:
                raise TemplateError(
                    f"{key}: {path} has no function {reference.function!r}{suggest_name(reference.function, names)}",
                    where=str(place(file)),
                    hint=f"Define it there, or correct `!function {reference}`",
                )


def check_numbers(settings: Mapping[str, Any]) -> None:
    """Refuse a setting that is no number, such as a number in quotes.

    Args:
        settings: A YAML of a task, or the whole task.

    Raises:
        TemplateError: There is one.
    """
    generation = settings.get("generation_kwargs") or {}
    if not isinstance(generation, dict):
        raise TemplateError("generation_kwargs: must be a mapping")
    for of, key, what, least in (
        (settings, "num_fewshot", "number of examples", 0),
        (settings, "repeats", "number of answers", 1),
        (generation, "max_gen_toks", "number of tokens", 1),
    ):
        value = of.get(key)
        if key in of and (type(value) is not int or value < least) and not (value is None and of is settings):
            name = key if of is settings else f"generation_kwargs.{key}"
            hint = "Write it without quotes" if isinstance(value, str) and value.isdecimal() else None
            raise TemplateError(
                f"{name}: {quoted(value)} is not a {what}", hint=hint or f"Set a whole number from {least}"
            )
    for name in (*SAMPLING, "seed"):
        if not isinstance(value := generation.get(name), int | float | None):
            raise TemplateError(f"generation_kwargs.{name}: {quoted(value)} is not a number")


def _check_generation(settings: Mapping[str, Any]) -> None:
    stops = settings.get("until")
    stops = [stops] if isinstance(stops, str) else [] if stops is None else stops
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        what = f"generation_kwargs.until: {quoted(settings['until'])} is not a list of texts at which an answer ends"
        raise TemplateError(what, hint="Such as until: ['\\n\\n'], or [] for none")
    for name in settings:
        if name not in _GENERATION and (near := get_close_matches(name[:100], _GENERATION, n=1, cutoff=0.75)):
            raise TemplateError(f"generation_kwargs: {quoted(name)} is not known; did you mean {near[0]!r}?")


def _check_filters(entries: Any) -> None:
    names: set[str] = set()
    for number, entry in enumerate(_entries(entries, "filter_list")):
        key = f"filter_list.{number}"
        name = entry.get("name")
        if not isinstance(name, str) or not name or "," in name:
            raise TemplateError(f"{key}.name: {quoted(name)} is not a valid filter name")
        if name in names:
            raise TemplateError(f"{key}.name: {quoted(name)} is the name of two filters", hint="Rename one of them")
        names.add(name)
        for step, part in enumerate(_entries(entry.get("filter"), f"{key}.filter")):
            _check_filter(part, f"{key}.filter.{step}")


def _check_filter(part: Mapping[str, Any], key: str) -> None:
    function = part.get("function")
    if not isinstance(function, str) or function not in FILTERS:
        raise TemplateError(
            f"{key}.function: unknown filter {quoted(function)}{suggest_name(str(function), FILTERS)}",
            hint=f"Filters: {', '.join(sorted(FILTERS))}",
        )
    if function == "custom" and not isinstance(part.get("filter_fn"), FunctionRef):
        raise TemplateError(f"{key}.filter_fn: is not a !function", hint="Write filter_fn: !function module.name")
    if unknown := [name for name in part if name not in ("function", *ARGUMENTS.get(function, part))]:
        near = suggest_name(str(unknown[0]), ARGUMENTS[function])
        raise TemplateError(f"{key}: {quoted(unknown[0])} is no argument of the filter {function}{near}")
    if type(select := part.get("group_select", 0)) is not int:
        hint = "0 takes the first match, and -1 the last"
        raise TemplateError(f"{key}.group_select: {quoted(select)} is not a whole number", hint=hint)
    if function == "take_first_k" and (type(count := part.get("k")) is not int or count < 1):
        raise TemplateError(f"{key}.k: {quoted(count)} is not a whole number from 1")
    if function == "map" and not isinstance(part.get("mapping_dict"), dict):
        raise TemplateError(f"{key}.mapping_dict: {quoted(part.get('mapping_dict'))} is not a mapping")
    pattern = part.get("regex_pattern")
    if pattern is None:
        return
    try:
        re.compile(pattern)
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise TemplateError(
            f"{key}.regex_pattern: {quoted(pattern)} is not a regular expression: {describe_error(error)}",
            hint="Correct the pattern: a bracket that stands for itself needs a backslash before it",
        ) from None


def check_metrics(entries: Any) -> None:
    """Refuse a ``metric_list`` that lm-eval cannot use: an unknown aggregation ends it when all answers are graded.

    Raises:
        TemplateError: An entry is invalid.
    """
    for number, entry in enumerate(_entries(entries, "metric_list")):
        aggregation = entry.get("aggregation")
        if not isinstance(aggregation, FunctionRef | None) and str(aggregation) not in AGGREGATIONS:
            raise TemplateError(
                f"metric_list.{number}.aggregation: unknown to lm-eval: {quoted(aggregation)}"
                f"{suggest_name(str(aggregation), AGGREGATIONS)}",
                hint=f"Write one of {', '.join(sorted(AGGREGATIONS))}; or `!function module.name` for one of your own",
            )
        metric = entry.get("metric")
        if isinstance(metric, FunctionRef):
            continue
        if not isinstance(metric, str) or not metric or "," in metric:
            raise TemplateError(f"metric_list.{number}.metric: {quoted(metric)} is not a valid metric name")
        if metric in SAMPLE_FIELDS:
            what = f"metric_list.{number}.metric: {quoted(metric)} is the name of a field of every sample"
            raise TemplateError(what, hint="Give the metric another name, in process_results, too")
        direction = entry.get("higher_is_better")
        if not isinstance(direction, bool | None):
            what = f"metric_list.{number}.higher_is_better: {quoted(direction)} is neither true nor false"
            raise TemplateError(what)
        near = next(
            (m for name in entry if name not in _METRIC for m in get_close_matches(name, _METRIC, 1, 0.8)), None
        )
        if near:
            raise TemplateError(f"metric_list.{number}: did you mean {near!r}?")


def _entries(listed: Any, key: str) -> list[Mapping[str, Any]]:
    if listed is None:
        return []
    if not isinstance(listed, list) or not listed or not all(isinstance(entry, dict) for entry in listed):
        raise TemplateError(f"{key}: must be a list of mappings")
    return listed


def defines_function(path: Path, function: str) -> bool:
    """Whether a module defines or imports a name at its top level. False if only running it would show that.

    Raises:
        TemplateError: It cannot be read or parsed.
    """
    return function in (_defined(path) or ())


def _defined(path: Path) -> Set[str] | None:
    """The names that a module defines or imports at its top level; None if only running it would show them."""
    try:
        return _at_top(read_regular(path))
    except SyntaxError as error:
        raise TemplateError(
            f"is not Python: {error.msg}",
            where=f"{path}:{error.lineno or 1}",
            hint="Correct this line, or that before it",
        ) from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise TemplateError(f"cannot be read: {describe_error(error)}", where=str(path), hint=NEEDS_FILE) from None


@lru_cache(maxsize=64)
def _at_top(source: bytes) -> Set[str] | None:
    """The same for source text, cached because tasks share modules."""
    names: set[str] = set()
    for node in _top(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return None if names & {"*", "__getattr__"} else names


def _top(body: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """Top-level statements of a module, including those in ``if``, ``try`` and ``with``."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.ExceptHandler):
            waiting += ast.iter_child_nodes(node)
