"""The socket for checks: doctor shows those of plug-ins, and one that cannot be loaded stops nothing."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from command import cli
from offered import offer
from packs import edit_docs, prepare, reseal
from places import REPOSITORY

from meta_eval.doctor.check import ENTRY_POINTS, Check, failed

pytestmark = pytest.mark.plugin("meta")  # its sample is the pack


def load_example() -> type[Check]:
    spec = importlib.util.spec_from_file_location("prompt_check", REPOSITORY / "examples/prompt_check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: type[Check] = module.PlaceholderCheck
    return found


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return prepare(tmp_path / "pack", "meta_gpqa_cot")


def diagnose(pack: Path) -> tuple[int, dict[str, Any]]:
    done = cli("doctor", pack, "--json", cwd=pack.parent)
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_the_example_looks_through_the_prompts(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, ENTRY_POINTS, placeholders=load_example()())
    code, checks = diagnose(pack)
    assert (code, checks["placeholders"]["status"]) == (0, "passed")
    edit_docs(pack, "meta_gpqa_cot", lambda docs: docs[0].update(prompt=f"{docs[0]['prompt']} TODO"))
    reseal(pack)
    code, checks = diagnose(pack)
    assert (code, checks["placeholders"]["status"]) == (2, "failed")
    assert "the prompt of doc 0 holds TODO" in checks["placeholders"]["what"]


def test_a_failure_of_a_plug_in_is_a_failure_of_the_pack(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Never(Check):
        def check(self, pack: Any) -> Any:
            yield failed("never", "it never is", "Give up")

    offer(monkeypatch, ENTRY_POINTS, never=Never())
    done = cli("doctor", pack, cwd=pack.parent)
    assert done.returncode == 2
    assert "never: it never is. Give up" in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("thing", [None, 3, object()])
def test_what_is_no_check_is_a_line_and_all_others_are_made(
    thing: object, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = diagnose(pack)[1]
    offer(monkeypatch, ENTRY_POINTS, wrong=thing)
    code, checks = diagnose(pack)
    wrong = checks.pop("wrong")
    assert (code, wrong["status"]) == (0, "not checked")
    assert "is not a Check" in wrong["what"]
    assert {name: check["status"] for name, check in checks.items()} == {
        name: check["status"] for name, check in others.items()
    }
