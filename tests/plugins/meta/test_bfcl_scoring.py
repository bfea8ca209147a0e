"""BFCL: answers are decoded and checked as the leaderboard does it, in three languages, and never run."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from marks import each, few
from places import THOROUGH
from stack import stack_of
from tool_tasks import extracted, make_docs, right, score, template

bfcl = template().bfcl


def possible(**values: list[Any]) -> str:
    return json.dumps([{"f": values}])


@each(
    ("gold", "output", "expected"),
    [
        (possible(a=[1, 2]), "f(a=2)", True),
        (possible(a=[1, 2]), "f(a=3)", False),
        (possible(a=[1]), "f(a=1.0)", False),
        (possible(a=[1.0]), "f(a=1)", True),  # an int may stand for a float
        (possible(a=[1]), "f(a=True)", False),  # and a bool for nothing else
        (possible(a=[1.0]), "f(a=True)", False),
        (possible(a=[True]), "f(a=1)", False),
        (possible(a=[True]), "f(a=True)", True),
        (possible(a=[1]), "f(a='1')", False),
        (possible(a=["1"]), "f(a=1)", False),
        (possible(a=["New York, NY"]), "f(a='new york ny')", True),
        (possible(a=["it's"]), "f(a='it\"s')", True),
        (possible(a=["a+b"]), "f(a='ab')", False),
        (possible(a=["metric"]), "f(a=Metric)", True),  # a name is its text
        (possible(a=["f(1)"]), "f(a=f(1))", True),  # and so is a call without names
        (possible(a=[1], b=["", "x"]), "f(a=1)", True),
        (possible(a=[1], b=["", "x"]), "f(a=1, b='x')", True),
        (possible(a=[1], b=["", "x"]), "f(a=1, b='y')", False),
        (possible(a=[1], b=["x"]), "f(a=1)", False),
        (possible(a=[1]), "f(a=1, b=2)", False),
        (possible(a=[1]), "f(1)", False),
        (possible(a=[1]), "f(7, a=1)", True),  # what has no name is left out
        (possible(a=[1]), "f(a=1, **{})", False),
        (possible(a=[6]), "f(a=2 * 3)", True),
        (possible(a=[["A", "b"]]), "f(a=['a', 'B'])", True),
        (possible(a=[["a", "b"]]), "f(a=('a', 'b'))", False),  # a tuple is no list
        (possible(a=[["a", "b"]]), "f(a=['b', 'a'])", False),
        (possible(a=[["a", "b"]]), "f(a=['a'])", False),
        (possible(a=[[1, 2]]), "f(a=[1, 2.0])", False),
        (possible(a=[{"k": [1, 2], "o": ["", 3]}]), "f(a={'k': 2})", True),
        (possible(a=[{"k": [1, 2], "o": ["", 3]}]), "f(a={'k': 3})", False),
        (possible(a=[{"k": [1]}]), "f(a={'k': 1, 'j': 1})", False),
        (possible(a=[[{"k": [1]}, {"k": [2]}]]), "f(a=[{'k': 1}, {'k': 2}])", True),
        (possible(), "f()", True),
        (possible(a=[1]), "F(a=1)", False),
        ('{"f": {"a": [1]}, "g": {"b": [2]}}', "[g(b=2), f(a=1)]", True),
        ('[{"f": {"a": [1]}}, {"f": {"a": [1]}}]', "[f(a=1)]", False),
        ('[{"f": {"a": [1]}}]', "[f(a=1), f(a=1)]", False),
        ("[{'f': {'a': [1]}}]", "f(a=1)", True),  # as Python writes it
        ("[f(a=1, b={'k': 'x'})]", "[f(b={'k': 'X'}, a=1)]", True),  # a call as the gold
        ("[f(a=[1, 2])]", "[f(a=1)]", False),
    ],
)
def test_bfcl_takes_any_possible_value(gold: str, output: str, expected: bool) -> None:
    assert right("bfcl", gold, output) is expected


@pytest.mark.parametrize(
    ("output", "strict", "freely"),
    [
        ("[f(a=1)]", True, True),
        ("f(a=1)", True, True),
        (" [f(a=1)]<|eot_id|>", True, True),
        ("[f(\n  a=1\n)]", True, True),
        ("`f(a=1)`", True, True),
        ("```\n[f(a=1)]\n```", True, True),
        ("```python\n[f(a=1)]\n```", False, True),
        ("Sure: [f(a=1)]", False, True),
        ("I call this:\nf(a=1)", False, True),
        ('{"name": "f", "parameters": {"a": 1}}', False, True),
        ('<function=f>{"a": 1}</function>', False, True),
        ("f(a=1", False, False),
        ("f(a=1).g()", False, False),
        ("", False, False),
    ],
)
def test_an_answer_is_read_as_the_leaderboard_reads_it(output: str, strict: bool, freely: bool) -> None:
    assert right("bfcl", possible(a=[1]), output) is strict
    assert right("bfcl", possible(a=[1]), output, free=True) is freely


# What the prompt declares


def prompt(required: list[str], **types: dict[str, Any]) -> str:
    function = {"name": "f", "description": "d", "parameters": {"properties": types, "required": required}}
    return f"You may call:\n\n{[function]}\n"


@pytest.mark.parametrize(
    ("declared", "values", "output", "expected"),
    [
        ({"type": "float"}, [2], "f(a=2.0)", True),
        ({"type": "string"}, ["", "x"], "f()", False),  # required
        ({"type": "array", "items": {"type": "float"}}, [[1.0, 2.0]], "f(a=[1.0, 2.0])", True),
        ({"type": "array", "items": {"type": "string"}}, [["", "b"]], "f(a=['b'])", False),
        ({"type": "tuple", "items": {"type": "integer"}}, [[1, 2]], "f(a=(1, 2))", True),
        ({"type": "dict"}, [{"k": [1]}], "f(a={'k': 1})", True),
        ({"type": "integer"}, ["n"], "f(a=n)", True),  # a variable
        ({"type": "integer"}, ["n"], "f(a=N)", False),  # whose case counts
    ],
)
def test_the_declared_type_decides(declared: dict[str, Any], values: list[Any], output: str, expected: bool) -> None:
    assert right("bfcl", possible(a=values), output, prompt=prompt(["a"], a=declared)) is expected


def test_an_argument_that_is_not_declared_is_wrong() -> None:
    assert not right("bfcl", possible(a=[1], b=["", 2]), "f(a=1, b=2)", prompt=prompt(["a"], a={"type": "integer"}))


def test_the_only_function_has_its_declared_name() -> None:
    gold = json.dumps([{"f_of_old": {"a": [1]}}])
    assert right("bfcl", gold, "f(a=1)", prompt=prompt(["a"], a={"type": "integer"}))


def typed(language: str, kind: str, nested: str = "") -> str:
    text = f"This is {language.split(maxsplit=1)[0]} {kind} type parameter in string representation."
    listed = f" The list elements are of type {nested}; they are not in string representation." if nested else ""
    function = {
        "name": "f",
        "description": f"Note that the provided function is in {language} syntax.",
        "parameters": {"properties": {"a": {"type": "string", "description": text + listed}}, "required": ["a"]},
    }
    return json.dumps([function])


@pytest.mark.parametrize(
    ("kind", "values", "written", "expected"),
    [
        ("integer", [5], "5", True),
        ("integer", [5], '"5"', True),  # a string is what stands in its quotes
        ("long", [5], "5L", True),
        ("long", [5], "5", False),
        ("float", [5.0], "5f", True),
        ("float", [5.0], "5.0", False),
        ("double", [5.0], "5", True),
        ("boolean", [True], "true", True),
        ("boolean", [True], "True", False),
        ("String", ["a b"], '"A b"', True),
        ("any", ["new Path()"], "new Path()", True),
        ("ArrayList,String", [["x", "y"]], 'new ArrayList<String>(Arrays.asList("x", "y"))', True),
        ("ArrayList,integer", [[1, 2]], "new ArrayList<Integer>(Arrays.asList(1, 2))", True),
        ("ArrayList,String", [["x"]], '["x"]', False),  # no Java
        ("Array,integer", [[1, 2]], "new int[]{1, 2}", True),
        ("HashMap", [{}], "new HashMap<String, Object>()", True),
        ("HashMap", [{"k": [1]}], 'new HashMap<String, Integer>() {{ put("k", 1); }}', False),  # the body is dropped
    ],
)
def test_java_values_are_converted(kind: str, values: list[Any], written: str, expected: bool) -> None:
    name, _, nested = kind.partition(",")
    asked = typed("Java 8 SDK", name, nested)
    assert right("bfcl", possible(a=values), f"[f(a={written})]", prompt=asked) is expected


@pytest.mark.parametrize(
    ("kind", "values", "written", "expected"),
    [
        ("integer", [5], "5", True),
        ("float", [5.5], "5.5", True),
        ("Bigint", [5], "5n", True),
        ("Bigint", [5], "5", False),
        ("Boolean", [False], "false", True),
        ("String", ["a"], "'a'", True),
        ("any", ["x => x + 1"], "x => x + 1", True),
        ("array,integer", [[1, 2]], "[1, 2]", True),
        ("array,String", [["x", "y"]], "['x', \"y\"]", True),
        ("array,array", [[[1, 2], [3]]], "[[1, 2], [3]]", True),
        ("array", [[1, "x", True]], "new Array(1, 'x', true)", True),
        ("dict", [{"k": [1], "l": [["a"]]}], "{k: 1, 'l': ['a']}", True),
        ("dict", [{"k": [1]}], "{k: 2}", False),
        ("dict", [{"k": [1]}], "{k 1}", False),  # no JavaScript
    ],
)
def test_javascript_values_are_converted(kind: str, values: list[Any], written: str, expected: bool) -> None:
    name, _, nested = kind.partition(",")
    asked = typed("JavaScript", name, nested)
    assert right("bfcl", possible(a=values), f"[f(a={written})]", prompt=asked) is expected


@pytest.mark.parametrize("language", ["Java", "JavaScript"])
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("K.f(a=1, b=g(2).h[3])", True),
        ("f(a=1);", True),
        ("f(a=(x, y) -> x)", None),  # an arrow of Java alone
        ("f(a = -1 + 2 * x, b = c ? d : e)", True),
        ("f(a=1, a=2)", False),
        ("f(a=1) g(b=2)", False),
        ("f(a=1", False),
        ("f(a=1))", False),
        ("f(a=)", False),
        ("I think f(a=1) is it.", False),
        ("f(a='x)", False),
        ("", False),
        ("1 + 2", False),
    ],
)
def test_only_a_whole_call_of_the_language_is_read(language: str, program: str, expected: bool | None) -> None:
    assert (bfcl.decode(f"[{program}]", language) is not None) is (language == "Java" if expected is None else expected)


MANY, SOME = (9_000, 4_000) if THOROUGH else (3_000, 2_000)
HOSTILE = ("(" * MANY, "f(a=" + "[" * MANY, "f(a=" + "{a:" * SOME, "f(a=[[" + "],[" * SOME, "f(a=new " + "A<" * SOME,
           "f(a={" + "k:," * SOME + "})", "f(a=" + "-" * MANY + "1)", "f(a=" + "1+" * MANY + "1)", "f(a=9" + "**9" * 50 + ")",
           "f(a=" + "9" * 5_000 + ")", "f(a=" + "`" * MANY + ")")  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE if THOROUGH else HOSTILE[::4])
def test_hostile_answers_are_wrong_and_soon_so(text: str) -> None:
    begin = time.perf_counter()
    for language, kind in (
        ("Java 8 SDK", "HashMap"),
        ("JavaScript", "dict"),
        ("JavaScript", "array"),
        ("Python 3", ""),
    ):
        for free in (False, True):
            assert not right("bfcl", possible(a=["x"]), text, prompt=typed(language, kind), free=free)
    assert time.perf_counter() - begin < 20


# Where no call is asked for


def test_where_no_call_is_asked_for_a_call_is_wrong_and_words_are_right() -> None:
    assert score("bfcl", "[]", "I cannot do that.") | {"acc_macro": None} == {
        "acc": 1.0,
        "acc_macro": None,
        "unextracted": 0.0,
        "ungraded": 0.0,
    }
    assert right("bfcl", "[]", "[]")
    assert not right("bfcl", "[]", "[f(a=1)]")
    (doc,) = make_docs("bfcl", [["[]"]], typed("Java 8 SDK", "long"))
    assert extracted("bfcl", doc, "[f(a=['x'])]") != "[invalid]"  # as Python, whatever the functions are


DEEP = {
    "minuses": lambda n: "- " * n + "1", "new": lambda n: "new " * n + "A", "types": lambda n: "new " + "A<" * n + "B" + ">" * n + "()",
    "brackets": lambda n: "(" * n + "1" + ")" * n, "lists": lambda n: "[" * n + "]" * n,
    "arrays": lambda n: "new A[]" + "{" * n + "}" * n, "objects": lambda n: "{a:" * n + "1" + "}" * n,
    "arrows": lambda n: "a=>" * n + "1", "casts": lambda n: "(A) " * n + "x", "ternaries": lambda n: "a?" * n + "1" + ":1" * n,
    "a sum": lambda n: "1" + "+1" * n, "members": lambda n: "a" + ".a" * n, "calls": lambda n: "f(" * n + ")" * n,
}  # fmt: skip


@pytest.mark.parametrize("language", ["Java", "JavaScript"])
@pytest.mark.parametrize("name", few(DEEP, 4))
def test_what_is_read_does_not_depend_on_the_stack_of_a_python(name: str, language: str) -> None:
    for count in (20, 60, 400, 2500):
        found = []
        for frames in (750, 9000):
            with stack_of(frames):
                found.append(bfcl.decode(f"f(a={DEEP[name](count)})", language))
        assert found[0] == found[1], count
