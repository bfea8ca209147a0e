"""Fidelity tables from given numbers, for tests of their diagnosis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meta_eval.judge.token_table import Forced, Header, Tokens, read_tokens, write_tokens

HEADER = Header("my/model", "vllm 0.32.0", "a" * 64, "b" * 64, "c" * 64)


def answer(doc: int, logprobs: Sequence[float], margins: Sequence[float] | None = None, **other: Any) -> Forced:
    """Make an answer from log-probabilities and margins of its tokens. Margin 0 is the likeliest token."""
    probabilities = np.asarray(logprobs, np.float32)
    gaps = np.zeros(len(probabilities), np.float32) if margins is None else np.asarray(margins, np.float32)
    ids = np.arange(len(probabilities), dtype=np.int32) + 10
    given: dict[str, Any] = {
        "task": "meta_gsm8k", "subtask": None, "doc": doc, "request_sha256": f"{doc:064d}", "prompt_tokens": 100,
        "token_ids": ids, "logprobs": probabilities, "ranks": np.where(gaps > 0, 2, 1).astype(np.int32),
        "top_ids": np.where(gaps > 0, ids + 1, ids).astype(np.int32), "top_logprobs": probabilities + gaps,
    }  # fmt: skip
    return Forced(**{**given, **other})


def table(path: Path, answers: Iterable[Forced], header: Header = HEADER) -> Tokens:
    """Write answers to a file, whose folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tokens(path, header, answers)
    return read_tokens(path)


def drawn(docs: int, tokens: int, seed: int = 0, **other: Any) -> list[Forced]:
    """Make answers of a model that is sure of most tokens."""
    rng = np.random.default_rng(seed)
    return [answer(doc, -rng.exponential(0.3, tokens), **other) for doc in range(docs)]


def moved(answers: Sequence[Forced], size: float, seed: int = 1, docs: Iterable[int] | None = None) -> list[Forced]:
    """Make the table of another copy: the log-probabilities of some docs have noise of this size."""
    rng = np.random.default_rng(seed)
    some = None if docs is None else set(docs)
    result = []
    for scored in answers:
        noise = rng.laplace(0, size, len(scored.logprobs)).astype(np.float32) if size else 0
        shifted = np.minimum(scored.logprobs + noise, -1e-4) if some is None or scored.doc in some else scored.logprobs
        top = np.maximum(scored.top_logprobs, shifted)
        result.append(
            Forced(
                scored.task, scored.subtask, scored.doc, scored.request_sha256, scored.prompt_tokens, scored.token_ids,
                np.asarray(shifted, np.float32), scored.ranks, scored.top_ids, np.asarray(top, np.float32),
            )
        )  # fmt: skip
    return result
