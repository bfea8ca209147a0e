"""Choice tasks: Meta recorded one whole prompt a choice and compared their likelihoods.

The prompts are taken exactly as they are: what they share is the context, what follows is the continuation of each.
What Meta scored may begin earlier ("Answer: yes" where only "yes" differs). That is nothing to a comparison of the
likelihoods as they are, since the words that all choices share count the same for each. It is not where they are
divided by lengths, and the lengths differ: there the continuation begins where Meta's did.
"""

import math
import os.path
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import datasets

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")


# Docs


def process_docs_per_character(dataset: datasets.Dataset) -> datasets.Dataset:
    """As `process_docs`, where the likelihoods are divided by lengths.

    Raises:
        ValueError: A row says what was scored, and its prompts do not end with it: no likelihood of ours would be that
            of what the length is of.
    """
    for row in dataset:
        completions = row.get("output_choice_completions")
        if completions and recorded_split(row["input_final_prompts"], completions) is None:
            raise rows.refused(
                row, f"the prompts should end with what was scored, {completions}, and be the same before it"
            )
    return process_docs(dataset)


def make_doc(row: dict) -> dict:
    """The columns that every doc of every task has, and for each choice, in their order:

    ``continuations``, what follows the context; ``characters``, by how many its likelihood is divided for ``acc_char``;
    ``recorded_negative_log_likelihoods``, what Meta's own model gave it. ``gold_index`` is the right one.

    Raises:
        ValueError: The correct responses name no choice, or several.
    """
    prompts = [rows.families.without_bos(prompt) for prompt in row["input_final_prompts"]]
    completions = row.get("output_choice_completions") or []
    context, continuations = split(prompts)
    right = gold_index(row, prompts, continuations, completions)
    if len(completions) != len(prompts):
        completions = [continuation.strip() for continuation in continuations]
    elif len(set(map(len, completions))) > 1:
        context, continuations = recorded_split(prompts, completions) or (context, continuations)
    likelihoods = (row.get("output_choice_negative_log_likelihoods") or {}).get("raw")
    return {
        **rows.make_doc(row),
        "prompt": context,
        "gold": continuations[right].strip(),
        "gold_index": right,
        "continuations": continuations,
        "characters": [max(len(completion), 1) for completion in completions],
        "recorded_negative_log_likelihoods": likelihoods,
    }


process_docs = rows.docs_by(make_doc)


def recorded_split(prompts: list[str], completions: list[str]) -> tuple[str, list[str]] | None:
    """What stands before the recorded completions, which must be the same, and each with what parts them.

    Returns:
        None where there is not one completion a prompt that the prompt ends with, or what precedes them differs.
    """
    if len(completions) != len(prompts) or not all(map(str.endswith, prompts, completions)):
        return None
    befores = {prompt[: len(prompt) - len(end)] for prompt, end in zip(prompts, completions, strict=True)}
    if len(befores) != 1:
        return None
    context = _end_of_a_token(befores.pop())
    return context, [prompt[len(context) :] for prompt in prompts]


def split(prompts: list[str]) -> tuple[str, list[str]]:
    """What the prompts share, up to the last word boundary, and the rest of each with what parts them.

    Cutting inside a word, or between white space and a word, would make tokens that the whole prompts do not have. The
    context and a continuation make its prompt, letter for letter, and no continuation of a prompt is empty.
    """
    common = os.path.commonprefix(prompts)  # noqa: RUF071 (of texts, letter by letter, is what is meant)
    boundary = max((index for index, letter in enumerate(common) if letter.isspace()), default=0)
    context = _end_of_a_token(common[:boundary], common[boundary : boundary + 1])
    return context, [prompt[len(context) :] for prompt in prompts]


_MARKS_AT_THE_END = re.compile(r"(?:[^\w\s]|_)+\Z")


def _end_of_a_token(text: str, next_letter: str = "") -> str:
    """As much of a text as ends where a token of Llama 3's vocabulary does, without white space behind it.

    lm-eval takes the tokens of the context, and of the whole prompt those behind as many. White space belongs to the
    token of the word that follows; a line break is one token with the marks of punctuation before it, so that these
    must not stay without it: the model would be asked about a prompt that lacks the break. The likelihood of that token
    then counts as well. Meta's did not hold it; at the end of a question it is nearly certain.
    """
    rest = text + next_letter
    context = text.rstrip()
    while "\n" in rest[len(context) :] and context and not context[-1].isalnum():
        rest = _MARKS_AT_THE_END.sub("", context)
        context = rest.rstrip()
    return context


def gold_index(row: dict, prompts: list[str], continuations: list[str], completions: list[str]) -> int:
    """Which choice the correct responses name.

    They are written in several ways: as the choice itself (``A``), as what Meta scored (``Answer: A``), as the letter
    of a choice whose text is spelt out, or as the end of a prompt. The first way that names exactly one is taken.

    Raises:
        ValueError: No way does.
    """
    responses = {response.strip().strip('"').strip() for response in row["input_correct_responses"]} - {""}
    listed = [choice["key"] for choice in rows.choices(row) or []]
    ways = [
        [continuation.strip() in responses for continuation in continuations],
        [completion.strip() in responses for completion in completions],
        [key in responses for key in listed] if len(listed) == len(prompts) else [],
        [prompt.endswith(tuple(responses)) for prompt in prompts],
    ]
    for named in ways:
        if sum(named) == 1:
            return named.index(True)
    raise rows.refused(
        row,
        f"the correct responses {row['input_correct_responses']} should name exactly one of the {len(prompts)} "
        f"choices, and {sum(ways[-1])} prompts end in one of them",
    )


# Scoring


def process_results(doc: dict, results: list[tuple[float, bool]]) -> dict:
    """Right when the right choice is the likeliest; a likelihood that is no number makes the doc ungraded and wrong."""
    right, graded = _right(doc, [likelihood for likelihood, _ in results])
    return {"acc": right, "acc_macro": (doc["subtask_name"], right), "ungraded": float(not graded)}


def process_results_of_token(doc: dict, results: list[str]) -> dict:
    """As `process_results`, where the answer is the likeliest of the choices; any other text is ungraded and wrong."""
    text = (results[0] or "").strip()
    right = float(text == doc["continuations"][doc["gold_index"]].strip())
    known = any(text == continuation.strip() for continuation in doc["continuations"])
    return {"acc": right, "acc_macro": (doc["subtask_name"], right), "ungraded": float(not known)}


def process_results_per_character(doc: dict, results: list[tuple[float, bool]]) -> dict:
    """Also ``acc_char``, by the likelihood per character; for choices of one length it is ``acc``."""
    right, graded = _right(doc, [likelihood for likelihood, _ in results])
    per_character = [likelihood / count for (likelihood, _), count in zip(results, doc["characters"], strict=True)]
    return {"acc": right, "acc_char": _right(doc, per_character)[0], "ungraded": float(not graded)}


def _right(doc: dict, scores: list[float]) -> tuple[float, bool]:
    """Whether the gold has the highest score, as 0 or 1, the first of equals counting; and whether all are numbers."""
    graded = all(math.isfinite(score) for score in scores)
    best = max(range(len(scores)), key=scores.__getitem__)
    return float(graded and best == doc["gold_index"]), graded
