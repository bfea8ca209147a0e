"""The pack under lm-eval itself: every task of the sample loads, runs and gives the golden verdicts.

This file runs on every lm-eval version that a pack supports.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from golden import all_tasks, prepare_sample, replay, verdicts
from marks import each, thorough
from packs import prepare, some_templates
from places import GOLDEN, THOROUGH
from shared import whole_pack, whole_replay

from meta_eval.pack.manifest import read_manifest
from meta_eval.plugins.meta.source import sample as embedded

TASKS = all_tasks()


@pytest.fixture(scope="module")
def moved_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_pack(tmp_path_factory)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return whole_replay(tmp_path_factory)


@each("task", TASKS)
def test_every_doc_gets_its_golden_verdict(task: str, replayed: dict[str, Any]) -> None:
    golden = (GOLDEN / f"{task}.jsonl").read_text(encoding="utf-8").splitlines()
    assert verdicts(replayed["samples"][task]) == golden


def test_our_verdicts_differ_from_the_recorded_ones_exactly_where_the_sample_says(
    moved_pack: Path, replayed: dict[str, Any]
) -> None:
    manifest = json.loads((moved_pack / "manifest.json").read_text(encoding="utf-8"))
    expected: dict[str, set[str]] = {}
    differences: dict[str, set[str]] = {}
    for task, entry in manifest["tasks"].items():
        expected[task] = set(embedded.read_tables()[f"{entry['model']}-evals", entry["subset"]].disagreements)
        differences[task] = set()
        metric, _, filter_name = (entry["is_correct_metric"] or entry["primary_metric"]).partition(",")
        for sample in replayed["samples"][task]:
            recorded = sample["doc"]["recorded_is_correct"]
            if sample["filter"] == filter_name and recorded is not None and bool(sample[metric]) != recorded:
                differences[task].add(sample["doc"]["input_question_hash"])
    assert differences == expected


@each("task", TASKS)
def test_every_metric_is_a_number(task: str, replayed: dict[str, Any]) -> None:
    scores = {k: v for k, v in replayed["results"][task].items() if "," in k and "stderr" not in k}
    assert scores
    assert all(isinstance(score, float) and score >= 0 for score in scores.values())


def test_groups_hold_their_tasks(tmp_path: Path) -> None:
    asked = ["meta_instruct", "meta_pretrain"]
    templates = some_templates(tmp_path, *(f"{name}.yaml" for name in asked), "gpqa", "mmlu", "mmlu_pro")
    pack = prepare(tmp_path / "work_dir", ",".join(asked), template_dir=str(templates))
    groups = read_manifest(pack).groups
    names = replay(pack, asked, docs=1)
    assert len(groups["meta_instruct"]) > 1 and len(groups["meta_pretrain"]) > 1
    assert set(groups["meta_instruct"]) | set(groups["meta_pretrain"]) == set(names["samples"])


def test_the_name_of_the_recipe_works_in_lm_eval(moved_pack: Path) -> None:
    assert set(replay(moved_pack, ["meta_mmlu"], docs=1)["samples"]) == {"meta_mmlu_pretrain"}


def test_a_changed_docs_file_stops_the_task(tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    prepare_sample(pack, ["meta_gpqa"])
    docs = pack / "meta_gpqa.parquet"
    docs.write_bytes(docs.read_bytes()[:-1] + b"\0")
    with pytest.raises(ValueError, match="is not the file that was prepared"):
        replay(pack, ["meta_gpqa"])
    docs.unlink()
    with pytest.raises(ValueError, match="this pack is incomplete"):
        replay(pack, ["meta_gpqa"])


def test_no_file_of_a_pack_imports_meta_eval(moved_pack: Path) -> None:
    for path in moved_pack.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import meta_eval" not in text
        assert "from meta_eval" not in text


@thorough
def test_the_command_line_of_lm_eval_writes_results_and_samples(moved_pack: Path, tmp_path: Path) -> None:
    """Stock lm_eval, another working directory, a model without weights: all but the engine is as in the real run.

    To read the thousands of tasks that lm_eval brings takes it 5 s of CPU time: .ci/run does, plain `make test` does not.
    """
    code = "import runpy; runpy.run_module('meta_eval.harness.replay', run_name='__main__', alter_sys=True)"
    if not THOROUGH:
        alone = "functools.partialmethod(TaskManager.__init__, include_defaults=False)"
        code = f"import functools; from lm_eval.tasks import TaskManager; TaskManager.__init__ = {alone}; {code}"
    done = subprocess.run(
        [sys.executable, "-c", code, "--model", "meta-replay", "--model_args", "pretrained=replay",
         "--tasks", "meta_gpqa,meta_mmlu", "--include_path", str(moved_pack),
         "--output_path", "out", "--log_samples", "--seed", "42", "--batch_size", "auto"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert list((tmp_path / "out").rglob("results_*.json")), done.stderr[-4000:]  # lm-eval only logs a failed save
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert json.loads(results.read_text())["results"]["meta_gpqa"]["exact_match,strict-match"] == pytest.approx(0.4)
    assert {path.name.split("_2")[0] for path in (tmp_path / "out").rglob("samples_*.jsonl")} == {
        "samples_meta_gpqa",
        "samples_meta_mmlu_pretrain",
    }
