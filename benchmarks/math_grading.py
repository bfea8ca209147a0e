r"""Time and errors of grading 5,000 answers to MATH: both of our graders on all cores, beside the recipe's scorer.

    git clone https://github.com/ZubinGou/math-evaluation-harness    # db77bc6, data/math/test.jsonl
    python benchmarks/math_grading.py --data math-evaluation-harness

Each answer is the solution of a MATH problem in prose, without its box, and ends in the sentence that Meta's prompt
asks for. 55 of 100 box the gold as it stands, 15 an equal value written otherwise
(tools/grader_validation/math_rewrites.py has the ways), 30 something else: four in five of them with other digits,
the rest as math_rewrites makes them wrong. So it is known of each whether it is right.

The recipe's scorer is rebuilt from its description: the last box, Minerva's normalisation, equal texts, else sympy with
five seconds each, one answer after the other in one process. lm-eval's leaderboard has these very steps. Ours is what
lm-eval calls: the filter that sees all answers, then process_results of every doc, with final_em, exact_match and
math-verify's verdict. Each side runs in a process of its own, in turn; CPU seconds count its workers too.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools" / "grader_validation"))

SEED = 13
SIDES = ("recipe", "ours, 2 processes", "ours, 1 process")


def other_digits(gold: str, chance: random.Random) -> str:
    """A digit of the gold changed, or one added where it has none."""
    digits = [result.start() for result in re.finditer(r"\d", gold)]
    if not digits:
        return f"{gold}+1"
    at = chance.choice(digits)
    return f"{gold[:at]}{(int(gold[at]) + chance.randint(1, 8)) % 10}{gold[at + 1 :]}"


def answers(data: Path) -> list[tuple[bool, str, str, str]]:
    """Whether it is right, the gold, what is boxed, and the whole output, of every problem."""
    import math_rewrites
    import template_graders

    template = template_graders.module(template_graders.TEMPLATES / "math_hard" / "utils.py")
    chance = random.Random(SEED)
    made = []
    for line in (data / "data" / "math" / "test.jsonl").read_text(encoding="utf-8").splitlines():
        solution = json.loads(line)["solution"]
        gold = template.last_boxed(solution)
        answer, kind = gold, chance.random()
        if kind >= 0.55:
            table = math_rewrites.RIGHT if kind < 0.7 else math_rewrites.WRONG
            result = [other for rewrite in table.values() if (other := rewrite(gold)) not in (None, gold)]
            if kind >= 0.7 and (not result or chance.random() < 0.8):
                answer = other_digits(gold, chance)
            elif result:
                answer = chance.choice(result)
        prose = re.sub(r"\\(?:boxed|fbox)", "", solution)
        output = f"{prose}\n\nTherefore, the final answer is: $\\boxed{{{answer}}}$. I hope it is correct."
        made.append((kind < 0.7, gold, answer, output))
    return made


def recipe(made: list[tuple[bool, str, str, str]]) -> dict[str, list[bool]]:
    """Verdicts of the recipe's steps."""
    from lm_eval.tasks.leaderboard.math import utils

    limit = utils.timeout
    utils.timeout = lambda seconds: limit(5)  # noqa: ARG005 (the leaderboard has one second)
    result = []
    for _, gold, _, output in made:
        try:
            boxed = utils.remove_boxed(utils.last_boxed_only_string(output))
        except (AssertionError, TypeError):  # ends the whole run in the recipe
            boxed = ""
        mine, theirs = utils.normalize_final_answer(boxed), utils.normalize_final_answer(gold)
        result.append(mine.strip() == theirs.strip() or bool(utils.is_equiv(mine, theirs)))
    return {"recipe": result}


def ours(made: list[tuple[bool, str, str, str]], processes: int) -> dict[str, list[bool]]:
    """Verdicts of the template, as lm-eval asks for them."""
    import template_graders

    template = template_graders.module(template_graders.TEMPLATES / "math_hard" / "utils.py")
    template.PROCESSES = processes
    docs = [
        {"gold": gold, "answers": [gold], "subtask_name": None, "input_question_hash": str(number)}
        for number, (_, gold, _, _) in enumerate(made)
    ]
    outputs = template.grade_ahead([[output] for *_, output in made], docs)
    scores = [template.process_results(doc, output) for doc, output in zip(docs, outputs, strict=True)]
    template._grader().close()
    return {metric: [bool(score[metric]) for score in scores] for metric in ("exact_match", "math_verify", "ungraded")}


def one_side(name: str, cases: Path) -> dict[str, Any]:
    """A side's seconds, its workers' too, and how often each of its verdicts is wrong."""
    import resource

    made = json.loads(cases.read_text(encoding="utf-8"))
    right = [answer[0] for answer in made]
    # What is the same for both sides and all tasks is imported before the clock starts.
    import datasets  # noqa: F401
    import lm_eval.tasks  # noqa: F401
    from sympy.parsing.latex import parse_latex

    parse_latex("1")  # an import that the recipe's own alarm may cut off, after which it finds nothing equal

    def cpu() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in used)

    started, worked = time.perf_counter(), cpu()
    verdicts = recipe(made) if name == "recipe" else ours(made, int(re.findall(r"\d", name)[0]))
    seconds, worked = time.perf_counter() - started, cpu() - worked
    ungraded = sum(verdicts.pop("ungraded", []))
    errors = {
        metric: [
            sum(not verdict for verdict, truth in zip(verdict, right, strict=True) if truth),
            sum(verdict for verdict, truth in zip(verdict, right, strict=True) if not truth),
        ]
        for metric, verdict in verdicts.items()
    }
    return {"seconds": seconds, "cpu": worked, "errors": errors, "ungraded": ungraded}


def measure(data: Path, repeats: int, sides: Sequence[str] = SIDES) -> dict[str, list[dict[str, Any]]]:
    """What `one_side` says of each side, in processes of their own and in turn, so many times."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        cases = Path(folder) / "cases.json"
        made = answers(data)
        cases.write_text(json.dumps(made), encoding="utf-8")
        print(f"{len(made):,} answers, {sum(answer[0] for answer in made):,} of them right", file=sys.stderr)
        for _ in range(repeats):
            for name in sides:
                command = [sys.executable, __file__, "--data", str(data), "--one", name, str(cases)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    sys.exit(done.stderr)
                runs[name].append(json.loads(done.stdout.splitlines()[-1]))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a checkout of ZubinGou/math-evaluation-harness")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("SIDE", "CASES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one_side(arguments.one[0], Path(arguments.one[1]))))
        return
    runs = measure(arguments.data, arguments.repeats)
    print(f"{'side':20}{'seconds':>9}{'CPU s':>8}{'of the recipe':>15}  right refused / wrong taken")
    base = statistics.median(run["seconds"] for run in runs["recipe"])
    for name, result in runs.items():
        seconds, cpu = (statistics.median(run[key] for run in result) for key in ("seconds", "cpu"))
        errors = ", ".join(f"{metric} {errors[0]} / {errors[1]}" for metric, errors in result[0]["errors"].items())
        print(f"{name:20}{seconds:9.1f}{cpu:8.1f}{seconds / base:15.2f}  {errors}, ungraded {result[0]['ungraded']}")


if __name__ == "__main__":
    main()
