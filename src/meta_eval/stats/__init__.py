"""The statistics of a report. Pure: numbers in, numbers out; shares from 0 to 1, never percent.

Two things are uncertain: which docs a benchmark happens to have, and what another run would answer. Every interval
treats docs, or clusters of docs, as a sample of possible docs. For averages over subtasks the sample is drawn within
each subtask. Flips from the engine are a part of the variation between docs, so they are included.

`intervals` has intervals, quantiles and Holm's correction. `score` is a single score. `clustered_mean` is an average
and its variance, also for clustered docs. `drop` compares two scores over the same docs, with the same statistic for
sign, interval, p value and power, and weighs tasks in the mean drop. `identical` describes identical copies.
`ratio` is a mean over tokens with an interval over docs. `sequential` has the drop during a run, with bounds
that hold at every look. `drift` tests whether late answers are worse. `breakdown` splits a drop into
grader, model and prompts. `sampled` handles several answers per doc.
"""

from meta_eval.stats.breakdown import DropBreakdown, average_breakdowns, break_down_drop
from meta_eval.stats.drift import is_drift, order_p_value, repeat_p_value
from meta_eval.stats.drop import (
    Drop,
    DropPart,
    average_runs,
    heterogeneity_p,
    mean_drop,
    paired_drop,
    precision_weights,
    score_drop,
    unpaired_drop,
    weigh_tasks,
)
from meta_eval.stats.intervals import Interval, correct_by_holm, tail_p_value
from meta_eval.stats.run_effect import RunEffect, RunSpread, measure_run_effect, measure_runs, run_noise
from meta_eval.stats.sampled import count_needed_answers, pass_at_k, sampled_flips, sampled_interval
from meta_eval.stats.score import (
    instruction_shares,
    macro_mean,
    mean,
    mean_of_four_contributions,
    mean_of_four_shares,
    pooled_contributions,
    ratio_losses,
    score_interval,
    stratified_wilson,
    wilson_interval,
)

__all__ = [
    "Drop",
    "DropBreakdown",
    "DropPart",
    "Interval",
    "RunEffect",
    "RunSpread",
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
    "measure_run_effect",
    "measure_runs",
    "order_p_value",
    "paired_drop",
    "pass_at_k",
    "pooled_contributions",
    "precision_weights",
    "ratio_losses",
    "repeat_p_value",
    "run_noise",
    "sampled_flips",
    "sampled_interval",
    "score_drop",
    "score_interval",
    "stratified_wilson",
    "tail_p_value",
    "unpaired_drop",
    "weigh_tasks",
    "wilson_interval",
]  # fmt: skip
