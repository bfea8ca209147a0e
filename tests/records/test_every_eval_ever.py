"""Evaluations in the schema Every Eval Ever: read, graded again by exact match, refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from noted import noted
from packs import prepare, read_docs
from recorded_runs import record

from meta_eval import report, verify
from meta_eval.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.records.exchanged import Evaluation
from meta_eval.records.exchanged_rows import read_exchanged
from meta_eval.replay import ReplayLM

Tree = dict[str, Any]
UUIDS = {"one": "0c5a3a52-6b3c-4f44-9c1a-0d8b0a3c5e11", "two": "0c5a3a52-6b3c-4f44-9c1a-0d8b0a3c5e12"}
DOCS = 6
ROW: Tree = {
    "evaluation_result_id": "exact", "sample_id": "s", "interaction_type": "single_turn",
    "input": {"raw": "What?", "formatted": "What?", "reference": ["3"], "choices": None}, "output": {"raw": ["3"]},
    "answer_attribution": [], "evaluation": {"score": 1.0}, "error": None, "metadata": None,
}  # fmt: skip
AVERAGE: Tree = {
    "evaluation_result_id": "exact", "evaluation_name": "sums", "score_details": {"score": 1.0},
    "metric_config": {"lower_is_better": False},
    "generation_config": {"generation_args": {"max_tokens": 3}, "additional_details": {"until": "[]"}},
}  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=4)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))


def changed(good: Tree) -> st.SearchStrategy[Tree]:
    """A tree of which some columns hold anything."""
    return st.dictionaries(st.sampled_from(sorted(good)), VALUES, max_size=2).map(lambda other: {**good, **other})


RIGHT = (0, 1, 3)


def evaluation(folder: Path, change: Callable[[Tree, list[Tree]], Any] = lambda *_: None, *, name: str = "one") -> Path:
    """An evaluation of six sums with two scores; ``change`` gets the averages and the rows before they are written."""
    place = folder / "data" / "ours" / "org" / "model"
    place.mkdir(parents=True, exist_ok=True)
    ids = {"schema_version": "0.3.0", "evaluation_id": f"ours/org_model/{name}"}
    rows = []
    for n in range(DOCS):
        answer = f" {n + 2}\n" if n in RIGHT else f"it is {n + 2}"
        shared = {
            **ids,
            "model_id": "org/model",
            "evaluation_name": "sums/plain",
            "sample_id": f"s{n}",
            "interaction_type": "single_turn",
            "input": {
                "raw": f"What is {n} + 2?",
                "formatted": f"<s>Q: What is {n} + 2?\nA:",
                "reference": [str(n + 2), f"{n + 2}.0"],
            },
            "output": {"raw": [answer]},
            "answer_attribution": [],
        }
        rows += [
            {**shared, "evaluation_result_id": "exact", "evaluation": {"score": float(n in RIGHT), "is_correct": False}},
            {**shared, "evaluation_result_id": "length", "evaluation": {"score": len(answer), "is_correct": False}},
        ]  # fmt: skip
    asked_with = {
        "generation_args": {"max_tokens": 32, "temperature": 0},
        "additional_details": {"until": '["\\n\\n"]'},
    }
    average = {
        "evaluation_result_id": "exact", "evaluation_name": "sums/plain",
        "source_data": {"dataset_name": "sums", "source_type": "other"},
        "metric_config": {"lower_is_better": False, "score_type": "binary"},
        "score_details": {"score": len(RIGHT) / DOCS}, "generation_config": asked_with,
    }  # fmt: skip
    averages = {
        **ids, "retrieved_timestamp": "1700000000",
        "source_metadata": {
            "source_name": "ours", "source_type": "evaluation_run", "source_organization_name": "us",
            "evaluator_relationship": "first_party",
        },
        "eval_library": {"name": "ours", "version": "1"},
        "model_info": {
            "name": "model", "id": "org/model", "developer": "org",
            "additional_details": {"deployment_type": "self_deployed", "model_availability": "open_weights"},
        },
        "evaluation_results": [average],
    }  # fmt: skip
    change(averages, rows)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (place / f"{UUIDS[name]}_samples.jsonl").write_text(text, encoding="utf-8")
    averages.setdefault("detailed_evaluation_results", {
        "format": "jsonl", "file_path": f"data/ours/org/model/{UUIDS[name]}_samples.jsonl", "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(text.encode()).hexdigest(), "total_rows": len(rows),
    })  # fmt: skip
    (place / f"{UUIDS[name]}.json").write_text(json.dumps(averages), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exchanged")
    with noted() as notes:
        made = prepare(folder / "pack", "recorded", evals_dataset=str(evaluation(folder / "in")))
    assert any("recorded and not graded again: 'length'" in note for note in notes)
    return made


def test_recorded_scores_are_given_again(pack: Path) -> None:
    task = verify(pack).tasks["sums_plain"]
    assert (task.status, task.tallies and task.tallies.total.agreed) == ("passed", DOCS)
    entry = read_manifest(pack).tasks["sums_plain"]
    assert [(one.metric, one.value) for one in entry.published] == [("exact", 50.0)]
    assert entry.record is not None
    assert (entry.record.model, entry.record.bos, entry.warnings) == ("org/model", "<s>", {"prompt_with_bos": DOCS})


def test_the_formatted_prompt_is_asked_with_the_recorded_settings(pack: Path) -> None:
    assert [doc["prompt"] for doc in read_docs(pack, "sums_plain")] == [f"Q: What is {n} + 2?\nA:" for n in range(DOCS)]
    text = (pack / read_manifest(pack).tasks["sums_plain"].template).read_text(encoding="utf-8")
    assert "max_gen_toks: 32" in text
    assert r'"\n\n"' in text


def test_a_run_of_the_pack_stands_beside_the_record(pack: Path, tmp_path: Path) -> None:
    verify(pack)
    record(pack, tmp_path / "run", ["sums_plain"])
    (task,) = report([tmp_path / "run"], pack=pack).tasks
    assert task.flips is not None
    assert task.flips.compared == DOCS


def every(rows: list[Tree], change: Callable[[Tree], Any]) -> None:
    for row in rows:
        change(row)


def test_of_lm_eval_the_hash_says_that_raw_is_the_prompt(tmp_path: Path) -> None:
    def change(_: Tree, rows: list[Tree]) -> None:
        for row in rows:
            row["input"] = {**row["input"], "raw": f"Q: {row['input']['raw']}\nA:", "formatted": None}
            row["metadata"] = {"prompt_hash": hashlib.sha256(row["input"]["raw"].encode()).hexdigest()}

    made = prepare(tmp_path / "pack", "sums_plain", evals_dataset=str(evaluation(tmp_path / "in", change)))
    assert read_docs(made, "sums_plain")[0]["prompt"] == "Q: What is 0 + 2?\nA:"


def test_of_several_evaluations_the_one_that_is_meant_is_named(tmp_path: Path) -> None:
    evaluation(tmp_path / "in")
    evaluation(tmp_path / "in", name="two")
    with pytest.raises(UserError, match="holds 2 runs of sums_plain"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(tmp_path / "in"))
    prepare(tmp_path / "pack", "recorded", evals_dataset=str(tmp_path / "in"), evals_run="ours/org_model/two")
    entry = read_manifest(tmp_path / "pack").tasks["sums_plain"].record
    assert entry is not None
    assert entry.time == "ours/org_model/two"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _, rows: rows[2]["input"].update(formatted=None), "line 3, sample 's1'.* cannot be asked again"),
        (lambda _, rows: rows[2]["input"].update(reference=[]), "sample 's1'.*no reference"),
        (lambda _, rows: rows[2]["output"].update(raw=["3", "3"]), "sample 's1'.*answered 2 times"),
        (lambda _, rows: rows[2].update(error="timeout"), "sample 's1'.*timeout"),
        (lambda _, rows: rows[2].update(interaction_type="multi_turn"), "sample 's1'.*several turns"),
        (lambda _, rows: rows[2]["input"].update(choices=["3", " 3\n"]), "sample 's1'.*word for word"),
        (lambda _, rows: rows[3].update(output={"raw": ["3"]}), "line 4, sample 's1'.*asked or answered otherwise"),
        (lambda _, rows: rows.append(rows[2]), "line 13, sample 's1'.*stands there twice"),
        (lambda _, rows: rows[2]["evaluation"].update(score=0.0), "sample 's1': exact match gives 1, and 'exact' is 0"),
        (lambda _, rows: every(rows, lambda row: row.update(
            output={"raw": ["?"]}, evaluation={"score": 0.0, "is_correct": False})), "not one answer is right"),
        (lambda _, rows: rows[2].update(answer_attribution=[
            {"extraction_method": "regex", "extracted_value": "2", "is_terminal": True}]), "sample 's1'.*regex"),
        (lambda tree, _: tree["evaluation_results"][0]["score_details"].update(score=0.6), "average to 0.5, and 0.6"),
        (lambda tree, _: tree["evaluation_results"][0]["score_details"].update(score=float("nan")), "to 0.5, and nan"),
        (lambda tree, _: tree["evaluation_results"][0].pop("generation_config"), "how many tokens"),
        (lambda tree, _: tree.update(evaluation_id="other"), "is of 'other', and"),
        (lambda tree, _: tree.update(detailed_evaluation_results={"total_rows": 13}), "12 rows, and .* says 13"),
        (lambda tree, _: tree.update(detailed_evaluation_results={
            "checksum": "0" * 64, "hash_algorithm": "sha256"}), "SHA-256"),
        (lambda _, rows: rows[2].update(schema_version="0.2.1"), "line 3.*0.2.1.* 0.3 is read"),
        (lambda _, rows: rows[2].update(model_id="org/other"), "mixes 2 evaluations or models"),
    ],
)  # fmt: skip
def test_what_would_make_a_wrong_number_stops_with_its_place(
    change: Callable[[Tree, list[Tree]], Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"(?s){said}"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(evaluation(tmp_path / "in", change)))
    assert not (tmp_path / "pack").exists()


@given(changed(ROW), changed(ROW["input"]), changed(AVERAGE))
def test_any_row_is_read_or_refused_in_one_line(row: Tree, asked: Tree, average: Tree) -> None:
    row = {**row, "input": asked} if row["input"] == ROW["input"] else row
    tree = {"evaluation_results": [average]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one_samples.jsonl"
        path.write_text(json.dumps({**row, "evaluation_name": "sums"}), encoding="utf-8")
        try:
            found = read_exchanged(Evaluation("one", "org/model", path, tree, {"sums": "sums"}), "sums", "here")
        except UserError as error:
            assert "\n" not in str(error)
        else:
            assert found.average == 1


@pytest.mark.every_eval_ever
def test_what_its_own_converter_makes_of_a_run_becomes_the_same_docs(pack: Path, tmp_path: Path) -> None:
    program = [os.environ["META_EVAL_EVERY_EVAL_EVER"], "-m", "every_eval_ever"]
    record(pack, tmp_path / "run", ["sums_plain"], model=ReplayLM())
    words = ["convert", "lm_eval", "--log_path", str(tmp_path / "run"), "--include_samples", "--output_dir", "data"]
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    made = prepare(tmp_path / "pack", "recorded", evals_dataset=str(tmp_path / "data"))
    assert [doc["prompt"] for doc in read_docs(made, "sums_plain")] == [
        doc["prompt"] for doc in read_docs(pack, "sums_plain")
    ]
    assert verify(made).passed


@pytest.mark.every_eval_ever
def test_the_evaluations_of_these_tests_are_valid(tmp_path: Path) -> None:
    folder = evaluation(tmp_path / "in")
    files = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]
    program = [os.environ["META_EVAL_EVERY_EVAL_EVER"], "-m", "every_eval_ever", "validate", "--format", "json"]
    done = subprocess.run([*program, *files], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
