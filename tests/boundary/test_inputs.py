"""The one door for reading: no file hangs a command or fills its memory, and no JSON breaks what walks it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import cli
from hypothesis import given
from hypothesis import strategies as st
from runs import write_run

from meta_eval.base.hashing import hash_file
from meta_eval.base.inputs import (
    InputError,
    TooDeepError,
    open_data,
    open_parquet,
    open_regular,
    parse_json,
    read_regular,
    read_table,
    read_text,
)

READERS: list[Callable[[Path], Any]] = [
    read_regular, read_text, open_data, hash_file, read_table, lambda path: open_parquet(path).__enter__()
]  # fmt: skip
NO_FILES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "nothing": lambda path: None,
    "a TiB of nothing": lambda path: (path.touch(), os.truncate(path, 2**40)),
}


@pytest.mark.parametrize("obstacle", NO_FILES)
@pytest.mark.parametrize("reader", READERS)
def test_nothing_hangs_or_fills_memory(reader: Callable[[Path], Any], obstacle: str, tmp_path: Path) -> None:
    NO_FILES[obstacle](tmp_path / "x")
    with pytest.raises((OSError, InputError)):
        reader(tmp_path / "x")


@pytest.mark.parametrize(
    ("words", "link"),
    [
        ("report out", "out"), ("report run --gate gate.yaml", "gate.yaml"),
        ("prepare --config c.yaml", "c.yaml"),
        pytest.param("prepare --set template_dir=tt --set tasks=t", "tt", marks=pytest.mark.plugin("meta")),
        pytest.param("prepare --set template_dir=tt --set tasks=t", "tt/x.yaml", marks=pytest.mark.plugin("meta")),
        pytest.param("history check", "history/x.json", marks=pytest.mark.plugin("nightly")),
    ],
)  # fmt: skip
def test_a_link_to_nothing_is_called_so_and_nothing_else_is_suggested(tmp_path: Path, words: str, link: str) -> None:
    write_run(tmp_path / "run", [1, 0, 1])
    (tmp_path / "eval_config.yaml").write_text("model_name: m\nevals_dataset: sample\n")
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to("/nonexistent")
    done = cli(*words.split(), cwd=tmp_path)
    told = " ".join(done.stderr.split())
    assert (done.returncode, "; it is a link to nothing" in told, "did you mean" in told) == (2, True, False), told


def test_a_file_is_opened_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "pipe")


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 200 + "]" * 200, '{"a":' * 5000 + "1" + "}" * 5000])
def test_deep_json_is_one_error(text: str) -> None:
    with pytest.raises((TooDeepError, json.JSONDecodeError)):
        parse_json(text)


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_is_read_as_it_is(tree: Any) -> None:
    assert parse_json(json.dumps(tree)) == tree
    assert parse_json(json.dumps(tree, ensure_ascii=False).encode()) == tree


def test_half_of_a_surrogate_pair_is_none() -> None:
    assert parse_json('{"\\ud800a": ["x\\udc00", "\\ud83d\\ude00"]}') == {"\ufffda": ["x\ufffd", "\U0001f600"]}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_a_file_that_says_it_is_empty_is_read_to_its_end() -> None:
    text = read_regular(Path("/proc/self/status"))
    assert text.startswith(b"Name:") and text.endswith(b"\n") and len(text) > 500
    with pytest.raises(OSError, match="larger than"):
        read_regular(Path("/proc/self/status"), limit=100)
