"""The table of a fidelity run: what goes in comes out, and what is no such table is refused."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meta_eval.base.errors import UserError
from meta_eval.judge.token_table import (
    Choices,
    Forced,
    Header,
    TokensError,
    find_choices_path,
    read_choices,
    read_tokens,
    write_choices,
    write_tokens,
)

HEADER = Header(
    "my/model", "vllm 0.32.0", "a" * 64, "b" * 64, "c" * 64, docs={"meta_gsm8k": 3}, left_out={"meta_gsm8k": {"x": 1}}
)


def forced(doc: int = 0, tokens: int = 3, top_k: int | None = None, **other: Any) -> Forced:
    rng = np.random.default_rng(doc)
    top = -rng.random(tokens).astype(np.float32)
    given: dict[str, Any] = {
        "task": "meta_gsm8k", "subtask": None if doc % 2 else "algebra", "doc": doc, "request_sha256": f"{doc:064d}",
        "prompt_tokens": 7 + doc, "token_ids": rng.integers(0, 128_000, tokens, np.int32),
        "logprobs": top - np.arange(tokens, dtype=np.float32), "ranks": np.arange(1, tokens + 1, dtype=np.int32),
        "top_ids": rng.integers(0, 128_000, tokens, np.int32), "top_logprobs": top,
    }  # fmt: skip
    if top_k:
        given["top_k_ids"] = rng.integers(0, 9, (tokens, top_k), np.int32)
        given["top_k_logprobs"] = -rng.random((tokens, top_k)).astype(np.float32)
    return Forced(**{**given, **other})


def same(answer: Forced, other: Forced) -> bool:
    pairs = [(getattr(answer, own.name), getattr(other, own.name)) for own in fields(Forced)]
    return all(
        a is None and b is None
        if a is None or b is None
        else np.array_equal(a, b) and getattr(a, "dtype", 0) == getattr(b, "dtype", 0)
        for a, b in pairs
    )


@pytest.mark.parametrize("top_k", [None, 4])
def test_what_is_written_is_read(tmp_path: Path, top_k: int | None) -> None:
    answers = [forced(doc, doc % 5 + 1, top_k) for doc in range(300)]  # more than are read at once
    written = write_tokens(tmp_path / "t.parquet", HEADER, answers)
    table = read_tokens(tmp_path / "t.parquet")
    assert table.header == written == replace(HEADER, rows=300, tokens=sum(len(answer.token_ids) for answer in answers))
    read = list(table)
    assert len(read) == len(table) == 300
    assert all(same(answer, other) for answer, other in zip(answers, read, strict=True))


def test_the_same_answers_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_tokens(tmp_path / name, HEADER, [forced(doc) for doc in range(5)])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_margin_is_the_distance_to_the_likeliest(tmp_path: Path) -> None:
    assert forced(tokens=3).margins == pytest.approx([0, 1, 2])
    write_tokens(tmp_path / "t.parquet", HEADER, [forced(tokens=3)])
    assert next(iter(read_tokens(tmp_path / "t.parquet"))).margins == pytest.approx([0, 1, 2])


def test_an_end_before_the_last_answer_leaves_what_was_there(tmp_path: Path) -> None:
    write_tokens(tmp_path / "t.parquet", HEADER, [forced()])

    def breaks() -> Any:
        yield forced()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tokens(tmp_path / "t.parquet", HEADER, breaks())
    assert read_tokens(tmp_path / "t.parquet").header.rows == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_choices_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = find_choices_path(tmp_path / "model.123.parquet")
    assert path.name == "model.123.choices.parquet"
    ours, theirs = np.array([-1, -2], np.float32), np.array([-1.5, -0.5], np.float32)
    write_choices(path, HEADER, [Choices("t", 3, "d" * 64, ours, theirs, 1)])
    header, [choice] = read_choices(path)
    assert (header.rows, header.tokens) == (1, 2)
    assert (choice.task, choice.doc, choice.best) == ("t", 3, 1)
    assert choice.logprobs.tolist() == [-1, -2]
    assert choice.recorded.tolist() == [-1.5, -0.5]


BAD: dict[str, dict[str, Any]] = {
    "one entry a token": {"ranks": np.ones(2, np.int32)},
    "holds no token": {name: np.zeros(0) for name in ("token_ids", "logprobs", "ranks", "top_ids", "top_logprobs")},
    "is no number": {"logprobs": np.array([0, np.nan, -1], np.float32)},
    "above that of the likeliest": {"top_logprobs": np.full(3, -50, np.float32)},
    "is above 0": {"top_logprobs": np.full(3, 1, np.float32)},
    "is negative": {"ranks": np.array([1, -1, 1], np.int32)},
    "do not fit its tokens": {"top_k_ids": np.ones((2, 4), np.int32), "top_k_logprobs": -np.ones((2, 4), np.float32)},
    "not as many": {"top_k_ids": np.ones((3, 4), np.int32), "top_k_logprobs": -np.ones((3, 5), np.float32)},
}


@pytest.mark.parametrize("words", BAD)
def test_figures_never_meet_what_cannot_be(tmp_path: Path, words: str) -> None:
    with pytest.raises(TokensError, match=words):
        write_tokens(tmp_path / "t.parquet", HEADER, [forced(**BAD[words])])
    assert list(tmp_path.iterdir()) == []


def changed(path: Path, name: str, column: list[Any]) -> None:
    """A table with another column, which its writer would have refused."""
    table = pq.read_table(path)
    metadata = pq.read_metadata(path).metadata
    at = table.schema.get_field_index(name)
    kind = table.schema.field(name).type
    table = table.set_column(at, pa.field(name, kind), pa.array(column, kind))
    pq.write_table(table.replace_schema_metadata({b"meta_eval": metadata[b"meta_eval"]}), path)


@pytest.mark.parametrize(
    ("name", "column", "words"),
    [
        ("ranks", [[1, 2]], "one entry a token"),
        ("ranks", [None], "ranks is empty"),
        ("ranks", [[1, None, 2]], "cannot be read"),
        ("logprobs", [[0.0, float("nan"), 0.0]], "is no number"),
        ("top_k_ids", [[[1], [2, 3, 4], [4, 5]]], "not of one length"),
        ("top_k_ids", [[[1], [2], [4]]], "do not fit"),
    ],
)
def test_a_table_that_was_changed_is_refused(tmp_path: Path, name: str, column: list[Any], words: str) -> None:
    path = tmp_path / "t.parquet"
    write_tokens(path, HEADER, [forced()])
    changed(path, name, column)
    with pytest.raises(TokensError, match=words):
        list(read_tokens(path))


def test_what_is_no_table_is_refused_in_one_message(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(TokensError, match="there is no such file"):
        read_tokens(path)
    path.write_bytes(b"{}")
    with pytest.raises(TokensError, match="not a parquet file"):
        read_tokens(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(TokensError, match="not a table of"):
        read_tokens(path)
    for content in (b"[]", b"{}", b"\xff", b"[" * 99_999):
        pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({b"meta_eval": content}), path)
        with pytest.raises(TokensError, match="not a table of"):
            read_tokens(path)
    write_choices(path, HEADER, [])
    with pytest.raises(TokensError, match="has no column subtask"):
        read_tokens(path)
    write_tokens(path, replace(HEADER, schema_version=2), [forced()])
    with pytest.raises(TokensError, match="version 2, and this meta-eval reads 1"):
        read_tokens(path)
    wrong: list[dict[str, Any]] = [{"docs": {"a": "b"}}, {"measured": 5}, {"measured": None}, {"measured": {"a": 1}}]
    for values in wrong:
        write_tokens(path, replace(HEADER, **values), [forced()])
        with pytest.raises(TokensError, match="header"):
            read_tokens(path)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), float("inf")])
def test_a_likeliest_token_without_a_probability_is_refused(tmp_path: Path, value: float) -> None:
    path = tmp_path / "t.parquet"
    write_tokens(path, HEADER, [forced(top_k=2)])
    changed(path, "top_k_logprobs", [[[-0.1, value], [-0.1, -1.0], [-0.1, -1.0]]])
    with pytest.raises(TokensError, match="is no number"):
        list(read_tokens(path))


def test_a_table_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_tokens(path, HEADER, [forced(doc) for doc in range(20)])
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError):
            list(read_tokens(path))
