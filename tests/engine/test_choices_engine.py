"""Multiple choice on the real engine: however it is asked, a model that prefers different letters prefers the same."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import REPOSITORY

pytestmark = pytest.mark.engine

QUESTIONS = 24  # three of each subject


def bench(engine: Path, *arguments: str) -> str:
    command = [sys.executable, str(REPOSITORY / "benchmarks/choices.py"), str(engine), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_token_each_is_chosen_as_by_stock_likelihoods(engine: Path) -> None:
    said = bench(engine, "letters", "stock", "token", "run", "--questions", str(QUESTIONS))
    assert f"token: the same choice on {QUESTIONS} of {QUESTIONS}" in said
    assert f"run: the same choice on {QUESTIONS} of {QUESTIONS}" in said
    found = re.search(r"chosen (\{.*?\})", said)
    chosen = ast.literal_eval(found[1]) if found else {}
    assert min(chosen[letter] for letter in range(4)) >= 0.1 * QUESTIONS


def test_several_tokens_each_have_the_likelihoods_of_stock(engine: Path) -> None:
    said = bench(engine, "endings", "stock", "run", "--questions", "8")
    assert "run: the same choice on 8 of 8" in said
