"""Batch files as no service writes them: a record is read, an answer is left out with its reason, or one message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batch_service import Line, completion, result, write
from marks import each
from packs import prepare

from meta_eval.base.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.records.format import Place, Reading
from meta_eval.pack.records.pack_task import check_rows
from meta_eval.plugins.chat.batch_format import BatchFormat

NAN, HALF = float("nan"), "a\ud83d"
DEEP = json.loads("[" * 90 + "]" * 90)


def request(number: int, custom_id: Any = None, url: Any = "/v1/chat/completions", **body: Any) -> Line:
    messages = [{"role": "user", "content": f"Write {number}."}]
    body = {"model": "m", "messages": messages, "temperature": 0, "max_tokens": 9, **body}
    return {"custom_id": f"q-{number}" if custom_id is None else custom_id, "method": "POST", "url": url, "body": body}


def every(**body: Any) -> dict[str, list[Any]]:
    return {"t_requests.jsonl": [request(number, **body) for number in range(3)]}


def one(**fields: Any) -> dict[str, list[Any]]:
    return {"t_requests.jsonl": [request(0), request(1), request(2, **fields)]}


def answers(change: Callable[[Line], Any] | None = None, *more: Any) -> dict[str, list[Any]]:
    """Three results, the last one changed, and more lines."""
    lines = [result(f"q-{number}", completion(str(number), "m")) for number in range(3)]
    return {"output.jsonl": [*lines[:2], change(lines[2]) if change else lines[2], *more]}


def response(**fields: Any) -> dict[str, list[Any]]:
    return answers(lambda line: {**line, "response": {**line["response"], **fields}})


def body(**fields: Any) -> dict[str, list[Any]]:
    return answers(
        lambda line: {**line, "response": {"status_code": 200, "body": {**line["response"]["body"], **fields}}}
    )


def golds(**fields: Any) -> dict[str, list[Any]]:
    return {"golds.jsonl": [{"custom_id": f"q-{number}", "gold": str(number), **fields} for number in range(3)]}


DAMAGED, NO_REQUEST = "The record is damaged", "line 3: is not a request of a batch file"
# Of each pair, the files that are other than usual; and how many docs are read, or the message.
PAIRS: dict[str, tuple[dict[str, list[Any]], int | str]] = {
    "limit below 0": (every(max_tokens=-5), DAMAGED),
    "limit of 0": (every(max_tokens=0), DAMAGED),
    "limit of a text": (every(max_tokens="9"), DAMAGED),
    "limit of a truth": (every(max_tokens=True), DAMAGED),
    "limit of a fraction": (every(max_tokens=9.5), DAMAGED),
    "limit of infinity": (every(max_tokens=float("inf")), DAMAGED),
    "temperature of nothing": (every(temperature=NAN), DAMAGED),
    "share of nothing": (every(top_p=NAN), DAMAGED),
    "stop of a number": (every(stop=5), DAMAGED),
    "stop in a list in a list": (every(stop=[["a"]]), DAMAGED),
    "stop of null in a list": (every(stop=["a", None]), DAMAGED),
    "stop of null": (every(stop=None), 3),
    "two answers": (every(n=2), "asks for several answers at once"),
    "other fields": (every(logit_bias=5, seed="x", response_format={"type": None}, stream=True, own={"a": NAN}), 3),
    "deep field": (one(x=DEEP), 3),
    "too deep a field": (one(x=json.loads("[" * 200 + "]" * 200)), NO_REQUEST),
    "no messages": (one(messages=[]), NO_REQUEST),
    "messages of a text": (one(messages="hi"), NO_REQUEST),
    "message without a role": (one(messages=[{"content": "a"}]), NO_REQUEST),
    "content of null": (one(messages=[{"role": "user", "content": None}]), 3),
    "half a pair": (one(messages=[{"role": "user", "content": HALF}]), 3),
    "a zero character": (one(messages=[{"role": "user", "content": "a\0b"}]), 3),
    "tools of a text": (one(tools="f"), "the tools are no list"),
    "tools of null": (every(tools=None), 3),
    "a tool of null": (every(tools=[None]), "a tool has no name"),
    "no schema": (every(tools=[{"type": "function", "function": {"name": "f", "parameters": 5}}]), "are no schema"),
    "id of a number": (one(custom_id=2), NO_REQUEST),
    "id of nothing": (one(custom_id=""), NO_REQUEST),
    "id of another": (one(custom_id="q-1"), "repeats the custom_id 'q-1'"),
    "another page": (one(url="/v1/responses"), "asks another address"),
    "whole address": (one(url="https://a/v1/chat/completions"), 3),
    "line of null": (answers(None, None), "line 4: is not a result"),
    "line of a list": (answers(None, [1]), "line 4: is not a result"),
    "unknown id": (answers(None, result("zz", completion("8", "m"))), 3),
    "another answer": (answers(None, result("q-2", completion("8", "m"))), "has two different answers"),
    "half a pair in an answer": (answers(lambda line: result("q-2", completion(HALF, "m"))), 3),
    "empty error": (answers(lambda line: {**line, "error": {}}), 2),
    "deep error": (answers(lambda line: {**line, "error": {"error": {"error": {"error": DEEP[:1]}}}}), 2),
    "half a pair in an error": (answers(lambda line: {**line, "error": {"message": HALF}}), 2),
    "status of a text": (response(status_code="200"), 3),
    "status in words": (response(status_code="OK"), 2),
    "status of null": (response(status_code=None), 2),
    "status 500": (response(status_code=500), 2),
    "body of null": (response(body=None), 2),
    "body as text": (response(body='{"choices": []}'), 2),
    "no choices": (body(choices=[]), 2),
    "counts of nothing": (body(usage={"completion_tokens": NAN, "prompt_tokens": "x"}), 3),
    "usage of a list": (body(usage=[1]), 3),
    "model of a number": (body(model=5), "the answers come from 2 models"),
    "half a pair in a model": (body(model=HALF), "the answers come from 2 models"),
    "gold twice": ({"golds.jsonl": golds()["golds.jsonl"] * 2}, "golds.jsonl, line 4: repeats the custom_id 'q-0'. Keep one line of each"),
    "gold of null": (golds(gold=None), "the gold is no text"),
    "gold of nothing": (golds(gold=NAN), "the gold is no text"),
    "half a pair in a gold": (golds(gold=HALF), 3),
    "a gold of another form": ({"golds.jsonl": [*golds()["golds.jsonl"], {"custom_id": "q-3"}]}, "line 4: is not a gold of a batch file. Mend the line"),
    "few golds": ({"golds.jsonl": golds()["golds.jsonl"][:2]}, "'q-2': has no gold"),
    "subtask of a number": (golds(subtask=5), 3),
    "subtask of half a pair": (golds(subtask=HALF), 3),
    "gold of a number's id": (golds(custom_id=5), "has no file of requests beside it"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


def write_pair(place: Path, files: dict[str, list[Any]]) -> Path:
    place.mkdir()
    for file, lines in {**every(), **answers(), **files}.items():
        write(place / file, lines)
    return place


@each("name", PAIRS)
def test_a_pair_is_read_as_it_is_or_refused_in_a_line(name: str, folder: Path) -> None:
    files, wanted = PAIRS[name]
    place = write_pair(folder / name, files)
    try:
        record = BatchFormat().open_run(Place(str(place), place), None, ["t"])
        rows = record.read("t", Reading(place)).rows
        check_rows(rows, [None] * len(rows.rows))
    except UserError as error:
        assert isinstance(wanted, str) and wanted in str(error) and "\n" not in str(error)
    else:
        assert len(rows.rows) == wanted


def test_half_a_surrogate_pair_is_replaced_wherever_it_stands(tmp_path: Path) -> None:
    """In prompts, answers and the name of the model: a pack can hold them."""
    files = every(messages=[{"role": "user", "content": HALF}])
    files["output.jsonl"] = [result(f"q-{number}", completion(HALF, HALF)) for number in range(3)]
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(write_pair(tmp_path / "run", files)))
    assert read_manifest(pack).tasks["t"].model == "a\ufffd"
