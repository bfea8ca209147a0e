"""Compare our scores for SQuAD, QuAC, DROP and TriviaQA with the official implementations on generated answers.

    git clone https://github.com/huggingface/evaluate FOLDER/evaluate               # a7dd338
    git clone https://github.com/princeton-nlp/EvalConvQA FOLDER/EvalConvQA         # fbf3419
    git clone https://github.com/allenai/allennlp-models FOLDER/allennlp-models     # b1f3722
    git clone https://github.com/mandarjoshi90/triviaqa FOLDER/triviaqa             # ca43b58
    python tools/grader_validation/spans.py --data FOLDER

Answers and correct responses combine words, articles, numbers, punctuation and cases that the normalisations treat
differently. Most answers are a correct response with a change.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from template_graders import arguments, check_commit, counted, module, row, show, template_module

COUNT = 5_000
WORDS = (
    "the", "a", "An", "The", "Theo", "Anna", "river", "River", "Nile", "flood", "of", "in", "Bears", "New York",
    "well-known", "Vik-Lund", "U.S.", "o'clock", "naïve", "Świt", "東京", "19", "1,900", "3.5", "20", "-7", "1902",
    "$5", "50%", "1st", "nineteen", "invalid", "quick_silver", "\u2018Oslo\u2019", "`Oslo`", "\u00b4", "\u201cso\u201d",
)  # fmt: skip
MARKS = (".", ",", "!", "'s", '"', "(", ")", "-", "\u2013", "_", "…", ";", "  ", "\t")


def text(draw: random.Random, longest: int = 5) -> str:
    parts = draw.choices(WORDS, k=draw.randint(1, longest))
    if draw.random() < 0.4:
        parts.insert(draw.randint(0, len(parts)), draw.choice(MARKS))
    return " ".join(parts) if draw.random() < 0.9 else "".join(parts)


def changed(draw: random.Random, gold: str) -> str:
    """Return a correct response with a change, or sometimes the same or an unrelated text."""
    words = gold.split(" ")
    shuffled = draw.sample(words, len(words))
    less = words[:]
    del less[draw.randrange(len(words))]
    place = draw.randint(0, len(words))
    return draw.choice(
        (
            gold,
            gold.upper(),
            gold.lower(),
            f"{draw.choice(('the ', 'a ', 'It is '))}{gold}",
            f"{gold}{draw.choice(MARKS)}",
            " ".join([*words[:place], draw.choice(WORDS), *words[place:]]),
            " ".join(less) or "x",
            " ".join(shuffled),
            text(draw),
        )
    )


Case = tuple[str, list[str]]


def cases(none: str | None, seed: int, most: int = 4) -> list[Case]:
    """Return pairs of an answer and correct responses. ``none`` is the benchmark's text for no answer."""
    draw = random.Random(seed)
    made: list[Case] = []
    for _ in range(COUNT):
        golds = [text(draw)]
        while len(golds) < most and draw.random() < 0.6:
            golds.append(changed(draw, draw.choice(golds)))
        answer = changed(draw, draw.choice(golds))
        if none and draw.random() < 0.2:
            golds = [none if draw.random() < 0.6 else gold for gold in golds]
            answer = draw.choice((none, none, none.lower(), none.capitalize(), f"{none}.", answer, answer, answer))
        made.append((answer, [gold for gold in golds if gold.strip()] or ["x"]))
    return made


def counts(pairs: list[tuple[Any, Any]], why: str = "not looked into") -> dict[str, Any]:
    """Return the counts of pairs of our scores and theirs."""
    agreed = sum(all(abs(a - b) < 1e-9 for a, b in zip(ours, theirs, strict=True)) for ours, theirs in pairs)
    return counted(agreed, len(pairs), why=why)


def scored(function: Callable[[dict[str, Any], list[str]], dict[str, Any]], case: Case, *names: str) -> list[float]:
    answer, golds = case
    result = function(template_module("_common/spans.py").make_doc(row(answer, golds)), [answer])
    return [result[name] for name in names]


def squad(folder: Path) -> dict[str, Any]:
    official = module(folder / "evaluate" / "metrics" / "squad_v2" / "compute_score.py")
    none = "Not in background"
    pairs = []
    for number, (generated, answers) in enumerate(cases(None, 1)):
        # All annotators of a question give an answer, or none does.
        golds = answers if number % 5 else [none]
        answer = generated if number % 10 else none
        listed = {"text": [gold for gold in golds if gold != none]}
        dataset = [{"paragraphs": [{"qas": [{"id": "q", "answers": listed}]}]}]
        exact, f1 = official.get_raw_scores(dataset, {"q": "" if answer == none else answer})
        ours = scored(template_module("squad/utils.py").squad, (answer, golds), "exact_match", "f1")
        pairs.append((ours, (exact["q"], f1["q"])))
    return counts(
        pairs,
        "no answer is right, and normalisation leaves nothing of the answer: the script takes that for no answer, "
        "Meta's prompt asks for a phrase",
    )


def quac(folder: Path) -> dict[str, Any]:
    official = module(folder / "EvalConvQA" / "models" / "ham" / "scorer.py")
    pairs = []
    for case in cases("CANNOTANSWER", 2):
        answer, golds = case
        kept = official.handle_cannot(golds)
        f1 = official.leave_one_out_max(answer, kept, "")
        filtered = f1 if official.leave_one_out(kept) >= 0.4 else -1.0
        ours = scored(template_module("squad/utils.py").quac, case, "f1", "f1_filtered")
        pairs.append(([-1.0 if score is None else score for score in ours], (f1, filtered)))
    return counts(pairs)


def drop(folder: Path) -> dict[str, Any]:
    official = module(folder / "allennlp-models" / "allennlp_models" / "rc" / "tools" / "drop.py")
    pairs = []
    for case in cases(None, 3):
        answer, golds = case
        theirs = [official.get_metrics(answer, (gold,)) for gold in golds]
        ours = scored(template_module("squad/drop.py").process_results, case, "exact_match", "f1")
        pairs.append((ours, (max(exact for exact, _ in theirs), max(f1 for _, f1 in theirs))))
    return counts(pairs)


def triviaqa(folder: Path) -> dict[str, Any]:
    sys.path.insert(0, str(folder / "triviaqa"))
    official = module(folder / "triviaqa" / "evaluation" / "triviaqa_evaluation.py")
    pairs = []
    for case in cases(None, 4):
        answer, golds = case
        exact = official.metric_max_over_ground_truths(official.exact_match_score, answer, golds)
        pairs.append((scored(template_module("squad/utils.py").triviaqa, case, "exact_match"), (float(exact),)))
    return counts(pairs)


COMMITS = {"evaluate": "a7dd338", "EvalConvQA": "fbf3419", "allennlp-models": "b1f3722", "triviaqa": "ca43b58"}


def main() -> None:
    folder = arguments(__doc__, "folder of the four checkouts").parse_args().data
    for name, commit in COMMITS.items():
        check_commit(folder / name, commit)
    show({f"{check.__name__}_generated": check(folder) for check in (squad, quac, drop, triviaqa)})


if __name__ == "__main__":
    main()
