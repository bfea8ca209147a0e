"""What the names of a model and of an evals dataset tell, before the network is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import cli
from shared import shared_templates

from meta_eval.base.errors import UnreachableError


@pytest.mark.parametrize(
    ("model", "note"),
    [
        ("meta-llama/Llama-3.1-70B", "is the name of a base model, and meta-llama/Llama-3.1-70B-Instruct-evals has"),
        ("meta-llama/Llama-3.1-8B-Instruct", "are from Llama-3.1-70B-Instruct, not Llama-3.1-8B-Instruct"),
        ("Qwen/Qwen2.5-7B-Instruct", "is the name of no Llama"),
        ("my/model", ""),
    ],
)
def test_what_names_tell_is_said_before_the_network_is_asked(
    model: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnreachableError("cannot be reached", where="the hub", hint="Check the network")

    monkeypatch.setattr("meta_eval.plugins.meta.source.hub_datasets.open_evals_dataset", refuse)
    keys = (f"model_name={model}", "evals_dataset=meta-llama/Llama-3.1-70B-Instruct-evals", "tasks=meta_instruct")
    done = cli("prepare", *(word for key in keys for word in ("--set", key)), cwd=tmp_path)
    *said, asking, error = done.stderr.splitlines()
    assert [note in line for line in said] == ([True] if note else [])
    assert asking == "note: asking the hub for meta-llama/Llama-3.1-70B-Instruct-evals"
    assert "Check the network; or set evals_dataset to a local folder, or to `sample`" in error


@pytest.mark.parametrize(
    ("model", "tasks", "note"),
    [
        ("org/new-7b-it", "meta_mmlu_pretrain", "is the name of an instruct model"),
        ("org/new-7b-instruct", "meta_gpqa", ""),
        ("org/New-7B-Base", "meta_gpqa,meta_mmlu_pretrain", "for instruct models: meta_gpqa"),
        ("org/new-7b", "meta_gpqa", ""),
        ("Qwen/Qwen2.5-7B-Instruct", "meta_gpqa", "is the name of no Llama, and the prompts are written in Llama 3's"),
        ("org/Qwen-7B", "meta_mmlu_pretrain", ""),
        ("org/DeepSeek-R1-Distill-Llama-8B", "meta_gpqa", ""),
        pytest.param(
            "./no_such_model",
            "meta_gpqa",
            "model_name: there is no folder ./no_such_model on this machine",
            marks=pytest.mark.plugin("engines"),
        ),
    ],
)
def test_prepare_says_where_model_and_tasks_do_not_fit(
    model: str, tasks: str, note: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    few_templates = str(shared_templates(tmp_path_factory, "gpqa", "mmlu"))
    keys = {"model_name": model, "evals_dataset": "sample", "tasks": tasks, "template_dir": few_templates}
    (tmp_path / "eval_config.yaml").write_text(json.dumps(keys), encoding="utf-8")
    done = cli("prepare", cwd=tmp_path)
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if "is the name of" in line or "model_name: " in line]
    assert (note in "".join(said)) and bool(said) is bool(note)
