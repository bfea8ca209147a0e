"""MATH's graders on pairs of our own, and the processes that grade: as many as there are, the verdicts are the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from marks import thorough
from places import REPOSITORY, TEMPLATES, THOROUGH
from template_modules import inner_module, load_module

TEMPLATE = TEMPLATES / "math_hard"


@pytest.fixture(scope="module")
def grader() -> Iterator[ModuleType]:
    """The template's functions, with one process of their own: each more would have to learn the same grammar."""
    utils = load_module(TEMPLATE / "utils.py")
    utils.PROCESSES = 1
    yield utils
    utils._grader().close()


def pairs() -> list[tuple[bool, str, str]]:
    kinds = yaml.safe_load((REPOSITORY / "tests" / "data" / "math_pairs.yaml").read_text(encoding="utf-8"))
    golds = [gold for golds in kinds.values() for gold in golds]
    return [
        (right, gold["gold"], answer)
        for gold in golds
        for right in (True, False)
        for answer in gold["right" if right else "wrong"]
    ]


def test_equality_errs_in_no_pair(grader: ModuleType) -> None:
    def sympy(gold: str, answer: str) -> Any:
        return grader._grader().grade("sympy", gold, answer)

    judged = pairs()
    grades = [grader.equivalence.equal(gold, answer, sympy) for _, gold, answer in judged]
    assert len(judged) >= 300
    assert [pair for pair, grade in zip(judged, grades, strict=True) if grade.equal != pair[0] or grade.failure] == []


# Every third pair: math-verify parses each answer, which is nearly all of the work. In CI all of them.
STEP, MOST = (1, 38) if THOROUGH else (3, 14)


@thorough
def test_the_graders_err_no_more_than_was_measured(grader: ModuleType) -> None:
    judged = pairs()[::STEP]
    docs = [
        {"gold": gold, "answers": [gold], "subtask_name": None, "input_question_hash": "h"} for _, gold, _ in judged
    ]
    outputs = [[rf"Therefore, the final answer is: $\boxed{{{answer}}}$."] for _, _, answer in judged]
    scores = [
        grader.process_results(doc, output) for doc, output in zip(docs, grader.grade_ahead(outputs, docs), strict=True)
    ]
    wrong = {
        metric: [pair for pair, score in zip(judged, scores, strict=True) if bool(score[metric]) != pair[0]]
        for metric in ("exact_match", "math_verify")
    }
    assert wrong["exact_match"] == []
    assert len(wrong["math_verify"]) <= MOST
    assert not any(score["ungraded"] for score in scores)


# More than one process is asked (`REQUESTS_A_PROCESS`).
def requests(first: int) -> list[tuple[str, str, str]]:
    numbers = range(first, first + 41)
    return [
        ("math_verify", gold, rf"It is $\boxed{{{answer}}}$.")
        for gold, answer in (
            *((str(n), f"{2 * n}/2") for n in numbers),
            *((rf"\frac{{{n}}}{{7}}", rf"\frac{{{n + n % 2}}}{{7}}") for n in numbers),
        )
    ]


def verdicts(pool: Any) -> list[tuple[bool, str | None]]:
    pool.grade_all(requests(0))
    return [pool.grade(*request) for request in requests(0)]


@pytest.fixture(scope="module")
def pool() -> Iterator[Any]:
    made = inner_module(TEMPLATE / "math_grader.py").Grader(limit_s=0.5, processes=2)
    yield made
    made.close()


@thorough
def test_as_many_processes_as_there_are_the_verdicts_are_the_same(grader: ModuleType, pool: Any) -> None:
    alone = verdicts(grader._grader())
    assert alone == verdicts(pool)
    assert {grade.equal for grade in alone} == {True, False}


@thorough
def test_a_process_that_hangs_or_is_killed_costs_its_own_verdict_alone(pool: Any) -> None:
    tower = ("sympy", "7", "9^{9^{9^9}}")
    pool.grade_all([*requests(100), tower])
    assert pool.grade(*tower) == (False, "no verdict within 0.5 s")
    worker = next(worker for worker in pool._workers if worker._process is not None)
    os.kill(worker._process.pid, signal.SIGKILL)
    pool.grade_all([("math_verify", "5", f"It is {n}.") for n in range(100)])
    grades = [pool.grade("math_verify", "5", f"It is {n}.") for n in range(100)]
    again = [pool.grade(*request) for request in requests(100)]
    assert sum(grade.failure is not None for grade in grades) <= 1
    assert [grade for grade in again if grade.failure] == []


