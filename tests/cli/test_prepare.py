"""prepare from the outside: the command line, the pack it writes, and what it refuses."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command import cli
from forked import forked, started
from marks import thorough
from noted import noted
from packs import tree
from places import KILLS, TEMPLATES, THOROUGH
from rows import make_row, write_rows
from shared import shared_templates

from meta_eval import prepare
from meta_eval.base.assets import asset_path
from meta_eval.base.errors import UserError
from meta_eval.judge import plan
from meta_eval.pack.config import load_config
from meta_eval.pack.manifest import Manifest, read_manifest
from meta_eval.pack.templates import read_templates
from meta_eval.plugins.meta.task_docs import DOC_COLUMNS

RECIPE_LINE = (
    "lm_eval --model vllm --model_args pretrained=my/model,tensor_parallel_size=1,dtype=auto,gpu_memory_utilization=0.9,"
    "data_parallel_size=1,max_model_len=8192,add_bos_token=True,seed=42 --tasks meta_instruct --batch_size auto "
    "--output_path eval_results --include_path ./work_dir --seed 42 --log_samples"
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def few_templates(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of the templates of GPQA, MATH and IFEval alone."""
    return str(shared_templates(tmp_path_factory, "gpqa", "ifeval", "math_hard"))


def configure(**keys: Any) -> Path:
    keys = {"model_name": "my/model", "evals_dataset": "sample", "tasks": "meta_instruct", **keys}
    path = Path("eval_config.yaml")
    path.write_text(json.dumps(keys))
    return path


def make(overrides: Sequence[str] = (), **keys: Any) -> tuple[Manifest, list[str]]:
    """Prepare in this process; the manifest and what was said."""
    config = load_config(configure(**keys), overrides)
    with noted() as notes:
        return prepare(config).manifest, notes


def docs(name: str, work_dir: str = "work_dir") -> list[dict[str, Any]]:
    return pq.read_table(Path(work_dir) / name).to_pylist()


@pytest.mark.plugin("engines")
def test_stdout_is_the_command_of_the_recipe_and_nothing_else() -> None:
    done = forked("prepare", "--config_path", str(configure()))
    assert (done.returncode, done.stdout) == (0, RECIPE_LINE + "\n")
    assert "meta_mmlu_pro_instruct" in done.stderr


@pytest.mark.parametrize(
    ("overrides", "needed"),
    [
        (("tasks=meta_gpqa",), 'pip install "lm-eval[vllm]>=0.4.11,<0.5"'),
        (("tasks=meta_gpqa,meta_math",), 'pip install "lm-eval[vllm,math]>=0.4.11,<0.5"'),
        (("tasks=meta_ifeval", "backend=hf"), 'pip install "lm-eval[hf,ifeval]>=0.4.11,<0.5"'),
        (("tasks=meta_gpqa", "data_parallel_size=2"), 'pip install "lm-eval[vllm]>=0.4.11,<0.5"'),
    ],
)
def test_what_the_command_needs_where_it_is_pasted_is_said_beside_it(
    overrides: tuple[str, ...], needed: str, few_templates: str
) -> None:
    words = [word for override in overrides for word in ("--set", override)]
    done = cli("prepare", "-c", configure(template_dir=few_templates), *words)
    assert done.returncode == 0, done.stderr
    assert f"needs there: {needed}\n" in done.stderr
    assert done.stdout.startswith("lm_eval ") and "pip install" not in done.stdout
    if "backend=hf" in overrides:
        said = cli("prepare", "-c", configure(template_dir=few_templates), *words, "--json").stdout
        assert json.loads(said)["install"] == needed


IMPORTS = """
try:
    import in_try
except ImportError:
    import in_except
else:
    import in_else.below
finally:
    from in_finally import some
class Some:
    import in_class
async def some(value):
    if value:
        from . import beside
        from in_if.below import one, other
    while value:
        import in_while, in_while_too as too
    else:
        import in_while_else
    match value:
        case 1:
            import in_case
    async with value:
        import json, in_with
"""


@pytest.mark.parametrize(
    ("more", "by_name"), [("", []), ("import importlib\nimportlib.import_module('in_call.below')\n", ["in-call"])]
)
def test_what_the_modules_of_a_pack_import_anywhere_is_needed(
    more: str, by_name: list[str], few_templates: str
) -> None:
    shutil.copytree(few_templates, "meta_template")
    Path("meta_template", "_common", "more.py").write_text(IMPORTS + more, encoding="utf-8")
    done = cli(
        "prepare", "-c", configure(template_dir="meta_template"), "--set", "tasks=meta_gpqa", "--set", "backend=hf"
    )
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("needs there: "))
    packages = ["try", "except", "else", "finally", "class", "if", "while", "while-too", "while-else", "case", "with"]
    assert sorted(line.split()[5:]) == sorted([*(f"in-{name}" for name in packages), *by_name])


