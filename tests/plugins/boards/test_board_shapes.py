"""The first leaderboard's details in the columns and names that public sources show: read, or refused with one message."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from board_shapes import (
    LLAMA_2,
    Shape,
    answers_of_lighteval,
    card_of,
    choices_of_2023,
    choices_of_lighteval,
    choices_since_november_2023,
    drop_of_2023,
    endings_since_november_2023,
    sums_of_2023,
    sums_since_november_2023,
    texts_of_2023,
    texts_of_lighteval,
    truths_of_2023,
    write_shape,
)
from leaderboard import hub_of
from packs import prepare, read_docs
from small_model import write_tokenizer
from tokenizers import Tokenizer

from meta_eval import verify
from meta_eval.base.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.records.format import Place, Reading, Record, RecordedTask
from meta_eval.pack.records.run_selection import select_tasks
from meta_eval.plugins.boards.details_record import DetailsFormat

CHOICES = [choices_of_2023, texts_of_2023, choices_of_lighteval, texts_of_lighteval]
REPOSITORY = "open-llm-leaderboard-old/details_meta-llama__Llama-2-7b-hf"
FIRST_RUN = "2023-08-19T16:35:46.942696"


def open_folder(folder: Path, name: str | None = None, run: str | None = None) -> Record:
    return DetailsFormat().open_run(Place(name or str(folder), folder), run, [])


def read(shape: Shape, folder: Path, tokenizer: Tokenizer | None = None) -> RecordedTask:
    record = open_folder(write_shape(folder, shape))
    (task,) = record.tasks
    return record.read(task, Reading(folder, tokenizer=lambda: tokenizer))


def listed(folder: Path) -> Path:
    """The files of the Llama 2 dataset, all of them empty."""
    for file in LLAMA_2:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return folder


@pytest.mark.parametrize("make", CHOICES)
def test_choices_are_read(make: Callable[[], Shape], tmp_path: Path) -> None:
    shape = make()
    task = read(shape, tmp_path)
    assert task.benchmark == shape.task
    for doc, row in zip(task.rows.rows, shape.rows, strict=True):
        assert doc.prompt == row["full_prompt"]
        assert doc.continuations == tuple(row["choices"])
        assert doc.doc == {
            "query": row["example"], "choices": [text.removeprefix(" ") for text in row["choices"]],
            "gold": row["gold_index"][0],
        }  # fmt: skip
        assert doc.metrics == {f"{name},none": value for name, value in row["metrics"].items()}
        assert [answer[0][0] for answer in doc.responses or ()] == row["predictions"]


@pytest.mark.parametrize("make", CHOICES)
def test_token_ids_are_read(make: Callable[..., Shape], tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(write_tokenizer(tmp_path / "model") / "tokenizer.json"))
    shape = make(lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
    task = read(shape, tmp_path / "run", tokenizer)
    assert task.rows.warnings == {"asked_without_bos": 5, "same_token_ids": 5}
    assert task.entry.bos_in_prompts is False


def test_both_lists_of_truthfulqa_are_read(tmp_path: Path) -> None:
    shape = truths_of_2023()
    for doc, row in zip(read(shape, tmp_path).rows.rows, shape.rows, strict=True):
        bare = [text.removeprefix(" ") for text in row["choices"]]
        assert doc.doc == {"query": row["full_prompt"].split("Q: ")[1][:-3], "choices": bare, "mc1": 3, "true": 2}
        assert doc.continuations == tuple(row["choices"])
        assert doc.metrics == {f"{name},none": value for name, value in row["metrics"].items()}


@pytest.mark.parametrize("make", [texts_of_2023, truths_of_2023, sums_of_2023])
def test_recorded_verdicts_are_given_again(make: Callable[[], Shape], tmp_path: Path) -> None:
    shape = make()
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(write_shape(tmp_path / "details_gpt2", shape)))
    (task,) = verify(pack).tasks.values()
    assert (task.status, task.tallies and task.tallies.total.agreed) == ("passed", len(shape.rows))
    (entry,) = read_manifest(pack).tasks.values()
    assert (entry.model, entry.record and entry.record.time) == ("gpt2", FIRST_RUN.replace(":", "-"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (choices_since_november_2023, "doc 0: keeps neither its choices nor which of them is right. Runs of the first"),
        (endings_since_november_2023, "doc 0: keeps neither its choices nor which of them is right. Runs of the first"),
        (sums_since_november_2023, "doc 0: does not keep the right answer. Runs of the first leaderboard since Nov"),
        (drop_of_2023, "doc 0: was graded by em, f1, which meta-eval cannot grade"),
        (answers_of_lighteval, "doc 0: was graded by extractive_match, which meta-eval cannot grade"),
    ],
)
def test_what_cannot_be_graded_again_is_refused(make: Callable[[], Shape], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        read(make(), tmp_path)


@pytest.mark.parametrize(
    ("run", "tasks"),
    [
        (
            FIRST_RUN,
            {"arc_challenge_25", "hendrycksTest_abstract_algebra_5", "hendrycksTest_us_foreign_policy_5", "truthfulqa_mc_0"},
        ),
        ("2023_09_15T09_53_02.418861", {"arc_challenge_25"}),
        ("2023-09-20", {"drop_3", "gsm8k_5", "winogrande_5"}),
        ("2023_08_21", {"hendrycksTest_abstract_algebra_0"}),
    ],
)  # fmt: skip
def test_a_run_is_told_by_its_time_in_any_form(run: str, tasks: set[str], tmp_path: Path) -> None:
    record = open_folder(listed(tmp_path), REPOSITORY, run)
    assert set(record.tasks) == {f"harness_{task}" for task in tasks}


def test_tasks_of_another_suite_are_a_group(tmp_path: Path) -> None:
    record = open_folder(listed(tmp_path), REPOSITORY, "2023-08-28")
    members = ("original_mmlu_abstract_algebra_5", "original_mmlu_anatomy_5")
    assert dict(record.groups) == {"original_mmlu_5": members, "recorded": members}


@pytest.mark.parametrize("run", ["latest", "train"])  # splits of the card
def test_a_split_of_the_card_that_is_no_run_is_refused(run: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"holds no run of '{run}'. It holds runs of 2023-08-19T16-35-46.942696, "):
        open_folder(listed(tmp_path), REPOSITORY, run)


@pytest.mark.parametrize(
    ("written", "task"),
    [
        ("harness_arc_challenge_25", "harness_arc_challenge_25"),
        ("harness|arc:challenge|25", "harness_arc_challenge_25"),
        ("harness|hendrycksTest-us_foreign_policy|5", "harness_hendrycksTest_us_foreign_policy_5"),
        ("harness|truthfulqa:mc|0", "harness_truthfulqa_mc_0"),
        ("harness_truth*", "harness_truthfulqa_mc_0"),
    ],
)
def test_a_task_is_told_by_the_name_of_its_file_too(written: str, task: str, tmp_path: Path) -> None:
    record = open_folder(listed(tmp_path), REPOSITORY, FIRST_RUN)
    assert select_tasks(record, [written]) == ([task], {})
    names, _ = select_tasks(record, ["recorded", f"-{written}"])
    assert set(names) == set(record.tasks) - {task}


@pytest.mark.parametrize(
    "written", ["arc:challenge", "harness|arc:challenge", "arc_challenge", "harness|arc:challenge|5"]
)
def test_a_part_of_a_name_is_refused_with_the_task_that_may_be_meant(written: str, tmp_path: Path) -> None:
    record = open_folder(listed(tmp_path), REPOSITORY, FIRST_RUN)
    with pytest.raises(UserError) as error:
        select_tasks(record, [written])
    assert f"has no task or group {written!r}; did you mean 'harness_arc_challenge_25'" in str(error.value)


def test_several_runs_of_a_task_are_refused_by_each_of_its_names(tmp_path: Path) -> None:
    listed(tmp_path)
    for name in ("harness_gsm8k_5", "harness|gsm8k|5"):
        with pytest.raises(UserError) as error:
            DetailsFormat().open_run(Place(REPOSITORY, tmp_path), None, [name])
        assert str(error.value) == (
            f"evals_dataset: {REPOSITORY} holds 2 runs of harness_gsm8k_5: 2023-09-20T14-39-46.791628, "
            "2023-12-02T13-00-06.695936. Set evals_run to the time of one"
        )


@pytest.mark.parametrize(
    ("repository", "model"),
    [
        ("open-llm-leaderboard-old/details_gpt2", "gpt2"),
        ("open-llm-leaderboard-old/details_0-hero__Matter-0.1-7B-DPO-preview", "0-hero/Matter-0.1-7B-DPO-preview"),
        ("open-llm-leaderboard-old/details_Corianas__Quokka_2.7b", "Corianas/Quokka_2.7b"),
        ("open-llm-leaderboard/details_01-ai__Yi-34B_public", "01-ai/Yi-34B"),
        ("org/details_Lansechen__Qwen2.5-3B_private", "Lansechen/Qwen2.5-3B"),
        ("org/details_org__a__b", "org/a__b"),
        ("/cache/datasets--open-llm-leaderboard-old--details_Weyaxi__a", "Weyaxi/a"),
    ],
)
def test_the_model_is_told_by_the_name_of_the_dataset(repository: str, model: str, tmp_path: Path) -> None:
    record = open_folder(write_shape(tmp_path, choices_of_2023()), repository)
    assert record.read("harness_arc_challenge_25", Reading(tmp_path)).entry.model == model


@pytest.mark.parametrize("key", ["config", "config_general"])
def test_the_model_is_told_by_the_results(key: str, tmp_path: Path) -> None:
    """lausannel/open-moe-llm-leaderboard@14e48438, src/leaderboard/read_evals.py: early results have ``config``."""
    write_shape(tmp_path, choices_of_2023())
    results = json.dumps({"results": {}, "versions": {}, key: {"model_name": "org/Model-one"}})
    (tmp_path / f"results_{FIRST_RUN}.json").write_text(results, encoding="utf-8")
    record = open_folder(tmp_path)
    assert record.read("harness_arc_challenge_25", Reading(tmp_path)).entry.model == "org/Model-one"


@pytest.mark.parametrize(
    "name",
    [
        "details_harness|arc:challenge|25_2023-07-19T15:58:12.174583.parquet",
        "2023-07-19T15:58:12.174583/details_harness|arc:challenge|25_2023-07-19T15-58-12.174583.parquet",
        "details_harness%7Carc%3Achallenge%7C25_2023-07-19T15%3A58%3A12.174583.parquet",  # as a browser or curl quotes it
        "details_harness_arc_challenge_25_2023_07_19T15_58_12.174583.parquet",  # where | and : are no characters of names
    ],
)
def test_names_of_files_have_several_forms(name: str, tmp_path: Path) -> None:
    record = open_folder(write_shape(tmp_path, choices_of_2023(), name=name))
    entry = record.read("harness_arc_challenge_25", Reading(tmp_path)).entry
    assert (entry.time, entry.shots) == ("2023-07-19T15-58-12.174583", "25")


def test_two_files_of_one_task_and_time_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = next(path for path in write_shape(tmp_path, choices_of_2023()).rglob("*.parquet"))
    (file.parent / "again").mkdir()
    shutil.copy(file, file.parent / "again")
    open_folder(tmp_path)
    assert "of the same task and time does not" in caplog.text


def test_details_in_json_are_refused(tmp_path: Path) -> None:
    """c1505/LLM-Dashboard@0a77c60a, details_data_processor.py: the dataset ``open-llm-leaderboard/details`` of July 2023."""
    folder = tmp_path / "64bits" / "LexPodLM-13B"
    folder.mkdir(parents=True)
    name = "details_harness|hendrycksTest-moral_scenarios|5_2023-07-25T13:41:51.227672.json"
    (folder / name).write_text("[]", encoding="utf-8")
    (folder / "results_2023-07-25T13:41:51.227672.json").write_text('{"results": {}, "config": {}}', encoding="utf-8")
    with pytest.raises(UserError, match="holds details as JSON, which meta-eval does not read"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(tmp_path))


def test_a_dataset_with_the_boards_card_and_colons_in_its_folders_is_read(tmp_path: Path) -> None:
    shape = choices_of_2023()
    write_shape(tmp_path / "rows", shape, FIRST_RUN)
    content = (tmp_path / "rows" / LLAMA_2[0]).read_bytes()
    card = card_of("meta-llama/Llama-2-7b-hf", REPOSITORY, LLAMA_2)
    assert "- config_name: harness_hendrycksTest_abstract_algebra_5" in card
    files = {**dict.fromkeys(LLAMA_2, b"{}"), LLAMA_2[0]: content, "README.md": card.encode()}
    with hub_of({REPOSITORY: files}, tmp_path / "cache") as hub:
        pack = prepare(
            tmp_path / "pack",
            "harness|arc:challenge|25",
            evals_dataset=REPOSITORY,
            evals_run="2023_08_19T16_35_46.942696",
        )
        fetched = {request.path.rpartition("/")[2] for request in hub.seen("/resolve/", "HEAD")}
    assert len([name for name in fetched if name.endswith(".parquet")]) == 1
    assert [doc["prompt"] for doc in read_docs(pack, "harness_arc_challenge_25")] == [
        row["full_prompt"] for row in shape.rows
    ]
    (entry,) = read_manifest(pack).tasks.values()
    assert entry.model == "meta-llama/Llama-2-7b-hf"
