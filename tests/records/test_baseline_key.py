"""``baseline:`` names a record: another pack's run is compared with it doc by doc, and the difference told apart."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from noted import noted
from packs import prepare
from places import REPOSITORY, THOROUGH
from recorded_runs import own_gsm8k, record
from runs import read_lines, write_lines

from meta_eval import compare, report, verify
from meta_eval.base.errors import UserError
from meta_eval.judge.decision import TaskDecision
from meta_eval.judge.gate import Gate
from meta_eval.pack.manifest import read_manifest
from meta_eval.reports.samples import read_shown_samples

DOCS = 20
ROWS = [
    {"question": f"Ann has {n} pears and gets 5.", "answer": f"It is five, whatever {n} is.\n#### 5"}
    for n in range(DOCS)
]
OTHERS = [n for n, row in enumerate(ROWS) if "1" in row["question"]]

# Of docs with a 1 another prompt; a grader that takes one of the two forms in which the model says 5.
PROMPT = {"doc_to_text": "{{ 'Now' if '1' in question else 'Question' }}: {{question}}\nAnswer:"}
GRADER = {
    "filter_list": [
        {
            "name": "strict-match",
            "filter": [{"function": "regex", "regex_pattern": r"It is\n#### (\d+)"}, {"function": "take_first"}],
        }
    ]
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Last month's run: lm-eval's own GSM8K, with no pack."""
    folder = tmp_path_factory.mktemp("last_month")
    return record(own_gsm8k(folder / "tasks", ROWS), folder / "run", ["gsm8k"], num_fewshot=0)


def verified(folder: Path, run: Path, task: Mapping[str, Any]) -> Path:
    templates = own_gsm8k(folder / "tasks", ROWS, **task)
    keys = {"evals_dataset": "lm-eval", "template_dir": str(templates), "baseline": str(run)}
    pack = prepare(folder / "pack", "gsm8k@0", **keys)
    verify(pack)
    return pack


