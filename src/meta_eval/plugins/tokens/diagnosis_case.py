"""The input of a diagnosis: baseline and copy, their probes in pairs, and the type of a signature."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from meta_eval.plugins.tokens.causes import FoundCause
from meta_eval.plugins.tokens.comparison import TableComparison
from meta_eval.plugins.tokens.perturbations import ALONE
from meta_eval.plugins.tokens.probe_table import Probed, Probes
from meta_eval.plugins.tokens.table_pairing import Pair
from meta_eval.plugins.tokens.thresholds import FIDELITY_LEVEL, MIN_PROBED_DOCS
from meta_eval.plugins.tokens.token_columns import Columns
from meta_eval.stats.ratio import Mean

Distances = NDArray[np.float64]
_Doc = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class ProbedPair:
    """A doc after a prompt: the length of its own prompt, and the log-probabilities of n tokens from baseline and copy,
    nats."""

    prompt_tokens: int
    baseline: Distances
    candidate: Distances

    @property
    def difference(self) -> Distances:
        """n."""
        return self.baseline - self.candidate


class ProbePair:
    """The probes of both sides, with the docs themselves.

    Args:
        pair: The tables.
        baseline, candidate: Their probes.
    """

    def __init__(self, pair: Pair, baseline: Probes, candidate: Probes) -> None:
        self._probes = {
            key: ProbedPair(probe.prompt_tokens, probe.logprobs.astype(float), candidate[key].logprobs.astype(float))
            for key, probe in baseline.items()
            if key in candidate and _is_same_request(probe, candidate[key])
        }
        probed_docs = {key[:2] for key in self._probes}
        baseline_logprobs, candidate_logprobs = (
            collect_logprobs(pair.baseline, probed_docs),
            collect_logprobs(pair.candidate, probed_docs),
        )
        lengths = {(answer.task, answer.doc): answer.prompt_tokens for answer in pair.baseline.answers}
        self._docs = {
            doc: ProbedPair(lengths[doc], values, candidate_logprobs[doc]) for doc, values in baseline_logprobs.items()
        }

    def pairs_of(self, probe: str) -> Iterator[tuple[ProbedPair, ProbedPair]]:
        """Docs without and with a probe, with the same tokens."""
        for (task, doc, name), probed in self._probes.items():
            plain = self._docs.get((task, doc))
            if name == probe and plain is not None and len(plain.baseline) >= len(probed.baseline):
                size = len(probed.baseline)
                yield ProbedPair(plain.prompt_tokens, plain.baseline[:size], plain.candidate[:size]), probed

    @property
    def without_prompts(self) -> list[ProbedPair]:
        """Answers without prompts, from the second token on."""
        return [probed for (_, _, name), probed in self._probes.items() if name == ALONE]

    @property
    def is_enough(self) -> bool:
        """Whether faults of weights and of prompts can be separated."""
        return len(self.without_prompts) >= MIN_PROBED_DOCS


def _is_same_request(probe: Probed, other: Probed) -> bool:
    return probe.request_sha256 == other.request_sha256 and np.array_equal(probe.token_ids, other.token_ids)


def collect_logprobs(table: Columns, docs: Container[_Doc]) -> dict[_Doc, Distances]:
    """The log-probabilities of some answers of a table."""
    return {
        (answer.task, answer.doc): table.logprobs[table.row == row].astype(float)
        for row, answer in enumerate(table.answers)
        if (answer.task, answer.doc) in docs
    }


class Case:
    """A copy and a baseline, as signatures read them.

    Args:
        comparison: The comparison.
        pair: The tables that were compared.
        probing: The probes of both; None unless both have probes.

    Attributes:
        table: The baseline's table.
        distance: The distance of each of its tokens, nats.
    """

    def __init__(self, comparison: TableComparison, pair: Pair, probing: ProbePair | None = None) -> None:
        self.comparison, self.pair, self.probing = comparison, pair, probing
        self.table, self.distance = pair.baseline, np.abs(pair.difference)

    @property
    def probes(self) -> ProbePair:
        """The probes, for signatures that are checked only with probes."""
        assert self.probing is not None  # noqa: S101 (see `Signature.probes`)
        return self.probing

    @property
    def mean_distance(self) -> float:
        """The mean distance of all tokens, nats."""
        return self.comparison.all.distance.value

    @property
    def margin(self) -> float:
        """Nats per token above which a difference is more than rounding: the limit of the comparison."""
        return self.comparison.limit

    def mean(self, where: NDArray[np.bool_]) -> Mean | None:
        """The mean distance of some tokens; None without tokens."""
        return self.table.mean(self.distance, where) if where.any() else None

    def exceeds_margin(self, mean: Mean) -> bool:
        """Whether the whole interval is above the margin."""
        interval = mean.positive_interval(FIDELITY_LEVEL)
        return interval is not None and interval.lower > self.margin


class Precedence(IntEnum):
    """The order of signatures, and the outcomes that they need.

    Changes of the prompt are reported for every outcome, because these docs may hardly depend on them. Bit-identical
    parts are reported unless the outcome is *same*. Everything else needs the outcome *different*.
    """

    PROMPT = 1
    BITS = 2
    DIFFERENCE = 3
    REMAINDER = 4

    def is_due(self, outcome: str) -> bool:
        """Whether signatures of this precedence are checked for an outcome."""
        outcomes = {Precedence.PROMPT: ("same", "different", "undecided"), Precedence.BITS: ("different", "undecided")}
        return outcome in outcomes.get(self, ("different",))


@dataclass(frozen=True, slots=True)
class Signature:
    """A trace of groups of causes."""

    check: Callable[[Case], FoundCause | None]
    """Gives the finding if the trace is present, else None."""

    precedence: Precedence = Precedence.DIFFERENCE
    """The first match is the finding. Within a precedence, the order of the lists counts, probes first."""

    probes: bool | None = None
    """True if it needs probes that separate weights from prompts, False if it needs their absence; None for neither."""

    def is_due(self, case: Case) -> bool:
        """Whether it is checked in this case."""
        is_probed = case.probing is not None and case.probing.is_enough
        return self.precedence.is_due(case.comparison.outcome) and self.probes in (None, is_probed)
