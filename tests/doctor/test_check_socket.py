"""The socket for checks: doctor shows those of plug-ins, and one that cannot be loaded stops nothing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest
from command import cli
from offered import offer
from packs import edit_docs, look_at, prepare
from places import REPOSITORY

from meta_eval.doctor.check import CHECKS_GROUP, Check

pytestmark = pytest.mark.plugin("meta")  # its sample is the pack


def load_example() -> type[Check]:
    spec = importlib.util.spec_from_file_location("prompt_check", REPOSITORY / "examples/prompt_check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: type[Check] = module.PlaceholderCheck
    return found


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("prepared") / "pack", "meta_gpqa_cot")


@pytest.fixture(scope="module")
def done(pack: Path) -> subprocess.CompletedProcess[str]:
    """doctor of the pack with a prompt that is not filled in, the example, and three things that are no check."""
    assert [found.status for found in load_example()().check(look_at(pack))] == ["passed"]
    edit_docs(pack, "meta_gpqa_cot", lambda docs: docs[0].update(prompt=f"{docs[0]['prompt']} TODO"))
    with pytest.MonkeyPatch.context() as patch:
        offer(patch, CHECKS_GROUP, nothing=None, number=3, thing=object(), placeholders=load_example()())
        return cli("doctor", pack, "--json", cwd=pack.parent)


def test_the_example_looks_through_the_prompts(done: subprocess.CompletedProcess[str]) -> None:
    """A failure of a plug-in is a failure of the pack."""
    assert done.returncode == 2
    line = "placeholders: meta_gpqa_cot: the prompt of doc 0 holds TODO. Fill it in"
    assert line in " ".join(done.stderr.split())


def test_what_is_no_check_is_a_line_and_all_others_are_made(done: subprocess.CompletedProcess[str]) -> None:
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert f"1 of {len(checks)} checks failed" in done.stderr, "what is no check is no failure"
    for name in ("nothing", "number", "thing"):
        wrong = checks.pop(name)
        assert wrong["status"] == "not checked"
        assert "is not a Check" in wrong["what"]
    for name in ("manifest", "files", "lm_eval", "functions", "first docs", "length", "output"):
        assert checks[name]["status"] == "passed", name
    assert checks["placeholders"]["status"] == "failed"
