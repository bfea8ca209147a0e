"""Levels, margins, tolerances and alarm thresholds: every number that decides something, each with its reason.

Shares are from 0 to 1, so that 0.01 of a score is one point. Views and messages take their wording from here.
"""

from __future__ import annotations

# The confidence level of every interval and the significance level of every p value: the convention of the field.
LEVEL = 0.95
ALPHA = 0.05

# What a detectable drop is detected with, four times out of five: the convention of the field.
POWER = 0.8
# A plan is sure of what happens nineteen times out of twenty.
SURE = 0.95
# The share of docs that an identical copy is planned to flip, where nobody measured it: an assumption, which every plan
# prints.
PLANNED_FLIPS = 0.04

# Non-inferiority margin of a score, one point. Meta's recipe saw the score of one model differ by about that much from
# run to run, and people who quantise models call a point, or a percent, lossless: less than this is not worth knowing,
# more is.
MARGIN = 0.01
# The worse end that no task may reach, five points: nobody calls a copy that lost so much of a task the same, and of
# three in four models that lost five points of GPQA's 448 docs the margin of the mean sees nothing.
CAP = 0.05
# Where flips are many an identical copy would reach the cap: it is then what all identical copies but this share stay
# under, but no more than a twentieth wider. Fewer docs cannot exclude five points, for at 4 % of flips a fifth of all
# identical copies would reach it: theirs is as wide as it must be, and so is that of subtasks, of which there are many.
CAP_IDENTICAL = 0.01
CAP_LEEWAY = 0.05
CAP_MIN_DOCS = 190

# Drift in time: how often a run that does not drift is called one that does, over all tests of a run. It forbids SHIP,
# so that it must be rare.
DRIFT_ALPHA = 0.01

# Runs of a task beyond which nobody will go, so that a plan that needs more is none.
MAX_PLANNED_RUNS = 16
# The same of sampled answers to each doc.
MAX_PLANNED_ANSWERS = 64

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

# What the tokens of a copy are told by (`meta_eval.token_fidelity`): the signatures of causes. All lie between what the
# causes come to on the tiny Llamas of tools/forced_tokens.py; benchmarks/README.md has how often each cause is named.
#
# The opening of an answer: so many tokens at its start, which a wrong prompt moves most. It stands out where it is so
# many times as far as the rest, and may stand out from the lower number on: rounding comes to twice.
OPENING_TOKENS = 16
OPENING_STANDS_OUT = 4.0
OPENING_MAY_STAND_OUT = 1.5
# Without a baseline the first token is beside the later ones, in nats below the likeliest token: so many times as far
# below, and so far at the least. Recorded answers mostly begin with the likeliest token.
FIRST_TOKEN_STANDS_OUT = 5.0
FIRST_TOKEN_NATS = 0.5
# Positions from the start of the prompt, in tokens: an error of RoPE's scaling spares the early ones. Probed docs are
# the shortest of their tasks, so that late begins earlier among them.
EARLY_POSITIONS = 512
LATE_POSITIONS = 2048
LATE_PROBED_POSITIONS = 1024
# How many times as far late positions are as early ones where positions are at fault. Rounding grows with the context
# too, up to fifteen times; where the copy is the same without context, it is not rounding, and less tells.
LATE_TIMES_EARLY = 25.0
LATE_TIMES_EARLY_PROBED = 3.0
# Nats a token at early positions from which on more than rounding is at work; four-bit weights are below.
GROSS_NATS = 0.1
# The share of answers that a copy would end before the baseline does, for it to be a model of another kind; and, of
# such a model, the share of likeliest tokens among all others: one that is sound has more.
ENDS_SOONER = 0.3
SOUND_OTHER_MODEL = 0.4
# Docs that show what is exact: on either side of a length, and of a task, bits that are the same here and not there;
# and tokens that are all moved by one factor.
MIN_EXACT_DOCS = 3
# The recorded tokens' median rank beyond which a model cannot have said them, and their mean log-probability: a model
# of other words is far below either, a damaged one hardly is.
LOST_RANK = 50
LOST_LOGPROB = -6.0

# Probed docs that tell anything, and the share of them that must be nearer behind a probe.
MIN_PROBED_DOCS = 6
MIN_NEARER = 0.75
# A mistake of the prompt is the one that was made where both are at most so far apart behind it, as a part of how far
# they are without: rounding is all that is left. At most 0.2 were seen; behind any other mistake it is more.
MAX_LEFT_BEHIND_MISTAKE = 0.4
# A start is not read where turning it round changes at most this part of what it changes for the baseline; and of how
# many docs.
MAX_UNREAD_CHANGE = 0.1
MIN_UNREAD_DOCS = 2
# Without context the same, as a part of the whole distance: of weights and numbers 1.3 and more were seen, of all other
# causes 0.
MAX_WITHOUT_CONTEXT = 0.3
# From this token of an answer without its prompt on, RoPE's base shows, and its scaling does not.
SETTLED_TOKENS = 8
# The part of an error that is another one place further: of weights 0.2 to 0.35, of a KV cache 0.75 to 1. From the
# second on nothing but rounding is resampled so much.
RESAMPLED = 0.55
SURELY_RESAMPLED = 0.7

# Another number of BOS, by run's canary and by fidelity: docs that are asked, nats a token by which their answers must
# be likelier, and how seldom coins would fall on one side so often: 15 of 16 do in 3 of 10,000.
BOS_DOCS = 16
BOS_NATS = 0.05
BOS_CHANCE = 0.001
# The share of likeliest tokens from which on most of a copy works. Reasoned: any language model that reads what
# precedes finds half of the tokens of plain text, and a copy of the one that wrote it nine in ten; what the
# faults of a tiny Llama come to: tools/canary_shares.py.
SOUND = 0.6

# Nats by which a token may lie below the likeliest and still be it: a tie of logits, in float32.
TIED_NATS = 1e-6
# Nats by which a log-probability may lie above 0, or above that of the likeliest token, by rounding: engines compute
# both in float32, and bfloat16 logits differ by less once normalised.
LOGPROB_ROUNDING = 1e-2

# The known answers of doctor, nats. A likelihood in float32 may be off by the first: sums of a few tokens differ by
# some 1e-5 from engine to engine. From the second on it is no rounding any more, and the values are those of other
# tokens or of another prompt: bfloat16 is off by some hundredths on that model.
KNOWN_LIKELIHOOD_CLOSE = 1e-3
KNOWN_LIKELIHOOD_ROUNDED = 0.25

# How many tasks or answers of a kind a message names.
NAMED = 3


def percent(share: float) -> str:
    """A share as views and messages write it: ``95 %``."""
    return f"{100 * share:g} %"


# The levels of the intervals as views show them: ``95 %`` and ``99 %``.
LEVEL_TEXT = percent(LEVEL)
FIDELITY_LEVEL_TEXT = percent(FIDELITY_LEVEL)

# The tokens that an answer may have where nothing says how many: the default of lm-eval's engines.
MAX_GEN_TOKS = 256
