"""Compare our verdicts on letters and GSM8K's numbers with lm-eval's own tasks, on generated answers to Meta's prompts.

    pip install lm-eval==0.4.13
    python tools/grader_validation/letters.py

lm-eval installs these tasks: ``arc_challenge_llama``, ``mmlu_llama``, ``mmlu_es_llama``, ``mmlu_cot_llama``,
``mmlu_pro_llama`` and ``gsm8k_llama``. Their stop strings, filters and metric run here unchanged. The answers have a
fixed seed, a beginning, the answer with some decoration, and an end. ``--data`` names another copy of lm-eval's
``tasks`` folder.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from template_graders import compared, lm_eval_verdicts, row, settings, show, template_module, verdicts

COUNT = 2000
Made = tuple[str, str]  # an output and its special feature

# Task, subset, our YAML, lm-eval's YAML, its filter, its form of the gold, the function that makes answers
PAIRS: tuple[tuple[str, str, str, str, str, str], ...] = (
    ("meta_arc_challenge_instruct", "arc_challenge", "arc_challenge/arc_challenge_0shot_instruct.yaml",
     "arc_challenge/arc_challenge_llama.yaml", "{}", "following"),
    ("meta_mmlu_instruct", "mmlu", "mmlu/mmlu_5shot_instruct.yaml",
     "mmlu/_continuation_template_yaml", "{}.", "following"),
    ("meta_multilingual_mmlu_es", "multilingual_mmlu_es", "multilingual_mmlu/multilingual_mmlu_es.yaml",
     "mmlu_es/_continuation_template_yaml", "{}.", "following"),
    ("meta_mmlu__0_shot__cot", "mmlu__0_shot__cot", "mmlu/mmlu_0shot_cot.yaml",
     "mmlu_cot/_mmlu_cot_llama_template_yaml", "{}", "announced"),
    ("meta_mmlu_pro_instruct", "mmlu_pro", "mmlu_pro/mmlu_pro_5shot_cot_instruct.yaml",
     "mmlu_pro/_default_template_yaml", "{}", "announced"),
    ("meta_gsm8k", "gsm8k", "gsm8k/gsm8k_8shot_cot.yaml", "gsm8k/gsm8k.yaml", "{}", "number"),
)  # fmt: skip


def main() -> None:
    import lm_eval.tasks

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(lm_eval.tasks.__file__).parent, help="lm-eval's tasks folder")
    folder = parser.parse_args().data
    instruct = folder / "llama3" / "instruct"
    show({f"{subset}_lm_eval": counts(instruct, task, *pair) for task, subset, *pair in PAIRS})


def counts(folder: Path, task: str, file: str, theirs_file: str, gold: str, kind: str) -> dict[str, Any]:
    """Compare a task with its counterpart."""
    theirs_task = settings(folder / theirs_file)
    grader = template_module("gsm8k/utils.py" if kind == "number" else "mmlu_pro/utils.py")
    draw = random.Random(f"{task} 42")
    docs, golds, outputs, forms = [], [], [], []
    for _ in range(COUNT):
        right = (
            str(draw.choice([draw.randrange(100), draw.randrange(1000, 10**6)]))
            if kind == "number"
            else draw.choice("ABCD")
        )
        output, form = MAKERS[kind](draw, right)
        docs.append(grader.make_doc(row(output, [right])))
        golds.append(gold.format(right))
        outputs.append(output)
        forms.append(form)
    ours = verdicts(file, "strict-match", outputs, docs, grader)
    theirs = lm_eval_verdicts(theirs_task, "strict_match", outputs, golds)
    return {
        "reference": f"lm-eval {version('lm-eval')}, llama3/instruct/{Path(theirs_file).parent.name}",
        "source": f"lm-eval=={version('lm-eval')}, lm_eval/tasks/llama3/instruct/{theirs_file}",
        **compared(ours, theirs, lambda n: f"{forms[n]} ({'ours' if ours[n] else 'theirs'} counts it as right)"),
    }


def other(draw: random.Random, right: str) -> str:
    return draw.choice([letter for letter in "ABCD" if letter != right])


def following(draw: random.Random, right: str) -> Made:
    """Make an answer that completes "The best answer is"."""
    letter = draw.choice([right, right, other(draw, right)])
    wrong = other(draw, letter)
    return draw.choice(
        [
            (f" {letter}.", "a letter and a full stop"),
            (f" {letter}", "a letter"),
            (f"{letter}", "a letter"),
            (f" {letter}.\n", "a letter and a full stop"),
            (f" {letter}. It follows from the text", "words behind a full stop"),
            (f" {letter}. I hope it is right", "a capital in the words behind a full stop"),
            (f" {letter}. Not {wrong}", "another letter behind a full stop"),
            (f" {letter}) the second one", "words behind a bracket"),
            (f" {letter} because it fits", "words behind the letter"),
            (f" {letter}, the second one", "words behind a comma"),
            (f" **{letter}**", "bold"),
            (f" ({letter})", "brackets"),
            (f' "{letter}"', "quotation marks"),
            (f" {letter.lower()}.", "a small letter"),
            (" A resposta correta é " + letter, "the sentence anew, in Portuguese"),
            (" The best answer is " + letter, "the sentence anew"),
            (" A proton", "an option that begins with an article"),
            (" none of these", "no letter"),
            ("", "no letter"),
        ]
    )


def announced(draw: random.Random, right: str) -> Made:
    """Make a chain of thought with its end."""
    letter = draw.choice([right, right, other(draw, right)])
    wrong = other(draw, letter)
    before = draw.choice(["", "## Step 1: Look\nIt moves.\n\n", f"Option {wrong} looks good. ", "It is A or B. "])
    output, form = draw.choice(
        [
            (f"The best answer is {letter}.", "as the prompt asks"),
            (f"The best answer is {letter}", "as the prompt asks"),
            (f"the best answer is {letter}.", "in small letters"),
            (f"Therefore, the best answer is {letter}. I hope it is correct.", "in small letters"),
            (f"The best answer is {wrong}. No.\n\nThe best answer is {letter}.", "said twice"),
            (f"My best answer is {letter}.", "'best answer is' without 'the'"),
            (f"THE BEST ANSWER IS {letter}.", "in capitals"),
            (f"The best answer is **{letter}**.", "bold"),
            (f"The best answer is ({letter}).", "brackets"),
            (f"The best answer is: {letter}.", "a colon"),
            (rf"The best answer is $\boxed{{{letter}}}$.", "a box"),
            (f"The correct answer is {letter}.", "other words"),
            ("The best answer is None of these.", "a word with a capital"),
            ("The best answer is a proton.", "no letter"),
            ("", "no letter"),
        ]
    )
    return before + output, form


def number(draw: random.Random, right: str) -> Made:
    """Make a solution with its end."""
    value = int(right) + draw.choice([0, 0, 1])
    said = "The final answer is"
    end = draw.choice(["", ".", "\n"])
    output, form = draw.choice(
        [
            (f"{said} {value}", "as the prompt asks"),
            (f"{said} {value}", "as the prompt asks"),
            (f"{said} {value:,}", "thousands parted by a comma" if value > 999 else "as the prompt asks"),
            (f"{said} {value}.00", "decimals that are nought"),
            (f"{said} ${value}", "a dollar sign"),
            (f"{said} ${value:,}", "a dollar sign"),
            (f"{said} {value} apples in 3 bags", "words behind the number"),
            (f"{said} {value}%", "a percent sign"),
            (f"the final answer is {value}", "in small letters"),
            (f"{said}: {value}", "a colon"),
            (f"{said} {value + 5}. No: {said} {value}", "said twice"),
            (f"{said} **{value}**", "bold"),
            (rf"{said} $\boxed{{{value}}}$", "a box"),
            (f"The answer is {value}", "other words"),
            (f"{said} x = {value}", "an equation"),
        ]
    )
    return f"5 + 7 = 12. {output}{end}", form


MAKERS: dict[str, Callable[[random.Random, str], Made]] = {
    "following": following,
    "announced": announced,
    "number": number,
}


if __name__ == "__main__":
    main()
