"""transformers through lm-eval's own class: the same verdicts and scores as vLLM, doc for doc."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from on_engines import answers, likelihoods, project, ready, scores, verdicts_of

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def hf(tmp_path_factory: pytest.TempPathFactory, taught_model: tuple[Path, Mapping[str, str]]) -> Path:
    folder = project(tmp_path_factory.mktemp("hf") / "here", taught_model[0], backend="hf")
    ready("-m", "meta_eval", "run", "--json", folder=folder)
    return folder


def test_transformers_says_the_same_of_the_same_prompts(hf: Path, in_process: Path) -> None:
    assert answers(hf, "text", "prompt_tokens") == answers(in_process, "text", "prompt_tokens")


def test_its_likelihoods_are_those_of_vllm(hf: Path, in_process: Path) -> None:
    """They would differ if a BOS were missing or doubled."""
    own, wanted = likelihoods(hf), likelihoods(in_process)
    assert own.keys() == wanted.keys() != set()
    for name, ours in own.items():
        assert ours == pytest.approx(wanted[name], abs=1e-3)


def test_it_gets_the_same_verdicts_and_scores(hf: Path, in_process: Path) -> None:
    assert verdicts_of(hf) == verdicts_of(in_process)
    assert scores(hf) == scores(in_process)
