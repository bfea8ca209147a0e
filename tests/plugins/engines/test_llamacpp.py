"""Backend `llamacpp`: the run starts llama.cpp with a GGUF file, asks it and stops it. A stand-in has its place here."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from command import cli
from fake_server import FIELDS, OF_LLAMACPP, FakeServer, logprob
from marks import thorough
from places import REPOSITORY
from shared import shared_templates
from small_model import write_tokenizer
from tokenizers import Tokenizer

from meta_eval.ask.journal import compute_model_fingerprint
from meta_eval.doctor.known_answers import find_model_folder
from meta_eval.pack.config import Config
from meta_eval.plugins.engines.llamacpp.backend import make_server_settings

HELPERS = REPOSITORY / "tests/helpers"
TASK = "meta_gpqa_cot"
XLLAMACPP = """
import enum, json
from types import SimpleNamespace
from fake_server import FIELDS, OF_LLAMACPP, FakeServer
from tokenizers import Tokenizer

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
        fields = [params.n_ctx, params.n_parallel, params.cache_type_k.name, params.cpuparams.n_threads]
        print("fields", json.dumps(fields), flush=True)
        self.server = FakeServer(
            port=params.port, model=alias, takes=FIELDS - {"echo"} | OF_LLAMACPP, says_length=False,
            tokenizer=Tokenizer.from_file(alias + ".json"), card={"meta": {"n_ctx": params.n_ctx // params.n_parallel}},
        )
        self.server.start()
        self.listening_address = "here"
"""

LLAMA_SERVER = """
import signal, sys
from fake_server import FIELDS, OF_LLAMACPP, FakeServer
from tokenizers import Tokenizer

if sys.argv[1:] == ["--version"]:
    sys.exit("version: 11549 (abcdef0)")
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print(sys.argv[1:], flush=True)
model = options["--model"]
FakeServer(
    port=int(options["--port"]), model=model, takes=FIELDS - {"echo"} | OF_LLAMACPP, says_length=False,
    tokenizer=Tokenizer.from_file(model + ".json"), card={"meta": {"n_ctx": 4096}},
).start()
signal.pause()
"""


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a GGUF file, where the stand-in is installed."""
    packages = tmp_path / "packages"
    (packages / "xllamacpp-2026.10.0.dist-info").mkdir(parents=True)
    (packages / "xllamacpp-2026.10.0.dist-info/METADATA").write_text("Name: xllamacpp\nVersion: 2026.10.0\n")
    (packages / "xllamacpp.py").write_text(XLLAMACPP, encoding="utf-8")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), str(HELPERS), os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    (tmp_path / "meta_template").symlink_to(shared_templates(tmp_path_factory, "gpqa_cot", "mmlu"))
    shutil.copy(write_tokenizer(tmp_path / "tiny") / "tokenizer.json", tmp_path / "model.gguf.json")
    return tmp_path


@pytest.fixture
def program(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder without the package, and with a `llama-server` on the shell's path."""
    shutil.rmtree(place / "packages")
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    path = place / "bin/llama-server"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\n{LLAMA_SERVER}", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return place


def run(place: Path, **changes: Any) -> CompletedProcess[str]:
    config = {
        "model_name": "model.gguf", "backend": "llamacpp", "evals_dataset": "sample", "tasks": TASK,
        "template_dir": "meta_template", "max_model_len": 4096, "concurrency": 2, **changes,
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


@pytest.mark.parametrize(("cores", "threads"), [({0}, 1), ({0, 1}, 1), ({1, 2, 5, 7}, 3)])
def test_a_core_is_left_to_other_processes(cores: set[int], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: cores)
    settings = Config(model_name="m.gguf", evals_dataset="sample", tasks=TASK, backend="llamacpp")
    assert make_server_settings(settings)["n_threads"] == threads
    chosen = settings.model_copy(update={"model_args": {"n_threads": 8}})
    assert make_server_settings(chosen)["n_threads"] == 8


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
        ({"model_args": {"tokenizer": "x"}}, "'tokenizer' is not allowed here: use the key tokenizer"),
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


@pytest.mark.plugin("tokens")
def test_fidelity_names_a_missing_model_or_tokenizer_before_a_pack_is_made(place: Path) -> None:
    run(place, model_name="other.gguf")
    missing = cli("fidelity", cwd=place)
    bare = cli("fidelity", "--set", "model_name=model.gguf", cwd=place)
    assert missing.returncode == bare.returncode == 2
    assert not (place / "work_dir").exists()
    assert "error: model_name: other.gguf: there is no such file" in missing.stderr
    assert bare.stderr.endswith(
        "error: backend llamacpp: needs the model's tokenizer to score tokens. Set tokenizer to a hub id or a folder "
        "that has tokenizer.json\n"
    )


@pytest.fixture
def served(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """The server is in this process."""
    with FakeServer(
        model="model.gguf", takes=FIELDS - {"echo"} | OF_LLAMACPP,
        tokenizer=Tokenizer.from_file(str(place / "model.gguf.json")),
    ) as server:  # fmt: skip
        running = SimpleNamespace(url=server.url, name="model.gguf", ended=lambda: None, stop=lambda: None)
        monkeypatch.setattr("meta_eval.plugins.engines.llamacpp.llamacpp_client.start_server", lambda *_: running)
        yield server


@pytest.mark.usefixtures("served")
def test_choices_are_tokenised_by_the_file_and_get_the_likelihoods_of_its_tokens(place: Path) -> None:
    done = run(place, tasks="meta_mmlu_pretrain", limit=2)
    assert done.returncode == 0, done.stderr
    (path,) = (place / "eval_results/answers").glob("*.jsonl")
    tokenizer = Tokenizer.from_file(str(place / "tiny/tokenizer.json"))
    prompts = [doc["prompt"] for doc in pq.read_table(place / "work_dir/meta_mmlu_pretrain.parquet").to_pylist()[:2]]
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        answer = json.loads(line)
        ids = tokenizer.encode(prompts[int(answer["id"].split("/")[1])].rstrip()).ids
        assert answer["prompt_tokens"] == len(ids)
        labels = [tokenizer.token_to_id("Ġ" + letter) for letter in "ABCD"]
        assert [choice["logprob"] for choice in answer["choices"]] == [logprob(ids, label) for label in labels]


@thorough
def test_without_the_package_a_llama_server_on_the_path_is_started(program: Path) -> None:
    done = run(program, limit=1, model_args={"cache_type_k": "q8_0", "n_threads": 3, "cont_batching": False})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["engine"] == "llama.cpp (llama-server 11549)"
    log = (program / "eval_results/answers/logs/serve.log").read_text(encoding="utf-8")
    assert "'--parallel', '2', '--ctx-size', '8192', '--cache-ram', '0', '--threads', '3'" in log
    assert "'--cache-type-k', 'q8_0', '--no-cont-batching'" in log


def test_neither_the_package_nor_the_program_is_one_message(program: Path) -> None:
    (program / "bin/llama-server").unlink()
    done = run(program)
    assert done.returncode == 2
    assert "backend llamacpp: neither xllamacpp nor llama-server is installed" in done.stderr


def test_a_token_check_without_them_is_the_same_message(program: Path) -> None:
    (program / "bin/llama-server").unlink()
    run(program)
    assert cli("prepare", cwd=program).returncode == 0
    done = cli("fidelity", "--set", "tokenizer=tiny", cwd=program)
    assert done.returncode == 2
    assert "backend llamacpp: neither xllamacpp nor llama-server is installed" in done.stderr


def test_a_tokenizer_of_another_model_is_refused_before_the_first_request(place: Path, served: FakeServer) -> None:
    served.tokenizer = Tokenizer.from_file(str(find_model_folder() / "tokenizer.json"))
    done = run(place, tokenizer="tiny")
    assert done.returncode == 2
    assert "tokenizer: tiny: is not the tokenizer in model.gguf" in done.stderr


@pytest.mark.parametrize(
    ("status", "words"),
    [(137, "ended (137: killed, often for want of memory)"), (139, "ended (139: killed by SIGSEGV)"), (1, "a line")],
)
def test_an_engine_that_was_killed_says_so_and_not_the_last_line_of_its_log(
    status: int, words: str, tmp_path: Path
) -> None:
    from meta_eval.ask.served import diagnose_engine

    log_file = tmp_path / "serve.log"
    log_file.write_text("warming up\na line\n", encoding="utf-8")
    error = diagnose_engine(None, log_file, where="llama.cpp", status=status)
    assert words in str(error) and ("warming up" in str(error)) is False
