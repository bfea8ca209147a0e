"""Pairs two tables token by token, or refuses them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meta_eval.judge.token_table import Forced, Tokens, find_choices_path, read_choices, read_tokens
from meta_eval.plugins.tokens.token_columns import Columns, make_columns, sort_by_doc
from meta_eval.sockets import UserError

_SAME_FILE = "Two models are compared token by token only if their tokenizers are the same file"


class PairingError(UserError):
    """Two tables do not have the same tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two tables over the same tokens, in the same order."""

    baseline: Columns
    candidate: Columns
    """The baseline's and the copy's columns; the same answers and ids."""

    divergences: NDArray[np.float64] | None
    """n x 2: for each answer the sum of its tokens' divergences, and the sum of the probability that they leave out;
    None unless both tables keep the likeliest tokens."""

    most_left_out: float
    """The largest total probability, under the baseline, of tokens at a place that not both tables keep."""

    k: int
    """Number of tokens that each table keeps at a place."""

    only_baseline: int
    only_candidate: int
    """Docs that only the first, or only the second table has."""

    @property
    def difference(self) -> NDArray[np.float64]:
        """N, nats: how much less likely a token is under the copy."""
        return self.baseline.logprobs.astype(float) - self.candidate.logprobs


def check_same_tokenizer(baseline: Path, tokenizer_sha256: str, model: str) -> None:
    """Refuse a baseline with another tokenizer. An unknown tokenizer counts as the same.

    Args:
        baseline: The baseline's table.
        tokenizer_sha256: The hash of the tokenizer's file of the model to ask; empty if unknown.
        model: That model.

    Raises:
        PairingError: The tokenizers differ.
    """
    header = read_tokens(baseline).header if baseline.exists() else read_choices(find_choices_path(baseline))[0]
    baseline_sha256 = header.tokenizer_sha256
    if baseline_sha256 and tokenizer_sha256 and baseline_sha256 != tokenizer_sha256:
        raise PairingError(
            f"its tokens come from a different tokenizer than {model}'s", where=str(baseline), hint=_SAME_FILE
        )


def check_common_docs(first: Tokens, second: Tokens) -> set[tuple[str, int]]:
    """The docs, by task and number, that two tables have in common.

    Raises:
        PairingError: There are none.
    """
    keys, others = ({(answer.task, answer.doc) for answer in table} for table in (first, second))
    if not keys & others:
        raise PairingError(
            f"has no doc in common with {first.path}",
            where=str(second.path),
            hint="Run both with the same pack, --tasks and --docs",
        )
    return keys & others


def pair_tables(baseline: Tokens, candidate: Tokens) -> Pair:
    """Pair two tables.

    Raises:
        PairingError: Their tokenizers, prompts or docs differ.
    """
    where = str(candidate.path)
    tokenizers = baseline.header.tokenizer_sha256, candidate.header.tokenizer_sha256
    if all(tokenizers) and tokenizers[0] != tokenizers[1]:
        raise PairingError(
            f"its tokens come from a different tokenizer than those of {baseline.path}", where=where,
            hint=_SAME_FILE,
        )  # fmt: skip
    keys = check_common_docs(baseline, candidate)
    first, second = ({(answer.task, answer.doc): answer for answer in table} for table in (baseline, candidate))
    baseline_answers, candidate_answers = (
        sort_by_doc([answer for key, answer in table.items() if key in keys]) for table in (first, second)
    )
    for answer, other in zip(baseline_answers, candidate_answers, strict=True):
        if answer.request_sha256 != other.request_sha256:
            raise PairingError(
                f"{answer.task}/{answer.doc} differs from {baseline.path} in its prompt or answer",
                where=where, hint="Run both models with the same pack",
            )  # fmt: skip
        if not np.array_equal(answer.token_ids, other.token_ids):
            raise PairingError(
                f"{answer.task}/{answer.doc} has other tokens than in {baseline.path}: the tokenizers differ",
                where=where, hint=_SAME_FILE,
            )  # fmt: skip
    measured = [_divergence(answer, other) for answer, other in zip(baseline_answers, candidate_answers, strict=True)]
    with_top_k = [sums for sums in measured if sums is not None]
    all_have_top_k = len(with_top_k) == len(measured)
    return Pair(
        baseline=make_columns(baseline_answers),
        candidate=make_columns(candidate_answers),
        divergences=np.array([sums[:2] for sums in with_top_k]).reshape(-1, 2) if all_have_top_k else None,
        most_left_out=max((sums[2] for sums in with_top_k), default=0.0),
        k=min(
            (
                answer.top_k_ids.shape[1]
                for answer in (*baseline_answers, *candidate_answers)
                if answer.top_k_ids is not None
            ),
            default=0,
        ),
        only_baseline=len(first) - len(keys),
        only_candidate=len(second) - len(keys),
    )


def _divergence(baseline: Forced, candidate: Forced) -> tuple[float, float, float] | None:
    """The sums over tokens of divergence and left-out probability, and the largest left-out probability; None without
    top-k."""
    ids, p = baseline.top_k_ids, baseline.top_k_logprobs
    others, q = candidate.top_k_ids, candidate.top_k_logprobs
    if ids is None or p is None or others is None or q is None:
        return None
    # n x k x k: matches of the baseline's tokens with the copy's.
    matches = (ids[:, :, None] == others[:, None, :]) & (ids[:, :, None] >= 0)
    in_both = matches.any(axis=2)
    log_p = np.where(in_both, p, -np.inf).astype(float)
    log_q = np.where(in_both, np.take_along_axis(q, matches.argmax(axis=2), axis=1), -np.inf).astype(float)
    mass_p, mass_q = np.exp(log_p), np.exp(log_q)
    inside = np.where(in_both, mass_p * (np.where(in_both, log_p, 0) - np.where(in_both, log_q, 0)), 0.0).sum(axis=1)
    rest_p, rest_q = (np.clip(1 - mass.sum(axis=1), 1e-12, 1.0) for mass in (mass_p, mass_q))
    total = np.maximum(0.0, inside + rest_p * np.log(rest_p / rest_q))
    return float(total.sum()), float(rest_p.sum()), float(rest_p.max(initial=0.0))
