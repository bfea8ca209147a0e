"""What lm-eval hashes of a doc is the same text to the letter, written faster."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval import evaluator

from meta_eval.harness.evaluator_patches import dump_json, replace_hashing

SETTINGS = {"indent": 2, "ensure_ascii": False, "default": str}

texts = st.text() | st.text(min_size=1).map(lambda text: text * 100)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=3)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner) | st.dictionaries(st.integers(), inner),
    max_leaves=12,
)  # fmt: skip


@given(trees, st.sampled_from([2, None]))
def test_it_is_what_json_writes(tree: Any, indent: int | None) -> None:
    settings = {**SETTINGS, "indent": indent}
    assert dump_json(tree, **settings) == json.dumps(tree, **settings)


def test_every_character_of_a_long_text_is_escaped_as_json_escapes_it() -> None:
    for text in ("".join(map(chr, range(0xD800))), "".join(map(chr, range(0xE000, 0x11000))), "\ud800" * 200):
        assert dump_json({text: [text]}, **SETTINGS) == json.dumps({text: [text]}, **SETTINGS)


@pytest.mark.parametrize(
    "settings", [{}, {"indent": 4}, {"indent": 2}, {"indent": 2, "ensure_ascii": False, "sort_keys": True}]
)
def test_with_other_settings_too(settings: dict[str, Any]) -> None:
    doc = {"question": "Wofür?", "answers": ["a", "b"], "choices": None, "gold": []}
    assert dump_json(doc, **settings) == json.dumps(doc, **settings)


def test_lm_eval_has_its_own_again_afterwards() -> None:
    with replace_hashing(False):
        assert evaluator.hash_string("a") == evaluator.json.dumps({}) == ""
    assert evaluator.hash_string("a") == hashlib.sha256(b"a").hexdigest()
    assert evaluator.json.dumps({}) == "{}"
