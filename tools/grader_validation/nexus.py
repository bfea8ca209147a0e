"""Compare the nexus grader with the evaluation in NexusRaven-V2's notebook, on generated answers.

    git clone https://github.com/nexusflowai/NexusRaven-V2 CHECKOUT        # at 7794bc6
    git clone https://github.com/nexusflowai/NexusRaven RAVEN              # at f328827
    pip install pyyaml
    python tools/grader_validation/nexus.py --data CHECKOUT --golds RAVEN

The notebook defines dummy functions for each of its benchmarks and runs answers with them. Its data sets are not in the
repository, but the older repository has the golds of two of them, NVDLibrary and VirusTotal. This script runs the
notebook's definitions and comparison on generated calls. The calls follow the signatures, with positional, named,
missing, wrong, unknown and extra arguments, nested calls, several calls, list brackets, line breaks and surrounding
words. The golds of the older repository are answers to themselves and to each other, and are changed. Our grader gets
the same pairs, with the signatures in a prompt as in the notebook. Run it only where the notebook is safe to run.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import io
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import template_graders as frame

NOTEBOOK = Path("evaluation_notebook", "GPT4_Evaluation", "Benchmark_GPT4.ipynb")
BLANK = "a blank before the call, which the notebook takes off its own model's answers and no other's, and we always"
VALUES = (
    "'x'", "''", "'2023-03-01 00:00'", "5", "0", "1.5", "True", "False", "None", "[]", "['a', 'b']", "{'k': 1}", "-1",
)  # fmt: skip
DRESSES = (
    "[{}]", "({})", "`{}`", "Call: {}", "{}\nThat is it.", "x = {}", " {}", "{}.text", "{}[0]", "print({})", "{} + 1",
    "{} # done", "[{}][0]", "{};",
)  # fmt: skip


def benchmarks(checkout: Path) -> Iterator[dict[str, Any]]:
    """Yield the names that each benchmark of the notebook defines."""
    cells = json.loads((checkout / NOTEBOOK).read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        code = "".join(cell["source"])
        if cell["cell_type"] == "code" and "correctness.append" in code:
            names: dict[str, Any] = {}
            tree = ast.parse(code)
            kept = [
                node
                for node in tree.body
                if isinstance(node, ast.FunctionDef | ast.ImportFrom | ast.Import)
                or (isinstance(node, ast.Assign) and "correctness" in ast.unparse(node.targets[0]))
            ]
            exec("from typing import *\ncorrectness = []", names)
            exec(compile(ast.Module(kept, []), str(NOTEBOOK), "exec"), names)
            yield names


def official(names: dict[str, Any], call: str, gold: str) -> bool:
    """Return the notebook's verdict, which is wrong for an answer that records nothing."""
    names["correctness"].clear()
    correctness = names["correctness"]
    if call and bool(re.match(r"\w+\(.*\)", call)):
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            exec(call, names)
    made = copy.deepcopy(correctness)
    if not made:
        return False
    correctness.clear()
    exec(gold.strip(), names)
    return made == copy.deepcopy(correctness)


def arguments(function: Any) -> list[str]:
    """Return some arguments that fit a function."""
    result, by_place = [], True
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        needed = parameter.default is parameter.empty
        by_place = by_place and (needed or random.random() < 0.2)
        if needed or random.random() < 0.2:
            value = random.choice(VALUES)
            result.append(value if by_place and random.random() < 0.5 else f"{parameter.name}={value}")
            by_place = by_place and "=" not in result[-1].split("(")[0].split("'")[0]
    return result


def call(functions: dict[str, Any]) -> tuple[str, list[str]]:
    name = random.choice(list(functions))
    given = arguments(functions[name])
    if given and random.random() < 0.15:
        inner, others = call(functions)
        at = random.randrange(len(given))
        head = given[at].partition("=")[0] + "=" if re.match(r"\w+=", given[at]) else ""
        given[at] = f"{head}{inner}({', '.join(others)})"
    return name, given


