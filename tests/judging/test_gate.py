"""The rules of a decision: which tasks, what they are compared with, what may be lost; and the exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command import cli
from hypothesis import given, settings
from hypothesis import strategies as st
from places import THOROUGH
from runs import entry, manifest, published, write_and_read, write_run

from meta_eval import stats
from meta_eval.base.errors import ConfigError
from meta_eval.harness.choice import Choice
from meta_eval.harness.lm_eval_run import Run, read_run
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.decision import NUMBER
from meta_eval.judge.gate import Gate, check_conditions, read_gate
from meta_eval.judge.runs import judge
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.pack.task_choice import choose_tasks

N = 200


def right(count: int, n: int = N) -> list[float]:
    return [1.0] * count + [0.0] * (n - count)


def at_the_gate(folder: Path, gate: Gate, verdicts: list[float], task: TaskEntry, **options: Any) -> RunDecision:
    run = write_and_read(folder, verdicts, **options)
    return judge(None, run, manifest(meta_some=task), gate=gate)


def against_baseline(
    folder: Path, gate: Gate, before: list[float], after: list[float], task: TaskEntry | None = None, **options: Any
) -> RunDecision:
    pack = manifest(meta_some=task or entry(len(before)))
    baseline = write_and_read(folder / "before", before)
    run = write_and_read(folder / "after", after, **options)
    return judge(baseline, run, pack, gate=gate)


def reason_of(result: RunDecision) -> str:
    return "; ".join(filter(None, (*result.decision.reasons, *(task.not_compared_reason for task in result.tasks))))


@pytest.mark.parametrize(
    ("count", "margin", "outcome", "code"),
    [(130, 12.0, "SHIP", 0), (130, 4.0, "UNDECIDED", 3), (100, 4.0, "DON'T SHIP", 1), (150, 1.0, "SHIP", 0)],
)
def test_a_drop_from_the_published_number(tmp_path: Path, count: int, margin: float, outcome: str, code: int) -> None:
    gate = Gate(margin=margin, baseline_kind="published")
    judgement = at_the_gate(tmp_path, gate, right(count), entry(N, published(65.0)), recorded=[True] * N)
    assert (judgement.decision.outcome, judgement.decision.exit_code) == (outcome, code)
    (task,) = judgement.decision.tasks
    assert task.drop == stats.unpaired_drop(0.65, right(count))
    assert task.margin == margin / 100


def test_a_drop_from_what_was_recorded(tmp_path: Path) -> None:
    recorded = [True] * 132 + [False] * 68
    gate = Gate(margin=5.0, baseline_kind="recorded")
    judgement = at_the_gate(tmp_path / "a", gate, right(130), entry(N), recorded=recorded)
    assert (judgement.decision.outcome, judgement.decision.tasks[0].drop.value) == ("SHIP", pytest.approx(0.01))
    assert at_the_gate(tmp_path / "b", gate, right(108), entry(N), recorded=recorded).decision.outcome == "DON'T SHIP"
    none = at_the_gate(tmp_path / "c", gate, right(130), entry(N, published(65.0)))
    assert none.decision.outcome == "UNDECIDED"
    assert "there are no recorded answers or verdicts to compare it with" in reason_of(none)


def test_what_is_no_verdict_is_nothing_to_decide_on(tmp_path: Path) -> None:
    task = entry(N, is_correct_metric="other,strict-match")
    judgement = at_the_gate(tmp_path, Gate(margin=2.5, baseline_kind="recorded"), right(130), task, recorded=[True] * N)
    assert (judgement.decision.outcome, judgement.decision.tasks) == ("UNDECIDED", ())


def test_a_drop_from_a_baseline(tmp_path: Path) -> None:
    gate = Gate(margin=5.0, baseline_kind="run")
    outcomes = [
        against_baseline(tmp_path / str(count), gate, right(130), right(count)).decision.outcome
        for count in (129, 105, 123)
    ]
    assert outcomes == ["SHIP", "DON'T SHIP", "UNDECIDED"]


def test_a_comparison_may_be_decided_by_the_published_number(tmp_path: Path) -> None:
    gate = Gate(margin=12.0, baseline_kind="published")
    judgement = against_baseline(tmp_path, gate, right(180), right(130), entry(N, published(65.0)))
    assert (judgement.decision.outcome, judgement.tasks[0].baseline_label) == ("SHIP", NUMBER)
    assert judgement.tasks[0].flips is not None and judgement.tasks[0].flips.baseline_only == 50


@pytest.mark.parametrize("kind", ["published", "recorded", "run"])
def test_an_unfinished_task_is_never_a_pass(tmp_path: Path, kind: Any) -> None:
    task = entry(N + 1, published(1.0))
    run = write_and_read(tmp_path, right(130), recorded=[False] * N)
    pack, gate = manifest(meta_some=task), Gate(margin=50.0, baseline_kind=kind)
    result = judge(run, run, pack, gate=gate) if kind == "run" else judge(None, run, pack, gate=gate)
    assert result.decision.exit_code == 3
    assert f"{N} of {N + 1} docs" in reason_of(result)


@pytest.mark.parametrize("kind", ["recorded", "run"])
def test_enough_docs_are_enough_when_the_gate_says_so(tmp_path: Path, kind: Any) -> None:
    docs = 1000
    recorded = [True] * 650 + [False] * 350
    run = write_and_read(tmp_path, right(650, docs), recorded=recorded, config={"limit": float(docs)})
    pack = manifest(meta_some=entry(2 * docs))

    def decided(min_docs: int) -> RunDecision:
        gate = Gate(margin=5.0, baseline_kind=kind, min_docs=min_docs)
        return judge(run, run, pack, gate=gate) if kind == "run" else judge(None, run, pack, gate=gate)

    assert decided(docs).decision.outcome == "SHIP"
    more = decided(docs + 1)
    assert more.decision.outcome == "UNDECIDED"
    assert "1,000 docs, and 1,001 are asked for" in reason_of(more)


@pytest.mark.parametrize("kind", ["recorded", "run"])
@pytest.mark.parametrize(
    ("config", "kept", "outcome"),
    [
        ({}, range(188), "UNDECIDED"),  # nothing says why the last docs are missing
        ({"limit": 188.0}, range(188), "SHIP"),
        ({"limit": 188.0}, [*range(80), *range(92, N)], "UNDECIDED"),
        ({"limit": 200.0}, range(188), "UNDECIDED"),
        ({"limit": 0.94}, range(188), "SHIP"),
        ({"limit": 0.95}, range(188), "UNDECIDED"),
        ({"meta_eval": {"stopped": {"outcome": "SHIP", "margin": 0.05, "docs": 188, "of": N}}}, range(188), "SHIP"),
    ],
)
def test_docs_that_the_run_did_not_answer_forbid_ship_whatever_the_gate_asks_for(
    tmp_path: Path, kind: Any, config: dict[str, Any], kept: Sequence[int], outcome: str
) -> None:
    """Of 200 docs 12 are missing. All others are as in the baseline."""
    verdicts, recorded = right(130), [True] * 130 + [False] * 70
    extra = {"n-samples": {"meta_some": {"original": N, "effective": len(kept)}}}
    run = write_and_read(
        tmp_path / "b", verdicts, recorded=recorded, order=kept, config=config,
        extra=extra | {"results": {"meta_some": {}}},
    )  # fmt: skip
    pack, gate = manifest(meta_some=entry(N)), Gate(margin=5.0, baseline_kind=kind, min_docs=180)
    if kind == "run":
        judgement = judge(write_and_read(tmp_path / "a", verdicts, recorded=recorded), run, pack, gate=gate)
    else:
        judgement = judge(None, run, pack, gate=gate)
    assert judgement.decision.outcome == outcome


def test_enough_docs_are_not_enough_beside_a_published_number(tmp_path: Path) -> None:
    run = write_and_read(tmp_path, right(130), config={"limit": float(N)})
    judgement = judge(
        None, run, manifest(meta_some=entry(2 * N, published(65.0))), gate=Gate(margin=12.0, min_docs=180)
    )
    assert judgement.decision.outcome == "UNDECIDED"


def test_a_task_that_is_not_asked_for_does_not_decide(tmp_path: Path) -> None:
    write_run(tmp_path, right(130))
    write_run(tmp_path, right(60), task="meta_other", time="2026-01-02T03-04-06")
    pack = manifest(meta_some=entry(N, published(65.0)), meta_other=entry(N, published(65.0)), meta_third=entry(3))
    run = read_run([tmp_path])
    assert judge(None, run, pack, gate=Gate(margin=12.0)).decision.exit_code == 1
    judgement = judge(None, run, pack, gate=Gate(margin=12.0, tasks=["meta_some"]))
    assert (
        judgement.decision.exit_code,
        {task.name: task.not_compared_reason for task in judgement.tasks}["meta_other"],
    ) == (
        0,
        "left out by the gate",
    )
    own = Gate.model_validate({"margin": 12.0, "tasks": {"meta_some": None, "meta_other": {"margin": 25}}})
    decided = judge(None, run, pack, gate=own).decision
    assert {task.name: task.margin for task in decided.tasks} == {"meta_some": 0.12, "meta_other": 0.25}


@pytest.fixture(scope="module")
def three_tasks(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of three tasks; no test changes it."""
    folder = tmp_path_factory.mktemp("three")
    for place, task in enumerate(("meta_some", "meta_other", "third")):
        write_run(folder, right(26, 40) if place else right(13, 20), task=task, time=f"2026-01-0{place + 1}T03-04-06")
    return read_run([folder])


