"""Code tasks at prepare: offered only when the user allows it, and joined with their originals without a guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from golden import shipped
from hypothesis import given
from hypothesis import strategies as st
from marks import thorough
from meta_datasets import StubDataset
from noted import noted
from places import TEMPLATES
from rows import make_row, write_rows

from meta_eval import prepare
from meta_eval.base.errors import ConfigError, DataError, JoinError
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.config import Config
from meta_eval.plugins.meta.joins import JOINS
from meta_eval.plugins.meta.joins.join import Joined, OriginalRows
from meta_eval.plugins.meta.joins.text_matching import match_one_to_one, match_shown
from meta_eval.plugins.meta.source.card import split_files
from meta_eval.plugins.meta.source.rows import RowPlace
from meta_eval.plugins.meta.task_selection import find_withheld_tasks, select_meta_tasks

CODE = ("meta_human_eval", "meta_human_eval_plus", "meta_mbpp", "meta_mbpp_plus")
EVALS = StubDataset(("human_eval", "human_eval_plus", "mbpp", "mbpp_plus", "mmlu_pro"))
ONLY_CODE = StubDataset(("human_eval", "mbpp"))
FLAG = "--confirm_run_unsafe_code"


def config(tmp_path: Path, **changes: Any) -> Config:
    values = {"model_name": "m", "evals_dataset": "sample", "work_dir": str(tmp_path / "pack"), "max_model_len": 10**6}
    return Config(**(values | changes))  # type: ignore[arg-type]


# Only when allowed


def test_a_task_that_runs_programs_must_be_allowed() -> None:
    folder = shipped()
    for task in CODE:
        with pytest.raises(ConfigError, match=f"'{task}' runs model-written code. Set allow_code: true"):
            select_meta_tasks(folder, [task], [EVALS])
    allowed, _ = select_meta_tasks(folder, CODE, [EVALS], allow_code=True)
    assert tuple(selection.template.name for selection in allowed) == CODE


def test_a_group_leaves_them_out_unless_allowed() -> None:
    folder = shipped()
    _, groups = select_meta_tasks(folder, ["meta_instruct_all"], [EVALS])
    assert not set(CODE) & set(groups["meta_instruct_all"])
    assert set(find_withheld_tasks(folder, groups, [EVALS])) == set(CODE)
    _, groups = select_meta_tasks(folder, ["meta_instruct_all", "meta_code"], [EVALS], allow_code=True)
    assert set(CODE) <= set(groups["meta_instruct_all"])
    assert set(groups["meta_code"]) == set(CODE)


def test_a_group_of_nothing_else_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="every task of the group 'meta_code' runs model-written code.*allow_code: true"
    ):
        select_meta_tasks(shipped(), ["meta_code"], [ONLY_CODE])


def test_a_task_that_the_evals_dataset_lacks_is_refused_for_that() -> None:
    with pytest.raises(ConfigError, match="no subset 'mbpp'"):
        select_meta_tasks(shipped(), ["meta_mbpp"], [StubDataset(("mmlu_pro",))])


@thorough
def test_prepare_says_what_it_left_out_and_the_command_confirms_only_what_runs(tmp_path: Path) -> None:
    asked = {"tasks": ("meta_mmlu_pro_instruct", "meta_instruct_all")}
    with noted() as notes:
        without = prepare(config(tmp_path, **asked, template_dir=str(TEMPLATES)))
    assert any("left out" in line and "meta_mbpp_plus" in line and "allow_code" in line for line in notes)
    assert not set(CODE) & set(without.manifest.tasks)
    assert FLAG not in without.manifest.command


@pytest.mark.parametrize(
    ("allow_code", "runs_code", "expected"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_the_command_confirms_only_what_is_allowed_and_runs(allow_code: bool, runs_code: bool, expected: bool) -> None:
    made = Config(model_name="m", evals_dataset="e", tasks=("t",), allow_code=allow_code)
    command = find_backend("server").command(made.run_settings(["t"], runs_code=runs_code))
    assert (FLAG in command) is expected


def test_a_pack_of_code_tasks_is_joined_and_complete(tmp_path: Path) -> None:
    with noted() as notes:
        made = prepare(config(tmp_path, tasks=CODE, allow_code=True)).manifest
    assert FLAG in made.command
    assert made.tasks["meta_mbpp_plus"].docs_file == "joined_mbpp_plus.parquet"
    assert made.tasks["meta_mbpp_plus"].join.matched == made.tasks["meta_mbpp_plus"].rows == 14
    assert {"code/jail.py", "code/runner.py", "code/kernel_limits.py", "_common/rows.py"} <= set(made.files)
    # The questions of the sample's MBPP+ hold more than the original's text, and two of its MBPP are in the same words.
    shown = "question_is_not_the_originals_text_but_the_prompt_shows_it"
    assert {task: entry.warnings.get(shown, 0) for task, entry in made.tasks.items()} == {
        "meta_human_eval": 0,
        "meta_human_eval_plus": 0,
        "meta_mbpp": 2,
        "meta_mbpp_plus": 14,
    }
    assert any("14 of 14 rows were joined by what their prompt shows" in line for line in notes)


# Joins


def exercise(text: str, test: str, **more: Any) -> dict[str, Any]:
    row = {"task_id": 11, "text": text, "code": "pass", "test_list": [test], "test_setup_code": ""}
    return row | more


def function(**changes: Any) -> dict[str, Any]:
    test = "def check(candidate):\n    assert candidate() == 1\n"
    row = {"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "    return 1\n", "entry_point": "f"}
    return row | {"test": test} | changes


def asked(question: str, shown: str) -> dict[str, Any]:
    turn = "<|start_header_id|>{}<|end_header_id|>\n\n{}<|eot_id|>".format
    earlier = turn("user", "Double. assert double(1) == 2") + turn("assistant", "pass")
    return make_row(question, prompts=[earlier + turn("user", shown) + "<|start_header_id|>assistant"], subtask=None)


def join(name: str, rows: list[dict[str, Any]], originals: list[dict[str, Any]]) -> Joined:
    place = RowPlace("my/evals", name)
    return JOINS[name].join(rows, place, OriginalRows(originals, "my/original"), allow_unmatched=False)


def test_a_question_that_is_the_originals_text_decides() -> None:
    joined = join("mbpp", [asked("Halve.", "other words")], [exercise("Halve.", "assert h(2) == 1")])
    assert (joined.rows[0]["test_list"], joined.shown) == (["assert h(2) == 1"], ())


def test_else_the_last_request_must_show_text_and_first_test_of_one_original() -> None:
    originals = [
        exercise("Double.", "assert double(1) == 2"),  # shown as an example, in an earlier turn
        exercise("Turn it around.", "assert words('a b') == 'b a'"),
        exercise("Turn it around.", "assert digits(12) == 21"),
        exercise("Turn it", "assert digits(12) == 21"),  # its text is a part of another's
    ]
    row = asked('{"dialog": []}', "You are an expert.  Turn it around.\nassert digits(12) == 21")
    joined = join("mbpp", [row], originals)
    assert joined.rows[0]["test_list"] == ["assert digits(12) == 21"]
    assert joined.rows[0]["original_prompt"] == "Turn it around."
    assert joined.shown == (row["input_question_hash"],)


@pytest.mark.parametrize(
    ("shown", "originals", "words"),
    [
        ("Halve. assert h(2) == 3", [exercise("Halve.", "assert h(2) == 1")], "no row with this text"),
        ("Double. assert d(1) == 2", [exercise("Double.", "assert d(1) == 2")] * 2, "not exactly one row"),
        ("A. B. assert f(1)", [exercise("A.", "assert f(1)"), exercise("B.", "assert f(1)")], "not exactly one row"),
    ],
    ids=["test-differs", "original-twice", "two-shown"],
)
def test_what_is_not_certain_stops(shown: str, originals: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(JoinError, match=words):
        join("mbpp", [asked("?", shown)], originals)


def test_no_original_is_given_twice() -> None:
    originals = [exercise("Halve.", "assert h(2) == 1"), exercise("Double.", "assert d(1) == 2")]
    shown = "Halve. assert h(2) == 1"
    with pytest.raises(JoinError, match="2 of 2 rows"):
        join("mbpp", [asked("a", shown), asked("b", shown)], originals)
    with pytest.raises(JoinError, match="1 of 2 rows"):
        join("mbpp", [asked("Halve.", "x"), asked("b", shown)], originals)


@given(
    st.lists(st.text(alphabet="ab ", min_size=1, max_size=6), min_size=1, max_size=6),
    st.lists(st.text(alphabet="ab ", max_size=12), max_size=6),
)
def test_shown_pairs_are_one_to_one_and_hold_their_evidence(texts: list[str], prompts: list[str]) -> None:
    matching = match_one_to_one([f"row {number}" for number in range(len(prompts))], texts)
    match_shown(matching, prompts, [(text,) for text in texts])
    pairs = [pair for pair in matching.pairs if pair is not None]
    assert len(pairs) == len(set(pairs))
    assert {problem.left for problem in matching.problems} == {i for i, p in enumerate(matching.pairs) if p is None}
    for left, pair in enumerate(matching.pairs):
        if pair is not None:
            words = " ".join(texts[pair].split())
            assert words
            assert words in " ".join(prompts[left].split())


@pytest.mark.parametrize(
    ("name", "original", "words"),
    [
        ("mbpp", exercise("Q", "t", code=None), "code"),
        ("mbpp", exercise("Q", "t", test_list=[]), "test_list"),
        ("mbpp", exercise("Q", "t") | {"text": None}, "text or prompt"),
        ("mbpp_plus", exercise("Q", "t"), "test "),
        ("humaneval", {"prompt": "Q", "test": "t", "canonical_solution": "c", "task_id": "i"}, "entry_point"),
        (
            "mbpp",
            exercise("Q", "t()", test_imports="import math"),
            "test_imports is 'import math' and should be a list",
        ),
        (
            "mbpp",
            exercise("Q", "t()", test_imports=[None]),
            r"test_imports is \[None\] and should be a list of strings",
        ),
        ("mbpp", exercise("Q", "t()", test_imports=5), "test_imports is 5 and should be a list of strings"),
        ("mbpp", exercise("Q", "t()", test_setup_code=["x"]), r"test_setup_code is \['x'\] and should be a string"),
        ("mbpp", exercise("Q", ""), "test_list holds no test"),
        ("mbpp", exercise("Q", "# no test"), "test_list holds no test"),
        ("mbpp", exercise("Q", "pass"), "test_list holds no test"),
        ("mbpp", exercise("Q", "assert t("), "test_list is not Python, line 1"),
        ("mbpp", exercise("Q", "t()", test_setup_code="def"), "test_imports and test_setup_code is not Python, line 1"),
        ("mbpp_plus", exercise("Q", "t()") | {"test": "# none"}, "test holds no test"),
        ("mbpp_plus", exercise("Q", "t()") | {"test": "assert t()\0"}, "test is not Python.*null bytes"),
        ("humaneval", function(test="def check(candidate):\n    assert candidate(\n"), "test is not Python, line 2"),
        (
            "humaneval",
            function(test="def check(candidate):\n    assert candidate()\0"),
            "test is not Python.*null bytes",
        ),
        (
            "humaneval",
            function(test="def chekc(candidate):\n    assert candidate()"),
            r"should define check\(candidate\)",
        ),
        ("humaneval", function(test="def check(candidate):\n    pass"), "check of test never uses candidate"),
        ("humaneval", function(entry_point="not a name"), "entry_point is 'not a name', and prompt begins no such"),
        ("humaneval", function(entry_point="g"), "entry_point is 'g', and prompt begins no such function"),
    ],
)
def test_a_malformed_original_is_named(name: str, original: dict[str, Any], words: str) -> None:
    question = original.get("prompt") or "Q"
    with pytest.raises(DataError, match=words) as caught:
        join(name, [asked(question, question)], [original])
    assert "my/original, split test, row 0" in str(caught.value)


def test_every_form_of_mbpp_brings_its_set_up() -> None:
    full = exercise("Q", "t()", test_setup_code="root = 1")
    sanitized = {"task_id": 1, "prompt": "Q", "code": "c", "test_imports": ["import math"], "test_list": ["t()"]}
    assert join("mbpp", [asked("Q", "Q")], [full]).rows[0]["test_setup"] == "root = 1"
    assert join("mbpp", [asked("Q", "Q")], [sanitized]).rows[0]["test_setup"] == "import math"


def test_a_card_with_several_configs_is_read_by_its_default_one() -> None:
    card = """---
