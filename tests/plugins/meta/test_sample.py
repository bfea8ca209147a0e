"""The embedded sample: in Meta's layout, true to itself, and with exactly the disagreements that it declares."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import math
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import UndefinedError
from marks import each
from places import REPOSITORY

from meta_eval.base.errors import SourceError
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.source import sample, sample_rows
from meta_eval.plugins.meta.source.rows import read_evals_rows

FOLDER = REPOSITORY / "src" / "meta_eval" / "plugins" / "meta" / "sample"

I31, B31, I32, B32, I33 = (
    "Llama-3.1-8B-Instruct-evals",
    "Llama-3.1-8B-evals",
    "Llama-3.2-3B-Instruct-evals",
    "Llama-3.2-3B-evals",
    "Llama-3.3-70B-Instruct-evals",
)
SUBSETS = [
    (I31, "ifeval__strict"),
    (I31, "math_hard"),
    (I31, "gpqa"),
    (I31, "mmlu_pro"),
    (B31, "bbh"),
    (B31, "mmlu_pro"),
    (I32, "mmlu"),
    (I32, "math"),
    (I32, "gpqa"),
    (B32, "mmlu"),
]  # those of the recipe
each_subset = each(("part", "subset"), SUBSETS)
EVERY = sorted(key for key in sample.read_tables() if key[0] != "originals")
every_subset = each(("part", "subset"), EVERY)

# The recipe's patterns, and which of several matches counts; of bbh that of the benchmark's authors.
PARSERS = {
    (I31, "gpqa"): ("best answer is ([A-Z])", -1),
    (I31, "mmlu_pro"): ("best answer is ([A-Z])", -1),
    (I32, "mmlu"): (" ([A-D])", -1),
    (I32, "gpqa"): (" ([A-Z])", -1),
    (B31, "mmlu_pro"): (r"answer is \(([A-Z])\)", 0),
    (B31, "bbh"): (r"(?m:the answer is (.*?)\.?[ \t]*$)", 0),
}

STRING = (str,)
# Column by column, in Meta's order: the types of its values and of what they hold.
COLUMNS = {
    "task_type": STRING,
    "task_name": STRING,
    "subtask_name": (str, type(None)),
    "input_question": STRING,
    "input_choice_list": (dict, type(None)),
    "input_final_prompts": (list,),
    "input_correct_responses": (list,),
    "output_prediction_text": (list, type(None)),
    "output_parsed_answer": STRING,
    "output_choice_completions": (list, type(None)),
    "output_choice_negative_log_likelihoods": (dict, type(None)),
    "output_metrics": (dict,),
    "is_correct": (bool, type(None)),  # none where the metric is no yes or no
    "input_question_hash": STRING,
    "input_final_prompts_hash": (list,),
    "benchmark_label": STRING,
    "eval_config": (dict,),
}


def read(part: str, subset: str) -> list[dict]:
    return [json.loads(line) for line in sample.read_tables()[part, subset].content().decode().split("\n")[:-1]]


def disagreements(part: str, subset: str) -> set[str]:
    return set(sample.read_tables()[part, subset].disagreements)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def boxed(solution: str) -> str:
    """What the last box of a solution holds; the solutions here box nothing deeper than two levels of braces."""
    return re.findall(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}", solution)[-1]


# Layout


def test_the_sample_holds_the_subsets_of_the_recipe() -> None:
    assert set(SUBSETS) <= set(EVERY)


@every_subset
def test_rows_have_metas_columns_in_their_order_and_types(part: str, subset: str) -> None:
    for row in read(part, subset):
        assert list(row) == list(COLUMNS)
        for column, kinds in COLUMNS.items():
            assert isinstance(row[column], kinds), column
        assert all(isinstance(value, str) for value in row["eval_config"].values())
        assert all(isinstance(value, float) for value in row["output_metrics"].values())
        assert all(value is None or isinstance(value, str) for value in (row["input_choice_list"] or {}).values())


@every_subset
def test_rows_have_the_hashes_of_their_question_and_prompts(part: str, subset: str) -> None:
    for row in read(part, subset):
        assert row["input_question_hash"] == sha256(row["input_question"])
        assert row["input_final_prompts_hash"] == [sha256(prompt) for prompt in row["input_final_prompts"]]


@each_subset
def test_a_subset_has_at_least_12_rows_and_two_subtasks_where_the_real_one_has_some(part: str, subset: str) -> None:
    rows = read(part, subset)
    subtasks = {row["subtask_name"] for row in rows}
    assert len(rows) >= 12
    if subset in ("ifeval__strict", "gpqa"):
        assert subtasks == {None}
    else:
        assert len(subtasks) >= 2
        assert all(name.startswith(rows[0]["task_name"] + ".") for name in subtasks)


@each_subset
def test_a_subset_has_right_wrong_and_unparsable_answers(part: str, subset: str) -> None:
    rows = read(part, subset)
    assert {row["is_correct"] for row in rows} == {True, False}
    if rows[0]["task_type"] == "Generative":
        assert any(row["output_parsed_answer"] == "" and not row["is_correct"] for row in rows)


@each_subset
def test_a_gold_letter_names_an_option_and_every_letter_is_a_key(part: str, subset: str) -> None:
    for row in read(part, subset):
        if row["input_choice_list"] is not None:
            letters = "ABCDEFGHIJ" if subset == "mmlu_pro" else "ABCD"
            assert "".join(row["input_choice_list"]) == letters
            assert row["input_choice_list"][row["input_correct_responses"][0].removeprefix("Answer: ")] is not None


@each_subset
def test_prompts_are_short_hold_the_question_and_end_where_the_model_goes_on(part: str, subset: str) -> None:
    endings = {
        I31: "<|start_header_id|>assistant<|end_header_id|>\n\n",
        B31: "A: Let's think step by step.",
        I32: "<|start_header_id|>assistant<|end_header_id|>\n\n" + ("" if subset == "math" else "The best answer is"),
    }
    for row in read(part, subset):
        question = row["input_question"]
        asked = json.loads(question)["dialog"][0]["body"] if subset == "ifeval__strict" else question
        for number, prompt in enumerate(row["input_final_prompts"]):
            assert asked.strip() in prompt
            assert len(prompt) < 6_000  # far below 1,500 tokens of English
            assert prompt.endswith(endings.get(part, f"Answer: {'ABCD'[number]}"))


# Odd cases that prepare must live with


def test_one_prompt_brings_its_own_bos() -> None:
    prompts = [prompt for key in SUBSETS for row in read(*key) for prompt in row["input_final_prompts"]]
    assert sum(prompt.startswith("<|begin_of_text|>") for prompt in prompts) == 1
    assert sum(prompt.count("<|begin_of_text|>") for prompt in prompts) == 1


def test_base_mmlu_has_one_duplicate_pair_and_no_other_subset_has_any() -> None:
    for part, subset in SUBSETS:
        prompts = [tuple(row["input_final_prompts"]) for row in read(part, subset)]
        assert len(prompts) - len(set(prompts)) == (1 if part == B32 else 0)


def test_ifeval_has_literals_white_space_and_letters_that_a_careless_reader_breaks() -> None:
    questions = [row["input_question"] for row in read(I31, "ifeval__strict")]
    prompts = [json.loads(question)["dialog"][0]["body"] for question in questions]
    assert all(re.search(r": null\b", question) and re.search(r": true\b", question) for question in questions)
    assert any(re.search(r"\btrue\b", prompt) for prompt in prompts)
    assert any(prompt != prompt.rstrip() for prompt in prompts)
    assert any(not prompt.isascii() for prompt in prompts)


# Verdicts


@pytest.mark.parametrize("key", PARSERS)
def test_the_parser_gives_the_recorded_verdict_but_for_the_declared_disagreements(key: tuple[str, str]) -> None:
    pattern, which = PARSERS[key]
    to_the_letter = key == (B31, "bbh")
    differ = set()
    for row in read(*key):
        matches = re.findall(pattern, row["output_prediction_text"][0])
        answer = matches[which] if matches else ""
        assert answer == row["output_parsed_answer"]
        gold = row["input_correct_responses"][0]
        right = (
            answer == gold if to_the_letter else re.sub(r"\W", "", answer).lower() == re.sub(r"\W", "", gold).lower()
        )
        if right != row["is_correct"]:
            differ.add(row["input_question_hash"])
    assert differ == disagreements(*key)


@pytest.mark.parametrize(("part", "subset"), [key for key in EVERY if read(*key)[0]["task_type"] == "Choice"])
def test_the_likeliest_choice_gives_the_recorded_verdict(part: str, subset: str) -> None:
    for row in read(part, subset):
        assert row["task_type"] == "Choice"
        assert row["output_prediction_text"] is None
        completions = row["output_choice_completions"]
        likelihoods = row["output_choice_negative_log_likelihoods"]
        scores = likelihoods["text" if subset == "boolq" else "raw"]  # yes and no differ in length
        assert len(scores) == len(completions) == len(row["input_final_prompts"])
        assert likelihoods["text"] == [
            round(raw / len(text), 6) for raw, text in zip(likelihoods["raw"], completions, strict=True)
        ]
        assert row["output_parsed_answer"] == completions[scores.index(min(scores))]
        assert row["is_correct"] == (row["output_parsed_answer"] in row["input_correct_responses"])
        prompts = row["input_final_prompts"]
        assert len({prompt.removesuffix(c) for prompt, c in zip(prompts, completions, strict=True)}) == 1
        assert all(prompt.endswith(c) for prompt, c in zip(prompts, completions, strict=True))


def test_lm_evals_checkers_give_the_recorded_ifeval_verdicts_but_for_the_declared_disagreements() -> None:
    from langdetect import DetectorFactory
    from lm_eval.tasks.ifeval.utils import process_results

    DetectorFactory.seed = 0
    original = {row["prompt"]: row for row in read("originals", "ifeval")}
    differ, loose_only, read_otherwise = set(), 0, 0
    for row in read(I31, "ifeval__strict"):
        scores = process_results(
            original[json.loads(row["input_question"])["dialog"][0]["body"]], row["output_prediction_text"]
        )
        loose_only += scores["prompt_level_loose_acc"] and not scores["prompt_level_strict_acc"]
        followed = scores["inst_level_strict_acc"]
        if (sum(followed) in (1, len(followed))) != row["is_correct"]:  # which is not the prompt-level verdict
            differ.add(row["input_question_hash"])
        else:
            assert row["output_metrics"]["inst_acc"] == sum(followed) / len(followed)
            read_otherwise += scores["prompt_level_strict_acc"] != row["is_correct"]
    assert differ == disagreements(I31, "ifeval__strict")
    assert loose_only >= 2
    assert read_otherwise >= 1


def test_each_deliberate_disagreement_names_one_row_and_no_subset_has_more_than_two() -> None:
    declared = {key: table.disagreements for key, table in sample.read_tables().items() if table.disagreements}
    assert set(declared) >= {
        (I31, "ifeval__strict"),
        (I31, "math_hard"),
        (I31, "gpqa"),
        (I31, "mmlu_pro"),
        (B31, "bbh"),
    }
    for key, whys in declared.items():
        hashes = [row["input_question_hash"] for row in read(*key)]
        assert 1 <= len(whys) <= 2
        assert all(hashes.count(question) == 1 and why for question, why in whys.items())


# Originals


def test_every_ifeval_row_has_exactly_one_original_and_some_originals_have_no_row() -> None:
    prompts = [row["prompt"] for row in read("originals", "ifeval")]
    asked = [json.loads(row["input_question"])["dialog"][0]["body"] for row in read(I31, "ifeval__strict")]
    assert all(prompts.count(prompt) == 1 for prompt in asked)
    assert len(prompts) > len(asked)


def test_ifeval_originals_name_known_instructions_with_sparse_arguments() -> None:
    from lm_eval.tasks.ifeval.instructions_registry import INSTRUCTION_DICT

    rows = read("originals", "ifeval")
    assert len({row["key"] for row in rows}) == len(rows)
    for row in rows:
        assert list(row) == ["key", "prompt", "instruction_id_list", "kwargs"]
        assert len(row["kwargs"]) == len(row["instruction_id_list"])
        for name, arguments in zip(row["instruction_id_list"], row["kwargs"], strict=True):
            instruction = INSTRUCTION_DICT[name](name)
            instruction.build_description(**arguments)
            assert set(arguments) == set(instruction.get_instruction_args_keys())
            assert all(arguments.values())


def test_every_math_row_has_exactly_one_original_and_math_hard_is_level_5() -> None:
    originals = read("originals", "math")
    problems = [row["problem"] for row in originals]
    levels = {row["problem"]: row["level"] for row in originals}
    hard = [row["input_question"] for row in read(I31, "math_hard")]
    mixed = [row["input_question"] for row in read(I32, "math")]
    assert all(problems.count(problem) == 1 for problem in hard + mixed)
    assert len(problems) > len(set(hard + mixed))
    assert {levels[problem] for problem in hard} == {"Level 5"}
    assert {levels[problem] for problem in mixed} == {f"Level {level}" for level in range(1, 6)}
    assert all(list(row) == ["problem", "level", "solution", "type"] for row in originals)


# Golds, where a program can work them out


def _value(node: ast.expr) -> float | bool:
    """The value of an expression of booleans or numbers, without running it."""
    match node:
        case ast.Constant(bool() | int() as value):
            return value
        case ast.UnaryOp(ast.Not(), operand):
            return not _value(operand)
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand)
        case ast.BoolOp(ast.And(), values):
            return all(_value(value) for value in values)
        case ast.BoolOp(ast.Or(), values):
            return any(_value(value) for value in values)
        case ast.BinOp(left, operator, right):
            a, b = _value(left), _value(right)
            return {
                ast.Add: lambda: a + b,
                ast.Sub: lambda: a - b,
                ast.Mult: lambda: a * b,
                ast.Div: lambda: a / b,
            }[type(operator)]()
    raise AssertionError(ast.dump(node))


def test_bbh_golds_are_the_values_of_their_expressions() -> None:
    checked = 0
    for row in read(B31, "bbh"):
        expression = re.fullmatch(r"(.+) (?:is|=)", row["input_question"])
        if expression:
            value = _value(ast.parse(expression[1], mode="eval").body)
            assert row["input_correct_responses"] == [str(value) if isinstance(value, bool) else f"{value:g}"]
            checked += 1
    assert checked == 12


@pytest.mark.parametrize(
    ("question", "gold"),
    [
        ("What is 144 divided by 12?", 144 // 12),
        ("How many minutes are there in 3.5 hours?", int(3.5 * 60)),
        ("What is the least common multiple of 6 and 8?", math.lcm(6, 8)),
        ("What is two thirds of 27?", 27 * 2 // 3),
        ("Which of these is equal to 3^4?", 3**4),
        ("What is the remainder when 100 is divided by 7?", 100 % 7),
        ("In how many orders can 5 people stand in a row?", math.factorial(5)),
        ("What is log_2 64?", int(math.log2(64))),
        ("How many prime numbers are less than 20?", sum(all(n % d for d in range(2, n)) for n in range(2, 20))),
        ("What is the determinant of the matrix [[2, 1], [5, 3]]?", 2 * 3 - 1 * 5),
    ],
)
def test_golds_of_arithmetic_questions_are_their_results(question: str, gold: int) -> None:
    rows = [row for key in SUBSETS for row in read(*key) if row["input_question"] == question]
    assert rows
    for row in rows:
        letter = row["input_correct_responses"][0].removeprefix("Answer: ")
        assert row["input_choice_list"][letter] == str(gold)


@pytest.mark.parametrize(
    ("part_of_problem", "gold"),
    [
        ("|x-3|+|x+1|=10", sum(x for x in range(-20, 20) if abs(x - 3) + abs(x + 1) == 10)),
        ("every integer from $1$ to $10$", math.lcm(*range(1, 11))),
        ("end of $100!$", len(str(math.factorial(100))) - len(str(math.factorial(100)).rstrip("0"))),
        ("units digit of $7^{2021}$", pow(7, 2021, 10)),
        ("smallest value of $x^2-6x+2$", min(x * x - 6 * x + 2 for x in range(-20, 20))),
        ("everybody shakes hands", math.comb(12, 2)),
        ("radius $5$", 2 * math.isqrt(5**2 - 3**2)),
        ("log_2(x+3)", next(x for x in range(2, 40) if (x + 3) * (x - 1) == 2**5)),
        ("$15\\%$ of $80$", 15 * 80 // 100),
        ("ladder", math.isqrt(13**2 - 12**2)),
        ("divisors does $72$", sum(72 % n == 0 for n in range(1, 73))),
        ("$7$ different books", math.factorial(7)),
        ("slope", (10 - 2) // 4),
    ],
)
def test_golds_of_math_problems_are_their_results(part_of_problem: str, gold: int) -> None:
    (row,) = [row for row in read("originals", "math") if part_of_problem in row["problem"]]
    assert boxed(row["solution"]) == str(gold)


@pytest.mark.parametrize(
    ("part_of_problem", "gold", "value"),
    [
        ("hypotenuse", r"6\sqrt{7}", math.sqrt(16**2 - 2**2)),
        ("765", r"\frac{\sqrt{2}}{2}", math.sin(math.radians(765))),
        ("cos 15", r"\frac{\sqrt{6}+\sqrt{2}}{4}", math.cos(math.radians(15))),
        ("inscribed", r"\frac{25\pi}{4}", math.pi * (math.hypot(3, 4) / 2) ** 2),
        ("Three fair dice", r"\frac{1}{36}", sum(sum(d) == 5 for d in product(range(1, 7), repeat=3)) / 6**3),
    ],
)
def test_recorded_golds_of_math_are_rounded_values_of_the_originals(
    part_of_problem: str, gold: str, value: float
) -> None:
    (row,) = [row for row in read(I31, "math_hard") if part_of_problem in row["input_question"]]
    (original,) = [problem for problem in read("originals", "math") if problem["problem"] == row["input_question"]]
    assert boxed(original["solution"]) == gold
    assert row["input_correct_responses"] == [f"{value:.2e}".replace("e+0", "e+").replace("e-0", "e-")]


# Rows out of YAML


@functools.cache
def document_of(name: str) -> Any:
    """Not by the loader that the sample is opened with: libyaml lets pass what other readers of YAML refuse."""
    return yaml.load((FOLDER / name).read_text("utf-8"), yaml.SafeLoader)


def templates_of(value: object, inside: str = "") -> Iterator[str]:
    """Every text of a file but what its questions and rows say, which is no template."""
    match value:
        case str():
            yield value
        case dict():
            for key, part in value.items():
                if key not in {"questions", "rows"} and not key.startswith("answers_"):
                    yield from templates_of(part, key)
        case list():
            for part in value:
                yield from templates_of(part, inside)


@pytest.mark.parametrize("name", sorted({path.name for path in FOLDER.glob("*.yaml")} - {sample_rows.TEXTS}))
def test_whatever_a_row_says_is_used_by_a_template_or_known(name: str) -> None:
    """A misspelt member would be passed over in silence."""
    document = document_of(name)
    templates = [*templates_of(document), *templates_of(document_of(sample_rows.TEXTS))]
    named = {word for text in templates for word in re.findall(r"\w+", text)}
    known = {"of", "subtask", "question", "choices", "gold", "output", "parsed", "likelihoods", "is_correct"}
    known |= {"output_metrics", "disagrees", "why", "bos"}
    keys = {key for subset in document["subsets"] for row in subset["rows"] for key in row}
    keys |= {key for question in document.get("questions", {}).values() for key in question}
    assert keys <= known | named


def made(folder: Path, text: str) -> sample_rows.SampleTable:
    """The only subset of a file."""
    folder.mkdir(exist_ok=True)
    (folder / sample_rows.TEXTS).write_text("texts: {asks: 'Question: {{ question }}'}")
    (folder / "one.yaml").write_text(text, "utf-8")
    (table,) = sample_rows.make_tables(folder / "one.yaml")
    return table


SUBSET = """
subsets:
  - model: M
    name: s
    benchmark_label: S
    metric: acc
    eval_config: {max_gen_len: 8}
    prompt: {user: "{% include 'asks' %}"}
    parsed: "{{ output.strip() }}"
    rows:
