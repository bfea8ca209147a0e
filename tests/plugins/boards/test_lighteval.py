"""Details that lighteval itself wrote (tools/lighteval_outputs.py): read, graded again, refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_logs import list_unseen_settings, write_json
from leaderboard import as_dataset, hub_of
from noted import noted
from packs import prepare, read_docs
from places import REPOSITORY
from recorded_runs import record

from meta_eval import compare, report, verify
from meta_eval.base.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.pack.verify import Proof
from meta_eval.plugins.boards.details_record import DetailsFormat

OUTPUT = REPOSITORY / "tests" / "data" / "lighteval_outputs" / "0.13.0"
MODEL = str(OUTPUT / "model")
TASKS = {"colours_2": 9, "letters_0": 8, "words_1": 6}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A pack, and the notes of its prepare."""
    folder = tmp_path_factory.mktemp("lighteval")
    with noted() as notes:
        pack = prepare(folder / "pack", "recorded", evals_dataset=str(OUTPUT), model_name=MODEL)
    return pack, notes


@pytest.fixture(scope="module")
def pack(prepared: tuple[Path, list[str]]) -> Path:
    return prepared[0]


@pytest.fixture(scope="module")
def proof(pack: Path) -> Proof:
    return verify(pack)


def changed(folder: Path, task: str, edit: Callable[[list[dict[str, Any]]], Any]) -> str:
    shutil.copytree(OUTPUT, folder / "run")
    (path,) = (folder / "run").rglob(f"details_{task}*.parquet")
    rows = pq.read_table(path).to_pylist()
    edit(rows)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(folder / "run")


def test_two_runs_are_compared_without_a_pack(tmp_path: Path) -> None:
    shutil.copytree(OUTPUT, tmp_path / "run")
    found = compare(OUTPUT, tmp_path / "run")
    assert {task.name: task.docs for task in found.tasks} == TASKS
    assert {task.drop.value for task in found.tasks if task.drop} == {0.0}


def test_recorded_metrics_are_given_again(pack: Path, proof: Proof) -> None:
    checks = {name: (task.status, task.tallies and task.tallies.total.agreed) for name, task in proof.tasks.items()}
    assert checks == {name: ("passed", docs) for name, docs in TASKS.items()}
    entries = read_manifest(pack).tasks
    assert {number.metric for number in entries["colours_2"].reference_scores} == {"acc,none", "acc_norm,none"}
    assert [number.value for number in entries["letters_0"].reference_scores] == [25.0]  # as lighteval averages it
    assert {entry.model for entry in entries.values()} == {"org__Tiny-Llama"}


def test_a_time_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    shutil.copytree(OUTPUT, tmp_path / "run")
    (path,) = (tmp_path / "run").rglob("details_words*.parquet")
    path.rename(path.with_name(re.sub(r"_\d{4}-\d\d-", "_2026-13-", path.name)))
    with pytest.raises(UserError, match="there is no time 2026-13-.*, which stands in its name. Restore the file's"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(tmp_path / "run"), model_name=MODEL)


def test_its_details_are_a_baseline(tmp_path: Path) -> None:
    pack = prepare(
        tmp_path / "pack", "colours_2,words_1", evals_dataset=str(OUTPUT), model_name=MODEL, baseline=str(OUTPUT)
    )
    kept = {name: entry.baseline for name, entry in read_manifest(pack).tasks.items()}
    runs = {name: [(run.docs, run.docs_with_other_prompt) for run in runs] for name, runs in kept.items()}
    assert runs == {"colours_2": [(9, 0)], "words_1": [(6, 0)]}
    assert verify(pack).passed


def test_prompts_are_what_the_recorded_ids_say(pack: Path, tmp_path: Path) -> None:
    prompts = [doc["prompt"] for doc in read_docs(pack, "colours_2")]
    assert prompts[0].startswith("Which of these is the colour of pebble 0? grey 0\n\nWhich of these")
    assert "prompt_rebuilt" not in read_manifest(pack).tasks["colours_2"].warnings
    # Without the tokenizer they are put together as lighteval does, which is then said.
    with noted() as notes:
        other = prepare(tmp_path / "pack", "colours_2", evals_dataset=str(OUTPUT))
    assert [doc["prompt"] for doc in read_docs(other, "colours_2")] == prompts
    assert read_manifest(other).tasks["colours_2"].warnings["prompt_rebuilt"] == 9
    assert any("put together as lighteval does" in note for note in notes)


