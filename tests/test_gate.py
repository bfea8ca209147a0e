"""The gate: from intervals to GO, NO-GO or INCONCLUSIVE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import entry, manifest, published, write_run

from meta_eval.errors import ConfigError
from meta_eval.judging.compare import compare
from meta_eval.judging.gate import Gate, GateOutcome, decide, read_gate
from meta_eval.judging.judge import TaskJudgement, judge
from meta_eval.pack.manifest import TaskEntry
from meta_eval.results.run import read_run

N = 1000


def right(count: int, n: int = N) -> list[float]:
    return [1.0] * count + [0.0] * (n - count)


def at_the_gate(folder: Path, gate: Gate, verdicts: list[float], task: TaskEntry, **options: Any) -> GateOutcome:
    run = read_run([write_run(folder, verdicts, **options)])
    return decide(gate, judge(run, manifest(meta_some=task)))


def against_baseline(
    folder: Path, gate: Gate, before: list[float], after: list[float], task: TaskEntry | None = None, **options: Any
) -> GateOutcome:
    pack = manifest(meta_some=task or entry(len(before)))
    baseline = read_run([write_run(folder / "before", before)])
    run = read_run([write_run(folder / "after", after, **options)])
    return decide(gate, judge(run, pack), compare(baseline, run, pack))


@pytest.mark.parametrize(
    ("count", "max_drop", "outcome", "code"),
    [
        (650, 5.0, "GO", 0),
        (650, 2.0, "INCONCLUSIVE", 3),
        (580, 2.0, "NO-GO", 1),
        (700, 0.0, "GO", 0),
        (650, 0.0, "INCONCLUSIVE", 3),
    ],
)
def test_a_drop_from_the_published_number(tmp_path: Path, count: int, max_drop: float, outcome: str, code: int) -> None:
    found = at_the_gate(tmp_path, Gate(max_drop=max_drop), right(count), entry(N, published(65.0)))
    assert (found.outcome, found.exit_code) == (outcome, code)
    (task,) = found.tasks
    assert task.drop == pytest.approx(65.0 - count / 10)
    assert task.interval is not None
    assert task.drop in task.interval
    assert (task.reason is None) == (outcome != "INCONCLUSIVE")


def test_a_drop_from_recorded_verdicts(tmp_path: Path) -> None:
    recorded = [True] * 660 + [False] * 340
    gate = Gate(max_drop=2.5, against="recorded")
    found = at_the_gate(tmp_path / "a", gate, right(650), entry(N), recorded=recorded)
    assert (found.outcome, found.tasks[0].drop) == ("GO", pytest.approx(1.0))
    assert at_the_gate(tmp_path / "b", gate, right(600), entry(N), recorded=recorded).outcome == "NO-GO"
    none = at_the_gate(tmp_path / "c", gate, right(650), entry(N))
    assert (none.outcome, none.tasks[0].reason) == (
        "INCONCLUSIVE",
        "there are no recorded verdicts to hold this run against",
    )


def test_what_is_no_verdict_is_nothing_to_gate_on(tmp_path: Path) -> None:
    task = entry(N, reading="other,strict-match")
    gate = Gate(max_drop=2.5, against="recorded")
    found = at_the_gate(tmp_path, gate, right(650), task, recorded=[True] * N)
    assert found.outcome == "INCONCLUSIVE"
    assert "is no verdict" in str(found.tasks[0].reason)


def test_a_drop_from_a_baseline(tmp_path: Path) -> None:
    gate = Gate(max_drop=2.0, against="baseline")
    assert against_baseline(tmp_path / "a", gate, right(650), right(645)).outcome == "GO"
    assert against_baseline(tmp_path / "b", gate, right(650), right(600)).outcome == "NO-GO"
    assert against_baseline(tmp_path / "c", gate, right(650), right(630)).outcome == "INCONCLUSIVE"


def test_a_baseline_made_otherwise_decides_nothing(tmp_path: Path) -> None:
    gate = Gate(max_drop=50.0, against="baseline")
    found = against_baseline(tmp_path, gate, right(650), right(650), config={"gen_kwargs": {"temperature": 1}})
    assert found.outcome == "INCONCLUSIVE"
    assert "generation settings" in str(found.tasks[0].reason)


@pytest.mark.parametrize("against", ["published", "recorded", "baseline"])
def test_an_unfinished_task_is_never_a_pass(tmp_path: Path, against: Any) -> None:
    task = entry(N + 1, published(1.0))
    run = read_run([write_run(tmp_path, right(650), recorded=[False] * N)])
    pack = manifest(meta_some=task)
    found = decide(Gate(max_drop=50.0, against=against), judge(run, pack), compare(run, run, pack))
    assert found.exit_code == 3
    assert f"{N} of {N + 1} docs" in str(found.tasks[0].reason)


@pytest.mark.parametrize("against", ["recorded", "baseline"])
def test_enough_docs_are_enough_when_the_gate_says_so(tmp_path: Path, against: Any) -> None:
    run = read_run([write_run(tmp_path, right(650), recorded=[True] * 650 + [False] * 350)])
    pack = manifest(meta_some=entry(2 * N))
    judged, compared = judge(run, pack), compare(run, run, pack)
    assert decide(Gate(max_drop=5.0, against=against, min_docs=N), judged, compared).outcome == "GO"
    found = decide(Gate(max_drop=5.0, against=against, min_docs=N + 1), judged, compared)
    assert (found.outcome, found.tasks[0].reason) == ("INCONCLUSIVE", "1000 docs, and 1001 are asked for")


@pytest.mark.parametrize("against", ["published", "recorded"])
def test_a_missing_task_is_never_a_pass(tmp_path: Path, against: Any) -> None:
    run = read_run([write_run(tmp_path, right(650), recorded=[False] * N)])
    pack = manifest(meta_some=entry(N, published(1.0)), meta_other=entry(N, published(1.0)))
    found = decide(Gate(max_drop=50.0, against=against), judge(run, pack))
    assert found.exit_code == 3
    assert {one.task: (one.outcome, one.reason) for one in found.tasks} == {
        "meta_other": ("INCONCLUSIVE", "this task was not run"),
        "meta_some": ("GO", None),
    }


def test_a_task_missing_from_the_run_but_not_from_the_baseline(tmp_path: Path) -> None:
    write_run(tmp_path / "before", right(650), time="2026-01-01T00-00-00")
    write_run(tmp_path / "before", right(650), task="meta_other", time="2026-01-01T00-00-01")
    baseline = read_run([tmp_path / "before"])
    run = read_run([write_run(tmp_path / "after", right(650))])
    found = decide(Gate(max_drop=5.0, against="baseline"), judge(run, None), compare(baseline, run))
    assert found.exit_code == 3
    assert [(one.task, one.outcome) for one in found.tasks] == [("meta_other", "INCONCLUSIVE"), ("meta_some", "GO")]


def test_what_cannot_be_compared_is_never_a_pass(tmp_path: Path) -> None:
    found = at_the_gate(
        tmp_path, Gate(max_drop=99.0), right(650), entry(N, published(1.0, same_settings=False, note="0-shot"))
    )
    assert found.exit_code == 3
    assert "another way" in str(found.tasks[0].reason)


def test_nothing_is_never_a_pass() -> None:
    assert decide(Gate(max_drop=99.0), ()).exit_code == 3


def test_one_task_that_fails_fails_all(tmp_path: Path) -> None:
    write_run(tmp_path, right(650), time="2026-01-01T00-00-00")
    write_run(tmp_path, right(500), task="meta_other", time="2026-01-01T00-00-01")
    pack = manifest(meta_some=entry(N, published(65.0)), meta_other=entry(N, published(65.0)))
    judged = judge(read_run([tmp_path]), pack)
    assert decide(Gate(max_drop=5.0), judged).exit_code == 1
    assert decide(Gate(max_drop=5.0, tasks=["meta_some"]), judged).exit_code == 0
    own = Gate.model_validate({"max_drop": 5.0, "tasks": {"meta_some": None, "meta_other": {"max_drop": 20}}})
    found = decide(own, judged)
    assert (found.outcome, [one.max_drop for one in found.tasks]) == ("GO", [5.0, 20.0])


def test_the_gate_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(
        "max_drop: 1\nagainst: recorded\nmin_docs: 100\ntasks:\n  meta_a:\n  meta_b: {max_drop: 2.5, against: published}\n",
        encoding="utf-8",
    )
    gate = read_gate(path)
    assert (gate.rule("meta_a").max_drop, gate.rule("meta_a").against) == (1.0, "recorded")
    assert (gate.rule("meta_b").max_drop, gate.rule("meta_b").against) == (2.5, "published")
    assert gate.rule("meta_b").min_docs == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_drop: 1\nmaxdrop: 2\n", "maxdrop: there is no such key; did you mean 'max_drop'?"),
        ("max_drop: 1\ntasks: {a: {min_doc: 2}}\n", "tasks.a.min_doc: there is no such key; did you mean 'min_docs'?"),
        ("against: published\n", "max_drop: is not set"),
        ("max_drop: -1\n", "max_drop: -1 is not allowed"),
        ("max_drop: .nan\n", "'.nan' is no finite number"),
        ("max_drop: 1\nagainst: luck\n", "against: 'luck' is not allowed"),
        ("max_drop: 1\nmin_docs: 0\n", "min_docs: 0 is not allowed"),
        ("max_drop: 1\ntasks: 3\n", "tasks: 3 is not allowed"),
        ("- 1\n", "[1] is not allowed"),
        ("", "None is not allowed"),
        ("max_drop: [\n", "is not YAML"),
    ],
)
def test_what_a_gate_file_cannot_say(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_gate(path)
    assert message in str(caught.value)
    assert str(caught.value.where).startswith(str(path))


def test_a_gate_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_gate(tmp_path / "gate.yaml")


def test_a_misspelt_task_is_no_silent_gap(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no task 'meta_sone' here; did you mean 'meta_some'"):
        at_the_gate(tmp_path, Gate(max_drop=1.0, tasks=["meta_sone"]), right(650), entry(N, published(65.0)))


def test_a_baseline_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a baseline run"):
        at_the_gate(tmp_path, Gate(max_drop=1.0, against="baseline"), right(650), entry(N))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[TaskJudgement, ...]:
    run = read_run([write_run(tmp_path_factory.mktemp("run"), right(600))])
    return judge(run, manifest(meta_some=entry(N, published(65.0))))


@given(st.floats(0, 100), st.floats(0, 100))
def test_a_wider_gate_never_stops_what_a_narrower_lets_through(
    judged: tuple[TaskJudgement, ...], one: float, other: float
) -> None:
    narrow, wide = (decide(Gate(max_drop=drop), judged).outcome for drop in sorted((one, other)))
    order = ("NO-GO", "INCONCLUSIVE", "GO")
    assert order.index(wide) >= order.index(narrow)
