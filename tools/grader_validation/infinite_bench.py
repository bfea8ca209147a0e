"""Compare our verdicts on real answers to InfiniteBench En.MC and En.QA with the official script's.

    git clone https://github.com/OpenBMB/InfiniteBench && git -C InfiniteBench checkout 88b3daa
    python tools/grader_validation/infinite_bench.py --data InfiniteBench

The answers are those of seven models below ``results/``. The verdicts are from ``src/compute_scores.py`` itself.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from template_graders import checkout, counted, lines, module, percent, row, show, template_module

PARTS = {
    "choice": ("longbook_choice_eng", "longbook_choice", "get_score_one_longbook_choice_eng"),
    "qa": ("longbook_qa_eng", "longbook_qa", "get_score_one_longbook_qa_eng"),
}


def official(folder: Path) -> ModuleType:
    """Import the official script without the ROUGE that it downloads for summaries. Meta's subset has none."""
    sys.modules["evaluate"] = SimpleNamespace(load=lambda _: None)  # type: ignore[assignment]
    sys.modules.setdefault("args", SimpleNamespace(parse_args=None))  # type: ignore[arg-type]
    return module(folder / "src" / "compute_scores.py")


def counts(folder: Path, part: str) -> dict[str, Any]:
    task, subtask, function = PARTS[part]
    long, script = template_module("long_context/utils.py"), official(folder)
    ours: list[float] = []
    theirs: list[float] = []
    flexible: list[float] = []
    files = sorted((folder / "results").glob(f"*/preds_{task}.jsonl"))
    for file in files:
        for number, answer in enumerate(lines(file)):
            label = answer.get("ground_truth", answer.get("label"))
            output = answer.get("prediction", answer.get("pred"))
            doc = long.make_doc(row(f"{file.parent.name} {number}", label, f"infinite_bench.{subtask}"))
            scores = long.infinite_bench(doc, [output])
            ours.append(scores["score"])
            flexible.append(scores["acc_flexible"] or 0.0)
            theirs.append(float(getattr(script, function)(output, label, file.parent.name)))
    agreed = sum(abs(a - b) < 1e-9 for a, b in zip(ours, theirs, strict=True))
    result = counted(agreed, len(ours), ours=percent(ours), theirs=percent(theirs))
    result["reference"] = f"{function} of src/compute_scores.py, on answers of {len(files)} models"
    if part == "choice":
        result["note"] = (
            "The script takes an answer in brackets or asterisks for no letter; read as a person would, the same "
            f"answers score {percent(flexible)} (acc_flexible)."
        )
    return result


PIECES = (
    *"ABCDabc", "AB", "CD", "E", "Both", "answer is", "answer is:", "answer:", "Answer:", "option is", "The", "is",
    "or", "a dog", "A dog", "the old mill", "The old mill", "(", ")", "**", '"', "'", ".", ",", "!", "?", "{", "}", ":",
    "\n", "\t", "  ", "-", "É",
)  # fmt: skip
WORDINGS = {"A": "A dog", "B": "The old mill", "C": "42", "D": "Both B and C"}


def generated(folder: Path, count: int = 20_000) -> dict[str, Any]:
    """Compare answers made of the script's search texts in random order."""
    long, script = template_module("long_context/utils.py"), official(folder)
    draw = random.Random(1)
    agreed = 0
    for number in range(count):
        key = draw.choice("ABCD")
        output = draw.choice(("", " ")).join(draw.choices(PIECES, k=draw.randint(0, 9)))
        given = {**row(str(number), [key], "infinite_bench.longbook_choice"), "input_choice_list": WORDINGS}
        score = long.infinite_bench(long.make_doc(given), [output])["score"]
        agreed += score == float(script.get_score_one_longbook_choice_eng(output, [WORDINGS[key], key], ""))
    return counted(agreed, count)


def main() -> None:
    folder = checkout(__doc__, "OpenBMB/InfiniteBench", "88b3daa")
    measured = {f"infinite_bench_{part}": counts(folder, part) for part in PARTS}
    show({**measured, "infinite_bench_choice_generated": generated(folder)})


if __name__ == "__main__":
    main()