# Each is alone in its file, which a quick look decides whether to parse.
FORMS = (
    "import in_0", "import os, in_1 as x", "import in_2.below", "from in_3.below import (\n  a,\n)", "x = 1; import in_4",
    "if True: from in_5 import a", "import \\\n  in_6", "import\\\n in_7", "from \\\n in_8 import a", "from\\\n in_9 import a",
    "from in_10 \\\n import a", "\fimport in_11", "import\fin_12", "from\tin_13\timport\ta", "x = 1\rimport in_14",
    "# coding: utf-7\n+AGkAbQBwAG8AcgB0- in_15", "import os # x\nimport in_16#y", "from in_17 import*", "from in_é18 import a",
    "def f():\n\tfrom in_19 import(a)", "match 1:\n case 1: import in_20", "with a as b, c as d: import in_21",
    "import importlib\nimportlib.import_module('in_22.below')",
)  # fmt: skip


def test_however_an_import_is_written_it_is_needed(few_templates: str) -> None:
    shutil.copytree(few_templates, "meta_template")
    for number, form in enumerate(FORMS):
        Path("meta_template", "_common", f"form_{number}.py").write_text(form + "\n", encoding="utf-8", newline="")
    Path("meta_template", "_common", "none.py").write_text('"""Words\nfrom in_words, import\n"""\nimport os\n')
    # lm-eval brings the one under another name, and the other always.
    Path("meta_template", "_common", "brought.py").write_text("import sklearn.metrics, rouge_score, sacrebleu\n")
    done = cli(
        "prepare", "-c", configure(template_dir="meta_template"), "--set", "tasks=meta_gpqa", "--set", "backend=hf"
    )
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("needs there: "))
    assert sorted(shlex.split(line)[5:]) == sorted(f"in-{'é' * (number == 18)}{number}" for number in range(len(FORMS)))


def test_what_lies_beside_a_template_is_in_the_pack_unless_it_is_hidden_or_no_file(few_templates: str) -> None:
    common = Path(shutil.copytree(few_templates, "meta_template"), "_common")
    for name in ("words.txt", "more/words.txt", ".DS_Store", ".git/config", "more/.words.txt", "__pycache__/words.txt"):
        (common / name).parent.mkdir(exist_ok=True)
        (common / name).write_text("words")
    (common / "gone.txt").symlink_to("nowhere")
    (common / "link.txt").symlink_to("words.txt")
    done = cli("prepare", "-c", configure(template_dir="meta_template"), "--set", "tasks=meta_gpqa")
    assert done.returncode == 0, done.stderr
    kept = {path.relative_to("work_dir/_common").as_posix() for path in Path("work_dir/_common").rglob("*")}
    assert {name for name in kept if not name.endswith(".py")} == {
        "families.json",
        "link.txt",
        "more",
        "more/words.txt",
        "words.txt",
    }


def test_overrides_alone_prepare_and_verify_in_an_empty_folder() -> None:
    words = ("prepare", "--set", "model_name=my/model", "--set", "evals_dataset=sample", "--set")
    assert cli(*words, "tasks=meta_gpqa").returncode == 0
    assert list(Path().iterdir()) == [Path("work_dir")]
    assert cli("verify", "--min-agreement", "0.5").returncode == 0
    wrong = cli(*words, "tasks=meta_gpqq")
    assert (wrong.returncode, "eval_config" in wrong.stderr) == (2, False)


def test_json_is_one_object() -> None:
    done = cli("prepare", "-c", str(configure()), "--json", "--set", "tasks=meta_ifeval", "--set", "work_dir=out put")
    payload = json.loads(done.stdout)
    assert payload["work_dir"] == "out put"
    assert payload["tasks"] == {"meta_ifeval": {"rows": 18}}
    assert Path(payload["manifest"]).is_file()
    assert shlex.split(payload["command"]) == payload["argv"]
    assert "--include_path 'out put'" in payload["command"]


