"""A table as columns, with an entry per token, and the facts of each answer."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meta_eval.judge.token_table import Choices, Forced
from meta_eval.plugins.tokens.thresholds import OPENING_TOKENS, TIED_NATS
from meta_eval.stats.ratio import Mean, mean_of_tokens

# Bounds of position ranges, in tokens from the start of the prompt. Llama 3.1 scales RoPE from 8,192 on.
EDGES = (1024, 4096, 8192)


@dataclass(frozen=True, slots=True)
class AnswerRows:
    """The answer that rows of `Columns` belong to."""

    task: str
    subtask: str | None
    doc: int
    prompt_tokens: int
    tokens: int
    truncated: bool
    request: str


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """N tokens of n answers."""

    answers: tuple[AnswerRows, ...]
    """n."""

    row: NDArray[np.int64]
    """N: the answer of each token, from 0."""

    at: NDArray[np.int64]
    """N: its index in the answer, from 0."""

    position: NDArray[np.int64]
    """N: its index from the start of the prompt, from 0."""

    ids: NDArray[np.int32]
    """N."""

    logprobs: NDArray[np.float32]
    """N, nats."""

    margins: NDArray[np.float32]
    """N, nats, at least 0."""

    ranks: NDArray[np.int32]
    """N; 0 if the engine does not report it."""

    top_ids: NDArray[np.int32]
    """N; -1 if the engine does not report it."""

    @property
    def first(self) -> NDArray[np.bool_]:
        """N: whether no token is likelier. A tie counts, because engines break ties differently."""
        return self.margins <= TIED_NATS

    @property
    def tasks(self) -> list[str]:
        """The tasks, sorted by name."""
        return sorted({answer.task for answer in self.answers})

    def of(self, task: str) -> NDArray[np.bool_]:
        """N: whether a token belongs to the task."""
        in_task = np.array([answer.task == task for answer in self.answers], bool)
        return in_task[self.row] if len(self.row) else np.zeros(0, bool)

    def sums(self, values: NDArray[Any], where: NDArray[np.bool_] | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """n and n: for each answer, the sum of a value over its (selected) tokens, and their number."""
        row = self.row if where is None else self.row[where]
        weights = np.asarray(values if where is None else values[where], float)
        size = len(self.answers)
        return np.bincount(row, weights=weights, minlength=size), np.bincount(row, minlength=size)

    def mean(self, values: NDArray[Any], where: NDArray[np.bool_] | None = None) -> Mean:
        """The mean of a value over (selected) tokens. Identical copies of a doc form a cluster.

        Raises:
            ValueError: There is no such token.
        """
        return mean_of_tokens(*self.sums(values, where), find_copies(self.answers))


def find_copies(answers: Iterable[AnswerRows | Choices]) -> list[Hashable] | None:
    """Find the cluster of each answer if some docs occur in several copies; None if there are no copies."""
    keys: list[Hashable] = [
        (answer.task, answer.request if isinstance(answer, AnswerRows) else answer.request_sha256) for answer in answers
    ]
    return keys if len(set(keys)) < len(keys) else None


def make_columns(table: Iterable[Forced]) -> Columns:
    """Read a whole table into columns: about fifty bytes per token."""
    answers: list[AnswerRows] = []
    parts: list[Forced] = []
    for forced in table:
        answers.append(
            AnswerRows(
                forced.task,
                forced.subtask,
                forced.doc,
                forced.prompt_tokens,
                len(forced.token_ids),
                bool(forced.truncated),
                forced.request_sha256,
            )
        )
        parts.append(forced)
    lengths = np.array([answer.tokens for answer in answers], np.int64)
    starts = np.array([answer.prompt_tokens for answer in answers], np.int64)
    row = np.repeat(np.arange(len(answers)), lengths)
    at = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    def joined(name: str, kind: type) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts]).astype(kind) if parts else np.zeros(0, kind)

    return Columns(
        answers=tuple(answers),
        row=row,
        at=at,
        position=at + starts[row] if len(row) else at,
        ids=joined("token_ids", np.int32),
        logprobs=joined("logprobs", np.float32),
        margins=joined("margins", np.float32),
        ranks=joined("ranks", np.int32),
        top_ids=joined("top_ids", np.int32),
    )


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Kinds of token ids by the tokenizer: those of digits only, and special tokens such as ``<|eot_id|>``."""

    digits: frozenset[int]
    special: frozenset[int]


def list_token_kinds(table: Columns, vocabulary: Vocabulary | None = None) -> list[tuple[str, NDArray[np.bool_]]]:
    """List the kinds of tokens that occur: by place in answer and context, and by kind of token."""
    edges = (0, *EDGES, np.iinfo(np.int64).max)
    names = ("positions below 1k", "1k to 4k", "4k to 8k", "from 8k on")
    kinds: list[tuple[str, NDArray[np.bool_]]] = [
        ("first token", table.at == 0),
        (f"tokens 2 to {OPENING_TOKENS}", (table.at > 0) & (table.at < OPENING_TOKENS)),
        ("later tokens", table.at >= OPENING_TOKENS),
    ]
    if vocabulary is not None:
        kinds.append(("digits", _among(table.ids, vocabulary.digits)))
        kinds.append(("special tokens", _among(table.ids, vocabulary.special)))
    kinds += [
        (name, (table.position >= low) & (table.position < high))
        for name, low, high in zip(names, edges, edges[1:], strict=False)
    ]
    return [(name, mask) for name, mask in kinds if mask.any()]


def _among(ids: NDArray[np.int32], some: Collection[int]) -> NDArray[np.bool_]:
    return np.isin(ids, np.fromiter(some, np.int32, len(some)))


def sort_by_doc(table: Sequence[Forced]) -> list[Forced]:
    """Sort a table by task and doc."""
    return sorted(table, key=lambda answer: (answer.task, answer.doc))
