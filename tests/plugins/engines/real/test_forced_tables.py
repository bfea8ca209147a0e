"""The tools that tests/data/fidelity comes from still make it: a model is taught a little, and copies of it are set up.

The model is hardly taught, in seconds: what holds of any model is held, and the committed tables show the rest.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from on_engines import ready
from places import REPOSITORY

from meta_eval.judge.token_table import read_tokens
from meta_eval.plugins.tokens.causes import PROMPT, WEIGHTS
from meta_eval.plugins.tokens.comparison import compare_tables
from meta_eval.plugins.tokens.diagnosis import diagnose
from meta_eval.plugins.tokens.diagnosis_case import ProbePair
from meta_eval.plugins.tokens.probe_table import read_probes
from meta_eval.plugins.tokens.table_pairing import Pair, PairingError, pair_tables

pytestmark = pytest.mark.engine

COPIES = ("again", "kv4", "no_template", "shards", "other_tokenizer")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tools = tmp_path_factory.mktemp("forced"), REPOSITORY / "tools"
    for tool, *arguments in (
        ("taught_llama.py", "model", "--steps", "40"),
        ("forced_tokens.py", "model", "tables", "--docs", "36", "--only", *COPIES),
    ):
        ready(tools / tool, *arguments, folder=folder)
    return folder / "tables"


def beside(tables: Path, copy: str) -> Pair:
    return pair_tables(*(read_tokens(tables / f"{name}.parquet") for name in ("reference", copy)))


def test_a_model_is_the_same_as_itself_on_another_kernel(tables: Path) -> None:
    comparison = compare_tables(beside(tables, "again"), 0.02)
    assert comparison.outcome == "same"
    assert 0 < comparison.all.distance.value < 0.01


def test_a_coarser_cache_is_farther_than_the_engines_own_noise(tables: Path) -> None:
    near, far = (compare_tables(beside(tables, name), 0.02).all.distance.value for name in ("again", "kv4"))
    assert far > 2 * near


def test_a_mis_sharded_layer_is_different(tables: Path) -> None:
    assert compare_tables(beside(tables, "shards"), 0.02).outcome == "different"


def test_probes_name_it_and_nothing_else(tables: Path) -> None:
    both = beside(tables, "shards")
    probing = ProbePair(both, *(read_probes(tables / f"{name}.parquet") for name in ("reference", "shards")))
    diagnosis = diagnose(compare_tables(both, 0.02), both, probing=probing)
    assert diagnosis is not None and diagnosis.groups == (WEIGHTS.name,)


def test_headers_that_are_left_out_touch_chat_alone(tables: Path) -> None:
    both = beside(tables, "no_template")
    diagnosis = diagnose(compare_tables(both, 0.02), both)
    assert diagnosis is not None and diagnosis.groups[0] == PROMPT.name


def test_the_divergence_is_positive_and_says_what_it_leaves_out(tables: Path) -> None:
    divergence = compare_tables(beside(tables, "shards"), 0.02).divergence
    assert divergence is not None and divergence.k == 8
    assert divergence.value > 0 and 0 < divergence.left_out < 1


def test_another_tokenizer_is_refused(tables: Path) -> None:
    with pytest.raises(PairingError):
        beside(tables, "other_tokenizer")
