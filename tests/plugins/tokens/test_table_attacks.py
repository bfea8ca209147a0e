"""Tables of tokens that no meta-eval wrote: refused in one message, or judged without an exception."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forced_tables import HEADER, answer
from marks import each, few

from meta_eval.base.errors import UserError
from meta_eval.judge.token_table import Choices, find_choices_path, path_beside, write_choices, write_tokens
from meta_eval.plugins.tokens.fidelity_build import build_fidelity_report
from meta_eval.plugins.tokens.probe_table import Probed, write_probes

NAN = float("nan")
Row = dict[str, Any]


def top(values: Any, other: float) -> Any:
    return np.stack([values, values + np.asarray(other, values.dtype)], 1)


def write_tables(path: Path) -> Path:
    answers = [answer(doc, [-0.1, -1.0, -0.3, -2.0], [0, 0.5, 0, 0]) for doc in range(8)]
    kept = [
        replace(one, top_k_ids=top(one.top_ids, 100), top_k_logprobs=top(one.top_logprobs, -3.0)) for one in answers
    ]
    write_tokens(path, HEADER, kept)
    pair = np.array([-1.0, -2.0], np.float32)
    write_choices(
        find_choices_path(path), HEADER, [Choices("c", doc, f"{doc:064d}", pair, pair, 0) for doc in range(8)]
    )
    probes = [Probed("meta_gsm8k", doc, "start", f"{doc:064d}", 100, np.arange(10, 12), pair, pair) for doc in range(8)]
    write_probes(path_beside(path, "probes"), HEADER, probes)
    return path


def rows(column: str, value: Any) -> Callable[[list[Row], Row], None]:
    """The first row has another value."""
    return lambda table, _: table[0].update({column: value})


def every(**values: Any) -> Callable[[list[Row], Row], None]:
    return lambda table, _: [row.update(values) for row in table] and None


def head(**values: Any) -> Callable[[list[Row], Row], None]:
    return lambda _, header: header.update(values)


def again(table: list[Row], header: Row) -> None:
    table.append(table[0])
    header.update(rows=9)


def none(table: list[Row], header: Row) -> None:
    table.clear()
    header.update(rows=0)


EMPTY = {name: [] for name in ("token_ids", "logprobs", "ranks", "top_ids", "top_logprobs", "top_k_ids")}
DAMAGED, HEADLESS, ABOVE = (
    "Make the table again: it is damaged",
    "its header is incomplete",
    "is above 0, or above that",
)
# By table: each change, and its message; empty where the table is read.
ATTACKS: dict[str, dict[str, tuple[Callable[[list[Row], Row], None], str]]] = {
    "": {
        "doc twice": (again, "has meta_gsm8k/0 twice"),
        "no docs": (none, "has no doc in common"),
        "docs too many": (head(rows=9), "has 8 rows and not 9"),
        "rows of a truth": (head(rows=True), HEADLESS),
        "rows of a fraction": (head(rows=8.0), HEADLESS),
        "version of a text": (head(schema_version="1"), "has version '1'"),
        "version of null": (head(schema_version=None), "has version None"),
        "model of null": (head(model=None), HEADLESS),
        "half a pair in the model": (head(model="a\ud83d"), ""),
        "control characters": (head(model="a\x1b[31m", engine="\x07"), ""),
        "docs of a list": (head(docs=[1]), HEADLESS),
        "docs below 0": (head(docs={"a": -1}), HEADLESS),
        "docs of a truth": (head(docs={"a": True}), HEADLESS),
        "left out below 0": (head(left_out={"a": {"b": -3}}), HEADLESS),
        "left out of a text": (head(left_out={"a": {"b": "c"}}), HEADLESS),
        "left out of a list": (head(left_out={"a": [1]}), HEADLESS),
        "unknown reason": (head(left_out={"a": {"because": 3}}), ""),
        "seed of a fraction": (head(seed=1.5), HEADLESS),
        "seed of nothing": (head(seed=NAN), HEADLESS),
        "measured of a list": (head(measured=[]), HEADLESS),
        "unknown field": (head(more={"a": 1}), ""),
        "another tokenizer": (head(tokenizer_sha256="z"), "a different tokenizer"),
        "task of null": (rows("task", None), "task is empty"),
        "another task": (rows("task", "a\x1b]0;b"), ""),
        "doc below 0": (rows("doc", -1), DAMAGED),
        "huge doc": (rows("doc", 2**62), ""),
        "prompt below 0": (rows("prompt_tokens", -50), DAMAGED),
        "huge prompt": (rows("prompt_tokens", 2**31 - 1), ""),
        "another request": (rows("request_sha256", "z"), "differs from"),
        "tokens below 0": (rows("token_ids", [1, -2, 3, 4]), "a rank or a token is negative"),
        "other tokens": (rows("token_ids", [1, 2, 3, 4]), "has other tokens than in"),
        "no tokens": (lambda table, _: table[0].update({**EMPTY, "top_k_logprobs": []}), DAMAGED),
        "rank below 0": (rows("ranks", [1, -1, 1, 1]), "a rank or a token is negative"),
        "huge ranks": (every(ranks=[2**31 - 1] * 4), ""),
        "unsaid likeliest": (every(top_ids=[-1] * 4), ""),
        "certain": (every(logprobs=[-0.0] * 4, top_logprobs=[0.0] * 4), ""),
        "above certain": (every(logprobs=[0.5] * 4, top_logprobs=[0.5] * 4), ABOVE),
        "above the likeliest": (rows("top_logprobs", [-9.0] * 4), ABOVE),
        "no number": (rows("logprobs", [-0.1, NAN, -0.1, -0.1]), "is no number"),
        "of infinity": (rows("top_logprobs", [float("inf")] * 4), "is no number"),
        "all cut": (every(truncated=True), ""),
        "likeliest above certain": (rows("top_k_logprobs", [[5.0, 4.0]] * 4), ABOVE),
        "likeliest of nothing": (rows("top_k_logprobs", [[-0.1, NAN]] * 4), "is no number"),
        "no likeliest": (every(top_k_ids=[[]] * 4, top_k_logprobs=[[]] * 4), "not as many for each token"),
        "likeliest without numbers": (rows("top_k_logprobs", None), "do not fit its tokens"),
        "likeliest of one doc left out": (lambda table, _: table[0].update(top_k_ids=None, top_k_logprobs=None), ""),
        "padding": (rows("top_k_ids", [[-1, -1]] * 4), ""),
        "one more likeliest": (
            lambda table, _: table[0].update(top_k_ids=[[1, 2, 3]] * 4, top_k_logprobs=[[-1.0, -2.0, -3.0]] * 4), ""
        ),
    },
    "choices": {
        "twice": (again, "has c/0 twice"),
        "none": (none, ""),
        "empty": (lambda table, _: table[0].update(logprobs=[], recorded=[]), "do not fit each other"),
        "no number": (rows("logprobs", [NAN, -1.0]), "are no numbers"),
        "best behind the last": (rows("best", 2), "do not fit each other"),
        "best below 0": (rows("best", -1), "do not fit each other"),
        "best of null": (rows("best", None), "best is empty"),
        "another request": (rows("request_sha256", "z"), "differs from the baseline"),
        "version": (head(schema_version=2), "has version 2"),
    },
    "probes": {
        "twice": (again, "has meta_gsm8k/0/start twice"),
        "no number": (rows("logprobs", [NAN, -1.0]), "is no number"),
        "above certain": (lambda table, _: table[0].update(logprobs=[5.0, 5.0], top_logprobs=[5.0, 5.0]), ABOVE),
        "above the likeliest": (rows("top_logprobs", [-5.0, -5.0]), ABOVE),
        "empty": (rows("token_ids", []), "have not one number a token"),
        "unknown probe": (every(probe="another"), ""),
        "unknown doc": (rows("doc", 99), ""),
        "longer than the answer": (
            lambda table, _: table[0].update(token_ids=[1] * 9, logprobs=[-1.0] * 9, top_logprobs=[-1.0] * 9), ""
        ),
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("tables") / "t.parquet")


@each("beside, name", few(((beside, name) for beside, attacks in ATTACKS.items() for name in attacks), 5))
def test_a_table_is_judged_or_refused_in_a_line(beside: str, name: str, baseline: Path) -> None:
    change, message = ATTACKS[beside][name]
    folder = Path(shutil.copytree(baseline.parent, baseline.parent.with_name(f"{beside} {name}")))
    table = folder / baseline.name
    path = path_beside(table, beside) if beside else table
    content, header = pq.read_table(path), json.loads(pq.read_metadata(path).metadata[b"meta_eval"])
    changed = content.to_pylist()
    change(changed, header)
    schema = pa.schema([pa.field(field.name, field.type) for field in content.schema])
    again = pa.Table.from_pylist(changed, schema=schema)
    pq.write_table(again.replace_schema_metadata({b"meta_eval": json.dumps(header).encode()}), path)
    try:
        build_fidelity_report(table, baseline=baseline).document().to_json()
    except UserError as error:
        assert message and message in str(error) and "\n" not in str(error)
    else:
        assert not message


@pytest.mark.parametrize(("mine", "theirs", "words"), [(0, 8, "the baseline has 8"), (8, None, "this model has 8")])
def test_choices_of_one_side_alone_are_a_note(
    mine: int, theirs: int | None, words: str, baseline: Path, tmp_path: Path
) -> None:
    tables = [tmp_path / "mine.parquet", tmp_path / "theirs.parquet"]
    pair = np.array([-1.0, -2.0], np.float32)
    for path, docs in zip(tables, (mine, theirs), strict=True):
        shutil.copy(baseline, path)
        if docs is not None:
            choices = [Choices("c", doc, f"{doc:064d}", pair, pair, 0) for doc in range(docs)]
            write_choices(find_choices_path(path), HEADER, choices)
    report = build_fidelity_report(tables[0], baseline=tables[1])
    assert f"choices are not compared: {words} docs of choices, and the other has none" in report.notes
