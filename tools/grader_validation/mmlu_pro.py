"""Compare our MMLU-Pro verdicts with Meta's on 100 recorded answers, and with the recipe's on 400 answers of its runs.

    git clone https://github.com/meta-llama/llama-cookbook && git -C llama-cookbook checkout f8a6c7d7
    python tools/grader_validation/mmlu_pro.py --data llama-cookbook

Only at this commit the repository contains the sample files of four runs of the recipe. By the results files next to
them, they cover the first 100 rows of its selection from Llama-3.1-70B-Instruct-evals, with Llama-3.3-70B-Instruct.
Each line has the row's prompt, gold, recorded answer and ``is_correct``, and the run's answer and score.
"""

from __future__ import annotations

from typing import Any

import template_graders as frame
from template_graders import checkout, compared, counted, lines, row, show, template_module

RUNS = (
    "end-to-end-use-cases/benchmarks/llm_eval_harness/meta_eval/eval_results/meta-llama__Llama-3.3-70B-Instruct",
    "samples_meta_mmlu_pro_instruct_*.jsonl",
)


def main() -> None:
    folder = checkout(__doc__, "meta-llama/llama-cookbook", "f8a6c7d7")
    files = sorted((folder / RUNS[0]).glob(RUNS[1]))
    if len(files) != 4:
        raise SystemExit(f"{folder / RUNS[0]} holds {len(files)} of 4 sample files: is it at commit f8a6c7d7?")
    answered = [line for file in files for line in lines(file)]
    recorded = {sample["doc"]["input_question_hash"]: sample["doc"] for sample in answered}.values()
    meta = compared(
        verdicts([doc["output_prediction_text"][0] for doc in recorded], list(recorded)),
        [doc["previously_is_correct"] for doc in recorded],
    )
    recipe = compared(
        verdicts([sample["resps"][0][0] for sample in answered], [sample["doc"] for sample in answered]),
        [sample["exact_match"] == 1 for sample in answered],
    )
    fitting = sum(hashed(doc) and doc["input_final_prompts"][0].endswith(frame.ASSISTANT) for doc in recorded)
    rows = counted(fitting, len(recorded))
    show({"mmlu_pro_recorded": meta, "mmlu_pro_recipe_runs": recipe, "mmlu_pro_rows": rows})


def hashed(doc: dict[str, Any]) -> bool:
    """Whether a doc's hash is its question's and its gold is the letter of a choice."""
    made = row(doc["input_question"], doc["input_correct_responses"])
    offered = [letter for letter, text in doc["input_choice_list"].items() if text is not None]
    return made["input_question_hash"] == doc["input_question_hash"] and doc["gold"] in offered


def verdicts(outputs: list[str], docs: list[dict[str, Any]]) -> list[bool]:
    """Return our strict-match verdict on each output."""
    grader = template_module("mmlu_pro/utils.py")
    made = [grader.make_doc(row(doc["input_question"], doc["input_correct_responses"])) for doc in docs]
    return frame.verdicts("mmlu_pro/mmlu_pro_5shot_cot_instruct.yaml", "strict-match", outputs, made, grader)


if __name__ == "__main__":
    main()
