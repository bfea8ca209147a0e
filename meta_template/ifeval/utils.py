"""IFEval: rows to docs, and lm-eval's own checkers over every instruction.

A prompt is followed when all its instructions are. Strict takes the answer as it is; loose also accepts it without its
first line, its last line, its asterisks, or several of these. Meta publishes the mean of the four accuracies (prompt
and instruction level, strict and loose; llama-models, models/llama3_1/eval_details.md).

Meta's recorded ``is_correct`` is not whether the prompt is followed. On 540 of 541 real rows of Llama 3.1 8B Instruct,
which this was read off, it is true where exactly one of the instructions is strictly followed or all of them are, as if
some metric of the answer equalled 1: the share of prompts, of instructions, or a count. `one_or_all` reads our verdicts
in the same way, for nothing but to compare the recorded one with it. What it can say: that as many instructions were
found followed, as far as their number decides it. What it cannot: whether an answer is right (one of three instructions
followed reads as true, two of three as false), so that it is no score, and more of it is no better.
"""

import functools
import importlib
import json
import logging
import math
import random
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

# The instructions whose checkers split text with nltk's Punkt model, which nltk does not bring along.
NEEDS_PUNKT = frozenset(("change_case:capital_word_frequency", "length_constraints:number_sentences"))
PACK = Path(__file__).resolve().parent.parent

# lm-eval's checkers draw at random what an instruction leaves open. In IFEval that is the letter of keys 1122 and 1129,
# which are to count "#" and "!": no letters, so that one of the alphabet is drawn for each check. Here it is always the
# one that lm-eval's reference draws first under the seed that lm_eval sets by default, a "y".
SEED = 0

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")

logger = logging.getLogger("meta_eval.ifeval")


# Docs


def make_doc(row: dict) -> dict:
    """The columns that every doc of every task has, and what the checkers need.

    The question is a serialized dialog; ``original_prompt`` is the original's text, which the prompt holds without
    white space at its ends. ``kwargs`` stays JSON text, for a table would fill every instruction with every argument.
    IFEval has no gold but its instructions.

    Raises:
        ValueError: Not one JSON object of arguments for each instruction, or no instruction.
    """
    if not row["instruction_id_list"] or len(row["kwargs"]) != len(row["instruction_id_list"]):
        raise ValueError(
            f"key {row['key']}: {len(row['instruction_id_list'])} instructions and {len(row['kwargs'])} kwargs; the "
            f"original dataset must have one of each, and at least one"
        )
    for arguments in row["kwargs"]:
        read_arguments(arguments, row["key"])
    doc = rows.make_doc({**row, "input_correct_responses": [", ".join(row["instruction_id_list"])]})
    joined = ("key", "original_prompt", "instruction_id_list", "kwargs")
    return {**doc, **{column: row[column] for column in joined}}


process_docs = rows.docs_by(make_doc)


def read_arguments(text: str, key: int) -> dict:
    """The arguments of one instruction without the empty ones.

    Raises:
        ValueError: The text is not a JSON object.
    """
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise ValueError(f"key {key}: kwargs are not JSON ({error}): {text!r}") from None
    if not isinstance(arguments, dict):
        raise ValueError(f"key {key}: kwargs are not a JSON object: {text!r}")
    return {name: value for name, value in arguments.items() if value is not None}


def doc_to_text(doc: dict) -> str:
    """The prompt, exactly as Meta gave it to its model.

    lm-eval asks for every prompt before it generates anything, so this is where missing parts are found in time.

    Raises:
        ImportError: lm-eval's checkers cannot be imported.
        LookupError: The doc needs nltk's punkt_tab and it is not there.
    """
    checkers()
    if not NEEDS_PUNKT.isdisjoint(doc["instruction_id_list"]):
        require_punkt()
    return doc["prompt"]


# Scoring


