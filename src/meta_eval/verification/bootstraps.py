"""Standard errors that lm-eval estimates by drawing docs anew: bleu, chrf, ter, perplexity, mcc, f1, median.

lm-eval has a pool of forked processes for it. In a process with threads or signal handlers such a pool may never end,
and it shows nothing for minutes. Here they are drawn in this process: the same draws, so the same numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from meta_eval.boundary.code_lock import call_outside, divide_by_thread
from meta_eval.messages.logs import report_progress

# Of lm-eval: each thousand draws has a generator of its own.
_CHUNK = 1000


@contextmanager
def replace_bootstrap(name: str) -> Iterator[None]:
    """Let lm-eval's evaluator bootstrap meanwhile, in a block of `take_turn`: other threads have it as it is.

    Args:
        name: The task.
    """
    from lm_eval.api import metrics

    def estimate(metric: Callable[[Sequence[Any]], float], values: Sequence[Any], iters: int) -> float:
        drawn: list[float] = []
        for again in draw_resamples(values, iters):
            call_outside(report_progress, f"{name}: standard error of {metric.__name__}", len(drawn), iters)
            drawn.append(metric(again))
        return float(metrics.sample_stddev(drawn))

    before = metrics.bootstrap_stderr
    metrics.bootstrap_stderr = divide_by_thread(estimate, before)
    try:
        yield
    finally:
        metrics.bootstrap_stderr = before


def draw_resamples(values: Sequence[Any], iters: int) -> Iterator[list[Any]]:
    """As many values drawn with replacement, ``iters`` times; the draws of lm-eval's ``bootstrap_stderr``."""
    size = min(_CHUNK, iters)
    for number in range(iters // size):
        generator = random.Random(number)  # noqa: S311 (a statistic)
        for _ in range(size):
            yield generator.choices(values, k=len(values))
