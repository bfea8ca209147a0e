"""The real ``vllm serve`` under ``serve: true``, beside vLLM in the run's own process: the same answers, doc for doc.

META_EVAL_RUNS names a virtual environment with vLLM and all that meta-eval imports.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from on_engines import FEWER, descendants, environment, runs_still, scores

pytestmark = pytest.mark.engine

LIMIT = 900
KEYS = {
    "model_name": "tiny", "evals_dataset": "sample", "tasks": "meta_instruct,meta_pretrain", "dtype": "float32",
    "gpu_memory_utilization": 0.3, "model_args": {"enforce_eager": True},
}  # fmt: skip
SERVED = {"backend": "server", "serve": True}


@dataclass(frozen=True)
class Runs:
    """What three runs left: in process; through a server that was killed; the same command again.

    Attributes:
        here, served: Their answers by the id of the request.
        scores_here, scores_served: What they came to.
        killed: The exit status of the run whose server was killed.
        stderr: What it wrote to stderr.
        before: Answers that were kept when it ended.
        again: What the same command said of itself.
        left: The processes of the killed run that were there a minute after its end.
    """

    here: dict[str, Any]
    served: dict[str, Any]
    scores_here: Any
    scores_served: Any
    killed: int
    stderr: str
    before: dict[str, Any]
    again: Any
    left: list[str]


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, taught_model: tuple[Path, Mapping[str, str]], in_process: Path
) -> Runs:
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(taught_model[0], folder / "tiny")
    (folder / "served.yaml").write_text(json.dumps({**KEYS, **SERVED, "output_path": "served", "concurrency": 4}))
    killed = subprocess.Popen(
        _command("served.yaml"), cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    until = time.monotonic() + LIMIT
    while len(_answers(folder / "served")) < 20:
        assert killed.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    family = descendants(killed.pid)
    (server,) = [
        pid for pid, words in family.items() if "vllm.entrypoints.cli.main serve" in words and "watchdog" not in words
    ]
    os.kill(server, signal.SIGKILL)
    _, stderr = killed.communicate(timeout=LIMIT)
    until = time.monotonic() + 60
    while (left := [words for pid, words in family.items() if runs_still(pid)]) and time.monotonic() < until:
        time.sleep(0.2)
    before = _answers(folder / "served")
    again = _run(folder, "served.yaml")
    return Runs(
        here=_answers(in_process / "eval_results"), served=_answers(folder / "served"), scores_here=scores(in_process),
        scores_served=scores(folder, "served"), killed=killed.returncode, stderr=stderr, before=before, again=again, left=left,
    )  # fmt: skip


def test_the_server_gives_the_answers_that_the_engine_in_process_gives(runs: Runs) -> None:
    assert len(runs.here) > 150
    assert runs.served.keys() == runs.here.keys()
    for name, here in runs.here.items():
        served = runs.served[name]
        for field in ("prompt_sha256", "text", "finish_reason", "token_ids", "prompt_tokens", "completion_tokens"):
            assert served.get(field) == here.get(field), f"{name}: {field}"
        for choice, other in zip(served.get("choices") or (), here.get("choices") or (), strict=True):
            assert choice["is_greedy"] == other["is_greedy"]
            assert choice["logprob"] == pytest.approx(other["logprob"], abs=1e-3)


def test_and_so_the_same_scores(runs: Runs) -> None:
    assert runs.scores_served == runs.scores_here
    assert runs.scores_here["meta_ifeval"]["prompt_level_strict_acc,none"] > 0.5  # taught answers came back


def test_a_server_that_is_killed_ends_the_run_with_one_message(runs: Runs) -> None:
    assert runs.killed == 2
    assert "vllm serve: ended (137: killed, often for want of memory)" in " ".join(runs.stderr.split())
    assert "Traceback" not in runs.stderr


def test_nothing_of_it_is_left(runs: Runs) -> None:
    assert runs.left == []


def test_the_same_command_asks_only_what_was_not_answered(runs: Runs) -> None:
    assert len(runs.before) >= 20
    assert runs.again["before"] == len(runs.before)
    assert runs.again["asked"] == len(runs.here) - len(runs.before)
    assert runs.before.items() <= runs.served.items()


def _command(config: str) -> list[str]:
    python = Path(os.environ["META_EVAL_RUNS"]) / "bin/python"
    return [str(python), "-m", "meta_eval", "run", "--config", config, "--json"]


def _run(folder: Path, config: str) -> Any:
    done = subprocess.run(
        _command(config),
        cwd=folder,
        env={**environment(), **FEWER},
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _answers(output: Path) -> dict[str, Any]:
    """By the id of the request, of all whole lines that are answers."""
    answers = {}
    for file in output.glob("answers/*.jsonl"):
        for line in file.read_bytes().splitlines(keepends=True):
            if line.endswith(b"}\n") and b'"request_sha256"' in line:
                answer = json.loads(line)
                answers[answer["id"]] = answer
    return answers