def process_results(doc: dict, results: list[str]) -> dict:
    """Score one answer.

    ``inst_level_*`` is one verdict an instruction, ``mean_acc`` both lists, for the averages below; ``one_or_all_*``
    is how Meta's recorded verdict reads (see this module). A checker that raises leaves its instruction not followed,
    ``ungraded`` 1 and a warning.
    """
    strict, loose, failures = [], [], []
    for index, instruction in enumerate(doc["instruction_id_list"]):
        try:
            followed_strict, followed_loose = followed(doc, index, results[0] or "")
        except Exception as error:  # whatever a checker does, the run goes on
            followed_strict = followed_loose = False
            failures.append(f"{instruction}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
        strict.append(followed_strict)
        loose.append(followed_loose)
    if failures:
        logger.warning("key %s: not graded, so it counts as not followed (%s)", doc["key"], "; ".join(failures))
    return {
        "prompt_level_strict_acc": float(all(strict)),
        "inst_level_strict_acc": strict,
        "prompt_level_loose_acc": float(all(loose)),
        "inst_level_loose_acc": loose,
        "mean_acc": (strict, loose),
        "one_or_all_strict": one_or_all(strict),
        "one_or_all_loose": one_or_all(loose),
        "ungraded": float(bool(failures)),
    }


def followed(doc: dict, index: int, response: str) -> tuple[bool, bool]:
    """Whether one instruction is followed, strictly and loosely, by lm-eval's checkers.

    Strictly followed is loosely followed: the loose check tries the answer as it is too, and both draw the same. So the
    loose one, eight checks where nothing passes, is made only of what the strict one refuses.
    """
    module = checkers()
    example = module.InputExample(
        key=doc["key"],
        instruction_id_list=[doc["instruction_id_list"][index]],
        prompt=doc["original_prompt"],
        kwargs=[read_arguments(doc["kwargs"][index], doc["key"])],
    )
    strict = bool(seeded(module.test_instruction_following_strict, example, response).follow_all_instructions)
    loose = strict or bool(seeded(module.test_instruction_following_loose, example, response).follow_all_instructions)
    return strict, loose


def seeded(check, *arguments):
    """What a function returns when its first draw is that of `SEED`; the draws of everybody else stay as they were."""
    state = random.getstate()
    random.seed(SEED)
    try:
        return check(*arguments)
    finally:
        random.setstate(state)


def one_or_all(verdicts: list[bool]) -> float:
    """1 where exactly one instruction is followed or all are, else 0: what Meta recorded as ``is_correct``."""
    return float(sum(verdicts) in (1, len(verdicts)))


def instruction_mean(items: list[list[bool]]) -> float:
    """The share of instructions followed, over all docs: a prompt with three counts three times."""
    verdicts = [verdict for item in items for verdict in item]
    return sum(verdicts) / len(verdicts)


def mean_of_four(items: list[tuple[list[bool], list[bool]]]) -> float:
    """The mean of prompt and instruction level accuracy, strict and loose."""
    accuracies = []
    for verdicts in zip(*items, strict=True):
        accuracies += [sum(all(doc) for doc in verdicts) / len(verdicts), instruction_mean(verdicts)]
    return math.fsum(accuracies) / len(accuracies)


# What scoring needs


@functools.cache
def checkers():
    """lm-eval's own IFEval module, with language detection made deterministic.

    Raises:
        ImportError: A package of lm-eval's ifeval extra is missing.
    """
    try:
        nltk = importlib.import_module("nltk")
        # A pack may bring the data; before the import below, which tries to download it when it finds none.
        nltk.data.path.insert(0, str(PACK / "nltk_data"))
        importlib.import_module("langdetect").DetectorFactory.seed = 0
        return importlib.import_module("lm_eval.tasks.ifeval.utils")
    except ImportError as error:
        raise ImportError(f'IFEval cannot be scored here: {error}. Run: pip install "lm-eval[ifeval]"') from error


@functools.cache
def require_punkt() -> None:
    """Raises LookupError, with the command that installs it, when nltk's Punkt model is not on this machine."""
    import nltk

    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        raise LookupError(
            "IFEval needs nltk's punkt_tab to be scored, and it is neither in the pack nor on this machine. Run: "
            "python -m nltk.downloader punkt_tab. Without a network: prepare on a machine that has it, and the pack "
            "brings it along"
        ) from None
