"""Bytecode beside a pack's modules is not run: Python would take it for theirs."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import struct
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from packs import prepare, tree

from meta_eval.harness.probe_script import answer
from meta_eval.pack.verify import verify

ROWS = Path("_common/rows.py")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("sample") / "work_dir", "meta_gpqa")


def other_bytecode(pack: Path) -> None:
    """Its header has the size and time of the source."""
    source = pack / ROWS
    status = source.stat()
    text = source.read_text()
    source.write_text("raise SystemExit('run')".ljust(status.st_size))
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    py_compile.compile(str(source))
    source.write_text(text)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))


def hostile_bytecode(pack: Path) -> None:
    """A tuple of 2**31 - 1 items: Python's reader asks for 16 GiB."""
    source = pack / ROWS
    status, path = source.stat(), Path(importlib.util.cache_from_source(str(source)))
    path.parent.mkdir(exist_ok=True)
    stamp = struct.pack("<III", 0, int(status.st_mtime), status.st_size)
    path.write_bytes(importlib.util.MAGIC_NUMBER + stamp + b"(" + struct.pack("<I", 2**31 - 1))


def unchecked_bytecode(pack: Path) -> None:
    """Of a header that says that nobody compares it with the source (PEP 552)."""
    other = pack.parent / "other.py"
    other.write_text("raise SystemExit('run')")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(other), importlib.util.cache_from_source(str(pack / ROWS)), invalidation_mode=mode)


@pytest.mark.parametrize("plant", [other_bytecode, unchecked_bytecode, hostile_bytecode])
def test_bytecode_beside_a_module_is_not_run(plant: Callable[[Path], None], sample: Path, tmp_path: Path) -> None:
    pack = Path(shutil.copytree(sample, tmp_path / "work_dir"))
    plant(pack)
    assert list(pack.rglob("rows.*.pyc"))
    before = tree(pack)
    report = verify(pack, min_agreement=0.5)
    assert (report.passed, report.edited) == (True, ())
    assert tree(pack) == before


@pytest.mark.parametrize("plant", [other_bytecode, unchecked_bytecode])
def test_doctor_runs_no_bytecode_either(
    plant: Callable[[Path], None], sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = Path(shutil.copytree(sample, tmp_path / "work_dir"))
    plant(pack)
    monkeypatch.setattr(SourceFileLoader, "path_stats", SourceFileLoader.path_stats)  # what it changes in its process
    functions = [("a.yaml", str(ROWS), "docs_by")]
    answered = answer(
        {"pack": str(pack), "functions": functions, "tasks": [], "modules": [], "latex": False, "punkt": False}
    )
    assert answered["functions"] == {"a.yaml: docs_by": None}
