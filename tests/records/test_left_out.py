"""A task that cannot be prepared stays out of the pack by name, and the others go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import cli
from noted import noted
from packs import prepare
from places import REPOSITORY

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
def test_a_minus_leaves_out_a_task_of_metas_or_of_a_pack(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "pack", "meta_gpqa,meta_arc_challenge_pretrain,-meta_gpqa")
    assert list(read_manifest(pack).tasks) == ["meta_arc_challenge_pretrain"]
    with pytest.raises(UserError, match="leaves out every task"):
        prepare(tmp_path / "other", "meta_gpqa,-meta_gpqa")
    both = prepare(tmp_path / "both", "meta_gpqa,meta_arc_challenge_pretrain")
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
