"""Compare our MBPP+ verdicts with EvalPlus' on the base tests, for original and changed solutions.

    pip install evalplus==0.3.1
    git clone https://github.com/linkedin/ControlLLM && git -C ControlLLM checkout 7657b9f
    python tools/grader_validation/mbpp.py --data ControlLLM

EvalPlus downloads its problems at first use. The second repository has a copy without the additional inputs. Both
harnesses get the same programs: the solutions, and each with a single change from a fixed seed (see
``code_changes.py``). EvalPlus stores tests as "f(values) == value", so problems with other tests are left out. EvalPlus
has no sandbox. Run this only where that is safe.
"""

from __future__ import annotations

import ast
import json
import multiprocessing
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from code_changes import changed, compared_programs
from template_graders import ASSISTANT, FENCE, TEMPLATES, checkout, filtered, row, settings, show, template_module

FILE = "src/controlllm/inference/llm_eval_harness/additional_tasks/mbpp_plus/test.jsonl"
MUTANTS = 3


def main() -> None:
    folder = checkout(__doc__, "linkedin/ControlLLM", "7657b9f")
    code = template_module("code/utils.py")
    draw = random.Random(42)
    docs, outputs, asked = [], [], []
    for line in (folder / FILE).open(encoding="utf-8"):
        problem = json.loads(line)
        tests = [line for line in problem["assertion"].split("\n") if line.strip()]
        cases = [case(test, problem["entry_point"]) for test in tests]
        if None in cases:
            continue
        for program in [problem["canonical_solution"], *changed(problem["canonical_solution"], draw, MUTANTS)]:
            joined = row(problem["prompt"], ["-"], input_final_prompts=[f"{ASSISTANT}{FENCE}python\n"])
            joined |= {
                "task_id": problem["task_id"],
                "code": problem["canonical_solution"],
                "test_setup": "",
                "test_list": tests,
            }
            docs.append(code._mbpp(joined, [], code.CPU_S))
            outputs.append(f"{program}\n{FENCE}")
            asked.append((program, problem["entry_point"], cases, problem["atol"]))
    result = [
        json.loads(text)
        for text in filtered(settings(TEMPLATES / "code" / "mbpp_3shot.yaml"), "strict-match", outputs, docs)
    ]
    with ThreadPoolExecutor(multiprocessing.cpu_count()) as pool:
        theirs = list(pool.map(evalplus_passes, asked))
    show({"mbpp_plus_evalplus": compared_programs(result, theirs)})


def case(test: str, entry_point: str) -> tuple[list[Any], Any] | None:
    """Return the arguments and the value of ``assert f(arguments) == value``, or None for another test."""
    try:
        (statement,) = ast.parse(test).body
        assert isinstance(statement, ast.Assert)
        (call, value) = statement.test.left, statement.test.comparators[0]  # type: ignore[attr-defined]
        if call.func.id != entry_point or not isinstance(statement.test.ops[0], ast.Eq):  # type: ignore[attr-defined]
            return None
        return [ast.literal_eval(arg) for arg in call.args], ast.literal_eval(value)
    except (AttributeError, ValueError, SyntaxError, AssertionError):
        return None


def evalplus_passes(asked: tuple[str, str, list[tuple[list[Any], Any]], float]) -> bool:
    """Whether EvalPlus passes a program on every case."""
    from evalplus.eval import PASS, untrusted_check

    program, entry_point, cases, atol = asked
    status, _ = untrusted_check(
        dataset="mbpp",
        code=program,
        inputs=[inputs for inputs, _ in cases],
        entry_point=entry_point,
        expected=[value for _, value in cases],
        atol=atol,
        ref_time=[0.1] * len(cases),
        fast_check=True,
    )
    return bool(status == PASS)


if __name__ == "__main__":
    main()
