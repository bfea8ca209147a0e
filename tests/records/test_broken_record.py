"""A record whose answers are empty or hold nothing: prepare and verify say so, and nothing ships beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from noted import noted
from own_record import DOCS, TEXTS, config_of, record_run
from packs import prepare

from meta_eval import compare, report, verify
from meta_eval.pack.baseline import find_baseline_file, read_baseline
from meta_eval.pack.manifest import read_manifest


def spoil(samples: Path, lacking: Callable[[int], bool], text: str) -> None:
    """Replace the texts of some docs, with their extractions and verdicts."""
    lines = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if lacking(line["doc_id"]):
            line |= {"resps": [[text]], "filtered_resps": ["[invalid]"], "exact_match": 0.0}
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def spoiled(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[int], bool], str], Path]:
    """Makes the pack of a record in which some texts lack something. The record itself is left as it is."""
    sound = record_run(tmp_path_factory)

    def make(lacking: Callable[[int], bool], text: str) -> Path:
        record = Path(shutil.copytree(sound, tmp_path / "record"))
        (samples,) = (record / "run").rglob(f"samples_{TEXTS}_*.jsonl")
        spoil(samples, lacking, text)
        (results,) = (record / "run").rglob("results_*.json")
        tree = json.loads(results.read_text(encoding="utf-8"))
        verdicts = [json.loads(line)["exact_match"] for line in samples.read_text(encoding="utf-8").splitlines()]
        tree["results"][TEXTS]["exact_match,strict"] = sum(verdicts) / len(verdicts)
        results.write_text(json.dumps(tree), encoding="utf-8")
        return prepare(tmp_path / "work_dir", **{**config_of(record), "tasks": TEXTS})

    return make


@pytest.mark.parametrize("text", ["", "Nothing that a filter finds"])
def test_a_record_in_which_nothing_can_be_read_is_said_and_ships_nobody(
    text: str,
    spoiled: Callable[[Callable[[int], bool], str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with noted() as notes:
        pack = spoiled(lambda _: True, text)
        proof = verify(pack)
    said = f"{TEXTS}: 15 of 15 recorded answers are empty, or nothing was found in them: almost nothing in this record "
    assert sum(note.startswith(said) for note in notes) == 2
    total = proof.tasks[TEXTS].tallies
    assert total is not None and total.total.unextracted == DOCS[TEXTS]
    run = record_run(tmp_path_factory) / "run"
    decision = report(run, pack=pack, tasks=[TEXTS], margin=90.0, cap=95.0).decision
    assert decision.outcome == "UNDECIDED"


def test_report_and_compare_say_the_same_of_a_record_that_lacks_answers(
    spoiled: Callable[[Callable[[int], bool], str], Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pack = spoiled(lambda doc: doc < 8, "")
    verify(pack)
    run = record_run(tmp_path_factory) / "run"
    beside_pack = report(run, pack=pack, tasks=[TEXTS], margin=90.0, cap=95.0)
    beside_run = compare(tmp_path / "record" / "run", run, tasks=[TEXTS], margin=90.0, cap=95.0)
    kinds = {"empty answers", "answers not read"}
    found = [
        {alarm.kind: alarm.veto for alarm in judged.alarms if alarm.kind in kinds}
        for judged in (beside_pack, beside_run)
    ]
    assert found[0] == found[1] and found[0]["empty answers"]
    assert [judged.decision.outcome for judged in (beside_pack, beside_run)] == ["UNDECIDED"] * 2


@pytest.mark.parametrize(
    "edited",
    [
        {"answer_length": "many"}, {"answer_length": None}, {"answer_length": [1]}, {"traits": 3}, {"traits": None},
        {"filter_results": []}, {"doc_id": None, "filter_results": 7},
    ],
)  # fmt: skip
def test_what_verify_stored_is_read_like_a_strangers_file(
    edited: dict[str, object], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pack = prepare(tmp_path / "work_dir", **{**config_of(record_run(tmp_path_factory)), "tasks": TEXTS})
    verify(pack)
    path = find_baseline_file(pack, TEXTS)
    head, first, *others = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([head, json.dumps(json.loads(first) | edited), *others, ""]), encoding="utf-8")
    assert "damaged" in read_baseline(pack, read_manifest(pack)).missing_reasons[TEXTS]
