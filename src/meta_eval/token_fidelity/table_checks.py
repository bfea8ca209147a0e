"""What shows of a table without a baseline: what the copy could not have said, and prompts that it does not read."""

from __future__ import annotations

import numpy as np

from meta_eval.thresholds import FIDELITY_LEVEL
from meta_eval.token_fidelity import causes
from meta_eval.token_fidelity.bos_likelihood import gain
from meta_eval.token_fidelity.causes import Finding, find
from meta_eval.token_fidelity.perturbations import NO_BOS, SECOND_BOS, START
from meta_eval.token_fidelity.probe_diagnosis import answers, not_read
from meta_eval.token_fidelity.probe_table import Probed, Probes
from meta_eval.token_fidelity.token_columns import OPENING, Columns

# Where the first token is so many times as far below the likeliest as later ones, and by so many nats at the least.
_FIRST_STANDS_OUT, _FIRST = 5.0, 0.5
# The median rank of recorded tokens beyond which a model cannot have said them, and their mean log-probability.
_LOST_RANK, _LOST = 50, -6.0


def alone(table: Columns, probes: Probes | None = None) -> Finding | None:
    """Tokens that the copy could not have said, or not begun with, and prompts that it does not read.

    Args:
        table: Of the copy.
        probes: Its probes; None or empty for none, and then a BOS and a template are named together.
    """
    lost = _lost(table)
    if lost is not None or not probes:
        return lost or _first(table)
    certain = _other_bos(table, probes) or _unread(table, probes)
    knows_bos = any(one.probe == SECOND_BOS for one in probes.values())
    return certain or _first(table, knows_bos=knows_bos)


def _first(table: Columns, *, knows_bos: bool = False) -> Finding | None:
    first, later = table.at == 0, table.at >= OPENING
    if not first.any() or not later.any():
        return None
    opening, rest = (table.mean(table.margins, where) for where in (first, later))
    interval = opening.positive_interval(FIDELITY_LEVEL)
    if interval is None or interval.lower <= _FIRST or opening.value < _FIRST_STANDS_OUT * rest.value:
        return None
    return find(
        f"the first token of an answer is {opening.value:.2g} nats below the likeliest, later ones {rest.value:.2g}",
        causes.PROMPT, *(() if knows_bos else (causes.NO_BOS,)), causes.START, causes.ATTENTION,
        todo=causes.SAME_IDS,
    )  # fmt: skip


def _lost(table: Columns) -> Finding | None:
    known = table.ranks[table.ranks > 0]
    mean = float(table.logprobs.mean(dtype=float)) if len(table.logprobs) else 0.0
    rank = float(np.median(known)) if len(known) else 0.0
    if mean > _LOST or (len(known) and rank < _LOST_RANK):
        return None
    where = f", and half of them rank below place {rank:,.0f}" if len(known) else ""
    return find(
        f"the recorded tokens have a mean log-probability of {mean:.1f} nats{where}: the copy could not have said them",
        causes.WORDS, causes.WEIGHTS, causes.ATTENTION,
    )  # fmt: skip


def _other_bos(table: Columns, probes: Probes) -> Finding | None:
    """A number of BOS with which the recorded answers are likelier: the engine is short of one, or adds one."""
    for name, group, said in ((SECOND_BOS, causes.NO_BOS, "a BOS more"), (NO_BOS, causes.MORE_BOS, "a BOS less")):
        some = _of(probes, name)
        before = answers(table, some)
        after = {doc: one for doc, one in some.items() if doc in before}
        if not after:
            continue
        means = {doc: float(before[doc][: len(one.logprobs)].mean()) for doc, one in after.items()}
        top = np.concatenate([one.logprobs >= one.top_logprobs for one in after.values()]).mean()
        found = gain(means, {doc: float(one.logprobs.mean(dtype=float)) for doc, one in after.items()}, float(top))
        if found is not None:
            return find(f"the recorded answers are likelier with {said}, {found}", group)
    return None


def _unread(table: Columns, probes: Probes) -> Finding | None:
    """Prompts whose start may be turned round without a bit of difference."""
    some = _of(probes, START)
    before = answers(table, some)
    return not_read(
        [
            (one.prompt_tokens, np.array_equal(before[doc][: len(one.logprobs)], one.logprobs.astype(float)))
            for doc, one in some.items()
            if doc in before
        ]
    )


def _of(probes: Probes, name: str) -> dict[tuple[str, int], Probed]:
    return {(one.task, one.doc): one for one in probes.values() if one.probe == name}
