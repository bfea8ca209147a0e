"""Compare our GSM8K verdicts with OpenAI's, our extraction with Meta's, and both with runs of three Llamas.

    git clone https://github.com/openai/grade-school-math && git -C grade-school-math checkout 3101c7d5
    git clone https://github.com/macklinhrw/llm-reasoning && git -C llm-reasoning checkout 786fbc4
    git clone https://github.com/fw-ai/llm_eval_meta && git -C llm_eval_meta checkout b1166ab
    python tools/grader_validation/gsm8k.py --data grade-school-math --runs llm-reasoning --reader llm_eval_meta

OpenAI's 5,276 recorded solutions of GPT-3 models end with "A: 18" instead of the words in Meta's prompt, so
flexible-extract reads them. Both filters compare numbers in the same way but extract different texts.

llm-reasoning contains the eleven rows of Llama 3.2's gsm8k details whose last number is not Meta's parsed number. Rows
without a number or with more than 100 characters are left out there and not known. It also has three runs over all
questions with Meta's prompts, judged by the last number.

llm_eval_meta judges answers to Meta's rows by the text after "The final answer is", and looks it up among Meta's
spellings of the gold. These are not public in full, so here the text's value is compared.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from template_graders import (
    arguments,
    check_commit,
    compared,
    counted,
    lines,
    module,
    row,
    show,
    template_module,
    verdicts,
)

FILE = "grade_school_math/data/example_model_solutions.jsonl"
PARSED = "results/archive/parsing_mismatches-2024-11-29-*.json"
RUNS = "results/evaluation_results-Llama-*-Instruct-2024-12-02-*.json"
YAML = "gsm8k/gsm8k_8shot_cot.yaml"


def main() -> None:
    parser = arguments(__doc__, "checkout of openai/grade-school-math")
    parser.add_argument("--runs", type=Path, required=True, help="checkout of macklinhrw/llm-reasoning")
    parser.add_argument("--reader", type=Path, required=True, help="checkout of fw-ai/llm_eval_meta")
    given = parser.parse_args()
    check_commit(given.data, "3101c7d5")
    check_commit(given.runs, "786fbc4")
    check_commit(given.reader, "b1166ab")
    last, words = runs(given.runs, given.reader)
    show(
        {
            "gsm8k_gpt3": gpt3(given.data),
            "gsm8k_meta_parses": parsed(given.runs),
            "gsm8k_llama_runs_words": words,
            "gsm8k_llama_runs": last,
        }
    )


def gpt3(folder: Path) -> dict[str, Any]:
    """Compare our verdicts with OpenAI's."""
    grader = template_module("gsm8k/utils.py")
    docs, outputs, theirs = [], [], []
    for line in lines(folder / FILE):
        gold = line["ground_truth"].rpartition("A:")[2].strip()
        for recorded in line.values():
            if isinstance(recorded, dict):
                docs.append(grader.make_doc(row(line["question"], [gold])))
                outputs.append(recorded["solution"])
                theirs.append(recorded["is_correct"])
    return compared(verdicts(YAML, "flexible-extract", outputs, docs, grader), theirs)


def parsed(folder: Path) -> dict[str, Any]:
    """Compare the number of strict-match with Meta's parsed number."""
    rows = [item for file in sorted(folder.glob(PARSED)) for item in json.loads(file.read_text("utf-8"))]
    read = template_module("gsm8k/utils.py").final_answer
    agreed = sum(
        (content := read(row["text"])) is not None and Fraction(content) == row["llama_parsed"] for row in rows
    )
    how = "The rule was read off these eleven rows; no others are public."
    return {**counted(agreed, len(rows)), "held_out": {"answers": 0, "agreed": 0, "how": how}}


def runs(folder: Path, reader: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compare our verdicts on the runs with those by the last number, and with those by the number after the words."""
    grader = template_module("gsm8k/utils.py")
    answered = [result for file in sorted(folder.glob(RUNS)) for result in results(file)]
    docs = [grader.make_doc(row(sample["question"], [f"{sample['correct']:.12g}"])) for sample in answered]
    outputs = [sample["response"] for sample in answered]
    ours = verdicts(YAML, "strict-match", outputs, docs, grader)
    wordless = "the words that the prompt asks for are missing: theirs takes the last number, ours none"

    def why(number: int) -> str:
        return wordless if grader.final_answer(outputs[number]) is None else "not looked into"

    for name in ("datasets", "transformers"):  # imported for Meta's rows, which are not asked for
        sys.modules[name] = SimpleNamespace(load_dataset=None)  # type: ignore[assignment]
    read = module(reader / "analyze_answers.py").get_answer_gsm8k
    texts = [read(SimpleNamespace(choices=[SimpleNamespace(text=output)])) for output in outputs]
    right = [value(text) == sample["correct"] for text, sample in zip(texts, answered, strict=True)]
    euro = "theirs takes the sign of the euro for no part of a number"
    return (
        compared(ours, [sample["is_correct"] for sample in answered], why),
        compared(ours, right, lambda number: euro if "€" in (texts[number] or "") else "not looked into"),
    )


def value(text: str | None) -> float | None:
    """Return the value of a text that is a number, with or without commas and a full stop."""
    try:
        return float((text or "").strip().rstrip(".").replace(",", ""))
    except ValueError:
        return None


def results(file: Path) -> list[dict[str, Any]]:
    tree = json.loads(file.read_text("utf-8"))
    result: list[dict[str, Any]] = tree["results"] if isinstance(tree, dict) else tree
    return result


if __name__ == "__main__":
    main()
