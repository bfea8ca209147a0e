"""Parses a row of the first leaderboard, or of lighteval before 0.10.

- The leaderboard until October 2023: metrics are columns beside those of the dataset (``query``, ``mc1_targets``,
  ``answer``), and some prompts are only hashes.
- The leaderboard since November 2023, and lighteval: one column ``metrics``, and token ids. As public readers of
  the leaderboard's files say, it left the columns of choices and right answers empty.

In some files every column is text, as Python writes it (all of lighteval 0.4 to 0.7).

Winogrande has a prompt per choice and a shared ending. Details keep only the first prompt as text, and the ids of all
requests.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from meta_eval.plugins.boards.details_row import (
    NESTED,
    DetailsDoc,
    are_token_ids,
    make_choice_answers,
    recover_contexts,
)
from meta_eval.sockets import DataError, parse_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_METRICS = ("acc", "acc_norm", "mc1", "mc2", "em", "f1")
_TARGETS = ("mc1_targets", "mc2_targets")
_TOKENS = ("input_tokens", "padded")
_TEXTS = ("query", "question", "example", "full_prompt", "answer")
_VALUES = (
    "choices", "gold", "gold_index", "predictions", "metrics", "hashes", "truncated", "cont_tokens", *_METRICS,
    *_TARGETS,
)  # fmt: skip
_COLUMNS = (*_TEXTS, *_VALUES)
_MOST_LITERAL = 2**20  # characters of a value that is written as Python writes it


def choose_columns(names: Sequence[str], *, tokens: bool) -> list[str]:
    """Choose the columns to read among those of a file.

    Args:
        names: All columns.
        tokens: Whether to read the token ids, which are most of a file.
    """
    if set(names) >= NESTED:
        return sorted(NESTED)
    return [name for name in names if name in _COLUMNS or (tokens and name in _TOKENS)]


def read_board_row(row: Mapping[str, Any], tokenizer: Tokenizer | None = None) -> DetailsDoc:
    """Parse a row of the first leaderboard, or of lighteval before 0.10.

    Args:
        row: Its columns.
        tokenizer: The model's; None where it is not on this machine.

    Raises:
        DataError: It does not say what was asked or answered.
    """
    row = _parse_texts(row)
    metrics = row.get("metrics")
    numbers = dict(metrics) if isinstance(metrics, Mapping) else {name: row.get(name) for name in _METRICS}
    predictions = row.get("predictions")
    if not isinstance(predictions, list) or not predictions:
        raise DataError("does not say what the model answered")
    text = _text(predictions[0])
    responses = make_choice_answers(list(map(_likelihood, predictions))) if text is None else [[text]]
    choices, golds = row.get("choices"), row.get("gold_index") if text is None else None
    if not choices and all(isinstance(row.get(name), Mapping) for name in _TARGETS):
        choices, golds = _join_targets([row[name] for name in _TARGETS])
    if golds is None or golds == []:
        golds = row.get("gold")
    if golds is None and text is not None:
        golds = row.get("answer")
    prompts, ending = tuple[str, ...](), ""
    prompt = _prompt(row)
    if text is None and isinstance(choices, list) and _is_one_ending(row.get("cont_tokens"), choices):
        prompts, ending = _contexts(row, prompt, tokenizer)
    # Until October 2023 `example` may be the dataset's id of the question.
    query = next((row[name] for name in ("query", "question", "example") if isinstance(row.get(name), str)), "")
    return DetailsDoc(
        doc={},
        prompt=prompts[0] if prompts else prompt,
        gold="",
        responses=responses,
        metrics={name: float(value) for name, value in numbers.items() if _is_number(value)},
        query=query,
        choices=tuple(map(str, choices)) if isinstance(choices, list) and text is None else (),
        golds=tuple(golds) if isinstance(golds, list) else () if golds is None else (golds,),
        tokens=_tokens(row),
        truncated=_is_cut(row.get("truncated")),
        own_continuations=isinstance(row.get("cont_tokens"), list) and len(row["cont_tokens"]) > 1,
        prompts=prompts,
        ending=ending,
    )


def _parse_texts(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parse the values that were written as text: those of all columns, or only metrics."""
    names = (*_VALUES, *_TOKENS) if isinstance(row.get("predictions"), str) else _METRICS
    texts = {name: value for name in names if isinstance(value := row.get(name), str)}
    return {**row, **{name: _parse_value(text) for name, text in texts.items()}} if texts else row


