"""meta-eval tasks, tasks show and tasks new."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from command import cli
from golden import shipped
from marks import few
from places import REPOSITORY, TEMPLATES
from rows import make_row, write_rows

from meta_eval.pack.templates import read_templates


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_json_lists_every_task_with_all_that_is_known() -> None:
    done = cli("tasks", "--json")
    assert cli("tasks", "list", "--json").stdout == done.stdout
    listed = {line["task"]: line for line in json.loads(done.stdout)}
    assert set(listed) == set(shipped().tasks)
    pro = listed["meta_mmlu_pro_instruct"]
    assert (pro["subset"], pro["shots"], pro["max_gen_toks"], pro["row_format"]) == ("mmlu_pro", "5", 1024, "seen")
    assert pro["metric"] == "exact_match_macro,strict-match"
    assert {"model": "Llama-3.1-8B-Instruct", "value": 48.3, "averaging": "macro", "same_settings": True} in pro[
        "published"
    ]


def test_a_listed_evals_dataset_needs_no_network() -> None:
    done = cli("tasks", "--json", "--evals-dataset", "meta-llama/Meta-Llama-3.1-8B-evals")
    tasks = {line["task"]: line for line in json.loads(done.stdout)}
    assert {"meta_bbh", "meta_mmlu_pro_pretrain"} <= set(tasks)
    assert not any("instruct" in line["variants"] for line in tasks.values())
    assert {model["model"] for model in tasks["meta_bbh"]["published"]} == {"Llama-3.1-8B"}


def test_a_recorded_run_is_sent_to_prepare() -> None:
    shutil.copytree(REPOSITORY / "tests/data/lm_eval_outputs/0.4.13", "results_bf16")
    done = cli("tasks", "--evals-dataset", "results_bf16")
    assert (done.returncode, done.stdout) == (2, "")
    told = " ".join(done.stderr.split())
    assert "results_bf16 is a recorded run (`lm_eval --log_samples` output)" in told
    assert "`meta-eval prepare --set evals_dataset=results_bf16 --set tasks=recorded`" in told


def test_the_table_is_stdout_and_fits_eighty_columns() -> None:
    done = cli("tasks", COLUMNS="")
    assert (done.returncode, done.stderr) == (0, "")
    assert "meta_mmlu_pro_instruct" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_list_ends_with_the_groups_and_an_error_counts_the_same() -> None:
    listed = " ".join(cli("tasks", "--evals-dataset", "sample").stdout.split())
    tasks, groups, names = re.findall(r"(\d+) tasks, and (\d+) groups: (.+)", listed)[0]
    assert len(names.split(", ")) == int(groups)
    assert {"meta_instruct", "meta_pretrain"} <= set(names.split(", "))
    keys = ("model_name=m", "evals_dataset=sample", "tasks=nope")
    done = cli("prepare", *(word for key in keys for word in ("--set", key)))
    assert f"This evals dataset offers {groups} groups and {tasks} tasks: " in done.stderr


@pytest.mark.parametrize("task", ["meta_mmlu_pro_instruct", "meta_ifeval", "meta_math", "meta_mmlu"])
def test_show_prints_the_template_and_one_doc_with_its_special_tokens(task: str) -> None:
    done = cli("tasks", "show", task)
    assert done.returncode == 0, done.stderr
    for word in ("metadata:", "gold: ", "input_question_hash: ", "answered by: "):
        assert word in done.stdout
    assert "<|start_header_id|>" in done.stdout or task == "meta_mmlu"


def test_show_of_an_unknown_task_says_how_to_list_all() -> None:
    done = cli("tasks", "show", "mlu_pro")
    assert done.returncode == 2
    assert "did you mean 'meta_mmlu_pro_instruct' or 'meta_mmlu_pro_pretrain'?" in done.stderr
    assert done.stderr.endswith(" tasks: `meta-eval tasks --evals-dataset sample` lists them\n")


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("meta_ifevl", "'meta_ifeval'?"),
        ("meta_mmlupro", "'meta_mmlu_pro_instruct' or 'meta_mmlu_pro_pretrain'?"),
        ("meta_gpqacot", "'meta_gpqa_cot'?"),
    ],
)
def test_show_of_an_unknown_task_names_the_nearest(word: str, near: str) -> None:
    done = cli("tasks", "show", word)
    assert done.returncode == 2
    assert f"did you mean {near}" in done.stderr


LIKE = [
    ("mmlu_pro", "meta_mmlu_pro_instruct"),
    ("meta_bbh", "meta_bbh"),
    ("meta_math", "meta_math"),
    ("meta_mmlu_pretrain", "meta_mmlu_pretrain"),
    ("meta_ifeval", "meta_ifeval"),
]


@pytest.mark.parametrize(("like", "source"), few(LIKE, 2))
def test_a_new_task_is_a_template_at_once(like: str, source: str) -> None:
    done = cli("tasks", "new", "mine", "--subset", "riddles", "--like", like)
    assert done.returncode == 0, done.stderr
    assert "meta_template/mine/mine.yaml:" in done.stderr
    task = read_templates(Path("meta_template")).tasks["mine"]
    assert (task.spec.subset, task.spec.row_format, task.spec.published, task.spec.groups) == (
        "riddles",
        "assumed",
        (),
        {},
    )
    original = shipped().tasks[source].settings
    changed = ("task", "tag", "dataset_name", "metadata")
    assert {k: v for k, v in task.settings.items() if k not in changed} == {
        k: v for k, v in original.items() if k not in changed
    }


def test_prepare_picks_a_new_task_up() -> None:
    assert cli("tasks", "new", "mine", "--subset", "riddles").returncode == 0
    write_rows(Path("evals/riddles.jsonl"), [make_row(f"Riddle {n}") for n in range(3)])
    Path("c.yaml").write_text(json.dumps({"model_name": "m", "evals_dataset": "./evals", "tasks": "mine"}))
    done = cli("prepare", "-c", "c.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tasks"] == {"mine": {"rows": 3}}


def test_a_task_of_ones_own_and_the_shipped_ones_are_one_pack() -> None:
    assert (
        cli("tasks", "new", "mine", "--subset", "gpqa", "--like", "meta_gpqa", "--template-dir", "own").returncode == 0
    )
    given = ("--set", "evals_dataset=sample", "--set", "model_name=m", "--set", "template_dir=own")
    done = cli("prepare", *given, "--set", "tasks=mine,meta_gpqa", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tasks"].keys() == {"mine", "meta_gpqa"}
    assert json.loads(cli("verify", "work_dir", "--min-agreement", "0.5", "--json").stdout)["passed"] is True


def test_a_shipped_task_whose_file_a_folder_has_changed_is_not_taken() -> None:
    """A pack would hold one file for two tasks."""
    assert (
        cli("tasks", "new", "mine", "--subset", "gpqa", "--like", "meta_gpqa", "--template-dir", "own").returncode == 0
    )
    Path("own/_common").mkdir(exist_ok=True)
    changed = (shipped().root / "_common/rows.py").read_text() + "\n# changed\n"
    Path("own/_common/rows.py").write_text(changed)
    done = cli("prepare", "--set", "evals_dataset=sample", "--set", "model_name=m", "--set", "template_dir=own",
               "--set", "tasks=mine,meta_gpqa")  # fmt: skip
    assert done.returncode == 2
    assert "unknown task or group 'meta_gpqa'" in done.stderr


def test_a_new_task_says_whether_its_subset_is_known() -> None:
    done = cli("tasks", "new", "mine", "--subset", "mmlu_por")
    assert done.returncode == 0
    assert "note: --subset mmlu_por: Meta published no such subset; did you mean 'mmlu_pro'" in done.stderr
    assert "whether a dataset of yours has it was not checked: name it with --evals-dataset" in done.stderr
    for source in ("sample", "meta-llama/Llama-3.1-8B-Instruct-evals"):
        done = cli("tasks", "new", "other", "--subset", "mmlu_por", "--evals-dataset", source)
        assert done.returncode == 2
        assert f"--subset: {source} has no subset 'mmlu_por'; did you mean 'mmlu_pro'" in done.stderr
    assert not Path("meta_template/other").exists()
    done = cli("tasks", "new", "other", "--subset", "mmlu_pro", "--evals-dataset", "sample")
    assert (done.returncode, "note:" in done.stderr) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a/b", "--subset", "s"], "is not a valid task name"),
        (["yes", "--subset", "s"], "'yes' is not a valid task name: YAML reads no text in it"),
        (["2026-01-01", "--subset", "s"], "is not a valid task name: YAML reads no text in it"),
        (["_mine", "--subset", "s"], "folders that begin with '_' are not searched"),
        (["meta_instruct", "--subset", "s"], "'meta_instruct' is the name of a group"),
        (["mine", "--subset", "s", "--like", "mmul"], "did you mean 'mmlu'"),
        (["meta_bbh", "--subset", "s", "--template-dir", str(TEMPLATES)], "already exists"),
    ],
)
def test_a_wrong_new_task_is_one_message(arguments: list[str], words: str) -> None:
    done = cli("tasks", "new", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert not Path("meta_template").exists()


@pytest.mark.parametrize("subset", ["", " "])
def test_an_empty_subset_is_refused_before_anything_is_written(tmp_path: Path, subset: str) -> None:
    done = cli("tasks", "new", "mine", "--subset", subset, "--template-dir", "own", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: --subset: is empty. Name a subset of the evals dataset\n")
    assert not (tmp_path / "own").exists()
