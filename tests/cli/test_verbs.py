"""The verbs: what `--help` lists, and errors of usage."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import cli
from forked import started
from marks import thorough
from shared import shared_templates


def test_help_lists_the_verbs_in_four_groups_each_whole_in_eighty_columns() -> None:
    panels = re.split(r"\n\n(\S.*):\n", cli("--help").stdout.partition("Options:\n")[2])[1:]
    lines = dict(zip(panels[::2], (panel.splitlines() for panel in panels[1::2]), strict=True))
    core = {
        "Make and verify": ["init", "prepare", "verify", "doctor"],
        "Run": ["run", "export", "grade"],
        "Judge": ["report", "compare"],
    }
    for panel, own in core.items():
        verbs = [line.split()[0] for line in lines.get(panel, [])]
        assert verbs[: len(own)] == own
        assert verbs[len(own) :] == sorted(verbs[len(own) :]), "those of plug-ins follow"
    for line in (line for verbs in lines.values() for line in verbs):
        assert line.endswith((".", ").")), line
        assert not line.endswith("..."), line


def test_help_imports_nothing_that_only_a_command_needs() -> None:
    heavy = "numpy pandas pyarrow scipy yaml lm_eval datasets meta_eval.pack.config meta_eval.plugins.meta.catalog meta_eval.judge.gate"
    code = f"import sys, meta_eval.cli; print([name for name in {heavy.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "words",
    [
        "LONG",
        "report LONG",
        "report --LONG",
        "run --shard LONG",
        "run --set tasks=LONG",
        "run --set LONG=1",
        "init --example LONG",
    ],
)
@pytest.mark.parametrize("long", ["9" * 5000, "a-b " * 1500])
def test_a_message_repeats_little_of_a_long_value(words: str, long: str) -> None:
    done = cli(*(word.replace("LONG", long) for word in words.split()))
    assert done.returncode == 2 and 0 < len(done.stderr) < 3500, done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare a b --maxdrop 1", "--maxdrop: `meta-eval compare` has no such option; did you mean --max-drop? See"),
        (
            "run --margin 3",
            "--margin: `meta-eval run` has no such option; set this key of the configuration with --set margin=",
        ),
        ("compare", "meta-eval compare: RUNS… is missing. See"),
        pytest.param("tasks new a", "meta-eval tasks new: --subset is missing. See", marks=pytest.mark.plugin("meta")),
        ("prepare --set", "--set: needs a value. See"),
        ("prepare --json=3", "--json: takes no value. See"),
        ("verify a b", "meta-eval verify: takes fewer arguments; unexpected: b. See"),
        ("veriffy", "meta-eval: there is no command 'veriffy'; did you mean 'verify'? See"),
        pytest.param(
            "tasks shw",
            "meta-eval tasks: there is no command 'shw'; did you mean 'show'? See",
            marks=pytest.mark.plugin("meta"),
        ),
    ],
)
def test_an_error_of_usage_has_the_form_of_all_errors(words: str, message: str) -> None:
    done = cli(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.endswith(" --help`\n")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["report", ""], "RESULTS…"), (["compare", "", "x"], "RUNS…"), (["compare", "x", "--", ""], "RUNS…"),
        (["verify", ""], "PACK"), (["verify", "--config", ""], "--config"), (["init", ""], "DIR"),
        (["report", "x", "--html="], "--html"),
        pytest.param(["history", "add", "x", "--folder", ""], "--folder", marks=pytest.mark.plugin("nightly")),
    ],
)  # fmt: skip
def test_an_empty_path_as_of_a_variable_that_is_not_set_is_said(words: list[str], place: str, tmp_path: Path) -> None:
    done = cli(*words, cwd=tmp_path)
    what = "is empty, as where a script names a variable that is not set. Name a file or folder"
    assert (done.returncode, done.stderr) == (2, f"error: {place}: {what}\n")
    assert list(tmp_path.iterdir()) == []


KEYS = [word for key in ("model_name=m", "evals_dataset=x", "tasks=x") for word in ("--set", key)]


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["report", "https://a/b"], "RESULTS…"), (["report", "x", "--view", "html=s3://a/b"], "--view"),
        (["init", "https://a/b"], "DIR"), (["prepare", *KEYS, "--set", "work_dir=https://a/b"], "work_dir"),
        pytest.param(["history", "add", "x", "--folder", "https://a/b"], "--folder", marks=pytest.mark.plugin("nightly")),
    ],
)  # fmt: skip
def test_an_address_in_the_place_of_a_path_makes_no_folder(words: list[str], place: str, tmp_path: Path) -> None:
    done = cli(*words, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("error:") == 1
    assert f"{place}: " in done.stderr and "is an address, and a path of this machine is needed" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", ["verify work_dir", "export work_dir", "grade a.jsonl --pack work_dir", "doctor work_dir"]
)
def test_a_configuration_that_is_not_there_is_told_where_a_pack_is_named_too(words: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    done = cli(*words.split(), "--config", "nowhere.yaml", cwd=tmp_path)
    assert (done.returncode, "error: --config: there is no file nowhere.yaml." in done.stderr) == (2, True)


@thorough
def test_init_in_more_than_a_thousand_folders_is_one_message(tmp_path: Path) -> None:
    done = cli("init", "/".join("a" * 1500), cwd=tmp_path)
    assert done.returncode == 2 and "File name too long" in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize("tasks", ["", " ", ",", ",,"])
def test_an_option_without_a_task_does_not_mean_all_tasks(tasks: str, tmp_path: Path) -> None:
    done = cli("compare", "a", "b", "--tasks", tasks, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: --tasks: names no task. Leave it out for all tasks\n")


@pytest.mark.parametrize(
    ("words", "hint"),
    [("grade answers.jsonl", "Name it with --pack PACK, or make"), ("verify", "Name its folder, or make")],
)
def test_without_pack_and_configuration_a_verb_says_how_to_name_or_make_a_pack(
    words: str, hint: str, tmp_path: Path
) -> None:
    done = cli(*words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: no pack is named, and neither eval_config.yaml nor work_dir is in this folder. " in done.stderr
    assert hint in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare a", "compare: needs two sides. Use: meta-eval compare A B"),
        ("report . --margin 0", "--margin: 0 is not a number of points above 0 and below 100. Such as 1 or 0.5"),
        ("doctor --backend servr", "--backend: unknown backend 'servr'; did you mean 'server'? Allowed: server"),
        ("doctor --base-url here", "--base-url: 'here' is not allowed. Allowed: an address such as http://"),
        ("doctor --engine --model-args x", "--model-args: 'x' is not of the form name=value. Allowed: a mapping"),
        ("run --set evals_dataset=sample --set tasks=t --set model_name=m --gate g --no-report",
         "--gate: needs the report, which --no-report and --shard turn off. Leave these out"),
        ("prepare --set nokey", "--set nokey: is not of the form key=value. Write it as in --set tasks=meta_ifeval"),
        ("prepare my.yaml",
         "meta-eval prepare: takes fewer arguments; unexpected: my.yaml. Name the configuration with --config my.yaml"),
        ("run c.yaml", "c.yaml: is a file, and a pack is a folder such as work_dir. Name a configuration with --config c"),
        ("prepare --config folder",
         "folder: is a folder. Name the file in it: --config folder/eval_config.yaml"),
        ("init file", "file: is a file, not a folder. Name a folder: meta-eval init FOLDER"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_said_with_the_next_step(words: str, message: str, tmp_path: Path) -> None:
    for file in ("file", "c.yaml", "folder/eval_config.yaml"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    done = cli(*words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {message}" in done.stderr


@pytest.fixture(scope="module")
def few_templates(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of the templates of GPQA and MMLU alone."""
    return str(shared_templates(tmp_path_factory, "gpqa", "mmlu"))


