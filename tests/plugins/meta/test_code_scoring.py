"""Code tasks: which program is taken out of an answer, and what the metrics make of the verdict on it."""

from __future__ import annotations

import ast
import functools
import json
from types import ModuleType
from typing import Any

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packs import without_fingerprints
from rows import make_row
from template_modules import template_module

STUB = 'import math\n\n\ndef double(n: int) -> int:\n    """Return twice a number.\n    """\n'
BODY = "    return 2 * n\n"
FUNCTION = "def double(n):\n    return 2 * n\n"
FENCE = "```"
LATE = f"from __future__ import annotations\n{FUNCTION}"
QUOTING = f"def double(n):\n    '''{FENCE}'''\n    return 2 * n\n"


def template() -> ModuleType:
    return template_module("code/utils.py")


def prompt(given: str) -> str:
    turn = "<|start_header_id|>{}<|end_header_id|>\n\n".format
    return f"{turn('user')}Double it.<|eot_id|>{turn('assistant')}{given}"


# The two ways in which a prompt opens an answer: with the function begun, and with an empty fence.
BEGUN = {"given": f"Here is the completed function:\n{FENCE}python\n{STUB}", "entry_point": "double"}
CLOSE = {"given": f"Here is the completed function:\n{FENCE}python\n{STUB.rstrip()}", "entry_point": "double"}
IMPORTING = 'def double(n):\n    import math\n    """Return twice a number."""'
IMPORTS = {"given": f"Here is the completed function:\n{FENCE}python\n{IMPORTING}", "entry_point": "double"}
EMPTY = {"given": f"{FENCE}python\n", "entry_point": "double"}
NOTHING = {"given": "", "entry_point": "double"}


@pytest.mark.parametrize(
    ("doc", "answer", "strict", "flexible"),
    [
        # As the prompt wants it.
        (BEGUN, BODY + FENCE, STUB + BODY, STUB + BODY),
        (BEGUN, BODY, STUB + BODY, STUB + BODY),
        (BEGUN, f"{BODY}{FENCE}\n\nIt doubles.\n{FENCE}python\ndouble(2)\n{FENCE}", STUB + BODY, STUB + BODY),
        (CLOSE, f"\n{BODY}{FENCE}", STUB + BODY, STUB + BODY),
        (EMPTY, FUNCTION + FENCE, FUNCTION, FUNCTION),
        (EMPTY, FUNCTION, FUNCTION, FUNCTION),
        (NOTHING, f"Here it is:\n{FENCE}python\n{FUNCTION}{FENCE}", FUNCTION, FUNCTION),
        (NOTHING, f"{FENCE}\n{FUNCTION}{FENCE}", FUNCTION, FUNCTION),
        (NOTHING, f"{FENCE}Python3 \r\n{FUNCTION}{FENCE}", FUNCTION, FUNCTION),
        # Begun anew.
        (BEGUN, FUNCTION + FENCE, STUB + FUNCTION, STUB + FUNCTION),
        (CLOSE, FUNCTION + FENCE, STUB.rstrip() + FUNCTION, STUB + FUNCTION),
        # What the prompt imports and defines stays: a program begun anew may lean on it.
        (BEGUN, f"{FENCE}python\n{FUNCTION}{FENCE}", None, STUB + FUNCTION),
        (BEGUN, f"\n{FENCE}\n{FENCE}python\n{LATE}{FENCE}", None, LATE),  # but for what must stand first
        (EMPTY, f"{FENCE}python\n{FUNCTION}{FENCE}", None, FUNCTION),
        (BEGUN, f"\n{FENCE}\n{FENCE}python\n{BODY}{FENCE}", None, f"{STUB}\n{BODY}"),
        # The stub that HumanEval/115 has: an import before the docstring is no program yet.
        (IMPORTS, f"\n{FENCE}\n\n{FENCE}python\n{FUNCTION}{FENCE}", None, f"{IMPORTING}\n{FUNCTION}"),
        # With talk.
        (EMPTY, f"Sure!\n{FENCE}python\n{FUNCTION}{FENCE}", "Sure!\n", FUNCTION),
        (BEGUN, f"{BODY}\nThis doubles the number.", f"{STUB}{BODY}\nThis doubles the number.", f"{STUB}{BODY}"),
        (NOTHING, FUNCTION, None, FUNCTION),
        # Cut off.
        (EMPTY, f"{FUNCTION}\nprint(double(", f"{FUNCTION}\nprint(double(", FUNCTION),
        (EMPTY, "def double(n):\n    return (2 *", "def double(n):\n    return (2 *", None),
        # A fence within the program.
        (EMPTY, f"{QUOTING}{FENCE}", "def double(n):\n    '''", QUOTING),
        # No program at all.
        (BEGUN, "", None, None),
        (BEGUN, "  \n", None, None),
        (BEGUN, f"\n{FENCE}", None, None),
        (EMPTY, "I cannot do that.", "I cannot do that.", None),
        (EMPTY, "def triple(n): return 3 * n", "def triple(n): return 3 * n", None),
    ],
)
def test_the_program_in_an_answer(doc: dict[str, str], answer: str, strict: str | None, flexible: str | None) -> None:
    assert template().strict_program(doc, answer) == strict
    program = template().flexible_program(doc, answer)
    if flexible is None:
        assert program is None
    else:
        assert ast.dump(ast.parse(program)) == ast.dump(ast.parse(flexible))


