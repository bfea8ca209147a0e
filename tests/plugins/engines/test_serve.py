"""`serve: true`: a server for the time of a run, which is gone when the run is, whatever ended it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import cli
from fake_vllm import write_vllm
from forked import Forked, started
from marks import thorough
from places import THOROUGH
from small_model import write_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    write_tokenizer(_model(folder))
    write_vllm(folder / "bin")
    (folder / "empty.yaml").write_text("{}\n")
    return folder


def arguments(folder: Path, output: Path, **keys: Any) -> list[str]:
    settings = {
        "model_name": str(_model(folder)), "evals_dataset": "sample", "tasks": "meta_gpqa", "backend": "server", "serve": True,
        "output_path": str(output), "concurrency": 1, **keys,
    }  # fmt: skip
    sets = [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    return ["run", "--no-canary", "--config", "empty.yaml", *sets]


def run(folder: Path, output: Path, **keys: Any) -> subprocess.CompletedProcess[str]:
    return cli(*arguments(folder, output, **keys), "--json", cwd=folder, PATH=_path(folder))


def test_it_is_started_with_the_settings_asked_and_stopped(folder: Path, tmp_path: Path) -> None:
    done = run(
        folder, tmp_path, tensor_parallel_size=2, max_model_len=4096, seed=7,
        model_args={"enforce_eager": True, "quantization": "fp8", "enable_prefix_caching": False},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["asked"] == 15
    words = (folder / "bin/arguments").read_text().split()
    for wanted in (
        f"serve {_model(folder)} --host 127.0.0.1", "--tensor-parallel-size 2 --data-parallel-size 1", "--max-model-len 4096",
        "--seed 7", "--generation-config vllm", "--enforce-eager", "--quantization fp8", "--no-enable-prefix-caching",
    ):  # fmt: skip
        assert f" {wanted} " in f" {' '.join(words)} "
    assert (tmp_path / "answers/logs/serve.log").read_text().startswith("ready\n")
    assert _left(folder) == []


@thorough
def test_several_copies_under_vllm_are_served(folder: Path, tmp_path: Path) -> None:
    done = run(folder, tmp_path, backend="vllm", serve=False, data_parallel_size=4)
    assert done.returncode == 0, done.stderr
    assert "4 copies of the model run in one `vllm serve`" in " ".join(done.stderr.split())
    assert "--data-parallel-size\n4\n" in (folder / "bin/arguments").read_text()
    assert _left(folder) == []


def test_one_that_dies_while_it_starts_is_one_message_with_its_hint_and_its_log(folder: Path, tmp_path: Path) -> None:
    done = run(folder, tmp_path, model_args={"fail": True})
    assert done.returncode == 2
    message = " ".join(done.stderr.split())
    assert "the GPU has not enough free memory" in message
    assert "Tried to allocate 2.00 GiB" in message
    assert "serve.log" in message
    assert _left(folder) == []


def test_base_url_and_serve_do_not_go_together(folder: Path, tmp_path: Path) -> None:
    done = run(folder, tmp_path, base_url="http://127.0.0.1:1/v1")
    assert done.returncode == 2
    assert "Remove one of the two" in done.stderr


@thorough
def test_however_the_run_is_ended_nothing_is_left(folder: Path, tmp_path: Path) -> None:
    """Not even a worker that ignores every signal but the last, in a group of its own."""
    signals = (signal.SIGKILL, signal.SIGINT) if THOROUGH else (signal.SIGKILL,)
    clients = {how: _start(folder, tmp_path / how.name, deaf=True) for how in signals}
    for how, client in clients.items():
        _until(lambda how=how: _answers(tmp_path / how.name) >= 3, client)  # type: ignore[misc]
    assert len(_left(folder)) >= len(signals) * 3  # of each the watchdog, the server, its worker
    for how, client in clients.items():
        client.send_signal(how)
    for client in clients.values():
        client.wait(60)
    _until(lambda: not _left(folder))


@thorough
def test_a_server_that_is_killed_ends_the_run_and_the_same_command_goes_on(folder: Path, tmp_path: Path) -> None:
    client = _start(folder, tmp_path)
    _until(lambda: _answers(tmp_path) >= 3, client)
    (server,) = [pid for pid, words in _left(folder) if "fake_vllm.py" in words and "watchdog.py" not in words]
    os.kill(server, signal.SIGKILL)
    assert client.wait(60) == 2
    _until(lambda: not _left(folder))
    kept = _answers(tmp_path)
    done = run(folder, tmp_path)
    assert json.loads(done.stdout)["before"] == kept
    assert json.loads(done.stdout)["asked"] == 15 - kept


def _start(folder: Path, output: Path, **model_args: Any) -> Forked:
    words = arguments(folder, output, model_args=model_args)
    return started(*words, cwd=folder, PATH=_path(folder), FAKE_VLLM_SECONDS="0.2")


def _model(folder: Path) -> Path:
    return folder / "tiny"


def _path(folder: Path) -> str:
    return f"{folder / 'bin'}:{os.environ['PATH']}"


def _answers(output: Path) -> int:
    return sum(file.read_bytes().count(b'"request_sha256"') for file in output.glob("answers/*.jsonl"))


def _left(folder: Path) -> list[tuple[int, str]]:
    """The processes that have our model's path on their command line, but for those that are dead."""
    result = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            try:
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if str(_model(folder)) in words:
                result.append((int(path.name), words))
    return result


def _until(true: Callable[[], bool], client: Forked | None = None) -> None:
    until = time.monotonic() + 90
    while not true():
        assert client is None or client.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
