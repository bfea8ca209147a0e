"""Compare our MGSM verdicts with simple-evals' on 5,500 generated answers in its eleven languages.

    git clone https://github.com/openai/simple-evals && git -C simple-evals checkout ee3b0318
    python tools/grader_validation/mgsm.py --data simple-evals

Meta's prompts of this benchmark are exactly simple-evals', so no public parser is closer to Meta's. The answers have a
fixed seed, a line of reasoning, a label, a number in a spelling of the language, and an end.
"""

# ruff: noqa: RUF001 (the answers contain letters, digits and marks of other scripts)

from __future__ import annotations

import importlib
import random
import sys
import unicodedata
from pathlib import Path
from types import ModuleType

from template_graders import checkout, compared, counted, row, show, template_module, verdicts

PER_LANGUAGE = 500
DIGITS = {"bn": 0x09E6, "te": 0x0C66, "th": 0x0E50, "ja": 0xFF10, "zh": 0xFF10}
FINAL = {
    "bn": "চূড়ান্ত {}", "de": "Endgültige {}", "en": "Final {}", "es": "{} final", "fr": "{} finale", "ja": "最終的な{}",
    "ru": "Окончательный {}", "sw": "{} la mwisho", "te": "తుది {}", "th": "{}สุดท้าย", "zh": "最终{}",
}  # fmt: skip


def main() -> None:
    folder = checkout(__doc__, "openai/simple-evals", "ee3b0318")
    official = simple_evals(folder)
    grader = template_module("gsm8k/utils.py")
    draw = random.Random(42)
    docs, outputs, forms, theirs = [], [], [], []
    for language in sorted(FINAL):
        word = official.LANG_TO_ANSWER_PREFIX[language]
        for _ in range(PER_LANGUAGE):
            gold = draw.choice([draw.randrange(100), draw.randrange(1000), draw.randrange(1000, 1_000_000)])
            output, form = answer(draw, language, word, draw.choice([gold, gold, gold + 1]))
            spellings = [f"{gold}{end}" for end in ("", ".", ".0", ".0.", ".00", ".00.")]
            docs.append(grader.make_doc(row(output, spellings, subtask_name=f"mgsm.{language}")))
            outputs.append(output)
            forms.append(form)
            theirs.append(official.score_mgsm(str(gold), official.parse_answer(output, word)))
    ours = verdicts("gsm8k/mgsm_0shot_cot.yaml", "strict-match", outputs, docs, grader)
    words = [grader.ANSWER_WORDS[language] in asked for language, asked in official.LANG_TO_INSTRUCTIONS.items()]
    graded = compared(ours, theirs, lambda n: f"{forms[n]} ({'ours' if ours[n] else 'theirs'} counts it as right)")
    show({"mgsm_prompts": counted(sum(words), len(words)), "mgsm_simple_evals": graded})


def simple_evals(folder: Path) -> ModuleType:
    """Import its mgsm_eval without the dependencies for models and reports."""
    package = ModuleType("simple_evals")
    package.__path__ = [str(folder)]
    common, page = ModuleType("simple_evals.common"), ModuleType("simple_evals.mmlu_eval")
    page.HTML_JINJA = ""  # type: ignore[attr-defined]
    package.common = common  # type: ignore[attr-defined]
    sys.modules |= {"simple_evals": package, "simple_evals.common": common, "simple_evals.mmlu_eval": page}
    return importlib.import_module("simple_evals.mgsm_eval")


def answer(draw: random.Random, language: str, word: str, number: int) -> tuple[str, str]:
    """Make an answer, with its first special feature."""
    spelling, spelled = draw.choices(
        spellings(language, number), [6, 2, 1, 1, 1, 1][: len(spellings(language, number))]
    )[0]
    final = FINAL[language].format(word)
    label, labelled = draw.choices(
        [
            (f"{word}: ", ""),
            (f"**{word}:** ", ""),
            (f"{word}:\n\n", ""),
            (f"{word}\u00a0: ", ""),
            (f"{word}： ", ""),
            (f"{word}ঃ " if language == "bn" else f"{word} = ", ""),
            (f"{final}: ", ""),
            (f"{word.lower()}: ", "the answer word in small letters" if word.lower() != word else ""),
            (
                f"{unicodedata.normalize('NFD', word)}: ",
                "" if unicodedata.is_normalized("NFD", word) else "decomposed accents",
            ),
            (f"{word} {draw.choice(['-', '–', '→'])} ", ""),
            ("", "no answer word"),
        ],
        [8, 3, 2, 2, 1, 2, 3, 2, 1, 1, 1],
    )[0]
    end, ended = draw.choices(
        [
            ("", ""),
            (".", ""),
            (" €", ""),
            (" km", ""),
            ("\n", ""),
            (f"\n\n{draw.randrange(2, 9)} x {draw.randrange(2, 9)}", "another number on a later line"),
            (f" ({draw.randrange(2, 9)} + {draw.randrange(2, 9)})", "another number on the same line"),
        ],
        [8, 4, 1, 1, 2, 1, 1],
    )[0]
    reasoning = f"{draw.randrange(2, 99)} + {draw.randrange(2, 99)} = {draw.randrange(99)}\n"
    return f"{reasoning}{label}{spelling}{end}", labelled or ended or spelled or "nothing special"


def spellings(language: str, number: int) -> list[tuple[str, str]]:
    """Return the spellings of a number in the language, with the special feature of each."""
    big = number >= 1000
    forms = [(str(number), ""), (f"{number:,}", ""), (f"{number}.0", "")]
    if language in ("de", "es"):
        forms.append((f"{number:,}".replace(",", "."), "thousands parted by a point" if big else ""))
    if language in ("fr", "ru", "es"):
        forms.append((f"{number:,}".replace(",", "\u202f"), "thousands parted by a space" if big else ""))
    if language in ("de", "fr", "es", "ru"):
        forms.append((f"{number},00", "a decimal comma"))
    if zero := DIGITS.get(language):
        own = str(number).translate({48 + digit: zero + digit for digit in range(10)})
        forms.append((own, "the language's own digits"))
    return forms


if __name__ == "__main__":
    main()
