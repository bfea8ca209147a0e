"""The table of speed in one command: grading, prepare, verify, doctor, the joins and the start. Budgets are held.

A budget is a ratio of CPU seconds within one run of this program, so that it moves with the machine: to a bare
interpreter, to the recipe's joins, to a plain loop of lm-eval's own process_results or of json, or to pytest without
the plug-in. Memory has budgets in GB. A line above its budget makes the exit code 1.

    git clone https://github.com/ZubinGou/math-evaluation-harness    # db77bc6
    python benchmarks/speed.py --data math-evaluation-harness        two minutes on two quiet cores
    python benchmarks/speed.py                                       without MATH, whose problems stand there

Every line is the median of several runs, which take turns. The rows are those of verify_full_size.py (MMLU-Pro, 12,032
prompts of 9 KB) and of tools/simulated_run.py (IFEval and MATH-hard with their originals, 541 and 1,324 rows). The
recipe's sides are rebuilt from its description: its scorer as in math_grading.py; its joins with `datasets`, which
loads both files, maps row by row and writes, with a cache that is empty each time. The choice task is in choices.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import math_grading
import report_many_samples
import verify_full_size
from answers import simulated
from measuring import Cost, measured, meta_eval

ROOT = Path(__file__).resolve().parents[1]
SEVERAL = 5
# A start takes a fraction of a second, and a busy machine makes single ones slow: the quickest of so many counts.
STARTS = 7

BARE, JOINS = "a bare interpreter", "the recipe's two joins, as it makes them"
LOOP = "a plain loop of process_results over these answers"
PYTEST = "pytest with one test, without the plug-in"
PREPARE, VERIFY = "prepare of 12,032 rows with 9 KB prompts", "verify of that pack"
COMPARE = "compare of two runs of 12,032 docs with 9 KB prompts"
COUNTING = "a plain loop that reads these lines with json and counts flips"

# CI measures once, beside other work: there a line may take so many times its budget.
BUSY = 1.5

# By line: what it is compared with, and the most that it may take of that.
BUDGETS = {
    "`--version`": (BARE, 2.5),
    "`--help`": (BARE, 9.0),
    "a configuration with a mistake": (BARE, 20.0),
    "prepare with these joins": (JOINS, 0.5),
    PREPARE: (LOOP, 1.1),
    VERIFY: (LOOP, 1.2),
    COMPARE: (COUNTING, 4.2),  # wanted: 2.0
    "the same with the plug-in, unused": (PYTEST, 1.05),
}

# By line: the most memory, in GB.
MEMORY = {PREPARE: 0.45, VERIFY: 0.5, COMPARE: 0.2}

RECIPES_JOINS = """
import json, sys
from datasets import load_dataset

def asked(text):
    return json.loads(text)["dialog"][0]["body"] if text.startswith("{") else text

for rows, originals, key, kept, out in json.loads(sys.argv[1]):
    meta = load_dataset("json", data_files=rows, split="train")
    known = {row[key]: row for row in load_dataset("json", data_files=originals, split="train")}
    meta = meta.filter(lambda row: asked(row["input_question"]) in known)
    joined = meta.map(lambda row: {name: known[asked(row["input_question"])][name] for name in kept})
    assert len(joined), rows
    joined.to_parquet(out)
"""


PLAIN_LOOP = """
import sys
from lm_eval.tasks import TaskManager

manager = TaskManager(include_path=sys.argv[1], include_defaults=False)
load = getattr(manager, "load", None)
tasks = load([sys.argv[2]])["tasks"] if load else manager.load_task_or_group([sys.argv[2]])
task = tasks[sys.argv[2]]
scores = [task.process_results(doc, [doc["recorded_output"]]) for doc in task.eval_docs]
assert len(scores) > 0
"""


COUNTING_LOOP = """
import json, sys

def read(path):
    with open(path, encoding="utf-8") as lines:
        return {sample["doc_id"]: sample["exact_match"] for sample in map(json.loads, lines)}

