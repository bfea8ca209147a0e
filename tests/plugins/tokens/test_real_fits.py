"""audit: the cause that fits answers of a real model best is theirs. `tools/audit_answers.py fits` made the file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from places import REPOSITORY

from meta_eval.plugins.tokens.audit_fits import is_better, rank_fits

FITS = json.loads((REPOSITORY / "tests" / "data" / "real_model" / "audit_fits.json").read_text("utf-8"))


def rank(rows: list[list[float]], *, is_greedy: bool) -> list[tuple[str, float]]:
    """The causes that fit best, and their values: the likeliest, and those that do not fit worse."""
    tokens = np.array([row[0] for row in rows])
    first, *others = rank_fits([np.array(row[2:]) for row in rows], tokens, is_greedy=is_greedy)
    best = [first, *(other for other in others if not is_better(first, other, tokens))]
    return [(fit.cause, fit.value) for fit in best]


@pytest.mark.parametrize(
    ("provider", "best"),
    [
        ("greedy_t07", [("sampling", 0.7)]),
        ("t1_k20", [("top_k", 20)]),
        ("t1_minp", [("min_p", 0.1)]),
        ("t1_F32", [("temperature", 1.0), ("top_p", 0.98)]),
    ],
)
def test_the_cause_that_fits_best_is_the_true_one(provider: str, best: list[tuple[str, float]]) -> None:
    assert rank(FITS[provider], is_greedy=provider.startswith("greedy")) == best


@pytest.mark.parametrize("provider", ["greedy_Q4_0", "greedy_rope"])
def test_weights_in_four_bits_and_another_rope_base_fit_no_worse_as_weights_than_as_sampling(provider: str) -> None:
    assert {cause for cause, _ in rank(FITS[provider], is_greedy=True)} == {"sampling", "weights"}


def test_coarser_weights_are_not_called_sampling_however_many_answers_there_are() -> None:
    """Their noise is not quite Gaussian, and fits a little better as sampling."""
    assert {cause for cause, _ in rank(FITS["greedy_Q4_0"] * 5, is_greedy=True)} == {"sampling", "weights"}


def test_a_temperature_is_told_from_other_weights() -> None:
    assert rank(FITS["greedy_t07"] * 5, is_greedy=True) == [("sampling", 0.7)]


@pytest.mark.parametrize("provider", ["greedy_Q4_0", "greedy_t07"])
def test_a_fifth_of_the_answers_from_elsewhere_is_a_mixture(provider: str) -> None:
    assert rank([*FITS["greedy_F32"][8:], *FITS[provider][:8]], is_greedy=True) == [("mixture", 0.2)]
