"""A run that lm-eval recorded with two tasks of our own. Packs of it need no plug-in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import yaml
from shared import once

# A task of texts and a task of choices, and their numbers of docs.
TEXTS, CHOICES = "own_letters", "own_choices"
DOCS = {TEXTS: 15, CHOICES: 16}
_LETTERS = "ABCDEFGHIJ"
_SHARED = {"dataset_path": "json", "test_split": "test", "metadata": {"version": 1.0}, "doc_to_text": "{{question}}"}
_TASKS: dict[str, dict[str, Any]] = {
    TEXTS: {
        "output_type": "generate_until", "doc_to_target": "{{gold}}",
        "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 64, "do_sample": False},
        "filter_list": [
            {"name": "strict", "filter": [{"function": "regex", "regex_pattern": "best answer is ([A-J])"}, {"function": "take_first"}]}
        ],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    },
    CHOICES: {
        "output_type": "multiple_choice", "doc_to_choice": "{{options}}", "doc_to_target": "{{right}}",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    },
}  # fmt: skip
_ROWS: dict[str, list[dict[str, Any]]] = {
    TEXTS: [
        {"question": f"Question {n}: which letter is number {n % 10}? Answer: \"The best answer is X.\"\n", "gold": _LETTERS[n % 10]}
        for n in range(DOCS[TEXTS])
    ],
    CHOICES: [
        {"question": f"Question {n}: which of four is it?\nA. a stone\nB. rain\nC. moss\nD. ink\nAnswer:", "options": list("ABCD"), "right": n % 4}
        for n in range(DOCS[CHOICES])
    ],
}  # fmt: skip


def record_run(temporary: pytest.TempPathFactory) -> Path:
    """Return the folder of a run, made once for all workers: ``run`` has its results, ``tasks`` the tasks."""
    return once(temporary, "own_record", _record)


def config_of(record: Path, **keys: Any) -> dict[str, Any]:
    """The keys of a configuration whose pack is of the run."""
    return {
        "evals_dataset": str(record / "run"), "template_dir": str(record / "tasks"), "tasks": ",".join(DOCS), **keys,
    }  # fmt: skip


def _record(folder: Path) -> None:
    from lm_eval.api.model import LM
    from recorded_runs import record

    class Model(LM):  # type: ignore[misc]
        """Every fifth text is wrong, and of choices the first that is long enough."""

        tokenizer_name = "own"

        def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
            given = [ask.doc["gold"] if ask.doc_id % 5 else "J" for ask in requests]
            return [f"The best answer is {letter}, {ask.doc_id}." for letter, ask in zip(given, requests, strict=True)]

        def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            return [(-1.0 - (ask.doc_id * 7 + ask.idx * 3) % 5, False) for ask in requests]

        def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
            raise NotImplementedError

    tasks = folder / "tasks"
    tasks.mkdir()
    for name, tree in _TASKS.items():
        lines = "".join(json.dumps(row) + "\n" for row in _ROWS[name])
        (tasks / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        data = {"dataset_kwargs": {"data_files": {"test": f"{name}.jsonl"}}}
        (tasks / f"{name}.yaml").write_text(yaml.dump({"task": name, **_SHARED, **data, **tree}), encoding="utf-8")
    with chdir(tasks):
        record(tasks, folder / "run", list(DOCS), model=Model())
