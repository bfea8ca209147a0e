"""Make docs of IFEval and score answers with lm-eval's own checkers.

A prompt is followed if all its instructions are. Strict checks the answer as it is. Loose also accepts it without its
first line, its last line, its asterisks, or several of these. Meta publishes the mean of four accuracies: prompt and
instruction level, strict and loose (llama-models, models/llama3_1/eval_details.md).

Meta's recorded ``is_correct`` does not say whether the prompt is followed. It is true if exactly one instruction is
strictly followed, or all are. This rule was derived from 541 real rows of Llama 3.1 8B Instruct and fits 540 of them.
Perhaps Meta tests whether any metric of the answer equals 1: a share of prompts, a share of instructions, or a count.

`one_or_all` applies this rule to our verdicts, only to compare them with the recorded ones. Agreement says something
about the number of followed instructions. It does not say whether an answer is right: one of three instructions gives
true, two of three give false. So it is no score, and higher is not better.
"""

import functools
import importlib
import json
import logging
import math
import random
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

# The checkers of these instructions need nltk's Punkt model, which nltk does not include.
NEEDS_PUNKT = frozenset(("change_case:capital_word_frequency", "length_constraints:number_sentences"))
PACK = Path(__file__).resolve().parent.parent

# Characters of an answer: the checkers' patterns take ten seconds for so many brackets, and forty for twice as many.
LONGEST = 50_000

# lm-eval's checkers draw at random what an instruction leaves open. In IFEval that is a letter for keys 1122 and 1129:
# they ask to count "#" and "!", which are no letters. With this seed, lm_eval's default, the draw is always "y", the
# first draw of lm-eval itself.
SEED = 0

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")

logger = logging.getLogger("meta_eval.ifeval")


# Docs


def make_doc(row: dict) -> dict:
    """Make a doc with the common columns and the arguments of the checkers.

    The question is a serialized dialog. ``original_prompt`` is the text of the original dataset. The prompt contains it
    without white space at its ends. ``kwargs`` stays JSON text, because a table would give every instruction every
    argument. The names of the instructions are the gold.

    Raises:
        ValueError: There is no instruction, or not exactly one JSON object of arguments for each.
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
    """Read the arguments of an instruction, without those that are null.

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
    """Return the prompt exactly as Meta recorded it, and check that the answer can be scored.

    lm-eval asks for every prompt before it generates anything, so nothing is generated in vain.

    Raises:
        ImportError: lm-eval's checkers cannot be imported.
        LookupError: The doc needs nltk's punkt_tab, which is missing.
    """
    checkers()
    if not NEEDS_PUNKT.isdisjoint(doc["instruction_id_list"]):
        require_punkt()
    return doc["prompt"]


# Scoring


def process_results(doc: dict, results: list[str]) -> dict:
    """Score an answer.

    ``inst_level_*`` has a verdict for each instruction and ``mean_acc`` both lists, for the averages below.
    ``one_or_all_*`` follows the rule of Meta's recorded verdict (see this module).

    If a checker raises, its instruction counts as not followed, ``ungraded`` is 1, and a warning names the key.
    """
    strict, loose, failures = [], [], []
    for index, instruction in enumerate(doc["instruction_id_list"]):
        try:
            followed_strict, followed_loose = followed(doc, index, results[0] or "")
        except Exception as error:  # a faulty checker must not stop the run
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
    """Return whether an instruction is followed strictly, and loosely, by lm-eval's checkers.

    The loose check tries up to eight variants of the answer, first the answer itself, with the same random draws. It
    therefore passes whenever the strict check does, and only runs if that fails.

    Raises:
        ValueError: The answer is longer than `LONGEST`.
    """
    if len(response) > LONGEST:
        raise ValueError(f"the answer has more than {LONGEST:,} characters")
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
    """Call a function with random numbers from `SEED`, then restore the state of `random`."""
    state = random.getstate()
    random.seed(SEED)
    try:
        return check(*arguments)
    finally:
        random.setstate(state)


def one_or_all(verdicts: list[bool]) -> float:
    """Return 1 if exactly one instruction is followed or all are, else 0: the rule of Meta's ``is_correct``."""
    return float(sum(verdicts) in (1, len(verdicts)))


def instruction_mean(items: list[list[bool]]) -> float:
    """Return the share of followed instructions over all docs. A prompt with three instructions counts three times."""
    verdicts = [verdict for item in items for verdict in item]
    return sum(verdicts) / len(verdicts)


def mean_of_four(items: list[tuple[list[bool], list[bool]]]) -> float:
    """Return the mean of four accuracies: prompt and instruction level, strict and loose."""
    accuracies = []
    for verdicts in zip(*items, strict=True):
        accuracies += [sum(all(doc) for doc in verdicts) / len(verdicts), instruction_mean(verdicts)]
    return math.fsum(accuracies) / len(accuracies)


# What scoring needs


@functools.cache
def checkers():
    """Import lm-eval's IFEval module and make its language detection deterministic.

    Raises:
        ImportError: A package of lm-eval's ifeval extra is missing.
    """
    try:
        nltk = importlib.import_module("nltk")
        # A pack may include the data. lm-eval's module downloads missing data when it is imported.
        nltk.data.path.insert(0, str(PACK / "nltk_data"))
        importlib.import_module("langdetect").DetectorFactory.seed = 0
        return importlib.import_module("lm_eval.tasks.ifeval.utils")
    except ImportError as error:
        raise ImportError(f'IFEval cannot be scored here: {error}. Run: pip install "lm-eval[ifeval]"') from error


@functools.cache
def require_punkt() -> None:
    """Check that nltk's Punkt model is installed.

    Raises:
        LookupError: It is missing. The message gives the command that installs it.
    """
    import nltk

    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        raise LookupError(
            "IFEval needs nltk's punkt_tab to be scored, and it is neither in the pack nor on this machine. Run: "
            "python -m nltk.downloader punkt_tab. Without a network: prepare on a machine that has it, and the pack "
            "brings it along"
        ) from None