configs:
- config_name: full
  data_files:
  - {split: train, path: full/train-*}
  - {split: test, path: full/test-*}
  default: true
- config_name: sanitized
  data_files:
  - {split: test, path: sanitized/test-*}
---
"""
    names = [f"{name}-00000-of-00001.parquet" for name in ("full/train", "full/test", "sanitized/test")]
    assert split_files(card, names, "test") == ("full/test-00000-of-00001.parquet",)


def test_an_original_of_ones_own_is_read_from_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-3.1-8B-Instruct-evals"
    write_rows(folder / "mbpp.jsonl", [asked("Halve.", "Halve.")])
    table = write_rows(tmp_path / "table.jsonl", [exercise("Halve.", "assert halve(2) == 1")])
    made = prepare(
        config(tmp_path, evals_dataset=str(folder), tasks=("meta_mbpp",), allow_code=True, template_dir=str(TEMPLATES),
               originals={"mbpp": {"id": str(table)}}),
    )  # fmt: skip
    assert made.manifest.tasks["meta_mbpp"].docs == 1


def test_a_task_whose_functions_are_all_its_own_still_brings_what_they_load() -> None:
    tasks = shipped().tasks
    for name in (*CODE, "meta_ifeval"):
        assert "_common/rows.py" in {file.as_posix() for file in tasks[name].files}