def _parse_value(text: str) -> Any:
    """Parse JSON or a Python literal. Any other text stays."""
    try:
        return parse_json(text)
    except ValueError:
        pass
    if (text[:1] not in "[{(" and text not in ("True", "False", "None")) or len(text) > _MOST_LITERAL:
        return text
    try:
        return parse_json(json.dumps(ast.literal_eval(text)))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _text(prediction: Any) -> str | None:
    """The generated text, which lighteval puts in a list; None for a likelihood."""
    if isinstance(prediction, list) and prediction and all(isinstance(text, str) for text in prediction):
        if len(prediction) > 1:
            raise DataError(f"has {len(prediction)} answers, and a pack asks once")
        return str(prediction[0])
    return prediction if isinstance(prediction, str) else None


def _join_targets(targets: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[int]]:
    """The choices of TruthfulQA's two lists, and the places of the right ones."""
    choices: list[Any] = []
    golds: list[int] = []
    for some in targets:
        texts, labels = some.get("choices"), some.get("labels")
        if not isinstance(texts, list) or not isinstance(labels, list):
            return [], []
        golds += [len(choices) + at for at, label in enumerate(labels) if label == 1]
        choices += texts
    return choices, golds


def _prompt(row: Mapping[str, Any]) -> str:
    prompt = row.get("full_prompt")
    if isinstance(prompt, str) and prompt:
        return prompt
    if isinstance(prompt, list) and prompt:
        raise _own_prompts()
    hashed = isinstance(row.get("hashes"), Mapping)
    raise DataError(
        "has only a hash of its prompt, which cannot be run again" if hashed else "does not say what was asked",
        hint="Use a later run of this model, which stores prompts as text",
    )


def _is_one_ending(continuations: Any, choices: list[Any]) -> bool:
    """Whether all continuations have the same ids. In Winogrande the harness scored the same ending after each
    choice."""
    if not isinstance(continuations, list) or len(continuations) != len(choices) or len(set(map(str, choices))) < 2:
        return False
    return all(continuation == continuations[0] for continuation in continuations)


def _contexts(row: Mapping[str, Any], prompt: str, tokenizer: Tokenizer | None) -> tuple[tuple[str, ...], str]:
    """The prompt of each choice, and their common ending.

    Raises:
        DataError: They cannot be recovered.
    """
    requests, ending = _tokens(row), row["cont_tokens"][0]
    if tokenizer is not None and requests is not None and are_token_ids(ending):
        contexts = recover_contexts(prompt, requests, ending, tokenizer)
        if contexts is not None and len(contexts[0]) == len(row["choices"]):
            return contexts
    raise _own_prompts()


def _own_prompts() -> DataError:
    return DataError(
        "used a different prompt for each choice, and these details keep only one",
        hint="Set tokenizer to the recorded model's, which may recover the others from their "
        "token ids, or leave the task out of tasks",
    )


def _is_cut(counts: Any) -> bool:
    return any(_is_number(count) and count > 0 for count in (counts if isinstance(counts, list) else [counts]))


def _likelihood(prediction: Any) -> float:
    value = prediction[0] if isinstance(prediction, list) and prediction else prediction
    if not _is_number(value) or math.isnan(value):
        raise DataError("holds a likelihood that is not a number")
    return float(value)


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether a value fits into a float: a text may hold an integer of any length."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def _tokens(row: Mapping[str, Any]) -> tuple[tuple[int, ...], ...] | None:
    """The ids of each request, without the padding at the end."""
    token_ids, padded = row.get("input_tokens"), row.get("padded")
    if not isinstance(token_ids, list) or not token_ids:
        return None
    requests = token_ids if isinstance(token_ids[0], list) else [token_ids]
    counts = padded if isinstance(padded, list) else [padded] * len(requests)
    if len(counts) != len(requests) or not all(map(are_token_ids, requests)):
        return None
    return tuple(
        tuple(ids[: len(ids) - count] if isinstance(count, int) and 0 < count < len(ids) else ids)
        for ids, count in zip(requests, counts, strict=True)
    )
