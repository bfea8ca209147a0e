"""One-to-one matching, and the joins of IFEval and MATH."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from growth import check_growth
from hypothesis import given
from hypothesis import strategies as st
from rows import make_row

from meta_eval.base.errors import DataError, JoinError
from meta_eval.base.hashing import hash_text
from meta_eval.plugins.meta.joins import JOINS, ifeval
from meta_eval.plugins.meta.joins.join import Joined, KnownDifference, OriginalRows
from meta_eval.plugins.meta.joins.text_matching import (
    Matching,
    Problem,
    match_known,
    match_one_to_one,
    match_shown,
    normalise_text,
)
from meta_eval.plugins.meta.source.rows import RowPlace

PLACE = RowPlace("my/evals", "ifeval__strict")
TEXTS = st.lists(st.text(min_size=1), unique_by=lambda text: " ".join(text.split()), max_size=20)


@given(TEXTS, st.randoms())
def test_unique_texts_find_each_other_in_any_order(texts: list[str], random: Any) -> None:
    texts = [text for text in texts if text.isascii()]
    shuffled = random.sample(texts, len(texts))
    matching = match_one_to_one(texts, shuffled)
    assert not matching.problems
    assert [shuffled[pair] for pair in matching.pairs if pair is not None] == texts


@given(
    st.lists(st.sampled_from(["a", "b", "a ", " a", "é", "e\u0301", "c"])),
    st.lists(st.sampled_from(["a", "b", "a\n", "é", "d"])),
)
def test_every_left_row_is_matched_once_or_a_problem(left: list[str], right: list[str]) -> None:
    matching = match_one_to_one(left, right)
    taken = [pair for pair in matching.pairs if pair is not None]
    assert len(taken) == len(set(taken))
    assert {p.left for p in matching.problems} == {i for i, pair in enumerate(matching.pairs) if pair is None}


def test_normalisation_is_used_only_where_exact_fails_and_is_reported() -> None:
    matching = match_one_to_one(["a  b", "cafe\u0301", "x"], ["x", "a b\n", "caf\u00e9"])
    assert matching.pairs == [1, 2, 0]
    assert matching.normalised == [0, 1]


def test_compatibility_characters_are_not_equal() -> None:
    assert match_one_to_one(["x\u00b2"], ["x2"]).pairs == [None]


def test_an_exact_match_wins_over_a_normalised_one() -> None:
    matching = match_one_to_one(["a b"], ["a  b", "a b"])
    assert matching.pairs == [1]
    assert not matching.problems


@pytest.mark.parametrize(
    ("left", "right"),
    [(["a"], ["a", "a"]), (["a", "a"], ["a"]), (["a", "a"], ["a", "a"]), (["a \t b"], ["a b", "a  b"])],
)
def test_what_is_not_one_to_one_is_ambiguous(left: list[str], right: list[str]) -> None:
    problems = match_one_to_one(left, right).problems
    assert [problem.kind for problem in problems] == ["ambiguous"] * len(left)
    assert problems[0].candidates


def test_an_unmatched_text_names_its_nearest_candidates() -> None:
    (problem,) = match_one_to_one(["Solve for x: 2x = 4"], ["Name a river.", "Solve for x: 2x = 6"]).problems
    assert (problem.kind, problem.candidates) == ("unmatched", (1,))


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        (["one", "a"], ["a", "three"], [1, 0]),
        (["three", "a"], ["a", "one"], [1, 0]),
        (["one"], ["one", "three"], [0]),  # an exact match needs no help
        (["one", "three"], ["one"], [0, None]),  # and is not taken away
        (["one"], ["three", "three"], [None]),
        (["one"], ["one ", "three"], [0]),
        (["two"], ["three"], [None]),
        (["one"], ["two"], [None]),
    ],
)
def test_a_known_difference_matches_its_own_texts_one_to_one(
    left: list[str], right: list[str], pairs: list[int | None]
) -> None:
    matching = match_one_to_one(left, right)
    match_known(matching, left, right, [frozenset((hash_text("one"), hash_text("three")))])
    assert matching.pairs == pairs
    assert [problem.left for problem in matching.problems] == [i for i, pair in enumerate(pairs) if pair is None]


def find_shown(text: str, evidence: Sequence[tuple[str, ...]]) -> list[int]:
    """The right rows that a prompt shows, as `match_shown` defines them: each prompt is compared with each row."""
    needles = [tuple(map(normalise_text, texts)) for texts in evidence]
    text = normalise_text(text)
    shown = [index for index, texts in enumerate(needles) if texts and all(part and part in text for part in texts)]
    firsts = {needles[index][0] for index in shown}
    return [n for n in shown if not any(needles[n][0] != first and needles[n][0] in first for first in firsts)]


# Texts that share beginnings, ends and whole blocks, of lengths around those that are looked up.
BLOCKS = [("xy" * size)[:size] + end for size in (0, 1, 14, 15, 16, 17, 31, 64, 65, 256) for end in "xz "]
EVIDENCE = st.lists(st.lists(st.sampled_from(BLOCKS), max_size=4).map("".join), max_size=3).map(tuple)


@given(st.data(), st.lists(EVIDENCE, max_size=30))
def test_a_prompt_shows_what_comparing_it_with_each_row_finds(data: Any, evidence: list[tuple[str, ...]]) -> None:
    texts = [text for texts in evidence for text in texts]
    parts = st.lists(st.sampled_from([*texts, *BLOCKS]), max_size=6)
    prompts = data.draw(st.lists(parts.map("".join), max_size=5))
    matching = Matching([None] * len(prompts), problems=[Problem(n, "unmatched") for n in range(len(prompts))])
    match_shown(matching, prompts, evidence)
    shown = [find_shown(prompt, evidence) for prompt in prompts]
    taken = Counter(rows[0] for rows in shown if len(rows) == 1)
    assert matching.pairs == [rows[0] if len(rows) == 1 and taken[rows[0]] == 1 else None for rows in shown]
    assert [(problem.left, list(problem.candidates)) for problem in matching.problems] == [
        (left, rows) for left, rows in enumerate(shown) if matching.pairs[left] is None
    ]


def _match_prompts(texts: list[tuple[str, ...]]) -> None:
    matching = match_one_to_one([f"row {number}" for number in range(len(texts))], [""] * len(texts))
    match_shown(matching, [f"Solve: {' '.join(some)}" for some in texts], texts)


def _match_hashes(texts: list[tuple[str, ...]]) -> None:
    left, right = (["".join(some) + end for some in texts] for end in ("l", "r"))
    matching = Matching([None] * len(left), problems=[Problem(n, "unmatched") for n in range(len(left))])
    match_known(matching, left, right, [{hash_text(left[n]), hash_text(right[-n - 1])} for n in range(len(left))])


@pytest.mark.parametrize(
    ("match", "write"),
    [
        (_match_prompts, lambda n: (f"Is {n * 7919 % 10007} odd? {n}" * 5,)),
        (_match_prompts, lambda n: ("Write a function of these numbers, and say what it does. " * 3 + f"{n}",)),
        (_match_prompts, lambda n: ("Write a function that does it.", f"f({n})")),
        (_match_prompts, lambda n: ("What is it about?", "b")),
        (_match_hashes, lambda n: (f"Is {n} odd?",)),
    ],
    ids=["different", "one beginning", "one question", "equal", "hashes"],
)
def test_four_times_as_many_rows_take_no_eight_times_as_long(
    match: Callable[[list[tuple[str, ...]]], None], write: Callable[[int], tuple[str, ...]]
) -> None:
    few, many = ([write(number) for number in range(rows)] for rows in (400, 1600))
    check_growth(partial(match, few), partial(match, many), at_most=8)


def ifeval_row(prompt: str, **members: Any) -> dict[str, Any]:
    dialog = {
        "dialog": [{"source": "user", "body": prompt, "is_complete": True, "media": None}],
        "is_eval": False,
        **members,
    }
    return make_row(json.dumps(dialog, ensure_ascii=False), prompts=[prompt + "!"], gold=[])


def original(prompt: str, key: int = 1, **other: Any) -> dict[str, Any]:
    return {"key": key, "prompt": prompt, "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}], **other}


def join(
    rows: list[dict[str, Any]], originals: list[dict[str, Any]], name: str = "ifeval", allow: bool = False
) -> Joined:
    return JOINS[name].join(rows, PLACE, OriginalRows(originals, "my/original"), allow_unmatched=allow)


@given(st.text(min_size=1))
def test_any_prompt_survives_the_dialog(prompt: str) -> None:
    assert join([ifeval_row(prompt)], [original(prompt)]).rows[0]["original_prompt"] == prompt


@pytest.mark.parametrize("prompt", ["Is it true or false?", "null and void ", "__import__('os').system('exit 1')"])
def test_the_dialog_is_json_and_its_words_stay_words(prompt: str) -> None:
    assert join([ifeval_row(prompt)], [original(prompt)]).normalised == ()


def test_code_in_a_dialog_is_never_run(tmp_path: Any) -> None:
    mark = tmp_path / "ran"
    code = f'{{"dialog": [__import__("pathlib").Path({str(mark)!r}).touch()]}}'
    with pytest.raises(DataError, match="malformed"):
        join([make_row(code)], [original("x")])
    assert not mark.exists()


@pytest.mark.parametrize("dialog", [[], [{"source": "user", "body": "a"}, {"source": "user", "body": "b"}], "text"])
def test_a_dialog_without_exactly_one_user_message_stops(dialog: object) -> None:
    with pytest.raises(DataError, match="user messages"):
        join([make_row(json.dumps({"dialog": dialog}))], [original("a")])


def test_sparse_kwargs_stay_sparse_and_filled_ones_become_so() -> None:
    given = {"num_words": 5.0, "relation": "at least", "keywords": None}
    filled = original("p", instruction_id_list=["length_constraints:number_words"], kwargs=[given])
    assert join([ifeval_row("p")], [filled]).rows[0]["kwargs"] == ['{"num_words": 5, "relation": "at least"}']


@pytest.mark.parametrize(
    "broken",
    [{"key": "x"}, {"key": True}, {"key": 10**30}, {"kwargs": []}, {"instruction_id_list": None}, {"kwargs": [5]},
     {"instruction_id_list": [None]}],
)  # fmt: skip
def test_a_malformed_original_stops_and_is_named(broken: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="my/original, split train, row 0: key .*Name the original dataset"):
        join([ifeval_row("p")], [original("p", **broken)])


@pytest.mark.parametrize(
    ("instruction", "arguments", "words"),
    [
        ("punctuation:no_coma", {}, "can check, 'punctuation:no_coma'; did you mean 'punctuation:no_comma'?"),
        ("punctuation:no_comma", {"nonsense": 1}, "nonsense of punctuation:no_comma is 1 and should be left out"),
        ("keywords:existence", {"keywords": ["(((("]}, "keywords of keywords:existence is ['(((('] and should be a list"),
        ("keywords:existence", {"keywords": ["(a+)+$"]}, "is ['(a+)+$'] and should be a list of texts, each a regular expression without"),
        ("keywords:existence", {"keywords": ["a?" * 30 + "a" * 30]}, "each a regular expression without repetitions"),
        ("keywords:existence", {"keywords": [None]}, "is [None] and should be a list of texts"),
        ("keywords:existence", {"keywords": "one"}, "is 'one' and should be a list of texts"),
        ("keywords:existence", {"keywords": []}, "is [] and should be a list of texts"),
        ("language:response_language", {"language": "xx"}, "is 'xx' and should be one of en es"),
        ("length_constraints:number_words", {"num_words": 5, "relation": "exactly"}, "is 'exactly' and should be 'less than'"),
        ("length_constraints:number_words", {"num_words": "5", "relation": "at least"}, "is '5' and should be a whole number"),
        ("length_constraints:number_words", {"num_words": -5, "relation": "at least"}, "is -5 and should be a whole number"),
        ("length_constraints:number_words", {"relation": "at least"}, "num_words of length_constraints:number_words is missing"),
        ("keywords:letter_frequency", {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}, "text of one character"),
    ],
)  # fmt: skip
def test_an_instruction_that_the_checkers_cannot_check_stops(instruction: str, arguments: Any, words: str) -> None:
    broken = original("p", 7, instruction_id_list=[instruction], kwargs=[arguments])
    with pytest.raises(DataError, match=rf"my/original, split train, row 0: key 7.*{re.escape(words)}"):
        join([ifeval_row("p")], [broken])


def test_the_instructions_and_their_arguments_are_those_of_the_installed_lm_eval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import nltk

    monkeypatch.setattr(nltk, "download", lambda *_, **__: False)
    from lm_eval.tasks.ifeval import instructions_registry, instructions_util

    checkers = instructions_registry.INSTRUCTION_DICT
    assert {name: list(known) for name, known in ifeval.INSTRUCTIONS.items()} == {
        name: list(inspect.signature(checkers[name].build_description).parameters)[1:] for name in sorted(checkers)
    }
    assert ifeval.LANGUAGES.split() == list(instructions_util.LANGUAGE_CODES)


def test_an_unmatched_row_stops_with_its_key_and_nearest_candidate() -> None:
    rows = [ifeval_row("Write a poem about rain."), ifeval_row("Write a letter.")]
    originals = [original("Write a letter."), original("Write a poem about rains.", 2)]
    with pytest.raises(
        JoinError,
        match=rf"row 0 \(question hash {rows[0]['input_question_hash']}\).*nearest: row 1: 'Write a poem about rains",
    ):
        join(rows, originals)


def test_allow_unmatched_leaves_out_and_lists() -> None:
    rows = [ifeval_row("a"), ifeval_row("b")]
    joined = join(rows, [original("a")], allow=True)
    assert [row["original_prompt"] for row in joined.rows] == ["a"]
    assert joined.left_out == ((rows[1]["input_question_hash"], "unmatched"),)


def test_a_known_difference_between_copies_is_accepted_and_reported_by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = "Add at least one [place].", "Add at least three [place]."
    known = KnownDifference("some row", frozenset(map(hash_text, texts)), "known")
    monkeypatch.setitem(JOINS, "ifeval", replace(JOINS["ifeval"], known_differences=(known,)))  # type: ignore[arg-type]
    row = ifeval_row(texts[0])
    joined = join([row, ifeval_row("a")], [original("a"), original(texts[1], key=7)])
    assert [joined_row["key"] for joined_row in joined.rows] == [7, 1]
    (pair,) = joined.known_differences
    assert (pair.difference.name, pair.question_hash) == ("some row", row["input_question_hash"])
    assert (pair.text_sha256, pair.original_sha256) == (hash_text(texts[0]), hash_text(texts[1]))
    assert join([ifeval_row("a")], [original("a")]).known_differences == ()


def test_a_row_without_an_original_names_the_copies_that_fit() -> None:
    with pytest.raises(JoinError, match=r"known to fit: wis-k/instruction-following-eval .*google-research") as caught:
        join([ifeval_row("a"), ifeval_row("b")], [original("a")])
    assert "allow_unmatched" in str(caught.value)


def test_allow_unmatched_does_not_allow_nothing() -> None:
    with pytest.raises(JoinError, match="Nothing matched"):
        join([ifeval_row("a")], [original("b")], allow=True)


def test_math_brings_its_solution_and_leaves_other_originals_alone() -> None:
    originals = [
        {"problem": f"p{n}", "solution": f"\\boxed{{{n}}}", "level": "Level 5", "type": "Algebra"} for n in range(3)
    ]
    joined = join([make_row("p1")], originals, name="math")
    assert (joined.rows[0]["solution"], joined.rows[0]["type"]) == ("\\boxed{1}", "Algebra")


@pytest.mark.parametrize("depth", [150, 5000])
def test_a_deep_question_is_a_prompt_and_a_deep_dialog_is_named(depth: int) -> None:
    text = "[" * depth + "]" * depth
    assert ifeval.read_dialog_prompt({"input_question": text}) == text
    with pytest.raises(DataError, match="^input_question holds a truncated or malformed JSON dialog"):
        ifeval.read_dialog_prompt({"input_question": f'{{"dialog": {text}}}'})