"""


def test_what_a_row_says_is_taken_to_the_letter(tmp_path: Path) -> None:
    row = r"""      - {question: "{{ gold }} {% x %} e\u0301", gold: "{{ 1 }}", output: " {# no #}\r\n", is_correct: true}"""
    (row,) = made(tmp_path, SUBSET + row).rows
    assert row["input_question"] == "{{ gold }} {% x %} e\u0301"
    assert row["input_correct_responses"] == ["{{ 1 }}"]
    assert row["output_prediction_text"] == [" {# no #}\r\n"]
    assert row["output_parsed_answer"] == "{# no #}"
    assert row["input_final_prompts"] == [
        "<|start_header_id|>user<|end_header_id|>\n\nQuestion: {{ gold }} {% x %} e\u0301<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ]


def test_a_row_that_lacks_something_is_refused(tmp_path: Path) -> None:
    for row, lacks in [
        ("{question: a, gold: b, output: c}", "is_correct"),
        ("{question: a, output: c, is_correct: true}", "gold"),
        ("{gold: b, output: c, is_correct: true}", "question"),
    ]:
        with pytest.raises((KeyError, UndefinedError), match=lacks) as raised:
            made(tmp_path, f"{SUBSET}      - {row}")
        assert raised.value.__notes__ == [f"in {tmp_path / 'one.yaml'}, subset s, row 0"]


def test_a_row_disagrees_where_it_says_why(tmp_path: Path) -> None:
    rows = """
      - {question: a, gold: b, output: b, is_correct: false, disagrees: b is right}
      - {question: c, gold: d, output: d, is_correct: true, why: a comment}
    """
    assert made(tmp_path, SUBSET + rows).disagreements == {sha256("a"): "b is right"}


def test_a_share_is_recorded_as_the_number_it_is(tmp_path: Path) -> None:
    row = "      - {question: a, gold: b, output: b, is_correct: null, output_metrics: {f1: 10/11, em: 0.67}}"
    (row,) = made(tmp_path, SUBSET + row).rows
    assert row["output_metrics"] == {"f1": 10 / 11, "em": 0.67}


def test_a_package_without_the_sample_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sample, "files", lambda package: tmp_path)
    with pytest.raises(SourceError, match=r"the embedded sample is missing.* Reinstall meta-eval"):
        sample.read_index.__wrapped__()


def test_the_index_is_of_the_rows() -> None:
    """`make generate` writes it."""
    assert (FOLDER / sample.INDEX).read_text("utf-8") == sample.make_index()


def test_rows_that_are_not_those_of_the_index_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**sample.read_index(), f"{B31}/bbh": sample.IndexEntry("bbh.yaml", 64 * "0")}
    monkeypatch.setattr(sample, "read_index", lambda: other)
    with pytest.raises(SourceError, match=r"bbh: has other rows than the index of the sample says.*`make generate`"):
        sample.list_parts()[1].fetch("bbh")


# Source


def test_the_source_offers_five_parts_in_order() -> None:
    parts = sample.list_parts()
    assert [part.identity for part in parts] == [
        Identity("Llama-3.1-8B-Instruct", "3.1", "instruct"),
        Identity("Llama-3.1-8B", "3.1", "pretrain"),
        Identity("Llama-3.2-3B-Instruct", "3.2", "instruct"),
        Identity("Llama-3.2-3B", "3.2", "pretrain"),
        Identity("Llama-3.3-70B-Instruct", "3.3", "instruct"),
    ]
    assert {(part.kind, part.dataset_id) for part in parts} == {("sample", "sample")}
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", part.revision) for part in parts)
    assert len({part.revision for part in parts}) == 5
    assert [(f"{part.identity.model}-evals", subset) for part in parts for subset in part.subsets] == [
        key for part in (I31, B31, I32, B32, I33) for key in EVERY if key[0] == part
    ]


def test_the_source_hands_out_the_file_of_a_subset() -> None:
    (file,) = sample.list_parts()[1].fetch("bbh")
    assert file.name == f"{B31}/bbh.jsonl"
    assert file.path.samefile(FOLDER / "bbh.yaml")
    with file.open() as stream:
        assert file.sha256 == hashlib.sha256(stream.read()).hexdigest()
    assert read_evals_rows([file], dataset_id="sample", subset="bbh") == read(B31, "bbh")
    assert sample.list_parts()[1].config_name("bbh") == "Llama-3.1-8B-evals__bbh__details"


def test_an_unknown_subset_is_refused_with_what_there_is() -> None:
    with pytest.raises(
        SourceError, match=r"no subset 'mmlu_por'; did you mean 'mmlu_pro'.* It offers: .*bbh.*, mmlu_pro"
    ):
        sample.list_parts()[1].fetch("mmlu_por")


@pytest.mark.parametrize("name", ["ifeval", "math"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_source_hands_out_an_original_for_any_split(name: str, split: str) -> None:
    (file,) = sample.open_sample_original(name).fetch(split)
    assert file.name == f"originals/{name}.jsonl"
    assert read_evals_rows([file], dataset_id="sample", subset=split) == read("originals", name)
