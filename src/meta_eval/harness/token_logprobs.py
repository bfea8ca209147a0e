"""Log-probabilities of the tokens of a given text: the answer to a ``force`` request."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from meta_eval.base.thresholds import LOGPROB_ROUNDING

# Stands for the logarithm of 0, as in vLLM's server.
LOWEST = -9999.0

# Decimal places in a file of answers. float32 holds no more for values of a few nats.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural log-probabilities of n tokens, each given the prompt and the tokens before it."""

    ids: Sequence[int]
    """The n tokens."""

    logprobs: Sequence[float]
    """Their n log-probabilities."""

    ranks: Sequence[int]
    """Their n ranks. 1 is the likeliest; 0 means only that another token is likelier."""

    top_ids: Sequence[int]
    """The likeliest token at each of n positions. -1 if unknown."""

    top_logprobs: Sequence[float]
    """Its log-probability."""

    top_k_ids: Sequence[Sequence[int]] | None = None
    """The k likeliest tokens at each of n positions, in order. None if not requested."""

    top_k_logprobs: Sequence[Sequence[float]] | None = None
    """Their log-probabilities. None if not requested."""

    @property
    def top_k(self) -> int:
        """k, or 0 without top-k tokens."""
        return len(self.top_k_ids[0]) if self.top_k_ids else 0

    def explain_impossible(self) -> str | None:
        """Why no model can have these log-probabilities; None if one can."""
        limits = itertools.chain(
            zip(self.logprobs, self.top_logprobs, strict=True),
            ((value, 0.0) for values in (self.top_logprobs, *(self.top_k_logprobs or ())) for value in values),
        )
        if any(value > limit + LOGPROB_ROUNDING for value, limit in limits):
            return "a log-probability is above 0, or above that of the likeliest token"
        return None

    def as_json(self) -> dict[str, Any]:
        """The JSON object for a file of answers."""
        values = {attribute.name: _plain(getattr(self, attribute.name)) for attribute in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def _plain(values: Any) -> Any:
    if values is None or isinstance(values, int):
        return values
    if isinstance(values, float):
        return round(values, _DIGITS)
    return [_plain(value) for value in values]


# Tokens at a position, with log-probability and rank (None if the engine does not report ranks).
TokenPlace = Mapping[int, tuple[float, int | None]]


def collect_tokens(ids: Sequence[int], places: Iterable[TokenPlace], top_k: int = 0) -> TokenLogprobs:
    """Collect what an engine reports for each position of a text.

    Args:
        ids: The tokens of the text.
        places: For each position: the token itself and the likeliest tokens.
        top_k: Number of likeliest tokens to keep.

    Raises:
        ValueError: A position lacks its token, has too few tokens, or a value that is not a number.
    """
    rows = [_row(token, place, top_k) for token, place in zip(ids, places, strict=True)]
    logprobs, ranks, tops, top_logprobs, lists = zip(*rows, strict=True) if rows else ((),) * 5
    keeps_top = top_k > 0
    return TokenLogprobs(
        tuple(ids), logprobs, ranks, tops, top_logprobs,
        tuple(tuple(token for token, _ in some) for some in lists) if keeps_top else None,
        tuple(tuple(value for _, value in some) for some in lists) if keeps_top else None,
    )  # fmt: skip


def _row(token: int, place: TokenPlace, top_k: int) -> tuple[float, int, int, float, Sequence[tuple[int, float]]]:
    if token not in place:
        raise ValueError("gives no log-probability for one of the answer's tokens")
    if any(math.isnan(value) for value, _ in place.values()):
        raise ValueError("gives log-probabilities that are not numbers")
    logprobs = {other: max(value, LOWEST) for other, (value, _) in place.items()}
    logprob, rank = logprobs[token], place[token][1]
    # In a tie the token itself comes first, because engines may order ties either way.
    order = sorted(logprobs, key=lambda other: (-logprobs[other], other != token))
    if top_k and len(order) < top_k:
        raise ValueError(f"gives only {len(order)} of the {top_k} likeliest tokens")
    return logprob, rank or 0, order[0], logprobs[order[0]], [(other, logprobs[other]) for other in order[:top_k]]


def read_logged_tokens(content: Any) -> TokenLogprobs:
    """Read a line of a file of answers.

    Raises:
        ValueError: A field is missing or invalid.
    """
    if not isinstance(content, dict):
        raise ValueError("no object")
    ids, ranks, tops = (_ints(content.get(name), name) for name in ("ids", "ranks", "top_ids"))
    logprobs, top_logprobs = (_floats(content.get(name), name) for name in ("logprobs", "top_logprobs"))
    if not ids or len({len(ids), len(ranks), len(tops), len(logprobs), len(top_logprobs)}) > 1:
        raise ValueError("its lists are empty, or do not have one entry per token")
    if min(ids) < 0 or min(ranks) < 0:
        raise ValueError("a token or a rank is negative")
    if "top_k_ids" not in content and "top_k_logprobs" not in content:
        return TokenLogprobs(ids, logprobs, ranks, tops, top_logprobs)
    some = [_ints(row, "top_k_ids") for row in _list(content.get("top_k_ids"), "top_k_ids")]
    values = [_floats(row, "top_k_logprobs") for row in _list(content.get("top_k_logprobs"), "top_k_logprobs")]
    lengths = {len(row) for row in some} | {len(row) for row in values}
    if not len(some) == len(values) == len(ids) or len(lengths) != 1 or not some[0]:
        raise ValueError("top_k_ids and top_k_logprobs differ in length for a token")
    return TokenLogprobs(ids, logprobs, ranks, tops, top_logprobs, some, values)


def _list(content: Any, name: str) -> list[Any]:
    if not isinstance(content, list):
        raise ValueError(f"{name} is not a list")
    return content


def _ints(content: Any, name: str) -> array[int]:
    try:
        if not any(isinstance(value, bool) for value in _list(content, name)):
            return array("i", content)
    except (TypeError, OverflowError):
        pass
    raise ValueError(f"{name} holds a value that is not a 32-bit integer")


def _floats(content: Any, name: str) -> array[float]:
    try:
        values = array("f", _list(content, name))
    except (TypeError, OverflowError):
        values = array("f", [math.nan])
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{name} holds a value that is not a number")
    return values
