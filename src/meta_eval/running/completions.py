"""What is said over the wire to ``/v1/completions``: bodies of requests, and the reading of what comes back.

Servers differ in what they take besides OpenAI's own fields; `Abilities` holds what one was found to take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meta_eval.answers.token_logprobs import Place, TokenLogprobs, collect_tokens
from meta_eval.results.sample_parser import FILTERED
from meta_eval.running.client import EngineRequest, EngineResponse
from meta_eval.running.transport import GarbledError, Json

# Fields that are not OpenAI's, in vLLM's and SGLang's words: the ids of what was read and written; special tokens kept
# in the text; no penalty of the model's own generation_config.json, which would change greedy answers.
EXTRAS: Mapping[str, Any] = {
    "return_token_ids": True,
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "repetition_penalty": 1.0,
}

# A prompt that any vocabulary has, to see what a server takes.
PROBE = (0, 0, 0)

# Counts are below it, in every program that reads JSON; and the longest text, which a line of the journal must hold.
_MOST = 2**53
_LONGEST = 4 * 2**20


@dataclass(slots=True)
class Abilities:
    """What a server takes.

    Attributes:
        token_ids: Prompts as token ids, of exactly these and no other.
        extras: Those of `EXTRAS` that it does not refuse.
        labels: Whether it says the log-probabilities of tokens that are named, None while nobody asked.
        forced: How it says those of a prompt's tokens: a name of `FORCED`, ``""`` if it does not; None while nobody
            asked.
    """

    token_ids: bool = True
    extras: dict[str, Any] = field(default_factory=lambda: dict(EXTRAS))
    labels: bool | None = None
    forced: str | None = None


def build_text_request(ask: EngineRequest, *, seed: int, end: Sequence[str], can: Abilities) -> dict[str, Any]:
    """A request for a text: greedy unless the task says ``do_sample``. Each repeat has a seed of its own, or sampled
    answers to the same prompt would all be the same."""
    request = ask.request
    settings = dict(request.settings or {})
    if not settings.pop("do_sample", None) and not settings.get("temperature"):
        settings["temperature"] = 0.0
    ids = ask.prompt_ids if can.token_ids else None
    return {
        "prompt": request.prompt if ids is None else list(ids),
        **can.extras,
        "seed": seed + request.repeat,
        **settings,
        "max_tokens": request.max_tokens,
        "stop": list(dict.fromkeys((*request.stop, *end))),
    }


def build_label_request(prompt: Sequence[int], ids: Sequence[int]) -> dict[str, Any]:
    """A request for the log-probabilities of some tokens behind a prompt."""
    return {
        "prompt": list(prompt), "max_tokens": 1, "temperature": 0.0, "logprobs": len(ids),
        "logprob_token_ids": list(ids), "return_tokens_as_token_ids": True,
    }  # fmt: skip


def build_forced_request(
    prompt: Sequence[int], continuation: Sequence[int], how: str, top_k: int = 1
) -> dict[str, Any]:
    """A request for the log-probabilities of a prompt's own last tokens, and of the likeliest ones in their places."""
    asked = {"prompt_logprobs": top_k} if how == "prompt_logprobs" else {"echo": True, "logprobs": top_k}
    return {"prompt": [*prompt, *continuation], "max_tokens": 1, "temperature": 0.0, **asked}


def read_text(ask: EngineRequest, answer: Json, *, end: Sequence[str], **shared: Any) -> EngineResponse:
    """What came of a request for a text.

    Raises:
        GarbledError: It is no completion, or the server ended it halfway.
    """
    choice = read_choice(answer)
    text, finish = choice.get("text"), choice.get("finish_reason")
    if text is None and finish == FILTERED:
        text = ""
    if not isinstance(text, str):
        raise GarbledError("a response without text")
    if len(text) > _LONGEST:
        raise GarbledError(f"a text of {len(text):,} characters")
    if finish not in ("stop", "length", FILTERED, None):
        raise GarbledError(f"it ended with {finish!r:.40}")
    for ending in end:  # servers that were asked to keep special tokens may keep the last one too
        text = text.removesuffix(ending)
    ids, usage = choice.get("token_ids"), read_usage(answer)
    ids = ids if isinstance(ids, list) and all(map(_is_count, ids)) else None
    return EngineResponse(
        ask.request, text=text, finish_reason=finish, token_ids=ids,
        completion_tokens=usage.get("completion_tokens", len(ids) if ids is not None else None), **shared,
    )  # fmt: skip


