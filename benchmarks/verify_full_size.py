"""Time and memory of ``meta-eval verify`` (and ``doctor``) over packs as large as the real ones.

    python benchmarks/verify_full_size.py                    all of them
    python benchmarks/verify_full_size.py mmlu_pro --scale 0.1
    python benchmarks/verify_full_size.py --small            CI

The rows are generated: as many as in Meta's subset, prompts of the same size, answers of the same kind, of which one in
a hundred has a verdict that is not ours. The numbers in README.md were made with this script.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import meta_eval

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from simulated_run import row, turn, write

WORDS = ("river", "stone", "engine", "harbour", "signal", "copper", "lantern", "meadow", "orbit", "timber", "valley")


@dataclass(frozen=True)
class Size:
    """One generated evals dataset: its name, its one subset, the task that reads it, its rows and how to make one."""

    dataset: str
    subset: str
    task: str
    rows: int
    make: Callable[[int, random.Random], dict[str, Any]]


def prose(chance: random.Random, characters: int) -> str:
    words = []
    while characters > 0:
        words.append(chance.choice(WORDS))
        characters -= len(words[-1]) + 1
    return " ".join(words)


def verdict(right: bool, chance: random.Random) -> bool:
    """Meta's: one in a hundred is not what the answer says."""
    return right != (chance.random() < 0.01)


def mmlu_pro(number: int, chance: random.Random, examples: int = 8700) -> dict[str, Any]:
    """A row; before its question stand so many characters of examples."""
    question = f"Question {number}: {prose(chance, 300)}?"
    gold, answer = chance.choice("ABCDEFGHIJ"), chance.choice("ABCDEFGHIJ")
    answer = gold if chance.random() < 0.4 else answer
    return row(
        question,
        [turn(prose(chance, examples) + question)],
        subtask=f"mmlu_pro_chat.subject_{number % 14}",
        gold=[gold],
        is_correct=verdict(answer == gold, chance),
        output_prediction_text=[f"{prose(chance, 1000)} The best answer is {answer}."],
    )


def mmlu(number: int, chance: random.Random) -> dict[str, Any]:
    question = f"Question {number}: {prose(chance, 200)}?"
    context = f"{prose(chance, 3000)}\n{question}\nAnswer:"
    losses = [chance.random() * 5 for _ in "ABCD"]
    right = chance.randrange(4)
    return row(
        question,
        [f"{context} {letter}" for letter in "ABCD"],
        subtask=f"mmlu.subject_{number % 57}",
        gold=[f"Answer: {'ABCD'[right]}"],
        is_correct=verdict(min(range(4), key=losses.__getitem__) == right, chance),
        task_type="Choice",
        output_prediction_text=None,
        output_choice_negative_log_likelihoods={"raw": losses, "text": losses, "token": losses},
    )


def math(number: int, chance: random.Random) -> dict[str, Any]:
    top, bottom = 2 * number + 1, chance.choice((4, 8, 16, 32))
    question = f"Problem {number}: {prose(chance, 150)} {top} over {bottom}?"
    # The gold as it is, unreduced, or wrong.
    written = chance.choice(
        (rf"\frac{{{top}}}{{{bottom}}}", rf"\frac{{{3 * top}}}{{{3 * bottom}}}", rf"\frac{{{2 * top}}}{{{bottom}}}")
    )
    return row(
        question,
        [turn(prose(chance, 2500) + question)],
        subtask=f"math.subject_{number % 7}",
        gold=[f"{top / bottom:.2e}"],  # as Meta records it
        is_correct=verdict(rf"\frac{{{2 * top}}}" not in written, chance),
        output_prediction_text=[f"{prose(chance, 600)}\nTherefore, the final answer is: $\\boxed{{{written}}}$."],
        solution=rf"It is $\boxed{{\frac{{{top}}}{{{bottom}}}}}$.",
    )


# One verdict in a hundred is not ours: of some fifty docs up to a few.
AGREEMENT = (90.0, 100.0)
SMALL = 0.01

SIZES = {
    "mmlu_pro": Size("Llama-3.1-8B-Instruct-evals", "mmlu_pro", "meta_mmlu_pro_instruct", 12032, mmlu_pro),
    "mmlu": Size("Llama-3.1-8B-evals", "mmlu", "meta_mmlu_pretrain", 14042, mmlu),
    "math": Size("Llama-3.2-3B-Instruct-evals", "math", "meta_math", 5000, math),
}


def generate(folder: Path, size: Size, scale: float) -> dict[str, Any]:
    """The evals dataset, and the original of MATH; the configuration that prepares it."""
    chance = random.Random(size.subset)
    data = folder / size.dataset / f"{size.subset}.jsonl"
    originals: Iterator[dict[str, str]]
    rows = [size.make(number, chance) for number in range(max(1, int(size.rows * scale)))]
    originals = (
        {"problem": row["input_question"], "level": "Level 1", "type": "Algebra", "solution": row.pop("solution")}
        for row in rows
        if "solution" in row
    )
    write(folder / "originals.jsonl", list(originals))
    write(data, rows)
    return {
        "model_name": "none",
        "evals_dataset": str(data.parent),
        "tasks": size.task,
        "work_dir": str(folder / "pack"),
        "output_path": str(folder / "out"),
        "max_model_len": 16384,
        "originals": {"math": {"id": str(folder / "originals.jsonl")}},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*SIZES, []], default=[], metavar="|".join(SIZES))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--small", action="store_true", help="a hundredth of them, as CI has it")
    arguments = parser.parse_args()
    scale = SMALL if arguments.small else arguments.scale
    wrong = False
    print(f"{'subset':<10}{'docs':>8}  {'verb':<9}{'seconds':>8}{'peak GB':>9}  agreement")
    for name in arguments.names or SIZES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            keys = generate(folder, SIZES[name], scale)
            config = folder / "eval_config.yaml"
            config.write_text(json.dumps(keys), encoding="utf-8")
            for verb in ("prepare", "verify", "doctor"):
                cost = meta_eval(verb, "-c", str(config))
                docs = f"{max(1, int(SIZES[name].rows * scale)):,}"
                line = re.search(rf"^{SIZES[name].task}.*", cost.said, re.MULTILINE)
                agreement = line[0].split()[-4] if line and verb == "verify" else ""
                print(f"{name:<10}{docs:>8}  {verb:<9}{cost.seconds:>8.1f}{cost.memory:>9.2f}  {agreement}", flush=True)
                wrong |= verb == "verify" and not AGREEMENT[0] <= float(agreement or 0) <= AGREEMENT[1]
    if wrong:
        sys.exit("an agreement is not what it should be")


if __name__ == "__main__":
    main()