@pytest.mark.plugin("meta")
@pytest.mark.parametrize(
    ("words", "printed", "then"),
    [
        ("prepare", "lm_eval ", "then: meta-eval report 'my results' --pack pack"),
        pytest.param(
            "slurm --shards 2",
            "bash ",
            "then: squeue shows the jobs, and the last of them writes my results/report.html",
            marks=pytest.mark.plugin("engines"),
        ),
        ("export pack", "", "then: meta-eval grade ANSWERS --pack pack"),
        pytest.param(
            "export pack --force",
            "",
            "then: meta-eval fidelity pack --answers ANSWERS",
            marks=pytest.mark.plugin("tokens"),
        ),
        pytest.param(
            "doctor --show-command",
            "vllm ",
            "then: meta-eval doctor --base-url URL",
            marks=pytest.mark.plugin("engines"),
        ),
    ],
)
def test_below_what_is_printed_stands_what_follows(
    words: str, printed: str, then: str, tmp_path: Path, few_templates: str
) -> None:
    keys = {
        "model_name": "m", "evals_dataset": "sample", "tasks": "meta_gpqa", "work_dir": "pack",
        "template_dir": few_templates, "output_path": "my results",
    }  # fmt: skip
    (tmp_path / "eval_config.yaml").write_text(json.dumps(keys), encoding="utf-8")
    if words.startswith("export"):
        assert cli("prepare", cwd=tmp_path).returncode == 0
    done = cli(*words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(printed) and len(done.stdout.splitlines()) <= 1
    assert done.stderr.splitlines()[-1].startswith(then)


@pytest.mark.parametrize(
    ("verb", "called", "rest"),
    [
        ("run", "ask.pipeline.prepare_pack", "; the same command goes on from what is saved"),
        ("prepare", "pack.records.preparation.prepare_config", ""),
    ],
)
def test_an_interrupt_says_whether_the_same_command_goes_on(
    verb: str, called: str, rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"meta_eval.{called}", interrupt)
    keys = ("model_name=m", "evals_dataset=x", "tasks=x", "backend=server")
    done = cli(verb, *(word for key in keys for word in ("--set", key)), cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == f"interrupted: no file is half-written{rest}"


def test_init_on_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    running = started("init", "z", cwd=tmp_path, most_bytes=700)
    _, said = running.communicate()
    assert (running.returncode, "cannot be written" in said) == (2, True), said
    assert cli("init", "z", cwd=tmp_path).returncode == 0
    assert cli("init", "y", cwd=tmp_path).returncode == 0
    assert (tmp_path / "z" / "eval_config.yaml").read_text() == (tmp_path / "y" / "eval_config.yaml").read_text()
