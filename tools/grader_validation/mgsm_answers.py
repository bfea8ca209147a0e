"""Compare our MGSM verdicts with simple-evals' on answers of real models.

    git clone https://github.com/openai/simple-evals FOLDER/simple-evals                            # ee3b0318
    git clone https://github.com/yarrap/multi_lingual_cot_faithfulness FOLDER/faithfulness          # b7a95e0
    git clone https://github.com/LightChen233/cross-lingual-prompting FOLDER/cross-lingual-prompting    # affd839
    python tools/grader_validation/mgsm_answers.py --data FOLDER

multi_lingual_cot_faithfulness asked Qwen3-4B and Gemma-3-4B with simple-evals' prompts, which are Meta's, in five
languages, three times each question. cross-lingual-prompting asked GPT-3.5 each question in ten languages, and for the
reasoning in seven. It asks for a last line "Answer: 18", where the model often translates the word. Both graders look
for the answer word of the language of the reasoning.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

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
COMMITS = {
    "simple-evals": "ee3b0318",
    "faithfulness": "b7a95e0",
    "cross-lingual-prompting": "affd839",
}
# Behind the last answer word: numbers that simple-evals misreads.
POINT = re.compile(r"\d{1,3}(\.\d{3})+")
SPACE = re.compile(r"\d[ \u00a0\u202f]\d{3}")
COMMA = re.compile(r"\d,\d\d?(?!\d)")

# Language of the reasoning, question, correct response, answer.
Case = tuple[str, str, str, str]


def small_models(folder: Path) -> Iterator[Case]:
    results = folder / "faithfulness" / "results" / "cot_inference" / "mgsm"
    for path in sorted(results.glob("*/cot_majority_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                for run in (1, 2, 3):
                    yield path.stem.rpartition("_")[2], line["question"], line["answer"], line[f"cot_run{run}"]


def gpt35(folder: Path) -> Iterator[Case]:
    results = folder / "cross-lingual-prompting" / "mgsm" / "output" / "clsp"
    for path in sorted(results.glob("*/*.jsonl")):
        for line in lines(path):
            yield path.stem, line["origin"]["text"], line["origin"]["answer"], line["message"][-1]["content"]


def judged(official: ModuleType, cases: Iterator[Case]) -> dict[str, Any]:
    grader = template_module("gsm8k/utils.py")
    docs, outputs, words, theirs = [], [], [], []
    for language, question, answer, output in cases:
        word, gold = official.LANG_TO_ANSWER_PREFIX[language], answer.replace(",", "")
        docs.append(grader.make_doc(row(question, [gold], subtask_name=f"mgsm.{language}")))
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
            "the language's own digits": not read.isascii(),
            "thousands parted by a point": POINT.fullmatch(read),
            "thousands parted by a space": SPACE.search(rest) and reading.endswith(read),
            "a decimal comma": COMMA.search(rest) and read.replace(".", "").startswith(reading.replace(".", "")),
            "a minus": reading == f"-{read}",
            "no number on the line of the answer word or below its colon": reading == grader.rows.NO_MATCH,
            "another number or the answer word again on a later line": True,
        }
        reason = next(reason for reason, holds in reasons.items() if holds)
        return f"{reason} ({'ours' if ours[number] else 'theirs'} counts it as right)"

    return compared(ours, theirs, why)


def main() -> None:
    csv.field_size_limit(10**9)
    folder = arguments(__doc__, "folder of the three checkouts").parse_args().data
    for name, commit in COMMITS.items():
        check_commit(folder / name, commit)
    official = simple_evals(folder / "simple-evals")
    show(
        {
            "mgsm_small_models": judged(official, small_models(folder)),
            "mgsm_gpt35": judged(official, gpt35(folder)),
        }
    )


if __name__ == "__main__":
    main()
