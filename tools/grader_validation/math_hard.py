r"""Compare our verdicts on MATH-hard with Meta's ``is_correct``, on public rows of Meta's own answers.

linkedin/ControlLLM contains the 1,324 rows of Llama-3.1-8B-Instruct on MATH-hard, with questions, prompts, recorded
answers, golds and verdicts. Do not copy them here: they are under the Llama 3.1 Community License and contain MATH's
text.

    git clone https://github.com/linkedin/ControlLLM    # 7657b9f
    python tools/grader_validation/math_hard.py --data ControlLLM

This prints the entries of the catalog. ``--evals FOLDER`` also writes the rows as a local evals dataset in the hub's
layout, with its original and an eval_config.yaml, for prepare, verify and report. Replace ``lm_eval --model vllm`` in
the printed command by ``python -m meta_eval.harness.replay --model meta-replay``. Missing columns (the model's
metrics, the subject) stay out. The hashes are new.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import rebuild
import template_graders as frame

ROWS = "src/controlllm/inference/llm_eval_harness/additional_tasks/math_hard/joined_math_hard.parquet"
MODEL = "Llama-3.1-8B-Instruct"
METRIC = "final_em"  # compared with is_correct

# Why a verdict differs from Meta's, by the start of the question's SHA-256.
REASONS = {
    "2ea1f202b421": "a wrong list of two digits, in which Meta reads one number, as in the gold",
    "5d57902713c2": "an interval with its ends exchanged, which Meta took",
    "cf11e692cdbf": "an equal complex number over one denominator, which Meta refused",
    "b7a3c3faece4": r"an equal matrix with \frac in its cells, which Meta refused",
    "1ed83282dae1": "the gold to the letter; Meta's normalisation had broken its own gold",
}


def write_evals(rows: list[dict[str, Any]], folder: Path) -> None:
    """Write the rows in the layout of Meta's evals datasets, and MATH's original next to them."""
    details = [
        rebuild.details_row(
            "math_hard",
            question=row["input_question"],
            prompt=row["input_final_prompts"][0],
            output=row["previous_output_prediction_text"][0],
            is_correct=row["previous_is_correct"],
            golds=row["input_correct_responses"],
            benchmark_label="MATH-HARD (0-shot, CoT)",
        )
        for row in rows
    ]
    originals = [
        {"problem": row["input_question"], "level": "Level 5", "solution": row["solution"], "type": "unknown"}
        for row in rows
    ]
    rebuild.write_evals(folder, MODEL, "math_hard", details, "math", originals)


def grade(template: ModuleType, rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each row with the template's metrics of the recorded answer."""
    graded = []
    for row in rows:
        doc = {
            "gold": template.last_boxed(row["solution"]),
            "answers": row["input_correct_responses"],
            "subtask_name": None,
            "input_question_hash": rebuild.sha256(row["input_question"]),
        }
        graded.append((row, template.process_results(doc, row["previous_output_prediction_text"])))
    return graded


TOLERANCES = [Decimal(thousandths) / 1000 for thousandths in (0, 1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100)]


