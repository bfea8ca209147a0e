"""What pages quote is made by programs that work: CI runs each of benchmarks/ over little data, and here the verdicts."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from types import ModuleType

import pytest
from marks import thorough
from places import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"

# What they need is nowhere in CI, or CI has it elsewhere: MATH's and IFEval's problems; a taught model's tables; vLLM
# (tests/plugins/engines/real runs these programs, or what they call, on it).
ELSEWHERE = {
    "math_grading", "ifeval_grading", "fidelity_power", "engine", "choices", "prefixes", "fidelity",
    "real_model_diagnosis",
}  # fmt: skip
# No programs, but what several of them share.
SHARED = {
    "counting",
    "drawn_verdicts",
    "equality_samples",
    "load_faults",
    "load_model",
    "measuring",
    "peers_nel",
    "peers_same",
}


@pytest.fixture(scope="module")
def drawn() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(BENCHMARKS)
        yield import_module("drawn_verdicts")
        for name in ("drawn_verdicts", "counting", "stopping"):
            sys.modules.pop(name, None)


def test_ci_runs_every_benchmark_that_a_page_quotes() -> None:
    text = (REPOSITORY / ".ci/run").read_text(encoding="utf-8")
    (figures,) = re.findall(r"^figures\(\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    names = {path.stem for path in BENCHMARKS.glob("*.py")} - ELSEWHERE - SHARED
    assert names
    unnamed = {name for name in names if not re.search(rf"\b{name}\b", figures)}
    assert {name for name in unnamed if f"benchmarks/{name}.py --small" not in text} == set()


@thorough
def test_the_drawn_verdicts_go_the_whole_way_of_a_report(drawn: ModuleType) -> None:
    """An identical model ships, a much worse one does not, and what docs share is found."""
    rng = drawn.np.random.default_rng(3)
    tasks = [drawn.Task("plain", (3000,), 0.6, 0.02), drawn.Task("parts", (900, 600), 0.5, 0.02)]
    same, worse = drawn.judged(tasks, 0.0, rng), drawn.judged(tasks, 0.1, rng)
    assert (same.outcome, worse.outcome) == ("SHIP", "DON'T SHIP")
    assert {task.name: task.drop.clusters for task in same.tasks} == {"plain": 3000, "parts": 1500}


@pytest.mark.parametrize(("sizes", "clusters", "count"), [((320,), (16,) * 20, 20), ((40,) * 3, "across", 40)])
def test_the_quick_way_to_a_drop_is_the_reports(
    drawn: ModuleType, sizes: tuple[int, ...], clusters: tuple[int, ...] | str, count: int
) -> None:
    task = drawn.Task("clustered", sizes, 0.5, 0.3, clusters, 0.6)
    before, after, _, _ = drawn.draw(task, 0.02, drawn.np.random.default_rng(5))
    quick = drawn.drop_of(task, before.tolist(), after.tolist())
    (result,) = drawn.judged([task], 0.02, drawn.np.random.default_rng(5)).tasks
    assert (result.interval, result.drop.clusters) == (quick.interval(), count)
    assert replace(result.drop, influence={}) == replace(quick, influence={})


@thorough
def test_score_intervals_of_copies_hold_the_truth(drawn: ModuleType) -> None:
    """Thirty problems in 64 copies: without clusters one interval in four would."""
    task = drawn.Task("copies", (1920,), 0.5, 0.0, (64,) * 30)
    rng, held = drawn.np.random.default_rng(11), 0
    for _ in range(60):
        right = rng.random((30, 1)) < 0.5
        alike = rng.random((30, 64)) < 0.6**0.5
        verdicts = drawn.np.where(alike, right, rng.random((30, 64)) < 0.5).astype(float).ravel()
        scores = drawn.compute_scores(
            drawn.with_verdicts(drawn.docs_of(task), verdicts.tolist()), drawn.metric_of(task)
        )
        held += 0.5 in scores.interval
    assert held >= 51  # of 60 at 95 %: fewer in one of a thousand


def test_a_rate_or_a_number_of_docs_that_leaves_its_bounds_fails(
    drawn: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In so few runs as CI makes: what chance alone would bring passes."""
    stopping, counting = import_module("stopping"), import_module("counting")
    monkeypatch.setattr(counting.Table, "failed", 0)
    counting.rate(1, counting.SMALL, most=0.025)
    counting.rate(3, counting.SMALL, least=0.95)
    stopping.docs(drawn.np.array([200] * 8 + [500] * 2), 0.5, 300)
    assert counting.Table.failed == 0
    counting.rate(3, counting.SMALL, most=0.025)
    counting.rate(0, counting.SMALL, least=0.9)
    stopping.docs(drawn.np.array([500] * stopping.SMALL), 0.5, 300)
    assert counting.Table.failed == 3
    figures = (REPOSITORY / ".ci/run").read_text(encoding="utf-8")
    assert not re.search(r"stopping\.py \w", figures), "every table of stopping is run"
