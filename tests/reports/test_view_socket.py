"""The socket for views: one of another package is an option of report and compare, over the same document."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from command import cli
from places import REPOSITORY
from reports import make_comparison, make_report
from runs import entry, manifest, published, write_run

from meta_eval.base import extensions
from meta_eval.base.errors import ConfigError
from meta_eval.harness import doc_results
from meta_eval.harness.sample_files import read_graded
from meta_eval.reports import task_tables
from meta_eval.reports.candidates import Candidate, CandidatesReport
from meta_eval.reports.document import Column, Document, Table
from meta_eval.reports.report import Report
from meta_eval.reports.task_tables import DropRow
from meta_eval.reports.views import VIEWS_GROUP, View, find_view, write_view

EXAMPLE = REPOSITORY / "examples" / "tracker_view.py"


def install(monkeypatch: pytest.MonkeyPatch, **views: Any) -> None:
    """Views, as if a package had them with entry points."""

    class Point(EntryPoint):
        def load(self) -> Any:
            return views[self.name]

    points = {VIEWS_GROUP: [Point(name, "some:View", VIEWS_GROUP) for name in views]}
    read = extensions.entry_points
    monkeypatch.setattr(extensions, "entry_points", lambda group: [*read(group=group), *points.get(group, [])])


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    spec = importlib.util.spec_from_file_location("tracker_view", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    install(monkeypatch, tracker=module.TrackerView)
    yield


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_run(tmp_path / "out", [1.0] * 112 + [0.0] * 88)
    (tmp_path / "pack").mkdir()
    pack = manifest(meta_some=entry(200, published(65.0)))
    (tmp_path / "pack" / "manifest.json").write_text(pack.to_json(), encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("tracker")
def test_report_writes_the_view_of_another_package(run: Path) -> None:
    for _ in range(2):  # again: it knows its own file
        done = cli("report", "out", "--pack", "pack", "--view", "tracker=r.json", "--view", "text=r.txt", cwd=run)
        assert done.returncode == 0, done.stderr
    figures = json.loads((run / "r.json").read_text(encoding="utf-8"))
    assert figures["exit_code"] == 0
    assert figures["meta_some/drop"] == pytest.approx(0.09)
    assert "meta_some" in (run / "r.txt").read_text(encoding="utf-8")


@pytest.mark.usefixtures("tracker")
def test_the_example_has_the_figures_of_each_task() -> None:
    report = make_comparison()
    content = find_view("tracker", "compare").render(report.document())
    assert isinstance(content, str)
    figures = json.loads(content)
    assert {name.partition("/")[0] for name in figures} >= {task.name for task in report.tasks}


@pytest.mark.usefixtures("tracker")
def test_a_view_is_refused_before_anything_is_read(run: Path) -> None:
    done = cli("report", "nowhere", "--view", "traker=r.json", cwd=run)
    assert done.returncode == 2
    assert "unknown view traker" in done.stderr and "tracker" in done.stderr
    done = cli("compare", "nowhere", "nowhere", "--view", "eval-results=r.yaml", cwd=run)
    assert (done.returncode, "shows only report" in done.stderr) == (2, True)
    done = cli("report", "nowhere", "--view", "r.xml", cwd=run)
    assert (done.returncode, "r.xml is not NAME=FILE" in done.stderr) == (2, True)
    done = cli("report", "out", "--view", "json=r.json", "--html", "r.json", cwd=run)
    assert (done.returncode, "would be written twice" in done.stderr) == (2, True)


FAULTS: list[tuple[Any, str]] = [
    (lambda *_: 1 / 0, "some:View: failed with ZeroDivisionError: division by zero (test_view_socket.py, line"),
    (lambda *_: None, f"view {__name__}.Broken: render gave NoneType and no text"),
]


@pytest.mark.parametrize(("render", "message"), FAULTS)
def test_a_fault_of_a_view_names_its_class_and_is_no_bug_of_ours(
    run: Path, monkeypatch: pytest.MonkeyPatch, render: Any, message: str
) -> None:
    monkeypatch.setattr(extensions, "_LOADED", {})
    install(monkeypatch, broken=type("Broken", (View,), {"render": render, "__module__": __name__}))
    done = cli("report", "out", "--pack", "pack", "--view", "broken=r.txt", cwd=run)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"error: {message}")
    assert not (run / "r.txt").exists()


def test_a_view_that_marks_no_file_replaces_none(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_LOADED", {})
    install(monkeypatch, plain=type("Plain", (View,), {"render": lambda *_: "x", "__module__": __name__}))
    words = ("report", "out", "--pack", "pack", "--view", "plain=r.txt")
    assert [cli(*words, cwd=run).returncode for _ in range(2)] == [0, 2]


def test_a_bug_names_the_classes_of_other_packages_that_took_part(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_LOADED", {})
    broken = type("Broken", (View,), {"render": None, "document_types": frozenset((1,)), "__module__": __name__})
    install(monkeypatch, broken=broken)
    done = cli("report", "out", "--pack", "pack", "--view", "broken=r.txt", cwd=run)
    assert (done.returncode, "a bug of meta-eval, or of some:View (TypeError)" in done.stderr) == (70, True)


def test_without_the_package_there_is_no_such_view() -> None:
    with pytest.raises(ConfigError, match="unknown view tracker"):
        find_view("tracker", "report")


def test_one_loop_shows_every_table_of_a_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's view needs no name of a table or column: text and data of each figure are there."""

    class Sheet(View):
        def render(self, document: Document) -> str:
            out = io.StringIO()
            for table in document.tables:
                for row in table.rows:
                    cells = (table.cell(row, column) for column in table.columns)
                    plain = [figure for cell in cells for figure in (cell.value, cell.lower, cell.upper)]
                    assert {type(figure) for figure in plain} <= {int, float, str, type(None)}
                    csv.writer(out).writerow([table.key, row.name, row.part, *plain])
            return out.getvalue()

    install(monkeypatch, sheet=Sheet)
    for make in (make_report, make_comparison):
        document = make().document()
        path = tmp_path / f"{make.__name__}.csv"
        write_view(path, find_view("sheet", document.document_type), document)
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        assert len(rows) == sum(len(table.rows) for table in document.tables)
        assert {row[0] for row in rows} == {table.key for table in document.tables} >= {"drops", "flips"}
        data = json.loads(json.dumps(document.to_json(), allow_nan=False))["tables"][0]
        assert data["rows"][0]["cells"]["drop"] == document.tables[0].rows[0].subject.drop.value


