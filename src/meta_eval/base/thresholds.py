"""Levels, margins, tolerances and alarm thresholds: every number and choice that decides something, with its reason.

Shares are from 0 to 1; a point is 0.01. Views and messages take their wording from here.
"""

from __future__ import annotations

from typing import Literal

# What a task counts in the mean drop.
Weighting = Literal["precision", "equal", "docs"]
# What a drop does with cut answers.
CutAnswers = Literal["graded", "wrong", "unscored"]

# The outcome of a task (`meta_eval.judge.decide`).
Outcome = Literal["within margin", "worse", "undecided"]

# Confidence level of intervals and significance level of p values. The field's convention.
LEVEL = 0.95
ALPHA = 0.05

# Probability of detecting a detectable drop. The field's convention.
POWER = 0.8
# A plan is sure of events with this probability.
SURE = 0.95
# Assumed share of flips of an identical copy in a plan without measurements. Every plan prints it.
PLANNED_FLIPS = 0.04

# The part of itself by which a doc or cluster must change for a whole change (`meta_eval.stats.drop`).
WHOLE_CHANGE = 0.5

# Non-inferiority margin of a score. Meta's recipe saw the score of the same model change by about a point between runs,
# and quantisation papers call a point or a percent lossless.
MARGIN = 0.01
# No SHIP if a task may have lost more. Nobody calls a copy that lost five points the same, and the mean
# misses three in four models that lose five points of GPQA's 448 docs.
CAP = 0.05
# With many flips an identical copy would reach the cap. Then the cap is the value that all identical copies except this
# share, over all tasks together, stay below, but at most a tenth above the cap. Subtasks get the cap that identical
# copies need.
CAP_IDENTICAL = 0.01
CAP_LEEWAY = 0.1
# Fewer docs are few: at 6 % of flips, 1 in 29 identical copies with 400 docs would reach five points. All tasks
# together stop at most the share of identical copies below.
CAP_MIN_DOCS = 400
CAP_IDENTICAL_SHARE = 0.03
# A doc that is so small a part of the cap never takes an identical copy to it.
CAP_NEVER_REACHED = 0.0125
# The most that other tasks tell of the flips of a task: as much as so many of its gains.
SAME_FLIPS = 40.0
# The share of tasks that flip unlike the others, where these flip alike. The less alike they are, the larger it is: all
# would be, if they told nothing. From so many gains that they tell on, they flip alike.
UNLIKE_TASKS = 0.1
ALIKE_TASKS = 20.0
# The share of identical copies that a measured noise may stop.
NOISE_IDENTICAL_SHARE = 0.035
# A loss that ships in this share of runs is said, if a second run would halve it.
OFTEN_SHIPPED = 0.15
# How much the test of the mean counts beside the test of a task: every task that is lost moves the mean too.
MEAN_TEST_WEIGHT = 0.25

# A task that is no share (a perplexity, BLEU, a judge's score) is not in the mean. Without a margin of its own it
# forbids SHIP from this part of the baseline's score on, which nobody calls the same. It is a judgement.
OWN_UNIT_LIMIT = 0.1

# Drift in time: probability of a false alarm over all tests of a run. It forbids SHIP, so it must be rare.
DRIFT_ALPHA = 0.01

# Largest number of runs in a plan. A plan that needs more is refused.
MAX_PLANNED_RUNS = 16
# Nobody can have so many times as many docs, so no larger number is said.
MAX_TIMES_DOCS = 100
# Largest number of sampled answers per doc in a plan.
MAX_PLANNED_ANSWERS = 64

# Of n docs none of which differs, less than 3 / n differ in the long run, with 95 % confidence.
RULE_OF_THREE = 3.0

# Minimum number of docs with the same answers, word for word, for it to be said of two models. Rounding alone parts
# longer texts of one model in some of a hundred docs; short ones part less often.
SAME_TEXT_DOCS = 100
SAME_SHORT_TEXT_DOCS = 300
SHORT_TEXT_CHARS = 20

# A text of so many characters in a field of docs is a passage, and not a name or a choice (`harness.shared_texts`).
SHARED_TEXT_CHARS = 200
# In larger clusters the docs of a text share more than it, such as a whole exam.
SHARED_TEXT_DOCS = 50
# Divided by the margin in points, the fewest clusters that such texts may leave, 600 at a margin of 1 point. With 300,
# 4 % of identical copies ship.
SHARED_TEXT_CLUSTERS = 600
# Texts that more of the docs share are noted; a text that more than half of the docs share is an instruction.
SHARED_TEXT_NOTED = 0.1
SHARED_TEXT_MOST = 0.5

