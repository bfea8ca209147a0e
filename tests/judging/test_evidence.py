"""Evidence of plug-ins: rules of the gate, alarms, conditions and sections of a report."""

from __future__ import annotations

import importlib.util
import json
import math
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from command import cli
from places import REPOSITORY
from runs import write_run

from meta_eval.base import extensions
from meta_eval.judge import evidence
from meta_eval.judge.alarm_kinds import Condition, DocsAbove
from meta_eval.sockets import AlarmKind, AlarmOccurrence, Evidence, EvidenceCase, Findings

EXAMPLE = REPOSITORY / "examples" / "length_evidence.py"
EQUAL = [1.0] * 60 + [0.0] * 40


def offer(monkeypatch: pytest.MonkeyPatch, **objects: Any) -> None:
    """Evidence, as if a package had it with entry points."""

    class Point(EntryPoint):
        def load(self) -> Any:
            if isinstance(objects[self.name], Exception):
                raise objects[self.name]
            return objects[self.name]

    points = [Point(name, "some:Thing", evidence.EVIDENCE_GROUP) for name in objects]
    monkeypatch.setattr(extensions, "entry_points", lambda group: points if group == evidence.EVIDENCE_GROUP else [])
    monkeypatch.setattr(extensions, "_LOADED", {})


@pytest.fixture
def length(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("length_evidence", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    offer(monkeypatch, length=module.LengthEvidence)


@pytest.fixture
def sides(tmp_path: Path) -> Path:
    """Two runs with the same verdicts; B writes half as much."""
    write_run(tmp_path / "a", EQUAL, line={"completion_tokens": 100})
    write_run(tmp_path / "b", EQUAL, line={"completion_tokens": 50})
    return tmp_path


def compare(folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    done = cli("compare", "a", "b", "--json", *more, cwd=folder)
    assert done.returncode in (0, 1, 3), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.usefixtures("length")
@pytest.mark.parametrize(("gate", "code"), [("margin: 5", 3), ("margin: 5\nlength: {shortest: 0.4}", 0)])
def test_the_example_forbids_ship_unless_its_rule_allows_it(sides: Path, gate: str, code: int) -> None:
    (sides / "gate.yaml").write_text(gate, encoding="utf-8")
    ended, tree = compare(sides, "--gate", "gate.yaml", "--html", "page.html", "--markdown", "card.md")
    assert (ended, tree["length"]) == (code, {"meta_some": 0.5})
    vetoes = ["shorter answers: meta_some (50% of the baseline's)"] if code else []
    assert tree["decision"]["vetoes"] == vetoes
    assert [alarm["kind"] for alarm in tree["alarms"]] == ["shorter answers"] * bool(code)
    for view in ("page.html", "card.md"):
        assert "Length beside the baseline" in (sides / view).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("length: {shortest: much}", "length.shortest: 'much' is not allowed"),
        ("length: {shortst: 0.5}", "length.shortst: there is no such key; did you mean 'shortest'?"),
        ("lenght: {shortest: 0.5}", "lenght: there is no such key; did you mean 'length'?"),
        ("length: null", "length: "),
        ("limits: {shouted: 5}", "there is no condition 'shouted'"),
    ],
)
@pytest.mark.usefixtures("length")
def test_a_mistake_in_its_rules_is_told_as_any_other_of_the_gate(sides: Path, gate: str, message: str) -> None:
    (sides / "gate.yaml").write_text(gate, encoding="utf-8")
    done = cli("compare", "a", "b", "--gate", "gate.yaml", cwd=sides)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"gate.yaml: {message}" in done.stderr or message in done.stderr


def test_without_the_package_its_key_is_unknown_and_nothing_of_it_is_shown(
    sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch)
    assert "length" not in compare(sides)[1]
    (sides / "gate.yaml").write_text("length: {shortest: 0.4}", encoding="utf-8")
    done = cli("compare", "a", "b", "--gate", "gate.yaml", cwd=sides)
    assert (done.returncode, "length: there is no such key" in done.stderr) == (2, True)


class Facts(Evidence):
    """Every effect that a kind of alarm may have, and a condition."""

    alarm_kinds = (
        AlarmKind("failing", "It fails.", fails=True),
        AlarmKind("invalid", "It is invalid.", invalid=True),
        AlarmKind("said", "It is said first.", first=True),
    )
    conditions = (Condition("odd", "docs with an odd number", "gate failed", lambda doc, _: doc.doc_id % 2 == 1),)
    raised: tuple[Any, ...] = ()

    def find(self, case: EvidenceCase) -> Findings:
        return Findings(self.raised, notes=(f"{1 + bool(case.baseline)} runs, {len(case.places)} places",))


def with_rule(rule: Any) -> type[Evidence]:
    return type("Ruled", (Evidence,), {"alarm_kinds": (AlarmKind("odd", "Odd.", docs=rule),)})


@pytest.mark.parametrize(
    ("kind", "veto", "outcome", "code"),
    [
        ("failing", True, "DON'T SHIP", 1),
        ("failing", False, "SHIP", 0),
        ("invalid", True, "UNDECIDED", 2),
        ("said", True, "UNDECIDED", 3),
        ("said", False, "SHIP", 0),
    ],
)
def test_an_alarm_has_the_effect_of_its_kind(
    sides: Path, monkeypatch: pytest.MonkeyPatch, kind: str, veto: bool, outcome: str, code: int
) -> None:
    raised = ((kind, AlarmOccurrence("meta_some", veto=veto)),)
    offer(monkeypatch, facts=type("Some", (Facts,), {"raised": raised}))
    done = cli("compare", "a", "b", "--max-drop", "5", "--json", cwd=sides)
    tree = json.loads(done.stdout)
    assert (tree["decision"]["outcome"], done.returncode) == (outcome, code)
    assert "2 runs, 0 places" in tree["notes"]
    assert (tree["decision"]["caveats"] != []) == (kind != "failing")


@pytest.mark.parametrize(
    ("rule", "count", "veto"),
    [
        ({"above": 0.1}, 20, True),
        ({"above": 0.1, "grave": 0.2}, 20, False),
        ({"above": 0.2}, None, None),
        ({"above": 0.1, "beside": True}, None, None),
        ({"above": 0.04, "beside": True}, 20, True),
        ({"above": 0.04, "beside": True, "grave": 0.06}, 20, False),
        ({"above": 0.05, "beside": True}, None, None),
    ],
)
def test_a_kind_with_a_rule_for_docs_is_raised_where_more_of_them_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any], count: int | None, veto: bool | None
) -> None:
    def is_right(doc: Any, filter_name: str) -> bool:
        return bool(doc.filter_results[filter_name].metrics["exact_match"] == 1)

    kind = AlarmKind("right answers", "They are right.", docs=DocsAbove(is_right, **rule))
    offer(monkeypatch, right=type("Right", (Evidence,), {"alarm_kinds": (kind,)}))
    for name, right in (("a", 15), ("b", 20)):
        write_run(tmp_path / name, [1.0] * right + [0.0] * (100 - right))
    tree = compare(tmp_path, "--max-drop", "5")[1]
    raised = [alarm for alarm in tree["alarms"] if alarm["kind"] == "right answers"]
    found = [(one["count"], one["of"], one["veto"]) for alarm in raised for one in alarm["tasks"] if one["run"] != "A"]
    assert found == ([] if count is None else [(count, 100, veto)])


