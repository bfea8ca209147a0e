"""export --to every-eval-ever: all numbers of a run, and no word of a doc."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import cli
from packs import prepare, read_docs
from recorded_runs import record

TASKS = ["meta_gsm8k", "meta_mmlu_pretrain"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack, a run of it, and the export."""
    home = tmp_path_factory.mktemp("home")
    record(prepare(home / "pack", ",".join(TASKS)), home / "run", TASKS)
    done = cli(
        "export",
        home / "pack",
        "--to",
        "every-eval-ever",
        "--results",
        home / "run",
        "--output",
        home / "out",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    (home / "said.json").write_text(done.stdout, encoding="utf-8")
    return home


def said(home: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    files = json.loads((home / "said.json").read_text(encoding="utf-8"))
    rows = Path(files["instances"]).read_text(encoding="utf-8").splitlines()
    assert len(rows) == files["rows"]
    return json.loads(Path(files["aggregate"]).read_text(encoding="utf-8")), [json.loads(row) for row in rows]


def samples(home: Path, task: str) -> list[dict[str, Any]]:
    (path,) = (home / "run").rglob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_average_of_the_run_is_there(home: Path) -> None:
    (path,) = (home / "run").rglob("results_*.json")
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    expected = {
        f"{task}:{spec}": value
        for task in TASKS
        for spec, value in results[task].items()
        if "," in spec and "_stderr," not in spec
    }
    aggregate, _ = said(home)
    result = {
        entry["evaluation_result_id"]: entry["score_details"]["score"] for entry in aggregate["evaluation_results"]
    }
    assert result == expected


def test_every_value_of_every_doc_is_there(home: Path) -> None:
    aggregate, rows = said(home)
    result = {(row["evaluation_result_id"], int(row["sample_id"])): row["evaluation"]["score"] for row in rows}
    assert len(result) == len(rows)
    for task in TASKS:
        for sample in samples(home, task):
            for metric in sample["metrics"]:
                if isinstance(sample[metric], (int, float)):
                    assert result[f"{task}:{metric},{sample['filter']}", sample["doc_id"]] == sample[metric]
    known = {entry["evaluation_result_id"] for entry in aggregate["evaluation_results"]}
    assert {row["evaluation_result_id"] for row in rows} <= known
    assert {row["evaluation_id"] for row in rows} == {aggregate["evaluation_id"]}


def test_samples_have_the_hash_that_others_give_them(home: Path) -> None:
    _, rows = said(home)
    (sample, *_) = samples(home, "meta_gsm8k")
    text = json.dumps(
        {"raw": sample["arguments"]["gen_args_0"]["arg_0"], "reference": str(sample["target"])}, sort_keys=True
    )
    (result,) = {
        row["sample_hash"]
        for row in rows
        if row["evaluation_name"].startswith("meta_gsm8k") and row["sample_id"] == "0"
    }
    assert result == hashlib.sha256(text.encode()).hexdigest()


def test_no_word_of_a_doc_or_an_answer_is_written_and_no_path(home: Path) -> None:
    written = b"".join(path.read_bytes() for path in (home / "out").rglob("*") if path.is_file()).decode()
    for task in TASKS:
        for doc in read_docs(home / "pack", task):
            for text in (
                doc["question"],
                doc["prompt"],
                doc.get("recorded_output") or "",
                *(doc.get("continuations") or ()),
            ):
                for piece in (text[:40], text[-40:]):
                    if len(piece) == 40:
                        assert piece not in written
                        assert json.dumps(piece)[1:-1] not in written
    assert str(home) not in written


def test_the_same_results_give_the_same_bytes(home: Path) -> None:
    files = {path: path.read_bytes() for path in (home / "out").rglob("*") if path.is_file()}
    done = cli("export", home / "pack", "--to", "every-eval-ever", "--results", home / "run", "--output", home / "out")
    # What is there was written by this command, and is replaced.
    assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in (home / "out").rglob("*") if path.is_file()} == files


def test_an_aggregate_that_was_edited_is_not_replaced(home: Path, tmp_path: Path) -> None:
    out = shutil.copytree(home / "out", tmp_path / "out")
    (aggregate,) = (path for path in out.rglob("*.json"))
    aggregate.write_text(aggregate.read_text().replace('"unknown"', '"me"'))
    edited = aggregate.read_bytes()
    done = cli("export", home / "pack", "--to", "every-eval-ever", "--results", home / "run", "--output", out)
    assert (done.returncode, "would be replaced" in " ".join(done.stderr.split())) == (2, True)
    assert aggregate.read_bytes() == edited


@pytest.mark.every_eval_ever
def test_its_own_validator_takes_both_files(home: Path) -> None:
    files = json.loads((home / "said.json").read_text(encoding="utf-8"))
    program = [os.environ["META_EVAL_EVERY_EVAL_EVER"], "-m", "every_eval_ever", "validate", "--format", "json"]
    done = subprocess.run(
        [*program, files["aggregate"], files["instances"]],
        capture_output=True,
        text=True,
        check=False,
        cwd=home / "out",
    )
    assert done.returncode == 0, done.stdout + done.stderr
