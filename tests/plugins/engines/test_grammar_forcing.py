"""Given tokens on llama.cpp's server: every token gets the log-probability of its place, whatever a grammar allows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from fake_server import logprob, write_by_grammar
from hypothesis import given
from hypothesis import strategies as st

from meta_eval.ask.transport import GarbledError
from meta_eval.harness.token_logprobs import LOWEST
from meta_eval.plugins.engines.llamacpp.grammar_forcing import (
    GrammarForcing,
    build_grammar_request,
    force_tokens,
    read_written,
    score_labels,
)

TOKENS = st.lists(st.integers(0, 40), max_size=12)


class Server:
    """Answers as llama.cpp's server; `bodies` are all requests."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    async def send(self, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        return {"choices": [{"logprobs": {"content": write_by_grammar(body, body["prompt"])}}]}


def expect(prompt: Sequence[int], ids: Sequence[int]) -> list[float]:
    return [logprob([*prompt, *ids[:place]], token) for place, token in enumerate(ids)]


@given(TOKENS, TOKENS, st.integers(1, 3))
def test_each_token_has_the_log_probability_of_its_place(prompt: list[int], ids: list[int], top_k: int) -> None:
    places, _ = asyncio.run(force_tokens(Server().send, prompt, ids, top_k))
    assert [place[token][0] for token, place in zip(ids, places, strict=True)] == expect(prompt, ids)
    for place in places:
        listed = {rank: logprob for logprob, rank in place.values() if rank}
        assert all(rank in listed for rank in range(1, top_k + 1))
        assert list(dict(sorted(listed.items())).values()) == sorted(listed.values(), reverse=True)


@given(TOKENS, st.lists(st.integers(0, 40), min_size=2, max_size=5, unique=True))
def test_labels_have_the_log_probability_of_each_token(prompt: list[int], ids: list[int]) -> None:
    scores, _ = asyncio.run(score_labels(Server().send, prompt, ids))
    assert [score for score, _ in scores] == [logprob(prompt, token) for token in ids]


def test_a_text_of_whole_characters_takes_one_request() -> None:
    server, ids = Server(), [2, 3, 4, 2, 5]
    asyncio.run(force_tokens(server.send, [9], ids))
    (body,) = server.bodies
    assert body["max_tokens"] == 5
    assert body["grammar"].splitlines() == [
        "root ::= t0?", "t0 ::= <[2]> t1?", "t1 ::= <[3]> t2?", "t2 ::= <[4]> t3?", "t3 ::= <[2]> t4?", "t4 ::= <[5]>",
    ]  # fmt: skip
    assert [token for token, _ in body["logit_bias"]] == [2, 3, 4, 5]


def test_a_token_whose_probability_is_zero_has_the_lowest_value() -> None:
    entry = {"id": 5, "logprob": -3.4e38, "top_logprobs": [{"id": 4, "logprob": 0.0}]}
    ((token, place),) = read_written({"choices": [{"logprobs": {"content": [entry]}}]})
    assert (token, place) == (5, {5: (LOWEST, None), 4: (0.0, 1)})


@pytest.mark.parametrize(
    "logprobs",
    [None, {}, {"content": []}, {"content": [{"id": 1}]}, {"content": [{"id": 1, "logprob": 1, "top_logprobs": []}]},
     {"content": [{"id": 1, "logprob": True, "top_logprobs": []}]}, {"tokens": ["a"]}, [1]],
)  # fmt: skip
def test_another_servers_log_probabilities_are_refused(logprobs: Any) -> None:
    with pytest.raises(GarbledError):
        GrammarForcing().check_probe({"choices": [{"logprobs": logprobs}]})


def test_a_server_that_never_names_the_token_is_refused() -> None:
    async def send(_: dict[str, Any]) -> dict[str, Any]:
        return {"choices": [{"logprobs": None}]}

    with pytest.raises(GarbledError, match="without the log-probability of token 3"):
        asyncio.run(force_tokens(send, [1], [3]))
    assert build_grammar_request([1], [3])["grammar"] == "root ::= t0?\nt0 ::= <[3]>"
