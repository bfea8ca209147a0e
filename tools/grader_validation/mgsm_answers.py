"""Compare our MGSM verdicts with simple-evals' on 17,500 answers of GPT-3.5 in seven languages.

    git clone https://github.com/openai/simple-evals FOLDER/simple-evals                            # ee3b0318
    git clone https://github.com/LightChen233/cross-lingual-prompting FOLDER/cross-lingual-prompting    # affd839
    python tools/grader_validation/mgsm_answers.py --data FOLDER

cross-lingual-prompting asks each question of MGSM in ten languages, and for the reasoning in seven. It asks for a last
line "Answer: 18", where the model often translates the word. Both graders look for the answer word of the language of
the reasoning.
"""

from __future__ import annotations

import re

from mgsm import simple_evals
from template_graders import (
    TEMPLATES,
    arguments,
    check_commit,
    compared,
    filtered,
    lines,
    row,
    settings,
    show,
    template_module,
)

YAML = "gsm8k/mgsm_0shot_cot.yaml"
# Behind the last answer word: numbers that simple-evals misreads.
POINT = re.compile(r"\d{1,3}(\.\d{3})+")
SPACE = re.compile(r"\d[ \u00a0\u202f]\d{3}")
COMMA = re.compile(r"\d,\d\d?(?!\d)")


def main() -> None:
    folder = arguments(__doc__, "folder of the two checkouts").parse_args().data
    check_commit(folder / "simple-evals", "ee3b0318")
    check_commit(folder / "cross-lingual-prompting", "affd839")
    official = simple_evals(folder / "simple-evals")
    grader = template_module("gsm8k/utils.py")
    docs, outputs, words, theirs = [], [], [], []
    for file in sorted((folder / "cross-lingual-prompting" / "mgsm" / "output" / "clsp").glob("*/*.jsonl")):
        word = official.LANG_TO_ANSWER_PREFIX[file.stem]
        for line in lines(file):
            output, gold = line["message"][-1]["content"], line["origin"]["answer"].replace(",", "")
            docs.append(grader.make_doc(row(line["origin"]["text"], [gold], subtask_name=f"mgsm.{file.stem}")))
            outputs.append(output)
            words.append(word)
            theirs.append(official.score_mgsm(gold, official.parse_answer(output, word)))
    readings = filtered(settings(TEMPLATES / YAML), "strict-match", outputs, docs)
    ours = [
        grader.process_results(doc, [reading])["exact_match"] == 1 for doc, reading in zip(docs, readings, strict=True)
    ]

    def why(number: int) -> str:
        reading, output, word = readings[number], outputs[number], words[number]
        read, rest = official.parse_answer(output, word), output.split(word)[-1]
        reasons = {
            "the answer word in small letters": word not in output,
            "thousands parted by a point": POINT.fullmatch(read),
            "thousands parted by a space": SPACE.search(rest) and reading.endswith(read),
            "a decimal comma": COMMA.search(rest) and read.replace(".", "").startswith(reading.replace(".", "")),
            "a minus": reading == f"-{read}",
            "no number on the line of the answer word, which is a part of a sentence": reading == grader.rows.NO_MATCH,
            "another number or the answer word again on a later line": True,
        }
        return next(reason for reason, holds in reasons.items() if holds)

    show(
        {
            "mgsm_gpt35": compared(
                ours,
                theirs,
                lambda number: f"{why(number)} ({'ours' if ours[number] else 'theirs'} counts it as right)",
            )
        }
    )


if __name__ == "__main__":
    main()
