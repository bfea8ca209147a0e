"""The thresholds of this plug-in. docs/method/same_model.md has the rates that they give."""

from __future__ import annotations

FALSE_ALARM = 0.002
"""The largest p value of a test that calls a level worse. Four tests are made of a level, so less than 1 % of the
levels of a sound server are called so."""

SIGNS = 2
"""Corrupted answers that call a level worse, where alone there is none: one may be a fault of the network."""

NEAR_TIE = 1.0
"""Nats. A token of a greedy answer that is further below the likeliest one was not chosen by rounding: the same weights
under other kernels and batch sizes leave an answer where two tokens are less than 0.5 nats apart."""

NEAR_TIE_FACTOR = 1.5
"""The limit is at least so many times the largest distance in answers that were given alone."""

UNUSABLE = 4.0
"""Nats. With so large a distance in answers that were given alone, the endpoint does not score its own answers."""

SCORED_ALONE = 20
"""Answers that were given alone and are scored for that."""

SHARED = 40
"""Characters in a row that an answer shares with exactly one other request, until it counts as that one's."""

SHARED_UNSCORED = 80
"""The same where no log-probabilities tell whether the answer's own tokens are likely."""

LOST_TEXT = 16
"""Characters that are missing at the end of an answer whose count of tokens is that of the whole one."""

MADE_UP = 20_000
"""Made-up requests of a level that its answers are compared with, the first ones."""

SCRIPT_LETTERS = 3
"""Letters of a script that neither prompt nor answer has alone, until an answer counts as garbled."""

AT_MOST = 0.02
"""The share of corrupted answers, and the loss of verdicts, that must be excluded for "same under load"."""

SAME_DOCS = 195
"""Docs that exclude `AT_MOST` of both, where nothing is corrupted and no verdict differs."""

FOUND = 0.95
"""The probability with which the smallest rate that is named would have been found."""

CLEAREST = 10
"""Corrupted answers that a page shows beside their answers alone."""

CLOSE = 1.3
"""A search ends where the lowest bad level is at most so many times the highest good one."""

SEARCHED = 6
"""Levels that a search asks at most."""
