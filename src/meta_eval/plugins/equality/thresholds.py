"""The thresholds of this plug-in. ``benchmarks/equality.py`` prints the rates that they give."""

from __future__ import annotations

DIFFERENT = 0.01
"""The largest p value that calls two endpoints different: so many identical ones are called so."""

NOT_SAME = 0.05
"""The largest p value with which nothing is called the same."""

DRAWS = 1999
"""Permutations of the test."""

OTHER = 0.1
"""The share of answers of another model in the mixture that *same* excludes."""

POWER = 0.8
"""The probability, at least, with which the test must find that mixture, for *same*."""

SIMULATIONS, SIMULATED_DRAWS = 200, 199
"""Simulated mixtures, and permutations of the test of each. The smallest p value of so few is half of `DIFFERENT`."""

MOST_TIMES = 50
"""The most times as many answers that are named as enough; beyond it the number is a guess."""

LONGEST, SCALE, RUN = 1000, 30.0, 5
"""Characters of an answer that are compared, as in the paper; those in which the weight of a place in the Hamming
kernel falls to a third (1 / e); and the length of a run of the spectrum kernel, as in the paper."""

MIN_PROMPTS = 10
"""Prompts, at least, for *same*: those of a few tasks say little of a model."""

MISSING = 0.1
"""The largest share of missing answers of a side with which anything is the same."""

FROZEN = 0.5
"""The share of prompts, from which on a side that gives each of them a single text does not sample."""

SHOWN = 5
"""Prompts that a page shows with an answer of each side."""