def pack_of_three(**keys: Any) -> Manifest:
    tasks = {"meta_some": 20, "meta_other": 40, "third": 40}
    pack = manifest(**{name: entry(docs, published(65.0)) for name, docs in tasks.items()})
    groups = {"both": ("meta_some", "third")}
    return pack.model_copy(update={"run_settings": pack.run_settings.model_copy(update=keys), "groups": groups})


@pytest.mark.parametrize(
    ("margin", "expected"),
    [
        ({"meta_some": 4}, (1, 4, 1, 1)),
        ({"mean": 2, "both": 3}, (2, 3, 2, 3)),
        ({"mean": 2, "meta_*": 5, "both": 3, "third": 7}, (2, 3, 5, 7)),
        ({"third": 7, "both": 3, "*": 5}, (1, 3, 5, 7)),
    ],
)
@pytest.mark.parametrize("whose", ["pack", "gate", "file"])
def test_margins_by_task_group_and_pattern(
    tmp_path: Path, three_tasks: Run, margin: dict[str, float], expected: tuple[float, ...], whose: str
) -> None:
    """The same spelling in the configuration, whose pack keeps it, and in a gate."""
    (tmp_path / "gate.yaml").write_text(json.dumps({"margin": margin}), encoding="utf-8")
    rules = {"pack": Gate(), "gate": Gate(margin=margin), "file": read_gate(tmp_path / "gate.yaml")}[whose]
    pack = pack_of_three(margin=margin) if whose == "pack" else pack_of_three(margin=9.0)
    judged, compared = (
        judge(None, three_tasks, pack, gate=rules),
        judge(three_tasks, three_tasks, pack, gate=rules),
    )
    for decided in (judged.decision, compared.decision):
        margins = (decided.margin, *(task.margin for task in sorted(decided.tasks, key=lambda task: task.name)))
        mean, some, other, third = expected
        assert margins == pytest.approx([mean / 100, other / 100, some / 100, third / 100])


