"""The canary: a few docs are answered first and compared with the recorded answers, before hours are spent.

What stops a run, and why it is certain enough (each number is reasoned; real models were not at hand to measure it):

* **The engine counts another number of tokens** in a prompt than were sent. No threshold: a BOS was added or taken, or
  the prompt cut. Checked for every request of the run, wherever the engine counts.
* **All texts are degenerate** where the recorded ones are not: empty, special tokens alone, one word or sign over and
  over. No working Llama answers so on every doc; `FEWEST` docs must say so.
* **Hardly a text begins as the recorded one**, in its first token: k of n do, and of a copy that begins alike on one
  doc in three so few would with a probability below `CHANCE`; 0 of 12, 2 of 24, 4 of 32. (Not one is too strict a rule:
  the tiny Llama of doctor without BOS, which is wrong on every doc, begins 1 of 24 right by chance.) A model that
  opens all its answers in a way of its own (``<think>``) is let go on where it can be forced and finds most tokens of
  the recorded answers; else it is stopped, by mistake: a minute is lost by that, and hours by the contrary.
* **The recorded answers are likelier with another number of BOS**, where the engine can be forced
  (`running.canary_evidence`). What share of their tokens is the likeliest one tells of the others what may be wrong.
* **Likelihoods say nothing**: not a number, or alike for all continuations of every doc, to `ALIKE` nats.
* **The likeliest continuation is the recorded one on so few docs** that one which agrees on half of them would do so
  with a probability below `CHANCE`. Of four choices a broken model agrees on a quarter.

Fewer docs than these need are never a verdict; they are shown. What is suspect is asked again with one BOS less and one
more, where token ids go in: an answer that is then the recorded one names the cause.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meta_eval.answers.answer_matching import cut_at_stop
from meta_eval.answers.recorded_answers import Recorded
from meta_eval.answers.requests import Request
from meta_eval.backends.base import BackendError
from meta_eval.catalog.families import find_family, list_families
from meta_eval.running.canary_evidence import (
    CanaryEvidence,
    change_bos_number,
    find_other_bos,
    make_forced_requests,
    measure_evidence,
)
from meta_eval.running.client import Client, EngineRequest, EngineResponse

# How many docs are asked again in another way.
VARIANTS = 8

# The probability of a false stop that each statistical rule allows, under the share of docs on which a copy of the
# model, fine-tuned or quantised, is taken to begin alike, or to choose alike.
CHANCE = 0.01
BEGINS_ALIKE = 1 / 3
CHOOSES_ALIKE = 1 / 2

# Texts that must be degenerate, all of them; of 4 a model may leave each empty for a reason of its own.
FEWEST = 6

# Nats within which likelihoods of all continuations count as the same.
ALIKE = 1e-4

# The share of texts that begin with one and the same token where a model has an opening of its own.
OPENS_ALIKE = 0.8

_GO_ON = "Fix it, or go on all the same with --no-canary. These answers were not kept"


class CanaryError(BackendError):
    """The first answers show that the set-up is broken."""


@dataclass(frozen=True, slots=True)
class AnswerComparison:
    """An answer beside the recorded one.

    Attributes:
        request: What was asked.
        tokens: Of the prompt; None where they are not known.
        alike: Of texts: tokens of the common prefix, characters where there is no tokenizer.
        of: Of texts: tokens of the recorded one.
        equal: Of texts: whether they are equal word for word.
        empty: Of texts: whether it is degenerate, and in which way; ``""`` where it is not.
        header: Of texts: whether it begins with the head of a turn, which a chat template adds.
        opening: Of texts: the first token.
        same: Of choices: whether the likeliest is the same.
        off: Of choices: the largest difference of two probabilities, normalised over the continuations.
        flat: Of choices: whether all are alike or not a number.
    """

    request: Request
    tokens: int | None
    alike: int = 0
    of: int = 0
    equal: bool = False
    empty: str = ""
    header: bool = False
    opening: Any = None
    same: bool | None = None
    off: float = 0.0
    flat: bool = False


# A text as its tokens, or as its characters.
Cut = Callable[[str], Sequence[Any]]


def check_token_counts(
    client: Client, asks: Iterable[EngineRequest], *, check: bool = True
) -> Iterator[tuple[EngineRequest, EngineResponse]]:
    """Ask, and hold the engine's own count of each prompt's tokens against what was sent, if it is to be checked.

    Raises:
        CanaryError: They differ.
    """
    open_: dict[str, EngineRequest] = {}

    def noted() -> Iterator[EngineRequest]:
        for ask in asks:
            open_[ask.request.id] = ask
            yield ask

    for said in client.answer(noted()):
        ask = open_.pop(said.request.id)
        if check and said.error is None and said.prompt_tokens is not None and ask.prompt_ids is not None:
            more = said.prompt_tokens - len(ask.prompt_ids)
            if more:
                raise CanaryError(
                    f"the engine counts {said.prompt_tokens:,} tokens in a prompt of {len(ask.prompt_ids):,}, one BOS "
                    f"included: "
                    f"{_MORE.get(more, 'it cuts it' if more < 0 else 'it puts something around it')}",
                    where=said.request.id, hint=_GO_ON,
                )  # fmt: skip
        yield ask, said


_MORE = {
    1: "it adds a BOS of its own (or its tokenizer is another)",
    -1: "something strips the BOS (or its tokenizer is another)",
}


def compare_answer(ask: EngineRequest, said: EngineResponse, recorded: Recorded, cut: Cut) -> AnswerComparison:
    """Put an answer beside the recorded one."""
    tokens = None if ask.prompt_ids is None else len(ask.prompt_ids)
    if said.choices:
        ours = [value for value, _ in said.choices]
        if not all(math.isfinite(value) for value in ours):
            return AnswerComparison(ask.request, tokens, same=False, off=1.0, flat=True)
        theirs = [-value for value in recorded.nlls]
        pairs = zip(_shares(ours), _shares(theirs), strict=True)
        return AnswerComparison(
            ask.request, tokens, same=ours.index(max(ours)) == theirs.index(max(theirs)),
            off=max(abs(own - right) for own, right in pairs), flat=max(ours) - min(ours) < ALIKE,
        )  # fmt: skip
    text, right = said.text or "", cut_at_stop(recorded.text or "", ask.request.stop)
    said_tokens, right_tokens = cut(text), cut(right)
    alike = next(
        (number for number, (a, b) in enumerate(zip(said_tokens, right_tokens, strict=False)) if a != b),
        min(len(said_tokens), len(right_tokens)),
    )
    return AnswerComparison(
        ask.request, tokens, alike=alike, of=len(right_tokens), equal=text.strip() == right.strip(),
        empty=_degenerate(text) if right.strip() else "", header=text.lstrip().startswith(_heads()),
        opening=said_tokens[0] if said_tokens else None,
    )  # fmt: skip


def _heads() -> tuple[str, ...]:
    """How an answer begins that is the head of a turn."""
    tokens = (token for family in list_families() for token in (family.header[0], family.bos))
    return (*tokens, "assistant\n", "assistant<|")


def _degenerate(text: str) -> str:
    bare = text.strip()
    if not bare:
        return "empty"
    pieces = [piece for piece in bare.replace("|>", "|>\n").split() if piece]
    if all(piece.startswith("<|") and piece.endswith("|>") for piece in pieces):
        return "special tokens alone"
    if (len(pieces) >= 8 and len(set(pieces)) == 1) or (len(bare) >= 16 and len(set(bare)) == 1):
        return "one token over and over"
    return ""


def _shares(values: Sequence[float]) -> list[float]:
    """Probabilities among the continuations alone."""
    top = max(values)
    grown = [math.exp(value - top) for value in values]
    return [value / sum(grown) for value in grown]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a canary saw.

    Attributes:
        texts: How many texts were compared.
        begin: How many of them begin with the recorded one's first token.
        prefix: The mean share of the recorded text's tokens that the common prefix has, 0 to 1.
        equal: How many are equal word for word.
        choices: How many docs of choices were compared.
        same: On how many of them the likeliest continuation is the recorded one.
        off: The median difference of two normalised probabilities, the largest of each doc.
        forced: Tokens of recorded answers that were forced; 0 where the engine cannot.
        top: The share of them that are the likeliest in their place, 0 to 1; None without.
        logprob: Their mean log-probability, in nats; None without.
    """

    texts: int
    begin: int
    prefix: float
    equal: int
    choices: int
    same: int
    off: float
    forced: int = 0
    top: float | None = None
    logprob: float | None = None

    @classmethod
    def of(cls, seen: Sequence[AnswerComparison], evidence: CanaryEvidence | None = None) -> Summary:
        texts = [comparison for comparison in seen if comparison.same is None]
        choices = [comparison for comparison in seen if comparison.same is not None]
        shares = [comparison.alike / max(comparison.of, 1) for comparison in texts]
        return cls(
            texts=len(texts), begin=sum(comparison.alike > 0 for comparison in texts),
            prefix=sum(shares) / max(len(shares), 1),
            equal=sum(comparison.equal for comparison in texts), choices=len(choices),
            same=sum(bool(comparison.same) for comparison in choices),
            off=sorted(comparison.off for comparison in choices)[len(choices) // 2] if choices else 0.0,
            forced=evidence.tokens if evidence else 0, top=evidence.top if evidence else None,
            logprob=evidence.logprob if evidence else None,
        )  # fmt: skip

    def __str__(self) -> str:
        words = []
        if self.texts:
            words.append(
                f"of {self.texts} texts {self.begin} begin as the recorded ones and {self.equal} are equal word for "
                f"word (common prefix {self.prefix:.0%})"
            )
        if self.choices:
            words.append(
                f"of {self.choices} docs of choices {self.same} have the same answer "
                f"(probabilities differ by {self.off:.2f})"
            )
        if self.top is not None:
            words.append(f"of {self.forced:,} tokens of recorded answers {self.top:.0%} are the likeliest ones")
        return ", ".join(words) or "nothing to compare"


def find_suspicion(seen: Sequence[AnswerComparison], *, own_opening: bool = False) -> str | None:
    """What is certainly wrong with some answers, or None.

    Args:
        seen: The answers.
        own_opening: Whether the model is known to open its answers in a way of its own; they then need not begin alike.
    """
    texts = [comparison for comparison in seen if comparison.same is None]
    choices = [comparison for comparison in seen if comparison.same is not None]
    ways = {comparison.empty for comparison in texts}
    if len(texts) >= FEWEST and "" not in ways:
        return f"every answer is degenerate ({', '.join(sorted(ways))})"
    begin = sum(comparison.alike > 0 for comparison in texts)
    if texts and not own_opening and binomial_cdf(begin, len(texts), BEGINS_ALIKE) < CHANCE:
        return f"{begin} of {len(texts)} answers begin as the recorded one"
    if len(choices) >= FEWEST and all(comparison.flat for comparison in choices):
        return "the likelihoods of the continuations are all alike, or no numbers"
    same = sum(bool(comparison.same) for comparison in choices)
    if choices and binomial_cdf(same, len(choices), CHOOSES_ALIKE) < CHANCE:
        return f"the likeliest of the choices is the recorded one on {same} of {len(choices)} docs"
    return None


def binomial_cdf(hits: int, of: int, share: float) -> float:
    """The probability of so few hits or fewer, of independent trials: the binomial distribution."""
    return sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(hits + 1))


