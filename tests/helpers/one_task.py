"""The command line in this process and a template folder of a single task, for tests of odd inputs."""

from __future__ import annotations

import io
import re
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import TEMPLATES

from meta_eval.cli import main


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Run the command line in this process and return exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["meta-eval", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
            main()
    finally:
        sys.argv = before
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


def as_yaml(tree: Any) -> str:
    return yaml.dump(tree, allow_unicode=False, sort_keys=False)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


TEMPLATE = {
    "task": "my_task", "dataset_path": "x", "dataset_name": "y", "test_split": "latest", "process_docs": "@utils.process_docs",
    "doc_to_text": "@utils.doc_to_text", "doc_to_target": "gold", "num_fewshot": 0, "output_type": "generate_until",
    "generation_kwargs": {"until": [], "do_sample": False, "temperature": 0, "max_gen_toks": 16},
    "filter_list": [{"name": "strict", "filter": [{"function": "regex", "regex_pattern": "is ([A-Z])"}, {"function": "take_first"}]}],
    "process_results": "@utils.process_results", "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    "metadata": {"version": 1.0, "meta_eval": {
        "subset": "gpqa", "variants": ["instruct"], "families": ["3.1"], "groups": ["my_group"], "aliases": ["other"],
        "published": [{"metric": "exact_match,strict"}], "row_format": "assumed", "primary_metric": "exact_match,strict", "min_agreement": 0.9,
    }},
}  # fmt: skip


def as_template(tree: Any) -> str:
    return re.sub(r"'@(utils\.\w+)'", r"!function \1", as_yaml(tree))


def one_template(here: Path, text: str | None = None) -> Path:
    """Write a template folder of a single task. To read the shipped folder takes longer than these tests."""
    (here / "my").mkdir(parents=True, exist_ok=True)
    shutil.copy(TEMPLATES / "mmlu_pro" / "utils.py", here / "my" / "utils.py")
    write(here / "my" / "t.yaml", as_template(TEMPLATE) if text is None else text)
    return here
