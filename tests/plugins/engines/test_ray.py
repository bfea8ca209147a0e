"""What goes to Ray's workers and what comes back, without a cluster; tests/plugins/engines/real has one."""

from __future__ import annotations

import ast
import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from meta_eval.ask.request import Request
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.registry import find_backend
from meta_eval.plugins.engines.ray import ray_rows
from meta_eval.plugins.engines.ray.ray_client import RayClient, explain_ending


def test_what_travels_needs_nothing_of_meta_eval() -> None:
    """A cluster has Ray and vLLM; the functions go there by value."""
    tree = ast.parse(Path(ray_rows.__file__).read_text(encoding="utf-8"))
    imports = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [name.name for name in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imports <= set(sys.stdlib_module_names)


def test_a_row_s_parameters_are_those_that_it_wants_and_no_struct_of_arrow_s() -> None:
    """Of dictionaries Arrow makes structs with the names of all rows, and vLLM refuses the None of the others'."""
    wanted = {"max_tokens": 5, "stop": ["\n"], "temperature": 0}
    params = ray_rows.prepare_row({"wanted": json.dumps(wanted)})["sampling_params"]
    assert dict(**params) == wanted
    with pytest.raises(pa.ArrowInvalid):
        pa.array([params])


@pytest.mark.parametrize("ids", [[7], [6, 7]])
def test_of_a_recorded_answer_each_token_comes_back(ids: list[int]) -> None:
    places = [None, {5: {"logprob": -9.0, "rank": 9}}, {6: {"logprob": -1.0, "rank": 1}},
              {7: {"logprob": -0.25, "rank": 2}, 8: {"logprob": -0.125, "rank": 1}}]  # fmt: skip
    wanted = row({"prompt_logprobs": 1}, forced=len(ids), each=True, prompt_token_ids=[1, 5, 6, 7])
    result = parse_response({**wanted, "prompt_logprobs": places})["places"]
    assert result == [[[6, -1.0, 1]], [[7, -0.25, 2], [8, -0.125, 1]]][-len(ids) :]


def row(wanted: dict[str, Any], *, forced: int = 0, **result: Any) -> dict[str, Any]:
    base = {"number": 7, "part": 0, "ask": b"", "forced": forced, "wanted": json.dumps(wanted), "time_taken_llm": 1.5}
    return {**base, **result}


def parse_response(worker_row: dict[str, Any]) -> dict[str, Any]:
    reduced = ray_rows.reduce_row(worker_row)
    assert set(reduced) == {"number", "part", "ask", "response"}
    content: dict[str, Any] = json.loads(reduced["response"])
    return content


def test_a_text_comes_back_with_its_tokens() -> None:
    parsed = parse_response(row({"max_tokens": 5}, generated_text="hi", generated_tokens=[5, 6]))
    assert parsed == {"text": "hi", "token_ids": [5, 6], "seconds": 1.5, "choices": []}


def test_an_answer_began_as_many_seconds_ago_as_its_slowest_part_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = RunSettings(model_name="m", backend="ray", tasks=("t",), include_path="pack")
    request = Request("t/0", "t", 0, 0, "choices", "prompt", continuations=("a", "b"))
    request = replace(request, prompt_ids=[1, 2], continuation_ids=([5, 6], [7, 8]))
    rows = [
        {"number": 0, "part": part, "ask": pickle.dumps(request),
         "response": json.dumps({"seconds": seconds, "choices": [[-1.0 - part, True]]})}
        for part, seconds in enumerate((1.5, 40.0))
    ]  # fmt: skip
    monkeypatch.setattr(RayClient, "_asked", lambda *_: iter(rows))
    monkeypatch.setattr(RayClient, "_can_ask_ids", False, raising=False)  # what a cluster says when it is entered
    monkeypatch.setitem(sys.modules, "ray", MagicMock())
    (answer,) = RayClient(settings, model="m", logs=tmp_path).answer([request])
    assert answer.choices == [(-1.0, True), (-2.0, True)]
    assert answer.ended - answer.started == pytest.approx(40)


@pytest.mark.parametrize("key", [int, str])
def test_of_one_token_each_the_logprobs_of_those_that_were_asked_for_come_back_in_their_order(key: type) -> None:
    place = {key(4): {"logprob": -0.5, "rank": 1}, key(9): {"logprob": -2.0, "rank": 3}, key(2): None}
    parsed = parse_response(row({"logprob_token_ids": [9, 4]}, logprobs=[place], generated_tokens=[4]))
    assert parsed["choices"] == [[-2.0, False], [-0.5, True]]


@pytest.mark.parametrize(("rank", "greedy"), [(1, True), (2, False)])
def test_of_several_tokens_the_last_of_the_prompt_are_summed(rank: int, greedy: bool) -> None:
    places = [
        None,
        {5: {"logprob": -9.0, "rank": 9}},
        {6: {"logprob": -1.0, "rank": 1}},
        {7: {"logprob": -0.25, "rank": rank}},
    ]
    parsed = parse_response(
        row({"prompt_logprobs": 1}, forced=2, prompt_token_ids=[1, 5, 6, 7], prompt_logprobs=places)
    )
    assert parsed["choices"] == [[-1.25, greedy]]


@pytest.mark.parametrize(
    ("text", "all_text", "why"),
    [
        ("and so on", "and so on", "length"),
        ("the end", "the end\n\n", "stop"),
        ("the end", "the end<|eot_id|>", "stop"),
        ("caf", "caf\ufffd", None),
        ("one", "two", None),
        ("", "", "length"),
    ],
)
def test_why_an_answer_of_max_tokens_ended_is_said_only_where_its_tokens_tell(
    text: str, all_text: str, why: str | None
) -> None:
    assert explain_ending(text, all_text) == why


def test_the_printed_command_is_that_of_vllm() -> None:
    run = RunSettings(model_name="m", backend="ray", tasks=("a",), include_path="pack")
    engine = find_backend("ray")
    assert engine.command(run) == find_backend("vllm").command(run)
    assert any("cannot ask a Ray cluster" in warning for warning in engine.warnings(run))
