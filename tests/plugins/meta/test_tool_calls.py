"""Tool calls: reading them without running them, and which call counts as the right one in Nexus and API-Bank."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from marks import few
from places import THOROUGH
from stack import stack_of
from tool_tasks import KINDS, extracted, judge, make_docs, right, score, template

calls = template().calls


# Reading

_NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(calls.is_name)
_SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False) | st.text(max_size=12)
)
_KEYS = st.text(max_size=6) | st.integers(-9, 9)


def _values(depth: int) -> st.SearchStrategy[Any]:
    if depth == 0:
        return _SCALARS | st.builds(calls.Name, _NAMES)
    inner = _values(depth - 1)
    return (
        inner
        | st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(_KEYS, inner, max_size=3)
        | _calls(inner)
    )


def _calls(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        calls.Call,
        st.lists(_NAMES, min_size=1, max_size=3).map(".".join),
        st.lists(values, max_size=3).map(tuple),
        st.dictionaries(_NAMES | st.text(max_size=6), values, max_size=3),
    )


@given(_calls(_values(2)))
def test_a_call_written_down_reads_as_the_same_call(call: Any) -> None:
    # By repr, which tells 1 from 1.0 and True.
    assert repr(calls.parse(calls.render(call))) == repr(call)


@given(st.lists(_calls(_values(1)), min_size=1, max_size=3))
def test_several_calls_written_down_read_as_the_same_calls(several: list[Any]) -> None:
    text = calls.render_calls(several)
    assert repr(calls.whole(text)) == repr(several)
    assume("```" not in text)
    assert repr(calls.anywhere(f"Surely:\n```python\n{text}\n```\nThat is it.")) == repr(several)


@given(st.text(max_size=80) | st.text("f()[]{}'\"=,.*:#\\ \n0-<|`", max_size=80), st.sampled_from(KINDS), st.booleans())
@settings(max_examples=300 if THOROUGH else 25)
def test_no_answer_makes_a_scorer_raise(output: str, kind: str, free: bool) -> None:
    verdict = judge(kind, _doc(kind), output, free=free)
    assert verdict["acc"] in (0.0, 1.0)


@functools.cache
def _doc(kind: str) -> dict[str, Any]:
    return make_docs(kind, [["[f(a=1)]"]])[0]


_MANY = 6_000
HOSTILE = {
    "brackets": "f(" * _MANY,
    "closed brackets": "f(" * 300 + ")" * 300,
    "lists": "f(" + "[" * 150 + "]" * 150 + ")",
    "minuses": "f(" + "-" * _MANY + "1)",
    "attributes": "f(a" + ".a" * _MANY + ")",
    "a sum": "f(" + "1+" * _MANY + "1)",
    "nots": "f(" + "not " * 4000 + "1)",
    "calls of calls": "f" + "()" * _MANY,
    "subscripts": "f(a" + "[0]" * _MANY + ")",
    "a null byte": "f(a='\0')",
    "a lone surrogate": "f(a='\ud800')",
    "too many digits": "f(a=" + "9" * 5000 + ")",
    "a huge number in hexadecimal": "f(a=0x" + "f" * 5000 + ")",
    "a very long text": "f(a='" + "x" * 1_000_000 + "')",
    "JSON brackets": '{"name": "f", "parameters": {"a": ' + "[" * 9000 + "]" * 9000 + "}}",
    "JSON without an end": '{"a":' * 4000,
    "NaN": '{"name": "f", "parameters": {"a": NaN}}',
    "a format string": "f(a=f'{open(1)}')",
    "a star": "f(*[1])",
    "a generator": "f(a for a in [1])",
    "a lambda": "f(a=(lambda: 1)())",
    "an assignment": "f(a:=1)",
    "dots": "f(...)",
    "bytes": "f(a=b'1')",
    "a complex number": "f(a=1j)",
    "a set": "f(a={1})",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_not_understood_is_wrong(text: str) -> None:
    for kind in KINDS:
        for free in (False, True):
            assert judge(kind, _doc(kind), text, free=free)["acc"] == 0.0
    assert extracted("api_bank", _doc("api_bank"), f"[{text}]") == "[invalid]"


DEEP = {
    "attributes": lambda n: "a" + ".a" * n, "a sum": lambda n: "1" + "+1" * n, "minuses": lambda n: "-" * n + "1",
    "calls of calls": lambda n: "f" + "()" * n, "subscripts": lambda n: "a" + "[0]" * n,
    "lists": lambda n: "[" * n + "]" * n, "calls": lambda n: "f(a=" * n + "1" + ")" * n,
    "objects": lambda n: '{"a":' * n + "1" + "}" * n, "conditions": lambda n: "1 if 1 else " * n + "1",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", few(DEEP, 4))
def test_a_verdict_does_not_depend_on_the_stack_of_a_python(kind: str, name: str) -> None:
    (doc,) = make_docs(kind, [["[f(a=1)]"]])
    for count in (70, 160, 2500):
        inner = DEEP[name](count)
        for text, free in ((f"[f(a={inner})]", False), (f'{{"name": "f", "parameters": {{"a": {inner}}}}}', True)):
            found = []
            for frames in (650, 9000):
                with stack_of(frames):
                    found.append((judge(kind, doc, text, free=free), extracted(kind, doc, text, free=free)))
            assert found[0] == found[1], count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "form",
    [
        "__import__('pathlib').Path({0!r}).touch()",
        "f(a=__import__('pathlib').Path({0!r}).touch())",
        "exec(\"open({0!r}, 'w')\")",
        "open({0!r}, 'w')",
        "f(a=[open({0!r}, 'w') for _ in '1'])",
        "<<<api_call>>>: open({0!r}, 'w'), <<<api_provider>>>: Python",
        "[open({0!r}, 'w')]",
    ],
)
def test_nothing_is_ever_run(kind: str, form: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    text = form.format(str(trace))
    for free in (False, True):
        judge(kind, _doc(kind), text, free=free)
    make_docs(kind, [["[f(a=1)]"], [text]], prompt=f"def f(a={text}): ...")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("f(a=1)", "f(a=1)"),
        ("[f(a=1), g()]", "[f(a=1), g()]"),
        ("f(a=1)\ng()", "[f(a=1), g()]"),
        ("f(\n    a=1,\n)", "f(a=1)"),
        ('{"name": "f", "parameters": {"a": 1}}', "f(a=1)"),
        ('<|python_tag|>{"name": "f", "arguments": "{\\"a\\": 1}"}<|eom_id|>', "f(a=1)"),
        ('[{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]', "f(a=1)"),
        ('{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}', "[f(), g()]"),
        ('{"name": "f", "parameters": {"from": "a b"}}', "f(**{'from': 'a b'})"),
        ('<function=f>{"a": 1}</function>', "f(a=1)"),
        ('I call <function=f>{"a": 1}</function><function=g>{}</function>', "[f(a=1), g()]"),
        ("Sure, f(a=1).", "f(a=1)"),
        ("```python\nf(a=1)\n```", "f(a=1)"),
        ("g() is not what you need.\n```\nf(a=1)\n```", "f(a=1)"),  # the fence counts
        ("I use g() or f():\nf(a=1)", "f(a=1)"),  # the line of its own counts
        ('Here: {"name": "f", "parameters": {"a": 1}} and that is it.', "f(a=1)"),
        ("x = f(a=1)", "f(a=1)"),
        ("def f(a=1): pass", None),
        ("f(a='(', b=\"it's\")", "f(a='(', b=\"it's\")"),
        ("f(a=1", None),
        ("f(a=1).g()", None),
        ("<function=f>{a}</function>", None),
        ("no call", None),
        ("", None),
        ("[]", None),
    ],
)
def test_calls_are_found_between_other_things(text: str, call: str | None) -> None:
    assert template().anywhere([[text]], [{}]) == [[call or "[invalid]"]]


# Nexus


@given(st.permutations([("a", 1), ("b", "x"), ("c", [1.5, None])]))
def test_the_order_of_keywords_does_not_matter(pairs: list[tuple[str, Any]]) -> None:
    output = calls.render(calls.Call("f", (), dict(pairs)))
    for kind in ("nexus", "bfcl"):
        assert right(kind, "f(a=1, b='x', c=[1.5, None])", output), kind


SIGNATURE = "def f(a: int, b: str = 'x', *rest, c: bool = False, **more) -> dict:\n    '''doc'''"


# Gold, answer, and whether it is right where the prompt documents f, and where it does not.
BOUND = [
    ("f(a=1)", "f(1)", True, False),
    ("f(1, 'y')", "f(1, b='y')", True, False),
    ("f(a=1)", "f(a=1, b='x')", True, False),  # b's default
    ("f(a=1, c=False)", "f(1, 'x')", True, False),
    ("f(a=1)", "f(a=1, b='y')", False, False),
    ("f(a=1)", "f(1, a=1)", False, False),
    ("f(a=1)", "f()", False, False),
    ("f(1, 'x', 2)", "f(1, 'x', 2)", True, True),
    ("f(1)", "f(1, unknown=2)", True, False),  # of **more nothing is recorded
    ("g(f(a=1))", "g(f(1))", True, False),
    ("f(a=[f(1)])", "f([f(a=1)])", True, False),
    ("f(a=1)", "f(a=1.0)", True, True),  # as Python compares
    ("f(a=1)", "f(a=True)", True, True),
    ("f(a=1)", "f(a='1')", False, False),
    ("f(a='X')", "f(a='x')", False, False),
    ("f(a=1)", "g(a=1)", False, False),
    ("f(a=1)", "m.f(a=1)", False, False),
    ("f(a=1); g()", "g(); f(a=1)", False, False),
    ("[f(a=1), g()]", "f(a=1)\ng()", True, True),
    ("f(a=1)", "[f(a=1)]", False, False),  # no list is run
    ("f(a=1)", "f(\n  a=1)", False, False),  # nor what does not begin with a whole call
    ("f(a=1)", "f(a=1)\nThat is it.", False, False),  # nor what is no Python
    ("f(a=1)", "Here: f(a=1)", False, False),
    ("f(a=1)", "f(a=1, c='')", True, True),  # what is false of itself is not recorded
    ("f(a=1)", "f(a=1, b=None)", False, True),  # b's default is recorded
    ("f(a=0)", "f(a='')", True, True),
    ("f(a=1)", "f(a=1); nobody()", True, True),  # an error ends the program, and what was called counts
    ("f(a=1)", "f(a=1).text", True, True),
    ("f(a=1)", "f(a=x)", False, False),
    ("g(f(a=1))", "f(a=1); g(2)", False, False),
    ("g(a=f(1))", "f(a=1); g()", True, False),  # a call returns nothing
    ("f(a=1)", "print(f(a=1))", True, True),
    ("f(a=1)", "f(a=1), f(a=1)", False, False),
    ("['f(a=1)', 'g()']", "f(a=1); g()", True, True),  # a gold that lists texts
]


@functools.cache
def bound_docs(prompt: str) -> list[dict[str, Any]]:
    return make_docs("nexus", [[gold] for gold, *_ in BOUND], prompt)


@pytest.mark.parametrize("number", range(len(BOUND)), ids=[f"{gold}-{output}" for gold, output, *_ in BOUND])
def test_nexus_binds_arguments_where_the_prompt_documents_the_function(number: int) -> None:
    _, output, documented, undocumented = BOUND[number]
    for prompt, expected in ((f"Use this:\n{SIGNATURE}\n", documented), ("Call something.", undocumented)):
        assert bool(judge("nexus", bound_docs(prompt)[number], output)["acc"]) is expected, prompt


def test_the_library_that_records_all_arguments_records_what_is_false_too() -> None:
    prompt = "def searchCVE(cveId=None, hasKev=None): ..."
    assert right("nexus", "r = nvdlib.searchCVE(cveId='1')", "searchCVE('1')", prompt=prompt)
    assert not right("nexus", "r = nvdlib.searchCVE(cveId='1')", "searchCVE('1', False)", prompt=prompt)
    beside = f"{prompt}\ndef searchCPE(limit=None): ...\ndef count(items): ..."
    assert right("nexus", "searchCVE(cveId='1')", "searchCVE('1', False)", prompt=beside)
    assert right("nexus", "count(searchCPE(limit=1))", "count(searchCPE(limit=2))", prompt=beside)  # not recorded there


def test_a_signature_that_the_gold_does_not_fit_is_left_alone() -> None:
    assert right("nexus", "f(q=1)", "f(q=1)", prompt="def f(a): ...")
    assert right("nexus", "f(q=1)", "f(q=1)", prompt="def f(a")


def test_any_of_several_golds_is_right() -> None:
    assert right("nexus", ["f(a=1)", "g(a=1)"], "g(a=1)")
    assert right("bfcl", ["[f(a=1)]", "[g(a=1)]"], "[g(a=1)]")


# API-Bank


@pytest.mark.parametrize(
    ("output", "exact", "rouge"),
    [
        ("[Note(user='u', content='buy two loaves', count='2')]", True, 1.0),
        ("[Note(count=2, user='u', content='buy two loaves')]", True, 1.0),  # values are texts
        ("[Note(user='u', content='Buy two loaves!', count='2')]", False, 1.0),
        ("[Note(user='u', content='two loaves', count='2')]", False, 0.8),  # 2 of 3 and 2 of 2 words
        ("[Note(user='u', content='milk', count='2')]", False, 0.0),
        ("[Note(user='U', content='buy two loaves', count='2')]", False, 0.0),
        ("[Note(user='u', content='buy two loaves', count=2.0)]", False, 0.0),
        ("[Note(user='u', content='buy two loaves')]", False, 0.0),
        ("[Note(user='u', content='buy two loaves', count='2', more='1')]", False, 0.0),
        ("[Note('u', 'buy two loaves', '2')]", False, 0.0),  # API-Bank reads names alone
        ("[Notes(user='u', content='buy two loaves', count='2')]", False, 0.0),
        ("Then: [Note(user='u', content='buy two loaves', count='2')]. Done.", True, 1.0),
        ("See [1]: [Note(user='u', content='buy two loaves', count='2')]", True, 1.0),
    ],
)
def test_api_bank_scores_free_text_by_rouge_and_the_rest_exactly(output: str, exact: bool, rouge: float) -> None:
    verdict = score("api_bank", "[Note(user='u', content='buy two loaves', count='2')]", output)
    assert verdict["acc"] == float(exact)
    assert verdict["acc_rougeL"] == pytest.approx(rouge)


def test_equal_free_text_without_a_latin_letter_is_right() -> None:
    assert score("api_bank", "[Note(content='купи хлеб')]", "[Note(content='купи хлеб')]")["acc_rougeL"] == 1.0


# Golds


@pytest.mark.parametrize("kind", ["nexus", "api_bank", "bfcl"])
def test_a_gold_that_cannot_be_read_is_ungraded(kind: str) -> None:
    read, unread = make_docs(kind, [["[f(a=1)]"], ["Paris"]])
    assert judge(kind, read, "[f(a=1)]", free=True)["ungraded"] == 0.0
    verdict = judge(kind, unread, "[f(a=1)]", free=True)
    assert (verdict["acc"], verdict["ungraded"]) == (0.0, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_which_no_gold_can_be_read_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="none of the 2 golds is what this template assumes; the first is 'Paris"):
        make_docs(kind, [["Paris\nis it"], ["Rome\nor not"]])
