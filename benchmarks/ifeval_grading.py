"""What IFEval's grading costs, and what a second process for it would.

    python benchmarks/ifeval_grading.py --data input_data.jsonl

The data are IFEval's 541 prompts (google-research, instruction_following_eval/data). Answers are prose of about 950
characters, drawn anew for each prompt. The scorer is the template's own; the second figure is what a process has to do
before its first verdict: import lm-eval's checkers, and have langdetect read its profiles.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SCORER = Path(__file__).resolve().parents[1] / "meta_template" / "ifeval" / "utils.py"
WORDS = (
    "river",
    "stone",
    "engine",
    "harbour",
    "signal",
    "copper",
    "lantern",
    "meadow",
    "orbit",
    "timber",
    "and",
    "the",
    "of",
)
START = "import lm_eval.tasks.ifeval.utils, langdetect; langdetect.detect('the river by the town')"


def answer(chance: random.Random) -> str:
    def sentence() -> str:
        return " ".join(chance.choices(WORDS, k=12)).capitalize() + "."

    paragraphs = (" ".join(sentence() for _ in range(4)) for _ in range(chance.choice((1, 3, 4))))
    return "\n\n".join(paragraphs)


def scorer() -> Any:
    spec = importlib.util.spec_from_file_location("ifeval_utils", SCORER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    lines = parser.parse_args().data.read_text(encoding="utf-8").splitlines()
    chance, module = random.Random(0), scorer()
    module.checkers()
    docs = [
        {
            "key": row["key"],
            "instruction_id_list": row["instruction_id_list"],
            "original_prompt": row["prompt"],
            "kwargs": list(map(json.dumps, row["kwargs"])),
        }
        for row in map(json.loads, lines)
    ]
    answers = [answer(chance) for _ in docs]
    started = time.process_time()
    for doc, text in zip(docs, answers, strict=True):
        module.process_results(doc, [text])
    grading = time.process_time() - started
    timed = f"import time; {START}; print(time.process_time())"
    another = float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)
    size = sum(map(len, answers)) / len(answers)
    print(f"{len(docs)} docs, {size:.0f} characters each: {grading:.2f} s of CPU; another process: {another:.2f} s")


if __name__ == "__main__":
    main()
