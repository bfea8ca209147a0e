"""Builds request bodies for ``/v1/completions``, and parses its answers.

Servers accept different fields besides OpenAI's; `Abilities` has the fields that a server accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meta_eval.ask.forcing import Forcing
from meta_eval.ask.request import Request
from meta_eval.ask.transport import GarbledError, Json
from meta_eval.harness.answer import Answer
from meta_eval.harness.chat_completion import read_usage
from meta_eval.harness.sample_parser import FILTERED
from meta_eval.harness.token_logprobs import TokenLogprobs, TokenPlace, collect_tokens

# Fields of vLLM and SGLang: return token ids; keep special tokens in the text; ignore penalties of the model's
# generation_config.json, which would change greedy answers.
EXTRAS: Mapping[str, Any] = {
    "return_token_ids": True,
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "repetition_penalty": 1.0,
}

# A prompt valid in any vocabulary, for testing a server.
PROBE = (0, 0, 0)

# Limit of counts that every JSON reader handles; and the longest text, which must fit a line of the journal.
_MOST = 2**53
_LONGEST = 4 * 2**20


@dataclass(slots=True)
class Abilities:
    """The abilities of a server.

    Attributes:
        token_ids: Whether it takes prompts as token ids and uses exactly these.
        extras: Those of `EXTRAS` that it accepts.
        labels: Whether it returns log-probabilities of named tokens; None until tried.
        forced: How it returns log-probabilities of given tokens: a name of `FORCED` or of ``forcing``, ``""`` if it
            does not; None until tried.
        forcing: What makes it write the tokens, where it scores none of a prompt.
    """

    token_ids: bool = True
    extras: dict[str, Any] = field(default_factory=lambda: dict(EXTRAS))
    labels: bool | None = None
    forced: str | None = None
    forcing: Forcing | None = None


def build_text_request(request: Request, *, seed: int, end: Sequence[str], can: Abilities) -> dict[str, Any]:
    """Build a text request, greedy unless the task sets ``do_sample``. Each repeat has another seed; otherwise all
    samples of a prompt would be the same."""
    settings = request.sampling
    ids = request.prompt_ids if can.token_ids else None
    first_seed = settings.get("seed", seed)
    return {
        "prompt": request.prompt if ids is None else list(ids),
        **can.extras,
        **settings,
        "seed": first_seed + request.repeat if isinstance(first_seed, int) else first_seed,
        "max_tokens": request.max_tokens,
        "stop": list(dict.fromkeys((*request.stop, *end))),
    }


def build_label_request(prompt: Sequence[int], ids: Sequence[int]) -> dict[str, Any]:
    """Build a request for the log-probabilities of some tokens after a prompt."""
    return {
        "prompt": list(prompt), "max_tokens": 1, "temperature": 0.0, "logprobs": len(ids),
        "logprob_token_ids": list(ids), "return_tokens_as_token_ids": True,
    }  # fmt: skip


def build_forced_request(
    prompt: Sequence[int], continuation: Sequence[int], how: str, top_k: int = 1
) -> dict[str, Any]:
    """Build a request for the log-probabilities of a prompt's last tokens, and of the likeliest tokens at their
    places."""
    logprob_settings = {"prompt_logprobs": top_k} if how == "prompt_logprobs" else {"echo": True, "logprobs": top_k}
    return {"prompt": [*prompt, *continuation], "max_tokens": 1, "temperature": 0.0, **logprob_settings}


def read_text(request: Request, answer: Json, *, end: Sequence[str], **shared: Any) -> Answer:
    """Parse the answer to a text request.

    Raises:
        GarbledError: It is not a completion, or the server aborted it.
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
    for ending in end:  # servers that keep special tokens may keep the end token too
        text = text.removesuffix(ending)
    ids, usage = choice.get("token_ids"), read_usage(answer)
    ids = ids if isinstance(ids, list) and _are_counts(ids) else None
    return request.answer(
        text=text, finish_reason=finish, token_ids=ids,
        completion_tokens=usage.get("completion_tokens", len(ids) if ids is not None else None), **shared,
    )  # fmt: skip


def read_labels(answer: Json, ids: Sequence[int]) -> list[tuple[float, bool | None]]:
    """Parse the log-probability of each label, and whether it is the likeliest token.

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
    """Parse the sum of log-probabilities of a prompt's last tokens, and whether each is the likeliest.

    Raises:
        GarbledError: They are not all there.
    """
    return sum_tokens(read_tokens(answer, continuation, how))


def sum_tokens(tokens: TokenLogprobs) -> tuple[float, bool | None]:
    """The sum of log-probabilities, and whether each token is the likeliest."""
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


def _prompt_logprobs(choice: Json, continuation: Sequence[int]) -> list[TokenPlace]:
    places = choice["prompt_logprobs"][-len(continuation) :]
    return [
        {int(token): (_logprob(entry["logprob"]), _rank(entry["rank"])) for token, entry in of.items()} for of in places
    ]


def _echo(choice: Json, continuation: Sequence[int]) -> list[TokenPlace]:
    """Parse an echoed prompt with a generated token at the end, as lm-eval does. There are no ranks. Likeliest tokens
    are texts, which may repeat, so they are numbered down from -1, which is not a token."""
    logprobs, count = choice["logprobs"], len(continuation) + 1
    places: list[TokenPlace] = []
    for token, logprob, top in zip(
        continuation, logprobs["token_logprobs"][-count:-1], logprobs["top_logprobs"][-count:-1], strict=True
    ):
        others = sorted(map(_logprob, top.values()), reverse=True)
        if others[0] <= _logprob(logprob):
            others.remove(others[0])
        likelier = sum(value > logprob for value in others)
        place: dict[int, tuple[float, int | None]] = {token: (float(logprob), None if likelier else 1)}
        places.append(place | {-number: (value, None) for number, value in enumerate(others, 1)})
    return places


# Errors of reading a tree of the wrong form.
_ODD = (AttributeError, KeyError, IndexError, TypeError, ValueError)


def _logprob(value: object) -> float:
    """Raises: ValueError: It is not a finite number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST:
        return float(value)
    raise ValueError


def _rank(value: object) -> int:
    if isinstance(value, int) and _is_count(value) and value > 0:
        return value
    raise ValueError


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _are_counts(values: list[Any]) -> bool:
    """As `_is_count` of each, faster: an answer may have thousands of tokens."""
    return set(map(type, values)) <= {int} and (not values or (min(values) >= 0 and max(values) < _MOST))


# Ways to request log-probabilities of a prompt's tokens, best first, each with its parser.
_PLACES: Mapping[str, Callable[[Json, Sequence[int]], list[TokenPlace]]] = {
    "prompt_logprobs": _prompt_logprobs,
    "echo": _echo,
}
FORCED = tuple(_PLACES)


def read_choice(answer: Json) -> Json:
    """The only choice of a completion.

    Raises:
        GarbledError: There is not exactly one.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise GarbledError("a response that is not a completion")
    return choices[0]


def explain_other_prompt(answer: Json, sent: Sequence[int] | None) -> str | None:
    """Explain why the server read another prompt than was sent, or None: servers silently cut prompts, and add or omit
    a BOS.

    Args:
        answer: A completion.
        sent: The token ids of the prompt, even if its text was sent; None if unknown.
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
