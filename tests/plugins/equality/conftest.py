"""What the tests of this plug-in share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
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


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
