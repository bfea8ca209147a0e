"""Levels, margins, tolerances and alarm thresholds: every number and choice that decides something, with its reason.

Shares are from 0 to 1; a point is 0.01. Views and messages take their wording from here.
"""

from __future__ import annotations

from typing import Literal

# What a task counts in the mean drop.
Weighting = Literal["precision", "equal", "docs"]
# What a drop does with cut answers.
CutAnswers = Literal["graded", "wrong", "unscored"]

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
# The largest drop that SHIP may leave open in a task. Nobody calls a copy that lost five points the same, and the mean
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
# The share of tasks that flip unlike the others.
UNLIKE_TASKS = 0.1
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
# Largest number of sampled answers per doc in a plan.
MAX_PLANNED_ANSWERS = 64

# The share of the margin from which another grader makes a comparison invalid: the decision may be the grader's then.
GRADER_SHARE_OF_MARGIN = 0.5
# Of n docs none of which differs, less than 3 / n differ in the long run, with 95 % confidence.
RULE_OF_THREE = 3.0

# Minimum number of docs with the same answers, word for word, for it to be said of two models. Rounding alone parts
# longer texts of one model in some of a hundred docs; short ones part less often.
SAME_TEXT_DOCS = 100
SAME_SHORT_TEXT_DOCS = 300
SHORT_TEXT_CHARS = 20

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
# Tolerance of a metric that lighteval recorded. It sums exponentials in another order, of numbers with 32 bits.
SAME_RECORDED_METRIC = 1e-4
# Tolerance of two published roundings of a number, in percentage points.
SAME_PUBLISHED = 0.05

# Alarms: shares of docs above which an alarm is raised. They are judgements, not measurements. A twentieth of
# unreadable or cut answers matters more than most differences between models.
ALARM_UNEXTRACTED = 0.05
ALARM_LIMIT_HIT = 0.05
# Empty answers and failed graders should almost never occur.
ALARM_EMPTY = 0.01
# Likelihoods that are no finite numbers are a fault of the engine, whatever the baseline has: this share forbids SHIP.
ALARM_BAD_LIKELIHOOD = 0.01
ALARM_UNGRADED = 0.01
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

# Grader validation: below this share of equal verdicts, a comparison shows nothing. The requirement of a task in verify
# is its template's `min_agreement`.
MIN_VALIDATED_AGREEMENT = 0.98
# Minimum number of rows or answers for a validation. Fewer are only examples.
MIN_VALIDATED_ROWS = 100
# Default `min_agreement`, by the origin of the recorded verdict. A program that extracts a letter agrees almost always.
# No program agrees everywhere with a judge model: on MATH, Meta's own recipe stays within about a point of the
# published score.
MIN_AGREEMENT = {"program": 0.99, "judge": 0.95}

# The token check: a copy is the same below the first, and different above the second of these multiples of the noise.
# On a real model the noise of one kernel or dtype is at most 1.24 times that of another, and eight-bit weights are from
# 1.37 times as far on (docs/method/fidelity.md).
FIDELITY_SAME_TIMES = 1.25
FIDELITY_DIFFERENT_TIMES = 2.0
# Nats per token beyond any noise seen: the same weights under other kernels, dtypes and engines gave at most 0.061, for
# human text (docs/method/fidelity.md). Without a measured noise only a larger distance is called different.
FIDELITY_NOISE_SEEN = 0.1
# The least noise in nats per token: servers write log-probabilities with four decimals. A smaller distance is none.
FIDELITY_NOISE_FLOOR = 1e-4
# The weight of a doc is its tokens, but at most so many times the median, so that no long answer decides.
FIDELITY_LONGEST = 2.0
# Each side of an interval has 0.5 %, so "different" and "the same" are wrong equally rarely.
FIDELITY_LEVEL = 0.99
FIDELITY_ALPHA = 0.01
# With fewer docs an interval over docs is not reliable, and nothing is decided.
FIDELITY_MIN_DOCS = 10
# With fewer tokens nothing is the same: tokens that are off by 1 nat and make up `FIDELITY_NOISE_SEEN` of the distance
# are all missed by so few with a chance of 1 %.
FIDELITY_MIN_TOKENS = 44

