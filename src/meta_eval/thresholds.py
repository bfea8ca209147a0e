"""Levels, margins, tolerances and alarm thresholds: every number that decides something, each with its reason.

Shares are from 0 to 1, so that 0.01 of a score is one point. Views and messages take their wording from here.
"""

from __future__ import annotations

# The confidence level of every interval and the significance level of every p value: the convention of the field.
LEVEL = 0.95
ALPHA = 0.05

# What a detectable drop is detected with, four times out of five: the convention of the field.
POWER = 0.8

# Non-inferiority margin of a score, one point. Meta's recipe saw the score of one model differ by about that much from
# run to run, and people who quantise models call a point, or a percent, lossless: less than this is not worth knowing,
# more is.
MARGIN = 0.01

# Runs of a task beyond which nobody will go, so that a plan that needs more is none.
MAX_PLANNED_RUNS = 16

# The share of docs that must have a recorded answer or verdict for it to be what a task is compared with.
MIN_RECORDED = 0.9
# The share of a task's docs that a baseline must have, for its score to be that of the task.
MIN_BASELINE_DOCS = 0.99
# Drops that are written as 0.0 points.
ZERO_POINTS = 0.0005

# Two computations of one number: libraries, and the order of a sum, differ in the last digits of a float.
SAME_VALUE = 1e-6
# The same of a difference that is computed here both times: only the rounding of a float is left.
ROUNDING = 1e-9
# Two verdicts on one doc, which makes no difference to a yes or no. Scores are published in percent with one decimal,
# and implementations of one metric differ in the last digits of a float: even if every doc were off in the same
# direction, it would not move a published number by more than its last decimal.
SAME_VERDICT = 1e-3
# A metric that lighteval recorded and the same computed again: sums of exponentials in another order, of numbers that
# were kept with 32 bits.
SAME_RECORDED_METRIC = 1e-4
# Two published roundings of one number, in percentage points.
SAME_PUBLISHED = 0.05

# Alarms: shares of docs above which something is said. They are a judgement, not a measurement.
# A twentieth of unreadable or cut answers is worth more than most differences between models.
ALARM_UNEXTRACTED = 0.05
ALARM_LIMIT_HIT = 0.05
# An empty answer or a failed grader should hardly ever be.
ALARM_EMPTY = 0.01
ALARM_UNGRADED = 0.01
# Answers that nothing was extracted from count as wrong, so that a drop has them in it already; as many as this are no
# weakness of a model any more, but of how it was run.
ALARM_UNEXTRACTED_GRAVE = 0.2
# Programs that passed by their own word are rarely more than one in a hundred: one in twenty more than the baseline's
# is no accident.
ALARM_SELF_JUDGED = 0.05
# Of one score over another, where only the second takes answers in another format than the prompt asks for.
ALARM_OTHER_FORMAT = 0.05
# Free answers cannot be guessed, so that nothing says which score is too low for a model that works. Less than one in a
# hundred is: the lowest number that Meta published is 8.2.
ALARM_FLOOR = 0.01
# So is a quarter of the baseline's or of the published score: no format, engine or quantisation that anybody ships
# costs three answers out of four.
ALARM_FLOOR_OF_BASELINE = 0.25

# Grader validation: below this share of equal verdicts on real answers a comparison proves nothing. What a task must
# reach in verify is its template's own `min_agreement`.
MIN_VALIDATED_AGREEMENT = 0.98
# As many rows or answers prove something; fewer are examples.
MIN_VALIDATED_ROWS = 100
# The share of docs on which our verdict must be the recorded one where a template sets no `min_agreement`, by who gave
# the recorded verdict. A program that extracts a letter agrees but for stray cases. Where a model judged, no program
# agrees everywhere: on MATH, Meta's own recipe stays within about one point of the published score.
MIN_AGREEMENT = {"program": 0.99, "judge": 0.95}

# Fidelity, the comparison of tokens. The margin is in nats a token: several times what one model in bfloat16 gives
# beside itself with other kernels and other batches, and less than four-bit weights (benchmarks/README.md has both).
FIDELITY_MARGIN = 0.02
# A side of an interval at this level is 0.5 %, so that "different" and "the same" are wrong as rarely.
FIDELITY_LEVEL = 0.99
FIDELITY_ALPHA = 0.01
# Fewer docs than these decide nothing: an interval over docs is then not what it says.
FIDELITY_MIN_DOCS = 10

# How many tasks or answers of a kind a message names.
NAMED = 3


def percent(share: float) -> str:
    """A share as views and messages write it: ``95 %``."""
    return f"{100 * share:g} %"


# The levels of the intervals as views show them: ``95 %`` and ``99 %``.
LEVEL_TEXT = percent(LEVEL)
FIDELITY_LEVEL_TEXT = percent(FIDELITY_LEVEL)
