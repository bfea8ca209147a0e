"""compare A B C: several candidates beside a baseline, each decided by itself, with places that chance cannot turn."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command import cli
from marks import few
from runs import entry, manifest, write_run

from meta_eval.api import compare_candidates
from meta_eval.base.errors import UserError
from meta_eval.reports.document import Listing

DOCS = 48
TASKS = ("meta_one", "meta_two")


def verdicts(right: int, lost: int, won: int = 0, docs: int = DOCS) -> list[float]:
    """``right`` right docs, of which the first are lost, and so many others won."""
    return [0.0] * lost + [1.0] * (right - lost + won) + [0.0] * (docs - right - won)


def write(
    folder: Path, lost: int = 0, *, tasks: Sequence[str] = TASKS, model: str | None = None, docs: int = DOCS, **options: Any
) -> Path:  # fmt: skip
    """A run that lost some docs of each task, and flipped two more each way; less than none for the baseline."""
    model = model or f"org/{folder.name}"
    for number, task in enumerate(tasks):
        write_run(
            folder, verdicts(docs * 7 // 10, lost + 2, 2, docs) if lost >= 0 else verdicts(docs * 7 // 10, 0, 0, docs),
            task=task, time=f"2026-01-0{number + 1}T03-04-05.000006", model_args={"pretrained": model},
            extra={"model_name": model}, **options,
        )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, lost in (("base", -1), ("ship", 0), ("open", 8), ("lost", 26)):
        write(folder / name, lost)
    return folder


@pytest.fixture
def place(written: Path, tmp_path: Path) -> Path:
    """A baseline, a copy that ships, a copy that nobody can tell about, and a copy that lost."""
    return shutil.copytree(written, tmp_path / "place")


def compare(place: Path, *words: str) -> tuple[Any, subprocess.CompletedProcess[str]]:
    """Compare at a margin of 13 points. Return the JSON and the process."""
    margin = () if "--max-drop" in words else ("--margin", "13")
    done = cli("compare", *words, *margin, "--cap", "40", "--json", cwd=place)
    return (json.loads(done.stdout) if done.stdout else None), done


def test_a_candidate_is_judged_as_if_it_were_the_only_one(place: Path) -> None:
    together, _ = compare(place, "base", "ship", "open", "lost")
    assert together["document_type"] == "candidates"
    for candidate in together["candidates"][::2]:
        alone, _ = compare(place, "base", candidate["name"])
        tables = alone.pop("tables")
        assert candidate["report"] == alone
        assert candidate["outcome"] == alone["decision"]["outcome"]
        (row,) = [row for row in together["tables"][0]["rows"] if row["name"] == candidate["name"]]
        (mean,) = [row for row in tables[0]["rows"] if row["name"] == "weighted mean"]
        assert {key: row["cells"][key] for key in ("drop", "interval")} == {
            key: mean["cells"][key] for key in ("drop", "interval")
        }
    assert [candidate["outcome"] for candidate in together["candidates"]] == ["SHIP", "UNDECIDED", "DON'T SHIP"]
    assert together["summary"] == "SHIP: ship; UNDECIDED: open; DON'T SHIP: lost."


@pytest.mark.parametrize(
    ("candidates", "code"),
    [
        ("ship open --max-drop 13", 3), ("open lost --max-drop 13", 1), ("lost unlike --max-drop 13", 2),
        ("lost gone --max-drop 13", 2), ("open lost", 0), ("ship gone", 2),
    ],
)  # fmt: skip
def test_the_exit_code_is_that_of_the_worst(candidates: str, code: int, place: Path) -> None:
    if "unlike" in candidates:
        write(place / "unlike", 0, config={"gen_kwargs": {"temperature": 0.7}})
    tree, done = compare(place, "base", *candidates.split())
    assert (done.returncode, tree["exit_code"]) == (code, code), done.stderr


def _damage(folder: Path) -> None:
    (file,) = write(folder, tasks=TASKS[:1]).glob("samples_*")
    file.write_text("{not json\n")


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda _: None, "there is no such file"),
    "an empty folder": (Path.mkdir, "no lm_eval files found"),
    "a foreign file": (lambda folder: folder.write_bytes(b"\0\xff"), "no"),
    "other tasks": (lambda folder: write(folder, tasks=["other"]), "no task in common"),
    "damage": (_damage, "JSON"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_candidate_that_cannot_be_compared_stops_no_other(kind: str, place: Path) -> None:
    make, message = BROKEN[kind]
    make(place / "bad")
    tree, done = compare(place, "base", "bad", "ship", "lost", "--html", "page.html", "--markdown", "page.md")
    bad, *others = tree["candidates"]
    assert (bad["outcome"], bad["report"]) == ("not compared", None), tree["summary"]
    assert message in bad["error"]
    assert [candidate["outcome"] for candidate in others] == ["SHIP", "DON'T SHIP"]
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1 and done.stderr.splitlines()[-1] == f"error: {bad['error']}"
    for file in ("page.html", "page.md"):
        assert "not compared" in (place / file).read_text(), "the page of the others is written"
    assert {run["name"] for run in tree["places"]} == {"base", "ship", "lost"}


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        ("base", ["compare: needs two sides"]),
        ("base --", ["needs two sides"]),
        ("base -- -- lost", ["needs two sides", "compare A B C"]),
        ("base ship ship", ["ship: is named as 2 candidates. Name each candidate once"]),
        ("base ship ./ship/../ship", ["ship: is named as 2 candidates"]),
        ("base -- ship lost -- lost open", ["lost: is named as 2 candidates"]),
        ("gone ship lost", ["gone: there is no such file"]),
        ("base gone gone2", ["gone: there is no such file", "Also gone2: there is no such file"]),
        ("base ship lost --texts", ["--texts: compares two runs, and 3 are named. Name A and one candidate"]),
        ("base ship lost --tokens t", ["--tokens: has no effect without --texts"]),
        ("base ship lost --tasks=nope", ["--tasks: unknown task 'nope'"]),
        ("base ship lost --gate nope.yaml", ["nope.yaml: cannot be read: there is no such file"]),
        ("base ship lost --view eval-results=x", ["--view", "eval-results"]),
        ("base ship lost --html lost/x.html --markdown lost", ["lost"]),
        ("base ship lost --pack nope", ["nope"]),
        ("base ship lost --include-path x", ["include_path: only has an effect with regrade"]),
    ],
)  # fmt: skip
def test_a_mistake_that_concerns_all_is_one_message(words: str, messages: list[str], place: Path) -> None:
    done = cli("compare", *words.split(), cwd=place, COLUMNS="400")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("error:") == 1
    for message in messages:
        assert message in done.stderr


def test_candidates_with_the_same_answers_are_noted(place: Path) -> None:
    shutil.copytree(place / "ship", place / "other")
    tree, _ = compare(place, "base", "ship", "other", "lost")
    assert any("gave the same answers to all docs" in note and "lost" not in note for note in tree["notes"])


def test_a_run_or_its_copy_beside_itself_never_ships(place: Path) -> None:
    shutil.copytree(place / "base", place / "moved" / "base")
    tree, done = compare(place, "base", "base", "moved", "ship")
    outcomes = [candidate["report"]["decision"]["outcome"] for candidate in tree["candidates"]]
    assert outcomes == ["UNDECIDED", "UNDECIDED", "SHIP"]
    assert "the same run twice" in done.stderr


def test_thirty_runs_are_read_one_after_the_other(tmp_path: Path) -> None:
    names = [f"run{number:02}" for number in range(30)]
    for number, name in enumerate(names):
        write(tmp_path / name, number, tasks=TASKS[:1], docs=48)
    tree, done = compare(tmp_path, *names)
    assert done.returncode == 0, done.stderr
    assert len(tree["candidates"]) == 29 and len(tree["places"]) == 30
    assert [place["name"] for place in tree["places"]][::29] == ["run00", "run29"]


@pytest.mark.parametrize(
    "unlike",
    [
        {"config": {"gen_kwargs": {"temperature": 0.7}}}, {"extra": {"system_instruction": "Be brief."}},
        {"line": {"prompt_hash": "x", "arguments": [["another prompt", {}]]}},
        {"extra": {"higher_is_better": {"meta_one": {"exact_match": False}, "meta_two": {"exact_match": False}}}},
    ],
)  # fmt: skip
def test_an_invalid_comparison_is_of_its_candidate_alone(unlike: dict[str, Any], place: Path) -> None:
    for folder in ("base", "ship", "lost"):
        for file in (place / folder).glob("results_*"):
            tree = json.loads(file.read_text())
            tree["higher_is_better"] = {task: {"exact_match": True} for task in TASKS}
            file.write_text(json.dumps(tree))
    extra = unlike.pop("extra", {})
    write(place / "unlike", 0, **unlike)
    for file in (place / "unlike").glob("results_*") if extra else ():
        file.write_text(json.dumps(json.loads(file.read_text()) | extra))
    tree, _ = compare(place, "base", "ship", "unlike", "lost")
    outcomes = {candidate["name"]: candidate["outcome"] for candidate in tree["candidates"]}
    assert outcomes == {"ship": "SHIP", "unlike": "UNDECIDED", "lost": "DON'T SHIP"}
    assert [run["name"] for run in tree["places"]] == ["base", "ship", "lost"], "an invalid comparison has no place"
    assert tree["places_tasks"] == list(TASKS)


# Places


def test_runs_whose_intervals_overlap_share_places(place: Path) -> None:
    tree, done = compare(place, "base", "lost", "ship", "open")
    assert [(run["name"], run["best"], run["worst"]) for run in tree["places"]] == [
        ("base", 1, 2), ("ship", 1, 3), ("open", 2, 3), ("lost", 4, 4),
    ]  # fmt: skip
    assert tree["places"][-1]["drop"] == pytest.approx(26 / DOCS)
    assert "base 1 to 2" in done.stderr and "lost 4 " in done.stderr


def test_places_are_by_the_tasks_that_all_ran_over_the_same_docs(place: Path) -> None:
    write(place / "base", -1, tasks=["x", "meta_more"], docs=50)
    write(place / "ship", 0, tasks=["x", "meta_more"], docs=50)
    write(place / "short", 0, tasks=["meta_one"])
    write_run(place / "short", verdicts(DOCS * 7 // 10, 2, 2)[:-6], task="meta_two", time="2026-01-02T03-04-05.000006",
              model_args={"pretrained": "org/short"}, extra={"model_name": "org/short"})  # fmt: skip
    tree, _ = compare(place, "base", "ship", "short")
    assert tree["places_tasks"] == ["meta_one"]
    notes = [note for note in tree["notes"] if note.startswith("not in the places")]
    assert notes == [
        "not in the places, because short lacks it: meta_more, x",
        "not in the places, because runs answered other docs of it: meta_two",
    ]


def test_without_a_common_task_there_are_no_places(place: Path) -> None:
    write(place / "one", 0, tasks=TASKS[:1])
    write(place / "two", 0, tasks=TASKS[1:])
    tree, done = compare(place, "base", "one", "two")
    assert (tree["places"], len(tree["candidates"])) == ([], 2)
    assert "Places" not in done.stderr


# Names


@pytest.mark.parametrize(
    ("folders", "models", "names"),
    [
        ("a b c", "org/x org/y org/z", "x y z"),
        ("a b c", "one/x two/x two/y", "one/x two/x two/y"),
        ("a b c", "m m m", "a b c"),
        ("a/run b/run c/other", "m m m", "a/run b/run other"),
        ("a b c", "org/x org/x org/y", "a b c"),
        ("results/run1/gpt results/run2/gpt results/run2/gpt2", "m m m", "run1/gpt run2/gpt gpt2"),
    ],
)
def test_runs_are_named_by_their_models_or_by_the_end_of_their_folders(
    folders: str, models: str, names: str, tmp_path: Path
) -> None:
    for folder, model in zip(folders.split(), models.split(), strict=True):
        write(tmp_path / folder, 0, tasks=TASKS[:1], model=model, docs=50)
    tree, _ = compare(tmp_path, *folders.split())
    assert [tree["baseline"], *(candidate["name"] for candidate in tree["candidates"])] == names.split()


@pytest.mark.parametrize("name", few(["two\nlines", "a|b<b>", "\u202ereversed", "error: no", "x" * 200], 2))
def test_a_foreign_name_forges_nothing(name: str, place: Path) -> None:
    write(place / name, 40, model=name)
    tree, done = compare(place, "base", "ship", name, "--html", "page.html", "--markdown", "page.md")
    assert [candidate["outcome"] for candidate in tree["candidates"]] == ["SHIP", "DON'T SHIP"]
    assert max(map(len, done.stderr.splitlines())) <= 80
    assert not [line for line in done.stderr.splitlines() if line.startswith("lines")] and "\u202e" not in done.stderr
    page, markdown = (place / "page.html").read_text(), (place / "page.md").read_text()
    assert "a|b<b>" not in page and "a|b<b>" not in markdown


def test_six_candidates_with_long_names_are_whole_in_eighty_columns(tmp_path: Path) -> None:
    names = [f"checkpoint-{number}000-of-a-long-training-run" for number in range(7)]
    for number, name in enumerate(names):
        write(tmp_path / name, number * 3)
    done = cli("compare", *names, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "…" not in done.stdout and max(map(len, done.stdout.splitlines())) <= 80
    for name in names[1:]:
        assert sum(line.strip().startswith(name[:20]) for line in done.stdout.splitlines()) >= 4


# Options


def test_several_runs_of_a_side_are_averaged_for_that_candidate_alone(place: Path) -> None:
    for number in (2, 3):
        shutil.copytree(place / "ship", place / f"ship{number}")
        for file in [*(place / f"ship{number}").iterdir()]:
            new = file.rename(file.with_name(file.name.replace("2026-01", f"2026-0{number}")))
            new.write_text(new.read_text().replace('"date": 1', f'"date": {number}'))  # a copy is no second run
    tree, _ = compare(place, "base", "--", "ship", "ship2", "ship3", "--", "lost")
    assert [[task["runs"] for task in candidate["report"]["tasks"]] for candidate in tree["candidates"]] == [
        [3, 3], [1, 1],
    ]  # fmt: skip


def test_pack_gate_and_tasks_hold_for_every_candidate(place: Path) -> None:
    (place / "pack").mkdir()
    pack = manifest(**{task: entry(DOCS) for task in TASKS})
    (place / "pack/manifest.json").write_text(pack.to_json(), encoding="utf-8")
    (place / "gate.yaml").write_text("margin: 80\ncap: 90\n")
    done = cli("compare", "base", "ship", "lost", "--pack", "pack", "--gate", "gate.yaml", "--tasks=meta_one", "--json",
               cwd=place)  # fmt: skip
    tree = json.loads(done.stdout)
    assert (done.returncode, [candidate["outcome"] for candidate in tree["candidates"]]) == (0, ["SHIP", "SHIP"])
    assert [[task["name"] for task in candidate["report"]["tasks"]] for candidate in tree["candidates"]] == [
        ["meta_one"], ["meta_one"],
    ]  # fmt: skip
    assert tree["candidates"][0]["report"]["tasks"][0]["prepared"] == DOCS


def test_the_seconds_and_the_cost_of_an_endpoint_have_columns_where_they_are_known(place: Path) -> None:
    before, _ = compare(place, "base", "ship", "lost")
    for file in (place / "ship").glob("results_*"):
        tree = json.loads(file.read_text())
        tree["config"]["meta_eval"] = {"median_seconds": 1.25, "cost": 0.5}
        file.write_text(json.dumps(tree))
    after, done = compare(place, "base", "ship", "lost")
    columns = [[column["key"] for column in tree["tables"][0]["columns"]] for tree in (before, after)]
    assert columns == [["tasks", "drop", "interval"], ["tasks", "drop", "interval", "seconds", "cost"]]
    cells = after["tables"][0]["rows"][0]["cells"]
    assert (cells["seconds"], cells["cost"]) == (1.25, 1.0)
    assert "1.25" in done.stderr


def test_the_baseline_has_a_row_beside_the_seconds_and_the_cost_of_candidates_and_their_units_are_said(
    place: Path,
) -> None:
    for name, seconds, cost in (("base", 0.5, 0.00012), ("ship", 1.25, 3.0)):
        for file in (place / name).glob("results_*"):
            tree = json.loads(file.read_text())
            tree["config"]["meta_eval"] = {"median_seconds": seconds, "cost": cost}
            file.write_text(json.dumps(tree))
    done = cli("compare", "base", "ship", "lost", "--markdown", "page.md", cwd=place)
    words = " ".join(done.stdout.split())
    assert "base (the baseline) - - - 0.50 0.00024 " in words and " 1.25 6.00 " in words
    for legend in ("Seconds: the median of an answer.", "in the currency of the configured prices"):
        assert legend in words and legend in (place / "page.md").read_text().replace("\\", "")


def test_the_table_of_tasks_says_that_docs_differ_only_where_they_do(place: Path) -> None:
    (place / "gate.yaml").write_text("margin: 4\ntasks: [meta_one]\n")
    words = ("compare", "base", "ship", "lost")
    same = cli(*words, "--gate", "gate.yaml", cwd=place, COLUMNS="400").stdout
    assert "meta_two" in same and "answered other docs" not in same
    write(place / "short", 0, docs=DOCS - 10)
    unlike = cli(*words, "short", cwd=place, COLUMNS="400").stdout
    assert "Where candidates answered other docs, base has no score of its own." in unlike


def test_the_function_gives_reports_and_errors(place: Path) -> None:
    found = compare_candidates(place / "base", [place / "ship", place / "gone"], margin=13, cap=40)
    ship, gone = found.candidates
    assert ship.report is not None and ship.report.decision.outcome == "SHIP"
    assert isinstance(gone.error, UserError) and found.exit_code == 2
    with pytest.raises(UserError, match="there is no candidate"):
        compare_candidates(place / "base", [])


def test_json_takes_no_file(place: Path) -> None:
    done = cli("compare", "base", "ship", "--json", "out.json", cwd=place)
    assert done.returncode == 2 and "--json out.json: takes no file" in done.stderr


def test_a_samples_file_that_is_missing_beside_others_is_named(place: Path) -> None:
    lost, other = sorted((place / "ship").rglob("samples_*"))
    time = lost.stem.rpartition("_")[2]
    other.with_name(f"samples_another_{time}.jsonl").write_bytes(other.read_bytes())
    lost.unlink()
    done = cli("compare", "base", "ship", cwd=place, COLUMNS="400")
    shown = done.stderr + done.stdout
    assert "has samples of other tasks beside it, and none of this one" in shown


def test_a_side_of_which_a_choice_leaves_nothing_is_named(place: Path) -> None:
    write(place / "third", tasks=["elsewhere"])
    done = cli("compare", "base", "third", "--tasks", "meta_two", cwd=place, COLUMNS="400")
    assert done.returncode == 2 and "leaves nothing of B, which has elsewhere" in done.stderr


def test_another_model_stands_beside_the_decision_of_its_candidate(tmp_path: Path) -> None:
    of_tasks = {task: {"asked": "m", "models": {"m-0806": DOCS}, "endpoints": []} for task in TASKS}
    runs = [write(tmp_path / name) for name in ("base", "one")]
    runs.append(write(tmp_path / "two", config={"meta_eval": {"origins": of_tasks}}))
    document = compare_candidates([runs[0]], [[runs[1]], [runs[2]]]).document()
    listing = document.sections[0].blocks[-1]
    assert isinstance(listing, Listing)
    why = {item.names[0]: item.text for item in listing.items}
    assert "another model: meta_one in B (48 of 48: all name m-0806, and m was requested)" in why["two"]
    assert "another model" not in why.get("one", "") and not any("another model" in note for note in document.notes)


def test_two_runs_show_the_score_and_the_seconds_of_both(tmp_path: Path) -> None:
    for name, lost, seconds in (("A", 0, 0.5), ("B", 8, 1.25)):
        write(tmp_path / name, lost, config={"meta_eval": {"median_seconds": seconds}})
    done = cli("compare", "A", "B", cwd=tmp_path)
    assert "Seconds: A 0.50, B 1.25, the median of an answer." in done.stdout
    scores = done.stdout[done.stdout.index("\nScores\n") :]
    assert scores.splitlines()[2].split() == ["task", "docs", "A", "B", "95", "%"]
    assert scores.splitlines()[3].split()[:4] == ["meta_one", "48", "68.8", "52.1"]
