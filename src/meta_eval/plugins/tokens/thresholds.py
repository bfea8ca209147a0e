"""The thresholds of this plug-in, with their reasons. Shares are from 0 to 1; a point is 0.01."""

from __future__ import annotations

from meta_eval.base.thresholds import percent

# The token check: a copy is the same below the first, and different above the second of these multiples of the noise.
# On a real model the noise of one kernel or dtype is at most 1.24 times that of another, and eight-bit weights are from
# 1.37 times as far on (docs/method/same_model.md).
FIDELITY_SAME_TIMES = 1.25
FIDELITY_DIFFERENT_TIMES = 2.0
# Each side of an interval has 0.5 %, so "different" and "the same" are wrong equally rarely.
FIDELITY_LEVEL = 0.99
FIDELITY_LEVEL_TEXT = percent(FIDELITY_LEVEL)
# Nats per token beyond any noise seen: the same weights under other kernels, dtypes and engines gave at most 0.061, for
# human text (docs/method/same_model.md). Without a measured noise only a larger distance is different.
FIDELITY_NOISE_SEEN = 0.1
# The least noise in nats per token: servers write log-probabilities with four decimals. A smaller distance is none.
FIDELITY_NOISE_FLOOR = 1e-4
# The weight of a doc is its tokens, but at most so many times the median, so that no long answer decides.
FIDELITY_LONGEST = 2.0
FIDELITY_ALPHA = 0.01
# With fewer tokens nothing is the same: tokens that are off by 1 nat and make up `FIDELITY_NOISE_SEEN` of the distance
# are all missed by so few with a chance of 1 %.
FIDELITY_MIN_TOKENS = 44

# Signatures of causes in tokens (`meta_eval.plugins.tokens`). Each value separates the causes on the tiny Llamas of
# tools/forced_tokens.py. benchmarks/README.md shows how often each cause is named. The opening: the first tokens of an
# answer, which a wrong prompt moves most. It stands out if it is so many times as far as the rest, and may stand out
# from the lower number on. Rounding gives up to twice.
OPENING_TOKENS = 16
OPENING_STANDS_OUT = 4.0
OPENING_MAY_STAND_OUT = 1.5
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
# Minimum number of docs that show an exact cause: bits that are equal only in one task.
MIN_EXACT_DOCS = 3

# Minimum number of informative probed docs, and the share that must be nearer after a probe.
MIN_PROBED_DOCS = 6
MIN_NEARER = 0.75
# The distance that remains after a probe with the right mistake of the prompt, as a part of the distance before. Only
# rounding remains: at most 0.2 was seen. Other mistakes leave more.
MAX_LEFT_BEHIND_MISTAKE = 0.4
# Remaining distance without context, as a part of the whole, for a copy that is the same without context. Weights and
# numbers gave 1.3 and more, all other causes 0.
MAX_WITHOUT_CONTEXT = 0.3
# Up to this part it is attention. Between both, a KV cache in 4 bits (0.07 on a real model) and values in 3 bits (0.17)
# look alike.
SURELY_WITHOUT_CONTEXT = 0.05
# First token of an answer without its prompt at which RoPE's base shows, but not its scaling.
SETTLED_TOKENS = 8
# Nats below the likeliest token that still count as a tie of float32 logits.
TIED_NATS = 1e-6

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
# Edits leave the other tokens of an answer alone: with a replaced word 11 % of the tokens are unlikely, with a sentence
# that was put in 23 %, and at temperature 1 57 %. Answers of a copy that is broken have more than this share.
AUDIT_EDITED_MOST = 0.4
# The part of tokens that no cause explains, where causes are compared by likelihood.
AUDIT_STRAY = 0.01
# Sampling fits better than other weights from so many nats a token on. The noise of coarser weights is not
# Gaussian: four bits of SmolLM2 fit by 0.010 better as sampling. A temperature of 0.7 fits by 0.058 better.
AUDIT_FIT = 0.03
# Share of tokens outside of the set of the stated top_p, from which it was not kept.
AUDIT_OUTSIDE = 0.01
# Share of answers that are cut below the limit that was asked.
AUDIT_CUT = 0.02

# Answers of at least so many tokens are also cut if this share of all, and more than end within so many tokens before,
# end at the same largest count. Shorter answers may all have one form.
ENDPOINT_CUT_TOKENS = 16
ENDPOINT_CUT_PILE = 0.1
ENDPOINT_CUT_BEFORE = 4

# Outputs of llama-perplexity. Blocks of consecutive chunks, and the least number of chunks of a block. On public logs
# the differences of neighbouring chunks correlate by up to 0.66, and those of chunks eight apart rarely by above 0.2
# (docs/method/same_model.md has the coverage).
PERPLEXITY_BLOCKS = 10
PERPLEXITY_BLOCK = 8
# With fewer blocks Student's t says nothing, and with fewer chunks the interval is somewhat too narrow.
PERPLEXITY_LEAST_BLOCKS = 4
PERPLEXITY_ENOUGH = 100
# The chunks of one text correlate by 0.68 and more under two models that are less than so many nats apart, and chunks
# of two texts by at most 0.5.
PERPLEXITY_SAME_TEXT = 0.5
PERPLEXITY_NEAR = 1.0