@pytest.mark.parametrize(
    ("of_candidate", "unknown", "found"),
    [
        (False, 0, [("A", 20, 100)]),
        (True, 0, []),
        (False, 60, [("A", 20, 40), ("B", 15, 40)]),
        (True, 60, [("B", 15, 40)]),
    ],
)
def test_a_rule_may_be_of_the_candidate_alone_and_leave_out_docs_of_which_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_candidate: bool, unknown: int, found: list[Any]
) -> None:
    def is_right(doc: Any, filter_name: str) -> bool | None:
        right = bool(doc.filter_results[filter_name].metrics["exact_match"] == 1)
        return None if doc.doc_id >= 100 - unknown else right

    kind = AlarmKind(
        "right answers",
        "They are right.",
        docs=DocsAbove(is_right, 0.3 if unknown else 0.17, of_candidate=of_candidate),
    )
    offer(monkeypatch, right=type("Right", (Evidence,), {"alarm_kinds": (kind,)}))
    for name, right in (("a", 20), ("b", 15)):
        write_run(tmp_path / name, [1.0] * right + [0.0] * (100 - right))
    tree = compare(tmp_path, "--max-drop", "5")[1]
    raised = [alarm for alarm in tree["alarms"] if alarm["kind"] == "right answers"]
    assert sorted((one["run"], one["count"], one["of"]) for alarm in raised for one in alarm["tasks"]) == found


@pytest.mark.parametrize(
    ("of_candidate", "beside", "raised"), [(True, True, False), (True, False, True), (False, True, True)]
)
def test_a_rule_of_what_the_candidate_has_more_needs_a_baseline(
    sides: Path, monkeypatch: pytest.MonkeyPatch, of_candidate: bool, beside: bool, raised: bool
) -> None:
    kind = AlarmKind("any", "Any.", docs=DocsAbove(lambda *_: True, 0.5, beside=beside, of_candidate=of_candidate))
    offer(monkeypatch, any=type("Any", (Evidence,), {"alarm_kinds": (kind,)}))
    tree = json.loads(cli("report", "a", "--json", cwd=sides).stdout)
    assert ("any" in [alarm["kind"] for alarm in tree["alarms"]]) is raised


