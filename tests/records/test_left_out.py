"""A task that cannot be prepared stays out of the pack by name, and the others go on."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from command import cli
from noted import noted
from packs import prepare
from places import REPOSITORY
from shared import shared_templates

from meta_eval import export, grade, verify
from meta_eval.base.errors import UserError
from meta_eval.pack.manifest import Manifest, read_manifest

OUTPUTS = REPOSITORY / "tests" / "data" / "lm_eval_outputs"
TASKS = REPOSITORY / "tools" / "lm_eval_tasks"
FAULTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "tiny_sums": (lambda row: row.update(prompt_hash="0" * 64), "recorded SHA-256"),
    "tiny_free": (lambda row: row["arguments"]["gen_args_0"].update(arg_0=""), "empty prompt|recorded SHA-256"),
    "tiny_colours": (lambda row: row.update(resps=[]), "0 answers to 3 requests"),
    "tiny_text": (lambda row: row.update(resps=["none"]), "neither text nor likelihoods"),
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """What lm-eval 0.4.13 wrote of four tiny tasks, two of them a group."""
    return Path(shutil.copytree(OUTPUTS / "0.4.13", tmp_path / "eval_results"))


def damage(run: Path, task: str) -> None:
    (path,) = run.rglob(f"samples_{task}_*.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        FAULTS[task][0](row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def packed(run: Path, tasks: str = "recorded") -> Manifest:
    pack = prepare(run.parent / "pack", tasks, evals_dataset=str(run), template_dir=str(TASKS))
    return read_manifest(pack)


@pytest.mark.parametrize("task", FAULTS)
def test_a_task_that_cannot_be_prepared_is_left_out_and_the_others_are_proven(task: str, run: Path) -> None:
    damage(run, task)
    with noted() as notes:
        manifest = packed(run)
    assert set(manifest.tasks) == set(FAULTS) - {task}
    assert list(manifest.left_out) == [task]
    assert any(f"1 of 4 tasks are left out; the reasons are in manifest.json: {task}" in note for note in notes)
    assert task not in str(manifest.groups)
    assert verify(run.parent / "pack").passed


def test_a_task_asked_for_by_name_is_not_in_the_command_when_it_is_left_out(run: Path) -> None:
    damage(run, "tiny_free")
    manifest = packed(run, "tiny_free,tiny_choices")
    assert manifest.run_settings.tasks == ("tiny_choices",)
    assert manifest.groups == {"tiny_choices": ("tiny_sums", "tiny_colours")}


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(POINTER, "git lfs pull"), (b"", "is empty"), (bytes(range(256)), "not JSON"), (b'{"doc_id": 0, "d', "cut off")],
    ids=["pointer", "empty", "binary", "cut"],
)
@pytest.mark.parametrize("which", ["samples_tiny_sums_*", "samples_*"])
def test_a_samples_file_that_cannot_be_read_leaves_its_task_out(
    run: Path, content: bytes, reason: str, which: str
) -> None:
    for path in run.rglob(which):
        path.write_bytes(content)
    if which == "samples_*":
        with pytest.raises(UserError, match=reason):
            packed(run)
    else:
        manifest = packed(run)
        assert set(manifest.tasks) == set(FAULTS) - {"tiny_sums"}
        assert list(manifest.left_out) == ["tiny_sums"] and reason in manifest.left_out["tiny_sums"]


def test_where_no_task_is_left_the_first_error_ends_prepare(run: Path) -> None:
    for task in FAULTS:
        damage(run, task)
    with pytest.raises(UserError):
        packed(run)
    assert not (run.parent / "pack").exists()


def test_where_the_code_of_every_task_is_missing_all_are_named_at_once(run: Path) -> None:
    keys = ("model_name=my/model", f"evals_dataset={run}", "tasks=recorded", f"template_dir={run.parent}")
    done = cli("prepare", *(word for key in keys for word in ("--set", key)), cwd=run.parent)
    assert done.returncode == 2
    assert all(task in done.stderr for task in FAULTS), done.stderr
    assert done.stderr.count("no code for the task") == 1


def write_own_run(folder: Path) -> None:
    """Write a run of a task that lm-eval lacks, of three docs with a number each."""
    lines = []
    for number, said in enumerate(("4", "7", "8")):
        gold = str(4 + 2 * number)
        lines.append({
            "doc_id": number, "doc": {"question": f"{number} boxes?", "gold": gold}, "target": gold,
            "arguments": {"gen_args_0": {"arg_0": f"Q: {number} boxes?\nA:", "arg_1": {"until": ["Q:"], "max_gen_toks": 64}}},
            "resps": [[f" It is so. #### {said}"]], "filtered_resps": [said], "filter": "strict-match",
            "metrics": ["exact_match"], "exact_match": float(said == gold),
        })  # fmt: skip
    config = {"task": "my_task", "output_type": "generate_until", "num_fewshot": 0, "metadata": {"version": 1.0}}
    results = {
        "results": {"my_task": {"alias": "my_task", "exact_match,strict-match": 2 / 3}},
        "configs": {"my_task": config}, "versions": {"my_task": 1.0}, "n-shot": {"my_task": 0},
        "n-samples": {"my_task": {"original": 3, "effective": 3}}, "lm_eval_version": "0.4.13",
        "config": {"model": "hf", "model_args": {"pretrained": "org/model"}}, "model_name": "org/model",
    }  # fmt: skip
    folder.mkdir()
    time = "2026-01-02T03-04-05.000006"
    (folder / f"results_{time}.json").write_text(json.dumps(results), encoding="utf-8")
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / f"samples_my_task_{time}.jsonl").write_text(text, encoding="utf-8")


def prepare_own_run(folder: Path, yaml: str) -> CompletedProcess[str]:
    write_own_run(folder / "results_bf16")
    (folder / "my_tasks").mkdir()
    (folder / "my_tasks" / "my_task.yaml").write_text(yaml, encoding="utf-8")
    keys = ("model_name=my/model", "evals_dataset=results_bf16", "tasks=recorded", "template_dir=my_tasks")
    return cli("prepare", *(word for key in keys for word in ("--set", key)), cwd=folder)


def test_the_yaml_that_the_page_shows_is_enough_for_a_task_of_ones_own(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/guides/baseline.md").read_text(encoding="utf-8")
    (yaml,) = re.findall(r"^```yaml\n(task: .*?)^```$", page, re.MULTILINE | re.DOTALL)
    done = prepare_own_run(tmp_path, yaml)
    assert done.returncode == 0, done.stderr
    (proof,) = verify(tmp_path / "work_dir").tasks.values()
    assert proof.tallies is not None
    assert (proof.status, proof.entry.docs, len(proof.tallies.disagreements)) == ("passed", 3, 0)


def test_a_key_that_lm_eval_does_not_know_is_named_with_the_file_and_the_nearest_key(tmp_path: Path) -> None:
    done = prepare_own_run(
        tmp_path, "task: my_task\ndoc_to_target: '{{gold}}'\nmetrics_list: [{metric: exact_match}]\n"
    )
    assert done.returncode == 2
    known = "'metrics_list': unknown key of lm-eval; did you mean 'metric_list'?"
    assert f"my_tasks/my_task.yaml: {known}" in " ".join(done.stderr.split())


def test_a_minus_leaves_out_a_task_or_a_group(run: Path) -> None:
    assert set(packed(run, "recorded,-tiny_choices").tasks) == {"tiny_free", "tiny_text"}
    manifest = packed(run, "tiny_choices,-tiny_sums")
    assert manifest.groups == {"tiny_choices": ("tiny_colours",)}
    with pytest.raises(UserError, match="no task or group 'tiny_sum'; did you mean 'tiny_sums'"):
        packed(run, "recorded,-tiny_sum")
    with pytest.raises(UserError, match="leaves out every task it names"):
        packed(run, "tiny_choices,-tiny_sums,-tiny_colours")


@pytest.mark.parametrize("names", ["tiny_c*,tiny_sums,-tiny_choices,tiny_f*", "tiny_*,-tiny_[cst]*"])
def test_a_pattern_means_tasks_of_a_record_and_of_a_pack(run: Path, names: str) -> None:
    manifest = packed(run, names)
    assert (set(manifest.tasks), manifest.run_settings.tasks) == ({"tiny_free"}, ("tiny_free",))
    assert list(verify(run.parent / "pack", tasks=["tiny_*"]).tasks) == ["tiny_free"]


@pytest.mark.plugin("meta")
def test_a_minus_leaves_out_a_task_of_metas_or_of_a_pack(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys = {"template_dir": str(shared_templates(tmp_path_factory, "gpqa", "arc_challenge"))}
    pack = prepare(tmp_path / "pack", "meta_gpqa,meta_arc_challenge_pretrain,-meta_gpqa", **keys)
    assert list(read_manifest(pack).tasks) == ["meta_arc_challenge_pretrain"]
    with pytest.raises(UserError, match="leaves out every task"):
        prepare(tmp_path / "other", "meta_gpqa,-meta_gpqa", **keys)
    both = prepare(tmp_path / "both", "meta_gpqa,meta_arc_challenge_pretrain", **keys)
    assert list(verify(both, tasks=["-meta_gpqa"]).tasks) == ["meta_arc_challenge_pretrain"]
    assert list(export(both, tmp_path / "requests.jsonl", tasks=["-meta_gpqa"]).tasks) == [
        "meta_arc_challenge_pretrain"
    ]
    with pytest.raises(UserError, match="leaves out every task"):
        verify(both, tasks=["-meta_gpqa", "-meta_arc_challenge_pretrain"])


def test_the_command_line_says_which_and_why_in_one_table(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    damage(run, "tiny_sums")
    keys = {"model_name": "m", "evals_dataset": "eval_results", "tasks": "recorded", "template_dir": str(TASKS)}
    ended = cli("prepare", "--json", *(part for key, value in keys.items() for part in ("--set", f"{key}={value}")))
    assert ended.returncode == 0
    assert "left out" in ended.stderr
    assert list(json.loads(ended.stdout)["left_out"]) == ["tiny_sums"]
    assert "recorded SHA-256" in json.loads(ended.stdout)["left_out"]["tiny_sums"]


def test_a_task_that_no_request_can_hold_is_left_out_of_a_run(run: Path, tmp_path: Path) -> None:
    """Likelihoods of whole texts are asked by lm_eval alone."""
    manifest = packed(run)
    rolling = [name for name, entry in manifest.tasks.items() if entry.output_type == "loglikelihood_rolling"]
    assert rolling == ["tiny_text"]
    with noted() as notes:
        exported = export(run.parent / "pack", tmp_path / "requests.jsonl")
    assert set(exported.tasks) == set(FAULTS) - {"tiny_text"}
    assert any("left out: tiny_text: it scores the likelihood of whole texts" in note for note in notes)
    with pytest.raises(UserError, match="tiny_text: it scores the likelihood of whole texts"):
        grade(tmp_path / "none.jsonl", pack=run.parent / "pack", tasks=["tiny_text"])