WORDS = st.lists(
    st.sampled_from([FENCE, f"{FENCE}python\n", BODY, FUNCTION, STUB, "\n", "words ", '"""', "é", "\0", " "])
)


@given(WORDS.map("".join) | st.text(), st.sampled_from([BEGUN, CLOSE, EMPTY, NOTHING]))
def test_any_answer_gives_a_program_or_none(answer: str, doc: dict[str, str]) -> None:
    strict, flexible = template().strict_program(doc, answer), template().flexible_program(doc, answer)
    assert strict is None or (strict.strip() and FENCE not in strict)
    if flexible is not None:
        names = [node.name for node in ast.parse(flexible).body if isinstance(node, ast.FunctionDef)]
        assert "double" in names


@given(st.text(alphabet=st.characters(exclude_characters="`", exclude_categories=["Cs"]), min_size=1))
def test_what_follows_the_fence_does_not_matter(talk: str) -> None:
    for name in ("strict_program", "flexible_program"):
        assert getattr(template(), name)(BEGUN, f"{BODY}{FENCE}\n{talk}") == STUB + BODY


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (prompt("Here:\n"), "Here:\n"),
        (prompt("an earlier answer<|eot_id|>") + prompt(f"{FENCE}python\n"), f"{FENCE}python\n"),
        ("no chat at all", "no chat at all"),
    ],
)
def test_what_the_prompt_holds_of_the_answer(given: str, expected: str) -> None:
    assert template().given(given) == expected


@pytest.mark.parametrize(
    ("tests", "name"),
    [
        (["assert double(2) == 4", "assert double(0) == 0"], "double"),
        (["assert set(common([1], [1])) == set([1])"], "common"),
        (["assert math.isclose(area(1, 2), round(1.0))"], "area"),
        (["assert f(g(1)) == 2", "assert f(3) == 4"], "f"),
        (["assert f(1) == 2", "assert g(3) == 4"], ""),
        (["assert sorted([2, 1]) == [1, 2]"], ""),
        (["assert ("], ""),
        ([], ""),
    ],
)
def test_the_function_that_the_tests_call(tests: list[str], name: str) -> None:
    assert template().entry_point(tests) == name


# Docs

JOINED = {
    "task_id": "Sample/0",
    "original_prompt": STUB,
    "canonical_solution": BODY,
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    "entry_point": "double",
    "code": "def double(n):\r\n    return 2 * n",
    "test_list": ["assert double(2) == 4", "assert double(0) == 0"],
    "test_setup": "import math",
}


def doc(kind: str, **changes: Any) -> dict[str, Any]:
    rows = [make_row(prompts=[prompt(BEGUN["given"])], subtask=None) | JOINED | changes]
    with without_fingerprints():
        return getattr(template(), f"process_{kind}")(datasets.Dataset.from_list(rows))[0]


def test_a_doc_holds_what_judges_it() -> None:
    made = doc("human_eval")
    assert (made["gold"], made["given"], made["setup"]) == (STUB + BODY, BEGUN["given"], "")
    assert made["tests"] == [JOINED["test"] + "\n\ncheck(double)\n"]
    made = doc("mbpp_plus")
    assert made["gold"] == FUNCTION.rstrip()
    assert made["tests"] == ["assert double(2) == 4\nassert double(0) == 0\n", JOINED["test"]]
    assert (made["entry_point"], made["setup"]) == ("double", "import math")
    assert len(doc("mbpp")["tests"]) == 1
    assert doc("human_eval_plus")["cpu_s"] > doc("human_eval")["cpu_s"]


# Verdicts and metrics


def score(made: dict[str, Any], *answers: str, how: str = "strict", plus: bool = False) -> list[dict[str, float]]:
    judged = getattr(template(), how)([[answer] for answer in answers], [made] * len(answers))
    process = template().process_results_plus if plus else template().process_results
    return [process(made, texts) for texts in judged]


def test_metrics_of_right_wrong_and_empty_answers() -> None:
    right, wrong, empty = score(doc("human_eval"), BODY, "    return n\n", "")
    assert right == {"pass@1": 1.0, "unextracted": 0.0, "ungraded": 0.0, "self_judged": 0.0}
    assert wrong == {"pass@1": 0.0, "unextracted": 0.0, "ungraded": 0.0, "self_judged": 0.0}
    assert empty == {"pass@1": 0.0, "unextracted": 1.0, "ungraded": 0.0, "self_judged": 0.0}