@pytest.mark.parametrize(("limit", "code"), [(60, 0), (40, 1)])
def test_limits_take_the_conditions_of_plug_ins(
    sides: Path, monkeypatch: pytest.MonkeyPatch, limit: int, code: int
) -> None:
    offer(monkeypatch, facts=Facts)
    (sides / "gate.yaml").write_text(f"margin: 5\nlimits: {{odd: {limit}}}", encoding="utf-8")
    assert compare(sides, "--gate", "gate.yaml")[0] == code


def test_a_condition_may_compare_each_doc_with_the_baselines(sides: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same = Condition(
        "same", "docs with the baseline's number", "gate failed", compare=lambda a, b, _: a.doc_id == b.doc_id
    )
    offer(monkeypatch, facts=type("Some", (Facts,), {"conditions": (same,)}))
    (sides / "gate.yaml").write_text("margin: 5\nlimits: {same: 60}", encoding="utf-8")
    done = cli("compare", "a", "b", "--gate", "gate.yaml", "--json", cwd=sides)
    assert (done.returncode, "100 are docs with the baseline's number, and 60 % are allowed" in done.stdout) == (
        1,
        True,
    )
    alone = cli("report", "a", "--gate", "gate.yaml", "--json", cwd=sides)
    assert "it is not known whether they are docs with the baseline's number" in alone.stdout


def test_a_run_alone_is_seen_with_its_folders(sides: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, facts=Facts)
    done = cli("report", "a", "--json", cwd=sides)
    assert "1 runs, 1 places" in json.loads(done.stdout)["notes"]


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (type("Some", (Facts,), {"raised": (("loud", AlarmOccurrence(None)),)}), "kind 'loud', which is not in alarm_"),
        (type("Some", (Facts,), {"find": lambda *_: None}), "find gave NoneType and no Findings"),
        (type("Some", (Facts,), {"find": lambda *_: 1 / 0, "__module__": "some"}), "ZeroDivisionError"),
        (with_rule(DocsAbove(lambda *_: 1 / 0, 0.1)), "some:Thing (ZeroDivisionError)"),
        (with_rule(DocsAbove(5, 0.1)), "some:Thing (TypeError)"),  # type: ignore[arg-type]
    ],
)
def test_a_fault_of_evidence_is_an_error_that_names_it(
    sides: Path, monkeypatch: pytest.MonkeyPatch, thing: Any, words: str
) -> None:
    offer(monkeypatch, facts=thing)
    done = cli("compare", "a", "b", cwd=sides)
    assert words in done.stderr and (done.returncode, done.stdout) != (0, "")


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (ModuleNotFoundError("No module named 'some'", name="some"), "is not there: no module some"),
        (ImportError("oh"), "cannot be loaded: ImportError: oh"),
        (dict, "is not a Evidence"),
        (type("Some", (Facts,), {"rules": 5}), "rules is not a class of pydantic models"),
        (type("Some", (Facts,), {"alarm_kinds": None}), "alarm_kinds is not a tuple"),
        (type("Some", (Facts,), {"alarm_kinds": (5,)}), "alarm_kinds holds int and no AlarmKind"),
        (type("Some", (Facts,), {"alarm_kinds": (AlarmKind,)}), "alarm_kinds holds type and no AlarmKind"),
        (type("Some", (Facts,), {"conditions": ("odd",)}), "conditions holds str and no Condition"),
        (with_rule(0.1), "docs of the alarm 'odd' is a float and no DocsAbove"),
        (with_rule(DocsAbove), "docs of the alarm 'odd' is a type and no DocsAbove"),
        (with_rule(DocsAbove(bool, "much")), "above of the alarm 'odd' is 'much' and no share"),  # type: ignore[arg-type]
        (with_rule(DocsAbove(bool, math.nan)), "above of the alarm 'odd' is nan and no share"),  # type: ignore[arg-type]
        (with_rule(DocsAbove(bool, 0.1, 2)), "grave of the alarm 'odd' is 2 and no share"),  # type: ignore[arg-type]
    ],
)
def test_evidence_that_cannot_be_loaded_is_a_note_and_stops_nothing(
    sides: Path, monkeypatch: pytest.MonkeyPatch, thing: Any, words: str
) -> None:
    offer(monkeypatch, facts=thing)
    code, tree = compare(sides, "--max-drop", "5")
    assert (code, [words in note for note in tree["notes"]]) == (0, [True]), tree["notes"]
    (sides / "gate.yaml").write_text("facts: {}", encoding="utf-8")
    done = cli("compare", "a", "b", "--gate", "gate.yaml", cwd=sides)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
