"""Shared code of the comparisons: arguments, a template's filters and graders as lm-eval loads them, counts, output.

Only src/meta_eval/plugins/meta/catalog/grader_validation/ describes the comparisons. A script measures and prints its
entries with the current counts.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import hashlib
import importlib.util
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
TEMPLATES = REPOSITORY / "meta_template"
FENCE = "```"
ASSISTANT = "<|start_header_id|>assistant<|end_header_id|>\n\n"
CATALOG = REPOSITORY / "src" / "meta_eval" / "catalog" / "grader_validation"


@functools.cache
def module(path: Path) -> ModuleType:
    """Import a Python file by its path as lm-eval does."""
    spec = importlib.util.spec_from_file_location(str(path.with_suffix("")), path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@functools.cache
def template_module(file: str) -> ModuleType:
    """Import a file of the template folder, such as ``gsm8k/utils.py``, as the files next to it do."""
    path = TEMPLATES / file
    spec = importlib.util.spec_from_file_location(str(path), TEMPLATES / "_common" / "load.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    load = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(load)
    result: ModuleType = load.module(f".{path.stem}")
    return result


def arguments(doc: str | None, data: str) -> argparse.ArgumentParser:
    """Make a comparison's command line, whose ``--data`` names its input."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help=data)
    return parser


def checkout(doc: str | None, repository: str, commit: str) -> Path:
    """Return the checkout from the command line, which is the comparison's only input."""
    folder: Path = arguments(doc, f"checkout of {repository}").parse_args().data
    check_commit(folder, commit)
    return folder


def lines(path: Path) -> list[Any]:
    """Read a file of JSON lines."""
    with path.open(encoding="utf-8") as file:
        return list(map(json.loads, file))


@functools.cache
def settings(path: Path) -> dict[str, Any]:
    """Read a task's YAML with its includes. A ``!function`` becomes the function."""

    class Loader(yaml.SafeLoader):
        pass

    def function(loader: yaml.SafeLoader, node: Any) -> Any:
        file, _, name = str(loader.construct_scalar(node)).rpartition(".")
        # A filter_list names no function of lm-eval, so these stay unchanged.
        beside = path.parent / f"{file}.py"
        return getattr(module(beside), name) if beside.is_file() else None

    Loader.add_constructor("!function", function)
    tree: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
    include = tree.pop("include", None)
    return {**settings(path.parent / include), **tree} if include else tree


def filtered(task: dict[str, Any], name: str, outputs: Sequence[str], docs: Sequence[Any]) -> list[str]:
    """Apply a task's filters ``name`` to an output for each doc."""
    import lm_eval.filters  # noqa: F401 (registers them)
    from lm_eval.api.registry import get_filter

    resps: Any = [[output] for output in outputs]
    for step in next(group["filter"] for group in task["filter_list"] if group["name"] == name):
        arguments = {key: value for key, value in step.items() if key != "function"}
        resps = list(get_filter(step["function"])(**arguments).apply(resps, docs))
    return [resp[0] if isinstance(resp, list) else resp for resp in resps]


def verdicts(file: str, name: str, outputs: Sequence[str], docs: Sequence[Any], grader: ModuleType) -> list[bool]:
    """Return our exact_match of an output for each doc, by the filters ``name`` of a template's YAML."""
    judgement = filtered(settings(TEMPLATES / file), name, outputs, docs)
    return [
        grader.process_results(doc, [answer])["exact_match"] == 1 for doc, answer in zip(docs, judgement, strict=True)
    ]


def lm_eval_verdicts(task: dict[str, Any], name: str, outputs: Sequence[str], golds: Sequence[str]) -> list[bool]:
    """Return lm-eval's exact_match of an output for each gold, by another task's stop strings, filters and metric."""
    from lm_eval.api.metrics import exact_match_fn

    cut = [stopped(output, task.get("generation_kwargs", {}).get("until") or []) for output in outputs]
    (metric,) = task["metric_list"]
    arguments = {
        key: value for key, value in metric.items() if key not in ("metric", "aggregation", "higher_is_better")
    }
    return [
        exact_match_fn(references=[gold], predictions=[answer], **arguments)["exact_match"] == 1
        for gold, answer in zip(golds, filtered(task, name, cut, [{}] * len(cut)), strict=True)
    ]


def stopped(output: str, until: Sequence[str]) -> str:
    """Return the output up to the first stop string."""
    for end in until:
        output = output.partition(end)[0]
    return output


