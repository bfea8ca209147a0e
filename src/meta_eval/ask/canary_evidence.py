"""Measures for the canary how likely each token of the recorded answers is, and with which number of BOS.

For a sound model most recorded tokens are the likeliest, however it would open its own answers. With scrambled weights
or tokens hardly any are. The share does not reveal a wrong prompt: after the first words of an answer any language
model goes on well. Doctor's tiny Llama without BOS has 79 %. So a good share excuses only a model that opens every
answer in another way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meta_eval.ask.answers.recorded_answers import make_scoring_request
from meta_eval.ask.bos_likelihood import change_bos, measure_gain
from meta_eval.ask.client import Client
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import Force, Recorded
from meta_eval.base.thresholds import BOS_DOCS, SOUND

# Forced tokens of an answer: enough for a decision, and a bound on the canary's cost.
_MOST = 256

# Shares of likeliest tokens: below BROKEN hardly anything works, from SOUND on most does. Minimum tokens and docs.
BROKEN = 0.25
ENOUGH_TOKENS, ENOUGH_DOCS = 64, 6


@dataclass(frozen=True, slots=True)
class CanaryEvidence:
    """Log-probabilities of some recorded answers.

    Attributes:
        docs: The mean log-probability of a token by request, in nats.
        tokens: Number of all tokens.
        top: The share of likeliest tokens, 0 to 1.
        logprob: The mean log-probability of a token, in nats.
    """

    docs: Mapping[str, float]
    tokens: int
    top: float
    logprob: float

    @property
    def _is_enough(self) -> bool:
        return len(self.docs) >= ENOUGH_DOCS and self.tokens >= ENOUGH_TOKENS

    @property
    def is_broken(self) -> bool:
        """Whether hardly any token is the likeliest."""
        return self._is_enough and self.top < BROKEN

    @property
    def is_sound(self) -> bool:
        """Whether most tokens are the likeliest."""
        return self._is_enough and self.top >= SOUND

    def __str__(self) -> str:
        return f"of {self.tokens:,} tokens of recorded answers {self.top:.0%} are the likeliest ones"


def make_forced_requests(
    requests: Sequence[Request], recorded: Mapping[str, Recorded], split_text: Callable[[str], Sequence[Any]]
) -> list[Request]:
    """Make requests that force the recorded answers of text requests.

    Args:
        requests: Requests with token ids; others cannot be forced.
        recorded: The recorded answers by id of the request.
        split_text: Splits a text into tokens.
    """
    forced = []
    for request in requests:
        scoring = make_scoring_request(request, recorded[request.id])
        if scoring is not None and scoring.kind == Force.name and scoring.prompt_ids is not None:
            ids = list(split_text(scoring.continuations[0]))[:_MOST]
            forced.append(replace(scoring, continuation_ids=[ids]))
    return forced


def measure_evidence(client: Client, requests: Sequence[Request]) -> CanaryEvidence | None:
    """Measure the evidence; None if the engine cannot force, or would load the model again for it."""
    docs, tokens, top, total = {}, 0, 0, 0.0
    if client.backend.reloads_model or Force.name not in client.backend.kinds or not requests:
        return None
    for answer in client.answer(requests):
        forced = answer.tokens
        if answer.error is None and forced is not None:
            docs[answer.id] = math.fsum(forced.logprobs) / len(forced.logprobs)
            tokens += len(forced.ids)
            # Ties, which are common in bfloat16, count as likeliest.
            top += sum(logprob >= best for logprob, best in zip(forced.logprobs, forced.top_logprobs, strict=True))
            total += math.fsum(forced.logprobs)
    return CanaryEvidence(docs, tokens, top / tokens, total / tokens) if tokens else None


def find_other_bos(client: Client, requests: Sequence[Request], evidence: CanaryEvidence, bos: int) -> str | None:
    """Explain another number of BOS, if it makes the recorded answers likelier; else None.

    `meta_eval.ask.bos_likelihood` has the rule.
    """
    some = sorted(
        (request for request in requests if request.id in evidence.docs),
        key=lambda request: len(request.prompt_ids or ()),
    )
    some = some[:BOS_DOCS]
    likelier = []
    for fewer, name, cause in (
        (True, "no BOS", "something adds a BOS to the one that is sent"),
        (False, "two BOS", "something strips one"),
    ):
        changed_evidence = measure_evidence(client, [change_bos_number(request, bos, fewer=fewer) for request in some])
        gained = (
            measure_gain(evidence.docs, changed_evidence.docs, changed_evidence.top)
            if changed_evidence is not None and changed_evidence.is_sound
            else None
        )
        if gained is not None:
            words = f"the recorded answers are likelier with {name}, {gained}. With {name} it answers as recorded"
            likelier.append((gained.nats, f"{words}: {cause}"))
    return max(likelier)[1] if likelier else None  # an engine that strips a BOS takes a word of a prompt without BOS


def change_bos_number(request: Request, bos: int, *, fewer: bool) -> Request:
    """Remove a BOS from a request, or add another."""
    return replace(request, prompt_ids=change_bos(request.prompt_ids or (), bos, fewer=fewer))
