"""Each mistake of a set-up leaves a trace, and is named, alone or with what tokens cannot tell it from.

The tables were made by ``tools/forced_tokens.py --docs 48`` (without the likeliest tokens): a taught tiny Llama beside
itself, set up wrongly in one way each.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from places import REPOSITORY

from meta_eval.fidelity.against import against
from meta_eval.fidelity.columns import Vocabulary, columns
from meta_eval.fidelity.diagnosis import (
    BOS,
    CHAT,
    DAMAGE,
    POSITIONS,
    ROPE,
    ROUNDING,
    TEMPLATE,
    TOKENIZER,
    TRUNCATION,
    TWO_BOS,
    alone,
    diagnose,
)
from meta_eval.fidelity.pairing import AgainstError, pair
from meta_eval.fidelity.tokens import Forced, Tokens, read_tokens, write_tokens

TABLES = REPOSITORY / "tests" / "data" / "fidelity"
SPECIAL = Vocabulary(frozenset(), frozenset(range(5)))


def table(name: str) -> Tokens:
    return read_tokens(TABLES / f"{name}.parquet")


def causes(before: Tokens, after: Tokens, vocabulary: Vocabulary | None = SPECIAL) -> tuple[str, ...]:
    both = pair(before, after)
    found = diagnose(against(both), both, vocabulary)
    return found.causes if found else ()


@pytest.mark.parametrize(
    ("copy", "named"),
    [
        ("again", ()),
        ("no_bos", (TEMPLATE, BOS)),
        ("no_template", (TEMPLATE,)),
        ("template_twice", (TEMPLATE, BOS)),
        ("truncated", (TRUNCATION,)),
        ("rope_off", (ROPE, TRUNCATION)),
        ("chat_model", (CHAT, DAMAGE)),
        ("shards", (DAMAGE, POSITIONS)),
        ("kv4", (ROUNDING, DAMAGE, TWO_BOS, TEMPLATE, BOS)),
        ("int4", (ROUNDING, DAMAGE, TWO_BOS)),
        ("two_bos", (ROUNDING, DAMAGE, TWO_BOS, TEMPLATE, BOS)),
    ],
)
def test_each_mistake_is_named(copy: str, named: tuple[str, ...]) -> None:
    assert causes(table("reference"), table(copy)) == named


def test_another_tokenizer_is_refused_and_named_without_a_baseline() -> None:
    with pytest.raises(AgainstError, match="of another tokenizer"):
        pair(table("reference"), table("other_tokenizer"))
    found = alone(columns(table("other_tokenizer")))
    assert found is not None and TOKENIZER in found.causes


@pytest.mark.parametrize(("copy", "named"), [("reference", None), ("int4", None), ("no_bos", (TEMPLATE, BOS))])
def test_without_a_baseline_only_what_is_gross_is_named(copy: str, named: tuple[str, ...] | None) -> None:
    found = alone(columns(table(copy)))
    assert (found.causes if found else None) == named


def written(path: Path, answers: list[Forced]) -> Tokens:
    write_tokens(path, table("reference").header, answers)
    return read_tokens(path)


def noisy(one: Forced, rng: np.random.Generator) -> Forced:
    """As an engine gives it that is not deterministic."""
    moved = np.minimum(one.logprobs + rng.normal(0, 1e-3, len(one.logprobs)).astype(np.float32), -1e-6)
    return replace(one, logprobs=moved, top_logprobs=np.maximum(one.top_logprobs, moved))


def test_without_bits_to_compare_a_cut_prompt_is_named_with_what_it_looks_like(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cut = written(tmp_path / "cut.parquet", [noisy(one, rng) for one in table("truncated")])
    assert causes(table("reference"), cut) == (ROPE, TRUNCATION)


def test_the_tasks_that_an_opening_is_off_in_are_said() -> None:
    both = pair(table("reference"), table("template_twice"))
    found = diagnose(against(both), both, SPECIAL)
    assert found is not None
    assert found.evidence.endswith("; so in meta_base, and hardly in meta_chat, meta_long")


def test_without_a_tokenizer_a_chat_model_is_among_those_that_are_named() -> None:
    assert causes(table("reference"), table("chat_model"), None) == (DAMAGE, POSITIONS, CHAT)