@pytest.mark.plugin("engines")
def test_each_of_several_models_has_its_command_and_the_folder_of_its_results(few_templates: str) -> None:
    Path("ft").mkdir()
    path = configure(model_name=["org/a", "./ft"], tasks="meta_gpqa", template_dir=few_templates)
    done = cli("prepare", "-c", path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert " pretrained=org/a," in first and second == first.replace("pretrained=org/a,", "pretrained=./ft,")
    reports = [line for line in done.stderr.splitlines() if line.startswith("then: ")]
    assert reports == [
        "then: meta-eval report eval_results/org__a --pack ./work_dir",
        "then: meta-eval report eval_results/.__ft --pack ./work_dir",
    ]
    assert json.loads(cli("prepare", "-c", path, "--json").stdout)["commands"] == {"org/a": first, "./ft": second}


@pytest.mark.plugin("engines")
@pytest.mark.parametrize("tasks", ["meta_gpqa,meta_ifeval", "meta_*"])
def test_a_subset_that_is_left_out_is_not_in_the_printed_tasks(tasks: str, few_templates: str) -> None:
    write_rows(Path("Llama-3.2-3B-Instruct-evals/gpqa.jsonl"), [make_row("What?", subset="gpqa")])
    Path("Llama-3.2-3B-Instruct-evals/ifeval__strict.jsonl").write_text("no JSON\n")
    manifest, _ = make(evals_dataset="./Llama-3.2-3B-Instruct-evals", tasks=tasks, template_dir=few_templates)
    assert "meta_ifeval" in manifest.left_out
    assert not any("ifeval" in word for word in manifest.command)


@pytest.mark.plugin("engines")
def test_every_key_of_the_configuration_reaches_the_command() -> None:
    manifest, _ = make(
        limit=3, batch_size=8, verbosity="DEBUG", log_samples=False, show_config=True, seed=7, dtype="float32",
        tensor_parallel_size=2, data_parallel_size=3, gpu_memory_utilization=0.5, max_model_len=9000,
        output_path="out", model_args={"z": 1, "enforce_eager": True}, tasks="meta_gpqa,meta_ifeval",
    )  # fmt: skip
    assert shlex.join(manifest.command) == (
        "lm_eval --model vllm --model_args pretrained=my/model,tensor_parallel_size=6,dtype=float32,"
        "gpu_memory_utilization=0.5,data_parallel_size=1,max_model_len=9000,add_bos_token=True,seed=7,"
        "enforce_eager=True,z=1 --tasks meta_gpqa,meta_ifeval --batch_size 8 --output_path out --include_path ./work_dir "
        "--seed 7 --limit 3 --verbosity DEBUG --show_config"
    )


def test_margins_and_weights_are_recorded_and_a_wrong_name_stops() -> None:
    margin, tasks = {"mean": 2, "meta_gpqa*": 4, "meta_ifeval": 3}, "meta_gpqa,meta_ifeval"
    manifest, _ = make(margin=margin, weights="equal", tasks=tasks)
    assert (manifest.run_settings.margin, manifest.run_settings.weights) == (margin, "equal")
    assert read_manifest(Path("work_dir")) == manifest
    before = tree(Path("work_dir"))
    with pytest.raises(UserError, match="eval_config.yaml:1: margin: meta_gpqq: there is no such task") as caught:
        prepare(str(configure(margin={"meta_gpqq": 4}, tasks=tasks)))
    assert "did you mean 'meta_gpqa" in str(caught.value)
    assert tree(Path("work_dir")) == before
    assert any("weights of work_dir change from equal to docs" in line for line in make(weights="docs", tasks=tasks)[1])


def test_a_plan_is_printed_and_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    if not THOROUGH:  # with the flips of so few docs none of the drawn copies ships, however many there are
        for name in ("plan_tasks", "plan_answers"):
            monkeypatch.setattr(plan, name, partial(getattr(plan, name), draws=20))
    words = ("--flips", "10", "--sampled-flips", "12")
    done = cli("prepare", "-c", str(configure(tasks="meta_ifeval")), "--plan", *words, "--json")
    assert (done.returncode, max(map(len, done.stderr.rpartition("task  ")[2].splitlines())) <= 80) == (0, True)
    assert re.search(r"meta_ifeval +18 +10 % +\d+.0 +1.0 +0 % +\d+.\d +-", done.stderr)
    assert re.search(r"the whole +18 +\d+.0 +1.0 +0 %", done.stderr)
    assert "ships 1 against 1 0 % 2 against 2 0 %" in " ".join(done.stderr.split())
    planned = json.loads(done.stdout)["plan"]
    assert (planned["margin"], planned["weights"], planned["tasks"]["meta_ifeval"]["docs"]) == (0.01, "precision", 18)
    assert planned["whole"]["chance"] == 0
    assert planned["sampled"][0] == {"baseline_answers": 1, "answers": 1, "chance": 0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--flips", "101"), "--flips: 101 is neither a percentage nor a folder of results"),
        (("--sampled-flips", "no"), "--sampled-flips: no is neither a percentage nor a folder of results"),
        (("--gate", "none.yaml"), "none.yaml: cannot be read"),
    ],
)
def test_a_wrong_plan_is_refused_before_a_pack_is_made(words: tuple[str, ...], message: str) -> None:
    done = cli("prepare", "-c", str(configure(tasks="meta_ifeval")), "--plan", *words)
    assert (done.returncode, Path("work_dir").exists()) == (2, False)
    assert message in done.stderr