def chosen_again(template: ModuleType, graded: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    """Validate the rule's tolerance on the half of the rows from which it was not chosen.

    The question's SHA-256 begins with an odd digit in one half. The lowest tolerance with the best agreement in a half
    is compared with the other half.
    """
    halves: tuple[list[Any], list[Any]] = ([], [])
    for row, scores in graded:
        halves[int(rebuild.sha256(row["input_question"])[0], 16) % 2].append((row, scores))

    def agreed(half: Sequence[tuple[dict[str, Any], dict[str, Any]]], tolerance: Decimal) -> int:
        template.recorded.HALF_A_HUNDREDTH = tolerance
        return sum(final_em(template, row, scores) == row["previous_is_correct"] for row, scores in half)

    kept = template.recorded.HALF_A_HUNDREDTH
    even, odd = halves
    result = []
    for taken_from, held in ((odd, even), (even, odd)):
        tolerance = max(TOLERANCES, key=lambda extracted: (agreed(taken_from, extracted), -extracted))
        result.append((tolerance, len(held), agreed(held, tolerance)))
    template.recorded.HALF_A_HUNDREDTH = kept
    (tolerance, answers, same), (other, others, also) = result
    how = (
        f"That is of the tolerance alone, chosen again ({tolerance}) on the {len(odd)} rows whose question's SHA-256 "
        f"begins with an odd digit; the other way round ({other}) {also} of {others} agree. That verdicts follow golds "
        f"of three digits was read off all rows."
    )
    return {"answers": answers, "agreed": same, "how": how}


def final_em(template: ModuleType, row: dict[str, Any], scores: dict[str, Any]) -> bool:
    """Return the verdict at the current tolerance. Equal values stay equal."""
    answer, gold = (template.last_boxed(text) for text in (row["previous_output_prediction_text"][0], row["solution"]))
    if answer is None:
        return False
    doc = {"gold": gold, "answers": row["input_correct_responses"]}
    same_text = template.plain(answer) == template.plain(gold)
    return bool(same_text or template.counts_for_meta(doc, answer, bool(scores["exact_match"])))


def rounded_golds(template: ModuleType, rows: list[dict[str, Any]]) -> tuple[int, Counter[str]]:
    """Count the recorded numeric golds whose original gold has the same three digits, and the kinds of the others."""
    same = 0
    others: Counter[str] = Counter()
    for row in rows:
        (recorded,) = row["input_correct_responses"]
        if not template.recorded.is_number(recorded) or recorded == "0":
            continue
        gold = template.last_boxed(row["solution"])
        if template.recorded.three_digits(template.equivalence.value_side(gold)) == recorded:
            same += 1
        elif "," in gold or "and" in gold:
            others["a list, interval or point whose commas Meta dropped, or of which it read the first number"] += 1
        elif "frac" in gold:
            others["a mixed number, which Meta read as a product"] += 1
        else:
            others["another value"] += 1
    return same, others


def main() -> None:
    parser = frame.arguments(__doc__, "a checkout of linkedin/ControlLLM")
    parser.add_argument("--evals", type=Path, help="write the rows here as a local evals dataset")
    arguments = parser.parse_args()
    rows = pq.read_table(arguments.data / ROWS).to_pylist()
    if arguments.evals:
        write_evals(rows, arguments.evals)
    template = frame.template_module("math_hard/utils.py")
    graded = grade(template, rows)
    differing = [(row, scores) for row, scores in graded if bool(scores[METRIC]) != row["previous_is_correct"]]
    rest = Counter(REASONS.get(rebuild.sha256(row["input_question"])[:12], "not explained") for row, _ in differing)
    for row, scores in differing:
        answer = template.last_boxed(row["previous_output_prediction_text"][0])
        gold = row["input_correct_responses"][0]
        print(f"ours {scores[METRIC]:g}, recorded gold {gold}, answer {answer}", file=sys.stderr)
    score = {name: frame.percent([s[name] for _, s in graded]) for name in ("exact_match", "math_verify")}
    boxless = [scores for _, scores in graded if scores["unextracted"]]
    right_boxless = sum(row["previous_is_correct"] for row, scores in graded if scores["unextracted"])
    grading = {
        "answers": len(rows),
        "agreed": len(rows) - len(differing),
        "ours": frame.percent([scores[METRIC] for _, scores in graded]),
        "theirs": frame.percent([row["previous_is_correct"] for row in rows]),
        "held_out": chosen_again(template, graded),
        "rest": frame.reasons(rest),
        "note": (
            f"Of {len(boxless)} answers without a box Meta counted {right_boxless} as right. On the same rows "
            f"exact_match scores {score['exact_match']} and math_verify {score['math_verify']}."
        ),
    }
    same, others = rounded_golds(template, rows)
    form = {"answers": same + others.total(), "agreed": same, "rest": frame.reasons(others)}
    frame.show({"math_hard_8b": grading, "math_hard_8b_rows": form})


if __name__ == "__main__":
    main()
