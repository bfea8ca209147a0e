"""prepare against a hub: the whole path from the command line over HTTP to a pack, and the failures as a user sees them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakehub import FakeHub
from forked import started
from marks import thorough
from packs import prepare
from places import HELPERS
from rows import make_row
from ruamel.yaml import YAML

EVALS = "meta-llama/Llama-3.1-8B-Instruct-evals"
STEM = "Llama-3.1-8B-Instruct-evals"
SECRET = "hf_thisIsNoTokenOfAnybody"
FILES = {
    subset: f"{STEM}/Details_{subset}_2024-09-01T10-00-00.123456.parquet.gzip"
    for subset in ("gpqa", "mmlu_pro", "math_hard")
}


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """As Meta's files are: plain parquet with the gzip codec, named .parquet.gzip."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, compression="gzip")
    return sink.getvalue()


def card(stem: str = STEM) -> bytes:
    configs = [
        {"config_name": f"{stem}__{subset}__details", "data_files": [{"split": "latest", "path": [name]}]}
        for subset, name in FILES.items()
    ]
    return f"---\nconfigs: {json.dumps(configs)}\n---\n# card\n".encode()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as fake:
        math = make_row("What is 1 + 1?", gold=["2.0e+0"], output="\\boxed{2}", eval_config={"max_gen_len": "5120"})
        files = {
            "README.md": card(),
            FILES["gpqa"]: parquet([make_row(f"Which is {n}?") for n in range(5)]),
            FILES["mmlu_pro"]: parquet([make_row(f"What is {n}?", subtask=f"s{n % 3}") for n in range(9)]),
            FILES["math_hard"]: parquet([math]),
        }
        fake.add(EVALS, files)
        problem = {"problem": "What is 1 + 1?", "solution": "\\boxed{2}", "level": "Level 5", "type": "Algebra"}
        fake.add(
            "DigitalLearningGmbH/MATH-lighteval",
            {
                "README.md": b"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: data/test-*\n---\n",
                "data/test-00000-of-00001.parquet": parquet([problem]),
            },
        )
        yield fake


def run(hub: FakeHub, folder: Path, *overrides: str, **keys: Any) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    config = {"model_name": "my/model", "evals_dataset": EVALS, "tasks": "meta_gpqa_cot", **keys}
    (folder / "c.yaml").write_text(json.dumps(config))
    arguments = [part for override in overrides for part in ("--set", override)]
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith(("HF_", "HUGGING"))]:
            environment.delenv(name)
        running = started(
            "prepare", "-c", "c.yaml", *arguments, cwd=folder, light=True,
            HF_HOME=str(folder / "home"), HF_ENDPOINT=hub.url, HF_TOKEN=SECRET,
        )  # fmt: skip
    out, error = running.communicate(timeout=120)
    done = subprocess.CompletedProcess(arguments, running.wait(), out, error)
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def manifest(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "work_dir/manifest.json").read_text())
    return read


def test_a_pack_from_the_hub_records_the_commits_and_no_secret(hub: FakeHub, tmp_path: Path) -> None:
    done = run(hub, tmp_path, "tasks=meta_gpqa_cot,meta_math_hard")
    assert done.returncode == 0, done.stderr
    assert "how our graders were checked: verified meta_math_hard; with a compared grader meta_gpqa_cot" in done.stderr
    written = manifest(tmp_path)
    assert written["tasks"]["meta_gpqa_cot"]["dataset_revision"] == hub.heads[EVALS]
    assert written["tasks"]["meta_gpqa_cot"]["dataset_config"] == f"{STEM}__gpqa__details"
    assert written["originals"]["math"]["revision"] == hub.heads["DigitalLearningGmbH/MATH-lighteval"]
    assert (written["tasks"]["meta_gpqa_cot"]["docs"], written["tasks"]["meta_math_hard"]["docs"]) == (5, 1)
    for path in (tmp_path / "work_dir").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


def test_without_bundle_the_rows_stay_on_the_hub_but_for_joined_tasks(hub: FakeHub, tmp_path: Path) -> None:
    done = run(hub, tmp_path, "tasks=meta_mmlu_pro_instruct,meta_math_hard", "bundle=false")
    assert done.returncode == 0, done.stderr
    work_dir = tmp_path / "work_dir"
    yaml = YAML(typ="rt").load(work_dir / "mmlu_pro/mmlu_pro_5shot_cot_instruct.yaml")
    assert (yaml["dataset_path"], yaml["dataset_name"]) == (EVALS, f"{STEM}__mmlu_pro__details")
    assert yaml["dataset_kwargs"] == {"revision": hub.heads[EVALS]}
    assert [path.name for path in work_dir.glob("*.parquet")] == ["joined_math_hard.parquet"]
    assert manifest(tmp_path)["tasks"]["meta_mmlu_pro_instruct"]["docs_file"] is None


@thorough
def test_a_template_runs_on_rows_as_the_hub_has_them(hub: FakeHub, tmp_path: Path) -> None:
    """Each shipped YAML is lm-eval by itself: a folder named as the dataset stands in for the hub that it names."""
    snapshot = tmp_path / EVALS
    for name, content in hub.repos[EVALS][hub.heads[EVALS]].items():
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_bytes(content)
    code = f"""
import sys; sys.path[:0] = [{str(HELPERS)!r}]
from golden import replay
from places import TEMPLATES
results = replay(TEMPLATES, ["meta_gpqa_cot", "meta_mmlu_pro_instruct"])
print({{task: len(samples) for task, samples in results["samples"].items()}})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "HF_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "{'meta_gpqa_cot': 10, 'meta_mmlu_pro_instruct': 18}"  # two filters a doc


@thorough
def test_the_old_name_is_translated_and_said(hub: FakeHub, tmp_path: Path) -> None:
    done = run(hub, tmp_path, evals_dataset="meta-llama/Meta-Llama-3.1-8B-Instruct-evals")
    assert done.returncode == 0
    assert f"is now called {EVALS}" in " ".join(done.stderr.split())
    assert manifest(tmp_path)["tasks"]["meta_gpqa_cot"]["dataset_id"] == EVALS


@thorough
def test_an_unlisted_dataset_is_a_warning_if_the_hub_has_it(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("me/Llama-3.1-8B-Instruct-evals", dict(hub.repos[EVALS][hub.heads[EVALS]]))
    done = run(hub, tmp_path, evals_dataset="me/Llama-3.1-8B-Instruct-evals")
    assert done.returncode == 0
    assert "not one of the evals datasets that Meta published" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"status": 401}, ["hf auth login", "HF_TOKEN"]),
        ({"status": 403, "code": "GatedRepo"}, [f"/datasets/{EVALS}", "access"]),
        ({"status": 404, "code": "RepoNotFound"}, [EVALS, "there is no such dataset"]),
    ],
)
def test_a_refusal_is_one_message_and_leaves_the_old_pack(
    hub: FakeHub, tmp_path: Path, fault: dict[str, Any], words: list[str]
) -> None:
    prepare(tmp_path / "work_dir", "meta_gpqa")
    before = (tmp_path / "work_dir/manifest.json").read_bytes()
    hub.fail(f"/api/datasets/{EVALS}", **fault)
    done = run(hub, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1
    for word in words:
        assert word in done.stderr
    assert (tmp_path / "work_dir/manifest.json").read_bytes() == before


@thorough
def test_a_cut_connection_is_retried(hub: FakeHub, tmp_path: Path) -> None:
    hub.fail("/cdn/", cut=100, times=1)
    assert run(hub, tmp_path).returncode == 0
