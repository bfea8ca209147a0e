"""Reads how often a false alarm is acceptable, in words: ``once a year at one run a night``."""

from __future__ import annotations

import re

from meta_eval.sockets import ConfigError

_NUMBERS = {"once": 1.0, "one": 1.0, "a": 1.0, "twice": 2.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0,
            "six": 6.0, "ten": 10.0}  # fmt: skip

# Periods in days. A night is a day.
_DAYS = {"hour": 1 / 24, "day": 1.0, "night": 1.0, "week": 7.0, "month": 365 / 12, "quarter": 365 / 4, "year": 365.0}

_COUNT = rf"(\d+(?:\.\d+)?|{'|'.join(_NUMBERS)})"
_PERIOD = rf"(?:an?|per|every|each) ({'|'.join(_DAYS)})"
_RATE = re.compile(rf"{_COUNT}(?: times)? {_PERIOD},? (?:at|with) {_COUNT} runs? {_PERIOD}")
_PER_RUNS = re.compile(rf"{_COUNT}(?: alarms?)? in (\d+) runs")


def read_alarm_rate(words: str) -> float:
    """The average number of runs from one false alarm to the next.

    Args:
        words: Such as ``once a year at one run a night``, ``twice a month at 20 runs a day`` or ``once in 500 runs``.

    Raises:
        ConfigError: They are not of this form, or give fewer than 10 or more than a million runs.
    """
    text = " ".join(words.lower().split())
    if match := _RATE.fullmatch(text):
        alarms, alarm_period, runs, run_period = match.groups()
        between = _number(runs) / _DAYS[run_period] * _DAYS[alarm_period] / max(_number(alarms), 1e-9)
    elif match := _PER_RUNS.fullmatch(text):
        between = float(match[2]) / max(_number(match[1]), 1e-9)
    else:
        raise ConfigError(
            f"{words!r:.80} is not a rate of false alarms", where="false_alarms",
            hint='Such as "once a year at one run a night", or "once in 500 runs"',
        )  # fmt: skip
    if not 10 <= between <= 1e6:
        raise ConfigError(
            f"{words!r:.80} is one false alarm in {between:,.3g} runs", where="false_alarms",
            hint="Name a rate between one in 10 and one in 1,000,000 runs",
        )  # fmt: skip
    return between


def _number(word: str) -> float:
    return _NUMBERS[word] if word in _NUMBERS else float(word)
