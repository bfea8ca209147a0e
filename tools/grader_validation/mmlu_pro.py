"""Compare our MMLU-Pro verdicts with Meta's on 100 recorded answers, and with the recipe's on 400 answers of its runs.

    git clone https://github.com/meta-llama/llama-cookbook && git -C llama-cookbook checkout f8a6c7d7
    python tools/grader_validation/mmlu_pro.py --data llama-cookbook

Only at this commit the repository contains the sample files of four runs of the recipe. By the results files next to
them, they cover the first 100 rows of its selection from Llama-3.1-70B-Instruct-evals, with Llama-3.3-70B-Instruct.
Each line has the row's prompt, gold, recorded answer and ``is_correct``, and the run's answer and score.

MMLU-Pro, MMLU with chain of thought and GPQA ask for the same last sentence, "The best answer is C.". So the answers
also go through the filters of ``meta_mmlu__0_shot__cot``, which the two GPQA tasks share.
"""

from __future__ import annotations

from typing import Any

import template_graders as frame
from template_graders import checkout, compared, counted, lines, row, show, template_module

PRO, COT = "mmlu_pro/mmlu_pro_5shot_cot_instruct.yaml", "mmlu/mmlu_0shot_cot.yaml"
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
    recorded_outputs = [doc["output_prediction_text"][0] for doc in recorded]
    recorded_verdicts = [doc["previously_is_correct"] for doc in recorded]
    outputs, docs = [sample["resps"][0][0] for sample in answered], [sample["doc"] for sample in answered]
    scores = [sample["exact_match"] == 1 for sample in answered]
    both, all_docs = [*recorded_outputs, *outputs], [*recorded, *docs]
    fitting = sum(hashed(doc) and doc["input_final_prompts"][0].endswith(frame.ASSISTANT) for doc in recorded)
    rows = counted(fitting, len(recorded))
    show(
        {
            "mmlu_pro_recorded": compared(verdicts(PRO, recorded_outputs, list(recorded)), recorded_verdicts),
            "mmlu_pro_recipe_runs": compared(verdicts(PRO, outputs, docs), scores),
            "mmlu_pro_rows": rows,
            "best_answer_of_mmlu_pro": compared(verdicts(COT, both, all_docs), [*recorded_verdicts, *scores]),
        }
    )


def hashed(doc: dict[str, Any]) -> bool:
    """Whether a doc's hash is its question's and its gold is the letter of a choice."""
    made = row(doc["input_question"], doc["input_correct_responses"])
    offered = [letter for letter, text in doc["input_choice_list"].items() if text is not None]
    return made["input_question_hash"] == doc["input_question_hash"] and doc["gold"] in offered


def verdicts(file: str, outputs: list[str], docs: list[dict[str, Any]]) -> list[bool]:
    """Return the strict-match verdict of a template's YAML on each output."""
    grader = template_module("mmlu_pro/utils.py")
    made = [grader.make_doc(row(doc["input_question"], doc["input_correct_responses"])) for doc in docs]
    return frame.verdicts(file, "strict-match", outputs, made, grader)


if __name__ == "__main__":
    main()
