"""Reads the results file of lm_eval: averages with standard errors, group totals, configurations and counts. Since
0.4.0 it is an object with the first key ``results``, with ``configs`` by task, and with ``groups`` if groups have a
score. Before 0.4.3 the user chooses its name; since then the name ends in the time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from meta_eval.base.display import quoted
from meta_eval.base.inputs import PointerError, TooDeepError, check_tree, open_regular, read_regular
from meta_eval.base.pack_names import RULE, is_name
from meta_eval.base.thresholds import LEVEL
from meta_eval.harness.doc_results import LOWER_IS_BETTER, UNBOUNDED_METRICS, ResultsError, make_unreadable_error
from meta_eval.stats import Interval
from meta_eval.stats.intervals import normal_quantile


def format_as_lm_eval(value: Any) -> str:
    """The text of a doc in a samples file: indented, with what JSON cannot hold converted as lm-eval does."""
    from lm_eval.utils import handle_non_serializable

    return json.dumps(value, indent=2, default=handle_non_serializable, ensure_ascii=False)


def hash_as_lm_eval(text: str) -> str:
    """The hash that lm-eval writes of a doc, a prompt or a target."""
    from lm_eval.utils import hash_string

    digest: str = hash_string(text)
    return digest


_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def split_samples(content: bytes) -> tuple[Any, dict[str, int]]:
    """Parse a results file without its samples.

    Args:
        content: The file.

    Returns:
        Its JSON tree without ``samples``, and the byte offset of each task's array of samples.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    tree: Any = {}
    if b'"samples"' not in content or not content.lstrip().startswith(b"{"):
        return json.loads(content), {}
    text = content.decode("utf-8", "surrogatepass")
    places: dict[str, int] = {}

    def read_value(key: str, start: int) -> int:
        tree[key], end = _DECODER.raw_decode(text, start)
        return end

    def place_samples(task: str, start: int) -> int:
        value, end = _DECODER.raw_decode(text, start)
        if isinstance(value, list) and value:
            places[task] = start
        return end

    def read_member(key: str, start: int) -> int:
        is_samples = key == "samples" and text[start : start + 1] == "{"
        return _walk(text, start, place_samples) if is_samples else read_value(key, start)

    end = _walk(text, _skip(text, 0), read_member)
    if _skip(text, end) != len(text):
        raise ValueError("more than one value")
    return tree, _in_bytes(text, places)


def _walk(text: str, at: int, read: Callable[[str, int], int]) -> int:
    """Find the end of the object at ``at``. ``read`` takes each key and the start of its value, and returns the value's
    end."""
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise ValueError("no key")
        at = _skip(text, read(key, _skip(text, at + 1)))
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "}":
            raise ValueError("no end")
    return at + 1


def _skip(text: str, at: int) -> int:
    """The first position from ``at`` that is not white space."""
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _in_bytes(text: str, places: dict[str, int]) -> dict[str, int]:
    """Convert positions in a text to positions in its UTF-8."""
    offsets: dict[str, int] = {}
    characters = size = 0
    for task, at in sorted(places.items(), key=lambda place: place[1]):
        size += len(text[characters:at].encode("utf-8", "surrogatepass"))
        characters, offsets[task] = at, size
    return offsets


# A results file has its tasks' configurations, some hundred KB, and sometimes samples.
_MAX_BYTES = 256 * 2**20

# The start of every results file, in all versions.
_HEAD = re.compile(rb'\s*\{\s*"results"\s*:')
_HEAD_BYTES = 256


@dataclass(frozen=True, slots=True)
class Aggregate:
    """lm-eval's own average of a metric under a filter."""

    value: float
    """The average."""

    stderr: float | None
    """Its standard error; None if lm-eval gives none."""

    is_fraction: bool
    """Whether it is a share from 0 to 1; a perplexity never is."""

    @property
    def interval(self) -> Interval | None:
        """The interval at `LEVEL` by normal approximation, cut to [0, 1] for shares; None without a standard error."""
        if self.stderr is None:
            return None
        half = normal_quantile(LEVEL) * self.stderr
        low, high = self.value - half, self.value + half
        return Interval(max(0.0, low), min(1.0, high)) if self.is_fraction else Interval(low, high)


