"""What tasks share in ``_common``: packs and template folders find their own, whatever else is in the process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from golden import GOLDEN, replay, shipped, verdicts
from packs import edit, prepare, some_templates
from places import TEMPLATES
from rows import make_row, write_rows

from meta_eval.base.errors import DataError, TemplateError
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.templates import read_templates

OWN_TASK = """
include: ../_generative_yaml
task: mine
dataset_path: x
dataset_name: x
process_docs: !function utils.process_docs
filter_list:
  - {name: strict-match, filter: [{function: regex, regex_pattern: "answer is ([A-Z])"}, {function: take_first}]}
metadata:
  version: 1.0
  meta_eval: {subset: riddles, variants: [instruct], families: ["3.1"]}
"""
OWN_UTILS = """
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))
rows, shout = load.module(".._common.rows"), load.module(".._common.shout")

process_docs = rows.docs_by(lambda row: {**rows.make_doc(row), "question": shout.loud(row["input_question"])})
"""


def copied(name: str, to: Path) -> Path:
    """A folder of the shipped templates, alone in a template folder."""
    shutil.copytree(TEMPLATES / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    return to


@pytest.fixture
def riddles(tmp_path: Path) -> Path:
    folder = tmp_path / "Llama-3.1-8B-Instruct-evals"
    write_rows(folder / "riddles.jsonl", [make_row(f"Riddle {n}", output="The answer is B.") for n in range(3)])
    return folder


def mine(templates: Path, shout: str = "def loud(text):\n    return text.upper()\n") -> Path:
    """A template folder with a task and a shared module of its own, and nothing else."""
    for file, content in {"mine/mine.yaml": OWN_TASK, "mine/utils.py": OWN_UTILS, "_common/shout.py": shout}.items():
        path = templates / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return templates


def samples(pack: Path, task: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = replay(pack, [task])["samples"][task]
    return lines


# Template folders


@pytest.mark.parametrize("inside", [".", "more"])
def test_a_copied_folder_works_alone_and_its_pack_anywhere(
    inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = tmp_path / "templates"
    copied("mmlu_pro", templates / inside)
    prepared = prepare(tmp_path / "work_dir", "meta_mmlu_pro_instruct", template_dir=str(templates))
    pack = Path(shutil.move(prepared, tmp_path / "moved"))
    shutil.rmtree(templates)
    monkeypatch.chdir("/")
    golden = (GOLDEN / "meta_mmlu_pro_instruct.jsonl").read_text(encoding="utf-8").splitlines()
    assert verdicts(samples(pack, "meta_mmlu_pro_instruct")) == golden


FOLDERS = sorted({task.file.parts[0] for task in shipped().tasks.values()})


@pytest.mark.parametrize("name", FOLDERS)
def test_every_folder_can_be_copied_alone(name: str, tmp_path: Path) -> None:
    originals = shipped().tasks
    tasks = read_templates(copied(name, tmp_path)).tasks
    assert tasks
    assert {task: task_code.files for task, task_code in tasks.items()} == {
        task: originals[task].files for task in tasks
    }


@pytest.mark.plugin("meta")
def test_modules_of_ones_own_stand_beside_the_shipped_ones(tmp_path: Path, riddles: Path) -> None:
    templates = mine(tmp_path / "templates")
    pack = prepare(tmp_path / "work_dir", "mine", template_dir=str(templates), evals_dataset=str(riddles))
    assert [sample["doc"]["question"] for sample in samples(pack, "mine")] == ["RIDDLE 0", "RIDDLE 1", "RIDDLE 2"]
    files = read_manifest(pack).files
    assert {"_common/shout.py", "_common/rows.py", "_common/load.py"} <= set(files)
    assert not (templates / "_generative_yaml").exists()


@pytest.mark.plugin("meta")
def test_a_shared_file_of_ones_own_goes_before_the_shipped_one(tmp_path: Path, riddles: Path) -> None:
    templates = mine(tmp_path / "templates")
    text = (TEMPLATES / "_common" / "rows.py").read_text()
    (templates / "_common" / "rows.py").write_text(text.replace('"exact_match": right', '"exact_match": 0.25'))
    pack = prepare(tmp_path / "work_dir", "mine", template_dir=str(templates), evals_dataset=str(riddles))
    assert {sample["exact_match"] for sample in samples(pack, "mine")} == {0.25}


@pytest.mark.plugin("meta")
def test_of_the_template_folder_itself_a_pack_has_the_module_alone(tmp_path: Path, riddles: Path) -> None:
    templates = mine(tmp_path / "templates")
    (templates / "mine" / "mine.yaml").rename(templates / "mine" / "base_yaml")
    (templates / "mine.yaml").write_text("include: mine/base_yaml\ntask: mine\ndoc_to_text: !function utils.ask\n")
    (templates / "utils.py").write_text("def ask(doc):\n    return doc['prompt']\n")
    (templates / "notes.txt").write_text("mine")
    pack = prepare(tmp_path / "work_dir", "mine", template_dir=str(templates), evals_dataset=str(riddles))
    assert len(samples(pack, "mine")) == 3
    files = set(read_manifest(pack).files)
    assert {"utils.py", "mine/utils.py", "_common/shout.py"} <= files
    assert "notes.txt" not in files


@pytest.mark.plugin("meta")
def test_a_template_folder_that_shares_nothing_needs_no_common(tmp_path: Path, riddles: Path) -> None:
    """As template folders were before there was a _common: mmlu_pro's module held everything."""
    templates = mine(tmp_path / "templates")
    shutil.rmtree(templates / "_common")
    shutil.copyfile(TEMPLATES / "_common" / "rows.py", templates / "mine" / "utils.py")
    pack = prepare(tmp_path / "work_dir", "mine", template_dir=str(templates), evals_dataset=str(riddles))
    assert len(samples(pack, "mine")) == 3