BOTH = "meta_instruct,meta_pretrain"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """A pack that tests only read, and the manifest that prepare gave."""
    with chdir(tmp_path_factory.mktemp("made")):
        return Path("work_dir").absolute(), make(tasks=BOTH)[0]


def test_the_same_input_gives_the_same_bytes(made: tuple[Path, Manifest]) -> None:
    make(tasks=BOTH)
    assert tree(Path("work_dir")) == tree(made[0])


def listed(work_dir: Path) -> dict[str, str]:
    """The files that a manifest lists: all but itself, the list of them, and what a killed prepare had begun."""
    return {name: digest for name, digest in tree(work_dir).items() if not name.startswith((".meta-eval", "manifest"))}


def test_the_manifest_knows_every_file(made: tuple[Path, Manifest]) -> None:
    work_dir, manifest = made
    paths = listed(work_dir)
    assert paths == {name: entry.sha256 for name, entry in manifest.files.items()}
    assert read_manifest(work_dir) == manifest


def test_work_dir_gets_its_gitignore(made: tuple[Path, Manifest]) -> None:
    assert (made[0] / ".gitignore").read_bytes() == (TEMPLATES.parent / "work_dir.gitignore").read_bytes()


def test_every_doc_keeps_what_the_contract_names(made: tuple[Path, Manifest]) -> None:
    work_dir, manifest = made
    for name, entry in manifest.tasks.items():
        assert entry.docs_file is not None
        rows = docs(entry.docs_file, str(work_dir))
        assert len(rows) == entry.docs >= 12
        assert set(DOC_COLUMNS) <= set(rows[0]), name
        assert not any(row["prompt"].startswith("<|begin_of_text|>") for row in rows)


def test_the_joined_files_have_the_names_of_the_recipe_and_only_what_is_asked_is_joined(
    made: tuple[Path, Manifest],
) -> None:
    manifest, _ = make(tasks="meta_math")
    assert [path.name for path in Path("work_dir").glob("*.parquet")] == ["joined_math.parquet"]
    assert set(manifest.originals) == {"math"}
    assert {path.name for path in made[0].glob("joined_*")} == {
        "joined_ifeval.parquet",
        "joined_math.parquet",
        "joined_math_hard.parquet",
    }


def test_a_task_that_is_no_longer_chosen_leaves_the_pack() -> None:
    make(tasks="meta_gpqa,meta_ifeval")
    make(tasks="meta_gpqa")
    assert not Path("work_dir/ifeval").exists()


def test_the_published_numbers_stand_in_the_manifest_and_foreign_settings_are_marked() -> None:
    manifest, _ = make(tasks="meta_mmlu_pro_instruct,meta_math")
    numbers = {(n.metric, n.value) for n in manifest.tasks["meta_mmlu_pro_instruct"].reference_scores}
    assert numbers == {("exact_match_macro,strict-match", 48.3), ("exact_match,strict-match", 47.0)}
    assert [n.same_settings for n in manifest.tasks["meta_math"].reference_scores] == [False]


def test_the_sample_has_no_published_numbers_and_its_graders_are_checked_by_the_command_that_is_printed() -> None:
    configure(tasks="meta_gpqa,meta_math")
    done = cli("prepare")
    assert "published" not in done.stderr, "its docs are invented, so no number of a model is one of theirs"
    _, *words = shlex.split(re.findall("check its graders with: (.+)", done.stderr)[0])
    assert cli(*words).returncode == 0


def test_warnings_are_logged_and_recorded() -> None:
    manifest, notes = make(tasks="meta_mmlu_pretrain,meta_gpqa_cot,meta_gpqa")
    assert manifest.tasks["meta_mmlu_pretrain"].warnings == {"duplicate_prompts": 1}
    assert "meta_gpqa_cot: 1 of 15 rows bring a BOS of their own, which was taken off: the engine adds it" in notes
    assert "meta_gpqa: an answer may have 2048 tokens here, and up to 96 in Meta's run, so none is cut sooner" in notes


def test_an_edited_pack_is_refused_before_any_work_where_the_same_tasks_are_prepared_again() -> None:
    make(tasks="meta_gpqa")
    with Path("work_dir/gpqa/gpqa_0shot.yaml").open("a") as file:
        file.write("# mine\n")
    done = cli("prepare")
    assert done.returncode == 2
    assert done.stderr.startswith("error: work_dir: gpqa/gpqa_0shot.yaml would be replaced, but was edited")


