"""Compares the likelihoods of one text under two models, chunk by chunk, from outputs of ``llama-perplexity``.

The interval is over `PERPLEXITY_BLOCKS` blocks of consecutive chunks, by Student's t (batch means; among others Law and
Kelton 1984, Operations Research 32:1221). Neighbouring chunks have alike differences, because they are of one article
or one program, so neither tokens nor chunks are independent. A sum over a block also drops the rounding of the printed
means: all but that at its two ends cancels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from meta_eval.plugins.tokens.perplexity_log import PerplexityLog, Values
from meta_eval.plugins.tokens.thresholds import (
    PERPLEXITY_BLOCK,
    PERPLEXITY_BLOCKS,
    PERPLEXITY_ENOUGH,
    PERPLEXITY_LEAST_BLOCKS,
    PERPLEXITY_NEAR,
    PERPLEXITY_SAME_TEXT,
)
from meta_eval.sockets import UserError
from meta_eval.stats.ratio import Mean, mean_of_tokens


@dataclass(frozen=True, slots=True)
class PerplexityFigures:
    """How likely a model finds the text: means over all tokens."""

    name: str
    """The log, or what it is compared with."""

    logprob: float
    """The log-probability of a token, nats."""

    divergence: float | None = None
    """Kullback and Leibler's from the base of the log, nats; None without one."""

    changed: float | None = None
    """The share of tokens whose likeliest token is not the base's; None likewise."""

    @property
    def perplexity(self) -> float:
        return math.exp(-self.logprob)


@dataclass(frozen=True, slots=True)
class PerplexityComparison:
    """A copy beside a baseline, of the same chunks."""

    chunks: int
    """The number of chunks that both have."""

    baseline: PerplexityFigures
    copy: PerplexityFigures

    shift: Mean
    """The baseline's log-probability of a token minus the copy's, nats: positive if the copy finds the text less
    likely. Its exponential is the ratio of perplexities.
    """

    divergence: Mean | None
    """The divergence of the copy minus the baseline's from the base of both, nats; of the copy alone if the baseline is
    that base; None where it is not known.
    """

    changed: Mean | None
    """The share of tokens whose likeliest token is another, likewise."""

    is_from_base: bool
    """Whether the baseline is the base model itself."""

    errors: tuple[float, float, float] | None
    """The standard errors that llama.cpp prints for the three; None unless the baseline is the base."""

    rounding: float
    """The largest error of ``shift`` because of the printed decimals, nats."""

    notes: tuple[str, ...]
    """What must be known of the logs."""


def compare_perplexity_logs(log: PerplexityLog, baseline: PerplexityLog | None) -> PerplexityComparison | None:
    """Compare a log with a baseline's, or with the base that its own table has; None if there is neither.

    Raises:
        UserError: The two are not of the same chunks.
    """
    if baseline is None:
        if log.base_logprob is None or log.divergence is None or log.changed is None:
            return None
        return PerplexityComparison(
            chunks=log.chunks,
            baseline=PerplexityFigures("its base", float(log.base_logprob.mean())),
            copy=measure_text(log),
            shift=average_chunks(log.base_logprob - log.logprob),
            divergence=average_chunks(log.divergence),
            changed=average_chunks(log.changed),
            is_from_base=True,
            errors=log.errors,
            rounding=0.5e-5,
            notes=tuple(note_end(log)),
        )
    _check_same(log, baseline)
    chunks = min(log.chunks, baseline.chunks)
    notes = [*note_end(baseline), *note_end(log)]
    if log.chunks != baseline.chunks:
        notes.append(f"compared over the first {chunks} chunks, which both have")
    log, baseline = _cut(log, chunks), _cut(baseline, chunks)
    rounding = log.rounding + baseline.rounding
    shifts, divergence, changed = baseline.logprob - log.logprob, None, None
    if log.base_logprob is not None and baseline.base_logprob is not None:
        _check_base(log, baseline)
        # The ratios to one base have a decimal more than perplexities.
        shifts, rounding = (log.base_logprob - log.logprob) - (baseline.base_logprob - baseline.logprob), 1e-5
        divergence = _difference(log.divergence, baseline.divergence)
        changed = _difference(log.changed, baseline.changed)
    notes += _note_text(log, baseline, float(shifts.mean()))
    return PerplexityComparison(
        chunks=chunks,
        baseline=measure_text(baseline),
        copy=measure_text(log),
        shift=average_chunks(shifts),
        divergence=divergence,
        changed=changed,
        is_from_base=False,
        errors=None,
        rounding=rounding,
        notes=tuple(notes),
    )


def measure_text(log: PerplexityLog) -> PerplexityFigures:
    """The figures of a log alone."""
    return PerplexityFigures(
        log.name,
        float(log.logprob.mean()),
        None if log.divergence is None else float(log.divergence.mean()),
        None if log.changed is None else float(log.changed.mean()),
    )


