"""Parses a row of a details file from any known writer: request, answer and metrics.

There are three layouts:

- The first leaderboard in 2023: metrics are columns, and some prompts are only hashes.
- The first leaderboard in 2024, and lighteval before 0.10: one column ``metrics``, and token ids.
- lighteval since 0.10: the columns ``doc``, ``model_response`` and ``metric``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meta_eval.messages.errors import DataError
from meta_eval.records.details.contexts import are_token_ids, recover_contexts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# The columns that identify a row of today's lighteval.
NESTED = frozenset(("doc", "model_response", "metric"))

_COLUMNS = (
    "example", "query", "question", "full_prompt", "choices", "gold", "gold_index", "predictions", "metrics",
    "hashes", "acc", "acc_norm", "mc1", "mc2", "truncated", "cont_tokens",
)  # fmt: skip
_METRICS = ("acc", "acc_norm", "mc1", "mc2")
_TOKENS = ("input_tokens", "padded")


@dataclass(slots=True)
class DetailsRow:
    """One doc of a details file.

    Attributes:
        query: The row's own text for the question.
        prompt: What the model was given, as text.
        choices: The choices as recorded; empty if a text was generated.
        golds: The indices of the right choices, or the right texts.
        likelihoods: The log-likelihood of each choice; None if a text was generated.
        text: The generated text; None for choices.
        metrics: The value of each metric.
        generation: The generation settings, where the writer keeps them.
        tokens: The input ids of each request, without padding; None if not recorded.
        truncated: Whether the prompt was cut to the model's context.
        own_continuations: Whether the ids show that all choices continue the same prompt.
        by_lighteval: Whether today's lighteval, which has its own rules, asked and graded it.
        rebuilt: Whether the prompt was rebuilt here and could not be checked.
        prompts: All prompts, if each choice had its own; empty if they share a prompt.
        ending: The text after each of these prompts.
    """

    query: str
    prompt: str
    choices: tuple[str, ...]
    golds: tuple[Any, ...]
    likelihoods: tuple[float, ...] | None
    text: str | None
    metrics: dict[str, float]
    generation: dict[str, Any] | None = None
    tokens: tuple[tuple[int, ...], ...] | None = None
    truncated: bool = False
    own_continuations: bool = False
    by_lighteval: bool = False
    rebuilt: bool = False
    prompts: tuple[str, ...] = ()
    ending: str = ""

    @property
    def delimiter(self) -> str:
        """Delimiter between prompt and choice: empty if either side already has the space, else a space."""
        spaced = (
            self.by_lighteval or self.prompt[-1:].isspace() or all(choice.startswith(" ") for choice in self.choices)
        )
        return "" if spaced else " "

    @property
    def continuations(self) -> tuple[str, ...]:
        """The text after the prompt for each choice."""
        return tuple(self.delimiter + choice for choice in self.choices)

    @property
    def requests(self) -> list[str]:
        """The whole input of each request."""
        if self.prompts:
            return [prompt + self.ending for prompt in self.prompts]
        return [self.prompt + continuation for continuation in self.continuations] or [self.prompt]


def choose_columns(names: Sequence[str], *, tokens: bool) -> list[str]:
    """Choose the columns to read among those of a file.

    Args:
        names: All columns.
        tokens: Whether to read the token ids, which are most of a file.
    """
    if set(names) >= NESTED:
        return sorted(NESTED)
    return [name for name in names if name in _COLUMNS or (tokens and name in _TOKENS)]


def read_board_row(row: Mapping[str, Any], tokenizer: Tokenizer | None = None) -> DetailsRow:
    """Parse a row of the first leaderboard, or of lighteval before 0.10.

    Args:
        row: Its columns.
        tokenizer: The model's; None where it is not on this machine.

    Raises:
        DataError: It does not say what was asked or answered.
    """
    metrics = row.get("metrics")
    numbers = dict(metrics) if isinstance(metrics, Mapping) else {name: row.get(name) for name in _METRICS}
    predictions = row.get("predictions")
    if not isinstance(predictions, list) or not predictions:
        raise DataError("does not say what the model answered")
    text, likelihoods = None, None
    if isinstance(predictions[0], str):
        text = predictions[0]
    else:
        likelihoods = tuple(_likelihood(prediction) for prediction in predictions)
    choices = row.get("choices")
    prompts, ending = tuple[str, ...](), ""
    prompt = _prompt(row)
    if likelihoods is not None and isinstance(choices, list) and _is_one_ending(row.get("cont_tokens"), choices):
        prompts, ending = _contexts(row, prompt, tokenizer)
    query = next((row[name] for name in ("example", "query", "question") if isinstance(row.get(name), str)), "")
    golds = row.get("gold_index") if likelihoods is not None else None
    if golds is None or golds == []:
        golds = row.get("gold")
    return DetailsRow(
        query=query,
        prompt=prompts[0] if prompts else prompt,
        choices=tuple(map(str, choices)) if isinstance(choices, list) and likelihoods is not None else (),
        golds=tuple(golds) if isinstance(golds, list) else () if golds is None else (golds,),
        likelihoods=likelihoods,
        text=text,
        metrics={name: float(value) for name, value in numbers.items() if isinstance(value, (bool, int, float))},
        tokens=_tokens(row),
        truncated=_is_cut(row.get("truncated")),
        own_continuations=isinstance(row.get("cont_tokens"), list) and len(row["cont_tokens"]) > 1,
        prompts=prompts,
        ending=ending,
    )


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


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


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