def test_a_copied_and_edited_mmlu_pro_folder_is_a_task() -> None:
    """README, "Add a task": copy the folder, edit its YAML, prepare; no Python of meta-eval changes."""
    shutil.copytree(TEMPLATES, "meta_template", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree("meta_template/mmlu_pro", "meta_template/riddles")
    Path("meta_template/riddles/mmlu_pro_5shot_cot_pretrain.yaml").unlink()
    yaml = Path("meta_template/riddles/mmlu_pro_5shot_cot_instruct.yaml")
    text = yaml.read_text()
    for old, new in [
        ("task: meta_mmlu_pro_instruct", "task: my_riddles"),
        ("subset: mmlu_pro", "subset: riddles"),
        ("best answer is ([A-Z])", "answer: ([A-Z])"),
        ("max_gen_toks: 1024", "max_gen_toks: 64"),
    ]:
        assert old in text
        text = text.replace(old, new)
    yaml.write_text(text)
    write_rows(Path("my-evals/riddles.jsonl"), [make_row(f"Riddle {n}") for n in range(5)])
    manifest, _ = make(tasks="my_riddles", evals_dataset="./my-evals")
    entry = manifest.tasks["my_riddles"]
    assert (entry.docs, entry.longest_prompt.max_gen_toks, entry.subset) == (5, 64, "riddles")
    assert "answer: ([A-Z])" in Path("work_dir/riddles", yaml.name).read_text()
    assert not Path("work_dir/mmlu_pro").exists()


def test_a_local_folder_is_an_evals_dataset(evals_folder: Path) -> None:
    manifest, _ = make(tasks="meta_mmlu_pro_instruct,meta_gpqa_cot", evals_dataset=str(evals_folder))
    entry = manifest.tasks["meta_mmlu_pro_instruct"]
    assert (entry.model, entry.docs) == ("Llama-3.1-8B-Instruct", 4)
    assert entry.dataset_revision.startswith("sha256:")


def test_a_damaged_row_stops_and_leaves_the_old_pack(evals_folder: Path) -> None:
    make(tasks="meta_gpqa_cot", evals_dataset=str(evals_folder))
    before = tree(Path("work_dir"))
    rows = [make_row(f"Which is {n}?") for n in range(3)]
    rows[1]["input_question"] += " or not"
    write_rows(evals_folder / "gpqa.jsonl", rows)
    done = cli("prepare", "-c", str(configure(tasks="meta_gpqa_cot", evals_dataset=str(evals_folder))))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"subset gpqa, row 1 (question hash {rows[1]['input_question_hash']})" in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(Path("work_dir")) == before


@pytest.mark.parametrize("column", ["input_correct_responses", "input_final_prompts"])
def test_a_misspelt_column_is_named_with_the_one_that_is_there(column: str) -> None:
    near = column.removesuffix("s")
    row = {near if name == column else name: value for name, value in make_row().items()}
    write_rows(Path("my-evals/gpqa.jsonl"), [row])
    done = cli("prepare", "-c", configure(tasks="meta_gpqa_cot", evals_dataset="my-evals"))
    assert done.returncode == 2
    assert f"my-evals, subset gpqa: has no column {column!r}; did you mean {near!r}?" in " ".join(done.stderr.split())


def test_what_does_not_fit_the_context_is_refused_before_anything_runs() -> None:
    done = cli("prepare", "-c", str(configure(tasks="meta_math_hard")), "--set", "max_model_len=5200")
    assert done.returncode == 2
    for word in ("meta_math_hard", "5120", "max_model_len: 5200", "estimate", "question hash"):
        assert word in done.stderr
    assert not Path("work_dir").exists()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"evals_dataset": "sampel"}, ["evals_dataset", "'sampel'", "did you mean 'sample'"]),
        (
            {"evals_dataset": "nope", "template_dir": str(asset_path("smollm2/tasks"))},
            ["evals_dataset: 'nope' is neither a file"],
        ),
        ({"evals_dataset": "./nothing"}, ["./nothing", "neither a file, a folder nor a hub id"]),
        ({"evals_dataset": "Llama-3.1-8B-evals"}, ["did you mean 'meta-llama/Llama-3.1-8B-evals'"]),
        ({"tasks": "meta_ifevl"}, ["eval_config.yaml:1: tasks", "did you mean 'meta_ifeval'", "offers"]),
        ({"template_dir": "./mine"}, ["template_dir mine", "meta-eval init"]),
        ({"bundle": False}, ["bundle: false", "sample"]),
        ({"work_dir": "."}, [".: holds files and no .meta-eval.pack.sha256"]),
        ({"limit": -1}, ["limit", "-1 is not allowed"]),
    ],
)
def test_each_mistake_is_one_message_and_exit_code_2(keys: dict[str, Any], words: list[str]) -> None:
    done = cli("prepare", "-c", str(configure(**keys)))
    assert (done.returncode, done.stdout) == (2, "")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    for word in words:
        assert word in errors[0]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("tasks=meta_ifevl", ["tasks: ", "did you mean 'meta_ifeval'"]),
        ("margin={meta_gpqq: 4}", ["margin: meta_gpqq"]),
        ("cluster={meta_gpqa: passage}", ["cluster: cannot be set"]),
        ("evals_run=2024", ["evals_run: "]),
        ("evals_revision=abc", ["evals_revision: names a hub commit, but sample is local. Set it to null"]),
        ("bundle=false", ["bundle: false leaves the rows on the hub, and sample is not there"]),
        ("apply_chat_template=true", ["apply_chat_template: "]),
        ("baseline=nothing", ["baseline: "]),
    ],
)
def test_a_wrong_value_of_an_option_is_not_looked_for_in_the_file(override: str, words: list[str]) -> None:
    done = cli("prepare", "-c", str(configure(tasks="meta_gpqa")), "--set", override)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, len(errors)) == (2, 1)
    assert errors[0].startswith(f"error: --set {override}: ")
    assert all(word in errors[0] for word in words)


