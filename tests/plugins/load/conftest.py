"""What the tests of this plug-in share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from load_server import load_pack


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = load_pack(tmp_path_factory)
    for name in ("work_dir", "model"):
        shutil.copytree(made / name, tmp_path / name)
    shutil.copy(made / "eval_config.yaml", tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
