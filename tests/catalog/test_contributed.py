"""Counts that users share: they hold no text of a row, and what does not add up is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import cli
from hypothesis import given
from hypothesis import strategies as st
from packs import prepare, read_docs
from places import TEMPLATES

from meta_eval.boundary.hashing import hash_file
from meta_eval.catalog.contributed import list_contributed, read_shared_counts, shorten_name, sign_grader
from meta_eval.messages.errors import DataError

TASKS = ("meta_mmlu_pro_instruct", "meta_gpqa")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A pack, and the counts of its verification."""
    folder = tmp_path_factory.mktemp("shared")
    pack = prepare(folder / "work_dir", ",".join(TASKS))
    done = cli("verify", "work_dir", "--share", "counts.json", cwd=folder)
    assert "wrote counts.json" in done.stderr
    return pack, (folder / "counts.json").read_text(encoding="utf-8")


def test_no_text_of_a_row_is_in_the_file(shared: tuple[Path, str]) -> None:
    pack, text = shared
    for task in TASKS:
        for doc in read_docs(pack, task):
            for key in ("prompt", "question", "recorded_output"):
                words = str(doc[key]).split()
                assert not any(" ".join(words[at : at + 3]) in text for at in range(len(words) - 2))
    assert str(pack.parent) not in text


def test_it_says_what_verify_counted(shared: tuple[Path, str]) -> None:
    pack, text = shared
    tasks = read_shared_counts(text, "counts.json").tasks
    assert set(tasks) == set(TASKS)
    for name, task in tasks.items():
        assert task.counts.docs == task.counts.compared == len(read_docs(pack, name))
        assert sum(part.docs for part in task.subtasks.values()) in (0, task.counts.docs)
        assert task.columns["prompt"] == "string" and task.dataset == "sample"
    pro = tasks["meta_mmlu_pro_instruct"]
    assert (pro.published, pro.metric) == (47.0, "exact_match,strict-match")


def test_the_grader_is_signed_as_the_template_folder_has_it(shared: tuple[Path, str]) -> None:
    hashes = {path.relative_to(TEMPLATES).as_posix(): hash_file(path) for path in TEMPLATES.rglob("*.py")}
    tasks = read_shared_counts(shared[1], "counts.json").tasks
    signed = sign_grader("mmlu_pro/mmlu_pro_5shot_cot_instruct.yaml", hashes)
    assert tasks["meta_mmlu_pro_instruct"].grader_sha256 == signed
    assert tasks["meta_gpqa"].grader_sha256 != signed


def test_the_counts_of_an_edited_pack_prove_nothing(tmp_path: Path) -> None:
    prepare(tmp_path / "work_dir", "meta_gpqa")
    (tmp_path / "work_dir/_common/letters.py").write_text("# edited\n" + (TEMPLATES / "_common/letters.py").read_text())
    done = cli("verify", "work_dir", "--edited", "--share", "counts.json", cwd=tmp_path)
    assert done.returncode == 2 and "were edited, which proves no task" in done.stderr
    assert not (tmp_path / "counts.json").exists()


def change(tree: Any, **fields: Any) -> Any:
    return {**tree, "tasks": {name: {**task, **fields} for name, task in tree["tasks"].items()}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"counts": {"docs": 5, "compared": 6, "agreed": 1}}, "1 agreed of 6 compared of 5 docs"),
        ({"counts": {"docs": 5, "compared": 5, "agreed": -1}}, "agreed"),
        ({"subtasks": {"a": {"docs": 1, "compared": 1, "agreed": 1}}}, "the subtasks have 1 docs"),
        ({"subset": "What is the capital of France?"}, "subset"),
        ({"columns": {"prompt": "Once upon a time THERE was"}}, "columns"),
        ({"dataset": "/home/me/rows"}, "dataset"),
        ({"published": 101}, "published"),
        ({"text": "a row"}, "text"),
        ({"grader_sha256": "x"}, "grader_sha256"),
    ],
)
def test_what_is_inconsistent_or_could_hold_text_is_one_message(
    fields: dict[str, Any], message: str, shared: tuple[Path, str]
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_shared_counts(json.dumps(change(json.loads(shared[1]), **fields)), "counts.json")
    assert "France" not in str(caught.value) and "Once" not in str(caught.value)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_anything_else_is_refused(tree: Any) -> None:
    with pytest.raises(DataError):
        read_shared_counts(json.dumps(tree), "counts.json")


@given(st.text())
def test_a_name_is_itself_or_a_hash(name: str) -> None:
    short = shorten_name(name)
    assert short == name or (short.startswith("sha256:") and len(short) == 23)
    assert all(char.isascii() and (char.isalnum() or char in "_.:-") for char in short)


def test_the_files_that_were_contributed_are_consistent_and_of_tasks_that_there_are() -> None:
    from meta_eval.templates.template_folder import read_templates

    names = {task.name for task in read_templates(TEMPLATES).tasks.values()}
    assert all(set(counts.tasks) <= names for _, counts in list_contributed())
