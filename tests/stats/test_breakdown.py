"""The parts of a drop: it adds up, and what is planted is found in its own figure and in no other."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meta_eval import stats

value = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
docs = st.lists(
    st.tuples(value, value, value, st.booleans(), st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=30
)


def told(
    rows: list[tuple[float, float, float, bool, str, int]], labelled: bool, clustered: bool
) -> stats.DropBreakdown:
    recorded, regraded, new, same, labels, clusters = map(list, zip(*rows, strict=True))
    return stats.break_down_drop(
        recorded, regraded, new, same, labels if labelled else None, clusters if clustered else None
    )


# Docs with the recorded prompt won all, the others lost all: the prompts' part is more than the whole scale.
@example([(0.0, 0.0, 1.0, True, "a", 0), (0.0, 1.0, 0.0, False, "a", 0), (0.0, 1.0, 0.0, False, "a", 0)], False, False)
@given(docs, st.booleans(), st.booleans())
def test_three_figures_add_up_to_the_total(
    rows: list[tuple[float, float, float, bool, str, int]], labelled: bool, clustered: bool
) -> None:
    parts = told(rows, labelled, clustered)
    assert parts.grader.value + parts.rest.value == pytest.approx(parts.total.value, abs=1e-8)
    if parts.model is None or parts.prompts is None:
        assert not any(same for *_, same, _, _ in rows)
        return
    assert parts.grader.value + parts.model.value + parts.prompts.value == pytest.approx(parts.total.value, abs=1e-8)
    for part, interval in (
        (parts.model.value, parts.model.interval()), (parts.prompts.value, parts.prompts.interval),
        (parts.grader.value, parts.grader.interval()),
    ):  # fmt: skip
        assert interval.lower - 1e-9 <= part <= interval.upper + 1e-9


@given(st.lists(docs, min_size=2, max_size=4), st.booleans())
def test_their_means_over_tasks_add_up_too(
    tasks: list[list[tuple[float, float, float, bool, str, int]]], labelled: bool
) -> None:
    weights = [(n + 1) / sum(range(1, len(tasks) + 1)) for n in range(len(tasks))]
    parts = stats.average_breakdowns([told(rows, labelled, False) for rows in tasks], weights)
    assert parts.grader.value + parts.rest.value == pytest.approx(parts.total.value, abs=1e-8)
    if parts.model is not None and parts.prompts is not None:
        assert parts.model.value + parts.prompts.value == pytest.approx(parts.rest.value, abs=1e-8)


def figures(parts: stats.DropBreakdown) -> tuple[float, float, float]:
    assert parts.model is not None and parts.prompts is not None
    return tuple(round(part.value, 9) for part in (parts.grader, parts.model, parts.prompts))  # type: ignore[return-value]


def test_what_is_planted_is_found_in_its_own_figure() -> None:
    right, lost = [1.0] * 100, [0.0] * 8 + [1.0] * 92
    same = [True] * 100
    assert figures(stats.break_down_drop(right, lost, lost, same)) == (0.08, 0.0, 0.0)
    assert figures(stats.break_down_drop(right, right, lost, same)) == (0.0, 0.08, 0.0)
    other = [False] * 20 + [True] * 80
    assert figures(stats.break_down_drop(right, right, lost, other)) == (0.0, 0.0, 0.08)
    # All three: eight docs graded otherwise; one doc in ten lost everywhere; of those asked otherwise half besides.
    new = [0.0] * 15 + [1.0] * 35 + [0.0] * 5 + [1.0] * 45
    whole = stats.break_down_drop([0.0] * 8 + [1.0] * 92, [1.0] * 100, new, [False] * 50 + [True] * 50)
    assert figures(whole) == (-0.08, 0.1, 0.1)
    assert (whole.regraded, whole.changed, whole.docs_with_other_prompt) == (8, 20, 50)


def test_where_every_prompt_is_another_model_and_prompts_are_not_told_apart() -> None:
    parts = stats.break_down_drop([1.0] * 4, [1.0] * 4, [1.0, 1.0, 0.0, 0.0], [False] * 4)
    assert (parts.model, parts.prompts, parts.rest.value) == (None, None, 0.5)


def test_few_docs_with_the_recorded_prompt_leave_the_prompts_uncertain() -> None:
    regraded, new = [1.0] * 1000, [0.0] * 50 + [1.0] * 950
    few = stats.break_down_drop(regraded, regraded, new, [place >= 990 for place in range(1000)])
    half = stats.break_down_drop(regraded, regraded, new, [place >= 500 for place in range(1000)])
    assert few.prompts is not None and half.prompts is not None
    assert 0.0 in few.prompts.interval
    assert 0.0 not in half.prompts.interval
