"""Write a made-up evals dataset of the full size of Llama 3.1 Instruct's, with copies of its model that are worse.

Fifteen docs per task decide nothing, and examples must not contain Meta's rows. Here each subset has as many rows as
Meta's, all made up. The answers are right about as often as Meta published. A copy gives the same answers except for
flips. Engine noise flips as many docs in either direction, and the copy's drop adds flips from right to wrong. All
draws use a fixed seed.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.harness.replay import ReplayLM

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

DATASET = "Llama-3.1-8B-Instruct-evals"
# The joins whose originals are written too, with their subsets.
ORIGINALS = {"ifeval": "ifeval__strict", "math": "math_hard"}
SUBJECTS = ("biology", "chemistry", "economics", "engineering", "history", "law", "maths", "physics")
PLACES = ("harbour", "meadow", "orchard", "quarry", "station", "valley", "workshop", "lighthouse")
THINGS = ("lantern", "copper kettle", "timber gate", "weather vane", "signal lamp", "stone bridge")

USER, END = "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"
ASSISTANT = "<|start_header_id|>assistant<|end_header_id|>\n\n"


@dataclass(frozen=True, slots=True)
class Doc:
    """A made-up doc: its row without the recorded answer, and an answer for each score.

    ``answers[0]`` is wrong and ``answers[-1]`` is right. IFEval with two instructions has an answer between.
    """

    row: dict[str, Any]
    answers: tuple[str, ...]
    original: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Subset:
    """A subset.

    Attributes:
        name: Its name.
        docs: Number of docs in Meta's subset.
        right: The recorded model's share of right answers, averaged over subtasks.
        make: Makes a doc.
        spread: How far the first subtask is above that share, and the last below.
    """

    name: str
    docs: int
    right: float
    make: Callable[[int, random.Random], Doc]
    spread: float = 0.0


def row(question: str, prompts: Sequence[str], *, subtask: str, gold: Sequence[str], **other: Any) -> dict[str, Any]:
    """A generative row with the columns that prepare needs. ``other`` adds or overrides columns."""
    return {
        "task_type": "Generative",
        "task_name": subtask.partition(".")[0],
        "subtask_name": subtask,
        "input_question": question,
        "input_choice_list": None,
        "input_final_prompts": list(prompts),
        "input_correct_responses": list(gold),
        "output_choice_negative_log_likelihoods": None,
        "input_question_hash": hashlib.sha256(question.encode()).hexdigest(),
        "input_final_prompts_hash": [hashlib.sha256(prompt.encode()).hexdigest() for prompt in prompts],
        "eval_config": {"num_generations": "1"},
        **other,
    }


def turn(text: str) -> str:
    """A prompt of a single user turn, with the header of the answer."""
    return f"{USER}{text}{END}{ASSISTANT}"


def _scene(number: int, chance: random.Random) -> str:
    return f"the {chance.choice(THINGS)} of the {chance.choice(PLACES)} (no. {number + 1})"


def _letter(letters: str, subset: str, subjects: bool) -> Callable[[int, random.Random], Doc]:
    def make(number: int, chance: random.Random) -> Doc:
        question = f"How heavy is {_scene(number, chance)}, in kilograms?"
        choices = chance.sample(range(11, 99), len(letters))
        listed = "\n".join(f"{letter}. {weight}" for letter, weight in zip(letters, choices, strict=True))
        gold, wrong = chance.sample(letters, 2)
        subtask = f"{subset}.{_subject(number)}" if subjects else subset
        prompt = f'{question}\n{listed}\n\nEnd with "The best answer is [the_answer_letter]."'
        said = "Weighed on the scales by the door, it comes to what the list gives."
        answers = tuple(f"{said} The best answer is {letter}." for letter in (wrong, gold))
        return Doc(row(question, [turn(prompt)], subtask=subtask, gold=[gold]), answers)

    return make


def _subject(number: int) -> str:
    """A subject. Sizes differ: of 100 questions, the first has 9 and the last 16."""
    bounds = zip(SUBJECTS, (9, 19, 30, 42, 54, 68, 84, 100), strict=True)
    return next(subject for subject, below in bounds if number % 100 < below)


def _math(number: int, chance: random.Random) -> Doc:
    a, b = chance.randrange(12, 98), chance.randrange(12, 98)
    question = f"A crate holds ${a}$ lamps. How many do ${b}$ crates like {_scene(number, chance)} hold?"
    gold = a * b
    answers = tuple(
        f"One crate holds {a}.\n\nTherefore, the final answer is: $\\boxed{{{value}}}$. I hope it is correct."
        for value in (gold + a, gold)
    )
    prompt = f"{question}\n\nEnd with: Therefore, the final answer is: $\\boxed{{answer}}$."
    solution = f"It is $\\boxed{{{gold}}}$."
    original = {"problem": question, "level": "Level 5", "type": "Prealgebra", "solution": solution}
    return Doc(row(question, [turn(prompt)], subtask="math_hard.prealgebra", gold=[f"{gold:.2e}"]), answers, original)


def _ifeval(number: int, chance: random.Random) -> Doc:
    scene = _scene(number, chance)
    both = chance.random() < 0.4
    text = f"Write two lines about {scene}. Do not use any commas."
    ids = ["punctuation:no_comma"]
    if both:
        text += " Give it a title in double angular brackets such as <<title>>."
        ids.append("detectable_format:title")
    plain = f"A note on {scene}\nIt stands where it always stood and nobody has moved it"
    # In both lines, because loose scoring leaves out the first or the last line.
    comma = plain.replace("note on", "note, on").replace("stood and", "stood, and")
    answers = (comma, plain, f"<<A note>>\n{plain}") if both else (comma, plain)
    question = json.dumps({"dialog": [{"type": "text", "source": "user", "body": text}]})
    original = {"key": number + 1, "prompt": text, "instruction_id_list": ids, "kwargs": [{} for _ in ids]}
    return Doc(row(question, [turn(text)], subtask="ifeval", gold=[]), answers, original)


# Rows as in the subsets of Llama 3.1. Shares are near the published 80.4, 25.4, 32.8, 48.3 (macro) and 47.0 (micro).
SUBSETS = (
    Subset("ifeval__strict", 541, 0.789, _ifeval),
    Subset("math_hard", 1324, 0.254, _math),
    Subset("gpqa", 448, 0.328, _letter("ABCD", "gpqa_chat", subjects=False)),
    Subset("mmlu_pro", 12032, 0.483, _letter("ABCDEFGHIJ", "mmlu_pro_chat", subjects=True), spread=0.1),
)


@dataclass(frozen=True, slots=True)
class World:
    """All docs by the hash of their question, and the recorded answer as an index of the doc's answers."""

    docs: dict[str, Doc]
    recorded: dict[str, int]