def read_labels(answer: Json, ids: Sequence[int]) -> list[tuple[float, bool | None]]:
    """The log-probability of each label, and whether it is the likeliest token.

    Raises:
        GarbledError: They are not all there.
    """
    logprobs: Any = read_choice(answer).get("logprobs")
    try:
        top, likeliest = logprobs["top_logprobs"][0], logprobs["tokens"][0]
        return [(_logprob(top[f"token_id:{label}"]), likeliest == f"token_id:{label}") for label in ids]
    except _ODD:
        raise GarbledError("a response without the requested log-probabilities") from None


def read_forced(answer: Json, continuation: Sequence[int], how: str) -> tuple[float, bool | None]:
    """The sum of the log-probabilities of the last tokens of a prompt, and whether each is the likeliest.

    Raises:
        GarbledError: They are not all there.
    """
    tokens = read_tokens(answer, continuation, how)
    return sum(tokens.logprobs), all(rank == 1 for rank in tokens.ranks)


def read_tokens(answer: Json, continuation: Sequence[int], how: str, top_k: int = 0) -> TokenLogprobs:
    """Read the log-probabilities of the last tokens of a prompt.

    Raises:
        GarbledError: They are not all there.
    """
    choice = read_choice(answer)
    try:
        return collect_tokens(continuation, _PLACES[how](choice, continuation), top_k)
    except _ODD:
        raise GarbledError("a response without prompt log-probabilities") from None


def _prompt_logprobs(choice: Json, continuation: Sequence[int]) -> list[Place]:
    places = choice["prompt_logprobs"][-len(continuation) :]
    return [
        {int(token): (_logprob(entry["logprob"]), _rank(entry["rank"])) for token, entry in of.items()} for of in places
    ]


def _echo(choice: Json, continuation: Sequence[int]) -> list[Place]:
    """The prompt comes first and one token that was written last, as lm-eval reads it. Ranks are not said, and the
    likeliest tokens as text, of which several may be the same: they are numbered down from -1, which is no token."""
    logprobs, count = choice["logprobs"], len(continuation) + 1
    places: list[Place] = []
    for token, own, top in zip(
        continuation, logprobs["token_logprobs"][-count:-1], logprobs["top_logprobs"][-count:-1], strict=True
    ):
        others = sorted(map(_logprob, top.values()), reverse=True)
        if others[0] <= _logprob(own):
            others.remove(others[0])
        likelier = sum(value > own for value in others)
        place: dict[int, tuple[float, int | None]] = {token: (float(own), None if likelier else 1)}
        places.append(place | {-number: (value, None) for number, value in enumerate(others, 1)})
    return places


# What comes of reading a tree as if it were what it should be.
_ODD = (AttributeError, KeyError, IndexError, TypeError, ValueError)


def _logprob(value: object) -> float:
    """Raises: ValueError: It is no number, or none that could be written down and added up."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST:
        return float(value)
    raise ValueError


def _rank(value: object) -> int:
    if isinstance(value, int) and _is_count(value) and value > 0:
        return value
    raise ValueError


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


# How a server is asked for the log-probabilities of a prompt's tokens, the better way first, and how they are read.
_PLACES: Mapping[str, Callable[[Json, Sequence[int]], list[Place]]] = {
    "prompt_logprobs": _prompt_logprobs,
    "echo": _echo,
}
FORCED = tuple(_PLACES)


def read_choice(answer: Json) -> Json:
    """The one choice of a completion.

    Raises:
        GarbledError: There is none, or there are several.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise GarbledError("a response that is not a completion")
    return choices[0]


def read_usage(answer: Json) -> dict[str, int]:
    """The counts of tokens that are there."""
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    counts = {**usage, **({"cached_tokens": details.get("cached_tokens")} if isinstance(details, dict) else {})}
    return {name: value for name, value in counts.items() if _is_count(value)}


def explain_other_prompt(answer: Json, sent: Sequence[int] | None) -> str | None:
    """Why what the server read is not what was meant, or None: servers cut prompts in silence, and add a BOS or none.

    Args:
        answer: A completion.
        sent: The token ids of the prompt, whether they or its text were sent; None where nobody knows them.
    """
    if sent is None:
        return None
    read = read_choice(answer).get("prompt_token_ids")
    if isinstance(read, list):
        if read == list(sent):
            return None
        place = next((n for n, (a, b) in enumerate(zip(read, sent, strict=False)) if a != b), min(len(read), len(sent)))
        return f"it read {len(read):,} tokens of prompt; not the {len(sent):,} that were meant, from {place:,} on"
    count = read_usage(answer).get("prompt_tokens")
    if count is None or count == len(sent):
        return None
    return f"it read {count:,} tokens of prompt, and {len(sent):,} were meant"
