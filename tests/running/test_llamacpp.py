"""Backend `llamacpp`: the run starts llama.cpp with a GGUF file, asks it and stops it. A stand-in has its place here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from command import cli
from places import TEMPLATES

from meta_eval.running.journal import compute_model_fingerprint

TASK = "meta_gpqa_cot"
XLLAMACPP = """
import enum, json, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

class Kind(enum.IntEnum):
    GGML_TYPE_F16 = 1
    GGML_TYPE_Q8_0 = 8

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams = SimpleNamespace(path=""), SimpleNamespace(n_threads=-1)
        self.port, self.model_alias, self.n_ctx, self.n_parallel, self.cache_ram_mib = 0, set(), 0, 1, 8192
        self.cache_type_k = Kind.GGML_TYPE_F16

class Server:
    def __init__(self, params):
        alias, = params.model_alias
        said = [params.n_ctx, params.n_parallel, params.cache_type_k.name, params.cpuparams.n_threads]
        print("fields", json.dumps(said), flush=True)
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer({"data": [{"id": alias, "meta": {"n_ctx": params.n_ctx // params.n_parallel}}]})
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = "The best answer is A." if isinstance(asked["prompt"], str) else ""
                usage = {"prompt_tokens": 3, "completion_tokens": 6}
                self.answer({"choices": [{"text": text, "finish_reason": "stop"}], "usage": usage})
            def answer(self, tree):
                body = json.dumps(tree).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *_): pass
        server = ThreadingHTTPServer(("127.0.0.1", params.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = "here"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a GGUF file, where the stand-in is installed."""
    packages = tmp_path / "packages"
    (packages / "xllamacpp-2026.10.0.dist-info").mkdir(parents=True)
    (packages / "xllamacpp-2026.10.0.dist-info/METADATA").write_text("Name: xllamacpp\nVersion: 2026.10.0\n")
    (packages / "xllamacpp.py").write_text(XLLAMACPP, encoding="utf-8")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setenv("PYTHONPATH", f"{packages}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    return tmp_path


def run(place: Path, **changes: Any) -> CompletedProcess[str]:
    config = {
        "model_name": "model.gguf", "backend": "llamacpp", "evals_dataset": "sample", "tasks": TASK,
        "template_dir": str(TEMPLATES), "max_model_len": 4096, "concurrency": 2, **changes,
    }  # fmt: skip
    (place / "eval_config.yaml").write_text(json.dumps(config), encoding="utf-8")
    return cli("run", "--no-canary", "--no-report", "--json", cwd=place)


def test_a_run_starts_llama_cpp_with_the_fields_of_model_args_and_keeps_its_answers(place: Path) -> None:
    changes = {"model_args": {"cache_type_k": "q8_0", "n_threads": 3}}
    done = run(place, **changes)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert (output["engine"], output["asked"], output["failed"]) == ("llama.cpp (xllamacpp 2026.10.0)", 15, 0)
    log = (place / "eval_results/answers/logs/serve.log").read_text(encoding="utf-8")
    assert 'fields [8192, 2, "GGML_TYPE_Q8_0", 3]' in log, "each of two slots holds max_model_len"
    assert "tokenizer" not in done.stderr, "the file brings its own"


def test_answers_of_another_file_of_the_same_name_are_not_taken(place: Path) -> None:
    before = compute_model_fingerprint(str(place / "model.gguf"))
    assert before and compute_model_fingerprint(str(place / "model.gguf")) == before
    (place / "model.gguf").write_bytes(b"GGUF of another model")
    assert compute_model_fingerprint(str(place / "model.gguf")) != before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"model_name": "other.gguf"},
            "model_name: other.gguf: there is no such file; did you mean 'model.gguf'? Set model_name to the path of a GGUF file",
        ),
        ({"model_args": {"cache_type": "q8_0"}}, "model_args.cache_type: llama.cpp has no such field"),
        ({"model_args": {"cache_type_k": "q7"}}, "q7 is none of ggml_type_f16, ggml_type_q8_0"),
        ({"model_args": {"n_ctx": 512}}, "'n_ctx' is not allowed here: use the key max_model_len"),
        ({"tokenizer": "org/model"}, "backend llamacpp has no known tokenizer option"),
        ({"tasks": "meta_mmlu_pretrain"}, "backend llamacpp does not say how likely choices are"),
    ],
)
def test_what_it_cannot_do_is_one_message(place: Path, changes: dict[str, Any], words: str) -> None:
    done = run(place, **changes)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())


def test_a_missing_model_is_said_before_a_pack_is_made(place: Path) -> None:
    assert run(place, model_name="other.gguf").returncode == 2
    assert not (place / "work_dir").exists()
    done = cli("prepare", cwd=place)
    assert done.returncode == 0, "a pack may run on another machine"
    assert "note: model_name: other.gguf: there is no such file; did you mean 'model.gguf'?" in done.stderr


def test_fidelity_names_the_backend_that_has_no_log_probabilities_of_prompts(place: Path) -> None:
    run(place, model_name="other.gguf")
    done = cli("fidelity", cwd=place)
    assert done.returncode == 2
    assert not (place / "work_dir").exists()
    assert done.stderr.endswith(
        "error: backend llamacpp cannot be asked how likely each token of a text is. Use a backend that can "
        "(vllm, server, ray), such as --set backend=vllm\n"
    )
