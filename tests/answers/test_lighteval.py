"""export --to lighteval: the same docs, prompts and verdicts, under lighteval's own pipeline."""

from __future__ import annotations

import ast
import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command import cli
from packs import prepare, yaml_of
from places import REPOSITORY
from recorded_runs import record, task_folder
from shared import whole_pack, whole_replay

from meta_eval.answers.lighteval_export import export_to_lighteval
from meta_eval.messages.errors import UserError
from meta_eval.verb_options import TaskOptions

SOME = ["meta_gsm8k", "meta_mmlu_pretrain"]

# What lighteval cannot say, in the words of the export.
LEFT_OUT = {
    "meta_human_eval": "it runs model-written code", "meta_human_eval_plus": "it runs model-written code", "meta_mbpp": "it runs model-written code",
    "meta_mbpp_plus": "it runs model-written code", "meta_zero_shot_scrolls": "a Python class makes its requests",
}  # fmt: skip


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_pack(tmp_path_factory)


def docs_of(folder: Path, task: str) -> list[dict[str, Any]]:
    return pq.read_table(folder / "docs" / task / "test.parquet").to_pylist()


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def exported(pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "tasks"
    done = cli(
        "export", pack, "--to", "lighteval", "--tasks", ",".join([*SOME, *LEFT_OUT]), "--output", folder, "--json"
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert set(said["tasks"]) == set(SOME)
    for task, why in LEFT_OUT.items():
        assert why in said["left_out"][task]
        assert f"{task}: skipped, because" in done.stderr
    assert "override_chat_template=False" in done.stderr
    return folder


def test_the_queries_are_the_requests_of_the_pack_to_the_letter(exported: Path, pack: Path, tmp_path: Path) -> None:
    assert cli("export", pack, "--tasks", ",".join(SOME), "--output", tmp_path / "requests.jsonl").returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text(encoding="utf-8").splitlines()[1:]]
    for task in SOME:
        asked = [line for line in lines if line["task"] == task]
        docs = docs_of(exported, task)
        assert [doc["query"] for doc in docs] == [request["prompt"] for request in asked]
        if task == "meta_mmlu_pretrain":
            assert [doc["choices"] for doc in docs] == [request["continuations"] for request in asked]


def test_the_module_stands_alone_and_its_files_are_the_same_each_time(exported: Path, pack: Path) -> None:
    tree = ast.parse((exported / "meta_eval_tasks.py").read_text(encoding="utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(name.startswith("meta_eval") for name in modules)
    before = files_of(exported)
    export_to_lighteval(pack, exported, TaskOptions(tasks=[*SOME, *LEFT_OUT]))
    assert files_of(exported) == before


def test_a_folder_of_somebody_else_is_left_alone(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    for folder in (tmp_path / "mine", pack / "inside"):
        done = cli("export", pack, "--to", "lighteval", "--tasks", SOME[0], "--output", folder)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert files_of(tmp_path / "mine") == {"thesis.txt": b"mine"}
    assert not (pack / "inside").exists()


def test_where_nothing_can_be_expressed_nothing_is_written(pack: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no task that lighteval can run"):
        export_to_lighteval(pack, tmp_path / "out", TaskOptions(tasks=["meta_human_eval"]))
    assert list(tmp_path.iterdir()) == []


def test_a_filter_that_only_lm_eval_has_leaves_its_task_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pack = prepare(tmp_path / "pack", "meta_gsm8k")
    path = yaml_of(pack, "meta_gsm8k")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("function: take_first", "function: majority_vote", 1), encoding="utf-8")
    with pytest.raises(UserError, match="no task that lighteval can run"):
        export_to_lighteval(pack, tmp_path / "out", TaskOptions(edited=True))
    assert "its filter majority_vote [] is built into lm-eval" in caplog.text


# Under lighteval itself


def answers_of(folder: Path) -> dict[str, list[Any]]:
    """The recorded answers by task, in the order of its docs."""
    result: dict[str, list[Any]] = {}
    for task in json.loads((folder / "tasks.json").read_text(encoding="utf-8"))["tasks"]:
        docs = [json.loads(row["doc"]) for row in docs_of(folder, task["name"])]
        if "recorded_responses" in docs[0]:
            of_docs = [json.loads(doc["recorded_responses"]) for doc in docs]
            result[task["name"]] = [
                [[float(likelihood), greedy] for ((likelihood, greedy),) in of_doc]
                if task["kind"] == "choices"
                else of_doc[0][0]
                for of_doc in of_docs
            ]
        elif task["kind"] == "choices":
            result[task["name"]] = [
                [[-cost, False] for cost in doc["recorded_negative_log_likelihoods"]] for doc in docs
            ]
        else:
            result[task["name"]] = [doc["recorded_output"] or "" for doc in docs]
    return result


def replayed(folder: Path, scratch: Path, *more: str) -> subprocess.CompletedProcess[str]:
    (scratch / "answers.json").write_text(json.dumps(answers_of(folder)), encoding="utf-8")
    script = REPOSITORY / "tests" / "helpers" / "lighteval_replay.py"
    command = [os.environ["META_EVAL_LIGHTEVAL"], str(script), str(folder), "answers.json", "found.json", *more]
    environment = {**os.environ, "HF_DATASETS_CACHE": str(scratch / "cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)


def same(ours: Any, theirs: Any) -> bool:
    """Equal, where no number is equal to no number, as an average over no docs is."""
    numbers = isinstance(ours, float) and isinstance(theirs, float)
    return ours == theirs or (numbers and math.isnan(ours) and math.isnan(theirs))


@pytest.mark.lighteval
def test_every_recorded_answer_of_the_sample_gets_the_same_verdict(
    pack: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    done = export_to_lighteval(pack, tmp_path / "out", TaskOptions())
    assert set(done.left_out) == set(LEFT_OUT)
    run = replayed(tmp_path / "out", tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    content = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert set(content["tasks"]) == set(done.tasks)
    stock = whole_replay(tmp_path_factory)
    compared = 0
    for task, metrics in content["tasks"].items():
        theirs = {(sample["doc_id"], sample["filter"]): sample for sample in stock["samples"][task]}
        for spec, values in metrics.items():
            metric, _, name = spec.partition(",")
            if metric == "math_verify":  # another version of math-verify: lighteval takes no newer one
                continue
            expected = [theirs[number, name].get(metric) for number in range(len(values["items"]))]
            differing = [
                n
                for n, (ours, theirs) in enumerate(zip(values["items"], expected, strict=True))
                if not same(ours, theirs)
            ]
            assert not differing, (task, spec, differing)
            average = stock["results"][task][spec]
            assert average == pytest.approx(values["average"], nan_ok=True), (task, spec)
            compared += len(expected)
    assert compared > 4000
    # What lighteval keeps of a run can be written too.
    assert sum(name.startswith("details_") for name in content["files"]) == len(done.tasks)


@pytest.mark.lighteval
def test_recorded_runs_of_lm_evals_own_tasks_get_the_same_verdicts(tmp_path: Path) -> None:
    names = ["arc_challenge", "gsm8k", "ifeval", "leaderboard_bbh_navigate", "leaderboard_mmlu_pro", "truthfulqa_mc2"]
    record(task_folder(tmp_path / "tasks", names), tmp_path / "run", names)
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(tmp_path / "run"))
    done = export_to_lighteval(pack, tmp_path / "out", TaskOptions())
    assert set(done.tasks) | {f"recorded_{name}" for name in done.left_out} == {f"recorded_{name}" for name in names}
    run = replayed(tmp_path / "out", tmp_path, "<|start_header_id|>user")
    assert run.returncode == 0, run.stderr[-3000:]
    said = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert "override_chat_template=False" in said["raised"]  # a prompt that was changed stops it
    result = said["tasks"]
    for name in names:
        (path,) = (tmp_path / "run").rglob(f"samples_{name}_*.jsonl")
        samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for spec, values in result[f"recorded_{name}"].items():
            metric, _, which = spec.partition(",")
            expected = [sample[metric] for sample in samples if sample["filter"] == which]
            assert values["items"] == expected, (name, spec)
