"""A pack that is not as prepare wrote it: refused before any of it runs, or run and marked wherever it shows."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command import cli
from packs import edit, prepare, tree
from runs import run_lm_eval

from meta_eval.base.errors import PackError
from meta_eval.pack.verify import find_verify_folder, verify

TASK = "meta_gpqa"
ROWS = Path("_common/rows.py")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("sample") / "work_dir", TASK)


@pytest.fixture
def pack(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample, tmp_path / "work_dir"))


def copying_grader(pack: Path) -> None:
    """It says of each answer what Meta says."""
    with (pack / ROWS).open("a") as file:
        file.write("\n\ndef process_results(doc, results):\n    return {'acc': float(doc['recorded_is_correct'])}\n")


def other_yaml(pack: Path) -> None:
    path = next(path for path in pack.rglob("*.yaml") if f"task: {TASK}" in path.read_text())
    path.write_text(path.read_text() + "# mine\n")


def second_task(pack: Path) -> None:
    (pack / "mine").mkdir()
    (pack / "mine" / "task.yaml").write_text(f"task: {TASK}\n")


def missing(pack: Path) -> None:
    (pack / ROWS).unlink()


def shadow(pack: Path) -> None:
    (pack / ROWS.parent / "json").mkdir()
    (pack / ROWS.parent / "json" / "__init__.py").write_text("")


def other_sentences(pack: Path) -> None:
    """nltk looks into the pack first, for a model that says where a sentence ends."""
    english = pack / "nltk_data" / "tokenizers" / "punkt_tab" / "english"
    english.mkdir(parents=True)
    (english / "abbrev_types.txt").write_text("yes\n")


def lower_bar(pack: Path) -> None:
    manifest = json.loads((pack / "manifest.json").read_text())
    manifest["tasks"][TASK]["min_agreement"] = 0.1
    (pack / "manifest.json").write_text(json.dumps(manifest))


CHANGES = [copying_grader, other_yaml, second_task, missing, shadow, other_sentences, lower_bar]


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_of_an_edited_pack_is_run(change: Callable[[Path], None], pack: Path) -> None:
    change(pack)
    (pack / "meta_gpqa.parquet").touch()
    before = tree(pack)
    done = cli("verify", pack)
    assert done.returncode == 2
    assert "was changed after prepare, so it was not run" in done.stderr
    assert "meta-eval prepare" in done.stderr
    assert "--edited" in done.stderr
    assert not find_verify_folder(pack).exists()
    assert tree(pack) == before


def test_the_changed_files_are_named(pack: Path) -> None:
    copying_grader(pack)
    second_task(pack)
    with pytest.raises(PackError) as caught:
        verify(pack)
    assert "_common/rows.py is not the file that prepare wrote" in str(caught.value)
    assert "mine/task.yaml is not of this pack, and lm_eval takes it for a task" in str(caught.value)


def test_other_docs_are_refused_with_edited_too_and_so_it_is_not_advised(pack: Path) -> None:
    file = pack / "meta_gpqa.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(PackError, match="never run, with --edited neither"):
        verify(pack)
    (result,) = verify(pack, edited=True).tasks.values()
    assert result.status == "failed"
    assert f"task {TASK}: meta_gpqa.parquet is not the file that was prepared" in str(result.reason)


def test_what_changes_no_verdict_is_no_edit(pack: Path) -> None:
    (pack / "notes.md").write_text("mine")
    (pack / "results").mkdir()
    (pack / "results" / "read.py").write_text("print('mine')")
    py_compile.compile(str(pack / ROWS))
    cache = pack / ROWS.parent / "__pycache__"
    (cache / "rows.cpython-38.pyc").write_bytes(b"of another Python")
    report = verify(pack, min_agreement=0.5)
    assert (report.passed, report.edited) == (True, ())


def test_edited_is_said_in_the_output_the_json_the_baseline_and_every_report(pack: Path, tmp_path: Path) -> None:
    edit(pack / ROWS, "def make_doc(", "# mine\ndef make_doc(")
    done = cli("verify", pack, "--edited", "--min-agreement", "0.5", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["edited"] == ["_common/rows.py"]
    assert "edited after prepare: _common/rows.py" in done.stderr
    assert "passed (edited pack): 1 of 1 tasks" in done.stderr
    head = (find_verify_folder(pack) / "baseline" / f"{TASK}.jsonl").read_text().splitlines()[0]
    assert json.loads(head)["edited"] == ["_common/rows.py"]
    out = run_lm_eval(pack, [TASK], tmp_path / "out", model_name="my/model")
    page, card = tmp_path / "r.html", tmp_path / "r.md"
    told = cli("report", out, "--pack", pack, "--html", page, "--markdown", card, "--json")
    assert told.returncode == 0, told.stderr
    for text in (told.stdout, page.read_text(), card.read_text(), told.stderr.replace("\n", " ")):
        assert "was edited after prepare wrote it" in " ".join(text.split())
    both = cli("compare", out, out, "--pack", pack, "--json")
    assert "was edited after prepare wrote it" in both.stdout


def test_a_pack_that_is_whole_is_marked_nowhere(pack: Path) -> None:
    done = cli("verify", pack, "--edited", "--min-agreement", "0.5", "--json")
    assert json.loads(done.stdout)["edited"] == []
    assert "edited" not in done.stderr
    assert "edited" not in (find_verify_folder(pack) / "baseline" / f"{TASK}.jsonl").read_text().splitlines()[0]


def test_doctor_runs_nothing_of_an_edited_pack(pack: Path, tmp_path: Path) -> None:
    with (pack / ROWS).open("a") as file:
        file.write(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    done = cli("doctor", pack)
    assert done.returncode == 2
    assert "is not run" in done.stdout
    assert not (tmp_path / "ran").exists()


def test_a_users_own_files_beside_the_pack_stay(pack: Path) -> None:
    folder = find_verify_folder(pack)
    folder.mkdir()
    (folder / ".gitignore").write_text("mine")
    (folder / f".{TASK}.jsonl.{os.getpid()}").write_text("mine")
    verify(pack)
    assert (folder / ".gitignore").read_text() == "mine"
    assert (folder / f".{TASK}.jsonl.{os.getpid()}").read_text() == "mine"
    assert (folder / f"{TASK}.jsonl").is_file()