def test_the_two_filters_differ_where_the_format_does() -> None:
    answer = f"{FENCE}python\n{FUNCTION}{FENCE}"
    assert score(doc("human_eval"), answer)[0]["pass@1"] == 0
    assert score(doc("human_eval"), answer, how="flexible")[0]["pass@1"] == 1


def test_the_base_tests_decide_and_the_additional_ones_stand_beside_them() -> None:
    made = doc("mbpp_plus", test="assert double(-1) == -2\n", input_final_prompts=[prompt(EMPTY["given"])])
    both, base, none = score(made, FUNCTION, "def double(n):\n    return 2 * abs(n)", "def double(n): pass", plus=True)
    assert (both["pass@1"], both["pass@1_plus"]) == (1, 1)
    assert (base["pass@1"], base["pass@1_plus"]) == (1, 0)
    assert (none["pass@1"], none["pass@1_plus"]) == (0, 0)


def test_the_set_up_of_the_tests_runs_before_the_program() -> None:
    made = doc("mbpp", test_list=["assert math.isclose(double(1), 2.0)"], input_final_prompts=[prompt(EMPTY["given"])])
    assert score(made, FUNCTION)[0]["pass@1"] == 1
    assert score(made, FUNCTION + "math = None")[0]["pass@1"] == 0


def test_tests_that_are_no_python_leave_a_program_ungraded(caplog: pytest.LogCaptureFixture) -> None:
    made = doc("mbpp", test_list=["assert double("], input_final_prompts=[prompt(EMPTY["given"])])
    assert score(made, FUNCTION) == [{"pass@1": 0.0, "unextracted": 0.0, "ungraded": 1.0, "self_judged": 0.0}]
    assert made["input_question_hash"] in caplog.text


def test_a_pass_by_an_object_of_the_answers_own_is_counted() -> None:
    forged = "    class Same:\n        def __eq__(self, other): return True\n    return Same()\n"
    assert score(doc("human_eval"), forged) == [
        {"pass@1": 1.0, "unextracted": 0.0, "ungraded": 0.0, "self_judged": 1.0}
    ]


def test_what_a_stub_gives_its_tests_is_not_the_answers_to_change() -> None:
    stub = f"import math\n\ndef half(n):\n    return n / 2\n\n{STUB.removeprefix('import math')}"
    tests = "def check(candidate):\n    assert math.isclose(half(candidate(3)), 3)\n"
    made = doc("human_eval", original_prompt=stub, test=tests, input_final_prompts=[prompt(f"{FENCE}python\n{stub}")])
    assert made["helpers"] == "import math\n\ndef half(n):\n    return n / 2"
    right, forged = score(made, BODY, "    return 0\ndef half(n): return 3\n")
    assert (right["pass@1"], right["self_judged"]) == (1, 0)
    assert forged["pass@1"] == 0


def test_a_verdict_says_why() -> None:
    (text,) = template().strict([["    return n\n"]], [doc("human_eval")])[0]
    verdict = json.loads(text)
    assert (verdict["passed"], verdict["why"]) == (0, "AssertionError in the tests, line 2")
    assert verdict["code"] == STUB + "    return n\n"


def test_a_machine_that_can_run_programs_is_told_the_prompt() -> None:
    made = doc("human_eval")
    assert template().doc_to_text(made) == made["prompt"]


# The sample


TABLES = {"human_eval": "humaneval", "human_eval_plus": "humaneval_plus", "mbpp": "mbpp", "mbpp_plus": "mbpp_plus"}


@functools.cache
def solved() -> dict[str, list[tuple[int, int, str | None]]]:
    """Of each subset how many tests each original solution passes, how many there are, and why not more; all in one run."""
    from meta_eval.plugins.meta.joins import JOINS
    from meta_eval.plugins.meta.source import sample

    made: list[tuple[str, Any]] = []
    for subset, table in TABLES.items():
        rows = [make_row() | JOINS[table].bring(original) for original in sample.read_tables()["originals", table].rows]
        made += [
            (subset, solution)
            for solution in getattr(template(), f"process_{subset}")(datasets.Dataset.from_list(rows))
        ]
    runner = template().runner
    programs = [runner.Program(solution["setup"], solution["gold"], tuple(solution["tests"])) for _, solution in made]
    verdicts = runner.Sandbox().run(programs, runner.Limits(cpu_s=20, wall_s=120))
    outcomes: dict[str, list[tuple[int, int, str | None]]] = {subset: [] for subset in TABLES}
    for (subset, solution), verdict in zip(made, verdicts, strict=True):
        outcomes[subset].append((verdict.passed, len(solution["tests"]), verdict.why))
    return outcomes


@pytest.mark.parametrize("subset", TABLES)
def test_every_original_solution_of_the_sample_passes_every_test(subset: str) -> None:
    assert [solution for solution in solved()[subset] if solution[0] < solution[1]] == []
    assert len(solved()[subset]) > 12