# Largest gap, in nats, between the two tokens at which two greedy texts part, that rounding explains. Steps of bfloat16
# are 0.125 for logits from 16 to 32, and each of the two logits may be off by two. On SmolLM2-135M the largest gap was
# 0.25 between kernels and batches, and 0.36 between bfloat16 and float32.
NEAR_TIE_NATS = 0.5

# Signatures of causes in tokens (`meta_eval.token_fidelity`). Each value separates the causes on the tiny Llamas of
# tools/forced_tokens.py. benchmarks/README.md shows how often each cause is named. The opening: the first tokens of an
# answer, which a wrong prompt moves most. It stands out if it is so many times as far as the rest, and may stand out
# from the lower number on. Rounding gives up to twice.
OPENING_TOKENS = 16
OPENING_STANDS_OUT = 4.0
OPENING_MAY_STAND_OUT = 1.5
# The first token without a baseline: its nats below the likeliest token, as a multiple of later tokens', and at least
# so many. Recorded answers mostly begin with the likeliest token.
FIRST_TOKEN_STANDS_OUT = 5.0
FIRST_TOKEN_NATS = 0.5
# Positions in tokens from the start of the prompt. An error of RoPE's scaling spares early positions. Probed docs are
# the shortest of their tasks, so late positions begin earlier there.
EARLY_POSITIONS = 512
LATE_POSITIONS = 2048
LATE_PROBED_POSITIONS = 1024
# Distance of late positions as a multiple of early positions', if positions are at fault. Rounding also grows with
# context, up to fifteen times. If the copy is the same without context, rounding is excluded and less is enough.
LATE_TIMES_EARLY = 25.0
LATE_TIMES_EARLY_PROBED = 3.0
# Nats per token at early positions that exceed rounding. Four-bit weights are below.
GROSS_NATS = 0.1
# Share of answers that a copy would end before the baseline, if it is another kind of model. And the share of likeliest
# tokens among all others in such a model: a sound model has more.
ENDS_SOONER = 0.3
SOUND_OTHER_MODEL = 0.4
# Minimum number of docs that show an exact cause: bits that are equal only on one side of a length or in one task, or
# tokens that are all moved by the same factor.
MIN_EXACT_DOCS = 3
# Median rank and mean log-probability of the recorded tokens in a model that cannot have written them. A model that
# writes other words is far below both; a damaged model rarely is.
LOST_RANK = 50
LOST_LOGPROB = -6.0

# Minimum number of informative probed docs, and the share that must be nearer after a probe.
MIN_PROBED_DOCS = 6
MIN_NEARER = 0.75
# The distance that remains after a probe with the right mistake of the prompt, as a part of the distance before. Only
# rounding remains: at most 0.2 was seen. Other mistakes leave more.
MAX_LEFT_BEHIND_MISTAKE = 0.4
# A copy does not read the start if reversing it changes at most this part of the baseline's change. And the minimum
# number of such docs.
MAX_UNREAD_CHANGE = 0.1
MIN_UNREAD_DOCS = 2
# Remaining distance without context, as a part of the whole, for a copy that is the same without context. Weights and
# numbers gave 1.3 and more, all other causes 0.
MAX_WITHOUT_CONTEXT = 0.3
# Up to this part it is attention. Between both, a KV cache in 4 bits (0.07 on a real model) and values in 3 bits (0.17)
# look alike.
SURELY_WITHOUT_CONTEXT = 0.05
# First token of an answer without its prompt at which RoPE's base shows, but not its scaling.
SETTLED_TOKENS = 8
# The part of an error that changes when positions shift by one: 0.2 to 0.35 for weights, 0.75 to 1 for a KV cache. From
# the second value on, only rounding is left as cause.
RESAMPLED = 0.55
SURELY_RESAMPLED = 0.7

# Another number of BOS, in run's canary and in fidelity: number of docs, nats per token that answers must be likelier,
# and the sign test's level. 15 of 16 have probability 3 in 10,000.
BOS_DOCS = 16
BOS_NATS = 0.05
BOS_CHANCE = 0.001
# Minimum share of likeliest tokens in a copy that mostly works. Reasoned, not measured: any language model that reads
# its context finds half of the tokens of plain text, a copy of the author nine in ten. tools/canary_shares.py has the
# values of the faults of a tiny Llama.
SOUND = 0.6

