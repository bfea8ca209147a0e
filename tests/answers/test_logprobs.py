"""What engines say of the tokens of a text, put in order."""

from __future__ import annotations

import math

import pytest

from meta_eval.harness.token_logprobs import LOWEST, collect_tokens


def test_of_each_token_its_rank_and_the_likeliest_beside_it() -> None:
    tokens = collect_tokens([5, 6], [{5: (-0.1, 1), 9: (-3.0, 2)}, {6: (-4.0, 17), 9: (-0.5, 1)}])
    assert (tokens.ids, tokens.logprobs, tokens.ranks) == ((5, 6), (-0.1, -4.0), (1, 17))
    assert (tokens.top_ids, tokens.top_logprobs) == ((5, 9), (-0.1, -0.5))
    assert (tokens.top_k_ids, tokens.top_k) == (None, 0)


def test_of_two_that_are_alike_the_token_itself_is_the_likeliest() -> None:
    """bfloat16 makes many such; the engine may call either the second."""
    tokens = collect_tokens([5], [{9: (-0.5, 1), 5: (-0.5, 2)}])
    assert (tokens.top_ids, tokens.ranks) == ((5,), (2,))


def test_a_rank_that_is_not_said_is_0() -> None:
    assert collect_tokens([5], [{5: (-1.0, None), -1: (-0.5, None)}]).ranks == (0,)


def test_the_likeliest_are_kept_in_order_and_the_token_itself_only_where_it_is_one_of_them() -> None:
    tokens = collect_tokens([5], [{5: (-9.0, 40), 7: (-1.0, 2), 8: (-0.5, 1)}], 2)
    assert (tokens.top_k_ids, tokens.top_k_logprobs) == (((8, 7),), ((-0.5, -1.0),))


def test_the_logarithm_of_zero_is_a_number() -> None:
    assert collect_tokens([5], [{5: (-math.inf, 9), 6: (0.0, 1)}]).logprobs == (LOWEST,)


@pytest.mark.parametrize(
    ("place", "top_k", "words"),
    [
        ({6: (-1.0, 1)}, 0, "no log-probability for one"),
        ({5: (math.nan, 1)}, 0, "not numbers"),
        ({5: (-1.0, 1)}, 2, "1 of the 2 likeliest"),
    ],
)
def test_what_says_too_little_is_refused(place: dict[int, tuple[float, int]], top_k: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        collect_tokens([5], [place], top_k)


def test_a_place_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        collect_tokens([5, 5], [{5: (-1.0, 1)}])
