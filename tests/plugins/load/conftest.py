"""What the tests of this plug-in share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from load_server import Finished, load_pack, load_server, run_load


def copy_pack(temporary: pytest.TempPathFactory, to: Path) -> Path:
    made = load_pack(temporary)
    for name in ("work_dir", "model"):
        shutil.copytree(made / name, to / name)
    shutil.copy(made / "eval_config.yaml", to)
    return to


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_pack(tmp_path_factory, tmp_path)


@pytest.fixture(scope="session")
def common_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_pack(tmp_path_factory, tmp_path_factory.mktemp("place"))


@pytest.fixture
def without_answers(common_place: Path) -> Path:
    """A place of several tests, in which nothing is answered yet. Only outputs may be changed."""
    shutil.rmtree(common_place / "out", ignore_errors=True)
    return common_place


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """The original of `finished`."""
    folder = copy_pack(tmp_path_factory, tmp_path_factory.mktemp("finished"))
    words = ("--concurrency", "6", "--docs", "30", "--traffic", "0")
    with pytest.MonkeyPatch.context() as monkeypatch, load_server(folder / "model") as server:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield Finished(folder, server, words, run_load(folder, server, *words))


@pytest.fixture
def finished(made_once: Finished, tmp_path: Path) -> Finished:
    """A load that has ended, in a folder of its own, and its sound server, which still runs."""
    return made_once.copied(tmp_path / "place")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