def extracted(file: str, name: str, output: str) -> str:
    """Apply the filters ``name`` of a template's YAML to an output."""
    return filtered(settings(TEMPLATES / file), name, [output], [{}])[0]


def row(question: str, golds: Sequence[str], subtask: str | None = None, **more: Any) -> dict[str, Any]:
    """Make a row of a details subset with only the columns that a grader reads."""
    digest = hashlib.sha256(question.encode()).hexdigest()
    return {
        "input_question": question,
        "input_final_prompts": [question],
        "input_correct_responses": list(golds),
        "input_question_hash": digest,
        "input_final_prompts_hash": [digest],
        "input_choice_list": None,
        "subtask_name": subtask,
        **more,
    }


def percent(scores: Sequence[float]) -> float:
    """Return the mean of verdicts, or of scores from 0 to 1, in percent with two decimals."""
    return round(100 * math.fsum(scores) / len(scores), 2)


def compared(
    ours: Sequence[bool], theirs: Sequence[bool], why: Callable[[int], str] = lambda _: "not looked into"
) -> dict[str, Any]:
    """Return the counts and scores of an entry. ``why`` explains different verdicts on a doc by its number."""
    theirs = [bool(their) for their in theirs]  # numpy's bools
    apart = Counter(why(n) for n, (ours_one, other) in enumerate(zip(ours, theirs, strict=True)) if ours_one != other)
    return {
        "answers": len(ours),
        "agreed": len(ours) - apart.total(),
        "ours": percent(ours),
        "theirs": percent(theirs),
        "rest": reasons(apart),
    }


def tallied(verdicts: Iterable[tuple[bool, bool, str]]) -> dict[str, Any]:
    """Return the same as `compared` from our verdict, theirs, and the reason of a difference for each answer."""
    ours, theirs, why = zip(*verdicts, strict=True)
    return compared(ours, theirs, why.__getitem__)


def measured(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], why: Callable[[int], str] = lambda _: "not looked into"
) -> dict[str, Any]:
    """Return the same as `compared` from our scores of each answer and theirs, which agree if all are equal.

    The first is the score of the entry's metric.
    """
    apart = Counter(
        why(number)
        for number, (ours, theirs) in enumerate(pairs)
        if any(abs(our - their) > 1e-9 for our, their in zip(ours, theirs, strict=True))
    )
    return {
        "answers": len(pairs),
        "agreed": len(pairs) - apart.total(),
        "ours": percent([ours[0] for ours, _ in pairs]),
        "theirs": percent([theirs[0] for _, theirs in pairs]),
        "rest": reasons(apart),
    }


def reasons(apart: Counter[str]) -> list[dict[str, Any]]:
    """Return the ``rest`` of an entry: the count of differing verdicts by reason."""
    return [{"count": count, "why": why} for why, count in apart.most_common()]


def counted(
    agreed: int, answers: int, *, ours: float | None = None, theirs: float | None = None, why: str = "not looked into"
) -> dict[str, Any]:
    """Return the counts of an entry with a single reason for all disagreements, and the scores in percent."""
    rest = [{"count": answers - agreed, "why": why}] if agreed < answers else []
    return {"answers": answers, "agreed": agreed, "ours": ours, "theirs": theirs, "rest": rest}


def check_commit(folder: Path, commit: str) -> None:
    """Warn if a checkout is at another commit than the committed numbers. Without git do nothing."""
    asked = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    text = done.stdout.strip()
    if done.returncode == 0 and text and not text.startswith(commit):
        print(f"{folder} is at {text[:12]}; the recorded numbers are of {commit}", file=sys.stderr)


def show(measured: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the catalog's entries as YAML with the current counts, and today's date where they are others.

    The key is an entry's id.
    """
    checks = [check for file in CATALOG.glob("*.yaml") for check in yaml.safe_load(file.read_text("utf-8"))["checks"]]
    known = {check["id"]: check for check in checks}

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (PyYAML's signature)
            return True

    today = datetime.datetime.now(datetime.UTC).date()
    result = []
    for name, counts in measured.items():
        is_same = all(known[name].get(key) == value for key, value in counts.items())
        result.append({**known[name], "date": known[name]["date"] if is_same else today, **counts})
    yaml.dump({"checks": result}, sys.stdout, Dumper, sort_keys=False, allow_unicode=True, width=118)