@dataclass(frozen=True, slots=True)
class GroupTotal:
    """A group's total, as lm-eval averaged it over its tasks."""

    name: str
    """The group."""

    aggregates: Mapping[str, Aggregate]
    """The averages by ``metric,filter``."""

    tasks: tuple[str, ...]
    """Its tasks, including nested groups."""

    results_file: Path
    """Its results file."""


@dataclass(frozen=True, slots=True)
class ResultsFile:
    """A results file. Only the parts that all versions have are relied on."""

    path: Path
    """The file."""

    tree: Mapping[str, Any]
    """Its content, without samples."""

    samples: Mapping[str, int] = field(default_factory=dict)
    """The byte offset of each task's samples inside this file."""

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.tree["configs"])

    @property
    def time(self) -> str:
        """The start time, as lm-eval writes it in names; empty if missing (before 0.4.2)."""
        date = read_finite_number(self.tree.get("date"))
        when = None if date is None else to_datetime(date)
        return "" if when is None else when.replace(tzinfo=None).isoformat().replace(":", "-")

    def config(self, task: str) -> Mapping[str, Any]:
        return as_mapping(self.tree["configs"].get(task))

    def version(self, task: str) -> Any:
        """The version of a task as lm_eval wrote it; None if it wrote none."""
        return as_mapping(self.tree.get("versions")).get(task)

    def shots(self, task: str) -> int | None:
        """The number of examples before each question, even if it was written as text; None if there is none."""
        number = read_finite_number(as_mapping(self.tree.get("n-shot")).get(task))
        return int(number) if number is not None and number.is_integer() else None

    def aggregations(self, task: str) -> dict[str, str]:
        """The aggregation of a task's metrics, by metric: ``mean``, ``f1``, ``nanmean``, …."""
        listed = self.config(task).get("metric_list")
        entries = [as_mapping(entry) for entry in listed] if isinstance(listed, list) else []
        return {
            str(entry.get("metric")): entry["aggregation"]
            for entry in entries
            if isinstance(entry.get("aggregation"), str)
        }

    def aggregates(self, task: str) -> dict[str, Aggregate]:
        """The averages of a task by ``metric,filter``, in the file's order. Values that are not finite are left out."""
        return _aggregates(as_mapping(self.tree["results"].get(task)))

    def read_directions(self, task: str) -> dict[str, bool]:
        """Whether more is better in the metrics of a task of which the file says so."""
        listed = self.config(task).get("metric_list")
        entries = [as_mapping(entry) for entry in listed] if isinstance(listed, list) else []
        higher_is_better = {str(entry.get("metric")): entry.get("higher_is_better") for entry in entries}
        higher_is_better |= as_mapping(as_mapping(self.tree.get("higher_is_better")).get(task))
        for metric, higher in higher_is_better.items():
            if not isinstance(higher, bool | None):
                what = f"higher_is_better of {metric} in {task} is {quoted(higher)}, and neither true nor false"
                raise ResultsError(what, where=str(self.path), hint="Correct it in the task's YAML, and in this file")
        return {metric: higher for metric, higher in higher_is_better.items() if isinstance(higher, bool)}

    def lower_is_better(self, task: str) -> frozenset[str]:
        """The metrics of a task where lower is better: by the file, or else by their names."""
        flags = self.read_directions(task)
        return frozenset({metric for metric, higher in flags.items() if not higher} | (LOWER_IS_BETTER - flags.keys()))

    def count(self, task: str, which: str) -> int | None:
        """The number of docs of a task (``original``) or of those that ran (``effective``). Written since 0.4.3."""
        count = as_mapping(as_mapping(self.tree.get("n-samples")).get(task)).get(which)
        return count if isinstance(count, int) and not isinstance(count, bool) else None

    def task_hash(self, task: str) -> str | None:
        """lm-eval's hash of the hashes of a task's samples, in order. Written since 0.4.3."""
        digest = as_mapping(self.tree.get("task_hashes")).get(task)
        return digest if isinstance(digest, str) else None

    def groups(self) -> dict[str, GroupTotal]:
        """The groups with a score: all before 0.4.4, since then those with an aggregation."""
        children = dict(as_mapping(self.tree.get("group_subtasks")))
        for task in () if children else self.tasks:  # 0.4.0 and 0.4.1 have groups only in each task
            of = self.config(task).get("group")
            for group in of if isinstance(of, list) else [of]:
                if isinstance(group, str):
                    children.setdefault(group, []).append(task)
        groups = {}
        for name, averages in as_mapping(self.tree.get("groups")).items():
            aggregates = _aggregates(as_mapping(averages))
            if aggregates:
                groups[name] = GroupTotal(name, aggregates, list_leaf_tasks(name, children), self.path)
        return groups


