"""Evals datasets and originals that lie in a folder, and what a card and file names say."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import cli
from fakehub import sha256
from hypothesis import given
from hypothesis import strategies as st
from rows import make_row, write_rows

from meta_eval.base.errors import SourceError
from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.source import card, local_folder
from meta_eval.plugins.meta.source.dataset import EvalsDataset

UNKNOWN = Identity(None, None, None)
STEM = "Llama-3.2-3B-Instruct-evals"
STAMP = "2024-10-20T12-00-00.654321"


def details(subset: str, stem: str = STEM, stamp: str = STAMP) -> str:
    return f"{stem}/Details_{subset}_{stamp}.parquet.gzip"


def fill(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(f"content of {name}".encode())
    return root


def front_matter(root: Path, yaml: str) -> None:
    (root / "README.md").write_text(f"---\n{yaml}---\n\n# Card\n---\nno: front matter\n---\n")


def opened(root: Path, identity: Identity = UNKNOWN) -> EvalsDataset:
    return local_folder.open_evals_dataset(str(root), identity=identity)


def message(root: Path) -> str:
    with pytest.raises(SourceError) as caught:
        opened(root)
    return str(caught.value)


def prepared(here: Path, **keys: Any) -> str:
    """The error of prepare, run in a folder."""
    (here / "c.yaml").write_text(json.dumps({"model_name": "my/model", "tasks": "meta_gpqa", **keys}))
    done = cli("prepare", "-c", "c.yaml", cwd=here)
    assert done.returncode == 2
    return done.stderr[done.stderr.index("error: ") :]


# Layouts


def test_a_snapshot_of_the_hub(tmp_path: Path) -> None:
    root = fill(tmp_path, details("gpqa"), details("math"), f"{STEM}/Details_metrics_details_{STAMP}.parquet.gzip")
    front_matter(
        root,
        "configs:\n"
        f"- config_name: {STEM}__gpqa__details\n"
        f"  data_files:\n  - split: latest\n    path:\n    - {details('gpqa')}\n"
        f"- config_name: {STEM}__metrics\n  data_files:\n  - split: latest\n    path: {STEM}/Details_metrics_*\n",
    )
    dataset = opened(root)
    assert dataset.subsets == ("gpqa", "math")
    assert dataset.config_name("gpqa") == f"{STEM}__gpqa__details"
    assert dataset.identity == Identity("Llama-3.2-3B-Instruct", "3.2", "instruct")
    (file,) = dataset.fetch("gpqa")
    assert (file.name, file.path) == (details("gpqa"), root / details("gpqa"))
    assert file.sha256 == sha256(file.path.read_bytes())
    assert (dataset.kind, dataset.dataset_id, dataset.warnings) == ("folder", str(root), ())


@pytest.mark.parametrize("before", ["\n", " \n\n", "\ufeff", "\ufeff\n"])
def test_a_card_may_begin_with_blanks_as_on_the_hub(tmp_path: Path, before: str) -> None:
    root = fill(tmp_path, "data.jsonl", "other.jsonl")
    front_matter(root, "configs:\n- config_name: gpqa\n  data_files: data.jsonl\n")
    card = root / "README.md"
    card.write_text(before + card.read_text())
    assert "gpqa" in opened(root).subsets


def test_plain_files(tmp_path: Path) -> None:
    root = tmp_path / "Meta-Llama-3.1-405B-evals"
    write_rows(root / "mmlu_pro.jsonl", [make_row()])
    dataset = opened(fill(root, "bbh.parquet", ".hidden/gpqa.parquet", "notes.txt"))
    assert dataset.subsets == ("bbh", "mmlu_pro")
    assert [file.name for file in dataset.fetch("mmlu_pro")] == ["mmlu_pro.jsonl"]
    assert dataset.identity == Identity("Llama-3.1-405B", "3.1", "pretrain")


def test_an_identity_that_is_known_is_not_guessed(tmp_path: Path) -> None:
    known = Identity("Llama-3.3-70B-Instruct", "3.3", "instruct")
    assert opened(fill(tmp_path, details("gpqa")), known).identity == known


def test_a_folder_in_lower_case_is_known_by_the_same_rule_as_an_id(tmp_path: Path) -> None:
    root = tmp_path / "llama-3.1-8b-instruct-evals"
    root.mkdir()
    assert opened(fill(root, "gpqa.parquet")).identity == catalog.identify_dataset("llama-3.1-8b-instruct-evals")
    assert opened(root).identity == Identity("Llama-3.1-8B-Instruct", "3.1", "instruct")


def test_two_models_in_one_folder_have_no_identity(tmp_path: Path) -> None:
    root = fill(tmp_path, details("gpqa"), details("math", stem="Llama-3.2-1B-Instruct-evals"))
    assert opened(root).identity == UNKNOWN


def test_a_file_whose_time_does_not_exist_is_never_the_newest(tmp_path: Path) -> None:
    wrong = details("gpqa", stamp="2026-13-41T12-00-00.5")
    said = message(fill(tmp_path, details("gpqa"), wrong))
    assert said == (
        f"{wrong}: there is no time 2026-13-41T12-00-00.5, which stands in its name. Restore the file's original name"
    )


def test_one_subset_of_two_models_is_refused(tmp_path: Path) -> None:
    other = details("gpqa", stem="Llama-3.2-1B-Instruct-evals", stamp="2025-01-01T00-00-00.1")
    text = message(fill(tmp_path, details("gpqa"), other))
    assert f"subset 'gpqa' could be any of {other}, {details('gpqa')}" in text


def test_one_subset_in_two_formats_is_refused(tmp_path: Path) -> None:
    assert "could be any of gpqa.jsonl, gpqa.parquet" in message(fill(tmp_path, "gpqa.parquet", "gpqa.jsonl"))


def test_a_partial_snapshot_offers_what_is_there(tmp_path: Path) -> None:
    root = fill(tmp_path, details("gpqa"))
    front_matter(
        root,
        "configs:\n"
        f"- config_name: {STEM}__gpqa__details\n  data_files: {details('gpqa')}\n"
        f"- config_name: {STEM}__math__details\n  data_files: {details('math')}\n",
    )
    dataset = opened(root)
    assert dataset.subsets == ("gpqa",)
    with pytest.raises(SourceError, match="is missing, and README") as caught:
        dataset.fetch("math")
    assert details("math") in str(caught.value)


@pytest.mark.parametrize("file", [details("gpqa"), "../x.parquet", "/etc/passwd"])
def test_a_snapshot_of_a_card_alone_is_told_what_its_card_lists(tmp_path: Path, file: str) -> None:
    (tmp_path / "evals").mkdir()
    front_matter(tmp_path / "evals", f"configs:\n- config_name: {STEM}__gpqa__details\n  data_files: {file}\n")
    assert prepared(tmp_path, evals_dataset="./evals").startswith(
        f"error: ./evals: {file} is missing, and README.md lists it. Copy"
    )


@pytest.mark.parametrize("link", [True, False])
def test_a_folder_of_a_pipe_or_a_broken_link_is_told_so(tmp_path: Path, link: bool) -> None:
    file = tmp_path / "evals" / "gpqa.jsonl"
    file.parent.mkdir()
    file.symlink_to("nowhere") if link else os.mkfifo(file)
    assert "error: ./evals: holds gpqa.jsonl, which is no regular file" in prepared(tmp_path, evals_dataset="./evals")


def test_a_missing_subset_is_answered_with_those_there_are(tmp_path: Path) -> None:
    dataset = opened(fill(tmp_path, details("math_hard"), details("math")))
    with pytest.raises(SourceError, match=r"did you mean 'math_hard'\? It offers: math, math_hard"):
        dataset.fetch("math_hrd")


@pytest.mark.parametrize(
    "yaml",
    [
        "configs: [\n",
        "configs: {a: b\n",
        "configs:\n- 7\n",
        "configs: text\n",
        "when: *nobody\n",
        f"a: {'[' * 1500}\n",
    ],
)
def test_a_malformed_card_gives_way_to_the_file_names(tmp_path: Path, yaml: str) -> None:
    root = fill(tmp_path, details("gpqa"))
    front_matter(root, yaml)
    dataset = opened(root)
    assert dataset.subsets == ("gpqa",)
    (warning,) = dataset.warnings
    assert warning.startswith("README.md: ")


@pytest.mark.parametrize("text", ["", "# Only a title\n", "---\nlicense: llama3.1\n---\n", "---\nnever closed: 1\n"])
def test_a_card_without_configs_is_nothing_odd(tmp_path: Path, text: str) -> None:
    root = fill(tmp_path, details("gpqa"))
    (root / "README.md").write_text(text)
    assert (opened(root).subsets, opened(root).warnings) == (("gpqa",), ())


@pytest.mark.parametrize(
    "data_files",
    [
        "data/a.parquet",
        "[data/a.parquet]",
        "{latest: data/a.parquet}",
        "{latest: [data/a.parquet], 2024_10_20: old/*}",
        "[{split: latest, path: data/a.parquet}]",
        "[{split: latest, path: [./data/a.parquet]}]",
        "data/*.parquet",
        "'**/a.parquet'",
        "'data/**'",
        "data/[!b].parquet",
        "data/?.parquet",
    ],
)
def test_every_spelling_of_data_files(tmp_path: Path, data_files: str) -> None:
    root = fill(tmp_path, "data/a.parquet", "old/b.parquet")
    front_matter(root, f"configs:\n- config_name: Meta-Llama-3.1-8B-evals__bbh__details\n  data_files: {data_files}\n")
    dataset = opened(root)
    assert [file.name for file in dataset.fetch("bbh")] == ["data/a.parquet"]
    assert dataset.config_name("bbh") == "Meta-Llama-3.1-8B-evals__bbh__details"


def test_several_splits_and_none_latest(tmp_path: Path) -> None:
    root = fill(tmp_path, "a.parquet", details("gpqa"))
    front_matter(root, "configs:\n- config_name: x-evals__bbh__details\n  data_files: {a: a.parquet, b: a.parquet}\n")
    dataset = opened(root)
    assert "bbh" not in dataset.subsets
    assert "none is 'latest'" in dataset.warnings[0]


@pytest.mark.parametrize(("make", "part"), [(False, "no such folder"), (True, "is a file of no format")])
def test_what_is_no_folder(tmp_path: Path, make: bool, part: str) -> None:
    if make:
        (tmp_path / "x").write_text("")
    assert part in message(tmp_path / "x")


def test_a_folder_without_subsets(tmp_path: Path) -> None:
    assert "is neither a recorded run nor an evals dataset" in message(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("**", ["a.parquet", "x/a.parquet", "x/y/b.parquet"]),
        ("**/a.parquet", ["a.parquet", "x/a.parquet"]),
        ("x/**/b.parquet", ["x/y/b.parquet"]),
        ("x/**/y/*", ["x/y/b.parquet"]),
        ("*/*.parquet", ["x/a.parquet"]),
        ("*", ["a.parquet"]),
        ("?/[a-b].parquet", ["x/a.parquet"]),
        ("x/[z-a]*", ["x/[z-a]*"]),
        ("x/y/z/**", ["x/y/z/**"]),
    ],
)
def test_a_pattern_means_what_it_means_to_the_hub(pattern: str, files: list[str]) -> None:
    front = f"---\nconfigs:\n- config_name: a\n  data_files: '{pattern}'\n---\n"
    table, _ = card.find_subsets(front, ["a.parquet", "x/a.parquet", "x/y/b.parquet"])
    assert list(table["a"].files) == files


def test_no_pattern_takes_long() -> None:
    for pattern in ("**/" * 2000 + "b", "a*" * 500 + "b"):
        front = f"---\nconfigs:\n- config_name: a\n  data_files: '{pattern}'\n---\n"
        began = time.monotonic()
        card.find_subsets(front, ["/".join("a" * 500), "a" * 500])
        assert time.monotonic() - began < 5


# File names

_WORD = st.from_regex(r"[a-z0-9]+(_{1,2}[a-z0-9]+){0,3}", fullmatch=True).filter(lambda word: word != "metrics_details")
_TIME = st.datetimes().map(lambda time: time.strftime("%Y-%m-%dT%H-%M-%S.%f").rjust(26, "0"))


@given(
    st.dictionaries(_WORD, st.lists(_TIME, min_size=1, max_size=3, unique=True), min_size=1, max_size=5), st.randoms()
)
def test_each_subset_has_its_newest_file(runs: dict[str, list[str]], shuffle) -> None:
    names = [details(subset, stamp=stamp) for subset, stamps in runs.items() for stamp in stamps]
    shuffle.shuffle(names)
    table, warnings = card.find_subsets(None, names)
    assert {subset: entry.files for subset, entry in table.items()} == {
        subset: (details(subset, stamp=max(stamps)),) for subset, stamps in runs.items()
    }
    assert {subset: entry.config for subset, entry in table.items()} == {s: f"{STEM}__{s}__details" for s in runs}
    assert warnings == ()


@given(st.text(), st.lists(st.text(min_size=1), max_size=4, unique=True))
def test_no_card_is_a_crash(text: str, names: list[str]) -> None:
    table, _ = card.find_subsets(f"---\nconfigs:\n- config_name: x\n  data_files: {text}\n---\n", names)
    assert all(entry.files for entry in table.values())


# Revisions


def test_the_revision_is_of_names_and_contents_alone(tmp_path: Path) -> None:
    root = fill(tmp_path / "a", details("gpqa"), details("math"))
    first = opened(root).revision
    assert first.startswith("sha256:")
    assert len(first) == 71
    shutil.copytree(root, tmp_path / "b")
    (tmp_path / "b" / "LICENSE").write_text("no rows")
    assert opened(tmp_path / "b").revision == first
    (tmp_path / "b" / details("gpqa")).write_bytes(b"other")
    changed = opened(tmp_path / "b").revision
    (root / details("gpqa")).rename(root / details("gpqa_diamond"))
    assert len({first, changed, opened(root).revision}) == 3


# Originals


def test_an_original_that_is_one_file(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "input_data.jsonl", [{"key": 1}])
    original = local_folder.open_original(str(path))
    for split in ("train", "test"):
        (file,) = original.fetch(split)
        assert (file.path, file.name, file.sha256) == (path, "input_data.jsonl", sha256(path.read_bytes()))
    assert original.revision.startswith("sha256:")


def test_an_original_that_is_a_folder(tmp_path: Path) -> None:
    original = local_folder.open_original(
        str(fill(tmp_path, "data/train.parquet", "data/test.parquet", ".git/test.parquet"))
    )
    assert [file.name for file in original.fetch("test")] == ["data/test.parquet"]
    with pytest.raises(SourceError, match=r"no file holds the split 'dev'.*data/test\.parquet, data/train\.parquet"):
        original.fetch("dev")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (os.mkfifo, "./o: is neither a regular file nor a folder. Name a .parquet"),
        (lambda path: (path.mkdir(), os.mkfifo(path / "test.jsonl")), "./o: cannot be read: test.jsonl: it is not a regular file"),
    ],
    ids=["pipe", "folder"],
)  # fmt: skip
def test_an_original_that_cannot_be_read_is_not_taken_for_an_evals_dataset(
    tmp_path: Path, spoil: Callable[[Path], Any], words: str
) -> None:
    write_rows(tmp_path / "evals" / "math_hard.jsonl", [make_row()])
    spoil(tmp_path / "o")
    keys = {"tasks": "meta_math_hard", "evals_dataset": "./evals", "originals": {"math": {"id": "./o"}}}
    said = prepared(tmp_path, **keys)
    assert words in said
    assert "evals dataset" not in said


@pytest.mark.parametrize("make", [False, True])
def test_an_original_without_data(tmp_path: Path, make: bool) -> None:
    root = tmp_path / "x"
    if make:
        root.mkdir()
    with pytest.raises(SourceError, match="holds no data file" if make else "no such folder"):
        local_folder.open_original(str(root))
