"""GSM8K: our verdicts compared with OpenAI's on 5,276 recorded solutions of GPT-3 models.

    git clone https://github.com/openai/grade-school-math && git -C grade-school-math checkout 3101c7d5
    python tools/fidelity/gsm8k.py --data grade-school-math

The solutions end with "A: 18" and not with the words that Meta's prompt asks for, so it is flexible-extract that
reads them: how numbers are found and compared is the same in both filters.
"""

from __future__ import annotations

from template_graders import checkout, compared, lines, row, show, template_module, verdicts

FILE = "grade_school_math/data/example_model_solutions.jsonl"


def main() -> None:
    folder = checkout(__doc__, "openai/grade-school-math", "3101c7d5")
    grader = template_module("gsm8k/utils.py")
    docs, outputs, theirs = [], [], []
    for one in lines(folder / FILE):
        gold = one["ground_truth"].rpartition("A:")[2].strip()
        for recorded in one.values():
            if isinstance(recorded, dict):
                docs.append(grader.make_doc(row(one["question"], [gold])))
                outputs.append(recorded["solution"])
                theirs.append(recorded["is_correct"])
    ours = verdicts("gsm8k/gsm8k_8shot_cot.yaml", "flexible-extract", outputs, docs, grader)
    show({"gsm8k_gpt3": compared(ours, theirs)})


if __name__ == "__main__":
    main()
