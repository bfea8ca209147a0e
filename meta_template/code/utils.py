r"""Code: rows to docs, the program in an answer, and does it pass its tests?

Meta's prompts open the answer themselves: the assistant's turn holds a fence and, for HumanEval, the function up to
its docstring, and the model goes on from there. `given` is that opened part; what is run is made of it and the answer.

Every answer of a task is judged at once, in the filters, by `runner`, several at a time; what a filter hands on is
JSON text with the program, how many of its tests passed, and why the next did not. The metrics only read it.
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

# CPU seconds for one program; the wall limit is longer, so that a loaded machine does not fail right programs. The
# benchmarks' own harnesses give about 3 s of wall time to the few tests of HumanEval and MBPP. EvalPlus adds hundreds
# of inputs to each problem.
CPU_S = 5
CPU_PLUS_S = 30
WALL_FACTOR = 4

FENCE = "```"
# A fence, with the language that it may name and the end of its line.
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
    """The columns that every doc of every task has, and what it takes to judge an answer.

    The gold is the original's solution, which is there to be read: what judges are the tests.
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


# The one test of HumanEval+ holds the original inputs and EvalPlus's. Of MBPP+ the asserts of MBPP come first, then
# EvalPlus's test.
process_human_eval = rows.docs_by(lambda row: _human_eval(row, CPU_S))
process_human_eval_plus = rows.docs_by(lambda row: _human_eval(row, CPU_PLUS_S))
process_mbpp = rows.docs_by(lambda row: _mbpp(row, [], CPU_S))
process_mbpp_plus = rows.docs_by(lambda row: _mbpp(row, [row["test"]], CPU_PLUS_S))


def helpers(stub: str, name: str) -> str:
    """What a problem gives beside the function that is asked for: imports, and functions that its tests call too."""
    tree = _parsed(stub)
    nodes = [] if tree is None else [node for node in tree.body if getattr(node, "name", None) != name]
    return ast.unparse(ast.Module(nodes, []))


def entry_point(tests: list[str]) -> str:
    """The function that every one of some asserts calls and that Python does not bring; empty where none is.

    Of several it is the one that stands first in the first assert.
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
    """The prompt, exactly as Meta gave it to its model.

    lm-eval asks for every prompt before it generates anything, so this is where a machine that cannot run programs is
    found in time.

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
    """What stands between the first fence and the next, as the prompt wants it; None when the answer adds nothing.

    Prompt and answer count as one text: the fence that opens is the prompt's.
    """
    text = doc["given"] + answer
    start = _block_start(text)
    if start is None:
        return None
    program = text[start:].partition(FENCE)[0]
    return program if program[max(0, len(doc["given"]) - start) :].strip() else None


def flexible_program(doc: dict, answer: str) -> str | None:
    """The first reading of an answer that is Python and defines what the tests call; None when none is.

    It also takes code in a fence of the answer's own, code without a fence and with talk after it, a signature that is
    repeated, and an answer that was cut off after the function was complete.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return next((text for text in _readings(doc, answer) if _defines(text, doc["entry_point"])), None)


def _readings(doc: dict, answer: str) -> Iterator[str]:
    """Every program that an answer may mean, the likeliest first."""
    strict = strict_program(doc, answer)
    if strict is not None:
        yield strict
    opened = _block_start(doc["given"])
    begun = "" if opened is None else doc["given"][opened:]
    # In a fence of its own: a whole program, or what follows on what the prompt began. Which fences open and which
    # close is not asked, as what is no program between two of them is no Python either.
    continued, *blocks = _FENCED.split(answer)
    for block in blocks:
        # A whole program may lean on what the prompt imports and defines, which the benchmark's own harness runs first.
        joined = f"{begun}\n{block}"
        yield from (block, joined) if "__future__" in block else (joined, block)
    yield f"{begun}\n{continued}"
    # A fence inside a string of the program ends nothing.
    for fence in re.finditer(FENCE, answer):
        yield begun + answer[: fence.start()]
    # Talk after code that no fence ends, or examples that were cut off; what goes must begin outside the function.
    for start in dict.fromkeys((begun, f"{begun}\n", "")):
        lines = (start + continued).split("\n")
        for end in range(len(lines) - 1, 0, -1):
            if lines[end][:1].strip():
                yield "\n".join(lines[:end])


def _block_start(text: str) -> int | None:
    """Where the content of the first fenced block begins; None where there is no fence."""
    fence = _FENCED.search(text)
    return fence.end() if fence else None


def _defines(program: str, name: str) -> bool:
    """Whether a text is Python and gives the name a meaning of more than a docstring; without a name, any code."""
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
    """Whether it is no more than a stub has: a docstring, or an import, as one of HumanEval's stubs begins with."""
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
    """The filter that takes an answer as the prompt wants it."""
    return judged(resps, docs, strict_program)


def flexible(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """The filter that looks for the program in an answer."""
    return judged(resps, docs, flexible_program)


def judged(resps: list[list[str]], docs: list[dict], program_of: Callable[[dict, str], str | None]) -> list[list[str]]:
    """A verdict on each answer as JSON text: ``code``, tests ``passed``, ``why`` the next did not, ``failure``.

    ``code`` is null when no program was found; ``failure`` says why nobody can tell, which counts as wrong;
    ``self_judged``, that what passed could have made its tests pass.

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
    """Read the verdict on one answer: ``pass@1`` is whether the first test passed, of MBPP+ that of MBPP."""
    verdict = json.loads(results[0])
    return {
        "pass@1": float(verdict["passed"] >= 1),
        "unextracted": float(verdict["code"] is None),
        "ungraded": float(verdict["failure"] is not None),
        "self_judged": float(verdict["self_judged"]),
    }


def process_results_plus(doc: dict, results: list[str]) -> dict:
    """The same, and ``pass@1_plus``: whether every test passed, EvalPlus's too."""
    return {
        **process_results(doc, results),
        "pass@1_plus": float(json.loads(results[0])["passed"] >= len(doc["tests"])),
    }
