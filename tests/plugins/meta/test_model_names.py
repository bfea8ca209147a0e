"""What the names of a model and of an evals dataset tell, before the network is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import cli

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
