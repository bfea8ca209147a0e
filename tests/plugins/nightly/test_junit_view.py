"""JUnit XML of a report: cases, counts, and names that XML cannot hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import cli
from one_task import run
from reports import make_comparison
from runs import write_run

from meta_eval.reports.views import find_view

RIGHT = [1.0] * 112 + [0.0] * 88
WORSE = [0.0] * 60 + RIGHT[60:]


def suite(content: bytes) -> ElementTree.Element:
    (found,) = ElementTree.fromstring(content)
    return found


def test_each_task_is_a_case_and_so_is_the_decision() -> None:
    report = make_comparison()
    content = find_view("junit", "compare").render(report.document())
    assert isinstance(content, bytes)
    cases = {case.get("name"): [element.tag for element in case] for case in suite(content)}
    assert cases.keys() == {"decision", *(task.name for task in report.tasks)}
    assert (cases["decision"], cases["meta_math_hard"]) == (["failure"], ["failure"])
    (failed,) = [case for case in suite(content) if case.get("name") == "meta_math_hard"]
    assert "margin 1" in str(failed[0].get("message"))
    counts = [suite(content).get(name) for name in ("tests", "failures", "errors", "skipped")]
    tags = [tag for found in cases.values() for tag in found]
    assert counts == [f"{len(cases)}", *(f"{tags.count(tag)}" for tag in ("failure", "error", "skipped"))]


@pytest.mark.parametrize(
    ("other", "element"), [(RIGHT, None), (WORSE, "failure")]
)  # fmt: skip
def test_the_decision_is_what_the_command_decides(tmp_path: Path, other: list[float], element: str | None) -> None:
    write_run(tmp_path / "a", RIGHT)
    write_run(tmp_path / "b", other)
    done = cli("compare", "a", "b", "--max-drop", "5", "--view", "junit=r.xml", cwd=tmp_path)
    (decision,) = [
        case for case in suite((tmp_path / "r.xml").read_bytes()) if case.get("name") == "decision"
    ]  # fmt: skip
    assert (done.returncode, [found.tag for found in decision]) == ((0, []) if element is None else (1, [element]))


@pytest.mark.parametrize(("gate", "code", "element", "kind"), [
    ((), 0, "skipped", None), (("--max-drop", "2"), 3, "failure", "UNDECIDED"),
])  # fmt: skip
def test_undecided_fails_only_with_a_gate_as_the_exit_code_does(
    gate: tuple[str, ...], code: int, element: str, kind: str | None, tmp_path: Path
) -> None:
    write_run(tmp_path / "a", RIGHT)
    write_run(tmp_path / "b", [0.0] * 3 + RIGHT[3:])
    done = run("compare", tmp_path / "a", tmp_path / "b", *gate, "--view", f"junit={tmp_path / 'r.xml'}")
    decision, task = suite((tmp_path / "r.xml").read_bytes())
    assert (done[0], decision[0].tag, decision[0].get("type")) == (code, element, kind)
    assert task[0].tag == "skipped"


def test_a_task_fails_only_where_its_drop_is_proven_larger_than_its_margin() -> None:
    report = make_comparison()
    standing_out = [replace(task, proven=False) for task in report.tasks]
    document = replace(report.document(), tasks=tuple(standing_out))
    assert any(task.outcome == "worse" for task in standing_out)
    content = find_view("junit", "compare").render(document)
    assert isinstance(content, bytes)
    assert {found.tag for case in suite(content) if case.get("name") != "decision" for found in case} <= {"skipped"}


def test_an_invalid_comparison_is_an_error_with_and_without_a_gate() -> None:
    report = make_comparison()
    invalid = replace(report, decision=replace(report.decision, outcome="UNDECIDED", invalid=True))
    content = find_view("junit", "compare").render(invalid.document())
    assert isinstance(content, bytes)
    assert [found.tag for found in suite(content)[0]] == ["error"]


def test_characters_that_xml_cannot_hold_are_replaced() -> None:
    document = replace(make_comparison().document(), title="a\x00b\x1b[31m\ud800\ufffe", summary="<&\"'>\x07")
    content = find_view("junit", "compare").render(document)
    assert isinstance(content, bytes)
    assert suite(content).get("name") == "a\ufffdb\ufffd[31m\ufffd\ufffd"


def test_each_candidate_is_a_suite_with_its_decision_or_its_error(tmp_path: Path) -> None:
    for name, verdicts in (("a", RIGHT), ("b", RIGHT), ("c", WORSE)):
        write_run(tmp_path / name, verdicts)
    (tmp_path / "d").mkdir()
    places = [tmp_path / name for name in "abcd"]
    run("compare", *places, "--max-drop", "5", "--view", f"junit={tmp_path / 'r.xml'}")
    suites = {
        str(suite.get("name")): {case.get("name"): [found.tag for found in case] for case in suite}
        for suite in ElementTree.fromstring((tmp_path / "r.xml").read_bytes())
    }
    assert suites == {
        "b beside a": {"decision": [], "meta_some": []},
        "c beside a": {"decision": ["failure"], "meta_some": ["failure"]},
        "d beside a": {"decision": ["error"]},
    }


def test_a_task_without_a_drop_says_why(tmp_path: Path) -> None:
    write_run(tmp_path / "a", RIGHT)
    run("report", tmp_path / "a", "--view", f"junit={tmp_path / 'r.xml'}")
    (case,) = [case for case in suite((tmp_path / "r.xml").read_bytes()) if case.get("name") == "meta_some"]
    message = str(case[0].get("message"))
    assert message and "drop" not in message
    assert message in " ".join(run("report", tmp_path / "a")[1].split())