def test_a_template_that_fails_is_named_with_its_line(evals_folder: Path) -> None:
    shutil.copytree(TEMPLATES, "meta_template", ignore=shutil.ignore_patterns("__pycache__"))
    utils = Path("meta_template/_common/rows.py")
    utils.write_text(utils.read_text().replace('row["input_question"]', 'row["input_qestion"]'))
    done = cli("prepare", "-c", str(configure(tasks="meta_gpqa_cot", evals_dataset=str(evals_folder))))
    assert done.returncode == 2
    assert "_common/rows.py: process_docs, rows.py line" in done.stderr
    assert "KeyError: 'input_qestion'" in done.stderr


def test_docs_that_lack_a_column_or_a_prompt_are_refused(evals_folder: Path) -> None:
    shutil.copytree(TEMPLATES, "meta_template", ignore=shutil.ignore_patterns("__pycache__"))
    utils = Path("meta_template/_common/rows.py")
    whole = utils.read_text()
    for old, new, words in [
        ('        "question": row["input_question"],\n', "", "returns docs without question"),
        ('row["input_final_prompts"][0]', '""', "has no prompt"),
    ]:
        assert old in whole
        utils.write_text(whole.replace(old, new))
        done = cli("prepare", "-c", str(configure(tasks="meta_gpqa_cot", evals_dataset=str(evals_folder))))
        assert done.returncode == 2
        assert words in done.stderr