def test_the_same_views_show_several_models_side_by_side() -> None:
    report = make_report()
    candidates = (Candidate("a", report), Candidate("b", make_report(name="b")))
    document = CandidatesReport("the baseline", candidates).document()
    assert report.tasks[1].is_decided
    score = f"{100 * report.tasks[1].drop.candidate:.1f}"
    for name in ("text", "markdown", "html"):
        content = find_view(name, "candidates").render(document)
        text = content if isinstance(content, str) else "".join(map(str, content))
        assert "Places" in text and "positive drop" in text, name
        assert "2 candidates beside the baseline" in text and "DON'T SHIP" in text.replace("&#39;", "'"), name
        assert text.count(score) == 2 and text.count("DON") >= 2, name
    table, tasks, places = json.loads("".join(find_view("json", "candidates").render(document)))["tables"]  # type: ignore[arg-type]
    assert [(row["name"], row["outcome"]) for row in table["rows"]] == [("a", "DON'T SHIP"), ("b", "DON'T SHIP")]
    assert [row["part"] for row in tasks["rows"][:3]] == ["the baseline", "a", "b"]
    assert tasks["rows"][1]["cells"]["interval"]["lower"] < tasks["rows"][1]["cells"]["drop"]
    assert len({row["name"] for row in places["rows"]}) == 3


def test_a_column_and_a_table_are_described_once_and_stand_in_every_view(monkeypatch: pytest.MonkeyPatch) -> None:
    column: Column[DropRow] = Column("twice", "twice", lambda row: 2 * row.docs, "{:,} docs".format, "docs, two times")
    drops = task_tables.make_drop_table

    def changed(report: Report) -> Table[DropRow]:
        return replace(drops(report), columns=(*drops(report).columns[4:5], column))

    def other(report: Report) -> Table[DropRow]:
        return replace(changed(report), key="other", title="Another table")

    monkeypatch.setattr(task_tables, "make_drop_table", changed)
    monkeypatch.setattr(task_tables, "make_flip_table", other)
    document = make_report().document()
    for name in ("text", "markdown", "html", "json"):
        content = find_view(name, "report").render(document)
        text = content if isinstance(content, str) else "".join(map(str, content))
        figures = text.count('"twice": 24064') if name == "json" else text.count("24,064 docs")
        assert (figures, text.count("Another table")) == (2, 1), name


