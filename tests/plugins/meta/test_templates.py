"""Templates: discovery, what an evals dataset offers, groups, and the messages for what cannot be."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path

import pytest
from command import cli
from golden import shipped
from meta_datasets import StubDataset
from places import TEMPLATES

from meta_eval.base.errors import ConfigError, TemplateError, locating
from meta_eval.pack.templates.template_folder import TemplateFolder
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.task_selection import select_meta_tasks
from meta_eval.plugins.meta.templates import read_meta_templates

INSTRUCT_31 = StubDataset(("gpqa", "ifeval__strict", "math_hard", "mmlu", "mmlu_pro"))
PRETRAIN_31 = StubDataset(("bbh", "mmlu", "mmlu_pro"), Identity("Llama-3.1-8B", "3.1", "pretrain"))
INSTRUCT_32 = StubDataset(("gpqa", "math", "mmlu"), Identity("Llama-3.2-3B-Instruct", "3.2", "instruct"))
PRETRAIN_32 = StubDataset(("mmlu",), Identity("Llama-3.2-3B", "3.2", "pretrain"))
INSTRUCT_33 = StubDataset(
    ("ifeval__strict", "math_hard", "mmlu_pro"), Identity("Llama-3.3-70B-Instruct", "3.3", "instruct")
)


# What every pack holds for the functions of its tasks.
COMMON = [path.relative_to(TEMPLATES).as_posix() for path in sorted((TEMPLATES / "_common").glob("*.*"))]


@functools.cache
def read_shipped() -> TemplateFolder:
    return read_meta_templates(TEMPLATES)


def names(*asked: str, of: StubDataset = INSTRUCT_31, root: Path = TEMPLATES) -> list[str]:
    with locating("c.yaml: tasks"):
        selections, _ = select_meta_tasks(
            read_shipped() if root == TEMPLATES else read_meta_templates(root), asked, [of]
        )
    return sorted(selection.template.name for selection in selections)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A template folder of one's own, with the shipped mmlu_pro to copy from."""
    root = tmp_path / "templates"
    shutil.copytree(
        TEMPLATES / "mmlu_pro", root / "mmlu_pro", ignore=shutil.ignore_patterns("*pretrain*", "__pycache__")
    )
    return root


def yaml_of(folder: Path) -> Path:
    return folder / "mmlu_pro" / "mmlu_pro_5shot_cot_instruct.yaml"


