"""The control chart: false alarms are as rare as promised, drops raise an alarm, and alarms end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_eval.plugins.nightly.run_chart import CALIBRATION, MOST, average_run_length, draw_chart, find_limits

UNIT = 1 / 200
NORMAL = np.random.default_rng(3).normal(0.86, 0.009, 60)


@pytest.mark.parametrize(("runs", "correlation"), [(20, 0.0), (30, 0.6), (365, 0.0), (5_000, 0.9)])
def test_limits_are_for_the_wanted_number_of_runs_between_false_alarms(runs: float, correlation: float) -> None:
    limits = find_limits(runs, correlation)
    wanted = CALIBRATION * runs
    assert average_run_length(limits) == pytest.approx(wanted, rel=0.01)
    # Drawn: the same rule on normal scores.
    rng, lengths = np.random.default_rng(1), []
    for _ in range(300 if runs < 100 else 0):
        cusum, length = 0.0, 0
        while cusum <= limits.decision:
            length, cusum = length + 1, max(0.0, cusum + min(rng.normal(), MOST) - limits.allowance)
        lengths.append(length)
    if lengths:
        assert np.mean(lengths) == pytest.approx(wanted, rel=0.15)


def test_a_drop_is_seen_sooner_than_a_false_alarm() -> None:
    limits = find_limits(365)
    lengths = [average_run_length(limits, shift) for shift in (0, 0.5, 1, 2, 4)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < 3.1


def correlate(noise: np.ndarray, correlation: float) -> list[float]:
    scores = [float(noise[0])]
    for value in noise[1:]:
        scores.append(correlation * scores[-1] + (1 - correlation**2) ** 0.5 * float(value))
    return scores


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_the_correlation_of_neighbouring_runs_is_estimated(correlation: float) -> None:
    noise = np.random.default_rng(7).normal(0, 0.009, 150)
    points = draw_chart([0.86 + value for value in correlate(noise, correlation)], 365, UNIT)
    assert points[-1].correlation == pytest.approx(correlation, abs=0.2)
    assert points[1].correlation == 0


def test_runs_that_raised_an_alarm_count_again_when_it_ends() -> None:
    # A wave that comes and goes: the level after it is that of all runs.
    scores = [*NORMAL[:30], *(NORMAL[30:36] - 0.018), *NORMAL[36:]]
    points = draw_chart(scores, 365, UNIT)
    assert any(point.change for point in points)
    assert points[-1].state == "ok"
    (alarm,) = [at for at, point in enumerate(points) if point.change]
    assert points[-1].mean == pytest.approx(np.mean([*scores[: alarm + 1], *scores[36:-1]]), abs=0.002)


def test_a_sudden_drop_raises_an_alarm_that_names_its_run() -> None:
    scores = [*NORMAL[:30], *(NORMAL[30:33] - 0.1)]
    points = draw_chart(scores, 365, UNIT)
    assert [point.state for point in points[-3:]] == ["sudden drop", "lasting", "lasting"]
    assert points[30].change == (30, 30)
    assert {point.state for point in points[:30]} == {"ok"}


def test_a_slow_drift_raises_an_alarm_and_the_range_holds_its_beginning() -> None:
    scores = [*NORMAL[:40], *(NORMAL[40:] - 0.012)]
    points = draw_chart(scores, 365, UNIT)
    (alarm,) = [point for point in points if point.change]
    assert alarm.state == "drift"
    first, last = alarm.change or (0, 0)
    assert first <= 40 <= last


def test_an_alarm_ends_when_the_runs_are_as_before() -> None:
    scores = [*NORMAL[:30], *(NORMAL[30:35] - 0.1), *NORMAL[35:]]
    states = [point.state for point in draw_chart(scores, 365, UNIT)]
    assert states[30:35] == ["sudden drop", *["lasting"] * 4]
    assert set(states[38:]) == {"ok"}


def test_equal_runs_of_a_deterministic_engine_bear_one_doc_but_not_ten() -> None:
    same = [0.8] * 20
    assert draw_chart([*same, 0.8 - UNIT], 365, UNIT)[-1].state == "ok"
    assert draw_chart([*same, 0.8 - 10 * UNIT], 365, UNIT)[-1].state == "sudden drop"


@given(st.lists(st.integers(0, 200), min_size=1, max_size=12), st.integers(1, 50))
def test_it_judges_any_scores_and_never_by_later_ones(counts: list[int], more: int) -> None:
    scores = [count / 200 for count in counts]
    points = draw_chart(scores, 365, UNIT)
    assert len(points) == len(scores)
    assert [point.state for point in points[:2]] == ["ok"] * min(2, len(scores))
    assert draw_chart([*scores, more / 200], 365, UNIT)[:-1] == points


@pytest.mark.parametrize("runs", [1, 9.9, 1e11, float("nan")])
def test_a_rate_that_no_chart_can_have_is_refused(runs: float) -> None:
    with pytest.raises(ValueError, match="runs for each false alarm"):
        find_limits(runs)