def test_a_margin_of_no_task_stops_with_its_key(three_tasks: Run) -> None:
    with pytest.raises(
        ConfigError, match="margin: meta_sone: there is no such task or group; did you mean 'meta_some'"
    ):
        judge(None, three_tasks, pack_of_three(), gate=Gate(margin={"mean": 1, "meta_sone": 3}))


def test_a_rule_of_a_task_goes_before_the_mapping(three_tasks: Run) -> None:
    rules = Gate(margin={"meta_*": 4}, tasks=[{"meta_some": {"margin": 6}}, "meta_other"])
    decided = judge(None, three_tasks, pack_of_three(), gate=rules).decision
    assert {task.name: task.margin for task in decided.tasks} == {"meta_some": 0.06, "meta_other": 0.04}


def test_rules_of_a_task_leave_no_other_out(three_tasks: Run) -> None:
    """A limit for one task must not hide a loss of another."""
    whole = judge(None, three_tasks, pack_of_three(), gate=Gate(margin=4.0)).decision
    ruled = judge(
        None, three_tasks, pack_of_three(), gate=Gate(margin=4.0, tasks={"meta_some": {"margin": 6}})
    ).decision
    assert [task.name for task in ruled.tasks] == [task.name for task in whole.tasks]
    assert {task.margin for task in ruled.tasks if task.name != "meta_some"} == {0.04}
    assert {task.margin for task in ruled.tasks if task.name == "meta_some"} == {0.06}
    fewer = judge(
        None, three_tasks, pack_of_three(), gate=Gate(tasks={"meta_some": {"margin": 6}, "-meta_other": None})
    )
    assert {task.name for task in whole.tasks} - {task.name for task in fewer.decision.tasks} == {"meta_other"}