def test_metrics_that_nothing_grades_again_are_named(prepared: tuple[Path, list[str]]) -> None:
    _, notes = prepared
    assert any("recorded and not graded again: acc:logprob_normalization=LogProbTokenNorm" in note for note in notes)


@pytest.mark.usefixtures("proof")
def test_a_run_of_the_pack_stands_beside_the_record(pack: Path, tmp_path: Path) -> None:
    record(pack, tmp_path / "run", list(TASKS))
    judged = report([tmp_path / "run"], pack=pack)
    assert {task.name: task.flips and task.flips.compared for task in judged.tasks} == TASKS


def test_a_dataset_of_the_hub_is_read_alike(pack: Path, tmp_path: Path) -> None:
    name = "org/details_org__Tiny-Llama"
    (folder,) = (OUTPUT / "details").glob("*")
    with hub_of({name: as_dataset(folder)}, tmp_path / "cache"):
        other = prepare(tmp_path / "pack", "words_1", evals_dataset=name, model_name=MODEL)
    assert read_docs(other, "words_1") == read_docs(pack, "words_1")


@pytest.mark.parametrize(
    ("task", "edit", "message"),
    [
        ("letters", lambda rows: rows[1]["metric"].update(acc=1 - rows[1]["metric"]["acc"]), "give acc"),
        ("words", lambda rows: rows[1]["model_response"].update(text=["a", "b"]), "has 2 answers"),
        ("letters", lambda rows: rows[1]["doc"].update(unconditioned_query="Answer:"), "without a question"),
        ("letters", lambda rows: rows[1]["model_response"].update(input_tokens=[0, 9000]), "do not fit this model's tokenizer"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_or_graded_again_is_left_out_with_its_doc(
    task: str, edit: Callable[[list[dict[str, Any]]], Any], message: str, tmp_path: Path
) -> None:
    run = changed(tmp_path, task, edit)
    manifest = read_manifest(prepare(tmp_path / "pack", "recorded", evals_dataset=run, model_name=MODEL))
    ((name, reason),) = manifest.left_out.items()
    assert name.startswith(task)
    assert re.search(f"doc 1.*{message}", reason)
    assert len(manifest.tasks) == len(TASKS) - 1


def test_texts_that_were_sent_as_chat_messages_are_asked_as_chat(tmp_path: Path) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        for number, row in enumerate(rows):
            row["model_response"]["input"] = [{"role": "user", "content": f"Question {number}"}]

    run = changed(tmp_path, "words", edit)
    pack = prepare(tmp_path / "pack", "words_1", evals_dataset=run, model_name=MODEL)
    assert read_manifest(pack).tasks["words_1"].asked_as == "chat"
    assert read_docs(pack, "words_1")[1]["prompt"] == '{"messages": [{"role": "user", "content": "Question 1"}]}'
    assert verify(pack).tasks["words_1"].status == "passed"


@pytest.mark.parametrize(
    ("logprobs", "words"),
    [([float("nan")] * 2, "holds a likelihood that is not a number"), ([], "does not say what the model answered")],
)
def test_a_damaged_doc_is_named_with_what_to_do(tmp_path: Path, logprobs: list[float], words: str) -> None:
    run = changed(tmp_path, "colours", lambda rows: rows[0]["model_response"].update(logprobs=logprobs))
    (fault,) = read_any_run([Path(run)]).faults.values()
    assert f"doc 0: {words}. Use the details of another run, or leave the task out" in fault


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "is empty"), (b"[1]", "is a list and no object"), (b'{"config', "is cut off")]
)
def test_a_damaged_results_file_is_no_unknown_setting(tmp_path: Path, content: bytes, words: str) -> None:
    shutil.copytree(OUTPUT, tmp_path / "run")
    (results,) = (tmp_path / "run").rglob("results_*.json")
    results.write_bytes(content)
    for read in (compare, lambda a, b: prepare(tmp_path / "pack", "recorded", evals_dataset=str(b), model_name=MODEL)):
        with pytest.raises(UserError, match=rf"{results.name}: {words}.*Use the "):
            read(OUTPUT, tmp_path / "run")


def test_a_change_of_each_compared_setting_is_seen(tmp_path: Path) -> None:
    (results,), (details,) = OUTPUT.rglob("results_*.json"), OUTPUT.rglob("details_letters*.parquet")

    def write(name: str, config: Any) -> Path:
        write_json(tmp_path / name / results.name, {"config_general": config})
        shutil.copy(details, tmp_path / name)
        return tmp_path / name

    config = json.loads(results.read_text(encoding="utf-8"))["config_general"]
    assert not list_unseen_settings(DetailsFormat.settings, config, write)
