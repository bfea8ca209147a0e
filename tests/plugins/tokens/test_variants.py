"""The probes' prompts: what each is, by hand and with the tokenizer of the shipped tiny Llama."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from meta_eval.ask.model_tokens import Encoder
from meta_eval.doctor.known_answers import find_model_folder
from meta_eval.plugins.tokens.perturbations import (
    ALONE,
    BARE,
    MAX_ANSWER_TOKENS,
    NO_BOS,
    NO_HEADERS,
    NO_SPECIAL,
    PROMPTS,
    SECOND_BOS,
    SPELLED,
    make_perturbations,
)

TOKENIZER = Tokenizer.from_file(str(find_model_folder() / "tokenizer.json"))
ENCODER = Encoder(TOKENIZER)
HEAD, ASKED = "<|start_header_id|>user<|end_header_id|>\n\n", "<|start_header_id|>assistant<|end_header_id|>\n\n"
CHAT = f"{HEAD}Hello there<|eot_id|>{ASKED}"


def made(prompt: str) -> dict[str, tuple[list[int], list[int]]]:
    assert ENCODER.bos is not None
    ids = [ENCODER.bos, *ENCODER.encode_text(prompt)]
    return dict(
        make_perturbations(
            prompt, ids, ENCODER.encode_text("a b c"), ENCODER.bos, ENCODER.encode_text, ENCODER.encode_spelled
        )
    )


def text(ids: list[int]) -> str:
    return TOKENIZER.decode(ids, skip_special_tokens=False)


def test_each_probe_of_a_chat_prompt_is_the_mistake_that_it_is_called_after() -> None:
    texts = {name: text(prompt) for name, (prompt, _) in made(CHAT).items()}
    bos = "<|begin_of_text|>"
    assert set(texts) == set(PROMPTS)
    assert texts[NO_BOS] == CHAT
    assert texts[SECOND_BOS] == bos + bos + CHAT
    assert texts[NO_HEADERS] == f"{bos}Hello there"
    assert texts[NO_SPECIAL] == f"{bos}user\n\nHello thereassistant\n\n"
    assert texts[BARE] == f"{bos}Hello there"
    assert texts[SPELLED] == bos + CHAT
    spelled = made(CHAT)[SPELLED][0]
    assert spelled[0] == ENCODER.bos and not {TOKENIZER.token_to_id("<|eot_id|>"), ENCODER.bos} & set(spelled[1:])
    assert ENCODER.encode_text("<|eot_id|>") == [TOKENIZER.token_to_id("<|eot_id|>")], "the encoder reads them again"


def test_llama_4_has_headers_of_its_own() -> None:
    head, asked = "<|header_start|>user<|header_end|>\n\n", "<|header_start|>assistant<|header_end|>\n\n"
    texts = {name: text(prompt) for name, (prompt, _) in made(f"{head}Hello there<|eot|>{asked}").items()}
    assert set(texts) == set(PROMPTS)
    assert texts[NO_HEADERS] == texts[BARE] == "<|begin_of_text|>Hello there"


@pytest.mark.parametrize("more", ["", "one<|im_end|>\n<|im_start|>assistant\ntwo<|im_end|>\n<|im_start|>user\n"])
def test_the_outer_turn_of_a_chat_is_its_system_turn_and_what_surrounds_the_rest(more: str) -> None:
    inner = f"{more}Hello\nthere"
    chat = f"<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\n{inner}<|im_end|>\n<|im_start|>assistant\n"
    assert text(made(chat)[BARE][0]) == f"<|begin_of_text|>{inner}"


def test_a_plain_prompt_is_probed_without_what_it_has_not() -> None:
    assert set(made("Question: what?")) == {NO_BOS, SECOND_BOS, ALONE}


@given(st.text(max_size=200))
def test_any_prompt_has_probes_of_tokens(prompt: str) -> None:
    probes = made(prompt)
    ids = probes[SECOND_BOS][0][1:]
    assert probes[NO_BOS][0] == ids[1:]
    answer = ENCODER.encode_text("a b c")
    assert probes[ALONE] == (answer[:1], answer[1:])


def test_answers_are_cut_and_an_answer_of_one_token_is_never_alone() -> None:
    probes = dict(make_perturbations("x", [0, 5], list(range(100)), 0, ENCODER.encode_text, ENCODER.encode_spelled))
    assert probes[NO_BOS][1] == list(range(MAX_ANSWER_TOKENS))
    assert ALONE not in dict(make_perturbations("x", [0, 5], [7], 0, ENCODER.encode_text, ENCODER.encode_spelled))