@pytest.mark.parametrize(
    ("weights", "expected"), [("precision", (0.4, 0.2, 0.4)), ("docs", (0.4, 0.2, 0.4)), ("equal", (1 / 3,) * 3)]
)
@pytest.mark.parametrize("whose", ["pack", "gate"])
def test_weights_are_the_gates_or_the_packs(
    three_tasks: Run, weights: Any, expected: tuple[float, ...], whose: str
) -> None:
    run, pack = three_tasks, pack_of_three(**({"weights": weights} if whose == "pack" else {}))
    decided = judge(run, run, pack, gate=Gate(weights=weights if whose == "gate" else None)).decision
    assert decided.weights == weights
    assert [task.weight for task in decided.tasks] == pytest.approx(expected)


def test_the_gate_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(
        "margin: 1\nbaseline_kind: recorded\nmin_docs: 100\ntasks:\n  meta_a:\n  meta_b: {margin: 2.5, baseline_kind: published}\n",
        encoding="utf-8",
    )
    gate = read_gate(path)
    assert (gate.margin, gate.task_rules("meta_a").margin, gate.task_rules("meta_a").baseline_kind) == (
        1.0,
        None,
        "recorded",
    )
    assert (gate.task_rules("meta_b").margin, gate.task_rules("meta_b").baseline_kind) == (2.5, "published")
    assert gate.task_rules("meta_b").min_docs == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("margin: 1\nmargn: 2\n", "margn: there is no such key; did you mean 'margin'?"),
        ("margin: 1\ntasks: {a: {min_doc: 2}}\n", "tasks.a.min_doc: there is no such key; did you mean 'min_docs'?"),
        ("margin: -1\n", "margin: -1 is not allowed"),
        ("margin: {mean: 1, a: 0}\n", "'a': 0 is not a number of points above 0 and below 100"),
        ("weights: size\n", "weights: 'size' is not allowed"),
        ("margin: 0\n", "margin: 0 is not allowed"),
        ("margin: .nan\n", "'.nan' is no finite number"),
        ("margin: 1\nbaseline_kind: luck\n", "baseline_kind: 'luck' is not allowed"),
        ("margin: 1\nmin_docs: 0\n", "min_docs: 0 is not allowed"),
        ("margin: 1\ntasks: 3\n", "tasks: 3 is not allowed"),
        ("tasks: [a, {a: {cap: 2}}]\n", "a is named twice"),
        ("tasks: []\n", "tasks: [] is not allowed: an empty list chooses no task; leave the key out for all"),
        ("tasks: [{a: {cap: .nan}}]\n", "'.nan' is no finite number"),
        ("tasks: [{a: {cap: 0}}]\n", "tasks.a.cap: 0 is not allowed"),
        ("tasks: [{a: 3}]\n", "tasks.a: 3 is not allowed"),
        ("tasks: [a, null]\n", "tasks: "),
        ("tasks: [[a]]\n", "tasks: "),
        ("tasks: [{1: {cap: 2}}]\n", "the key 1 is not text"),
        ("- 1\n", "[1] is not allowed"),
        ("", "None is not allowed"),
        ("margin: [\n", "is not YAML"),
        ("margin: -1\nweights: size\n", "margin: -1 is not allowed"),
        ("margin: -1\nweights: size\n", "weights: 'size' is not allowed"),
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
    with pytest.raises(ConfigError, match="unknown task 'meta_sone'; did you mean 'meta_some'"):
        at_the_gate(tmp_path, Gate(margin=1.0, tasks=["meta_sone"]), right(130), entry(N, published(65.0)))


def test_a_baseline_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a baseline run of meta_some"):
        at_the_gate(tmp_path, Gate(margin=1.0, baseline_kind="run"), right(130), entry(N))


@pytest.mark.parametrize(
    ("rules", "notes"),
    [
        ({"cap": 1}, ("the cap of meta_some is below the margin, so the margin counts",)),
        ({"tasks": {"meta_some": {"cap": 2.5}}}, ("the cap of meta_some is below the margin, so the margin counts",)),
        ({"cap": 5}, ()),
        ({}, ()),
    ],
)
def test_a_cap_below_the_margin_has_no_effect_and_is_noted(
    tmp_path: Path, rules: dict[str, Any], notes: tuple[str, ...]
) -> None:
    gate = Gate.model_validate({"margin": 5.0, **rules})
    result = against_baseline(tmp_path, gate, right(120), right(119))
    assert (result.decision.outcome, result.notes) == ("SHIP", notes)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_and_read(tmp_path_factory.mktemp("run"), right(120))