def write_dataset(folder: Path) -> World:
    """Write the evals dataset and the originals of its joins into a folder, as files for prepare."""
    world = World({}, {})
    for subset in SUBSETS:
        chance = random.Random(subset.name)
        docs = [subset.make(number, chance) for number in range(subset.docs)]
        right = _right(subset, docs, chance)
        rows = []
        for number, doc in enumerate(docs):
            key = doc.row["input_question_hash"]
            points = len(doc.answers) - 1 if number in right else chance.randrange(len(doc.answers) - 1)
            world.docs[key], world.recorded[key] = doc, points
            rows.append({**doc.row, "output_prediction_text": [doc.answers[points]], "is_correct": points > 0})
        write(folder / DATASET / f"{subset.name}.jsonl", rows)
        originals = [doc.original for doc in docs if doc.original is not None]
        if originals:
            write(folder / f"{subset.name}_originals.jsonl", originals)
    return world


def _right(subset: Subset, docs: Sequence[Doc], chance: random.Random) -> set[int]:
    """Choose the docs with right answers. Their number is exact, so the scores equal the published ones."""
    subtasks: dict[str, list[int]] = {}
    for number, doc in enumerate(docs):
        subtasks.setdefault(doc.row["subtask_name"], []).append(number)
    right: set[int] = set()
    for rank, name in enumerate(sorted(subtasks)):
        share = subset.right + subset.spread * (1 - 2 * rank / max(1, len(subtasks) - 1))
        right |= set(chance.sample(subtasks[name], round(share * len(subtasks[name]))))
    return right


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as JSON lines. Creates the folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


class Copy(ReplayLM):
    """The recorded model, except for flips.

    Args:
        world: The docs.
        flips: Share of docs that noise flips, half of them in either direction if possible.
        drop: Share of all docs that also turn from right to wrong.
        seed: Seed of the draws.
    """

    def __init__(self, world: World, *, flips: float, drop: float, seed: int) -> None:
        super().__init__()
        self._world = world
        self._points = dict(world.recorded)
        chance = random.Random(seed)
        # By subtask: an identical copy wins as many docs of each subtask as it loses.
        by_subtask: dict[tuple[str, str], list[str]] = {}
        for key, doc in world.docs.items():
            by_subtask.setdefault((doc.row["task_name"], doc.row["subtask_name"]), []).append(key)
        for keys in by_subtask.values():
            right = [key for key in keys if world.recorded[key] == len(world.docs[key].answers) - 1]
            wrong = sorted(set(keys) - set(right), key=keys.index)
            either = round(flips * len(keys) / 2)
            lost = chance.sample(right, min(len(right), either + round(drop * len(keys))))
            self._points |= dict.fromkeys(lost, 0)
            for key in chance.sample(wrong, min(len(wrong), either)):
                self._points[key] = len(world.docs[key].answers) - 1

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:  # noqa: ARG002
        keys = [request.doc["input_question_hash"] for request in requests]
        return [self._world.docs[key].answers[self._points[key]] for key in keys]