@dataclass(frozen=True, slots=True)
class Canary:
    """Judges what was said first.

    Args:
        client: Is asked again where something is suspect.
        recorded: What Meta recorded, by the id of the request.
        cut: Cuts a text into tokens.
        bos: The token that begins a prompt; None where token ids do not go in.
    """

    client: Client
    recorded: Mapping[str, Recorded]
    cut: Cut
    bos: int | None

    def judge(self, said: Sequence[tuple[EngineRequest, EngineResponse]]) -> Summary:
        """What was seen.

        Raises:
            CanaryError: The set-up is broken.
        """
        given = [(ask, answer) for ask, answer in said if answer.error is None]
        if said and not given:
            raise CanaryError(f"none of the first {len(said)} requests was answered: {said[0][1].error}", hint=_GO_ON)
        seen = self._compared(given)
        long_from = find_family(self.client.model.rpartition("/")[2]).rope_scaled_from
        long = [comparison for comparison in seen if (comparison.tokens or 0) > long_from]
        forced = (
            make_forced_requests([ask for ask, _ in given], self.recorded, self.cut) if self.bos is not None else []
        )
        evidence = measure_evidence(self.client, forced)
        other = find_other_bos(self.client, forced, evidence, self.bos or 0) if evidence is not None else None
        if other is not None:
            raise CanaryError(other, where="canary", hint=_GO_ON)
        own = evidence is not None and evidence.is_sound and _opens_alike(seen)
        why = find_suspicion(seen, own_opening=own)
        if why is not None:
            raise CanaryError(
                f"{why}. {self._cause([ask for ask, _ in given], seen, evidence)}", where="canary", hint=_GO_ON
            )
        why = find_suspicion(long, own_opening=own)
        if why is not None:
            cause = (
                "Short ones are well: the scaling of rotary embeddings (rope_scaling) is missing, or it cuts prompts"
            )
            raise CanaryError(f"for prompts over {long_from:,} tokens, {why}. {cause}", where="canary", hint=_GO_ON)
        return Summary.of(seen, evidence)

    def _compared(self, given: Iterable[tuple[EngineRequest, EngineResponse]]) -> list[AnswerComparison]:
        return [compare_answer(ask, answer, self.recorded[answer.request.id], self.cut) for ask, answer in given]

    def _cause(
        self, asks: Sequence[EngineRequest], seen: Sequence[AnswerComparison], evidence: CanaryEvidence | None
    ) -> str:
        """The likeliest cause, from a few docs asked with another number of BOS."""
        ids = self.bos is not None and all(ask.prompt_ids for ask in asks)
        if ids:
            some = sorted(asks, key=lambda ask: len(ask.prompt_ids or ()))[:VARIANTS]
            base = _agreement(
                [comparison for comparison in seen if comparison.request.id in {ask.request.id for ask in some}]
            )
            for fewer, cause in (
                (True, "With no BOS it answers as recorded: something adds a BOS to the one that is sent"),
                (False, "With two BOS it answers as recorded: something strips one"),
            ):
                asked = [change_bos_number(ask, self.bos or 0, fewer=fewer) for ask in some]
                given = [(ask, answer) for ask, answer in pair_responses(self.client, asked) if answer.error is None]
                again = _agreement(self._compared(given))
                if again >= 0.5 and again > base + 0.25:
                    return cause
        texts = [comparison for comparison in seen if comparison.same is None]
        if texts and sum(comparison.header for comparison in texts) * 2 > len(texts):
            return "They begin with the head of a turn: a chat template stands around prompts that have theirs already"
        if any(comparison.empty == "one token over and over" for comparison in texts) or any(
            comparison.flat for comparison in seen
        ):
            return "So do weights or activations that overflow: check dtype (float16 needs care) and the quantisation"
        tried = "Another number of BOS does not help" if ids else "Which BOS the server adds is not known"
        names = "model_name is the model of the dataset (instruct or base)"
        template, weights = "no chat template is applied by the server", "rope_scaling in config.json, dtype"
        if evidence is not None and evidence.is_sound:
            tried += f", and {evidence}: most of the model is there"
            return f"{tried}. Check that {names}, that {template}, and rope_scaling in config.json"
        if evidence is not None and evidence.is_broken:
            tried += f", and {evidence}, of which any model that reads them finds half"
            return f"{tried}. Check {weights}, quantisation, that the weights are whole, and that {names}"
        return f"{tried}: check that {names}, that {template}, {weights}, and that the weights are whole"


def _opens_alike(seen: Sequence[AnswerComparison]) -> bool:
    """Whether nearly all texts begin with one token, and not with the head of a turn: ``<think>`` and the like."""
    texts = [comparison for comparison in seen if comparison.same is None and not comparison.empty]
    if not texts or any(comparison.header for comparison in texts):
        return False
    (_, most), *_ = Counter(comparison.opening for comparison in texts).most_common(1)
    return most >= OPENS_ALIKE * len(texts)


def pair_responses(client: Client, asks: Sequence[EngineRequest]) -> Iterator[tuple[EngineRequest, EngineResponse]]:
    """Each answer with what was asked."""
    by_id = {ask.request.id: ask for ask in asks}
    return ((by_id[said.request.id], said) for said in client.answer(asks))


def _agreement(seen: Sequence[AnswerComparison]) -> float:
    """The share of docs that begin, or choose, as recorded."""
    return sum(comparison.alike > 0 if comparison.same is None else bool(comparison.same) for comparison in seen) / max(
        len(seen), 1
    )
