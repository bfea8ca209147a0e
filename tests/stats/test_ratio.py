"""A mean over tokens beside the cluster-robust average that it is the shorter form of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from meta_eval.stats.clustered_mean import average_docs
from meta_eval.stats.ratio import mean_of_tokens


@pytest.mark.parametrize("docs", [2, 3, 7, 50])
def test_it_is_the_average_of_tokens_clustered_by_doc(docs: int) -> None:
    rng = np.random.default_rng(docs)
    tokens = rng.integers(1, 60, docs)
    values = [rng.normal(size=n) + rng.normal() for n in tokens]
    mean = mean_of_tokens(np.array([value.sum() for value in values]), tokens)
    same = average_docs(np.concatenate(values), clusters=np.repeat(np.arange(docs), tokens).tolist())
    assert (mean.value, mean.variance, mean.freedom) == pytest.approx((same.value, same.variance, same.freedom))


def test_p_and_interval_are_of_one_statistic() -> None:
    mean = mean_of_tokens(np.array([1.0, 3.0, 2.0, 4.0]), np.array([2, 2, 3, 1]))
    interval = mean.interval(0.9)
    assert interval is not None
    assert mean.p_value(interval.lower) == pytest.approx(0.1)
    positive = mean.positive_interval(0.9)
    assert positive is not None
    assert mean.positive_p_value(positive.lower) == pytest.approx(0.05)
    assert math.sqrt(positive.lower * positive.upper) == pytest.approx(mean.value)


def test_one_doc_tells_nothing_of_itself() -> None:
    mean = mean_of_tokens(np.array([3.0, 0.0]), np.array([2, 0]))
    assert (mean.value, mean.docs, mean.interval(0.95), mean.p_value()) == (1.5, 1, None, 1.0)
    with pytest.raises(ValueError, match="no token"):
        mean_of_tokens(np.array([0.0]), np.array([0]))