# Nats below the likeliest token that still count as a tie of float32 logits.
TIED_NATS = 1e-6
# Nats that a log-probability may exceed 0, or the likeliest token's, by rounding. Engines compute both in float32, and
# normalised bfloat16 logits differ by less.
LOGPROB_ROUNDING = 1e-2

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


# The levels of the intervals in views: ``95 %`` and ``99 %``.
LEVEL_TEXT = percent(LEVEL)
FIDELITY_LEVEL_TEXT = percent(FIDELITY_LEVEL)

# Default number of tokens of an answer, as in lm-eval's engines.
MAX_GEN_TOKS = 256

# The audit of answers. A greedy token counts at most so many nats, so that no single token decides.
AUDIT_MOST_REGRET = 1.0
# The largest mean regret, nats a token, that identical weights may have whatever the noise measured: SmolLM2 in
# bfloat16 under float32 has 0.0019 on vLLM, and in eight bits 0.0043. benchmarks/audit.py shows other copies.
AUDIT_REGRET_FLOOR = 0.005
# The largest difference of the mean depth of identical weights, and the largest depth where no noise was measured.
# Identical weights of SmolLM2 have 0.006 to 0.009 at temperature 1, and -0.012 to -0.014 at 0.7 or top_p 0.9.
AUDIT_DEPTH_FLOOR = 0.01
AUDIT_DEPTH_UNMEASURED = 0.04
# Without a measured noise, so many times the regret is different.
AUDIT_UNMEASURED_TIMES = 2.0
# With fewer answers nothing is decided.
AUDIT_MIN_DOCS = 20
# Share of answers with the same count of more or fewer prompt tokens, from which the prompt is another one; and share
# with any other count than the trusted copy's, from which it is for some.
AUDIT_SAME_COUNT = 0.9
AUDIT_OTHER_COUNT = 0.02
# The mean regret or depth of an answer that does not fit, and the share of fitting answers beside which a part goes
# elsewhere.
AUDIT_UNFIT_REGRET = 0.05
AUDIT_UNFIT_DEPTH = 0.2
AUDIT_MIN_FITTING = 0.5
# The regret, nats a token, of SmolLM2-135M in so many bits, to say how coarse other weights are.
AUDIT_BITS = {"four": 0.19, "five": 0.075, "eight": 0.0043}
# The regret, nats a token, of SmolLM2-135M with weights in so many bits: it says how coarse other weights may be.
AUDIT_BITS = {"four": 0.19, "five": 0.075, "eight": 0.0043}
# Temperatures that fit answers closer than this to what was asked are not told from other weights.
AUDIT_TEMPERATURE = 0.15
# From this temperature on, greedy answers may have been sampled. Much coarser weights look like 0.6.
AUDIT_SAMPLED_TEMPERATURE = 0.4
# Of unlikely tokens that repeat the answer, or stand where the likeliest token does, at least this share repeats it
# without a penalty: 0.42 to 0.46 on SmolLM2-135M at temperatures of 0.2 to 0.7, 0.76 in four bits, 0.88 behind another
# template. With a penalty 0 to 0.05 does, most with one of frequency, and at most the second share may.
AUDIT_REPEATS = 0.3
AUDIT_SPLIT = 0.15
# A token so many nats below the likeliest was not written by weights nearly like the trusted copy's. If such a large
# share of the unlikely tokens are such, the answers were edited: SmolLM2 in four bits has 1 %, behind another template
# 8 %, and with one word replaced or one sentence put in 29 and 36 %.
AUDIT_FOREIGN_NATS = 6.0
AUDIT_EDITED = 0.2
# Share of tokens outside of the set of the stated top_p, from which it was not kept.
AUDIT_OUTSIDE = 0.01
# Share of answers that are cut below the limit that was asked.
AUDIT_CUT = 0.02
# Answers of at least so many tokens are also cut if this share of all, and more than end within so many tokens before,
# end at the same largest count.
AUDIT_CUT_TOKENS = 24
AUDIT_CUT_PILE = 0.1
AUDIT_CUT_BEFORE = 4