@settings(max_examples=30 if THOROUGH else 6, deadline=None)
@given(st.floats(0.01, 99), st.floats(0.01, 99))
def test_a_wider_margin_never_stops_what_a_narrower_lets_through(run: Run, first: float, other: float) -> None:
    pack = manifest(meta_some=entry(N, published(65.0)))
    narrow, wide = (judge(None, run, pack, gate=Gate(margin=at)).decision.outcome for at in sorted((first, other)))
    order = ("DON'T SHIP", "UNDECIDED", "SHIP")
    assert order.index(wide) >= order.index(narrow)


# Conditions on the answers


def limited(
    folder: Path, limits: dict[str, float], *, of_task: bool = False, docs: int = N, **options: Any
) -> RunDecision:
    """A run that loses nothing, under these limits."""
    rules = {"tasks": {"meta_some": {"limits": limits}}} if of_task else {"limits": limits}
    gate = Gate.model_validate({"margin": 12.0, "baseline_kind": "published", **rules})
    task = entry(docs, published(65.0))
    return at_the_gate(folder, gate, right(65 * docs // 100, docs), task, recorded=[True] * docs, **options)


@pytest.mark.parametrize(
    ("line", "limits", "outcome", "reason"),
    [
        ({}, {"unextracted": 0, "empty": 0}, "SHIP", ""),
        ({"unextracted": 1.0}, {"unextracted": 99.9}, "DON'T SHIP", "1,000 of 1,000 are answers in which nothing was found"),
        ({"metrics": ["exact_match"], "filtered_resps": ["[invalid]"]}, {"unextracted": 5}, "DON'T SHIP", "and 5 % are allowed"),
        (
            {"metrics": ["exact_match"], "filtered_resps": [], "resps": [["x"]]}, {"unextracted": 5}, "UNDECIDED",
            "of 1,000 of 1,000 it is not known whether they are answers in which nothing was found",
        ),
        ({"finish_reason": "length"}, {"cut": 50}, "UNDECIDED", "answers that reached the token limit, and 50 %"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("of_task", [False, True])
def test_a_condition_on_the_answers_decides_whatever_the_score_is(
    tmp_path: Path, line: dict[str, Any], limits: dict[str, float], outcome: str, reason: str, of_task: bool
) -> None:
    docs = 1000 if "1,000" in reason else N
    result = limited(tmp_path, limits, of_task=of_task, docs=docs, line=line)
    assert result.decision.outcome == outcome
    assert reason in "; ".join(alarm.tasks[0].note or "" for alarm in result.alarms if alarm.kind.startswith("gate"))
    assert not reason or reason in reason_of(result)


def test_so_few_answers_of_which_it_is_not_known_cannot_exceed_the_limit(tmp_path: Path) -> None:
    line = {"metrics": ["exact_match"], "filtered_resps": [], "resps": [["x"]]}
    known, unknown = (
        write_and_read(tmp_path / name, [1.0] * 10, line=own).tasks["meta_some"].docs
        for name, own in (("known", {}), ("unknown", line))
    )
    docs = [*known[:9], unknown[9]]
    assert list(check_conditions("meta_some", docs, "strict-match", {"unextracted": 20})) == []
    assert [severity for severity, _ in check_conditions("meta_some", docs, "strict-match", {"unextracted": 5})] == [
        "gate not met"
    ]


def test_without_limits_nothing_is_asked_of_the_answers(tmp_path: Path) -> None:
    result = limited(tmp_path, {}, line={"metrics": ["exact_match"], "filtered_resps": []})
    assert [alarm.kind for alarm in result.alarms if alarm.kind.startswith("gate")] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("limits: {unextraced: 5}", "there is no condition 'unextraced'; did you mean 'unextracted'?"),
        ("limits: {empty: 100}", "limits.empty: 100 is not allowed"),
        ("limits: 5", "limits: 5 is not allowed"),
    ],
)
def test_a_limit_that_cannot_be_is_one_message(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "gate.yaml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(words)):
        read_gate(tmp_path / "gate.yaml")


@pytest.mark.parametrize(
    ("names", "decided"),
    [
        (["-meta_b"], ["meta_a", "other"]),
        (["meta_*"], ["meta_a", "meta_b"]),
        (["meta_*", "-meta_b"], ["meta_a"]),
        (["-meta_*"], ["other"]),
        (["some", "-meta_a"], ["other"]),
    ],
)
def test_names_of_a_gate_are_chosen_as_everywhere(names: list[str], decided: list[str]) -> None:
    tasks, groups = ["meta_a", "meta_b", "other"], {"some": ("meta_a", "other")}
    gate, default = Gate.model_validate({"tasks": names}).choose(tasks, groups)
    assert (list(gate.tasks) or default) == decided
    of_pack = Manifest.model_construct(tasks=dict.fromkeys(tasks), groups=groups)
    assert choose_tasks(of_pack, names) == decided
    assert Choice.of_names(names).of(tasks, groups) == decided


def test_a_tasks_own_rule_of_a_gate_goes_before_a_patterns() -> None:
    rules = {"meta_*": {"margin": 3}, "meta_b": {"margin": 2}}
    gate, _ = Gate.model_validate({"tasks": rules}).choose(["meta_a", "meta_b"], {})
    assert {name: rule.margin for name, rule in gate.tasks.items()} == {"meta_b": 2, "meta_a": 3}
    for names, message in ((["-meta_*"], "no task is left"), (["x_*"], "tasks: unknown task 'x_*'")):
        with pytest.raises(ConfigError, match=re.escape(message)):
            Gate.model_validate({"tasks": names}).choose(["meta_a", "meta_b"], {})


def test_a_margin_of_no_task_names_the_file_of_the_gate(tmp_path: Path) -> None:
    for name in "ab":
        write_run(tmp_path / name, right(30, 50))
    (tmp_path / "g.yaml").write_text("margin: {mean: 1, meta_smoe: 3}")
    done = cli("compare", "a", "b", "--gate", "g.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr[:37]) == (2, "error: g.yaml: margin: meta_smoe: the")


@pytest.mark.parametrize(
    ("text", "said"), [("margin: 0.01", 1), ("margin: {mean: 0.01}", 1), ("margin: 0.1", 0), ("cap: 2", 0)]
)  # fmt: skip
def test_a_margin_that_may_be_meant_as_a_share_has_one_note(tmp_path: Path, text: str, said: int) -> None:
    for name in "ab":
        write_run(tmp_path / name, right(30, 50))
    (tmp_path / "g.yaml").write_text(text)
    done = cli("compare", "a", "b", "--gate", "g.yaml", cwd=tmp_path)
    assert done.stderr.count("is 0.01 points, not 1 percent") == said


def test_a_rule_beside_a_name_with_a_minus_chooses_no_task(tmp_path: Path) -> None:
    """Where rules are a mapping, only a minus leaves a task out."""
    for name in "ab":
        write_run(tmp_path / name, right(30, 50))
        write_run(tmp_path / name, right(30, 50), task="meta_other", time="2026-01-02T03-04-06")
    (tmp_path / "g.yaml").write_text("tasks: {meta_some: {margin: 1}, -meta_some: {}}\n", encoding="utf-8")
    tasks = json.loads(cli("compare", "a", "b", "--gate", "g.yaml", "--json", cwd=tmp_path).stdout)["tasks"]
    reasons = {task["name"]: task["not_compared_reason"] for task in tasks}
    assert reasons == {"meta_other": None, "meta_some": "left out by the gate"}


@pytest.mark.parametrize("others", [(), ("c",)])
def test_a_task_that_the_gate_leaves_out_is_named_once_and_not_called_undecided(
    tmp_path: Path, others: Sequence[str]
) -> None:
    for count, folder in enumerate("abc", 30):
        write_run(tmp_path / folder, right(count, 50))
        write_run(tmp_path / folder, right(count, 50), task="meta_other", time="2026-01-02T03-04-06")
    (tmp_path / "g.yaml").write_text("tasks: {-meta_other: {}}\n", encoding="utf-8")
    done = cli("compare", "a", "b", *others, "--gate", "g.yaml", "--json", cwd=tmp_path)
    text = cli("compare", "a", "b", *others, "--gate", "g.yaml", cwd=tmp_path, COLUMNS="300").stdout
    assert text.count("eft out by the gate: meta_other") == 1
    assert not re.search(r"meta_other +undecided", text)
    if not others:
        tasks = {task["name"]: task for task in json.loads(done.stdout)["tasks"]}
        assert tasks["meta_other"]["not_compared_reason"] == "left out by the gate"
        assert tasks["meta_other"]["drop"] is None
