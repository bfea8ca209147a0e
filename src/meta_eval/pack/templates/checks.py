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
from meta_eval.harness.settings import SAMPLING
from meta_eval.pack.templates.spec import FunctionRef, Template, find_functions

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
OUTPUT_TYPES = frozenset(("generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling"))

# The engine decides the keys of generation_kwargs; a key that resembles one of these is a misspelling.
_GENERATION = (
    *SAMPLING, "until", "max_gen_toks", "skip_special_tokens", "ignore_eos", "stop", "n", "best_of",
    "spaces_between_special_tokens", "include_stop_str_in_output", "bad_words", "logit_bias", "stop_token_ids",
)  # fmt: skip
_METRIC = ("metric", "aggregation", "higher_is_better")


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
        raise TemplateError(f"output_type: unknown to lm-eval: {quoted(output_type)}{suggestion}")
    _check_generation(settings.get("generation_kwargs"))
    _check_filters(settings.get("filter_list"))
    _check_metrics(settings.get("metric_list"))


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


def check_functions(place: Callable[[PurePosixPath], Path], template: Template) -> None:
    """Refuse a function that its module does not define, without running the module.

    Args:
        place: Gives the location of a file of the template folder.
        template: The template.

    Raises:
        TemplateError: A module cannot be read or parsed, or lacks the function.
    """
    for key, value in template.settings.items():
        for reference in find_functions(value):
            path = place(template.folder_of_key[key] / reference.module_file)
            names = _defined(path)
            if names is not None and reference.function not in names:
                raise TemplateError(
                    f"{key}: {path} has no function {reference.function!r}{suggest_name(reference.function, names)}",
                    where=str(place(template.file)),
                    hint=f"Define it there, or correct `!function {reference}`",
                )


def _check_generation(settings: Any) -> None:
    if settings is None:
        return
    if not isinstance(settings, dict):
        raise TemplateError("generation_kwargs: must be a mapping")
    limit = settings.get("max_gen_toks", 1)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise TemplateError(
            f"generation_kwargs.max_gen_toks: {quoted(limit)} is not a number of tokens",
            hint="Set a whole number from 1",
        )
    for name in settings:
        if name not in _GENERATION and (near := get_close_matches(name[:100], _GENERATION, n=1, cutoff=0.75)):
            raise TemplateError(f"generation_kwargs: {quoted(name)} is not known; did you mean {near[0]!r}?")


def _check_filters(entries: Any) -> None:
    for number, entry in enumerate(_entries(entries, "filter_list")):
        key = f"filter_list.{number}"
        name = entry.get("name")
        if not isinstance(name, str) or not name or "," in name:
            raise TemplateError(f"{key}.name: {quoted(name)} is not a valid filter name")
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
    pattern = part.get("regex_pattern")
    if pattern is None:
        return
    try:
        re.compile(pattern)
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise TemplateError(
            f"{key}.regex_pattern: {quoted(pattern)} is not a regular expression: {describe_error(error)}"
        ) from None


def _check_metrics(entries: Any) -> None:
    for number, entry in enumerate(_entries(entries, "metric_list")):
        metric = entry.get("metric")
        if isinstance(metric, FunctionRef):
            continue
        if not isinstance(metric, str) or not metric or "," in metric:
            raise TemplateError(f"metric_list.{number}.metric: {quoted(metric)} is not a valid metric name")
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
        raise TemplateError(f"is not Python: {error.msg}", where=f"{path}:{error.lineno or 1}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise TemplateError(f"cannot be read: {describe_error(error)}", where=str(path)) from None


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