def pairs(functions: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield pairs of a gold and a similar answer."""
    parts = [call(functions) for _ in range(random.choice((1, 1, 1, 2)))]

    def text(of: list[tuple[str, list[str]]], between: str = "; ") -> str:
        return between.join(f"{name}({', '.join(given)})" for name, given in of)

    gold = text(parts)
    name, given = parts[0]
    named = name, [item for item in given if re.match(r"\w+=", item)]
    optional = [
        key
        for key, parameter in inspect.signature(functions[name]).parameters.items()
        if parameter.default is not parameter.empty
    ]
    more = f"{random.choice(optional or ['unknown'])}={random.choice(VALUES)}"
    yield gold, gold
    yield gold, text(parts, "\n")
    yield gold, text(parts, ", ")
    yield gold, random.choice(DRESSES).format(gold)
    yield gold, gold.replace("(", "(\n", 1)
    yield gold, text(parts[::-1])
    yield gold, text([*parts, (name, given)])
    yield gold, text([(name, [*given, more]), *parts[1:]])
    yield gold, text([(name, given[:-1]), *parts[1:]])
    yield gold, text([named, *parts[1:]])
    yield gold, text([(name, [*given[: len(given) - len(named[1])], *named[1][::-1]]), *parts[1:]])
    yield gold, text([(name, [random.choice(VALUES), *given]), *parts[1:]])
    yield gold, text([(name, [re.sub(r"(?<==).*", random.choice(VALUES), item) for item in given]), *parts[1:]])
    yield gold, text([(random.choice(list(functions)), given), *parts[1:]])
    yield gold, f"{text(parts)}; nobody()"


def changed(gold: str, golds: list[str]) -> Iterator[str]:
    """Yield answers to a gold: itself, ten other golds, and the gold with a small change."""
    yield gold
    yield from random.sample(golds, 10)
    for change in ("order", "left out", "by place", "another value", "list", "words"):
        call = ast.parse(gold, mode="eval").body
        if not isinstance(call, ast.Call) or not call.keywords:
            continue
        chosen = random.choice(call.keywords)
        match change:
            case "order":
                call.keywords.reverse()
            case "left out":
                call.keywords.remove(chosen)
            case "by place":
                call.args.append(call.keywords.pop(0).value)
            case "another value":
                chosen.value = ast.parse(random.choice(VALUES), mode="eval").body
        yield {"list": "[{}]", "words": "The call is {}"}.get(change, "{}").format(ast.unparse(call))


def judge(names: dict[str, Any], gold: str, answer: str) -> tuple[bool, bool]:
    """Return our verdict and the notebook's. An error in the gold passes through, which no benchmark has."""
    grader = frame.template_module("tools/nexus.py")
    theirs = official(names, answer, gold)
    prompt = "".join(
        f"Function:\ndef {name}{inspect.signature(function)}:\n" for name, function in dummies(names).items()
    )
    program = grader.program(answer)
    known = grader.headers(prompt, [gold])
    return program is not None and grader.grade(program, str(grader.gold_program(gold)), known), theirs


def dummies(names: dict[str, Any]) -> dict[str, Any]:
    return {
        name: function
        for name, function in names.items()
        if inspect.isfunction(function) and function.__module__ != "typing"
    }


def main() -> None:
    parser = frame.arguments(__doc__, "checkout of nexusflowai/NexusRaven-V2")
    parser.add_argument("--golds", type=Path, required=True, help="checkout of nexusflowai/NexusRaven")
    args = parser.parse_args()
    frame.check_commit(args.data, "7794bc6")
    frame.check_commit(args.golds, "f328827")
    random.seed(8)
    every = list(benchmarks(args.data))
    generated: list[tuple[bool, bool, str]] = []
    for names in every:
        for gold, answer in (pair for _ in range(60) for pair in pairs(dummies(names))):
            with contextlib.suppress(TypeError, SyntaxError):  # the gold does not run
                generated.append((*judge(names, gold, answer), BLANK if answer[:1] == " " else "other"))
    changes = []
    for file, function in (("cve_cpe", "searchCVE"), ("virustotal", "vt_get_domain_report")):
        names = next(names for names in every if function in names)
        source = args.golds / "raven" / "data" / "resources" / f"{file}_queries.json"
        rows = json.loads(source.read_text(encoding="utf-8"))
        golds = [row["reference"].replace("r = nvdlib.", "") for row in rows]
        for gold in golds:
            changes += [(*judge(names, gold, answer), "not looked into") for answer in changed(gold, golds)]
    frame.show({"nexus_generated": frame.tallied(generated), "nexus_golds": frame.tallied(changes)})


if __name__ == "__main__":
    main()
