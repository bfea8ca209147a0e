"""Log-probabilities of given tokens from llama.cpp's server, which returns none for the tokens of a prompt.

It returns the log-probability of each token that it writes, under the model's own distribution. So a grammar and a bias
make it write the given tokens; neither changes these values. A text takes as long as writing it.

A token that no grammar allows is searched among the likeliest tokens of its place: a part of a character, or an end
token before the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meta_eval.ask.completions import Send, read_choice
from meta_eval.ask.transport import GarbledError, Json
from meta_eval.harness.token_logprobs import LOWEST, TokenPlace
from meta_eval.sockets import Forcing

# Added to the logits of the given tokens, so that none loses against the end token, which ends the grammar.
_BIAS = 10_000.0

# How many of the likeliest tokens to request with the first of several labels: mostly all labels are among them.
_LABELS = 100

# The same for a token that is searched: first few, then the whole vocabulary.
_SEARCHED = (1_000, 1_000_000)


class GrammarForcing(Forcing):
    """A grammar of the given tokens."""

    name = "grammar"

    def build_probe(self, prompt: Sequence[int], ids: Sequence[int]) -> dict[str, Any]:
        return build_grammar_request(prompt, ids)

    def check_probe(self, answer: Json) -> None:
        if not read_written(answer):
            raise GarbledError("a response without log-probabilities by token id")

    async def force(
        self, send: Send, prompt: Sequence[int], ids: Sequence[int], top_k: int
    ) -> tuple[list[TokenPlace], Json]:
        return await force_tokens(send, prompt, ids, top_k)

    async def score_labels(
        self, send: Send, prompt: Sequence[int], ids: Sequence[int]
    ) -> tuple[list[tuple[float, bool | None]], Json]:
        return await score_labels(send, prompt, ids)


def build_grammar_request(prompt: Sequence[int], ids: Sequence[int], top_k: int = 1) -> dict[str, Any]:
    """Build a request that writes the given tokens. Each is optional, because llama.cpp fails where a grammar allows
    no token; so it ends early instead."""
    rules = [f"t{place} ::= <[{token}]> t{place + 1}?" for place, token in enumerate(ids)]
    rules[-1] = rules[-1].rpartition(" ")[0]
    bias = [[token, _BIAS] for token in dict.fromkeys(ids)]
    return {**_build(prompt, "\n".join(["root ::= t0?", *rules]), top_k), "max_tokens": len(ids), "logit_bias": bias}


def _build(prompt: Sequence[int], grammar: str, top_k: int) -> dict[str, Any]:
    return {
        "prompt": list(prompt), "max_tokens": 1, "temperature": 0.0, "logprobs": top_k, "grammar": grammar,
        "post_sampling_probs": False, "cache_prompt": True,
    }  # fmt: skip


def read_written(answer: Json) -> list[tuple[int, TokenPlace]]:
    """Read the tokens that the server wrote, each with the log-probabilities at its place.

    Raises:
        GarbledError: It returns no ids or no log-probabilities.
    """
    logprobs = read_choice(answer).get("logprobs")
    try:
        return [(entry["id"], _read_place(entry)) for entry in logprobs["content"]] if logprobs else []
    except (KeyError, TypeError, ValueError):
        raise GarbledError("a response without log-probabilities by token id") from None


def _read_place(entry: Mapping[str, Any]) -> TokenPlace:
    tops = [(int(top["id"]), _read_logprob(top)) for top in entry["top_logprobs"]]
    place = {token: (logprob, rank) for rank, (token, logprob) in enumerate(tops, 1)}
    own = _read_logprob(entry)
    is_likeliest = all(own >= logprob for _, logprob in tops)
    return {int(entry["id"]): (own, 1 if is_likeliest else None), **place}


def _read_logprob(entry: Mapping[str, Any]) -> float:
    """The log-probability of an entry. llama.cpp writes the lowest float for the logarithm of 0."""
    value = entry["logprob"]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value <= 0:
        raise ValueError
    return max(float(value), LOWEST)


async def force_tokens(
    send: Send, prompt: Sequence[int], ids: Sequence[int], top_k: int = 1
) -> tuple[list[TokenPlace], Json]:
    """Find the log-probabilities of given tokens after a prompt.

    Returns: The place of each token, with the ``top_k`` likeliest tokens; and the last answer.

    Raises:
        GarbledError: The server does not return them.
    """
    places: list[TokenPlace] = []
    answer: Json = {}
    while len(places) < len(ids):
        before, left = [*prompt, *ids[: len(places)]], ids[len(places) :]
        answer = await send(build_grammar_request(before, left, top_k))
        written = _match(read_written(answer), left)
        places += written or [await _search(send, before, left[0], top_k)]
    return places, answer


def _match(written: Sequence[tuple[int, TokenPlace]], ids: Sequence[int]) -> list[TokenPlace]:
    """The places of the first given tokens, up to the first that was not written. The server leaves out parts of a
    character."""
    places = []
    for (token, place), expected in zip(written, ids, strict=False):
        if token != expected:
            break
        places.append(place)
    return places


async def _search(send: Send, prompt: Sequence[int], token: int, top_k: int) -> TokenPlace:
    """Find a token among the likeliest of its place. The server returns these with any whole character it writes."""
    for count in _SEARCHED:
        answer = await send(_build(prompt, 'root ::= "a"', count))
        (_, place), *_ = read_written(answer) or [(0, {})]
        if token in place:
            return {other: entry for other, entry in place.items() if other == token or (entry[1] or 0) <= top_k}
    raise GarbledError(f"a response without the log-probability of token {token}")


async def score_labels(
    send: Send, prompt: Sequence[int], ids: Sequence[int]
) -> tuple[list[tuple[float, bool | None]], Json]:
    """Find the log-probability of each of several tokens after a prompt, and whether it is the likeliest.

    Raises:
        GarbledError: The server does not return them.
    """
    (place,), answer = await force_tokens(send, prompt, ids[:1], _LABELS)
    for token in ids:
        if token not in place:
            (other,), answer = await force_tokens(send, prompt, [token])
            place = {**other, **place}
    return [(place[token][0], place[token][1] == 1) for token in ids], answer
