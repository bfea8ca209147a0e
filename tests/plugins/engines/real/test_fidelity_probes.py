"""The probes through a real engine: vLLM with a copy that is set up wrongly, and with the same model once more.

The model is the tiny Llama that meta-eval ships. What an engine does to the prompts that it is sent is done by a client
around vLLM's.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from on_engines import project, ready
from places import REPOSITORY

from meta_eval.plugins.tokens.causes import ATTENTION, MORE_BOS, WEIGHTS

pytestmark = pytest.mark.engine

MODEL = REPOSITORY / "src/meta_eval/base/assets/known_answers/model"

# meta-eval with a vLLM that puts a BOS before every prompt and does not count it.
ADDS_BOS = """
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from meta_eval.__main__ import main
from meta_eval.plugins.tokens import token_scoring as force
from meta_eval.plugins.engines.vllm.vllm_client import VllmClient

class AddsBos(VllmClient):
    def answer(self, asks):
        for said in super().answer(replace(ask, prompt_ids=[0, *ask.prompt_ids]) for ask in asks):
            yield replace(said, prompt_tokens=said.prompt_tokens - 1)

force.find_client = lambda *_names, **_keys: AddsBos
main()
"""

# The output projection of a layer with the shards of two cards in the wrong order.
SWAPS = """
import torch
from safetensors.torch import load_file, save_file
tensors = load_file("shards/model.safetensors")
name = "model.layers.1.self_attn.o_proj.weight"
first, second = tensors[name].chunk(2, dim=1)
tensors[name] = torch.cat((second, first), dim=1).contiguous()
save_file(tensors, "shards/model.safetensors", metadata={"format": "pt"})
"""


def asked(folder: Path, output: str, *arguments: str, code: tuple[str, ...] = ("-m", "meta_eval")) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(
        ready(*code, "fidelity", "work_dir", "--json", "--docs", "60", "--output", output, *arguments, folder=folder)
    )
    return printed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose model was asked."""
    there = project(tmp_path_factory.mktemp("probes") / "here", MODEL, model_args={"enforce_eager": True})
    ready("-m", "meta_eval", "prepare", folder=there)
    output = asked(there, "base")
    assert output["probed"] > 40
    return there


def groups(output: dict[str, Any]) -> list[str]:
    finding = output["report"]["finding"]
    return [] if finding is None else list(finding["groups"])


def test_of_the_same_model_in_other_batches_nothing_is_named(folder: Path) -> None:
    output = asked(folder, "again", "--baseline", "base", "--set", "model_args=enforce_eager=True,max_num_seqs=2")
    assert output["report"]["outcome"] == "same"
    assert groups(output) == []


def test_an_engine_that_adds_a_bos_is_named(folder: Path) -> None:
    output = asked(folder, "two", "--baseline", "base", code=("-c", ADDS_BOS))
    assert groups(output) == [MORE_BOS.name]


def test_another_rope_base_is_named(folder: Path) -> None:
    shutil.copytree(folder / "tiny", folder / "rope")
    config = json.loads((folder / "rope/config.json").read_text())
    config["rope_theta"] = config["rope_parameters"]["rope_theta"] = 10_000.0
    (folder / "rope/config.json").write_text(json.dumps(config))
    assert groups(asked(folder, "other", "--baseline", "base", "--set", "model_name=rope")) == [ATTENTION.name]


def test_a_layer_whose_shards_are_swapped_is_named(folder: Path) -> None:
    shutil.copytree(folder / "tiny", folder / "shards")
    ready("-c", SWAPS, folder=folder)
    assert groups(asked(folder, "swapped", "--baseline", "base", "--set", "model_name=shards")) == [WEIGHTS.name]
