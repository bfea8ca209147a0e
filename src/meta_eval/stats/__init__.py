"""The statistics of a report. Pure: numbers in, numbers out; shares from 0 to 1, never percent.

What is uncertain is which docs a benchmark happens to consist of, and what another run would have answered to them:
every interval treats the docs (or the clusters of docs that share a question or a passage) as drawn from those that
could have been asked, within their subtask where the average is taken over subtasks. A flip that the engine brings is
one way in which a doc can differ, so that it is in there as well.

`basics`: intervals, quantiles, Holm. `score`: one score. `robust`: the variance of an average, also of clustered docs.
`drop`: two scores over the same docs, as one statistic for sign, interval, p value and power. `ratio`: a mean over
tokens, of which docs are what is uncertain. `sequential`: the same drop while a run still goes on, with bounds
(`betting`) that hold however often somebody looks. `apart`: what of a drop is the grader's, the model's, the prompts'.
"""

from meta_eval.stats.decomposition import Apart, Part, mean_apart, tell_apart
from meta_eval.stats.drop import (
    Drop,
    average_runs,
    mean_drop,
    paired_drop,
    precision_weights,
    run_noise,
    unlike_p,
    unpaired_drop,
)
from meta_eval.stats.intervals import Interval, holm
from meta_eval.stats.score import (
    instruction_shares,
    macro,
    mean,
    mean_of_four_contributions,
    mean_of_four_shares,
    pooled_contributions,
    score_interval,
    stratified_wilson,
    wilson,
)

__all__ = [
    "Apart", "Drop", "Interval", "Part", "average_runs", "holm", "instruction_shares",
    "macro", "mean", "mean_apart", "mean_drop", "mean_of_four_contributions", "mean_of_four_shares", "paired_drop",
    "pooled_contributions", "precision_weights", "run_noise", "score_interval", "stratified_wilson", "tell_apart",
    "unlike_p", "unpaired_drop", "wilson",
]  # fmt: skip
