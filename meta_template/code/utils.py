r"""Make docs of code tasks, extract the program from an answer, and run its tests.

Meta's prompts begin the answer. The assistant's turn already has a fence and, for HumanEval, the function up to its
docstring. The model continues from there. `given` is this beginning. The program is made of it and the answer.

The filters judge all answers of a task together. `runner` runs several programs at a time. A filter returns JSON text
with the program, the number of tests that passed, and why the next did not. The metrics only read this text.
"""

import ast
import builtins
import functools
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

# CPU seconds of a program. The wall limit is longer, so a loaded machine does not fail right programs. The benchmarks'
# own harnesses give about 3 s of wall time to the few tests of HumanEval and MBPP. EvalPlus adds hundreds of inputs to
# each problem.
CPU_S = 5
CPU_PLUS_S = 30
WALL_FACTOR = 4

FENCE = "```"
# A fence with the rest of its line, which may name a language.
_FENCED = re.compile(rf"{FENCE}(?:[ \t]*[A-Za-z0-9_+-]*[ \t]*\r?\n)?")

logger = logging.getLogger("meta_eval.code")

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows, runner = load.module(".._common.rows"), load.module(".runner")
given = rows.families.begun_answer


# Docs


def _human_eval(row: dict, cpu_s: int) -> dict:
    tests = [f"{row['test']}\n\ncheck({row['entry_point']})\n"]
    made = _doc(row, row["original_prompt"] + row["canonical_solution"], "", tests, row["entry_point"], cpu_s)
    return {**made, "helpers": helpers(row["original_prompt"], row["entry_point"])}


def _mbpp(row: dict, more_tests: list[str], cpu_s: int) -> dict:
    tests = ["\n".join(row["test_list"]) + "\n", *more_tests]
    return _doc(row, row["code"], row["test_setup"], tests, entry_point(row["test_list"]), cpu_s)


def _doc(row: dict, gold: str, setup: str, tests: list[str], name: str, cpu_s: int) -> dict:
    """Make a doc with the common columns and the tests.

    The gold is the solution of the original dataset. It is only shown to readers, because the tests judge.
    """
    doc = rows.make_doc({**row, "input_correct_responses": [gold]})
    return {
        **doc,
        "gold": gold.replace("\r\n", "\n"),
        "task_id": row["task_id"],
        "entry_point": name,
        "helpers": "",
        "given": given(doc["prompt"]),
        "setup": setup,
        "tests": tests,
        "cpu_s": cpu_s,
    }


# HumanEval+ has a single test with the original inputs and EvalPlus's. MBPP+ has two: the asserts of MBPP, then
# EvalPlus's test.
process_human_eval = rows.docs_by(lambda row: _human_eval(row, CPU_S))
process_human_eval_plus = rows.docs_by(lambda row: _human_eval(row, CPU_PLUS_S))
process_mbpp = rows.docs_by(lambda row: _mbpp(row, [], CPU_S))
process_mbpp_plus = rows.docs_by(lambda row: _mbpp(row, [row["test"]], CPU_PLUS_S))


def helpers(stub: str, name: str) -> str:
    """Return what a problem defines besides the requested function: imports, and functions that tests also call."""
    tree = _parsed(stub)
    nodes = [] if tree is None else [node for node in tree.body if getattr(node, "name", None) != name]
    return ast.unparse(ast.Module(nodes, []))


def entry_point(tests: list[str]) -> str:
    """Return the name of the function that every assert calls, or "" if there is none. Built-in functions do not count.

    If there are several, the first in the first assert is returned.
    """
    called = []
    for test in tests:
        tree = _parsed(test)
        names = [] if tree is None else [node.func.id for node in ast.walk(tree) if _calls_by_name(node)]
        called.append([name for name in names if not hasattr(builtins, name)])
    return next((name for name in called[0] if all(name in names for names in called)), "") if called else ""


def _calls_by_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def doc_to_text(doc: dict) -> str:
    """Return the prompt exactly as Meta recorded it, and check that programs can be run.

    lm-eval asks for every prompt before it generates anything, so nothing is generated in vain.

    Raises:
        RuntimeError: Programs cannot be run here.
    """
    _require_sandbox(any("numpy" in test for test in doc["tests"]))
    return doc["prompt"]


@functools.cache
def _require_sandbox(needs_numpy: bool) -> None:
    runner.sandbox().check(needs_numpy=needs_numpy)


# The program in an answer


def strict_program(doc: dict, answer: str) -> str | None:
    """Return the text between the first fence and the next, or None if the answer adds nothing to it.

    The beginning in the prompt and the answer count as a single text. The prompt has the opening fence.
    """
    text = doc["given"] + answer
    start = _block_start(text)
    if start is None:
        return None
    program = text[start:].partition(FENCE)[0]
    return program if program[max(0, len(doc["given"]) - start) :].strip() else None


