"""What a diagnosis looks at: a baseline and a copy, their probes in pairs, and the kind of function that reads them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from meta_eval.stats.ratio import Mean
from meta_eval.thresholds import FIDELITY_LEVEL, MIN_PROBED_DOCS, MIN_UNREAD_DOCS
from meta_eval.token_fidelity.causes import Finding
from meta_eval.token_fidelity.comparison import TableComparison
from meta_eval.token_fidelity.perturbations import ALONE, START
from meta_eval.token_fidelity.probe_table import Probed, Probes
from meta_eval.token_fidelity.table_pairing import Pair
from meta_eval.token_fidelity.token_columns import Columns, Vocabulary

Floats = NDArray[np.float64]
Doc = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class ProbedPair:
    """A doc behind one prompt: the length of its own, and what the baseline and the copy find of n tokens, nats."""

    prompt_tokens: int
    before: Floats
    after: Floats

    @property
    def difference(self) -> Floats:
        """n."""
        return self.before - self.after


class ProbePair:
    """The probes that both sides were asked, beside the docs themselves.

    Args:
        both: The tables.
        before, after: Their probes.
    """

    def __init__(self, both: Pair, before: Probes, after: Probes) -> None:
        self._probes = {
            key: ProbedPair(probe.prompt_tokens, probe.logprobs.astype(float), after[key].logprobs.astype(float))
            for key, probe in before.items()
            if key in after and _is_same_request(probe, after[key])
        }
        asked = {key[:2] for key in self._probes}
        ours, theirs = logprobs_of(both.before, asked), logprobs_of(both.after, asked)
        lengths = {(answer.task, answer.doc): answer.prompt_tokens for answer in both.before.answers}
        self._docs = {doc: ProbedPair(lengths[doc], values, theirs[doc]) for doc, values in ours.items()}

    def pairs_of(self, probe: str) -> Iterator[tuple[ProbedPair, ProbedPair]]:
        """Docs without and with a probe, the same tokens of both."""
        for (task, doc, name), probed in self._probes.items():
            plain = self._docs.get((task, doc))
            if name == probe and plain is not None and len(plain.before) >= len(probed.before):
                size = len(probed.before)
                yield ProbedPair(plain.prompt_tokens, plain.before[:size], plain.after[:size]), probed

    @property
    def without_prompts(self) -> list[ProbedPair]:
        """Answers without their prompts, from the second token on."""
        return [probed for (_, _, name), probed in self._probes.items() if name == ALONE]

    @property
    def knows_starts(self) -> bool:
        """Whether it would show that the starts of prompts are not read."""
        return sum(name == START for *_, name in self._probes) >= MIN_UNREAD_DOCS

    @property
    def is_enough(self) -> bool:
        """Whether weights and prompts can be told apart."""
        return len(self.without_prompts) >= MIN_PROBED_DOCS


def _is_same_request(probe: Probed, other: Probed) -> bool:
    return probe.request_sha256 == other.request_sha256 and np.array_equal(probe.token_ids, other.token_ids)


def logprobs_of(table: Columns, docs: Container[Doc]) -> dict[Doc, Floats]:
    """The log-probabilities of some answers of a table."""
    return {
        (answer.task, answer.doc): table.logprobs[table.row == row].astype(float)
        for row, answer in enumerate(table.answers)
        if (answer.task, answer.doc) in docs
    }


class Case:
    """A copy beside a baseline, as the signatures read it.

    Args:
        comparison: The comparison.
        both: What was compared.
        vocabulary: Of the tokenizer: without it nobody knows which tokens end an answer.
        probing: The probes of both; None where not both were asked.

    Attributes:
        table: The baseline's.
        distance: Of each of its tokens, nats.
    """

    def __init__(
        self,
        comparison: TableComparison,
        both: Pair,
        vocabulary: Vocabulary | None = None,
        probing: ProbePair | None = None,
    ) -> None:
        self.comparison, self.both, self.vocabulary, self.probing = comparison, both, vocabulary, probing
        self.table, self.distance = both.before, np.abs(both.difference)

    @property
    def probes(self) -> ProbePair:
        """The probes, for signatures that are asked only where there are any."""
        assert self.probing is not None  # noqa: S101 (see `Signature.probes`)
        return self.probing

    @property
    def mean_distance(self) -> float:
        """Of all tokens, nats."""
        return self.comparison.all.distance.value

    @property
    def margin(self) -> float:
        """Nats a token."""
        return self.comparison.margin

    def mean(self, where: NDArray[np.bool_]) -> Mean | None:
        """The distance of some tokens; None of none."""
        return self.table.mean(self.distance, where) if where.any() else None

    def exceeds_margin(self, mean: Mean) -> bool:
        """Whether all of an interval lies above the margin."""
        interval = mean.positive_interval(FIDELITY_LEVEL)
        return interval is not None and interval.lower > self.margin


class Precedence(IntEnum):
    """Which signatures are looked for first, and what they need.

    What was done to a prompt is named whatever the verdict: it may hardly matter to these docs. Bits that are the same
    here and not there are named unless the verdict is *same*; everything else needs a copy that is *different*.
    """

    PROMPT = 1
    BITS = 2
    DIFFERENCE = 3
    REMAINDER = 4

    def is_due(self, outcome: str) -> bool:
        """Whether the verdict lets it be looked for."""
        outcomes = {Precedence.PROMPT: ("same", "different", "undecided"), Precedence.BITS: ("different", "undecided")}
        return outcome in outcomes.get(self, ("different",))


@dataclass(frozen=True, slots=True)
class Signature:
    """A trace that groups of causes leave.

    Attributes:
        check: Gives the finding where the trace is there, else None.
        precedence: The first that is found is the finding; of the same precedence in the order of the lists, those of
            probes first.
        probes: Whether probes are needed that tell weights and prompts apart, or must not be there; None for neither.
    """

    check: Callable[[Case], Finding | None]
    precedence: Precedence = Precedence.DIFFERENCE
    probes: bool | None = None

    def is_due(self, case: Case) -> bool:
        """Whether it is looked for in this case."""
        is_probed = case.probing is not None and case.probing.is_enough
        return self.precedence.is_due(case.comparison.outcome) and self.probes in (None, is_probed)
