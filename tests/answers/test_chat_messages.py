"""A recorded text prompt is sent as the chat messages of which it was rendered."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meta_eval.harness.chat_messages import make_conversation, parse_messages, render_messages
from meta_eval.harness.families import list_families
from meta_eval.plugins.meta.source.sample import read_tables

LLAMA, _, CHATML = list_families()
QUESTION = "<|start_header_id|>user<|end_header_id|>\n\nHow many?<|eot_id|>"
OPENED = "<|start_header_id|>assistant<|end_header_id|>\n\n"

# Texts with the white space, tokens and pieces of tokens that may confuse a parser.
_PIECES = st.sampled_from(
    ["", " ", "\n", "\n\n", "a", "<", "|>", "user", "assistant", "é", "\x85", "<|", *LLAMA.tokens, *CHATML.tokens]
)
_TEXTS = st.lists(_PIECES, max_size=6).map("".join)
_PROMPTS = st.lists(st.one_of(st.just(QUESTION), st.just(OPENED), _PIECES), max_size=8).map("".join)


def test_a_prompt_is_parsed_into_its_messages() -> None:
    prompt = f"{LLAMA.turn('system', 'Be brief.')}{QUESTION}{LLAMA.turn('ipython', '[3]')}{OPENED}"
    parsed = parse_messages(f"<|begin_of_text|>{prompt}")
    assert [(message["role"], message["content"]) for message in parsed.messages] == [
        ("system", "Be brief."), ("user", "How many?"), ("ipython", "[3]"),
    ]  # fmt: skip
    assert (parsed.begun, parsed.render()) == ("", prompt)
    assert make_conversation(prompt) == {"messages": list(parsed.messages)}


def test_the_lines_between_turns_of_chatml_are_of_no_message() -> None:
    prompt = "<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n"
    parsed = parse_messages(prompt)
    assert parsed.family.name == "ChatML"
    assert (parsed.messages, parsed.render()) == (({"role": "user", "content": "How many?"},), prompt)


@given(
    st.sampled_from(list_families()),
    st.lists(st.tuples(st.sampled_from(["system", "user", "assistant", "ipython"]), _TEXTS), min_size=1, max_size=4),
    _TEXTS,
)
def test_rendered_messages_are_parsed_or_hold_a_special_token(family, turns, begun) -> None:  # type: ignore[no-untyped-def]
    messages = [{"role": role, "content": content} for role, content in turns]
    prompt = render_messages(messages, family) + family.head("assistant") + begun
    try:
        parsed = parse_messages(prompt)
    except ValueError:
        assert any(token in text for token in family.tokens for _, text in [*turns, ("", begun)])
    else:
        assert parsed.render() == prompt


@given(_PROMPTS)
@example(QUESTION + OPENED)
@example(QUESTION + OPENED + "The best answer is")
def test_any_prompt_comes_back_or_is_refused(prompt: str) -> None:
    try:
        parsed = parse_messages(prompt)
    except ValueError as error:
        assert str(error).startswith("has ") or str(error).startswith("does ")
        assert "\n" not in str(error)
    else:
        assert prompt.endswith(parsed.render())
        assert set(prompt.removesuffix(parsed.render()).split(LLAMA.bos)) == {""}


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("Q: 1 + 1?\nA:", "base model"),
        (f"Read this.{QUESTION}{OPENED}", "before its first header"),
        (QUESTION, "opened turn of the assistant"),
        (f"{QUESTION}{OPENED}Two.<|eot_id|>", "opened turn of the assistant"),
        (f"{QUESTION}<|start_header_id|>user<|end_header_id|>\n\n", "opened turn of the assistant"),
        (OPENED, "no message"),
        (f"{LLAMA.head('user')}How many?<|eom_id|>{OPENED}", "turn of the user that does not end with"),
        (f"{LLAMA.turn('user', 'a<|end_of_text|>b')}{OPENED}", "within the text of the user"),
        (f"{QUESTION}{OPENED}<|end_of_text|>The", "has <.end_of_text.> within the text of the assistant"),
        (f"{QUESTION}{OPENED}<|eom_id|>x", "has <.eom_id.> within the text of the assistant"),
        (f"{QUESTION}<|start_header_id|>assistant<|end_header_id|>\n", "a header that is not written as"),
    ],
)
def test_other_prompts_are_refused_with_the_reason(prompt: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_messages(prompt)


def test_a_begun_answer_is_sent_only_where_it_is_continued() -> None:
    prompt = f"{QUESTION}{OPENED}The best answer is"
    with pytest.raises(ValueError, match="begins the answer itself"):
        make_conversation(prompt)
    assert make_conversation(prompt, can_continue=True) == {
        "messages": [
            {"role": "user", "content": "How many?"},
            {"role": "assistant", "content": "The best answer is"},
        ],
        "continue_final_message": True,
        "add_generation_prompt": False,
    }


def test_every_prompt_of_the_sample_comes_back_or_is_of_a_base_model() -> None:
    kinds: dict[str, Counter[str]] = {}
    for table in read_tables().values():
        for prompt in (prompt for row in table.rows for prompt in row.get("input_final_prompts", ())):
            try:
                parsed = parse_messages(prompt)
            except ValueError as error:
                assert "base model" in str(error)
                kind = "base"
            else:
                assert prompt.removeprefix(LLAMA.bos or "") == parsed.render()
                kind = "begun" if parsed.begun else "whole"
            kinds.setdefault(f"{table.folder} {table.name}", Counter())[kind] += 1
    assert {kind for name, counted in kinds.items() for kind in counted if "Instruct" not in name} == {"base"}
    assert {kind for name, counted in kinds.items() for kind in counted if "Instruct" in name} == {"whole", "begun"}
    assert all(len(counted) == 1 for counted in kinds.values())  # a task is asked whole, or not at all
