"""Compare our MMLU-Pro verdicts with the benchmark's own on 48,128 answers of Llama 3.1 models.

    git clone https://github.com/TIGER-AI-Lab/MMLU-Pro && git -C MMLU-Pro checkout f418b116
    python tools/grader_validation/mmlu_pro_answers.py --data MMLU-Pro

The authors publish the answers of Llama-3.1 8B and 70B, base and instruct, with their script's letters. Their prompt
leads to "The answer is (X)" as Meta's prompt for base models does, so the base models' template reads the answers. If
their script finds no letter, it stores a random letter, which may be right.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from template_graders import checkout, compared, row, show, template_module, verdicts

MODELS = ("8B", "70B", "8B-Instruct", "70B-Instruct")


def main() -> None:
    folder = checkout(__doc__, "TIGER-AI-Lab/MMLU-Pro", "f418b116")
    show({f"mmlu_pro_answers_{model.lower().replace('-', '_')}": counts(folder, model) for model in MODELS})


def counts(folder: Path, model: str) -> dict[str, Any]:
    """Compare the verdicts on a model's answers."""
    source = f"eval_results/model_outputs_Meta-Llama-3_1-{model}_5shots.zip"
    with zipfile.ZipFile(folder / source) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".json") and not name.startswith("__MACOSX"))
        rows = json.loads(archive.read(member))
    grader = template_module("mmlu_pro/utils.py")
    docs = [grader.make_doc(row(record["question"], [record["answer"]])) for record in rows]
    outputs = [record["generated_text"] for record in rows]
    ours, flexible = (
        verdicts("mmlu_pro/mmlu_pro_5shot_cot_pretrain.yaml", name, outputs, docs, grader)
        for name in ("strict-match", "flexible-extract")
    )
    theirs = [record["pred"] == record["answer"] for record in rows]

    def why(number: int) -> str:
        if not re.search(r"answer is \(?[A-J]", outputs[number]):
            if re.search(r"[aA]nswer:\s*[A-J]", outputs[number]):
                return "theirs also reads 'Answer: X'"
            return "no letter behind 'answer is': theirs guesses one at random, ours counts none"
        if not re.search(r"answer is \([A-J]\)", outputs[number]):
            return "'answer is X' without brackets, which the recipe's pattern asks for"
        return "an earlier 'answer is' before a name or a month, whose capital theirs takes for the letter"

    return {
        **compared(ours, theirs, why),
        "note": f"flexible-extract agrees on {sum(a == b for a, b in zip(flexible, theirs, strict=True))}; of "
        "two letters that an answer names it takes neither, the benchmark's script the first.",
    }


if __name__ == "__main__":
    main()
