"""Bootstraps lm-eval's standard errors of bleu, chrf, ter, perplexity, mcc, f1 and median in this process.

lm-eval uses a pool of forked processes, which may hang in a process with threads or signal handlers. The draws here are
the same, so the numbers are too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from meta_eval.base.logs import report_progress

# As in lm-eval: a new generator for each thousand draws.
_CHUNK = 1000


@contextmanager
def replace_bootstrap(name: str) -> Iterator[None]:
    """Replace lm-eval's bootstrap within the block.

    Args:
        name: The task.
    """
    from lm_eval.api import metrics

    def estimate(metric: Callable[[Sequence[Any]], float], values: Sequence[Any], iters: int) -> float:
        drawn: list[float] = []
        for resamples in draw_resamples(values, iters):
            report_progress(f"{name}: standard error of {metric.__name__}", len(drawn), iters)
            drawn.append(metric(resamples))
        return float(metrics.sample_stddev(drawn))

    original = metrics.bootstrap_stderr
    metrics.bootstrap_stderr = estimate
    try:
        yield
    finally:
        metrics.bootstrap_stderr = original


def draw_resamples(values: Sequence[Any], iters: int) -> Iterator[list[Any]]:
    """Resample values with replacement, ``iters`` times, with the draws of lm-eval's ``bootstrap_stderr``."""
    size = min(_CHUNK, iters)
    for number in range(iters // size):
        generator = random.Random(number)  # noqa: S311 (a statistic)
        for _ in range(size):
            yield generator.choices(values, k=len(values))
