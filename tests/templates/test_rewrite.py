"""Rewriting template YAML: the dataset lines change, all else stays, comments and !function too."""

from __future__ import annotations

import re
from typing import Any

import yaml
from golden import shipped
from growth import check_growth
from hypothesis import given
from hypothesis import strategies as st
from marks import few
from places import TEMPLATES
from ruamel.yaml import YAML

from meta_eval.pack.templates.task_yaml import bundle_task, rewrite_for_hub, write_group

MMLU_PRO = (TEMPLATES / "mmlu_pro/mmlu_pro_5shot_cot_instruct.yaml").read_text(encoding="utf-8")


def tree(text: str) -> dict[str, Any]:
    return dict(YAML(typ="rt").load(text))


class _Tags(yaml.CSafeLoader):
    """As `tree`, in a tenth of its time: a tagged scalar is its tag and text."""


_Tags.add_multi_constructor("!", lambda loader, tag, node: f"!{tag} {loader.construct_scalar(node)}")


def comments(text: str) -> list[str]:
    return re.findall(r"(?:^|\s)#.*", text, flags=re.MULTILINE)


def bundle(text: str, inherited: frozenset[str] = frozenset()) -> str:
    return bundle_task(text, inherited=inherited, docs_file="../x.parquet", sha256="12e4")


def test_a_bundled_task_reads_its_docs_from_the_pack() -> None:
    new = tree(bundle(MMLU_PRO))
    assert new["custom_dataset"].tag.value == "!function"
    assert new["dataset_kwargs"] == {"docs_file": "../x.parquet", "sha256": "12e4"}
    assert "dataset_path" not in new
    assert "dataset_name" not in new
    assert new["process_docs"] is None


def test_many_stop_texts_take_time_by_their_number() -> None:
    few_stops, many_stops = (
        "task: t\ngeneration_kwargs:\n  until:\n" + "".join(f"    - 'stop {n}'\n" for n in range(count))
        for count in (500, 2000)
    )
    check_growth(lambda: bundle(few_stops), lambda: bundle(many_stops), at_most=8)


def test_what_an_include_sets_is_switched_off() -> None:
    new = tree(bundle("include: ../x\ntask: t\n", frozenset({"process_docs", "dataset_path", "doc_to_text"})))
    assert new["process_docs"] is None
    assert new["dataset_path"] is None
    assert "doc_to_text" not in new


def test_a_hub_task_names_dataset_config_and_commit() -> None:
    new = tree(rewrite_for_hub(MMLU_PRO, dataset_path="a/b", dataset_name="b__mmlu_pro__details", revision="012345"))
    assert (new["dataset_path"], new["dataset_name"], new["dataset_kwargs"]) == (
        "a/b",
        "b__mmlu_pro__details",
        {"revision": "012345"},
    )
    assert new["process_docs"].tag.value == "!function"


def test_comments_functions_and_all_other_keys_of_every_shipped_template_stay() -> None:
    for template in few(shipped().tasks.values(), 3):
        text = (TEMPLATES / template.file).read_text(encoding="utf-8")
        for new in (
            bundle(text, template.inherited),
            rewrite_for_hub(text, dataset_path="a", dataset_name="b", revision="c"),
        ):
            assert [c.strip() for c in comments(new)] == [c.strip() for c in comments(text)], template.name
            changed = {"dataset_path", "dataset_name", "dataset_kwargs", "custom_dataset", "process_docs"}
            old_tree, new_tree = (yaml.load(version, _Tags) for version in (text, new))
            assert {k: v for k, v in old_tree.items() if k not in changed} == {
                k: v for k, v in new_tree.items() if k not in changed
            }
            assert all(line in new for line in re.findall(r".*!function.*", text) if line.split(":")[0] not in changed)


def test_a_group_gets_its_members_and_keeps_the_rest() -> None:
    text = (TEMPLATES / "meta_instruct.yaml").read_text(encoding="utf-8")
    new = write_group(text, name="meta_instruct", members=["a", "b"])
    assert tree(new)["task"] == ["a", "b"]
    assert comments(new) == comments(text)
    assert tree(write_group(None, name="g", members=["a"])) == {"group": "g", "task": ["a"]}


KEYS = st.sampled_from(
    ["task", "dataset_path", "dataset_name", "dataset_kwargs", "process_docs", "test_split", "doc_to_text", "x"]
)
VALUES = st.one_of(
    st.integers(),
    st.booleans(),
    st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=9).map(
        lambda t: "'" + t.replace("'", "") + "'"
    ),
    st.sampled_from(["!function utils.f", "[1, 2]", "{a: b}", "null"]),
)


@given(st.dictionaries(KEYS, st.tuples(VALUES, st.booleans(), st.booleans()), min_size=1))
def test_any_flat_task_keeps_comments_and_other_values(items: dict[str, tuple[Any, bool, bool]]) -> None:
    lines = []
    for number, (key, (value, above, beside)) in enumerate(items.items()):
        if above:
            lines.append(f"# above {number}")
        lines.append(
            f"{key}: {str(value).lower() if isinstance(value, bool) else value}"
            + (f" # beside {number}" if beside else "")
        )
    text = "\n".join(lines) + "\n"
    new = bundle(text)
    assert sorted(c.strip() for c in comments(new)) == sorted(c.strip() for c in comments(text))
    kept = set(items) - {"dataset_path", "dataset_name", "dataset_kwargs", "process_docs"}
    old_tree, new_tree = tree(text), tree(new)
    assert {key: str(old_tree[key]) for key in kept} == {key: str(new_tree[key]) for key in kept}
    assert new_tree["custom_dataset"].value == "pack_docs.load"