def test_the_tokenizer_of_a_local_model_counts_exactly(evals_folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    Path("model").mkdir()
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save("model/tokenizer.json")
    long = make_row("What?", prompts=["word " * 40])
    write_rows(evals_folder / "gpqa.jsonl", [make_row("short"), long])
    keys = {"tasks": "meta_gpqa_cot", "evals_dataset": str(evals_folder), "model_name": "./model"}
    manifest, _ = make(**keys, max_model_len=2048 + 41)
    length = manifest.tasks["meta_gpqa_cot"].longest_prompt
    assert (length.tokens, length.method) == (41, "counted")
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    words.save("model/tokenizer.json")  # another one of this name, in the same process
    again, _ = make(**keys, max_model_len=2048 + 500, work_dir="again")
    assert again.tasks["meta_gpqa_cot"].longest_prompt.tokens > 41
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save("model/tokenizer.json")
    done = cli("prepare", "-c", str(configure(**keys, max_model_len=2048 + 40)))
    assert done.returncode == 2
    assert (
        f"41 tokens and an answer of up to 2048 do not fit max_model_len: 2088 (question hash {long['input_question_hash']})"
        in done.stderr
    )


def test_an_unmatched_row_stops_or_is_left_out_and_listed() -> None:
    original = [{"problem": "Solve it for 0.", "solution": "\\boxed{1}", "level": "Level 5", "type": "Algebra"}]
    write_rows(Path("math.jsonl"), original)
    write_rows(
        Path("Llama-3.1-8B-Instruct-evals/math_hard.jsonl"),
        [make_row("Solve it for 0."), make_row("Solve it for 1.", prompts=["q"])],
    )
    keys: dict[str, Any] = {
        "tasks": "meta_math_hard",
        "evals_dataset": "Llama-3.1-8B-Instruct-evals",
        "originals": {"math": {"id": "./math.jsonl"}},
    }
    lost = make_row("Solve it for 1.")["input_question_hash"]
    done = cli("prepare", "-c", str(configure(**keys)))
    assert done.returncode == 2
    assert (
        f"row 1 (question hash {lost}): 'Solve it for 1.' has no row with this text in ./math.jsonl; nearest: row 0: 'Solve it for 0.'"
        in done.stderr
    )
    manifest, notes = make(**keys, allow_unmatched=True)
    join = manifest.tasks["meta_math_hard"].join
    assert join is not None
    assert (join.matched, join.unmatched) == (1, ((lost, "unmatched"),))
    assert any(lost in sentence for sentence in notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"level": 5}, "row 1: column level is 5 and should be a string"),
        ({"type": {"a": 1}}, "row 1: column type is {'a': 1} and should be a string"),
        ({"solution": None}, "row 1: should hold solution (a non-empty string); solution is None"),
        ({"solution": "It is 2."}, "row 1, made into docs by "),
        ({"solution": "It is $\\boxed{2$."}, "row 1, made into docs by "),
        ({"problem": None, "question": "Solve it for 1."}, "row 1: should hold problem (a string); problem is None"),
    ],
)
def test_a_row_of_an_original_that_cannot_be_used_is_named_by_its_file(
    change: dict[str, Any], words: str, few_templates: str
) -> None:
    questions = [f"Solve it for {number}." for number in range(3)]
    original = [{"problem": q, "solution": "\\boxed{1}", "level": "Level 5", "type": "Algebra"} for q in questions]
    original[1].update(change)
    write_rows(Path("math.jsonl"), original)
    write_rows(Path("evals/math_hard.jsonl"), [make_row(question) for question in questions])
    keys = {"tasks": "meta_math_hard", "evals_dataset": "./evals", "template_dir": few_templates}
    done = cli("prepare", "-c", str(configure(**keys, originals={"math": {"id": "./math.jsonl"}})))
    assert done.returncode == 2
    assert f"./math.jsonl, split test, {words}" in done.stderr
    assert "Name the original dataset" in done.stderr or "Correct this row" in done.stderr


@pytest.mark.parametrize("original", [{"question": "q", "answer": "a"}, {"rows": [{"problem": "q"}]}])
def test_an_original_with_other_columns_is_told_which_it_has(original: dict[str, Any]) -> None:
    write_rows(Path("math.jsonl"), [original])
    write_rows(Path("evals/math_hard.jsonl"), [make_row("q")])
    keys = {"tasks": "meta_math_hard", "evals_dataset": "./evals", "originals": {"math": {"id": "./math.jsonl"}}}
    done = cli("prepare", "-c", str(configure(**keys)))
    assert done.returncode == 2
    assert (
        f"./math.jsonl, split test, row 0: should hold problem (a string); its columns are {', '.join(original)}. Name"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"evals_revision": "abc"}, "evals_revision: names a hub commit, but ./evals is local"),
        ({"evals_dataset": "lm-eval", "evals_revision": "abc"}, "evals_revision: lm-eval is not a dataset on the hub"),
        ({"originals": {"math": {"id": "./math.jsonl", "revision": "abc"}}},
         "originals.math.revision: names a hub commit, but ./math.jsonl is local. Leave it out"),
    ],
)  # fmt: skip
def test_a_commit_of_what_is_local_is_refused(keys: dict[str, Any], words: str) -> None:
    """It was ignored, and nothing said that other rows were read."""
    write_rows(Path("math.jsonl"), [{"problem": "q", "solution": "\\boxed{1}"}])
    write_rows(Path("evals/math_hard.jsonl"), [make_row("q")])
    done = cli("prepare", "-c", str(configure(**{"tasks": "meta_math_hard", "evals_dataset": "./evals", **keys})))
    assert done.returncode == 2
    assert words in done.stderr