def flexible_program(doc: dict, answer: str) -> str | None:
    """Return the first reading of an answer that is Python and defines what the tests call, or None.

    It also accepts code in another fence, code without a fence before other words, a repeated signature, and an answer
    that was cut off after the complete function.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return next((text for text in _readings(doc, answer) if _defines(text, doc["entry_point"])), None)


def _readings(doc: dict, answer: str) -> Iterator[str]:
    """Yield every program that an answer may mean, the likeliest first."""
    strict = strict_program(doc, answer)
    if strict is not None:
        yield strict
    opened = _block_start(doc["given"])
    begun = "" if opened is None else doc["given"][opened:]
    # Code in another fence is a whole program or continues the prompt's beginning. Opening and closing fences are not
    # told apart, because words between two code blocks are no Python anyway.
    continued, *blocks = _FENCED.split(answer)
    for block in blocks:
        # A whole program may need the prompt's imports and functions, which the benchmark's own harness runs first.
        joined = f"{begun}\n{block}"
        yield from (block, joined) if "__future__" in block else (joined, block)
    yield f"{begun}\n{continued}"
    # A fence inside a string does not end the program.
    for fence in re.finditer(FENCE, answer):
        yield begun + answer[: fence.start()]
    # Drop words after code without a closing fence, or examples that were cut off. They begin outside the function.
    for start in dict.fromkeys((begun, f"{begun}\n", "")):
        lines = (start + continued).split("\n")
        for end in range(len(lines) - 1, 0, -1):
            if lines[end][:1].strip():
                yield "\n".join(lines[:end])


def _block_start(text: str) -> int | None:
    """Return the index at which the content of the first fence begins, or None without a fence."""
    fence = _FENCED.search(text)
    return fence.end() if fence else None


def _defines(program: str, name: str) -> bool:
    """Return whether a text is Python and defines the name with more than a stub. Without a name, any code counts."""
    tree = _parsed(program)
    if tree is None:
        return False
    if not name:
        return bool(tree.body)
    is_defined = False
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            is_defined = not all(_says_nothing(statement) for statement in node.body)
        elif isinstance(node, ast.Assign):
            is_defined = is_defined or any(
                isinstance(target, ast.Name) and target.id == name for target in node.targets
            )
        elif isinstance(node, ast.Import | ast.ImportFrom):
            is_defined = is_defined or any((alias.asname or alias.name) == name for alias in node.names)
    return is_defined


def _says_nothing(statement: ast.stmt) -> bool:
    """Return whether a statement may be part of a stub: a constant such as a docstring, or an import.

    A stub of HumanEval begins with an import.
    """
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _parsed(program: str) -> ast.Module | None:
    try:
        return ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# Scoring


def strict(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: judge the program in the form that the prompt asks for."""
    return judged(resps, docs, strict_program)


def flexible(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: search the answer for the program and judge it."""
    return judged(resps, docs, flexible_program)


def judged(resps: list[list[str]], docs: list[dict], program_of: Callable[[dict, str], str | None]) -> list[list[str]]:
    """Return a verdict on each answer as JSON text.

    - ``code``: the program, or null if none was found.
    - ``passed``: the number of tests that passed.
    - ``why``: why the next test did not pass.
    - ``failure``: why there is no verdict. Such an answer counts as wrong.
    - ``self_judged``: whether tests passed in the process of the program, which could have faked it.

    Raises:
        RuntimeError: Programs cannot be run here, or not safely.
    """
    if docs:
        _require_sandbox(any("numpy" in test for doc in docs for test in doc["tests"]))
    pairs = [
        (doc, program_of(doc, answer or "")) for doc, answers in zip(docs, resps, strict=True) for answer in answers
    ]
    verdicts = {}
    for cpu_s in {doc["cpu_s"] for doc, _ in pairs}:
        numbers = [number for number, (doc, code) in enumerate(pairs) if doc["cpu_s"] == cpu_s and code is not None]
        programs = [
            runner.Program(doc["setup"], code, tuple(doc["tests"]), doc["entry_point"], doc["helpers"])
            for doc, code in map(pairs.__getitem__, numbers)
        ]
        limits = runner.Limits(cpu_s, wall_s=cpu_s * WALL_FACTOR)
        verdicts |= dict(zip(numbers, runner.sandbox().run(programs, limits), strict=True))
    for number, verdict in sorted(verdicts.items()):
        if verdict.failure:
            place = pairs[number][0]["input_question_hash"]
            logger.warning("question %s: not graded, so it counts as wrong (%s)", place, verdict.failure)
    texts = iter(
        _as_text(code, verdicts.get(number, runner.Verdict(0, "no program found")))
        for number, (_, code) in enumerate(pairs)
    )
    return [[next(texts) for _ in answers] for answers in resps]


def _as_text(code: str | None, verdict) -> str:
    return json.dumps({"code": code, **verdict._asdict()}, ensure_ascii=False)


def process_results(doc: dict, results: list[str]) -> dict:  # noqa: ARG001 (lm-eval passes both)
    """Read the verdict on an answer. ``pass@1`` is whether the first test passed, which for MBPP+ is that of MBPP."""
    verdict = json.loads(results[0])
    return {
        "pass@1": float(verdict["passed"] >= 1),
        "unextracted": float(verdict["code"] is None),
        "ungraded": float(verdict["failure"] is not None),
        "self_judged": float(verdict["self_judged"]),
    }


def process_results_plus(doc: dict, results: list[str]) -> dict:
    """Add ``pass@1_plus`` to `process_results`: whether every test passed, also EvalPlus's."""
    return {
        **process_results(doc, results),
        "pass@1_plus": float(json.loads(results[0])["passed"] >= len(doc["tests"])),
    }
