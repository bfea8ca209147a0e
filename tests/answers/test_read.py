"""Files of answers: cut off anywhere, mixed and split, they lose nothing that was written whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_eval.ask.answer_files import Answers, read_answers
from meta_eval.harness.answer import Answer, AnswersError
from meta_eval.harness.chat_completion import ToolCall

TEXT = {"id": "t/0", "prompt_sha256": "a", "text": "It is B.", "finish_reason": "stop"}
LIKELIHOODS = {"id": "t/1", "prompt_sha256": "b", "choices": [{"logprob": -1.5, "is_greedy": True}, {"logprob": -2}]}
TOKENS = {"ids": [5, 6], "logprobs": [-1, -0.5], "ranks": [2, 1], "top_ids": [7, 6], "top_logprobs": [-0.5, -0.5]}
FORCED = {"id": "t/2", "prompt_sha256": "c", "tokens": TOKENS}

texts = st.text(max_size=12) | st.sampled_from(['"}', "\\", "\n{", "]}\n", "\ud83d"])
numbers = st.floats(-1e9, 0)
answers = st.one_of(
    st.fixed_dictionaries({"text": texts, "token_ids": st.lists(st.integers(0, 9), max_size=3)}),
    st.fixed_dictionaries({"choices": st.lists(st.fixed_dictionaries({"logprob": numbers}), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"error": texts}),
)
lines = st.builds(
    lambda number, sha256, content: {"id": f"t/{number}", "prompt_sha256": sha256, **content},
    st.integers(0, 6),
    st.sampled_from("ab"),
    answers,
)


def write(file: Path, content: Sequence[dict[str, Any]]) -> Path:
    file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in content))
    return file


def held(result: Answers) -> dict[str, Any]:
    """What was read, without where it stood and without what stands twice."""

    def plain(answer: Answer) -> tuple[Any, ...]:
        return answer.prompt_sha256, answer.text, answer.choices

    given = {key: plain(answer) for key, answer in result.by_key.items() if key not in result.doubled}
    return {"given": given, "failed": set(result.failed), "doubled": set(result.doubled)}


@given(st.lists(lines, min_size=1, max_size=6), st.data())
def test_a_file_cut_off_at_any_byte_loses_at_most_its_last_line(
    tmp_path_factory: pytest.TempPathFactory, content: list[dict[str, Any]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = write(folder / "whole.jsonl", content).read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    (folder / "cut.jsonl").write_bytes(whole[:cut])
    ends = [at for at, byte in enumerate(whole) if byte == ord("\n")]
    complete = sum(end <= cut for end in ends)  # a line is whole when nothing but its end is missing
    result = read_answers([folder / "cut.jsonl"])
    assert held(result) == held(read_answers([write(folder / "first.jsonl", content[:complete])]))
    torn = cut > 0 and cut not in ends and whole[cut - 1] != ord("\n")
    assert result.cut_off == ([f"{folder / 'cut.jsonl'}, line {complete + 1}"] if torn else [])


@given(st.lists(lines, max_size=8), st.data())
def test_shuffled_and_split_files_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, content: list[dict[str, Any]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    mixed = data.draw(st.permutations(content))
    at = data.draw(st.integers(0, len(mixed)))
    files = [write(folder / "0.jsonl", mixed[:at]), write(folder / "1.jsonl", mixed[at:])]
    assert held(read_answers(files)) == held(read_answers([write(folder / "whole.jsonl", content)]))


@given(st.lists(lines, min_size=1, max_size=4), lines, st.data())
def test_a_line_that_was_cut_off_and_written_on_hides_no_other(
    tmp_path_factory: pytest.TempPathFactory, before: list[dict[str, Any]], torn: dict[str, Any], data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    half = json.dumps(torn).encode()
    half = half[: data.draw(st.integers(1, len(half) - 1))]
    file = write(folder / "on.jsonl", before)
    file.write_bytes(file.read_bytes() + half + b"\n" + json.dumps(before[0]).encode() + b"\n")
    result = read_answers([file])
    assert held(result) == held(read_answers([write(folder / "before.jsonl", before)]))
    assert len(result.cut_off) == 1


def test_an_answer_after_a_failure_counts(tmp_path: Path) -> None:
    failed = {"id": "t/0", "prompt_sha256": "a", "error": "out of memory"}
    for order in ([failed, TEXT], [TEXT, failed]):
        result = read_answers([write(tmp_path / "a.jsonl", order)])
        assert (list(result.by_key), list(result.failed)) == ([("t/0", None)], [])


def test_the_same_answer_twice_is_one(tmp_path: Path) -> None:
    again = {**TEXT, "started": 1.0, "ended": 2.0, "engine": "another"}
    result = read_answers([write(tmp_path / "a.jsonl", [TEXT, again])])
    assert (list(result.by_key), result.doubled) == ([("t/0", None)], {})


@pytest.mark.parametrize(
    "change", [{"text": "It is C."}, {"finish_reason": "length"}, {"model": "x"}, {"prompt_sha256": "z"}]
)
def test_two_answers_that_are_not_alike_are_named_and_the_last_wins_only_where_asked_for(
    change: dict[str, Any], tmp_path: Path
) -> None:
    first, two = write(tmp_path / "1.jsonl", [TEXT]), write(tmp_path / "2.jsonl", [LIKELIHOODS, {**TEXT, **change}])
    assert read_answers([first, two]).doubled == {("t/0", None): (f"{first}, line 1", f"{two}, line 2")}
    last = read_answers([first, two], prefer="last")
    assert (last.doubled, last.by_key["t/0", None].where) == ({}, f"{two}, line 2")


def test_token_ids_are_counted(tmp_path: Path) -> None:
    result = read_answers([write(tmp_path / "a.jsonl", [{**TEXT, "token_ids": [5, 6, 7]}])])
    assert result.by_key["t/0", None].completion_tokens == 3


def test_another_end_than_stop_and_length_is_a_failure(tmp_path: Path) -> None:
    result = read_answers([write(tmp_path / "a.jsonl", [{**TEXT, "finish_reason": "abort"}])])
    assert (
        result.failed["t/0", None].error
        == "finish_reason is 'abort', none of 'stop', 'tool_calls', 'length', 'content_filter'"
    )


def test_two_answers_that_call_different_tools_are_not_alike(tmp_path: Path) -> None:
    calls = [[{"name": "now", "arguments": zone}] for zone in ("{}", '{"zone": "UTC"}')]
    files = [write(tmp_path / f"{n}.jsonl", [{**TEXT, "tool_calls": call}]) for n, call in enumerate(calls)]
    assert read_answers(files).doubled
    assert read_answers(files, prefer="last").by_key["t/0", None].tool_calls == (ToolCall("now", '{"zone": "UTC"}'),)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ([1], "it is no object"),
        ({**TEXT, "tool_calls": {}}, "tool_calls must be a list of"),
        ({**TEXT, "tool_calls": ["now"]}, "tool_calls must be a list of"),
        ({**TEXT, "tool_calls": [{"name": "now", "arguments": {}}]}, "tool_calls must be a list of"),
        ({**TEXT, "reasoning": 1}, "reasoning is 1, and no text"),
        ({"id": "t/0", "text": ""}, "id or prompt_sha256 is missing"),
        ({**TEXT, "id": 5}, "id is 5, and no text"),
        ({**TEXT, "text": ["a"]}, "text is ['a'], and no text"),
        ({**TEXT, "text": None}, "it must hold one of text, choices, tokens and error"),
        ({**TEXT, "choices": [{"logprob": -1}]}, "it must hold one of text, choices, tokens and error"),
        ({**LIKELIHOODS, "choices": [-1.5]}, "choices must be a list of"),
        ({**LIKELIHOODS, "choices": {"logprob": -1}}, "choices must be a list of"),
        ({**LIKELIHOODS, "choices": [{"logprob": float("nan")}]}, "logprob is nan, and no number"),
        ({**LIKELIHOODS, "choices": [{"logprob": 10**400}]}, "and no number"),
        ({**LIKELIHOODS, "choices": [{"logprob": True}]}, "logprob is True, and no number"),
        ({**LIKELIHOODS, "choices": [{"logprob": -1, "is_greedy": 1}]}, "choices must be a list of"),
        ({**TEXT, "tokens": TOKENS}, "it must hold one of text, choices, tokens and error"),
        ({**FORCED, "tokens": [1]}, "tokens: no object"),
        ({**FORCED, "tokens": {**TOKENS, "ranks": [1]}}, "do not have one entry per token"),
        ({**FORCED, "tokens": {**TOKENS, "ids": [5, 2**31]}}, "ids holds a value that is not a 32-bit integer"),
        ({**FORCED, "tokens": {**TOKENS, "ids": [5, True]}}, "ids holds a value that is not a 32-bit"),
        ({**FORCED, "tokens": {**TOKENS, "ids": [5, -1]}}, "a token or a rank is negative"),
        (
            {**FORCED, "tokens": {**TOKENS, "logprobs": [-1, float("nan")]}},
            "logprobs holds a value that is not a number",
        ),
        ({**FORCED, "tokens": {**TOKENS, "logprobs": [-1, 10**400]}}, "logprobs holds a value that is not a number"),
        ({**FORCED, "tokens": {**TOKENS, "top_k_ids": [[1], [2]]}}, "top_k_logprobs is not a list"),
        (
            {**FORCED, "tokens": {**TOKENS, "top_k_ids": [[1], [2, 3]], "top_k_logprobs": [[0], [0, 0]]}},
            "differ in length for a token",
        ),
        ({**TEXT, "completion_tokens": -1}, "completion_tokens is -1, and no count"),
        ({**TEXT, "completion_tokens": 2**53}, "completion_tokens is 9007199254740992, and no count"),
        ({**TEXT, "completion_tokens": 10**400}, "and no count"),
        ({"format": "meta-eval requests", "version": 1}, "holds requests, not answers"),
    ],
)
def test_a_whole_line_that_is_no_answer_is_refused(line: Any, told: str, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(TEXT) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(AnswersError) as error:
        read_answers([file])
    assert told in str(error.value)
    assert str(file) in str(error.value)


def test_tokens_are_read_as_they_stand(tmp_path: Path) -> None:
    more = {"top_k_ids": [[7, 5], [6, 1]], "top_k_logprobs": [[-0.5, -1], [-0.5, -2]]}
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({**FORCED, "id": f"t/{n}", "tokens": {**TOKENS, **fields}}) + "\n"
                            for n, fields in enumerate(({}, more))))  # fmt: skip
    plain, rich = (answer.tokens for answer in read_answers([file]).by_key.values())
    assert plain is not None
    assert rich is not None
    assert (plain.as_json(), plain.top_k) == (TOKENS, 0)
    assert (rich.as_json(), rich.top_k) == ({**TOKENS, **more}, 2)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AnswersError, match="gone.jsonl: cannot be read"):
        read_answers([tmp_path / "gone.jsonl"])
