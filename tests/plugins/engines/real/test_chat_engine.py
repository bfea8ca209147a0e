"""A real model, SmolLM2-135M-Instruct, through the chat endpoints of two engines, and one with a hidden system prompt."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command import process
from on_engines import environment
from places import REPOSITORY
from real_copies import make_copies

from meta_eval.pack.prompt_lengths import find_tokenizer

pytestmark = [pytest.mark.engine, pytest.mark.plugin("chat")]

EXAMPLE = REPOSITORY / "src/meta_eval/base/assets/smollm2"
TASKS = "smollm2_facts,smollm2_numbers"
DOCS = 8
CONTEXT = 2048
SECONDS = 600
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
HIDDEN = "You are the assistant of a travel agency. Be brief and friendly."


@pytest.fixture(scope="module")
def packages() -> str:
    packages = os.environ.get("META_EVAL_LLAMACPP")
    if packages is None:
        pytest.skip("META_EVAL_LLAMACPP names no folder with the model")
    return packages


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, packages: str) -> Path:
    """A project with the record, the model's folder and its file."""
    folder = tmp_path_factory.mktemp("chat")
    for name in ("recorded_run", "tasks"):
        shutil.copytree(EXAMPLE / name, folder / name)
    (folder / "float32").symlink_to(make_copies(packages, "folders", "float32")[0])
    (folder / "F32.gguf").symlink_to(make_copies(packages, "gguf", "F32")[0])
    return folder


def find_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serving(log: Path, *command: str | Path, env: dict[str, str]) -> Iterator[None]:
    """A server, until the end of the block. The port is the last word of its command."""
    with log.open("w") as file:
        server = subprocess.Popen([str(word) for word in command], stdout=file, stderr=subprocess.STDOUT, env=env)
    try:
        began = time.monotonic()
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{command[-1]}/health", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() - began < SECONDS, log.read_text()[-3000:]
                time.sleep(0.5)
        yield
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


@contextmanager
def on_llama_cpp(folder: Path, packages: str, **fields: Any) -> Iterator[int]:
    port = find_port()
    settings = {"n_parallel": 2, "n_ctx": 2 * CONTEXT, "n_threads": 1, "use_jinja": True, **fields}
    script = REPOSITORY / "src/meta_eval/plugins/engines/llamacpp/llamacpp_server.py"
    command = (sys.executable, "-P", script, folder / "F32.gguf", json.dumps(settings), str(port))
    with serving(folder / f"llama-{port}.log", *command, env={**os.environ, "PYTHONPATH": packages}):
        yield port


@contextmanager
def on_vllm(folder: Path) -> Iterator[int]:
    port = find_port()
    python = Path(os.environ["META_EVAL_RUNS"], "bin/python")
    flags = (
        "--served-model-name",
        "float32",
        "--dtype",
        "float32",
        "--max-model-len",
        str(CONTEXT),
        "--generation-config",
        "vllm",
        "--enforce-eager",
    )
    command = (python, "-m", "vllm.entrypoints.cli.main", "serve", folder / "float32", *flags)
    with serving(folder / "vllm.log", *command, "--port", str(port), env=environment()):
        yield port


def run(folder: Path, port: int, model: str, **keys: Any) -> tuple[Any, str, dict[tuple[str, int], Any]]:
    """The result, what it said, and by doc its text and verdict."""
    settings = {
        "model_name": model, "tokenizer": "float32", "evals_dataset": "recorded_run", "tasks": TASKS, "limit": DOCS,
        "backend": "chat", "base_url": f"http://127.0.0.1:{port}/v1", "max_model_len": CONTEXT, "concurrency": 2,
        "work_dir": f"pack-{port}", "output_path": f"out-{port}", "template_dir": "tasks", **keys,
    }  # fmt: skip
    (folder / "eval_config.yaml").write_text(json.dumps(settings))
    done = process("run", "--json", "--no-report", cwd=folder, PYTHONPATH=str(REPOSITORY / "src"))
    assert done.returncode == 0, done.stderr[-3000:]
    result, samples = json.loads(done.stdout), {}
    for path in (folder / result["results"]).parent.glob("samples_*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            samples[path.name.rpartition("_")[0], row["doc_id"]] = (
                row["resps"],
                row.get("acc", row.get("exact_match")),
            )
    return result, done.stderr, samples


def read_checks(folder: Path, result: Any) -> dict[str, Any]:
    notes = json.loads((folder / result["results"]).read_text())["config"]["meta_eval"]["endpoint"]
    return {check["name"]: (check["passed"], check["what"]) for check in notes["checked"][0]["checks"]}


def test_two_engines_pass_the_check_and_give_equal_texts_equal_verdicts(folder: Path, packages: str) -> None:
    with on_llama_cpp(folder, packages) as port:
        one, _, on_llama = run(folder, port, "F32.gguf")
    with on_vllm(folder) as port:
        other, _, on_other = run(folder, port, "float32")
    for result in (one, other):
        checks = read_checks(folder, result)
        assert {name for name, (passed, _) in checks.items() if passed is False} <= {"temperature and seed"}, checks
        assert checks["prompt"][0] is True
    assert set(on_llama) == set(on_other) and len(on_llama) == 2 * DOCS
    same = [doc for doc in on_llama if on_llama[doc][0] == on_other[doc][0]]
    assert len(same) >= 0.75 * len(on_llama)
    assert all(on_llama[doc] == on_other[doc] for doc in same)


def test_a_hidden_system_prompt_is_found_before_any_score(folder: Path, packages: str) -> None:
    """The template of this server says something else than the model's own."""
    template = (folder / "float32/chat_template.jinja").read_text()
    assert SYSTEM in template
    tokenizer = find_tokenizer(str(folder / "float32"))
    assert tokenizer is not None
    old, new = (len(tokenizer.encode(text, add_special_tokens=False).ids) for text in (SYSTEM, HIDDEN))
    with on_llama_cpp(folder, packages, chat_template=template.replace(SYSTEM, HIDDEN)) as port:
        result, said, _ = run(folder, port, "F32.gguf", limit=1)
    passed, what = read_checks(folder, result)["prompt"]
    assert passed is False and what.startswith(f"{new - old:+,} tokens without a system message, +0 tokens with one")
    assert what in said
