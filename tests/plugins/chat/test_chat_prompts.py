"""The prompt of a chat endpoint is compared with the recorded one by its tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_model import write_tokenizer

from meta_eval.ask.model_tokens import Encoder
from meta_eval.harness.chat_messages import make_conversation
from meta_eval.harness.families import list_families
from meta_eval.pack.chat_rendering import ChatTemplate
from meta_eval.plugins.chat.chat_prompts import PromptDifference, compare_prompt, encode_conversation

LLAMA = list_families()[0]
TURNS = (
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}"
    "{% if not (continue_final_message and loop.last) %}<|eot_id|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
DATED = "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023<|eot_id|>"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    from tokenizers import Tokenizer

    folder = write_tokenizer(tmp_path_factory.mktemp("model"))
    return Encoder(Tokenizer.from_file(str(folder / "tokenizer.json")))


def template(before: str = "") -> ChatTemplate:
    return ChatTemplate({"default": f"{{{{ bos_token }}}}{before}{TURNS}"}, {"bos_token": LLAMA.bos or ""})


def prompt(question: str, begun: str = "") -> str:
    return f"{LLAMA.turn('user', question)}{LLAMA.head('assistant')}{begun}"


def compare(text: str, model: ChatTemplate, encoder: Encoder) -> PromptDifference:
    return compare_prompt(text, make_conversation(text, can_continue=True), model, encoder)


def test_a_template_that_gives_the_prompt_back_differs_in_no_token(encoder: Encoder) -> None:
    text = prompt("How many?")
    tokens = 1 + len(encoder.encode_text(text))
    assert compare(text, template(), encoder) == PromptDifference(tokens, 0, 0)
    assert compare(prompt("How many?", "Two"), template(), encoder).total == 0


def test_what_a_template_adds_and_trims_is_counted(encoder: Encoder) -> None:
    added = len(encoder.encode_text(DATED))
    text = prompt("How many?\n")
    difference = compare(text, template(DATED), encoder)
    assert difference == PromptDifference(len(encoder.encode_text(text)) + added, added, 1)
    assert difference.total == added + 1


def test_tools_and_template_variables_are_in_the_tokens(encoder: Encoder) -> None:
    model = ChatTemplate({"default": "{{ tools | length }}{{ thinking }}"}, {})
    body = {"messages": [{"role": "user", "content": ""}], "tools": [{}], "chat_template_kwargs": {"thinking": "no"}}
    assert encode_conversation(body, model, encoder) == encoder.encode_text("1no")


@given(st.text(alphabet="ab \n", max_size=12), st.text(alphabet="ab", max_size=6))
def test_the_figures_agree_with_the_number_of_tokens(encoder: Encoder, question: str, before: str) -> None:
    text = prompt(question)
    difference = compare(text, template(before), encoder)
    recorded = 1 + len(encoder.encode_text(text))
    assert difference.tokens == recorded + difference.added - difference.missing
    assert min(difference.added, difference.missing) >= 0
    assert difference.total >= abs(difference.tokens - recorded)
