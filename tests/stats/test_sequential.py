"""Stopping when decided: the order, the bounds by simulation with fixed seeds, and what decides."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import thorough
from places import THOROUGH

from meta_eval import stats
from meta_eval.stats.drop import Weighting
from meta_eval.stats.sequential import Doc, PairableDocs, Plan, Sequential, State, plan_rounds

MARGIN = 0.02

# Simulated runs; fewer see only what is far off.
RUNS = 100 if THOROUGH else 15


def sized_task(sizes: Sequence[int], **other: object) -> PairableDocs:
    """A task with so many docs in each subtask."""
    labels = [f"s{index}" for index, n in enumerate(sizes) for _ in range(n)]
    return PairableDocs("t", range(sum(sizes)), labels, **other)  # type: ignore[arg-type]


def looks(order: Plan, losses: dict[Doc, float], margin: float = MARGIN) -> list[State]:
    """The state after each round."""
    followed, states, done = Sequential(order, margin), [], 0
    for end in order.ends:
        for task, doc in order.order[done:end]:
            followed.add_doc(task, doc, max(losses[task, doc], 0.0), max(-losses[task, doc], 0.0))
        done = end
        states.append(followed.read_state())
    return states


def ended(order: Plan, losses: dict[Doc, float], margin: float = MARGIN, most: int | None = None) -> State:
    """The last of these states, asked for once, or that after ``most`` docs."""
    followed = Sequential(order, margin)
    for task, doc in order.order[:most]:
        followed.add_doc(task, doc, max(losses[task, doc], 0.0), max(-losses[task, doc], 0.0))
    return followed.read_state()


def drawn(order: Plan, lost: Callable[[Doc], float], won: float, rng: random.Random) -> dict[Doc, float]:
    """A loss with chance ``lost``, a gain with chance ``won``, of each doc by itself."""
    result = {}
    for doc in sorted(order.order):
        luck = rng.random()
        result[doc] = 1.0 if luck < lost(doc) else -1.0 if luck > 1 - won else 0.0
    return result


# The order


tasks = st.lists(
    st.tuples(
        st.lists(st.integers(1, 30), min_size=1, max_size=5),  # docs of each subtask
        st.none() | st.integers(1, 8),  # docs that share a passage
        st.booleans(),  # passages within subtasks, or across
    ),
    min_size=1,
    max_size=3,
)


def made(shapes: Sequence[tuple[list[int], int | None, bool]]) -> list[PairableDocs]:
    out = []
    for number, (sizes, shared, within) in enumerate(shapes):
        labels = [f"s{index}" for index, n in enumerate(sizes) for _ in range(n)]
        docs = range(len(labels))
        clusters = None
        if shared:
            clusters = [f"{number} {labels[doc]} {doc // shared}" if within else f"{doc % shared}" for doc in docs]
        out.append(PairableDocs(f"t{number}", docs, labels, clusters))
    return out


@given(tasks, st.integers(0, 5), st.integers(1, 40))
def test_the_order_holds_every_doc_once_and_rounds_some_of_every_subtask(
    shapes: list[tuple[list[int], int | None, bool]], seed: int, batch: int
) -> None:
    given_tasks = made(shapes)
    order = plan_rounds(given_tasks, seed, batch)
    assert Counter(order.order) == Counter((task.task, doc) for task in given_tasks for doc in task.docs)
    assert order.ends[-1] == len(order.order) and list(order.ends) == sorted(set(order.ends))
    subtask = {
        (task.task, doc): label for task in given_tasks for doc, label in zip(task.docs, task.labels or (), strict=True)
    }
    everything = {(task, subtask[task, doc]) for task, doc in order.order}
    start = 0
    for end in order.ends:
        assert {(task, subtask[task, doc]) for task, doc in order.order[start:end]} == everything
        start = end


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.randoms())
def test_the_order_is_the_same_whatever_order_the_docs_are_given_in(sizes: list[int], luck: random.Random) -> None:
    task = sized_task(sizes)
    rows = list(zip(task.docs, task.labels or (), strict=True))
    luck.shuffle(rows)
    turned = PairableDocs("t", [doc for doc, _ in rows], [label for _, label in rows])
    assert plan_rounds([turned]).order == plan_rounds([task]).order


def test_the_order_is_known_and_another_for_another_seed_or_task() -> None:
    order = [doc for _, doc in plan_rounds([PairableDocs("t", range(8))]).order]
    assert order == [4, 6, 5, 2, 3, 7, 0, 1]  # SHA-256 has the same digests everywhere
    assert [doc for _, doc in plan_rounds([PairableDocs("t", range(8))], seed=1).order] != order
    assert [doc for _, doc in plan_rounds([PairableDocs("u", range(8))]).order] != order


def test_any_part_of_the_order_is_balanced_over_subtasks() -> None:
    sizes = [300, 100, 50]
    order = plan_rounds([sized_task(sizes)])
    seen: Counter[int] = Counter()
    for asked, (_, doc) in enumerate(order.order, 1):
        seen[0 if doc < 300 else 1 if doc < 400 else 2] += 1
        assert all(abs(seen[index] - asked * n / 450) < 2 for index, n in enumerate(sizes))


def test_docs_of_a_cluster_are_asked_together() -> None:
    clusters = [str(doc // 3) for doc in range(60)]
    order = [doc for _, doc in plan_rounds([PairableDocs("t", range(60), clusters=clusters)], batch=6).order]
    assert all(order[at] // 3 == order[at + 1] // 3 == order[at + 2] // 3 for at in range(0, 60, 3))
    assert order != sorted(order)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (PairableDocs("t", []), "no doc"),
        (PairableDocs("t", [1, 1]), "twice"),
        (PairableDocs("t", [1], margin=-0.1), "margin"),
        (PairableDocs("t", [1], reach=[0.0]), "reach"),
        (PairableDocs("t", [1, 2], ["a"]), "zip"),
    ],
)
def test_what_is_no_plan(task: PairableDocs, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_rounds([task])


# The bounds


def covered(order: Plan, truth: float, draw: Callable[[random.Random], dict[Doc, float]]) -> float:
    """The share of runs in which the bounds held the truth at every look; at a margin of the truth others stop."""
    ends = [ended(order, draw(random.Random(seed)), truth or MARGIN) for seed in range(RUNS)]
    return sum(end.mean.lower <= truth for end in ends) / RUNS


FEW = plan_rounds([sized_task([400, 200, 100])], batch=10)


@pytest.mark.parametrize("lost", [0.03, 0.1, 0.5])
def test_the_bounds_hold_the_truth_at_every_look(lost: float) -> None:
    assert covered(FEW, lost - 0.03, lambda rng: drawn(FEW, lambda _: lost, 0.03, rng)) >= 0.95


def test_the_bounds_hold_a_macro_average_whose_subtasks_differ() -> None:
    # The small subtask loses 60 points and the large ones nothing: 20 on average, 8.6 over docs.
    def lost(doc: Doc) -> float:
        return 0.63 if doc[1] >= 600 else 0.03  # type: ignore[operator]

    assert covered(FEW, 0.2, lambda rng: drawn(FEW, lost, 0.03, rng)) >= 0.95
    assert covered(FEW, 0.6 / 7, lambda rng: drawn(FEW, lost, 0.03, rng)) < 0.5  # the drop over docs is no bound


@thorough
@pytest.mark.parametrize("across", [True, False], ids=["a doc in each subtask", "passages"])
def test_the_bounds_hold_where_clusters_move_as_one(across: bool) -> None:
    def name(doc: int) -> str:
        return str(doc % 100 if across else doc // 7)

    labels = [f"s{doc // 100}" if across else None for doc in range(700)]

    def draw(rng: random.Random) -> dict[Doc, float]:
        flips = {name(doc): rng.choice([0.0] * 8 + [1.0, -1.0]) for doc in range(700)}
        return {("t", doc): flips[name(doc)] for doc in range(700)}

    clustered = plan_rounds([PairableDocs("t", range(700), labels, [name(doc) for doc in range(700)])], batch=14)
    assert covered(clustered, 0.0, draw) >= 0.95
    # Were the clusters not known, the bounds would be wrong.
    assert covered(plan_rounds([PairableDocs("t", range(700), labels)], batch=14), 0.0, draw) < 0.9


def test_every_round_weighs_subtasks_alike_whatever_docs_it_has_of_each() -> None:
    order = plan_rounds([sized_task([90, 50])], batch=3)
    assert len(order.ends) > 40  # one or two docs of the small one in a round, two or three of the large one
    states = looks(order, {(task, doc): float(int(doc) < 90) for task, doc in order.order})
    assert [state.mean.drop for state in states] == pytest.approx([0.5] * len(states))


losses = st.sampled_from([0.0, 0.0, 0.0, 1.0, -1.0, 0.25])


@settings(max_examples=40 if THOROUGH else 8)
@given(tasks, st.data())
def test_bounds_only_rise(shapes: list[tuple[list[int], int | None, bool]], data: st.DataObject) -> None:
    order = plan_rounds(made(shapes), batch=3)
    states = looks(order, {doc: data.draw(losses) for doc in order.order})
    for earlier, later in pairwise(states):
        for before, after in (
            (earlier.mean, later.mean),
            *((a.bounds, b.bounds) for a, b in zip(earlier.tasks, later.tasks, strict=True)),
        ):
            assert -1 <= before.lower <= after.lower <= 1


@settings(max_examples=40 if THOROUGH else 8)
@given(tasks, st.data())
def test_more_that_is_lost_never_lowers_a_bound_or_an_estimate(
    shapes: list[tuple[list[int], int | None, bool]], data: st.DataObject
) -> None:
    order = plan_rounds(made(shapes), batch=3)
    some = {doc: data.draw(losses) for doc in order.order}
    worse = {doc: 1.0 if data.draw(st.booleans()) else loss for doc, loss in some.items()}
    # The first look, at which no stake hangs on what was seen before.
    first, second = looks(order, some)[0].mean, looks(order, worse)[0].mean
    assert first.drop <= second.drop + 1e-12
    assert first.lower <= second.lower + 1e-12


def test_the_estimate_is_the_drop_and_tasks_weigh_as_in_a_whole_run() -> None:
    pair = [sized_task([60, 40]), PairableDocs("u", range(50), clusters=[str(doc // 5) for doc in range(50)])]
    order = plan_rounds(pair, batch=10**6)
    some = drawn(order, lambda _: 0.3, 0.1, random.Random(5))
    whole = [
        stats.paired_drop(
            [max(some[task.task, doc], 0.0) for doc in task.docs],
            [max(-some[task.task, doc], 0.0) for doc in task.docs],
            task.labels,
            task.clusters,
        )
        for task in pair
    ]
    state = looks(order, some)[-1]
    assert [task.bounds.drop for task in state.tasks] == pytest.approx([drop.value for drop in whole])
    assert state.mean.drop == pytest.approx(stats.mean_drop(whole, stats.precision_weights(whole)).value)
    assert [task.bounds.drop for task in state.tasks] == pytest.approx([drop.value for drop in whole])


# What decides


@pytest.mark.parametrize("won", [0.0, 0.12])
def test_no_run_stops_with_ship_however_much_it_gains(won: float) -> None:
    order = plan_rounds([sized_task([700, 300])])
    state = looks(order, drawn(order, lambda _: 0.0, won, random.Random(1)))[-1]
    assert (state.outcome, state.complete) == (None, True)


def test_tasks_that_gain_do_not_hide_those_that_lose() -> None:
    """Ten tasks gain 5 points and three lose 5: the mean gains 2.7."""
    order = plan_rounds([PairableDocs(f"t{index}", range(1000)) for index in range(13)])

    def loss(doc: Doc) -> float:
        return float(int(doc[1]) % 20 == 0) * (1 if int(doc[0][1:]) < 3 else -1)

    state = ended(order, {doc: loss(doc) for doc in order.order})
    assert state.outcome == "DON'T SHIP" and state.mean.drop < 0
    assert {task.task for task in state.tasks if task.beyond} <= {"t0", "t1", "t2"}


def test_a_copy_ten_points_down_is_found() -> None:
    order, runs = plan_rounds([sized_task([2000, 1000])]), 40 if THOROUGH else 12
    stopped = [ended(order, drawn(order, lambda _: 0.12, 0.02, random.Random(seed))) for seed in range(runs)]
    assert {state.outcome for state in stopped} == {"DON'T SHIP"}
    assert sorted(state.docs for state in stopped)[runs // 2] < 300
    assert all(state.mean.lower > MARGIN and state.tasks[0].beyond for state in stopped)


@thorough
def test_few_are_stopped_at_the_margin() -> None:
    order, count = plan_rounds([sized_task([700, 300])], batch=8), 250 if THOROUGH else 40
    ends = Counter(
        ended(order, drawn(order, lambda _: MARGIN + 0.02, 0.02, random.Random(seed))).outcome for seed in range(count)
    )
    # 2.5 % are allowed; a bound for one look alone would give several times as many.
    assert ends["DON'T SHIP"] <= 0.04 * count


def test_the_last_look_is_left_to_the_verdict_of_a_whole_run() -> None:
    order = plan_rounds([PairableDocs("t", range(64))], batch=64)
    state = looks(order, dict.fromkeys(order.order, 1.0))[-1]
    assert state.outcome is None and state.complete and state.docs == 64


def test_one_doc_is_a_whole_run() -> None:
    order = plan_rounds([PairableDocs("t", ["only"])])
    state = looks(order, {("t", "only"): 1.0})[-1]
    assert (state.outcome, state.complete, state.docs, state.mean.drop) == (None, True, 1, 1.0)


def test_before_the_first_round_nothing_is_known() -> None:
    state = Sequential(plan_rounds([PairableDocs("t", range(64))]), MARGIN).read_state()
    assert (state.outcome, state.docs, state.complete) == (None, 0, False)
    assert (state.mean.drop, state.mean.lower) == (0.0, -1.0)


def test_a_task_beyond_its_margin_decides_by_itself() -> None:
    order = plan_rounds([PairableDocs("large", range(6000)), PairableDocs("small", range(600))])
    some = {doc: float(doc[0] == "small" and doc[1] % 2 == 0) for doc in order.order}  # type: ignore[operator]
    state = ended(order, some, margin=0.1)
    assert state.outcome == "DON'T SHIP" and state.tasks[1].beyond and not state.tasks[0].beyond
    assert state.mean.lower < 0.1


def test_a_single_task_has_a_margin_of_its_own() -> None:
    order = plan_rounds([PairableDocs("t", range(2000), margin=0.02)])
    state = ended(order, {doc: float(int(doc[1]) % 10 == 0) for doc in order.order}, margin=0.3)
    assert (state.outcome, state.tasks[0].beyond) == ("DON'T SHIP", True)


def test_of_many_tasks_a_loss_takes_more_to_show() -> None:
    def docs(count: int) -> int:
        order = plan_rounds([PairableDocs(f"t{index}", range(800)) for index in range(count)], batch=16 * count)
        some = {doc: float(doc[0] == "t0" and doc[1] % 8 == 0) for doc in order.order}  # type: ignore[operator]
        return ended(order, some, margin=0.03).docs // count

    assert docs(1) < docs(8)


def test_a_decision_stays_whatever_comes_after_it() -> None:
    order = plan_rounds([PairableDocs("t", range(6000))])
    followed = Sequential(order, MARGIN)
    for task, doc in order.order[:2000]:
        followed.add_doc(task, doc, 1.0, 0.0)
    decided = followed.read_state()
    for task, doc in order.order[2000:]:
        followed.add_doc(task, doc, 0.0, 1.0)
    assert decided.outcome == "DON'T SHIP" and followed.read_state() == decided


@settings(max_examples=20 if THOROUGH else 5)
@given(st.randoms(), st.lists(st.integers(0, 600), max_size=6))
def test_the_state_does_not_hang_on_when_docs_come(luck: random.Random, stops: list[int]) -> None:
    order = plan_rounds([sized_task([300, 200, 100])], batch=16)
    some = drawn(order, lambda _: 0.2, 0.02, random.Random(2))
    arriving = list(order.order)
    luck.shuffle(arriving)
    followed = Sequential(order, MARGIN)
    for at, (task, doc) in enumerate(arriving):
        followed.add_doc(task, doc, max(some[task, doc], 0.0), max(-some[task, doc], 0.0))
        if at in stops:
            followed.read_state()
    assert followed.read_state() == looks(order, some)[-1]


def test_a_doc_that_is_missing_ends_the_looks() -> None:
    order = plan_rounds([PairableDocs("t", range(640))])
    followed = Sequential(order, MARGIN)
    for task, doc in order.order[:40] + order.order[41:]:
        followed.add_doc(task, doc, 1.0, 0.0)
    assert followed.read_state().docs == order.ends[0] and not followed.read_state().complete


def test_scores_that_weigh_docs_differently_have_a_reach() -> None:
    order = plan_rounds([PairableDocs("t", range(3), reach=[2.0, 0.5, 0.5])])
    followed = Sequential(order, MARGIN)
    followed.add_doc("t", 0, 2.0, 0.0)
    with pytest.raises(ValueError, match=r"differ by more than 0\.5"):
        followed.add_doc("t", 1, 1.0, 0.0)


@pytest.mark.parametrize(
    ("task", "doc", "new", "message"),
    [
        ("u", 0, 0.0, "not of the plan"),
        ("t", 9, 0.0, "not of the plan"),
        ("t", 0, math.nan, "differ"),
        ("t", 0, 0.5, "before"),
    ],
)
def test_what_cannot_be_added(task: str, doc: int, new: float, message: str) -> None:
    followed = Sequential(plan_rounds([PairableDocs("t", range(3))]), MARGIN)
    followed.add_doc("t", 0, 1.0, 1.0)
    followed.add_doc("t", 0, 1.0, 1.0)
    with pytest.raises(ValueError, match=message):
        followed.add_doc(task, doc, 1.0, new)


def test_rounding_is_no_flip() -> None:
    order = plan_rounds([PairableDocs("t", range(640))])
    followed, same = Sequential(order, MARGIN), Sequential(order, MARGIN)
    for task, doc in order.order:
        followed.add_doc(task, doc, float(np.float64(0.1) + 0.2), 0.3)
        same.add_doc(task, doc, 1.0, 1.0)
    assert followed.read_state() == same.read_state()


@pytest.mark.parametrize(("weighting", "weight"), [("precision", 0.25), ("docs", 0.25), ("equal", 0.5)])
def test_the_mean_that_stops_has_the_weights_that_were_chosen(weighting: Weighting, weight: float) -> None:
    """Every doc of a quarter of all docs is lost."""
    tasks = [PairableDocs("a", list(range(64)), margin=0.999), PairableDocs("b", list(range(192)))]
    gate = Sequential(plan_rounds(tasks, weighting=weighting), 0.999)
    for task, docs in (("a", 64), ("b", 192)):
        for doc in range(docs):
            gate.add_doc(task, doc, 1.0, 0.0 if task == "a" else 1.0)
    assert gate.read_state().mean.drop == pytest.approx(weight, abs=0.02)