def test_a_figure_of_answers_is_a_row_and_stands_in_every_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    length = doc_results.DocFigure(
        "characters", "characters of an answer", "mean characters", lambda _, answers: len(answers[0])
    )
    spaces = doc_results.DocFigure(
        "spaces", "spaces", "share", lambda _, answers: answers[0].count(" ") / len(answers[0]), is_share=True
    )
    figures = (*doc_results.FIGURES, length, spaces)
    for module in (doc_results, task_tables):
        monkeypatch.setattr(module, "FIGURES", figures)
    answers = {"A": "a longer text", "B": "short"}
    for name, text in answers.items():
        line = {"resps": [[text]], "completion_tokens": len(name) * 3}
        write_run(tmp_path / name, [1.0] * 30 + [0.0] * 10, line=line)
    done = cli("compare", "A", "B", "--view", "markdown=r.md", "--view", "html=r.html", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Headings are broken over lines, so that a terminal of 80 columns shows them whole.
    assert "…" not in done.stderr and max(map(len, done.stderr.splitlines())) <= 80
    content = json.loads(done.stdout)
    assert content["tasks"][0]["figures"] == {
        "baseline": {"answer_tokens": 3.0, "characters": 13.0, "spaces": 2 / 13},
        "candidate": {"answer_tokens": 3.0, "characters": 5.0, "spaces": 0.0},
    }
    (table,) = (table for table in content["tables"] if table["key"] == "answers")
    assert table["rows"][0]["cells"]["baseline_characters"] == 13.0
    for shown in (done.stderr, (tmp_path / "r.md").read_text(), (tmp_path / "r.html").read_text()):
        assert "What answers are like" in shown
        assert "13.0" in shown and "5.0" in shown and "15.4" in shown


def test_a_baseline_keeps_the_figures_of_recorded_answers() -> None:
    doc = {"input_question_hash": "q", "input_final_prompts_hash": ["p"], "gold": "a"}
    sample = {
        "doc_id": 0, "doc": doc, "resps": [["text"]], "filtered_resps": ["text"], "filter": "none", "acc": 1.0,
        "completion_tokens": 7, "arguments": [["p", {}]],
    }  # fmt: skip
    (graded,) = read_graded([sample])
    assert graded.figures == {"answer_tokens": 7}


def test_the_help_of_view_lists_what_its_error_lists(run: Path) -> None:
    error = cli("report", "out", "--view", "none=file", cwd=run.parent).stderr
    views = error.rpartition("Views: ")[2].strip()
    for verb in ("report", "compare"):
        assert f"Write another view: {views}." in " ".join(cli(verb, "--help").stdout.split())
    assert "flips" in views


def test_the_flips_are_lines_with_the_side_that_is_right(tmp_path: Path) -> None:
    for name, verdicts in (("a", [1.0, 0.0, 1.0, 0.0]), ("b", [1.0, 1.0, 0.0, 0.0])):
        write_run(tmp_path / name, verdicts)
    assert cli("compare", "a", "b", "--view", "flips=f.jsonl", cwd=tmp_path).returncode == 0
    flips = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert [(flip["task"], flip["doc_id"], flip["right"]) for flip in flips] == [
        ("meta_some", 1, "B"), ("meta_some", 2, "A"),
    ]  # fmt: skip
    assert all(flip["doc_hash"] and flip["extracted"].keys() == {"A", "B"} for flip in flips)


def test_a_view_of_two_runs_says_that_it_shows_no_several_candidates(tmp_path: Path) -> None:
    for count, folder in enumerate("abc", 10):
        write_run(tmp_path / folder, [1.0] * count + [0.0] * 10)
    done = cli("compare", "a", "b", "c", "--view", "flips=f.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert "shows only compare, not candidates. Compare one candidate at a time" in " ".join(done.stderr.split())


def test_a_document_with_an_outcome_of_its_own_has_a_page() -> None:
    """The verb of a package may decide in words that the page does not know."""
    document = replace(make_comparison().document(), outcome="good enough")
    assert 'class="decision unknown"' in "".join(map(str, find_view("html", "compare").render(document)))
