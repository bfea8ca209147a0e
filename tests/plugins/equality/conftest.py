"""What the tests of this plug-in share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command import cli
from load_server import load_pack


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pack of 240 short questions."""
    shutil.copytree(load_pack(tmp_path_factory) / "work_dir", tmp_path / "work_dir")
    return tmp_path


@pytest.fixture(scope="session")
def common_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for tests that change nothing but outputs."""
    folder = tmp_path_factory.mktemp("equality")
    shutil.copytree(load_pack(tmp_path_factory) / "work_dir", folder / "work_dir")
    return folder


@pytest.fixture(scope="session")
def chat_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pack of chat prompts, of which only outputs may be changed."""
    folder = tmp_path_factory.mktemp("equality_chat")
    keys = {
        "model_name": "tiny", "evals_dataset": "sample", "tasks": "meta_mmlu_pro_instruct", "backend": "chat",
        "base_url": "http://127.0.0.1:9/v1", "max_model_len": 65536, "output_path": "out",
    }  # fmt: skip
    (folder / "eval_config.yaml").write_text(json.dumps(keys), encoding="utf-8")
    done = cli("prepare", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