def looks_like_results(path: Path) -> bool:
    """Whether a file begins like a results file, whatever its name. A Git LFS pointer is judged by its name.

    Raises:
        ResultsError: It cannot be read.
    """
    try:
        with open_regular(path) as file:
            return _HEAD.match(file.read(_HEAD_BYTES)) is not None
    except PointerError:
        return path.name.startswith("results")
    except OSError as error:
        raise make_unreadable_error(path, error) from None


def read_results_file(path: Path) -> ResultsFile:
    """Read a results file.

    Raises:
        ResultsError: It cannot be read, is truncated, is not a results file, or is from lm-eval before 0.4.
    """
    hint = "Use the file of a finished run"
    try:
        tree, samples = split_samples(read_regular(path, limit=_MAX_BYTES))
        tree = check_tree(tree)
    except OSError as error:
        raise make_unreadable_error(path, error) from None
    except TooDeepError as error:
        raise ResultsError(f"{error}: not a results file", where=str(path)) from None
    except (ValueError, RecursionError):
        raise ResultsError("is empty, cut off or not JSON", where=str(path), hint=hint) from None
    if isinstance(tree, dict) and {"results", "versions", "config"} <= tree.keys() and "configs" not in tree:
        raise ResultsError(
            "was written by lm-eval before 0.4, which has no filters", where=str(path), hint="Run lm-eval 0.4"
        )
    for key in ("results", "configs"):
        part = tree.get(key) if isinstance(tree, dict) else None
        if not isinstance(part, dict):
            raise ResultsError(f"has no {key!r}: not an lm_eval results file", where=str(path), hint=hint)
        if wrong := next((name for name, value in part.items() if not isinstance(value, dict)), None):
            raise ResultsError(f"{key}: {quoted(wrong)} is no object", where=str(path), hint="Take this task out of it")
    for key in ("configs", "groups"):
        for name in as_mapping(tree.get(key)):
            if not is_name(name):
                raise ResultsError(
                    f"{key}: {quoted(name)} is not a valid name of a task or group", where=str(path), hint=RULE
                )
    return ResultsFile(path, tree, samples)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """An object of a JSON tree; an empty mapping for anything else."""
    return value if isinstance(value, dict) else {}


def read_template_block(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The block ``metadata.meta_eval`` of a task's settings."""
    return as_mapping(as_mapping(settings.get("metadata")).get("meta_eval"))


def read_finite_number(value: Any) -> float | None:
    """A finite number, even if lm-eval wrote it as text; None for anything else."""
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def to_datetime(seconds: float) -> datetime | None:
    """A point in time from seconds since 1970, UTC; None if there is no such time."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _aggregates(averages: Mapping[str, Any]) -> dict[str, Aggregate]:
    aggregates = {}
    for key, value in averages.items():
        metric, comma, filter_name = key.partition(",")
        if not comma or metric.endswith("_stderr") or isinstance(value, (bool, str)):
            continue
        average = read_finite_number(value)
        if average is not None:
            stderr = read_finite_number(averages.get(f"{metric}_stderr,{filter_name}"))
            is_fraction = 0 <= average <= 1 and metric not in UNBOUNDED_METRICS
            aggregates[key] = Aggregate(average, stderr if stderr is not None and stderr >= 0 else None, is_fraction)
    return aggregates


def list_leaf_tasks(group: str, children: Mapping[str, Any]) -> tuple[str, ...]:
    """The tasks below a group without duplicates, in order; circular groups end the search."""
    tasks: dict[str, None] = {}
    left, seen = [group], set[str]()
    while left:
        name = left.pop()
        listed = children.get(name)
        if not isinstance(listed, list) or not listed:
            tasks[name] = None
        elif name not in seen:
            seen.add(name)
            left += reversed([child for child in listed if isinstance(child, str)])
    return tuple(tasks)
