"""The model's chat template is rendered without transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from meta_eval.pack.chat_rendering import ChatTemplate, find_chat_template

QUESTION = [{"role": "user", "content": "How many? "}]
TRIMMING = "{% for m in messages %}{{ m['content'] | trim }}{% endfor %}{% if add_generation_prompt %}|{% endif %}"


def template(source: str, **tokens: str) -> ChatTemplate:
    return ChatTemplate({"default": source}, tokens)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for m in messages %}\n  {{ m.role }}\n{% endfor %}", "  user\n"),
        ("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}.", "How many? ."),
        ("{% for m in messages %}{% break %}{% endfor %}.", "."),
        ("{{ bos_token }}{{ messages[0] | tojson }}", '<s>{"role": "user", "content": "How many? "}'),
        ("{{ {'é': '<'} | tojson(indent=1) }}", '{\n "é": "<"\n}'),
        ("{% if strftime_now('%Y') | int > 2000 %}{{ tools is none }}{% endif %}", "True"),
        ("{{ enable_thinking }}", "False"),
    ],
)
def test_what_templates_of_the_hub_use_is_there(source: str, text: str) -> None:
    assert template(source, bos_token="<s>").render(QUESTION, enable_thinking=False) == text


def test_the_turn_of_the_answer_is_opened_or_the_last_message_goes_on() -> None:
    begun = [*QUESTION, {"role": "assistant", "content": "Two and "}]
    spaced = TRIMMING.replace(" | trim", "")
    go_on: dict[str, Any] = {"add_generation_prompt": False, "continue_final_message": True}
    assert template(TRIMMING).render(QUESTION) == "How many?|"
    assert template(TRIMMING).render(begun, **go_on) == "How many?Two and"
    assert template(spaced).render(begun, **go_on) == "How many? Two and "
    assert begun[-1]["content"] == "Two and "


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{{ raise_exception('no system turns') }}", "refuses these messages: no system turns"),
        ("{{ messages[3].role }}", "refuses these messages: "),
        ("{{ 1 / 0 }}", "refuses these messages: division by zero"),
        ("{{ messages.__class__.__mro__ }}", "refuses these messages: access to attribute"),
        ("{{ messages.append(1) }}", "refuses these messages: "),
        ("{% for %}", "is faulty"),
    ],
)
def test_a_template_that_refuses_or_is_faulty_says_why(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        template(source).render(QUESTION)


def test_a_template_is_found_in_the_folder_of_the_model(tmp_path: Path) -> None:
    def find(config: object, file: str | None = None) -> ChatTemplate | None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        if file is not None:
            (tmp_path / "chat_template.jinja").write_text(file, encoding="utf-8")
        return find_chat_template(str(tmp_path))

    assert find([]) is None
    assert find({"chat_template": 3}) is None
    assert find_chat_template(str(tmp_path / "none")) is None
    tokens = {"bos_token": {"content": "<s>"}, "eos_token": None, "add_bos_token": True}
    assert find({"chat_template": "one", **tokens}) == template("one", bos_token="<s>")
    several = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools | length }}"}]
    chosen = find({"chat_template": several})
    assert chosen is not None
    assert (chosen.render(QUESTION), chosen.render(QUESTION, tools=[{}])) == ("plain", "1")
    newer = find({"chat_template": "one"}, "of the file")
    assert newer is not None
    assert (newer.render(QUESTION), newer.bos) == ("of the file", None)