def test_a_folder_with_an_underscore_holds_no_task(tmp_path: Path) -> None:
    templates = copied("mmlu_pro", tmp_path)
    (templates / "_common").mkdir()
    (templates / "_common" / "words.yaml").write_text("- not a template\n")
    folder = read_templates(templates)
    assert set(folder.tasks) == {"meta_mmlu_pro_instruct", "meta_mmlu_pro_pretrain"}
    assert not [file for file in folder.tasks["meta_mmlu_pro_instruct"].files if file.name == "words.yaml"]


@pytest.mark.plugin("meta")
@pytest.mark.parametrize(
    ("shout", "error", "message"),
    [
        ("def loud(text):\n    raise ValueError('no riddle')\n", DataError, "no riddle"),
        ("def loud(text):\n    return text.lauder()\n", TemplateError, r"process_docs, shout\.py line 2"),
    ],
)
def test_a_shared_module_that_fails_is_named(
    shout: str, error: type[Exception], message: str, tmp_path: Path, riddles: Path
) -> None:
    templates = mine(tmp_path / "templates", shout)
    with pytest.raises(error, match=message):
        prepare(tmp_path / "work_dir", "mine", template_dir=str(templates), evals_dataset=str(riddles))
    assert not list(templates.rglob("__pycache__"))


@pytest.mark.plugin("meta")
def test_a_shared_json_file_that_is_damaged_is_named(tmp_path: Path, riddles: Path) -> None:
    shout = "import json\nfrom pathlib import Path\n\njson.loads(Path(__file__).with_name('words.json').read_text())\n"
    templates = mine(tmp_path / "templates", shout)
    (templates / "_common" / "words.json").write_text("{")
    with pytest.raises(
        TemplateError, match=r"_common/words\.json, read by .*, shout\.py line 4 .*: is not JSON: Expecting"
    ):
        prepare(tmp_path / "work_dir", "mine", template_dir=str(templates), evals_dataset=str(riddles))


# One process


def test_two_packs_in_one_process_keep_to_their_own_modules(tmp_path: Path) -> None:
    prepare(tmp_path / "one", "meta_bbh", template_dir=str(some_templates(tmp_path, "bbh")))
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    edit(tmp_path / "other" / "_common" / "rows.py", '"exact_match": right', '"exact_match": 1 - right')
    first = {sample["doc_id"]: sample["exact_match"] for sample in samples(tmp_path / "one", "meta_bbh")}
    second = {sample["doc_id"]: sample["exact_match"] for sample in samples(tmp_path / "other", "meta_bbh")}
    again = {sample["doc_id"]: sample["exact_match"] for sample in samples(tmp_path / "one", "meta_bbh")}
    assert first == again == {number: 1 - score for number, score in second.items()}
    assert set(first.values()) == {0, 1}


@pytest.mark.plugin("meta")
def test_a_pack_prepared_anew_in_its_place_is_read_anew(tmp_path: Path, riddles: Path) -> None:
    prompts = []
    for how in ("upper", "title"):
        templates = mine(tmp_path / how, f"def loud(text):\n    return text.{how}() + '!'\n")
        utils = templates / "mine" / "utils.py"
        utils.write_text(utils.read_text() + "\ndoc_to_text = lambda doc: shout.loud(doc['prompt'])\n")
        yaml = templates / "mine" / "mine.yaml"
        yaml.write_text(
            yaml.read_text().replace("filter_list:", "doc_to_text: !function utils.doc_to_text\nfilter_list:")
        )
        pack = prepare(tmp_path / "work_dir", "mine", template_dir=str(templates), evals_dataset=str(riddles))
        prompt = samples(pack, "mine")[0]["arguments"][0][0]
        prompts += [prompt[-1:], prompt.isupper()]
    assert prompts == ["!", True, "!", False]
