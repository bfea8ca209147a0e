"""Docs that share a question or a passage are named as one cluster, and no others."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from noted import noted
from packs import prepare, read_docs, some_templates

from meta_eval.base.errors import ConfigError, TemplateError
from meta_eval.pack.manifest import read_manifest
from meta_eval.plugins.meta.doc_clusters import cluster_docs

SHOT = "Title: Oslo\n\nBackground: A town on a fjord, which has trams.\n\nQ: What has it?\n\nA: trams\n\n"


def doc(prompt: str = "", *, gold: str = "1", subtask: str | None = None) -> dict[str, Any]:
    return {"prompt": prompt, "gold": gold, "subtask_name": subtask, "answers": [gold, f"{gold}."]}


def about(passage: str, question: str, *before: str, shot: str = SHOT) -> dict[str, Any]:
    dialog = "".join(f"Q: {earlier}\n\nA: some answer to it\n\n" for earlier in before)
    return doc(f"Answer from the background.\n\n{shot}Title: T\n\nBackground: {passage}\n\n{dialog}Q: {question}\n\nA:")


def test_questions_about_one_passage_are_a_cluster_whatever_was_asked_before_and_whatever_the_shot() -> None:
    other = SHOT.replace("trams", "ferries")
    docs = [
        about("The mill is old.", "How old is it?"),
        about("The lake is deep.", "How deep?"),
        about("The mill is old.", "Whose is it?", "How old is it?", shot=other),
        about("The choir sings.", "Who sings?", shot=other),
        about("The lake is deep.", "Why?", "How deep?", "Who says so?"),
    ]
    assert cluster_docs(docs, "passage") == (["0", "1", "0", None, "1"], None)


def test_questions_about_one_book_are_a_cluster_wherever_the_question_stands() -> None:
    books = [f"Chapter one.\nOn day {day} the pedlar came to the barn and told a joke.\nThe end." for day in range(2)]
    docs = [doc(f"Read.\n\n{book}\n\nQuestion: {q}\nAnswer:") for book in books for q in ("Who?", "Why?")]
    docs.append(doc(f"Question: Where?\n\n{books[0]}"))
    assert cluster_docs(docs, "document") == (["0", "0", "1", "1", "0"], None)


@pytest.mark.parametrize("prompt", ["Read this.\nQ: {}\nA:", "Q: {}\nRead the passage {}.\nA:"])
def test_a_rule_that_does_not_fit_the_prompts_makes_no_clusters_and_says_so(prompt: str) -> None:
    docs = [doc(prompt.format(number, number)) for number in range(9)]
    assert cluster_docs(docs, "passage") == ([None] * 9, "docs_do_not_show_what_they_share")


def languages(golds: dict[str, list[str]]) -> list[dict[str, Any]]:
    return [doc(gold=gold, subtask=f"mgsm.{language}") for language, listed in golds.items() for gold in listed]


def test_the_same_position_in_every_language_is_one_question() -> None:
    docs = languages({"en": ["5", "7", "5"], "de": ["5", "7", "5"], "th": ["5", "7", "5"]})
    assert cluster_docs(docs, "parallel") == (["0", "1", "2"] * 3, None)


@pytest.mark.parametrize(
    "golds", [{"en": ["5", "7", "9"], "de": ["5", "9", "7"]}, {"en": ["5", "7", "9"], "de": ["9", "7", "5", "1"]}]
)
def test_rows_that_are_not_parallel_share_a_cluster_where_they_share_the_gold(golds: dict[str, list[str]]) -> None:
    docs = languages(golds)
    clusters, warning = cluster_docs(docs, "parallel")
    assert warning == "docs_are_not_parallel_over_subtasks"
    alike = {
        parallel["gold"]: {name for name, other in zip(clusters, docs, strict=True) if other is parallel}
        for parallel in docs
    }
    assert [name is None for name in clusters] == [parallel["gold"] == "1" for parallel in docs]
    assert len({name for names in alike.values() for name in names}) == len(alike)


@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.randoms())
def test_two_docs_are_in_one_cluster_exactly_when_they_share_the_passage(
    passages: list[str], chance: random.Random
) -> None:
    docs = [about(passage, f"Question {number}?") for number, passage in enumerate(passages)]
    clusters, warning = cluster_docs(docs, "passage")
    if warning:
        assert len(set(passages)) in (1, len(passages))
        return
    for number, a in enumerate(passages):
        assert (clusters[number] is None) == (passages.count(a) == 1)
        for other, b in enumerate(passages):
            assert other == number or (clusters[number] is not None and clusters[number] == clusters[other]) == (a == b)
    order = chance.sample(range(len(docs)), len(docs))
    again, _ = cluster_docs([docs[place] for place in order], "passage")
    assert [name is None for name in again] == [clusters[place] is None for place in order]


# In a pack


def test_prepare_writes_them_into_the_docs_of_every_task(tmp_path: Path) -> None:
    with noted() as notes:
        pack = prepare(tmp_path / "work_dir", "meta_squad,meta_mgsm,meta_gpqa")
    passages = [doc["prompt"].split("\n\n")[-2] for doc in read_docs(pack, "meta_squad")]
    named = [doc["cluster"] for doc in read_docs(pack, "meta_squad")]
    assert named == [str(sorted(set(passages), key=passages.index).index(passage)) for passage in passages]
    assert {doc["cluster"] for doc in read_docs(pack, "meta_gpqa")} == {None}
    assert all("cluster" in entry.columns for entry in read_manifest(pack).tasks.values())
    warnings = read_manifest(pack).tasks["meta_mgsm"].warnings  # the sample's few questions are not parallel
    assert warnings["docs_are_not_parallel_over_subtasks"] == 21
    assert any("meta_mgsm: 21 of 21 rows do not have the same golds" in line for line in notes)


def own_clusters(tmp_path: Path, value: str) -> Path:
    templates = some_templates(tmp_path, "gpqa")
    rows = templates / "_common" / "rows.py"
    rows.write_text(
        rows.read_text().replace('        "question": row', f'        "cluster": {value},\n        "question": row')
    )
    return prepare(tmp_path / "work_dir", "meta_gpqa", template_dir=str(templates))


def test_the_column_of_a_template_is_kept(tmp_path: Path) -> None:
    pack = own_clusters(tmp_path, 'row["subtask_name"] and "s"')
    docs = read_docs(pack, "meta_gpqa")
    assert [doc["cluster"] for doc in docs] == [doc["subtask_name"] and "s" for doc in docs]


def test_a_cluster_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="the docs' cluster is not text"):
        own_clusters(tmp_path, "3")


def test_a_rule_that_there_is_not_is_refused(tmp_path: Path) -> None:
    templates = some_templates(tmp_path, "squad")
    path = templates / "squad" / "squad_1shot.yaml"
    path.write_text(path.read_text().replace("cluster: passage", "cluster: passages"))
    with pytest.raises(TemplateError, match="cluster"):
        prepare(tmp_path / "work_dir", "meta_squad", template_dir=str(templates))


def test_a_configuration_names_no_field_of_a_task_whose_template_has_a_rule(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its templates define clusters"):
        prepare(tmp_path / "work_dir", "meta_gpqa_cot", cluster={"meta_gpqa_cot": "question"})
