"""Files of answers: cut off anywhere, mixed and split, they lose nothing that was written whole."""

from __future__ import annotations

import gzip
import json
import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import THOROUGH

from meta_eval.ask.answer_files import Answers, read_answers
from meta_eval.harness.answer import Answer, AnswersError, format_answer, read_answer
from meta_eval.harness.chat_completion import ToolCall
from meta_eval.harness.token_logprobs import TokenLogprobs

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
        ({**LIKELIHOODS, "choices": [{"logprob": 10**400}]}, "and no number up to 1.8e308"),
        ({**TEXT, "started": 10**400}, "and no number up to 1.8e308"),
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


@pytest.mark.parametrize("name", ["model", "engine", "endpoint", "response_model"])
def test_no_credential_of_a_foreign_file_becomes_part_of_results(name: str, tmp_path: Path) -> None:
    line = {"id": "t/0", "prompt_sha256": "0" * 64, "text": "A", name: "https://me:s3cret@host/v1?api_key=s3cret"}
    (answer,) = read_answers([write(tmp_path / "answers.jsonl", [line])]).by_key.values()
    assert getattr(answer, name) == "https://…@host/v1?api_key=…"


@pytest.mark.parametrize(
    ("logprob", "is_read"), [(-1.0, True), (0.0, True), (1e-6, True), (3.0, False), (1e300, False)]
)
def test_a_likelihood_above_one_is_a_failure(logprob: float, is_read: bool, tmp_path: Path) -> None:
    line = {"id": "t/0", "prompt_sha256": "0" * 64, "choices": [{"logprob": logprob, "is_greedy": True}]}
    read = read_answers([write(tmp_path / "answers.jsonl", [line])])
    assert (bool(read.by_key), bool(read.failed)) == (is_read, not is_read)


@pytest.mark.parametrize(
    ("fields", "is_read"),
    [({}, True), ({"top_logprobs": [2.5, -0.5]}, False), ({"logprobs": [-0.5, -0.25]}, False),
     ({"top_k_ids": [[7], [6]], "top_k_logprobs": [[-0.5], [2.5]]}, False)],
)  # fmt: skip
def test_tokens_that_no_model_can_give_are_a_failure(fields: dict[str, Any], is_read: bool, tmp_path: Path) -> None:
    tokens = {**TOKENS, "logprobs": [-0.5, -0.5], "top_logprobs": [-0.5, -0.5], **fields}
    read = read_answers([write(tmp_path / "answers.jsonl", [{**FORCED, "tokens": tokens}])])
    assert (bool(read.by_key), bool(read.failed)) == (is_read, not is_read)


def test_what_is_said_of_an_endpoint_holds_no_credential(tmp_path: Path) -> None:
    checks = [{"name": "x", "what": "api_key=s3cret", "passed": False}]
    head = {"format": "meta-eval answers", "endpoint": {"checked": [{"checks": checks}], "token": "s3cret"}}
    deep = {"format": "meta-eval answers", "endpoint": json.loads('{"a":' * 200 + "1" + "}" * 200)}
    line = {"id": "t/0", "prompt_sha256": "0" * 64, "text": "A"}
    (note,) = read_answers([write(tmp_path / "answers.jsonl", [head, deep, line])]).endpoint
    assert note == {"checked": [{"checks": [{**checks[0], "what": "api_key=…"}]}], "token": "…"}


@pytest.mark.parametrize(("content", "told"), [("{}".encode("utf-16"), "UTF-16"), (gzip.compress(b"{}"), "gzip")])
def test_a_file_in_another_form_is_told_with_what_to_do(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_bytes(content)
    with pytest.raises(AnswersError, match=f"cannot be read: it is .*{told}"):
        read_answers([tmp_path / "answers.jsonl"])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AnswersError, match="gone.jsonl: cannot be read"):
        read_answers([tmp_path / "gone.jsonl"])


def draw_answer(rng: random.Random) -> Answer:
    """An answer with any of the fields that a line holds."""
    text = lambda: "".join(rng.choices('aé"\\\n{}\u2028', k=rng.randrange(9)))  # noqa: E731
    likelihood = lambda: -rng.randrange(1, 2**12) / 64  # noqa: E731 (six digits and a float of 32 bits hold it)
    count = rng.randrange(1, 4)
    ids = lambda: array("i", rng.choices(range(9), k=count))  # noqa: E731
    values = lambda: array("f", [likelihood() for _ in range(count)])  # noqa: E731
    several = ([[1, 2]] * count, [[-0.5, -1.5]] * count) if rng.random() < 0.5 else None
    top = several and tuple([array(kind, row) for row in rows] for kind, rows in zip("if", several, strict=True))
    said: list[dict[str, Any]] = [
        {"text": text()},
        {"choices": tuple((likelihood(), rng.choice((True, False, None))) for _ in range(count))},
        {"tokens": TokenLogprobs(ids(), values(), ids(), ids(), values(), *(top or ()))},
        {"error": text()},
    ]
    more = {
        **{name: text() for name in ("request_sha256", "reasoning", "engine", "model", "response_model", "endpoint")},
        **{name: rng.choice((0, 7, 2**53 - 1)) for name in ("prompt_tokens", "completion_tokens", "cached_tokens")},
        **{name: rng.random() * 2e9 for name in ("started", "ended")},
        "tool_calls": tuple(ToolCall(text(), text()) for _ in range(count)),
        "finish_reason": rng.choice(("stop", "length", "abort")),
        "random_place": rng.randrange(99),
    }
    chosen = {name: value for name, value in more.items() if rng.random() < 0.5}
    return Answer(id=text(), prompt_sha256=text(), where="here", **rng.choice(said), **chosen)


def test_what_is_written_is_read_again() -> None:
    rng = random.Random(1)
    for _ in range(5000 if THOROUGH else 1000):
        answer = draw_answer(rng)
        assert read_answer(json.loads(json.dumps(format_answer(answer))), "here") == answer


def test_a_line_holds_nothing_of_this_run_alone() -> None:
    answer = Answer(id="t/0", prompt_sha256="a", text="", where="here", retry=False, is_chat=True, tools_lost=True)
    assert format_answer(answer) == {"id": "t/0", "prompt_sha256": "a", "text": ""}
