"""How often `history check` raises a false alarm, and how soon it sees a drop; beside a fixed threshold.

    python benchmarks/history.py           # twenty minutes, 500 years each
    python benchmarks/history.py --small   # half a minute, with bounds

Years of nightly runs are drawn. A run has 200 docs: some are always right, some always wrong, and the rest flip. The
number of flipping docs gives the spread of the runs in sgl-project/sglang-jax#1333: 61 runs of one commit, 200 docs of
GSM8K each, with the scores in `SCORES`. Their test failed at a score of 0.85 or less.

Nights that are not independent or not normal are drawn too, with the same standard deviation of 0.9 points: correlated
with the night before, of Student's distribution with three degrees of freedom, or a point lower on two nights a week.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meta_eval.plugins.nightly.run_chart import ChartPoint, draw_chart

# The scores of 61 runs, each with its count.
SCORES = {0.84: 2, 0.845: 3, 0.85: 7, 0.855: 13, 0.86: 12, 0.865: 10, 0.87: 7, 0.875: 5, 0.88: 2}
THRESHOLD = 0.85
DOCS = 200
NIGHTS = 365
RUNS_PER_ALARM = NIGHTS  # once a year at one run a night
SPREAD = 0.009
# A step of one point, and the nights within which it is to be seen.
STEP, AFTER, WITHIN = 0.01, 120, 14

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Year:
    """What the chart made of a year."""

    first: int | None
    alarms: int
    nights: int


def draw_nights(rng: np.random.Generator, nights: int, noise: float = 1.0) -> Scores:
    """Scores of nightly runs: 86 % of 200 docs, and flips that give them a standard deviation of 0.009 times noise."""
    flipping = round(0.009**2 * noise**2 * DOCS**2 / 0.25)
    steady = round(0.86 * DOCS - flipping / 2)
    return (steady + rng.binomial(flipping, 0.5, nights)) / DOCS


def unchanged(rng: np.random.Generator) -> Scores:
    return draw_nights(rng, NIGHTS)


def correlated(correlation: float, nights: int = NIGHTS) -> Callable[[np.random.Generator], Scores]:
    """An autoregression of order 1."""

    def draw(rng: np.random.Generator) -> Scores:
        noise = rng.normal(size=nights)
        for at in range(1, nights):
            noise[at] = correlation * noise[at - 1] + np.sqrt(1 - correlation**2) * noise[at]
        return np.asarray(0.86 + SPREAD * noise)

    return draw


def heavy(rng: np.random.Generator) -> Scores:
    return np.asarray(0.86 + SPREAD / np.sqrt(3) * rng.standard_t(3, NIGHTS))


def weekends(rng: np.random.Generator) -> Scores:
    is_weekend = (np.arange(NIGHTS) + rng.integers(7)) % 7 >= 5
    return correlated(0.0)(rng) - np.where(is_weekend, 0.01, 0.0)


def stepped(correlation: float) -> Callable[[np.random.Generator], Scores]:
    def draw(rng: np.random.Generator) -> Scores:
        scores = correlated(correlation, AFTER + WITHIN)(rng)
        scores[AFTER:] -= STEP
        return scores

    return draw


def outages(rng: np.random.Generator) -> Scores:
    """Four nights with a broken server, whose runs score next to nothing."""
    scores = unchanged(rng)
    scores[rng.choice(np.arange(30, NIGHTS), 4, replace=False)] = 0.02
    return scores


def noisier(rng: np.random.Generator) -> Scores:
    """From the middle of the year on, an engine whose noise has 1.5 times the standard deviation."""
    half = NIGHTS // 2
    return np.concatenate([draw_nights(rng, half), draw_nights(rng, NIGHTS - half, 1.5)])


def dropped(points: float, after: int) -> Callable[[np.random.Generator], Scores]:
    def draw(rng: np.random.Generator) -> Scores:
        scores = draw_nights(rng, after + 60)
        scores[after:] -= points / 100
        return scores

    return draw


def drifting(rng: np.random.Generator) -> Scores:
    """A loss of 0.05 points a night, from the 60th on."""
    scores = draw_nights(rng, 160)
    scores[60:] -= 0.0005 * np.arange(1, 101)
    return scores


def chart(scores: Scores) -> list[ChartPoint]:
    return draw_chart(scores.tolist(), RUNS_PER_ALARM, 1 / DOCS)


def measure(draw: Callable[[np.random.Generator], Scores], years: int, after: int = 0) -> list[Year]:
    """Alarms of each year from the run ``after`` on."""
    rng = np.random.default_rng(20_261_124)
    measured = []
    for _ in range(years):
        points = chart(draw(rng))
        alarms = [at for at, point in enumerate(points) if point.change is not None and at >= after]
        measured.append(Year(alarms[0] - after if alarms else None, len(alarms), len(points) - after))
    return measured


def describe(name: str, years: list[Year]) -> None:
    found = [year.first for year in years if year.first is not None]
    alarms = sum(year.alarms for year in years) / len(years)
    median = f"median {np.median(found):.0f} nights later" if found else "-"
    print(f"{name:48} alarms {alarms:5.2f}, any in {len(found) / len(years):6.1%}, {median}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    years = 20 if small else 500

    counts = sum(SCORES.values())
    failing = sum(count for score, count in SCORES.items() if score <= THRESHOLD)
    print(f"Once a year. The threshold failed {failing} of {counts} runs without a change ({failing / counts:.0%})")
    rng = np.random.default_rng(1)
    runs = [score for score, count in SCORES.items() for _ in range(count)]
    orders = [chart(rng.permutation(runs)) for _ in range(years)]
    failed = sum(point.state != "ok" for points in orders for point in points) / sum(map(len, orders))
    print(f"the same runs in {years:,} orders: the chart fails {failed:.2%} of them")

    measured = {
        "a year without a change": measure(unchanged, years),
        "a year with four nights of outage": measure(outages, years),
        "a year with 1.5 times the noise from July on": measure(noisier, years),
    }
    for name, of_years in measured.items():
        describe(name, of_years)
    alike = {
        "independent normal nights": correlated(0.0),
        "nights with a correlation of 0.3": correlated(0.3),
        "nights with a correlation of 0.6": correlated(0.6),
        "nights of Student's t, 3 degrees of freedom": heavy,
        "a point fewer on two nights a week": weekends,
    }
    rates = {"a year without a change": sum(year.alarms for year in measured["a year without a change"]) / years}
    for name, draw in alike.items():
        of_years = measure(draw, years)
        describe(name, of_years)
        rates[name] = sum(year.alarms for year in of_years) / years
    seen_steps = {}
    for correlation in (0.0, 0.6):
        of_years = measure(stepped(correlation), years, AFTER)
        describe(f"1 point fewer after {AFTER}, within {WITHIN}; correlation {correlation:g}", of_years)
        seen_steps[correlation] = sum(year.first is not None for year in of_years) / years
    for points in (1, 2, 3):
        for after in (5, 10, 30):
            describe(f"{points} points fewer after {after} runs", measure(dropped(points, after), years, after))
    describe("0.05 points fewer each night after 60", measure(drifting, years, 60))

    assert failed < 0.02, f"{failed:.1%} of the runs fail"
    seen = measured["a year with four nights of outage"]  # neighbouring nights are one alarm
    assert sum(year.alarms for year in seen) > 3 * years, "outages were not seen"
    for name, rate in rates.items():
        # A count of rare alarms of so many years: at most two standard deviations above the bound.
        most = 1.5 + 2 * np.sqrt(1.5 / years)
        assert rate <= most, f"{name}: {rate:.2f} alarms a year, at most {most:.2f} are accepted"
    for correlation, least in ((0.0, 0.9), (0.6, 0.45)):
        share, slack = seen_steps[correlation], 2 * np.sqrt(least * (1 - least) / years)
        assert share >= least - slack, f"correlation {correlation:g}: only {share:.0%} of the steps are seen"


if __name__ == "__main__":
    main()
