"""board: several endpoints over the same docs, without a ranking that chance could turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import cli
from runs import entry as make_entry
from runs import manifest, published, write_run

from meta_eval.api import board
from meta_eval.messages.errors import UserError
from meta_eval.reports.html import render
from meta_eval.reports.view import find_document

TASKS = ("meta_one", "meta_two")


def write(folder: Path, right: int, docs: int = 200, tasks: tuple[str, ...] = TASKS) -> Path:
    for number, task in enumerate(tasks):
        verdicts = [1.0] * right + [0.0] * (docs - right)
        write_run(folder, verdicts, task=task, time=f"2026-01-0{number + 1}T03-04-05.000006")
    return folder


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    return {name: write(tmp_path / name, right) for name, right in (("low", 100), ("high", 150), ("near", 147))}


def test_endpoints_whose_intervals_overlap_share_places(places: dict[str, Path]) -> None:
    made = board(places)
    assert [(one.name, one.best, one.worst) for one in made.endpoints] == [
        ("high", 1, 2),
        ("near", 1, 2),
        ("low", 3, 3),
    ]
    assert made.summary == "high, near are not shown to be worse than any other"
    assert made.tasks == TASKS


def test_the_score_is_the_mean_of_the_tasks_that_all_ran(tmp_path: Path) -> None:
    both = write(tmp_path / "both", 150)
    write_run(both, [0.0] * 200, task="meta_more", time="2026-01-03T03-04-05.000006")
    made = board({"both": both, "one": write(tmp_path / "one", 150)})
    assert [one.score for one in made.endpoints] == [0.75, 0.75]
    assert made.notes == ("not in the score, because an endpoint lacks it: meta_more",)
    interval = made.endpoints[0].interval
    assert interval is not None and interval.upper - interval.lower < 0.09, "two tasks say more than one"


def test_a_board_has_the_audit_and_the_facts_of_the_run(places: dict[str, Path], tmp_path: Path) -> None:
    (results,) = places["low"].glob("results_2026-01-02*.json")
    tree = json.loads(results.read_text())
    tree["config"]["meta_eval"] = {"median_seconds": 1.25, "cost": 0.5}
    results.write_text(json.dumps(tree))
    (tmp_path / "a.json").write_text(json.dumps({"document_type": "audit", "outcome": "different"}))
    made = board(places, audits={"low": tmp_path / "a.json"})
    low = made.endpoints[2]
    assert (low.audit, low.seconds, low.cost) == ("different", 1.25, 0.5)
    page = "".join(render(find_document(made)))
    assert "different" in page and "1.25" in page and "3 endpoints over 2 tasks" in page


def test_the_drop_is_from_the_packs_baseline(places: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    pack = manifest(**{task: make_entry(200, published(75.0)) for task in TASKS})
    (tmp_path / "pack/manifest.json").write_text(pack.to_json(), encoding="utf-8")
    made = board(places, pack=tmp_path / "pack")
    assert [round(one.drop or 0, 3) for one in made.endpoints] == [0.0, 0.015, 0.25]
    assert made.endpoints[2].outcome == "DON'T SHIP"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("low",), "low is not NAME=PATH"), (("a=low", "a=high"), "two have the name a"),
        (("a=nowhere",), "nowhere: there is no such file"), (("a=low", "--audit", "b=x.json"), "b is no endpoint"),
        (("a=low", "--audit", "a=x.json"), "is not the JSON of an audit"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_one_message(
    words: tuple[str, ...], message: str, places: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "x.json").write_text("{}")
    done = cli("board", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr and done.stderr.count("error:") == 1


def test_json_is_on_stdout_alone(places: dict[str, Path], tmp_path: Path) -> None:
    done = cli("board", "a=low", "b=high", "--json", "--markdown", "b.md", cwd=tmp_path)
    assert [one["name"] for one in json.loads(done.stdout)["endpoints"]] == ["b", "a"]
    assert "| `b` |" in (tmp_path / "b.md").read_text()


def test_an_audit_of_no_endpoint_is_refused_by_the_function_too(places: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="other is no endpoint"):
        board(places, audits={"other": "x.json"})