def average_chunks(values: Values) -> Mean:
    """The mean over chunks, with the variance over blocks of them; without a variance for too few chunks."""
    chunks = len(values)
    blocks = min(PERPLEXITY_BLOCKS, chunks // PERPLEXITY_BLOCK)
    if blocks < PERPLEXITY_LEAST_BLOCKS:
        blocks = 1
    block = np.arange(chunks) * blocks // chunks
    return mean_of_tokens(values, np.ones(chunks), clusters=block.tolist())


def note_end(log: PerplexityLog) -> list[str]:
    """What must be known of the end of a log."""
    notes = []
    if log.announced is not None and log.chunks < log.announced:
        notes.append(f"{log.name} ends at chunk {log.chunks} of {log.announced}")
    elif not log.has_end:
        notes.append(f"{log.name} has {log.chunks} chunks and no end: whether more were to come is unknown")
    if log.chunks < PERPLEXITY_BLOCK * PERPLEXITY_LEAST_BLOCKS:
        least = PERPLEXITY_BLOCK * PERPLEXITY_LEAST_BLOCKS
        notes.append(f"{log.name} has fewer than {least} chunks, which is too few for an interval")
    elif log.chunks < PERPLEXITY_ENOUGH:
        notes.append(f"{log.name} has fewer than {PERPLEXITY_ENOUGH} chunks: its intervals may be too narrow")
    return notes


def _cut(log: PerplexityLog, chunks: int) -> PerplexityLog:
    """The log of its first chunks."""
    base, divergence, changed = (
        None if values is None else values[:chunks] for values in (log.base_logprob, log.divergence, log.changed)
    )
    return replace(
        log, logprob=log.logprob[:chunks], base_logprob=base, divergence=divergence, changed=changed
    )  # fmt: skip


def _difference(values: Values | None, others: Values | None) -> Mean | None:
    return None if values is None or others is None else average_chunks(values - others)


def _check_same(log: PerplexityLog, baseline: PerplexityLog) -> None:
    """Refuse logs that cannot be of the same chunks.

    Raises:
        UserError: They have other contexts, vocabularies or numbers of chunks.
    """
    facts = (
        ("a context of {} tokens", log.context, baseline.context, "Run both with the same --ctx-size"),
        ("a vocabulary of {} tokens", log.vocabulary, baseline.vocabulary, "Perplexities need the same tokenizer"),
        ("{} chunks", _count_whole(log), _count_whole(baseline), "Run both with the same text, tokenizer and --chunks"),
    )
    for what, ours, theirs, hint in facts:
        if ours is not None and theirs is not None and ours != theirs:
            raise UserError(f"has {what.format(ours)}, and the baseline {theirs}", where=str(log.path), hint=hint)


def _count_whole(log: PerplexityLog) -> int | None:
    """The number of chunks of the whole run; None if unknown."""
    return log.announced if log.announced is not None else log.chunks if log.has_end else None


def _check_base(log: PerplexityLog, baseline: PerplexityLog) -> None:
    """Refuse tables of other base models.

    Raises:
        UserError: The bases find the chunks differently likely.
    """
    ours, theirs = (_accumulate(of.base_logprob) for of in (log, baseline))
    # Perplexities have four decimals and ratios five.
    tolerance = 0.6e-4 * (np.exp(_accumulate(log.logprob)) + np.exp(_accumulate(baseline.logprob))) + 1.1e-5
    differing = np.flatnonzero(np.abs(ours - theirs) > tolerance)
    if len(differing):
        raise UserError(
            f"was compared with another base than the baseline: their perplexities differ from chunk "
            f"{differing[0] + 1} on", where=str(log.path), hint="Run both with the same --kl-divergence-base",
        )  # fmt: skip


def _accumulate(values: Values | None) -> Values:
    """The means up to each chunk."""
    assert values is not None  # noqa: S101 (the caller has tables)
    return values.cumsum() / np.arange(1, len(values) + 1)


def _note_text(log: PerplexityLog, baseline: PerplexityLog, shift: float) -> list[str]:
    """What the correlation of the chunks says of the text.

    Raises:
        UserError: Two sound models find other chunks likely.
    """
    if log.chunks < PERPLEXITY_BLOCK or not log.logprob.std() or not baseline.logprob.std():
        return []
    correlation = float(np.corrcoef(log.logprob, baseline.logprob)[0, 1])
    if correlation >= PERPLEXITY_SAME_TEXT:
        return []
    what = f"finds other chunks likely than the baseline (correlation {correlation:.2f})"
    if abs(shift) < PERPLEXITY_NEAR:
        raise UserError(f"{what}, so the texts differ", where=str(log.path), hint="Run both with the same --file")
    return [f"{log.name} {what}: the texts differ, or a model is broken"]
