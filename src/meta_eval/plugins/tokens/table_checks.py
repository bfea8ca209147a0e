"""Checks a table without a baseline: implausible answers, and prompts that the copy does not read."""

from __future__ import annotations

import numpy as np

from meta_eval.plugins.tokens import causes
from meta_eval.plugins.tokens.causes import Finding, make_finding
from meta_eval.plugins.tokens.diagnosis_case import collect_logprobs
from meta_eval.plugins.tokens.perturbations import NO_BOS, SECOND_BOS, START
from meta_eval.plugins.tokens.probe_signatures import report_unread
from meta_eval.plugins.tokens.probe_table import Probed, Probes
from meta_eval.plugins.tokens.thresholds import (
    FIDELITY_LEVEL,
    FIRST_TOKEN_NATS,
    FIRST_TOKEN_STANDS_OUT,
    LOST_LOGPROB,
    LOST_RANK,
    OPENING_TOKENS,
)
from meta_eval.plugins.tokens.token_columns import Columns
from meta_eval.sockets import measure_gain


def diagnose_unpaired(table: Columns, probes: Probes | None = None) -> Finding | None:
    """Find tokens that the copy could not have generated, or not begun with, and prompts that it does not read.

    Args:
        table: The copy's table.
        probes: Its probes; None or empty without probes, and then a finding names BOS and template together.
    """
    lost = _find_lost(table)
    if lost is not None or not probes:
        return lost or _find_first_token(table)
    certain = _find_other_bos(table, probes) or _find_unread(table, probes)
    knows_bos = any(probe.probe == SECOND_BOS for probe in probes.values())
    return certain or _find_first_token(table, knows_bos=knows_bos)


def _find_first_token(table: Columns, *, knows_bos: bool = False) -> Finding | None:
    first, later = table.at == 0, table.at >= OPENING_TOKENS
    if not first.any() or not later.any():
        return None
    opening, rest = (table.mean(table.margins, where) for where in (first, later))
    interval = opening.positive_interval(FIDELITY_LEVEL)
    if interval is None or interval.lower <= FIRST_TOKEN_NATS or opening.value < FIRST_TOKEN_STANDS_OUT * rest.value:
        return None
    return make_finding(
        f"the first token of an answer is {opening.value:.2g} nats below the likeliest, later ones {rest.value:.2g}",
        causes.PROMPT, *(() if knows_bos else (causes.NO_BOS,)), causes.START, causes.ATTENTION,
        todo=causes.SAME_IDS,
    )  # fmt: skip


def _find_lost(table: Columns) -> Finding | None:
    ranks = table.ranks[table.ranks > 0]
    mean = float(table.logprobs.mean(dtype=float)) if len(table.logprobs) else 0.0
    rank = float(np.median(ranks)) if len(ranks) else 0.0
    if mean > LOST_LOGPROB or (len(ranks) and rank < LOST_RANK):
        return None
    where = f", and half of them rank below place {rank:,.0f}" if len(ranks) else ""
    return make_finding(
        f"the recorded tokens have a mean log-probability of {mean:.1f} nats{where}: the copy could not have said them",
        causes.WORDS, causes.WEIGHTS, causes.ATTENTION,
    )  # fmt: skip


def _find_other_bos(table: Columns, probes: Probes) -> Finding | None:
    """Find a number of BOS with which the recorded answers are likelier: the engine lacks a BOS, or adds one."""
    for name, group, change in ((SECOND_BOS, causes.NO_BOS, "a BOS more"), (NO_BOS, causes.MORE_BOS, "a BOS less")):
        some = _probes_of(probes, name)
        plain = collect_logprobs(table, some)
        probed = {doc: probe for doc, probe in some.items() if doc in plain}
        if not probed:
            continue
        means = {doc: float(plain[doc][: len(probe.logprobs)].mean()) for doc, probe in probed.items()}
        top = np.concatenate([probe.logprobs >= probe.top_logprobs for probe in probed.values()]).mean()
        gain = measure_gain(
            means, {doc: float(probe.logprobs.mean(dtype=float)) for doc, probe in probed.items()}, float(top)
        )
        if gain is not None:
            return make_finding(f"the recorded answers are likelier with {change}, {gain}", group)
    return None


def _find_unread(table: Columns, probes: Probes) -> Finding | None:
    """Find prompts that give bit-identical results with their start reversed."""
    some = _probes_of(probes, START)
    plain = collect_logprobs(table, some)
    return report_unread(
        [
            (probe.prompt_tokens, np.array_equal(plain[doc][: len(probe.logprobs)], probe.logprobs.astype(float)))
            for doc, probe in some.items()
            if doc in plain
        ]
    )


def _probes_of(probes: Probes, name: str) -> dict[tuple[str, int], Probed]:
    return {(probe.task, probe.doc): probe for probe in probes.values() if probe.probe == name}
