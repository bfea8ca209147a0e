"""The statistics of a report. Pure: numbers in, numbers out; shares from 0 to 1, never percent.

What is uncertain is which docs a benchmark happens to consist of, and what another run would have answered to them:
every interval treats the docs (or the clusters of docs that share a question or a passage) as drawn from those that
could have been asked, within their subtask where the average is taken over subtasks. A flip that the engine brings is
one way in which a doc can differ, so that it is in there as well.

`intervals`: intervals, quantiles and Holm's correction. `score`: a single score. `clustered_mean`: an average and its
variance, also of clustered docs. `drop`: two scores over the same docs, as one statistic for sign, interval, p value
and power. `weights`: what each task counts in the mean drop. `identical`: what chance makes of an identical copy.
`ratio`: a mean over tokens with an interval that counts docs. `sequential`: the drop while a run still goes on, with
bounds (`betting`) that hold at every look. `drift`: late answers that are worse than early ones. `breakdown`: the
parts of a drop that are the grader's, the model's and the prompts'. `sampled`: several answers a doc.
"""

from meta_eval.stats.breakdown import DropBreakdown, DropPart, average_breakdowns, break_down_drop
from meta_eval.stats.drift import is_drift, order_p_value, repeat_p_value
from meta_eval.stats.drop import (
    Drop,
    average_runs,
    heterogeneity_p,
    mean_drop,
    paired_drop,
    unpaired_drop,
)
from meta_eval.stats.intervals import Interval, correct_by_holm
from meta_eval.stats.run_effect import RunSpread, measure_runs, run_noise
from meta_eval.stats.sampled import count_needed_answers, pass_at_k, sampled_flips, sampled_interval
from meta_eval.stats.score import (
    instruction_shares,
    macro_mean,
    mean,
    mean_of_four_contributions,
    mean_of_four_shares,
    pooled_contributions,
    score_interval,
    stratified_wilson,
    wilson_interval,
)
from meta_eval.stats.weights import Weighting, precision_weights, weigh_tasks

__all__ = [
    "Drop",
    "DropBreakdown",
    "DropPart",
    "Interval",
    "RunSpread",
    "Weighting",
    "average_breakdowns",
    "average_runs",
    "break_down_drop",
    "correct_by_holm",
    "count_needed_answers",
    "heterogeneity_p",
    "instruction_shares",
    "is_drift",
    "macro_mean",
    "mean",
    "mean_drop",
    "mean_of_four_contributions",
    "mean_of_four_shares",
    "measure_runs",
    "order_p_value",
    "paired_drop",
    "pass_at_k",
    "pooled_contributions",
    "precision_weights",
    "repeat_p_value",
    "run_noise",
    "sampled_flips",
    "sampled_interval",
    "score_interval",
    "stratified_wilson",
    "unpaired_drop",
    "weigh_tasks",
    "wilson_interval",
]  # fmt: skip
