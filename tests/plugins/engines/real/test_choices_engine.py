"""Multiple choice on the real engine: however it is asked, a model that prefers different letters prefers the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
from on_engines import ready
from places import REPOSITORY
from template_modules import load_module

pytestmark = pytest.mark.engine

QUESTIONS = 24  # three of each subject


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark that compares the ways of asking; how long each takes is not asked here."""
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    module = load_module(REPOSITORY / "benchmarks/choices.py")

    def timed(self: object, command: Sequence[str], results: str | None = None) -> tuple[float, float, str]:
        words = ["-m", *command] if command[0] == "lm_eval" else command[1:]
        return 0.0, 0.0, ready(*words, folder=self.folder)  # type: ignore[attr-defined]

    monkeypatch.setattr(module.Bench, "timed", timed)
    return module


def test_one_token_each_is_chosen_as_by_stock_likelihoods(
    choices: ModuleType, engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = choices.Bench(engine, tmp_path, "letters", "float32", QUESTIONS)
    for way in ("stock", "token", "run"):
        bench.ask(way)
    assert bench.compare()
    output = capsys.readouterr().out
    assert f"token: the same choice on {QUESTIONS} of {QUESTIONS}" in output
    assert f"run: the same choice on {QUESTIONS} of {QUESTIONS}" in output
    match = re.search(r"chosen (\{.*?\})", output)
    chosen = ast.literal_eval(match[1]) if match else {}
    assert min(chosen[letter] for letter in range(4)) >= 0.1 * QUESTIONS


def test_several_tokens_each_have_the_likelihoods_of_stock(
    choices: ModuleType, engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = choices.Bench(engine, tmp_path, "endings", "float32", 8)
    for way in ("stock", "run"):
        bench.ask(way)
    assert bench.compare()
    assert "run: the same choice on 8 of 8" in capsys.readouterr().out