def test_a_verdict_is_asked_for_once(grader: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = grader._grader()
    first = asked.grade("sympy", "2", "4/2")
    asked.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert first == asked.grade("sympy", "2", "4/2") == (True, None)
    assert "does not start" in asked.grade("sympy", "2", "6/3").failure


ASK = """
import sys, time
sys.path.insert(0, {helpers!r})
from template_modules import inner_module
from pathlib import Path
pool = inner_module(Path({grader!r})).Grader(limit_s=30.0, processes=2)
pool.check()
print(*(worker._process.pid for worker in pool._workers if worker._process), flush=True)
pool.grade("sympy", "7", "9^{{9^{{9^9}}}}")
"""


def test_when_the_asking_process_is_killed_an_idle_grader_ends(tmp_path: Path) -> None:
    text = ASK.format(helpers=str(REPOSITORY / "tests" / "helpers"), grader=str(TEMPLATE / "math_grader.py"))
    (tmp_path / "ask.py").write_text(text.replace('pool.grade("sympy"', 'time.sleep(60)  # pool.grade("sympy"'))
    asking = subprocess.Popen([sys.executable, tmp_path / "ask.py"], stdout=subprocess.PIPE, text=True)
    assert asking.stdout is not None
    (pid,) = map(int, asking.stdout.readline().split())
    asking.kill()
    asking.wait()
    asking.stdout.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _runs(pid):
        time.sleep(0.1)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


numbers = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.from_regex(r"-?0{0,2}[0-9]{1,12}\.[0-9]{1,12}", fullmatch=True),
    st.tuples(st.sampled_from(["", "-"]), st.integers(0, 10**6), st.integers(1, 10**6)).map(
        lambda part: rf"{part[0]}\frac{{{part[1]}}}{{{part[2]}}}"
    ),
)


@given(numbers)
def test_a_number_is_read_as_math_verifys_own_parser_reads_it(text: str) -> None:
    from latex2sympy2_extended.latex2sympy2 import latex2sympy
    from sympy import srepr

    theirs = latex2sympy(text, is_real=True, convert_degrees=False, normalization_config=None)
    assert srepr(inner_module(TEMPLATE / "sooner.py").read_number(text)) == srepr(theirs)


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [("x+1", "x+2", True), ("(x+1)**2", "x**2+2*x+1", False), ("sqrt(8)", "2*sqrt(2)", False), ("x", "y", True)],
)
def test_expressions_differ_where_their_values_do(first: str, second: str, apart: bool) -> None:
    from sympy import sympify

    assert inner_module(TEMPLATE / "sooner.py").differ(sympify(first), sympify(second)) is apart


@thorough
def test_texts_of_one_shape_are_read_as_math_verifys_own_parser_reads_each() -> None:
    texts = [
        text
        for number, name in (("7", "x"), ("12.5", "Y"), ("1,234", "x"))
        for text in (
            f"{number} apples", rf"({number},-{name})", rf"\frac{{{number}}}{{{name}}}", rf"{number}\sqrt{{{number}}}",
            rf"{name}={number}^2-3{name}+1", rf"\{{{number},{name}\}}", rf"[{number},\infty)\cup(-1,{number}]",
            rf"\begin{{pmatrix}}{number}&{name}\\{name}&{number}\end{{pmatrix}}", rf"{number}\%", rf"{name}^{{{number}",
            rf"\frac{{d{name}}}{{d{name}}}", rf"{number}\frac{{1}}{{{number}}}", rf"\{number}",
        )
    ]  # fmt: skip
    plain = _each_read(texts, quick=False)
    with ProcessPoolExecutor(1, get_context("fork")) as beside:  # what is quickened stays so in its process
        assert beside.submit(_each_read, texts, quick=True).result() == plain
    assert sum(parsed is not None for parsed in plain) > len(texts) // 2


def _each_read(texts: list[str], *, quick: bool) -> list[str | None]:
    """What math-verify's parser makes of each text; None of what it refuses."""
    from latex2sympy2_extended.latex2sympy2 import latex2sympy
    from math_verify import parser
    from sympy import srepr

    if quick:
        inner_module(TEMPLATE / "sooner.py").quicken()

    def read(text: str) -> str | None:
        how = parser.latex2sympy if quick else latex2sympy
        try:
            return str(srepr(how(text, is_real=True, convert_degrees=False, normalization_config=None)))
        except Exception:
            return None

    return [read(text) for text in texts]