a, b = map(read, sys.argv[1:])
assert sum(a[doc] != b[doc] for doc in a) > 0
"""


def recipes_joins(folder: Path) -> Cost:
    """Both joins in one process, as the recipe makes them."""
    with tempfile.TemporaryDirectory() as cache:
        asked = [
            (
                str(folder / "Llama-3.1-8B-Instruct-evals" / f"{subset}.jsonl"),
                str(folder / f"{subset}_originals.jsonl"),
                *columns,
                f"{cache}/{subset}.parquet",
            )
            for subset, *columns in (
                ("ifeval__strict", "prompt", ["instruction_id_list", "kwargs"]),
                ("math_hard", "problem", ["solution"]),
            )
        ]
        os.environ["HF_DATASETS_CACHE"] = cache
        return measured(sys.executable, "-c", RECIPES_JOINS, json.dumps(asked))


def works(folder: Path, scale: float = 1.0) -> dict[str, tuple[Callable[[], Cost], str]]:
    """Each line's work, and what is wanted of it."""
    large, small = folder / "large", folder / "small"
    large.mkdir()
    small.mkdir()
    size = verify_full_size.SIZES["mmlu_pro"]
    configs = {
        "large": verify_full_size.generate(large, size, scale),
        "small": {**simulated(small), "tasks": "meta_ifeval,meta_math_hard"},
        "wrong": {"model_name": "none", "evals_dataset": "sample", "taks": "meta_instruct"},
    }
    for name, keys in configs.items():
        (folder / f"{name}.yaml").write_text(json.dumps(keys), encoding="utf-8")
    (folder / "test_one.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
    large_pack = str(configs["large"]["work_dir"])
    # As many in the small form, too: of few docs compare would be its start alone.
    runs = [folder / name for name in ("baseline", "candidate")]
    for run in runs:
        run.mkdir()
    samples = [report_many_samples.generate(run, 12032, 27_000, is_other=run != runs[0]) for run in runs]

    def pytest(*options: str) -> Callable[[], Cost]:
        command = (
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *options,
            str(folder / "test_one.py"),
        )
        return lambda: measured(*command)

    def on(verb: str, config: str) -> Callable[[], Cost]:
        command = (sys.executable, "-m", "meta_eval", verb, "-c", str(folder / f"{config}.yaml"))
        return lambda: measured(*command, codes=(0, 1, 2))

    return {
        PREPARE: (on("prepare", "large"), "2.5 s, 0.45 GB"),
        VERIFY: (on("verify", "large"), "4 s, 0.5 GB"),
        LOOP: (lambda: measured(sys.executable, "-c", PLAIN_LOOP, large_pack, str(configs["large"]["tasks"])), "-"),
        COMPARE: (lambda: meta_eval("compare", *map(str, runs)), "-"),
        COUNTING: (lambda: measured(sys.executable, "-c", COUNTING_LOOP, *map(str, samples)), "-"),
        "doctor of it": (on("doctor", "large"), "2 s, 0.5 GB"),
        JOINS: (lambda: recipes_joins(small), "-"),
        "prepare with these joins": (on("prepare", "small"), "1.0 s"),
        BARE: (lambda: measured(sys.executable, "-c", "pass"), "-"),
        "`--version`": (lambda: meta_eval("--version"), "-"),
        "`--help`": (lambda: meta_eval("--help"), "-"),
        "a configuration with a mistake": (on("prepare", "wrong"), "-"),
        PYTEST: (pytest("-p", "no:meta-eval"), "-"),
        "the same with the plug-in, unused": (pytest(), "-"),
    }


def list_over_budget(cpu: dict[str, float], slack: float) -> list[str]:
    """Print each line's part of its budget; the lines above ``slack`` times theirs."""
    print("\n| work | CPU, ratio | budget | to |\n|---|---:|---:|---|")
    over = []
    for name, (yardstick, budget) in BUDGETS.items():
        ratio = cpu[name] / cpu[yardstick]
        print(f"| {name} | {ratio:.2f} | {budget:g} | {yardstick} |", flush=True)
        over += [name] if ratio > slack * budget else []
    return over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a checkout of ZubinGou/math-evaluation-harness")
    parser.add_argument("--repeats", type=int, default=SEVERAL)
    parser.add_argument("--small", action="store_true", help="once, over few rows: CI")
    arguments = parser.parse_args()
    repeats, scale = (1, verify_full_size.SMALL) if arguments.small else (arguments.repeats, 1.0)
    print("| work | seconds | CPU s | peak GB | wanted |\n|---|---:|---:|---:|---|", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        todo = works(Path(temporary), scale)
        runs: dict[str, list[Cost]] = {name: [] for name in todo}
        for turn in range(max(repeats, STARTS)):
            for name, (work, _) in todo.items():
                if turn < repeats or {name, BUDGETS.get(name, ("",))[0]} & {BARE, PYTEST}:
                    runs[name].append(work())
    for name, run in runs.items():
        seconds, cpu, memory = (statistics.median(column) for column in list(zip(*run, strict=True))[:3])
        print(f"| {name} | {seconds:.2f} | {cpu:.2f} | {memory:.2f} | {todo[name][1]} |", flush=True)
    slack = BUSY if arguments.small else 1.0
    over = list_over_budget({name: min(cost.cpu for cost in run) for name, run in runs.items()}, slack)
    over += [f"memory of {name}" for name, most in MEMORY.items() if min(cost[2] for cost in runs[name]) > most]
    if arguments.data:
        graded = math_grading.measure(arguments.data, arguments.repeats, math_grading.SIDES[:2])
        seconds, cpus = (
            {name: statistics.median(run[key] for run in result) for name, result in graded.items()}
            for key in ("seconds", "cpu")
        )
        recipe, ours = seconds
        for name, wanted in ((recipe, "-"), (ours, f"1/3; is {seconds[ours] / seconds[recipe]:.2f}")):
            print(f"| 5,000 answers to MATH: {name} | {seconds[name]:.2f} | {cpus[name]:.2f} | - | {wanted} |")
        for name, result in graded.items():
            print(f"{name}: right refused, wrong taken: {result[0]['errors']}", file=sys.stderr)
    if over:
        sys.exit(f"over its budget: {', '.join(over)}")


if __name__ == "__main__":
    main()
