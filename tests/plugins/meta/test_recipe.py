"""A folder of Meta's recipe: its eval_config.yaml beside its own meta_template/, whose tasks lack our settings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import cli
from packs import some_templates
from places import TEMPLATES

_CONFIG = """\
model_name: "meta-llama/Llama-3.2-3B-Instruct" # a comment
evals_dataset: "meta-llama/Llama-3.2-3B-Instruct-evals"
tasks: "meta_instruct"
data_parallel_size: 1
work_dir: ./work_dir
template_dir: ./meta_template # the recipe names its folder
show_config: false
"""
_TASK = """\
task: {task}
dataset_path: parquet
doc_to_text: !function utils.doc_to_text
metric_list: [{{metric: exact_match}}]
metadata: {{version: 1.0}}
"""
_TASKS = {
    "bbh/bbh_3shot_cot.yaml": "meta_bbh",
    "gpqa/gpqa_0shot.yaml": "meta_gpqa",
    "mmlu/mmlu_instruct.yaml": "meta_mmlu_instruct",
}
_SAMPLE = ("--set", "evals_dataset=sample", "--set", "tasks=meta_gpqa")


@pytest.fixture(autouse=True)
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("eval_config.yaml").write_text(_CONFIG)
    for file, task in _TASKS.items():
        path = Path("meta_template", file)
        path.parent.mkdir(parents=True)
        path.write_text(_TASK.format(task=task))
        path.with_name("utils.py").write_text("def doc_to_text(doc):\n    return doc['input_final_prompts'][0]\n")
    Path("meta_template/meta_instruct.yaml").write_text("group: meta_instruct\ntask: [meta_gpqa]\n")
    return tmp_path


def test_its_configuration_works_unchanged_and_one_note_names_the_templates_that_are_used() -> None:
    done = cli("prepare", "--config_path", "./eval_config.yaml", *_SAMPLE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("lm_eval --model vllm ")
    assert done.stderr.count("meta_template holds the templates of Meta's recipe: using the shipped templates") == 1
    assert "another name" not in done.stderr


@pytest.mark.parametrize("words", [("tasks",), ("tasks", "show", "meta_gpqa")])
def test_tasks_lists_and_shows_the_shipped_templates_there(words: tuple[str, ...]) -> None:
    done = cli(*words)
    assert done.returncode == 0, done.stderr
    assert "meta_gpqa" in done.stdout


@pytest.mark.parametrize(
    "words", [("prepare", *_SAMPLE, "--set", "template_dir={}"), ("tasks", "--template-dir", "{}")]
)
def test_named_in_another_way_the_folder_is_refused_with_what_to_do(words: tuple[str, ...], recipe: Path) -> None:
    folder = recipe / "meta_template"
    done = cli(*(word.format(folder) for word in words))
    assert done.returncode == 2
    assert f"{folder}: holds the templates of Meta's recipe" in done.stderr
    assert "meta-eval init FOLDER" in done.stderr


def test_a_name_of_the_recipe_that_is_another_here_gets_one_note() -> None:
    done = cli("prepare", "--set", "evals_dataset=sample", "--set", "tasks=meta_mmlu")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("note: meta_mmlu is another name of meta_mmlu_pretrain") == 1
    assert " --tasks meta_mmlu_pretrain " in done.stdout


def test_several_copies_and_a_tokenizer_folder_that_is_missing_are_noted_with_what_helps() -> None:
    copies, folder = "data_parallel_size=4", "tokenizer=/nonexistent/tokenizer"
    done = cli("prepare", *_SAMPLE, "--set", copies, "--set", folder)
    note = " ".join(done.stderr.split())
    assert "`meta-eval run` serves the 4 copies itself" in note
    assert "tensor_parallel_size=4,dtype=auto,gpu_memory_utilization=0.9,data_parallel_size=1," in done.stdout
    assert "the printed command has one copy on all 4 GPUs" in note
    assert "tokenizer: there is no folder /nonexistent/tokenizer on this machine" in note


def test_init_writes_nothing_into_the_folder_and_says_that_prepare_works(recipe: Path) -> None:
    def read() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in recipe.rglob("*") if path.is_file()}

    before = read()
    done = cli("init")
    assert done.returncode == 0, done.stderr
    assert read() == before
    note = "meta_template holds the templates of Meta's recipe, and is unchanged: `meta-eval prepare` works"
    assert done.stderr.count(note) == 1
    assert "`meta-eval init FOLDER`" in done.stderr and "wrote" not in done.stderr
    assert cli("prepare", *_SAMPLE).returncode == 0


def test_init_writes_a_configuration_beside_the_folder_if_there_is_none(recipe: Path) -> None:
    (recipe / "eval_config.yaml").unlink()
    done = cli("init", recipe)
    assert done.returncode == 0, done.stderr
    assert (recipe / "eval_config.yaml").is_file()
    assert not (recipe / "meta_template/_common").exists()


def test_where_the_shipped_templates_were_added_the_mixture_is_named_with_the_way_out() -> None:
    Path("shipped").mkdir()
    shipped = some_templates(Path("shipped"), "bbh", "gpqa", "mmlu")
    shutil.copytree("meta_template", shipped, dirs_exist_ok=True)
    shutil.rmtree("meta_template")
    shipped.rename("meta_template")
    for words in (("prepare", *_SAMPLE), ("init",), ("tasks",)):
        done = cli(*words)
        assert done.returncode == 2, words
        assert "template_dir meta_template: mixes templates of Meta's recipe (bbh/bbh_3shot_cot.yaml, " in done.stderr
        assert "Run `mv meta_template meta_template.mixed`" in done.stderr
    Path("meta_template").rename("meta_template.mixed")
    assert cli("prepare", *_SAMPLE).returncode == 0


def test_a_new_task_beside_the_folder_is_sent_into_one_of_its_own() -> None:
    words = ("tasks", "new", "my_task", "--subset", "mmlu_pro", "--like", "mmlu_pro")
    refused = cli(*words)
    assert refused.returncode == 2
    assert f"`meta-eval {' '.join(words)} --template-dir mine`" in refused.stderr
    assert cli(*words, "--template-dir", "mine").returncode == 0
    sample = ("--set", "evals_dataset=sample", "--set", "template_dir=mine", "--set", "tasks=my_task")
    done = cli("prepare", *sample)
    assert done.returncode == 0, done.stderr


def test_one_template_without_its_block_is_no_mixture() -> None:
    own = Path("meta_template/own/own.yaml")
    own.parent.mkdir()
    own.write_bytes((TEMPLATES / "gpqa/gpqa_0shot.yaml").read_bytes())
    for file in ("gpqa/gpqa_0shot.yaml", "mmlu/mmlu_instruct.yaml"):
        Path("meta_template", file).unlink()
    done = cli("prepare", *_SAMPLE)
    assert done.returncode == 2
    assert "meta_template/bbh/bbh_3shot_cot.yaml: metadata.meta_eval: is not set" in done.stderr


def test_a_folder_of_other_tasks_without_our_settings_is_no_recipe() -> None:
    for path in Path("meta_template").rglob("*.yaml"):
        path.write_text(path.read_text().replace("meta_", "my_"))
    done = cli("prepare", *_SAMPLE)
    assert done.returncode == 2
    assert "metadata.meta_eval: is not set" in done.stderr
