"""Details of the first Open LLM Leaderboard: read, guarded, graded again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from first_board import OLD_RUN, REPOSITORY, RUN, Row, as_2023, choice, sum_of, tasks, tokens_of, write
from leaderboard import as_dataset, hub_of
from noted import noted
from packs import look_at, prepare, read_docs, tree
from recorded_runs import record
from small_model import write_tokenizer
from tokenizers import Tokenizer

from meta_eval import report, verify
from meta_eval.base.errors import UserError
from meta_eval.doctor.prompt_checks import check_prompts
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.verify import Proof

ARC = "harness_arc_challenge_25"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    write(folder / "details_org__Model-one", tasks())
    prepare(folder / "pack", "recorded", evals_dataset=str(folder / "details_org__Model-one"))
    return folder


@pytest.fixture(scope="module")
def proof(board: Path) -> Proof:
    return verify(board / "pack")


def arc(folder: Path, change: Callable[[list[Row]], Any] = lambda _: None, run: str = RUN) -> Path:
    rows = tasks()["harness|arc:challenge|25"]
    change(rows)
    return write(folder / "details_org__Model-one", {"harness|arc:challenge|25": rows}, run)


def test_every_benchmark_is_graded_again_as_it_was(board: Path, proof: Proof) -> None:
    checks = {name: (task.status, task.tallies and task.tallies.total.agreed) for name, task in proof.tasks.items()}
    assert checks == {
        ARC: ("passed", 9), "harness_hellaswag_10": ("passed", 6), "harness_hendrycksTest_anatomy_5": ("passed", 8),
        "harness_hendrycksTest_virology_5": ("passed", 3), "harness_truthfulqa_mc_0": ("passed", 5),
        "harness_gsm8k_5": ("passed", 6),
    }  # fmt: skip
    manifest = read_manifest(board / "pack")
    verdicts = {name: entry.primary_metric for name, entry in manifest.tasks.items()}
    assert (verdicts[ARC], verdicts["harness_hendrycksTest_anatomy_5"]) == ("acc_norm,none", "acc,none")
    assert verdicts["harness_truthfulqa_mc_0"] == "mc2,none"
    assert {entry.model for entry in manifest.tasks.values()} == {"org/Model-one"}


@pytest.mark.usefixtures("proof")
def test_a_run_of_the_pack_stands_beside_the_record_and_the_boards_numbers(board: Path) -> None:
    wanted = [ARC, "harness_gsm8k_5", "harness_truthfulqa_mc_0"]
    record(board / "pack", board / "run", wanted)
    judged = report([board / "run"], pack=board / "pack")
    shown = {
        average.metric: average.value for average in judged.group_averages if average.name == "leaderboard_v1_details"
    }
    rows = tasks()
    arc_norm = sum(row["metrics"]["acc_norm"] for row in rows["harness|arc:challenge|25"]) / 9
    mc2 = sum(row["metrics"]["mc2"] for row in rows["harness|truthfulqa:mc|0"]) / 5
    assert shown["ARC, recorded"] == pytest.approx(arc_norm, abs=1e-6)
    assert shown["TruthfulQA, recorded"] == pytest.approx(mc2, abs=1e-6)
    assert shown["GSM8K, recorded"] == pytest.approx(0.5)
    assert {"ARC", "TruthfulQA", "GSM8K"} <= set(shown)
    assert not {"MMLU, recorded", "mean, recorded"} & set(shown)  # of 57 subjects two are there


def test_the_columns_of_2023_give_the_same_docs_as_those_of_2024(board: Path, tmp_path: Path) -> None:
    rows = list(map(as_2023, tasks()["harness|arc:challenge|25"]))
    folder = write(tmp_path / "details_org__Model-one", {"harness|arc:challenge|25": rows}, OLD_RUN)
    old = prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder))
    assert verify(old).passed
    assert read_docs(old, ARC) == read_docs(board / "pack", ARC)
    entry = read_manifest(old).tasks[ARC].record
    assert entry is not None
    assert (entry.time, entry.shots) == ("2023-07-19T13-48-53.093937", "25")


def test_by_hub_id_only_the_wanted_file_is_fetched_and_the_docs_are_the_folders(board: Path, tmp_path: Path) -> None:
    with hub_of({REPOSITORY: as_dataset(board / "details_org__Model-one")}, tmp_path / "cache") as hub:
        pack = prepare(tmp_path / "pack", f"{ARC},harness_hendrycksTest_5", evals_dataset=REPOSITORY)
        fetched = [
            request.path for request in hub.seen("/resolve/", "HEAD") if "details_" in request.path.rpartition("/")[2]
        ]
        assert {path.rpartition("details_")[2].split("|")[1] for path in fetched} == {
            "arc:challenge", "hendrycksTest-anatomy", "hendrycksTest-virology",
        }  # fmt: skip
        assert read_manifest(pack).tasks[ARC].dataset_revision == hub.heads[REPOSITORY]
    assert verify(pack).passed
    assert tree(pack)[f"{ARC}.parquet"] == tree(board / "pack")[f"{ARC}.parquet"]


def test_details_of_another_run_are_a_baseline(board: Path, tmp_path: Path) -> None:
    def edit(rows: list[Row]) -> None:
        rows[2]["full_prompt"] = f"Other shots.\n\n{rows[2]['example']}"
        right = rows[4]["gold_index"][0]  # which the other run gets right
        rows[4]["predictions"] = [-0.1 if at == right else -90.0 for at in range(len(rows[4]["choices"]))]
        rows[4]["metrics"] = {"acc": 1.0, "acc_norm": 1.0}

    other = arc(tmp_path, edit)
    source = str(board / "details_org__Model-one")
    pack = prepare(tmp_path / "pack", f"{ARC},harness_gsm8k_5", evals_dataset=source, baseline=str(other))
    (kept,) = read_manifest(pack).tasks[ARC].baseline
    assert (kept.model, kept.docs, kept.docs_with_other_prompt) == ("org/Model-one", 9, 1)
    assert verify(pack).passed
    record(pack, tmp_path / "run", [ARC])
    (task,) = report([tmp_path / "run"], pack=pack).tasks
    assert task.baseline_label == "the baseline's answers, graded by the pack"
    assert task.drop_breakdown is not None and task.is_decided
    assert (task.drop_breakdown.grader.value, task.drop_breakdown.docs_with_other_prompt) == (0.0, 1)
    rows = tasks()["harness|arc:challenge|25"]
    edit(rows)
    assert task.drop.baseline == pytest.approx(sum(row["metrics"]["acc_norm"] for row in rows) / 9)


def test_docs_and_prompts_that_repeat_are_all_kept(board: Path) -> None:
    # Of MMLU 27 questions stand there twice, and HellaSwag repeats its contexts.
    entries = read_manifest(board / "pack").tasks
    assert (entries["harness_hendrycksTest_anatomy_5"].docs, entries["harness_hellaswag_10"].docs) == (8, 6)
    assert entries["harness_hendrycksTest_anatomy_5"].warnings == {"duplicate_prompts": 1}


def test_a_verdict_that_the_likelihoods_do_not_give_stops_with_its_doc(tmp_path: Path) -> None:
    def edit(rows: list[Row]) -> None:
        rows[4]["metrics"]["acc_norm"] = 1.0 - rows[4]["metrics"]["acc_norm"]

    with pytest.raises(UserError, match=r"arc_challenge_25, doc 4: the recorded likelihoods give acc_norm"):
        prepare(tmp_path / "pack", ARC, evals_dataset=str(arc(tmp_path, edit)))


def test_prompts_that_are_only_hashes_are_refused_with_a_sentence(tmp_path: Path) -> None:
    rows = [{**as_2023(row), "full_prompt": None} for row in tasks()["harness|arc:challenge|25"]]
    folder = write(tmp_path / "details_org__Model-one", {"harness|arc:challenge|25": rows}, OLD_RUN)
    with pytest.raises(UserError, match="doc 0: has only a hash of its prompt"):
        prepare(tmp_path / "pack", ARC, evals_dataset=str(folder))


def test_of_several_runs_none_is_guessed_and_a_part_of_the_board_is_a_run(tmp_path: Path) -> None:
    arc(tmp_path)
    folder = arc(tmp_path, lambda rows: rows.__delitem__(slice(4, None)), OLD_RUN)
    with pytest.raises(UserError, match="2 runs of harness_arc_challenge_25.*evals_run"):
        prepare(tmp_path / "pack", ARC, evals_dataset=str(folder))
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder), evals_run="2023_07_19T13")
    assert {name: entry.docs for name, entry in read_manifest(pack).tasks.items()} == {ARC: 4}


@pytest.mark.parametrize(("front", "message"), [([], "asked_without_bos"), ([0], None), ([0, 0], "asked_with_two_bos")])
def test_recorded_ids_say_which_tokenizer_and_which_bos(front: list[int], message: str | None, tmp_path: Path) -> None:
    model = write_tokenizer(tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))

    def edit(rows: list[Row]) -> None:
        rows[:] = [
            tokens_of(row, lambda text: tokenizer.encode(text, add_special_tokens=False).ids, front) for row in rows
        ]
        rows[2]["input_tokens"][1][len(front) + 3] += 1

    with noted() as notes:
        pack = prepare(tmp_path / "pack", ARC, evals_dataset=str(arc(tmp_path, edit)), model_name=str(model))
    manifest = read_manifest(pack)
    entry, warnings = manifest.tasks[ARC].record, manifest.tasks[ARC].warnings
    assert entry is not None
    assert entry.bos_in_prompts is manifest.run_settings.add_bos_token is bool(front)
    assert f"add_bos_token={bool(front)}" in ",".join(manifest.command)
    looked = {check.name: check for check in check_prompts(look_at(pack))}
    assert front or (looked["BOS"].status, looked["BOS"].what.partition(" ")[0]) == ("passed", "none")
    expected = {"other_token_ids": 1, "same_token_ids": 8} | ({message: 9} if message else {})
    assert warnings == expected
    assert any("doc 2: id 3 is" in note for note in notes)


def test_tasks_asked_without_a_bos_are_left_out_where_most_were_asked_with_it(tmp_path: Path) -> None:
    model = write_tokenizer(tmp_path / "model")
    encode = Tokenizer.from_file(str(model / "tokenizer.json")).encode
    files = {
        name: [tokens_of(row, lambda text: encode(text, add_special_tokens=False).ids, front) for row in tasks()[name]]
        for name, front in (("harness|arc:challenge|25", []), ("harness|hellaswag|10", [0]))
    }
    folder = write(tmp_path / "details_org__Model-one", files)
    manifest = read_manifest(prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder), model_name=str(model)))
    assert list(manifest.tasks) == ["harness_hellaswag_10"]
    assert manifest.run_settings.add_bos_token
    assert "was run without a BOS" in manifest.left_out[ARC]


def test_stop_texts_that_stand_in_an_answer_were_not_in_use(tmp_path: Path) -> None:
    rows = [sum_of(n) for n in range(4)]
    rows[1]["predictions"] = ["so: 3\n#### 3"]
    folder = write(tmp_path / "details_org__Model-one", {"harness|gsm8k|5": rows})
    docs = prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder))
    assert verify(docs).passed
    text = (docs / "details" / "harness_gsm8k_5.yaml").read_text(encoding="utf-8")
    assert "- 'Question:'" in text
    assert "- ':'" not in text


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda row: row.update(predictions=None), "does not say what the model answered"),
        (lambda row: row.update(metrics={"f1": 0.5}), "was graded by f1, which meta-eval cannot grade"),
        (lambda row: row.update(gold_index=[9]), "does not say which choice is right"),
        (lambda row: row.update(choices=[" one"]), "has 1 choices and 3 likelihoods"),
    ],
)
def test_what_cannot_be_asked_or_graded_again_is_refused(
    edit: Callable[[Row], Any], message: str, tmp_path: Path
) -> None:
    rows = [choice(0, "Which?", ["a stone", "rain", "moss"], 0)]
    edit(rows[0])
    folder = write(tmp_path / "details_org__Model-one", {"harness|arc:challenge|25": rows})
    with pytest.raises(UserError, match=f"{ARC}, doc 0: {message}"):
        prepare(tmp_path / "pack", ARC, evals_dataset=str(folder))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[7], [7], [7]], "a different prompt for each choice"),
        (None, "does not say what follows the prompt"),
        ([[7], [8], [9]], None),
    ],
)
def test_an_ending_behind_each_choice_is_told_by_its_ids(
    ids: list[list[int]] | None, message: str | None, tmp_path: Path
) -> None:
    rows = [{**choice(0, "The cat and the dog met, and the", ["cat ran", "dog ran", "cow ran"], 0), "cont_tokens": ids}]
    folder = write(tmp_path / "details_org__Model-one", {"harness|winogrande|5": rows})
    if message is None:
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder))
        return
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder))


@pytest.mark.parametrize("left_out", [0, 1])
def test_contexts_that_the_ids_say_are_asked_and_graded(left_out: int, tmp_path: Path) -> None:
    model = write_tokenizer(tmp_path / "model")
    encode = Tokenizer.from_file(str(model / "tokenizer.json")).encode
    contexts, rows = [], []
    for n in range(6):
        contexts.append([f"Shots.\n\nThe pan {n} left the box, for the {place}" for place in ("pan", "box")])
        row, ending = choice(n, contexts[n][n % 2], ["pan", "box"], n // 2 % 2), " was wide."
        ids = [encode(context + ending, add_special_tokens=False).ids for context in contexts[n]]
        ids = [sequence[: len(sequence) - left_out] for sequence in ids]
        behind = encode(ending, add_special_tokens=False).ids
        row |= {"full_prompt": contexts[n][n % 2], "metrics": {"acc": row["metrics"]["acc"]}}
        rows.append({**row, "input_tokens": ids, "padded": [0, 0], "cont_tokens": [behind, behind]})
    folder = write(tmp_path / "details_org__Model-one", {"harness|winogrande|5": rows})
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(folder), model_name=str(model))
    docs = read_docs(pack, "harness_winogrande_5")
    assert [doc["recorded_prompts"] for doc in docs] == contexts
    assert {end for doc in docs for end in doc["continuations"]} == {" was wide."}
    assert read_manifest(pack).tasks["harness_winogrande_5"].warnings["same_token_ids"] == 6
    assert verify(pack).passed
    record(pack, tmp_path / "run", ["harness_winogrande_5"])
    (task,) = report([tmp_path / "run"], pack=pack).tasks
    assert task.flips is not None
    assert task.flips.compared == 6
    with pytest.raises(UserError, match="a different prompt for each choice"):  # without the tokenizer nobody knows
        prepare(tmp_path / "other", "recorded", evals_dataset=str(folder))


def test_a_run_is_named_only_where_there_are_some(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="evals_run: sample is not a folder of recorded runs"):
        prepare(tmp_path / "pack", "meta_gpqa", evals_run="2024")


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    folder = arc(tmp_path)
    next(folder.rglob("*.parquet")).write_bytes(b"<html>")
    with pytest.raises(UserError, match="is not a readable parquet file"):
        prepare(tmp_path / "pack", ARC, evals_dataset=str(folder))
