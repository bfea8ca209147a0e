"""The socket for record formats: one of another package is an evals dataset and a baseline like those that are shipped."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from command import cli
from noted import noted
from packs import prepare, read_docs
from places import REPOSITORY
from runs import write_run

from meta_eval import compare, export, verify
from meta_eval.base import extensions
from meta_eval.base.errors import SourceError, UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.records import format_registry
from meta_eval.pack.records.format import Place, Reading, Record, RecordFormat
from meta_eval.pack.records.lm_eval_format import LmEvalFormat
from meta_eval.pack.records.log_record import TextRecord
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.pack.records.recorded_docs import record_answer
from meta_eval.reports.samples import read_shown_samples

EXAMPLE = REPOSITORY / "examples" / "csv_record.py"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example, as if a package had it with an entry point."""
    spec = importlib.util.spec_from_file_location("csv_record", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Point(EntryPoint):
        def load(self) -> Any:
            return module.CsvFormat

    points = {format_registry.FORMATS_GROUP: [Point("csv", "csv_record:CsvFormat", format_registry.FORMATS_GROUP)]}
    read = extensions.entry_points
    monkeypatch.setattr(extensions, "entry_points", lambda group: [*read(group=group), *points.get(group, [])])
    monkeypatch.setattr(extensions, "_LOADED", {})
    yield


def write(folder: Path, task: str, rows: list[tuple[str, str, str, int]]) -> Path:
    folder.mkdir(exist_ok=True)
    with (folder / f"{task}.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerows([("prompt", "answer", "gold", "right"), *rows])
    return folder


SUMS = [("1 and 1 make", " 2", "2", 1), ("2 and 3 make", "six", "5", 0), ("4 and 4 make", "8\n", "8", 1)]


@pytest.mark.usefixtures("installed")
def test_a_format_of_another_package_is_an_evals_dataset(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "pack", "sums", evals_dataset=str(write(tmp_path / "run", "sums", SUMS)))
    proof = verify(pack)
    assert proof.passed
    tallies = proof.tasks["sums"].tallies
    assert tallies is not None and (tallies.total.agreed, tallies.total.compared) == (3, 3)
    (number,) = read_manifest(pack).tasks["sums"].reference_scores
    assert number.value == pytest.approx(66.667, abs=0.001)
    assert [doc["prompt"] for doc in read_docs(pack, "sums")] == [prompt for prompt, *_ in SUMS]
    assert export(pack, tmp_path / "requests.jsonl").tasks == {"sums": 3}


@pytest.mark.usefixtures("installed")
def test_its_docs_may_belong_to_subtasks(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    rows = ["prompt,answer,gold,right,subtask", "1 and 1 make,2,2,1,plus", "4 minus 1 makes,2,3,0,minus", "?,1,1,1,"]
    (tmp_path / "run/sums.csv").write_text("\n".join(rows), encoding="utf-8")
    pack = prepare(tmp_path / "pack", "sums", evals_dataset=str(tmp_path / "run"))
    assert [doc["subtask_name"] for doc in read_docs(pack, "sums")] == ["plus", "minus", None]
    tallies = verify(pack).tasks["sums"].tallies
    assert tallies is not None and {name: part.compared for name, part in tallies.subtasks.items()} == {
        "plus": 1, "minus": 1,
    }  # fmt: skip


@pytest.mark.usefixtures("installed")
def test_a_format_of_another_package_is_a_baseline(tmp_path: Path) -> None:
    run = write(tmp_path / "run", "sums", SUMS)
    worse = write(tmp_path / "worse", "sums", [(prompt, "?", gold, 0) for prompt, _, gold, _ in SUMS])
    pack = prepare(tmp_path / "pack", "sums", evals_dataset=str(run), baseline=str(worse))
    (baseline,) = read_manifest(pack).tasks["sums"].baseline
    assert (baseline.name, baseline.docs, baseline.docs_with_other_prompt) == (str(worse), 3, 0)


ANSWERS = [
    (f"{number} and 1 make", str(number + number % 7), str(number), int(number % 7 == 0)) for number in range(60)
]


@pytest.mark.usefixtures("installed")
def test_two_such_runs_are_compared_as_two_of_lm_eval(tmp_path: Path) -> None:
    right = [(prompt, gold, gold, 1) for prompt, _, gold, _ in ANSWERS]
    found = compare(write(tmp_path / "a", "sums", right), write(tmp_path / "b", "sums", ANSWERS[::-1]))
    (task,) = found.tasks
    a, b = (
        write_run(tmp_path / name, values)
        for name, values in (("x", [1.0] * 60), ("y", [float(v[3]) for v in ANSWERS]))
    )
    (same,) = compare(a, b).tasks
    assert (
        task.drop is not None
        and task.drop == same.drop
        and found.summary == compare(a, b).summary.replace("meta_some", "sums")
    )


@pytest.mark.usefixtures("installed")
def test_the_answers_of_such_runs_are_shown(tmp_path: Path) -> None:
    run = write(tmp_path / "run", "sums", SUMS)
    shown = list(read_shown_samples(compare(run, run).tasks))
    assert [(sample.prompt, sample.answers[0].text) for sample in shown] == [row[:2] for row in SUMS]


@pytest.mark.usefixtures("installed")
def test_only_the_chosen_tasks_of_such_a_run_are_read_and_a_damaged_one_does_not_stop_them(tmp_path: Path) -> None:
    run = write(tmp_path / "run", "sums", ANSWERS)
    (run / "broken.csv").write_text("prompt,answer,gold,right\n,,,\n", encoding="utf-8")
    assert [task.name for task in compare(run, run, tasks=["sums"]).tasks] == ["sums"]
    found = read_any_run([run])
    assert ([*found.tasks], [*found.faults]) == (["sums"], ["broken"])
    assert "broken, doc 0: has no prompt" in found.faults["broken"]


@pytest.mark.usefixtures("installed")
def test_a_wrong_verdict_of_such_a_record_is_found(tmp_path: Path) -> None:
    run = write(tmp_path / "run", "sums", [*SUMS, ("5 and 5 make", "11", "10", 1)])
    tallies = verify(prepare(tmp_path / "pack", "sums", evals_dataset=str(run))).tasks["sums"].tallies
    assert tallies is not None and (tallies.total.agreed, tallies.total.compared) == (3, 4)


@pytest.mark.usefixtures("installed")
def test_what_it_cannot_ask_is_left_out(tmp_path: Path) -> None:
    run = write(tmp_path / "run", "sums", SUMS)
    write(run, "nothing", [])
    write(run, "empty", [("", "a", "a", 1)])
    left_out = read_manifest(prepare(tmp_path / "pack", "*", evals_dataset=str(run))).left_out
    assert set(left_out) == {"nothing", "empty"}
    assert "holds no answer" in left_out["nothing"] and "doc 0: has no prompt" in left_out["empty"]


def test_without_the_package_such_a_folder_is_no_record(tmp_path: Path) -> None:
    run = write(tmp_path / "run", "sums", SUMS)
    with pytest.raises(UserError):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(run))
    with pytest.raises(UserError, match=r"baseline: .* holds no recorded run in a known format \(.*lm-eval.*\)"):
        prepare(tmp_path / "pack", "meta_gpqa", baseline=str(run))


@pytest.mark.usefixtures("installed")
def test_a_fault_of_a_format_names_its_class(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    (tmp_path / "record" / "t.csv").write_text("prompt\nonly\n", encoding="utf-8")
    words = (
        f"evals_dataset={tmp_path / 'record'}",
        "model_name=my/model",
        f"work_dir={tmp_path / 'pack'}",
        "tasks=recorded",
    )
    done = cli("prepare", *(word for setting in words for word in ("--set", setting)), cwd=tmp_path)
    assert (done.returncode, "error: csv_record:CsvFormat: failed with " in done.stderr) == (2, True), done.stderr


class _Plain(RecordFormat):
    """A format that is as sure of a folder as it is told to be."""

    certainty: float

    def detect(self, place: Place) -> float:
        return self.certainty

    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:
        raise SourceError(f"{self.name} opened it")


def _offer_alone(monkeypatch: pytest.MonkeyPatch, points: list[EntryPoint]) -> None:
    """Offer these formats beside those of the core, and no other."""
    read = extensions.entry_points
    monkeypatch.setattr(
        extensions,
        "entry_points",
        lambda group: points if group == format_registry.FORMATS_GROUP else read(group=group),
    )


@pytest.mark.parametrize(
    ("certainties", "message"),
    [
        ({"one": 0.3, "two": 0.6}, "two opened it"),
        ({"two": 0.3, "one": 0.6}, "one opened it"),
        ({"two": 0.6, "one": 0.6}, "the formats one and two both read it"),
        ({"two": float("nan"), "one": 0.6}, "two: detect gives nan, and not a number from 0 to 1"),
        ({"two": 0, "one": 0}, "is neither a recorded run nor an evals dataset"),
    ],
)
def test_the_surest_format_reads_a_place_whatever_its_name(
    certainties: dict[str, float], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    formats = {name: type("F", (_Plain,), {"name": name, "certainty": at}) for name, at in certainties.items()}

    class Point(EntryPoint):
        def load(self) -> Any:
            return formats[self.name]

    points = [Point(name, f"{name}:F", format_registry.FORMATS_GROUP) for name in formats]
    _offer_alone(monkeypatch, points)
    monkeypatch.setattr(extensions, "_LOADED", {})
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(tmp_path))


def test_a_format_whose_module_is_missing_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = format_registry.FORMATS_GROUP
    _offer_alone(monkeypatch, [EntryPoint("gone", "no_such_package.formats:F", group)])
    run = shutil.copytree(REPOSITORY / "tests/data/lm_eval_outputs/0.4.13", tmp_path / "run")
    with noted() as notes:
        prepare(
            tmp_path / "pack", "tiny_sums", evals_dataset=str(run), template_dir=str(REPOSITORY / "tools/lm_eval_tasks")
        )
    (note,) = {note for note in notes if "gone" in note}
    assert note.startswith("a format of records is not used: no_such_package.formats:F: gone of")


def test_an_id_of_the_hub_that_no_format_reads_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _offer_alone(monkeypatch, [])
    with pytest.raises(UserError, match="no format reads a dataset of this name on the hub. It reads `lm_eval"):
        prepare(tmp_path / "pack", "recorded", evals_dataset="some/dataset")


@pytest.mark.parametrize("of", [*format_registry.list_formats()], ids=lambda of: str(of.name))
def test_a_page_names_what_is_compared_of_a_format(of: RecordFormat) -> None:
    text = (REPOSITORY / "docs/guides/harnesses.md").read_text(encoding="utf-8")
    assert [name for name in (*of.settings, *of.grader_settings) if f"`{name}`" not in text] == []


def test_a_change_of_each_compared_setting_of_lm_eval_is_named(tmp_path: Path) -> None:
    values = {
        "filter": [{"name": "strict-match", "filter": [{"function": "take_first"}]}], "process_results": "def f():\n  2",
        "metric": [{"metric": "exact_match", "ignore_case": True}], "generation_kwargs": {"max_gen_toks": 3},
        "gen_kwargs": {"max_gen_toks": 3}, "chat template": "x", "fewshot_as_multiturn": True,
    }  # fmt: skip
    config = {"filter_list": [{"name": "strict-match", "filter": [{"function": "regex"}]}],
              "process_results": "def f():\n  1", "metric_list": [{"metric": "exact_match"}]}  # fmt: skip
    known = {
        "configs": {"meta_some": config},
        "n-shot": {"meta_some": 0},
        "versions": {"meta_some": 1},
        "lm_eval_version": "0.4.8",
    }
    base = write_run(tmp_path / "base", [1.0, 0.0], samples=False, extra=known)
    for name, place in {**LmEvalFormat.settings, **LmEvalFormat.grader_settings}.items():
        path = write_run(tmp_path / name.replace(" ", "_"), [1.0, 0.0], samples=False, extra=known)
        (file,) = path.glob("results_*.json")
        parent = tree = json.loads(file.read_text())
        *above, last = place.replace("TASK", "meta_some").split(".")
        for member in above:
            parent = parent[member]
        parent[last] = values.get(name, 3)
        file.write_text(json.dumps(tree))
        alarms = [
            alarm
            for alarm in compare(base, path).alarms
            if alarm.kind in ("runs not alike", "perhaps graded differently")
        ]
        said = {"generation_kwargs": "max_gen_toks", "gen_kwargs": "max_gen_toks"}.get(name, name)
        assert said in str([task.note for alarm in alarms for task in alarm.tasks]), name


@pytest.mark.parametrize("column", ["prompt", "answer", "gold"])
def test_a_row_of_a_plug_in_without_a_text_is_named(tmp_path: Path, column: str) -> None:
    answer = record_answer(**{"prompt": "1 and 1", "answer": "2", "gold": "2", column: None})  # type: ignore[arg-type]
    record = TextRecord("runs", {"sums": [record_answer("2 and 2", "4", "4"), answer]})
    with pytest.raises(UserError, match=f"runs, sums, doc 1: has no {column}"):
        record.read("sums", Reading(tmp_path))


def test_json_of_another_program_is_not_told_to_restore_its_name(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"accuracy": 0.5}')
    with pytest.raises(
        UserError, match="holds neither results nor samples of lm_eval. Name a results folder"
    ) as caught:
        compare(tmp_path / "other.json", tmp_path / "other.json")
    assert "original name" not in str(caught.value) and "Runs that are read: " in str(caught.value)
