"""The tool-call templates in tests: docs from golds, and the score of an answer."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
from packs import without_fingerprints
from rows import make_row
from template_modules import template_module

KINDS = ("nexus", "api_bank", "gorilla", "bfcl")

# For each kind the YAML's functions that make docs, extract strictly, extract freely and score.
FUNCTIONS = {
    "nexus": ("nexus_docs", "nexus_program", "nexus_anywhere", "nexus_results"),
    "api_bank": ("api_bank_docs", "in_brackets", "anywhere", "api_bank_results"),
    "gorilla": ("gorilla_docs", "after_marker", "all_code", "gorilla_results"),
    "bfcl": ("bfcl_docs", "bfcl_decoded", "bfcl_anywhere", "bfcl_results"),
}

# Our own hub, in the form of the join.
APIS = (
    ("Sight", "load('acme/eye', size=3)"),
    ("Sight", "Model.from_pretrained('acme/iris')"),
    ("Sound", "Model.from_pretrained('acme/ear')"),
    ("Smell", "Model.from_pretrained('acme/nose')"),
    ("Smell", "./run.sh acme/nose"),
)


def template() -> ModuleType:
    return template_module("tools/utils.py")


@functools.cache
def database() -> str:
    """Write the file of a hub's APIs. Its name identifies the hub."""
    path = Path(tempfile.mkdtemp()) / "gorilla_huggingface.jsonl"
    rows = [{"domain": domain, "api_call": call} for domain, call in APIS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def make_docs(kind: str, golds: Sequence[Sequence[str]], prompt: str = "Call something.") -> list[dict[str, Any]]:
    return [dict(doc) for doc in _docs(kind, tuple(map(tuple, golds)), prompt)]


@functools.cache
def _docs(kind: str, golds: tuple[tuple[str, ...], ...], prompt: str) -> list[dict[str, Any]]:
    """Make docs once for golds and prompt."""
    rows = [
        make_row(f"{number}", prompts=[prompt], gold=list(gold), input_choice_list=None, api_database=database())
        for number, gold in enumerate(golds)
    ]
    with without_fingerprints():
        made = getattr(template(), FUNCTIONS[kind][0])(datasets.Dataset.from_list(rows))
    docs: list[dict[str, Any]] = made.to_list()
    return docs


def extracted(kind: str, doc: dict[str, Any], output: str, *, free: bool = False) -> str:
    _, strict, freely, _ = FUNCTIONS[kind]
    ((result,),) = getattr(template(), freely if free else strict)([[output]], [doc])
    return str(result)


def judge(kind: str, doc: dict[str, Any], output: str, *, free: bool = False) -> dict[str, Any]:
    verdict: dict[str, Any] = getattr(template(), FUNCTIONS[kind][3])(doc, [extracted(kind, doc, output, free=free)])
    return verdict


def score(kind: str, gold: str | Sequence[str], output: str, *, free: bool = False, prompt: str = "") -> dict[str, Any]:
    """Return a task's score of an answer to a doc."""
    (doc,) = make_docs(kind, [[gold] if isinstance(gold, str) else gold], prompt or "Call something.")
    return judge(kind, doc, output, free=free)


def right(kind: str, gold: str | Sequence[str], output: str, *, free: bool = False, prompt: str = "") -> bool:
    return bool(score(kind, gold, output, free=free, prompt=prompt)["acc"])
