"""Rows out of parquet and JSON lines, and every way in which a file can be damaged."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import make_row

from meta_eval.base.errors import SourceError
from meta_eval.pack.hub import DataFile
from meta_eval.plugins.meta.source import rows as tables

ROWS = [make_row("What is 1 + 1?"), make_row("Où est le 2?", subtask=None, output=None)]


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, compression="gzip")
    return sink.getvalue()


def read(folder: Path, *files: tuple[str, bytes]) -> list[dict[str, object]]:
    listed = []
    for name, content in files:
        (folder / name).write_bytes(content)
        listed.append(DataFile(folder / name, name, "0" * 64))
    return tables.read_evals_rows(listed, dataset_id="acme/evals", subset="mmlu_pro")


def message(folder: Path, *files: tuple[str, bytes]) -> str:
    with pytest.raises(SourceError) as caught:
        read(folder, *files)
    return str(caught.value)


@pytest.mark.parametrize("name", ["Details_x_2024.parquet.gzip", "x.parquet", "rows"])
def test_parquet_whatever_its_name(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, (name, parquet(ROWS))) == ROWS


def test_several_files_in_their_order(tmp_path: Path) -> None:
    rows = read(tmp_path, ("b.jsonl", b'{"n": 1}\n{"n": 2}\n'), ("a.parquet", parquet([{"n": 3}])))
    assert rows == [{"n": 1}, {"n": 2}, {"n": 3}]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(), _VALUES, max_size=3), min_size=1, max_size=4), st.booleans())
def test_json_lines_come_back_as_they_were(tmp_path: Path, rows: list[dict[str, Any]], ascii_only: bool) -> None:
    lines = "\r\n \n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows)
    assert read(tmp_path, ("x.jsonl", lines.encode())) == rows


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b'{"a": 1, "a": 1}', "the key 'a' is given twice"),
        (b'{"a": {"b": 1, "b": 2}}', "the key 'b' is given twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "1e999 is too large"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": [["\\ud800"]]}', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", "nested more than 100 deep"),
        (b'{"a": ' * 101 + b"1" + b"}" * 101, "nested more than 100 deep"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b'{"a": 1', "not a JSON object"),
        (b'{"a": 1} {"a": 2}', "not a JSON object"),
        (b"[1, 2]", "JSON, but not an object"),
        (b"\xef\xbb\xbf{}", "not a JSON object"),
        (b'{"a": ' + b"[" * 100_000, "not a JSON object"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "not a JSON object"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, part: str) -> None:
    text = message(tmp_path, ("x.jsonl", b'{"a": 0}\n\n' + line + b"\n"))
    assert text.startswith("acme/evals, mmlu_pro, x.jsonl, line 3: ")
    assert part in text


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("x.parquet", b"", "the file is empty"),
        ("x.jsonl", b"", "the file is empty"),
        ("x.parquet.gzip", gzip.compress(parquet(ROWS)), "not parquet, but a gzip archive"),
        ("x.parquet", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "it is a Git LFS pointer"),
        ("x.parquet", b"<!doctype html><title>Log in</title>", "web page"),
        ("x.parquet", b"PAR1PAR1", "corrupt parquet"),
        ("x.parquet", b'{"a": 1}', "this is not parquet"),
        ("x.jsonl", gzip.compress(b'{"a": 1}'), "it is compressed (gzip): unpack it"),
        ("x.zip", b"PK\3\4" + bytes(60), "it is compressed (zip): unpack it"),
        ("x.jsonl", '{"a": 1}'.encode("utf-16"), "it is UTF-16 and not UTF-8: convert it"),
        ("x.csv", b"a,b\n1,2\n", "this is CSV, which is not read. Write it as"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, part: str) -> None:
    text = message(tmp_path, ("good.jsonl", b'{"a": 0}\n'), (name, content))
    assert text.startswith(f"acme/evals, mmlu_pro, {name}: ")
    assert part in text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(min_value=0, max_value=len(parquet(ROWS)) - 1))
def test_parquet_that_ends_early_is_refused(tmp_path: Path, length: int) -> None:
    assert "x.parquet" in message(tmp_path, ("x.parquet", parquet(ROWS)[:length]))


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), sink)
    assert "two columns have the same name" in message(tmp_path, ("x.parquet", sink.getvalue()))


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert read(tmp_path, ("x.jsonl", b'\xef\xbb\xbf{"a": 1}\n'), ("y.jsonl", b'\xef\xbb\xbf\n{"a": 2}\n')) == [
        {"a": 1},
        {"a": 2},
    ]


def test_blank_lines_alone_are_no_rows(tmp_path: Path) -> None:
    assert message(tmp_path, ("x.jsonl", b"\n \n")).startswith("acme/evals, mmlu_pro: holds no rows")


def test_parquet_of_no_rows(tmp_path: Path) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), sink)
    assert message(tmp_path, ("x.parquet", sink.getvalue())).startswith("acme/evals, mmlu_pro: holds no rows")


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    gone = DataFile(tmp_path / "x.parquet", "x.parquet", "0" * 64)
    with pytest.raises(SourceError, match=r"x\.parquet: cannot be read"):
        tables.read_evals_rows([gone], dataset_id="acme/evals", subset="mmlu_pro")