# Minimum share of docs with a recorded answer or verdict, for it to be a task's baseline.
MIN_RECORDED = 0.9
# Minimum share of a task's docs in a baseline, for its score to be the task's.
MIN_BASELINE_DOCS = 0.99
# Smaller drops are written as 0.0 points.
ZERO_POINTS = 0.0005

# Tolerance of a number that different libraries compute, or that is summed in another order.
SAME_VALUE = 1e-6
# Tolerance of a difference that is computed here twice, so that only rounding differs.
ROUNDING = 1e-9
# Tolerance of two verdicts on a doc. It does not affect yes-or-no verdicts. Implementations of a metric differ in the
# last digits. Even if every doc differed in the same direction, a published score, in percent with one decimal, would
# change only in its last decimal.
SAME_VERDICT = 1e-3

# Alarms: shares of a run's docs above which an alarm is raised, for some kinds less the other side's share. They are
# judgements, not measurements. A twentieth of unreadable or cut answers matters more than most differences between
# models.
ALARM_UNEXTRACTED = 0.05
ALARM_LIMIT_HIT = 0.05
# Empty answers and failed graders should almost never occur.
ALARM_EMPTY = 0.01
# Likelihoods that are no finite numbers are a fault of the engine, whatever the baseline has: this share forbids SHIP.
ALARM_BAD_LIKELIHOOD = 0.01
ALARM_UNGRADED = 0.01
# From this share of unread answers on, almost nothing in a record can be read.
ALMOST_ALL = 0.9
# Answers without an extracted value count as wrong, so the drop includes them. So many indicate a faulty run rather
# than a weak model.
ALARM_UNEXTRACTED_GRAVE = 0.2
# Programs rarely pass only by their own word (about one in a hundred). A twentieth more than the baseline is
# suspicious.
ALARM_SELF_JUDGED = 0.05
# How far another filter's score may exceed the verdict's, whose filter accepts only the format that the prompt asks
# for.
ALARM_OTHER_FORMAT = 0.05
# Free answers cannot be guessed, so no chance level marks a score as too low. Less than one in a hundred is too low:
# the lowest published score is 8.2.
ALARM_FLOOR = 0.01
# So is a quarter of the baseline's or the published score. No usual format, engine or quantisation costs three answers
# in four.
ALARM_FLOOR_OF_BASELINE = 0.25
# So is no right answer in so many: of a score of 8.2 this has a probability below 1 % (0.918 ** 54).
ALARM_NONE_RIGHT = 54
# Default `min_agreement`, by the origin of the recorded verdict. A program that extracts a letter agrees almost always.
# No program agrees everywhere with a judge model: on MATH, Meta's own recipe stays within about a point of the
# published score.
MIN_AGREEMENT = {"program": 0.99, "judge": 0.95}
# With fewer docs an interval over docs is not reliable, and nothing is decided.
SAMENESS_MIN_DOCS = 10

# Largest gap, in nats, between the two tokens at which two greedy texts part, that rounding explains. Steps of bfloat16
# are 0.125 for logits from 16 to 32, and each of the two logits may be off by two. On SmolLM2-135M the largest gap was
# 0.25 between kernels and batches, and 0.36 between bfloat16 and float32.
NEAR_TIE_NATS = 0.5

# Nats that a log-probability may exceed 0, or the likeliest token's, by rounding. Engines compute both in float32, and
# normalised bfloat16 logits differ by less.
LOGPROB_ROUNDING = 1e-2

# Another number of BOS, in run's canary and elsewhere: number of docs, nats per token that answers must be likelier,
# and the sign test's level. 15 of 16 have probability 3 in 10,000.
BOS_DOCS = 16
BOS_NATS = 0.05
BOS_CHANCE = 0.001
# Minimum share of likeliest tokens in a copy that mostly works. Reasoned, not measured: any language model that reads
# its context finds half of the tokens of plain text, a copy of the author nine in ten. tools/canary_shares.py has the
# values of the faults of a tiny Llama.
SOUND = 0.6

# Known answers of doctor, in nats. The first is the tolerance of a float32 likelihood: engines differ by about 1e-5 in
# sums of a few tokens. Above the second it is not rounding, but another token or prompt. bfloat16 is off by some
# hundredths on that model.
KNOWN_LIKELIHOOD_CLOSE = 1e-3
KNOWN_LIKELIHOOD_ROUNDED = 0.25

# Maximum number of tasks or answers of a kind that a message names.
NAMED = 3


def percent(share: float) -> str:
    """Format a share for views and messages: ``95 %``."""
    return f"{100 * share:g} %"


# The level of the intervals in views: ``95 %``.
LEVEL_TEXT = percent(LEVEL)

# Default number of tokens of an answer, as in lm-eval's engines.
MAX_GEN_TOKS = 256