@pytest.fixture(scope="module")
def same(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of the same task, whose baseline is the run."""
    return verified(tmp_path_factory.mktemp("same"), run, {})


def gated(folder: Path, pack: Path, planted: Sequence[int] = (), gate: Gate | None = None) -> TaskDecision:
    record(pack, folder / "new", ["gsm8k"], planted={"gsm8k": planted})
    (task_report,) = report([folder / "new"], pack=pack, gate=gate).tasks
    return task_report


def figures(task: TaskDecision) -> tuple[float, ...]:
    assert (
        task.drop_breakdown is not None
        and task.drop_breakdown.model is not None
        and task.drop_breakdown.prompts is not None
    )
    return task.drop_breakdown.grader.value, task.drop_breakdown.model.value, task.drop_breakdown.prompts.value


def test_the_same_model_under_another_pack_differs_in_nothing(same: Path, tmp_path: Path) -> None:
    task = gated(tmp_path, same, gate=Gate(baseline_kind="run"))
    assert task.baseline_label == "the baseline's answers, graded by the pack"
    assert figures(task) == (0.0, 0.0, 0.0)
    assert task.flips is not None
    assert (task.flips.baseline, task.flips.compared, task.flips.agreed) == ("the baseline's", DOCS, DOCS)
    proof = verify(same)  # nothing else is recorded, so that the baseline's answers are the proof
    assert task.is_decided
    assert (proof.passed, proof.tasks["gsm8k"].graded_score) == (True, pytest.approx(task.drop.baseline))


def test_other_prompts_are_the_prompts(run: Path, tmp_path: Path) -> None:
    task = gated(tmp_path, verified(tmp_path, run, PROMPT))
    grader, model, prompts = figures(task)
    assert (grader, model) == (0.0, 0.0)
    assert prompts != 0.0
    assert task.drop_breakdown is not None
    assert (task.drop_breakdown.docs_with_other_prompt, prompts) == (
        len(OTHERS),
        pytest.approx(task.drop_breakdown.total.value),
    )
    assert [sample.doc for sample in read_shown_samples([task]) if "other prompt" in sample.answers[0].flags] == OTHERS


def test_choices_by_likelihood_are_those_of_a_baseline_by_likelihood(tmp_path: Path) -> None:
    run = str(REPOSITORY / "tests" / "data" / "lm_eval_outputs" / "0.4.13")
    tasks = str(REPOSITORY / "tools" / "lm_eval_tasks")
    with noted() as notes:
        pack = prepare(tmp_path / "pack", "tiny_sums", evals_dataset=run, baseline=run, template_dir=tasks)
    assert [line for line in notes if "was scored by" in line] == []
    entry = read_manifest(pack).tasks["tiny_sums"]
    assert entry.output_type == "multiple_choice"
    assert [kept.docs_with_other_prompt for kept in entry.baseline] == [0]


def test_another_model_is_the_models(same: Path, tmp_path: Path) -> None:
    task = gated(tmp_path, same, planted=range(DOCS))
    grader, model, prompts = figures(task)
    assert (grader, prompts) == (0.0, 0.0)
    assert model != 0.0
    assert task.is_decided
    assert model == task.drop.value


def test_another_grader_is_the_graders(run: Path, tmp_path: Path) -> None:
    task = gated(tmp_path, verified(tmp_path, run, GRADER))
    grader, model, prompts = figures(task)
    assert grader > 0.0
    assert (model, prompts) == (0.0, 0.0)
    assert task.is_decided
    assert task.drop.value == 0.0  # what only the grader changed is no fault of the run


def test_the_manifest_keeps_which_record_and_the_pack_which_prompts_differ(run: Path, tmp_path: Path) -> None:
    templates = own_gsm8k(tmp_path / "tasks", ROWS, **PROMPT)
    with noted() as notes:
        pack = prepare(
            tmp_path / "pack", "gsm8k@0", evals_dataset="lm-eval", template_dir=str(templates), baseline=str(run)
        )
    assert any(f"used a different prompt for {len(OTHERS)} of {DOCS} docs" in line for line in notes)
    (kept,) = read_manifest(pack).tasks["gsm8k"].baseline
    assert (kept.name, kept.model, kept.docs, kept.docs_with_other_prompt) == (
        str(run),
        "org/Model-one",
        DOCS,
        len(OTHERS),
    )
    assert kept.revision.startswith("sha256:")
    lines = pq.read_table(pack / kept.file).to_pylist()
    assert [line["doc"] for line in lines if not line["prompt_matches"]] == OTHERS
    # It has all that it needs: neither the record nor the place matter to who reads the report.
    moved = Path(shutil.move(pack, tmp_path / "elsewhere"))
    record(moved, tmp_path / "new", ["gsm8k"])
    (task,) = report([tmp_path / "new"], pack=moved).tasks
    assert task.baseline_label == "the baseline's verdicts"  # verify was not run yet


@pytest.mark.plugin("meta")
def test_a_run_of_metas_prompts_is_a_baseline_of_the_next(tmp_path: Path) -> None:
    first = prepare(tmp_path / "first", "meta_gpqa")
    record(first, tmp_path / "bf16", ["meta_gpqa"])
    pack = prepare(tmp_path / "pack", "meta_gpqa", baseline=str(tmp_path / "bf16"))
    verify(pack)
    record(pack, tmp_path / "fp8", ["meta_gpqa"])
    (task,) = report([tmp_path / "fp8"], pack=pack).tasks
    assert task.baseline_label == "the baseline's answers, graded by the pack"
    assert task.is_decided
    assert (task.drop.value, figures(task)) == (0.0, (0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"baseline": "no_such_folder"}, "baseline: no_such_folder: there is no such file or folder"),
        ({"bundle": False}, "baseline: a baseline needs the pack's docs in the pack"),
        pytest.param({}, "has no task in common with this pack: it has gsm8k", marks=pytest.mark.plugin("meta")),
    ],
)
def test_what_is_no_baseline_is_said(run: Path, tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / "pack", "meta_gpqa", **{"baseline": str(run), **keys})
    assert not (tmp_path / "pack").exists()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of one model: run_0 to run_2."""
    folder = tmp_path_factory.mktemp("runs")
    tasks = own_gsm8k(folder / "tasks", ROWS)
    for number in range(3):
        planted = {"gsm8k": range(4 * number, 4 * number + 6)}
        record(tasks, folder / f"run_{number}", ["gsm8k"], num_fewshot=0, planted=planted)
    return folder


def pack_of(folder: Path, runs: Path, baseline: Sequence[str]) -> Path:
    keys = {"evals_dataset": "lm-eval", "template_dir": str(runs / "tasks")}
    return prepare(folder / "pack", "gsm8k@0", **keys, baseline=[str(runs / name) for name in baseline])


@pytest.mark.parametrize("baseline", [["run_0", "run_1", "run_2"], ["run_*"]] if THOROUGH else [["run_*"]])
def test_several_runs_are_a_baseline_as_compare_has_it(three: Path, tmp_path: Path, baseline: list[str]) -> None:
    pack = pack_of(tmp_path, three, baseline)
    kept = read_manifest(pack).tasks["gsm8k"].baseline
    assert [Path(run.name).name for run in kept] == ["run_0", "run_1", "run_2"]
    assert verify(pack).passed
    record(pack, tmp_path / "new", ["gsm8k"], planted={"gsm8k": range(10, 20)})
    record(three / "tasks", tmp_path / "plain", ["gsm8k"], num_fewshot=0, planted={"gsm8k": range(10, 20)})
    (task,) = report([tmp_path / "new"], pack=pack).tasks
    (other,) = compare([three / run.name for run in kept], [tmp_path / "plain"]).tasks
    assert task.is_decided
    assert other.is_decided
    assert task.drop.run_variance > 0
    assert (task.drop.value, task.interval) == (other.drop.value, other.interval)


def test_of_several_runs_verify_tells_the_lowest_agreement(three: Path, tmp_path: Path) -> None:
    shutil.copytree(three, tmp_path / "runs")
    for number, changed in enumerate((1, 3, 2)):
        (samples,) = (tmp_path / "runs" / f"run_{number}").rglob("samples_*.jsonl")
        lines = read_lines(samples)
        right, wrong = ([line for line in lines if line["exact_match"] == verdict] for verdict in (1, 0))
        for line in (*right[:changed], *wrong[:changed]):  # as many of each, so that the score stays
            line["exact_match"] = 1 - line["exact_match"]
        write_lines(samples, lines)
    tallies = verify(pack_of(tmp_path, tmp_path / "runs", ["run_*"])).tasks["gsm8k"].tallies
    assert tallies is not None
    assert (tallies.total.compared, tallies.total.agreed) == (DOCS, DOCS - 6)


def test_a_run_that_cannot_be_read_leaves_the_others(three: Path, tmp_path: Path) -> None:
    shutil.copytree(three, tmp_path / "runs")
    (samples,) = (tmp_path / "runs" / "run_1").rglob("samples_*.jsonl")
    samples.write_text("{", encoding="utf-8")
    with noted() as notes:
        pack = pack_of(tmp_path, tmp_path / "runs", ["run_0", "run_1", "no_such_run", "run_2"])
    assert [Path(run.name).name for run in read_manifest(pack).tasks["gsm8k"].baseline] == ["run_0", "run_2"]
    left_out = [note for note in notes if "a run of the baseline is left out" in note]
    assert len(left_out) == 2
    assert "no_such_run" in left_out[0]
    assert "run_1" in left_out[1]


def test_the_runs_of_a_baseline_are_different_runs_of_one_model(three: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="are the same run"):
        pack_of(tmp_path, three, ["run_0", "run_0"])
    with pytest.raises(UserError, match=r"none_\* matches no folder and no file"):
        pack_of(tmp_path, three, ["none_*"])
    record(three / "tasks", tmp_path / "other", ["gsm8k"], num_fewshot=0, salt="other")
    with pytest.raises(UserError, match="the runs are of several models"):
        pack_of(tmp_path, three, ["run_0", str(tmp_path / "other")])
    assert not (tmp_path / "pack").exists()


def test_a_task_that_one_run_lacks_is_named(three: Path, tmp_path: Path) -> None:
    tasks = own_gsm8k(tmp_path / "tasks", ROWS, task="sums")
    (tasks / "gsm8k.yaml").rename(tasks / "sums.yaml")
    shutil.copy(three / "tasks" / "gsm8k.yaml", tasks)
    record(tasks, tmp_path / "both", ["gsm8k", "sums"], num_fewshot=0)
    record(tasks, tmp_path / "one", ["gsm8k"], num_fewshot=0, planted={"gsm8k": range(3)})
    keys = {"evals_dataset": "lm-eval", "template_dir": str(tasks)}
    with noted() as notes:
        pack = prepare(
            tmp_path / "pack", "gsm8k@0,sums@0", **keys, baseline=[str(tmp_path / "both"), str(tmp_path / "one")]
        )
    assert {name: len(task.baseline) for name, task in read_manifest(pack).tasks.items()} == {"gsm8k": 2, "sums": 1}
    assert any("of the baseline has no sums: the baseline's other runs count there" in note for note in notes)


def test_a_run_of_far_fewer_docs_is_left_out_and_alone_says_why_nothing_is_compared(
    three: Path, tmp_path: Path
) -> None:
    record(own_gsm8k(tmp_path / "part", ROWS[3:16]), tmp_path / "few", ["gsm8k"], num_fewshot=0)
    with noted() as notes:
        pack = pack_of(tmp_path / "list", three, ["run_0", str(tmp_path / "few"), "run_2"])
    assert [Path(run.name).name for run in read_manifest(pack).tasks["gsm8k"].baseline] == ["run_0", "run_2"]
    assert any(f"few has 13 docs, another {DOCS}" in note for note in notes)
    with noted() as notes:
        pack = pack_of(tmp_path, three, [str(tmp_path / "few")])
    assert f"gsm8k: the baseline has no answer to {DOCS - 13} of {DOCS} docs" in notes
    with noted() as notes:
        pack_of(tmp_path / "whole", three, ["run_0"])
    assert not any("has no answer to" in note for note in notes)
    (task,) = report([three / "run_1"], pack=pack).tasks
    assert task.not_compared_reason == f"only 13 of {DOCS} docs have a recorded answer"