def edit(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def test_the_shipped_folder_holds_the_ten_tasks_of_the_recipe() -> None:
    assert {
        "meta_bbh",
        "meta_gpqa",
        "meta_gpqa_cot",
        "meta_ifeval",
        "meta_math",
        "meta_math_hard",
        "meta_mmlu_instruct",
        "meta_mmlu_pretrain",
        "meta_mmlu_pro_instruct",
        "meta_mmlu_pro_pretrain",
    } <= set(shipped().tasks)


@pytest.mark.parametrize(
    ("dataset", "group", "members"),
    [
        (INSTRUCT_31, "meta_instruct", ["meta_gpqa_cot", "meta_ifeval", "meta_math_hard", "meta_mmlu_pro_instruct"]),
        (PRETRAIN_31, "meta_pretrain", ["meta_bbh", "meta_mmlu_pro_pretrain"]),
        (INSTRUCT_32, "meta_instruct", ["meta_gpqa", "meta_math", "meta_mmlu_instruct"]),
        (PRETRAIN_32, "meta_pretrain", ["meta_mmlu_pretrain"]),
        (INSTRUCT_33, "meta_instruct", ["meta_ifeval", "meta_math_hard", "meta_mmlu_pro_instruct"]),
    ],
)
def test_a_group_holds_what_the_recipe_holds_for_each_family(
    dataset: StubDataset, group: str, members: list[str]
) -> None:
    assert names(group, of=dataset) == members


def test_the_name_of_the_recipe_is_understood() -> None:
    assert names("meta_mmlu", of=PRETRAIN_32) == ["meta_mmlu_pretrain"]


@pytest.mark.parametrize(
    ("asked", "dataset", "words"),
    [
        (
            "meta_mmlu_pro_instrct",
            INSTRUCT_31,
            ["unknown task or group", "'meta_mmlu_pro_instruct'", "offers: ", "meta_instruct, "],
        ),
        ("meta_bbh", INSTRUCT_31, ["pretrain models", "instruct model Llama-3.1-8B-Instruct", "offers"]),
        ("meta_ifeval", PRETRAIN_31, ["instruct models", "pretrain model Llama-3.1-8B", "offers: ", "meta_pretrain, "]),
        ("meta_gpqa", INSTRUCT_31, ["family 3.2", "is of family 3.1"]),
        ("meta_math_hard", StubDataset(("gpqa",)), ["no subset 'math_hard'"]),
        ("meta_pretrain", INSTRUCT_31, ["no task of the group 'meta_pretrain'"]),
        ("recorded", StubDataset(("other", "more")), ["means the tasks of a recorded run", "which has: other, more"]),
    ],
)
def test_what_cannot_be_prepared_says_why_and_what_can(asked: str, dataset: StubDataset, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        names(asked, of=dataset)
    for word in ["c.yaml: tasks", *words]:
        assert word in str(caught.value)


def test_a_folder_of_unknown_family_is_taken_at_its_subsets_unless_two_tasks_claim_one() -> None:
    unknown = Identity(None, None, None)
    assert names("meta_instruct", of=StubDataset(("mmlu_pro",), unknown)) == ["meta_mmlu_pro_instruct"]
    with pytest.raises(ConfigError, match="ambiguous: meta_gpqa"):
        names("meta_instruct", of=StubDataset(("gpqa",), unknown))


def test_each_task_reads_the_first_part_that_offers_it() -> None:
    selections, groups = select_meta_tasks(
        shipped(), ["meta_instruct", "meta_pretrain"], [INSTRUCT_31, PRETRAIN_31, INSTRUCT_32, PRETRAIN_32]
    )
    reads = {selection.template.name: selection.dataset.identity.model for selection in selections}
    assert len(reads) == 10
    assert (reads["meta_mmlu_instruct"], reads["meta_mmlu_pretrain"]) == ("Llama-3.2-3B-Instruct", "Llama-3.2-3B")
    assert groups["meta_pretrain"] == ("meta_bbh", "meta_mmlu_pretrain", "meta_mmlu_pro_pretrain")


def test_the_metric_of_is_correct_is_a_metric_of_the_task(folder: Path) -> None:
    assert shipped().tasks["meta_ifeval"].spec.is_correct_metric == "one_or_all_strict,none"
    edit(
        yaml_of(folder),
        ("    row_format: seen", "    is_correct_metric: one_or_none,none\n    row_format: seen"),
    )
    with pytest.raises(TemplateError, match=r"meta_eval\.is_correct_metric: 'one_or_none,none' is not a metric"):
        read_meta_templates(folder)


def test_a_copied_folder_is_a_task_with_its_own_files(folder: Path) -> None:
    shutil.copytree(folder / "mmlu_pro", folder / "mine")
    edit(folder / "mine" / yaml_of(folder).name, ("task: meta_mmlu_pro_instruct", "task: mine"))
    (folder / "mine" / "words.txt").write_text("x")
    task = read_meta_templates(folder).tasks["mine"]
    assert [file.as_posix() for file in task.files] == [
        *COMMON,
        "mine/mmlu_pro_5shot_cot_instruct.yaml",
        "mine/utils.py",
        "mine/words.txt",
    ]
    assert names("meta_instruct", root=folder) == ["meta_mmlu_pro_instruct"]
    assert names("meta_instruct", "mine", root=folder) == ["meta_mmlu_pro_instruct", "mine"]


@pytest.mark.parametrize("says_so", [False, True])
def test_a_copy_by_hand_has_what_is_of_its_original_once_it_says_so(folder: Path, says_so: bool) -> None:
    shutil.copytree(folder / "mmlu_pro", folder / "a_copy")
    edit(folder / "a_copy" / yaml_of(folder).name, ("task: meta_mmlu_pro_instruct", "task: mine"))
    edit(folder / "a_copy" / yaml_of(folder).name, ("groups: [meta_instruct,", "groups: [my_group, meta_instruct,"))
    if says_so:
        edit(
            folder / "a_copy" / yaml_of(folder).name,
            ("    subset: mmlu_pro", "    copy_of: meta_mmlu_pro_instruct\n    subset: mmlu_pro"),
        )
    listed = cli("tasks", "--template-dir", folder, "--json")
    lines = {line["task"]: line for line in json.loads(listed.stdout)}
    mine, original = lines["mine"], lines["meta_mmlu_pro_instruct"]
    assert (mine["row_format"], bool(mine["published"])) == (("seen", True) if says_so else ("assumed", False))
    assert (original["row_format"], bool(original["published"])) == ("seen", True)
    assert ("mine: same rows as meta_mmlu_pro_instruct" in listed.stderr) is not says_so
    assert names("my_group", root=folder) == ["mine"]
    assert names("meta_instruct", root=folder) == ["meta_mmlu_pro_instruct"], "the same rows count once"
    if says_so:
        assert names("meta_instruct", "-meta_mmlu_pro_instruct", root=folder) == ["mine"]


def make_twins(folder: Path, *says: str) -> Path:
    """Two tasks of one's own that read the same rows, ``first`` and ``second``, in place of the shipped task."""
    edit(yaml_of(folder), ("subset: mmlu_pro", "subset: gpqa"), ("groups: [meta_instruct,", "groups: [my_group,"))
    for name, said in zip(("first", "second"), says, strict=True):
        shutil.copytree(folder / "mmlu_pro", folder / name)
        path = folder / name / yaml_of(folder).name
        edit(path, ("task: meta_mmlu_pro_instruct", f"task: {name}"))
        if said:
            edit(path, ("    subset: gpqa", f"    copy_of: {said}\n    subset: gpqa"))
    shutil.rmtree(folder / "mmlu_pro")
    return folder


@pytest.mark.parametrize(
    ("says", "kept", "told"),
    [
        (("", ""), "first", "second: same rows as first, so it counts as a copy"),
        (("second", ""), "second", ""),
        (("", "first"), "first", ""),
        (("second", "first"), "first", ""),
        (("gone", "gone"), "first", ""),
    ],
)
def test_twins_of_ones_own_count_once(says: tuple[str, str], kept: str, told: str, folder: Path) -> None:
    make_twins(folder, *says)
    assert names("my_group", root=folder) == [kept]
    assert names("first", "second", root=folder) == ["first", "second"], "who names both gets both"
    listed = cli("tasks", "--template-dir", folder, "--json")
    rests_on = {line["task"]: line["row_format"] for line in json.loads(listed.stdout)}
    assert rests_on == {"first": "seen", "second": "assumed" if told else "seen"}
    said = " ".join(listed.stderr.split())
    assert (told in said, "counts as a copy" in said) == (True, bool(told))
    assert ("if it is the original, add copy_of to the other" in said) is bool(told)


def test_an_original_that_is_no_task_is_named(folder: Path) -> None:
    make_twins(folder, "frist", "first")
    listed = cli("tasks", "--template-dir", folder)
    assert "first: copy_of: no task is named 'frist'; did you mean 'first'?" in " ".join(listed.stderr.split())
    assert "second: copy_of" not in listed.stderr


def test_a_task_with_the_name_of_a_group_is_refused(folder: Path) -> None:
    edit(yaml_of(folder), ("task: meta_mmlu_pro_instruct", "task: meta_instruct"))
    with pytest.raises(TemplateError, match="task: 'meta_instruct' is the name of a group, too"):
        read_meta_templates(folder)


def test_twins_that_read_other_rows_are_none(folder: Path) -> None:
    make_twins(folder, "", "")
    path = folder / "second" / yaml_of(folder).name
    edit(path, ("subset: gpqa", "subset: mmlu"))
    assert names("my_group", root=folder) == ["first", "second"]


def test_a_copy_of_a_copy_counts_once(folder: Path) -> None:
    """Beside its original, and in a group that only the copies have."""
    for name, of in (("a_copy", "meta_mmlu_pro_instruct"), ("z_copy", "a_copy")):
        shutil.copytree(folder / "mmlu_pro", folder / name)
        edit(
            folder / name / yaml_of(folder).name,
            ("task: meta_mmlu_pro_instruct", f"task: {name}"),
            ("    subset: mmlu_pro", f"    copy_of: {of}\n    subset: mmlu_pro"),
            ("groups: [meta_instruct,", "groups: [my_group, meta_instruct,"),
        )
    assert names("meta_instruct", root=folder) == ["meta_mmlu_pro_instruct"]
    assert names("meta_instruct", "-meta_mmlu_pro_instruct", root=folder) == ["a_copy"]
    assert names("my_group", root=folder) == ["a_copy"]


def test_a_task_brings_the_files_of_what_it_includes() -> None:
    files = {file.as_posix() for file in shipped().tasks["meta_bbh"].files}
    assert files == {"_generative_yaml", "bbh/bbh_3shot_cot.yaml", "bbh/utils.py", *COMMON}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("subset: mmlu_pro", "subst: mmlu_pro", ["metadata.meta_eval.subst", "'subset'"]),
        ("    subset: mmlu_pro\n", "", ["metadata.meta_eval.subset: is not set"]),
        ("variants: [instruct]", "variants: [chat]", ["metadata.meta_eval.variants", "'chat'"]),
        (
            "subset: mmlu_pro",
            "subset: x\n    join: mat",
            ["metadata.meta_eval.join", "did you mean 'math'", "mbpp_plus"],
        ),
        ("  meta_eval:", "  meta_evil:", ["metadata.meta_eval: is not set"]),
        ("utils.process_docs", "util.process_docs", ["process_docs", "no file mmlu_pro/util.py"]),
        ("task: meta_mmlu_pro_instruct", "include: ../../_outside", ["points outside the template folder"]),
        ("task: meta_mmlu_pro_instruct", "include: nothing_yaml", ["no file 'nothing_yaml'"]),
        ("task: meta_mmlu_pro_instruct", "include: mmlu_pro_5shot_cot_instruct.yaml", ["includes itself"]),
        ("task: meta_mmlu_pro_instruct", "tsk: x", ["neither a task"]),
        ("test_split: latest", "test_split: [", ["is not YAML"]),
    ],
)
def test_a_broken_template_is_named_with_its_file_and_key(folder: Path, old: str, new: str, words: list[str]) -> None:
    edit(yaml_of(folder), (old, new))
    with pytest.raises(TemplateError) as caught:
        read_meta_templates(folder)
    for word in [yaml_of(folder).name, *words]:
        assert word in str(caught.value)


