"""Docs and scores of choice tasks: Meta recorded a whole prompt for each choice and compared the likelihoods.

The prompts are used unchanged. Their shared beginning is the context. The rest of each prompt is its continuation.
Meta may have scored a longer end ("Answer: yes" where only "yes" differs). The shared words then add the same to every
likelihood, so a comparison of plain likelihoods does not change. A comparison per length does if the lengths differ.
In that case the continuations begin where Meta's did.
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
    """Make docs as `process_docs` for a task that divides likelihoods by lengths.

    Raises:
        ValueError: A row's prompts do not end with the text that Meta scored, or they differ before it. A likelihood
            would then belong to another text than its length.
    """
    for row in dataset:
        completions = row.get("output_choice_completions")
        if completions and recorded_split(row["input_final_prompts"], completions) is None:
            raise rows.refused(
                row, f"the prompts should end with what was scored, {completions}, and be the same before it"
            )
    return process_docs(dataset)


def make_doc(row: dict) -> dict:
    """Make a doc with the common columns, and these with an item for each choice in order:

    - ``continuations`` follow the context.
    - ``characters`` are the lengths that divide the likelihoods for ``acc_char``.
    - ``recorded_negative_log_likelihoods`` are those of Meta's own model.

    ``gold_index`` is the index of the right choice.

    Raises:
        ValueError: The correct responses name no choice, or several; or the prompts contradict each other or what was
            recorded as scored.
    """
    prompts = [rows.families.without_bos(prompt) for prompt in row["input_final_prompts"]]
    completions = row.get("output_choice_completions") or []
    context, continuations = split(prompts)
    _check_prompts(row, prompts, context, completions)
    right = gold_index(row, prompts, continuations, completions)
    if len(prompts) > 1 and len(set(prompts)) == 1:
        raise rows.refused(row, f"all {len(prompts)} prompts are the same, so that no choice is right")
    if not completions:
        completions = [continuation.strip() for continuation in continuations]
    elif len(set(map(len, completions))) > 1:
        context, continuations = recorded_split(prompts, completions) or (context, continuations)
    if not context:
        raise rows.refused(
            row, f"the {len(prompts)} prompts begin differently; each should hold the same question before its choice"
        )
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


def _check_prompts(row: dict, prompts: list[str], context: str, completions: list[str]) -> None:
    """Refuse completions of another number or for other prompts.

    Prompts that no completion resembles are not refused: what they share is the context then.
    """
    if not completions:
        return
    if len(completions) != len(prompts):
        raise rows.refused(row, f"holds {len(prompts)} prompts and {len(completions)} completions")
    texts, ends = [prompt.rstrip() for prompt in prompts], [completion.strip() for completion in completions]
    others = [number for number, text in enumerate(texts) if not text.endswith(ends[number])]
    in_another_order = all(text.endswith(tuple(ends)) for text in texts)
    text_after = all(text.rfind(end) + len(end) > len(context) for text, end in zip(texts, ends, strict=True))
    if others and (in_another_order or text_after):
        number = others[0]
        raise rows.refused(
            row,
            f"prompt {number + 1} ends with {texts[number][-30:]!r}, and completion {number + 1} is {ends[number]!r}",
        )


def recorded_split(prompts: list[str], completions: list[str]) -> tuple[str, list[str]] | None:
    """Split the prompts before the completions that Meta scored.

    Returns:
        The context and the continuations. None unless each prompt ends with its completion and all prompts are the same
        before it.
    """
    if len(completions) != len(prompts) or not all(map(str.endswith, prompts, completions)):
        return None
    contexts = {prompt[: len(prompt) - len(end)] for prompt, end in zip(prompts, completions, strict=True)}
    if len(contexts) != 1:
        return None
    context = _cut_after_token(contexts.pop())
    return context, [prompt[len(context) :] for prompt in prompts]


def split(prompts: list[str]) -> tuple[str, list[str]]:
    """Split the prompts into their shared context and a continuation for each.

    The context ends before the white space of the last shared word boundary. A cut inside a word, or between white
    space and a word, would make tokens that the whole prompts do not have. Context and continuation together are the
    prompt, letter for letter. No continuation is empty.
    """
    common = os.path.commonprefix(prompts)  # noqa: RUF071 (a prefix of texts, not of paths)
    boundary = max((index for index, letter in enumerate(common) if letter.isspace()), default=0)
    context = _cut_after_token(common[:boundary], common[boundary : boundary + 1])
    return context, [prompt[len(context) :] for prompt in prompts]


_TRAILING_MARKS = re.compile(r"(?:[^\w\s]|_)+\Z")


def _cut_after_token(text: str, next_letter: str = "") -> str:
    """Cut a text where a token of Llama 3's vocabulary ends, and before white space at its end.

    lm-eval counts the context's tokens and scores the tokens of the whole prompt after that many. White space belongs
    to the token of the next word. A line break shares a token with the punctuation before it, so the cut precedes both.
    Otherwise the model would see a prompt without the line break. The likelihood of this token counts too. It did not
    in Meta's, but at the end of a question it is nearly certain.
    """
    rest = text + next_letter
    context = text.rstrip()
    while "\n" in rest[len(context) :] and context and not context[-1].isalnum():
        rest = _TRAILING_MARKS.sub("", context)
        context = rest.rstrip()
    return context


def gold_index(row: dict, prompts: list[str], continuations: list[str], completions: list[str]) -> int:
    """Find the index of the choice that the correct responses name.

    A response is the choice itself (``A``), the text that Meta scored (``Answer: A``), the letter of a choice whose
    text is spelled out, or the end of a prompt. The first of these readings that names exactly one choice counts.

    Raises:
        ValueError: No reading names exactly one choice.
    """
    responses = {response.strip().strip('"').strip() for response in row["input_correct_responses"]} - {""}
    listed = [choice["key"] for choice in rows.choices(row) or []]
    readings = [
        [continuation.strip() in responses for continuation in continuations],
        [completion.strip() in responses for completion in completions],
        [key in responses for key in listed] if len(listed) == len(prompts) else [],
        [prompt.endswith(tuple(responses)) for prompt in prompts],
    ]
    for named in readings:
        if sum(named) == 1:
            return named.index(True)
    raise rows.refused(
        row,
        f"the correct responses {row['input_correct_responses']} should name exactly one of the {len(prompts)} "
        f"choices, and {sum(readings[-1])} prompts end in one of them",
    )


# Scoring


def process_results(doc: dict, results: list[tuple[float, bool]]) -> dict:
    """Score whether the right choice is the likeliest.

    A likelihood that is not finite makes the doc ungraded and wrong.
    """
    right, graded = _score_choice(doc, [likelihood for likelihood, _ in results])
    return {"acc": right, "acc_macro": (doc["subtask_name"], right), "ungraded": float(not graded)}


def process_results_of_token(doc: dict, results: list[str]) -> dict:
    """Score as `process_results` when the answer is a choice's text. Any other text is ungraded and wrong."""
    text = (results[0] or "").strip()
    right = float(text == doc["continuations"][doc["gold_index"]].strip())
    known = any(text == continuation.strip() for continuation in doc["continuations"])
    return {"acc": right, "acc_macro": (doc["subtask_name"], right), "ungraded": float(not known)}


def process_results_per_character(doc: dict, results: list[tuple[float, bool]]) -> dict:
    """Score ``acc`` and, by the likelihood per character, ``acc_char``. With equal lengths they are the same."""
    right, graded = _score_choice(doc, [likelihood for likelihood, _ in results])
    per_character = [likelihood / count for (likelihood, _), count in zip(results, doc["characters"], strict=True)]
    return {"acc": right, "acc_char": _score_choice(doc, per_character)[0], "ungraded": float(not graded)}


def _score_choice(doc: dict, scores: list[float]) -> tuple[float, bool]:
    """Return 1 if the gold is the first with the highest score, else 0, and whether all scores are finite."""
    graded = all(math.isfinite(score) for score in scores)
    best = max(range(len(scores)), key=scores.__getitem__)
    return float(graded and best == doc["gold_index"]), graded