def test_a_fallback_original_is_said_and_recorded() -> None:
    rows = [{"key": 1, "prompt": "Say hi.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"a": None}]}]
    write_rows(Path("google.jsonl"), rows)
    write_rows(Path("e/ifeval__strict.jsonl"), [make_row("Say hi.", gold=[])])
    manifest, notes = make(
        tasks="meta_ifeval", evals_dataset="./e",
        originals={"ifeval": {"id": "gone/away", "fallback": "./google.jsonl"}},
    )  # fmt: skip
    assert manifest.originals["ifeval"].fallback
    assert any("./google.jsonl" in sentence for sentence in notes)
    assert docs("joined_ifeval.parquet")[0]["kwargs"] == ["{}"]


def test_ctrl_c_exits_130_and_leaves_the_old_pack(tmp_path: Path) -> None:
    make(tasks="meta_gpqa")
    before = tree(Path("work_dir"))
    # Stops in the middle: a template that waits until it is interrupted.
    shutil.copytree(TEMPLATES, "meta_template", ignore=shutil.ignore_patterns("__pycache__"))
    utils = Path("meta_template/_common/rows.py")
    make_doc = '    return {\n        "question"'
    waiting = f"    import pathlib, time\n    pathlib.Path('waiting').touch()\n    time.sleep(60)\n{make_doc}"
    assert make_doc in utils.read_text()
    utils.write_text(utils.read_text().replace(make_doc, waiting, 1))
    process = started("prepare", "-c", configure(tasks="meta_gpqa"))
    deadline = time.monotonic() + 30
    while not Path("waiting").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in error
    assert tree(Path("work_dir")) == before
    assert not list(tmp_path.glob(".work_dir.new-*"))


@thorough
def test_kills_of_prepare_leave_one_whole_pack() -> None:
    make(tasks="meta_gpqa")
    begin = time.monotonic()
    make(tasks="meta_gpqa,meta_mmlu_pretrain")
    whole = time.monotonic() - begin
    path = configure(tasks="meta_gpqa")
    chance = random.Random(11)
    for kill in range(KILLS):
        child = started("prepare", "-c", path, "--set", f"seed={kill}")
        time.sleep(chance.uniform(0, whole))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        manifest = read_manifest(Path("work_dir"))
        paths = listed(Path("work_dir"))
        assert paths == {name: entry.sha256 for name, entry in manifest.files.items()}


def test_two_prepares_at_once_do_not_corrupt_each_other() -> None:
    configs = {seed: configure(tasks="meta_gpqa,meta_bbh", seed=seed).rename(f"{seed}.yaml") for seed in (1, 2)}
    running = [started("prepare", "-c", path) for path in configs.values()]
    for child in running:
        child.communicate()
    assert [child.wait() for child in running] == [0, 0]
    manifest = read_manifest(Path("work_dir"))
    assert manifest.run_settings.seed in configs
    paths = listed(Path("work_dir"))
    assert paths == {name: entry.sha256 for name, entry in manifest.files.items()}


def test_init_writes_what_prepare_reads_and_overwrites_nothing() -> None:
    assert cli("init", "new place").returncode == 0
    os.chdir("new place")
    assert cli("prepare", "--set", "evals_dataset=sample", "--set", "tasks=meta_gpqa").returncode == 0
    Path("eval_config.yaml").write_text("tasks: meta_bbh\n", encoding="utf-8")
    (shipped,) = Path("meta_template").glob("gpqa/gpqa_0shot.yaml")
    shipped.unlink()
    again = cli("init")
    assert again.returncode == 0 and "eval_config.yaml was there, and is unchanged" in again.stderr
    assert Path("eval_config.yaml").read_text(encoding="utf-8") == "tasks: meta_bbh\n" and shipped.is_file()


def test_init_adds_the_shipped_templates_to_those_of_a_user() -> None:
    assert cli("tasks", "new", "mine", "--subset", "mmlu_pro", "--like", "mmlu_pro").returncode == 0
    own = Path("meta_template/mine/utils.py")
    own.write_text(own.read_text() + "# mine\n")
    shared = next(Path("meta_template/_common").glob("*.py"))
    shared.write_text(shared.read_text() + "# mine too\n")
    done = cli("init")
    assert done.returncode == 0, done.stderr
    assert "its files are unchanged" in done.stderr
    assert own.read_text().endswith("# mine\n")
    assert shared.read_text().endswith("# mine too\n")
    assert set(read_templates(Path("meta_template")).tasks) == {*read_templates(TEMPLATES).tasks, "mine"}
    Path("eval_config.yaml").unlink()
    Path("meta_template").rename("elsewhere")
    Path("meta_template").symlink_to("elsewhere")
    assert "meta_template: already exists" in cli("init").stderr


@thorough
def test_a_pack_of_local_rows_is_made_without_what_lm_eval_runs_it_with(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom meta_eval import Config, prepare\n"
        "prepare(Config(model_name='m', evals_dataset='sample', tasks=('meta_math_hard', 'meta_mmlu_pro_instruct')))\n"
        "heavy = ('datasets', 'huggingface_hub', 'lm_eval', 'pandas', 'scipy', 'sympy', 'tokenizers', 'torch')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_is_quick_to_load() -> None:
    code = "import sys; import meta_eval.cli; print([m for m in ('datasets', 'lm_eval', 'pandas', 'pyarrow', 'sympy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
