"""publish and prepare --from: the same bytes for whoever has the rows, and no row for anybody else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command import cli
from packs import prepare
from places import TEMPLATES

from meta_eval.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.publish import publish, rebuild

# A choice, a join, a grader with modules of its own, and docs with data beside them.
TASKS = "meta_mmlu_pretrain,meta_ifeval,meta_math_hard,meta_gorilla_api_bench__huggingface"


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a pack was prepared and published."""
    home = tmp_path_factory.mktemp("home")
    settings = {"model_name": "my/model", "evals_dataset": "sample", "tasks": TASKS, "work_dir": "./work_dir"}
    (home / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    assert cli("prepare", cwd=home).returncode == 0
    done = cli("publish", "--dry-run", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["folder"] == "published"
    return home


def test_whoever_has_the_rows_makes_the_same_bytes(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "published", tmp_path / "fetched")
    done = cli("prepare", "--from", "fetched", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "byte for byte" in done.stderr
    assert files_of(tmp_path / "work_dir") == files_of(home / "work_dir")


def test_under_another_name_all_but_the_name_is_the_same(home: Path, tmp_path: Path) -> None:
    rebuild(home / "published", str(tmp_path / "mine"))
    theirs, ours = read_manifest(home / "work_dir"), read_manifest(tmp_path / "mine")
    assert ours.files == theirs.files
    assert ours.run.include_path == str(tmp_path / "mine")
    assert str(tmp_path / "mine") in ours.command


def test_no_text_of_a_row_is_published(home: Path) -> None:
    published = b"\n".join(files_of(home / "published").values()).decode()
    seen = 0
    for path in (home / "work_dir").glob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            for column in ("question", "prompt", "recorded_output"):
                text = row.get(column) or ""
                # The start, the middle and the end of each text; a single word stands in many a file.
                for piece in (text[:60], text[len(text) // 2 :][:60], text[-60:]):
                    if len(piece) >= 40 and "start_header_id" not in piece:
                        seen += 1
                        assert piece not in published, (path.name, column)
                        assert json.dumps(piece)[1:-1] not in published, (path.name, column)
    assert seen > 100
    assert not any(name.endswith((".parquet", ".jsonl")) for name in files_of(home / "published"))


def test_publishing_twice_gives_the_same_files(home: Path) -> None:
    before = files_of(home / "published")
    publish(home / "work_dir", home / "published")
    assert files_of(home / "published") == before


def damaged(home: Path, folder: Path, name: str) -> Path:
    shutil.copytree(home / "published", folder)
    file = folder / name
    file.write_text(file.read_text(encoding="utf-8") + "\n# more\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("manifest.json", "does not have the SHA-256"),
        (
            "templates/ifeval/utils.py",
            r"ifeval/utils.py here and in the publication differ, and published code is not run",
        ),
    ],
)
def test_what_was_changed_on_the_way_is_named_and_nothing_is_written(
    name: str, said: str, home: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said):
        rebuild(damaged(home, tmp_path / "fetched", name), str(tmp_path / "pack"))
    assert not (tmp_path / "pack").exists()


def test_other_rows_are_named_by_file(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from meta_eval.pack import publish as module

    whole = module.assemble

    def changed(*arguments: object) -> object:
        made = whole(*arguments)  # type: ignore[arg-type]
        first = next(name for name in made.manifest.files if name.endswith(".parquet"))
        entry = made.manifest.files[first].model_copy(update={"sha256": "0" * 64})
        manifest = made.manifest.model_copy(update={"files": {**made.manifest.files, first: entry}})
        return type(made)(made.files, manifest)

    monkeypatch.setattr(module, "assemble", changed)
    with pytest.raises(UserError, match=r"what came out is not what was published: \S+\.parquet"):
        rebuild(home / "published", str(tmp_path / "pack"))
    assert not (tmp_path / "pack").exists()


def test_without_access_to_the_rows_it_is_one_message(home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(home / "published", tmp_path / "fetched")
    tree = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    tree["prepared_from"]["evals_dataset"] = "meta-llama/Llama-3.1-8B-Instruct-evals"
    (folder / "manifest.json").write_text(json.dumps(tree), encoding="utf-8")
    from meta_eval.pack.integrity import sha256_of

    (folder / "manifest.sha256").write_text(sha256_of(folder / "manifest.json"), encoding="utf-8")
    done = cli("prepare", "--from", folder, "--set", f"work_dir={tmp_path / 'pack'}", cwd=tmp_path)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)
    assert "meta-llama/Llama-3.1-8B-Instruct-evals" in done.stderr
    assert not (tmp_path / "pack").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["publish", "work_dir"], "Add --dry-run"),
        (["prepare", "--from", "work_dir"], "it is no publication"),
        (["prepare", "--from", "published", "--set", "seed=1"], "would make another pack"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], said: str, home: Path) -> None:
    done = cli(*words, cwd=home)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_rows_of_this_machine_cannot_be_made_anew_by_others(tmp_path: Path, evals_folder: Path) -> None:
    pack = prepare(tmp_path / "pack", "meta_gpqa_cot", evals_dataset=str(evals_folder), template_dir=str(TEMPLATES))
    with pytest.raises(UserError, match="a folder of this machine"):
        publish(pack, tmp_path / "published")
