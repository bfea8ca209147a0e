"""A fake accelerator: the example script of docs/reference/files.md with the recorded answers of Meta's model."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from packs import read_docs
from places import REPOSITORY

SCRIPT = REPOSITORY / "examples" / "answer_requests.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("answer_requests", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(
    pack: Path, requests: Path, answers: Path, *shard: int, change: Callable[[str, dict[str, Any]], str] | None = None
) -> Path:
    """Answer requests with the recorded answers of their docs. ``change`` alters the texts."""
    docs: dict[str, list[dict[str, Any]]] = {}
    module = script()

    def doc_of(request: dict[str, Any]) -> dict[str, Any]:
        task = request["task"]
        if task not in docs:
            docs[task] = read_docs(pack, task)
        return docs[task][request["doc"]]

    def generate(request: dict[str, Any]) -> tuple[str, str, int]:
        text = doc_of(request)["recorded_output"] or ""
        text = change(text, request) if change else text
        return text, "stop", len(text.split())

    def logprobs(request: dict[str, Any]) -> list[float]:
        recorded = doc_of(request)["recorded_negative_log_likelihoods"]
        assert all(math.isfinite(token) for token in recorded)
        return [-token for token in recorded]

    module.generate, module.logprobs = generate, logprobs  # type: ignore[attr-defined]
    module.main(requests, answers, *(shard or (0, 1)))
    return answers


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().split(b"\n") if line]
