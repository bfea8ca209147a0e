"""What the canary sees when it forces the recorded answers: how likely each of their tokens is, and with which BOS.

A copy that is sound finds most tokens of the recorded answers the likeliest ones, whatever it would have begun with
itself; one whose weights or tokens are scrambled finds hardly any. What no share shows is a wrong prompt: behind the
first words of an answer any language model goes on well, and the tiny Llama of doctor finds 79 % of them without
BOS. So a good share excuses one thing alone, a model that opens every answer in a way of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meta_eval.answers.recorded_answers import Recorded, scoring_request
from meta_eval.running.client import Client, EngineRequest
from meta_eval.thresholds import BOS_DOCS, SOUND
from meta_eval.token_fidelity.bos_likelihood import measure_gain
from meta_eval.token_fidelity.perturbations import change_bos

# Tokens of an answer that are forced: enough to tell, and a bound on what the canary costs.
_MOST = 256

# Below this share of likeliest tokens hardly anything works, of so many tokens of so many docs; from SOUND on most.
BROKEN = 0.25
ENOUGH_TOKENS, ENOUGH_DOCS = 64, 6


@dataclass(frozen=True, slots=True)
class CanaryEvidence:
    """What was found of some recorded answers.

    Attributes:
        docs: By request the mean log-probability of a token, in nats.
        tokens: Of all of them.
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
        """Whether hardly a token is found."""
        return self._is_enough and self.top < BROKEN

    @property
    def is_sound(self) -> bool:
        """Whether most of it works."""
        return self._is_enough and self.top >= SOUND

    def __str__(self) -> str:
        return f"of {self.tokens:,} tokens of recorded answers {self.top:.0%} are the likeliest ones"


def make_forced_requests(
    asks: Sequence[EngineRequest], recorded: Mapping[str, Recorded], cut: Callable[[str], Sequence[Any]]
) -> list[EngineRequest]:
    """What forces the recorded answers of some texts that were asked.

    Args:
        asks: With token ids; others cannot be forced.
        recorded: By the id of the request.
        cut: Cuts a text into tokens.
    """
    forced = []
    for ask in asks:
        request = scoring_request(ask.request, recorded[ask.request.id]) if ask.request.kind == "generate" else None
        if request is not None and ask.prompt_ids is not None:
            forced.append(EngineRequest(request, ask.prompt_ids, [list(cut(request.continuations[0]))[:_MOST]]))
    return forced


def measure_evidence(client: Client, asks: Sequence[EngineRequest]) -> CanaryEvidence | None:
    """What an engine finds; None where it forces nothing, or would load the model for it once more."""
    docs, tokens, top, total = {}, 0, 0, 0.0
    if client.backend.reloads_model or "force" not in client.backend.kinds or not asks:
        return None
    for said in client.answer(asks):
        forced = said.forced
        if said.error is None and forced is not None:
            docs[said.request.id] = math.fsum(forced.logprobs) / len(forced.logprobs)
            tokens += len(forced.ids)
            # Of two that are alike, which bfloat16 makes many of, either may come first.
            top += sum(own >= best for own, best in zip(forced.logprobs, forced.top_logprobs, strict=True))
            total += math.fsum(forced.logprobs)
    return CanaryEvidence(docs, tokens, top / tokens, total / tokens) if tokens else None


def find_other_bos(client: Client, asks: Sequence[EngineRequest], evidence: CanaryEvidence, bos: int) -> str | None:
    """Whether the recorded answers are likelier with another number of BOS, and what that means.

    `meta_eval.token_fidelity.bos_likelihood` has the rule.
    """
    some = sorted((ask for ask in asks if ask.request.id in evidence.docs), key=lambda ask: len(ask.prompt_ids or ()))
    some = some[:BOS_DOCS]
    likelier = []
    for fewer, name, cause in (
        (True, "no BOS", "something adds a BOS to the one that is sent"),
        (False, "two BOS", "something strips one"),
    ):
        again = measure_evidence(client, [change_bos_number(ask, bos, fewer=fewer) for ask in some])
        gained = measure_gain(evidence.docs, again.docs, again.top) if again is not None and again.is_sound else None
        if gained is not None:
            words = f"the recorded answers are likelier with {name}, {gained}. With {name} it answers as recorded"
            likelier.append((gained.nats, f"{words}: {cause}"))
    return max(likelier)[1] if likelier else None  # what strips one takes a word of the prompt where none is sent


def change_bos_number(ask: EngineRequest, bos: int, *, fewer: bool) -> EngineRequest:
    """The same with one BOS less or one more."""
    return replace(ask, prompt_ids=change_bos(ask.prompt_ids or (), bos, fewer=fewer))