def test_a_file_that_others_include_is_no_task(folder: Path) -> None:
    path = yaml_of(folder)
    shared = path.with_name("answering.yaml")
    shared.write_text("output_type: generate_until\n", encoding="utf-8")
    with pytest.raises(TemplateError, match=r"answering.yaml: is neither a task"):
        read_meta_templates(folder)
    edit(path, ("task: meta_mmlu_pro_instruct", "task: meta_mmlu_pro_instruct\ninclude: answering.yaml"))
    assert [*read_meta_templates(folder).tasks] == ["meta_mmlu_pro_instruct"]


@pytest.mark.parametrize("inner_first", [True, False])
def test_a_chain_of_includes_has_an_end_whichever_of_its_files_is_read_first(inner_first: bool, folder: Path) -> None:
    inner = yaml_of(folder).name
    for link in range(33):
        name = f"{link if inner_first else 99 - link:02}.yaml"
        (folder / "mmlu_pro" / name).write_text(f"include: {inner}\ntask: link_{link}\n", encoding="utf-8")
        inner = name
    with pytest.raises(TemplateError, match="instruct.yaml: ends a chain of more than 32 includes"):
        read_meta_templates(folder)
    (folder / "mmlu_pro" / inner).unlink()
    assert "link_31" in read_meta_templates(folder).tasks


@pytest.mark.parametrize("copy", ["a_copy", "z_copy"])
def test_all_names_of_a_copied_folder_are_refused_at_once_with_the_files_to_edit(folder: Path, copy: str) -> None:
    files = ["mmlu_pro_5shot_cot_instruct.yaml", "mmlu_pro_5shot_cot_pretrain.yaml"]
    for file in files:
        shutil.copy(TEMPLATES / "mmlu_pro" / file, folder / "mmlu_pro")
    shutil.copytree(folder / "mmlu_pro", folder / copy)
    with pytest.raises(TemplateError, match="a name is used twice: task 'meta_mmlu_pro_instruct' in") as caught:
        read_meta_templates(folder)
    edits = ", ".join(f"`task:` in {folder / copy / file}" for file in files)
    assert str(caught.value).endswith(f"Each YAML of a copied folder needs a name of its own: edit {edits}")


def test_no_folder_and_no_task(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="meta-eval init"):
        read_meta_templates(tmp_path / "nothing")
    with pytest.raises(TemplateError, match="no task template"):
        read_meta_templates(tmp_path)
