"""Parses details of lighteval since 0.10, with the columns ``doc``, ``model_response`` and ``metric``.

lighteval keeps prompts as text only with vLLM, otherwise as token ids. The model's tokenizer decodes the ids, and the
text must encode to the same ids. Without a tokenizer the prompt is rebuilt like lighteval's ``PromptManager`` without a
chat template.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from meta_eval.messages.errors import DataError
from meta_eval.records.details.contexts import strip_bos
from meta_eval.records.details.first_board import DetailsRow

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# lighteval's names of metrics, and our names of those that a pack grades again.
_NORMALISED = re.compile(r"acc:logprob_normalization=LogProbCharNorm\(name='norm', ignore_first_space=(True|False)\)")


def read_lighteval_row(row: Mapping[str, Any], tokenizer: Tokenizer | None) -> DetailsRow:
    """Parse a row of lighteval.

    Args:
        row: ``doc``, ``model_response`` and ``metric``.
        tokenizer: The model's; None where it is not on this machine.

    Raises:
        DataError: The request or the answer is missing, or the request cannot be repeated.
    """
    doc, response, metric = (row.get(name) for name in ("doc", "model_response", "metric"))
    if not isinstance(doc, dict) or not isinstance(response, dict) or not isinstance(metric, dict):
        raise DataError("has no doc, model_response and metric")
    choices = doc.get("choices")
    if not isinstance(doc.get("query"), str) or not isinstance(choices, list):
        raise DataError("does not say what was asked")
    golds = doc.get("gold_index")
    places = golds if isinstance(golds, list) else [golds]
    right = [place for place in places if isinstance(place, int) and 0 <= place < len(choices)]
    if not right or len(right) != len(places):
        raise DataError("does not say which choice is right")
    text, likelihoods = _answer(doc, response)
    prompt, rebuilt = _prompt(doc, response, tokenizer)
    metrics = {_named(name): float(value) for name, value in metric.items() if isinstance(value, (bool, int, float))}
    return DetailsRow(
        query=doc["query"],
        prompt=prompt,
        choices=tuple(map(str, choices)) if likelihoods is not None else (),
        golds=tuple(right) if likelihoods is not None else tuple(_flat(choices[place] for place in right)),
        likelihoods=likelihoods,
        text=text,
        metrics=metrics,
        generation=_generation(doc) if text is not None else None,
        truncated=bool(response.get("truncated_tokens_count")),
        by_lighteval=True,
        rebuilt=rebuilt,
    )


def _answer(doc: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[str | None, tuple[float, ...] | None]:
    methods, texts, costs = doc.get("sampling_methods") or [], response.get("text"), response.get("logprobs")
    if isinstance(methods, list) and "PERPLEXITY" in methods:
        raise DataError("scores the likelihood of its whole text, which meta-eval cannot grade")
    if isinstance(texts, list) and texts:
        if len(texts) > 1:
            raise DataError(f"has {len(texts)} answers, and a pack asks once")
        final = response.get("text_post_processed")
        return str(final[0] if isinstance(final, list) and final else texts[0]), None
    if not isinstance(costs, list) or not costs:
        raise DataError("does not say what the model answered")
    if doc.get("unconditioned_query") is not None:
        raise DataError("was graded relative to the likelihood without a question, which meta-eval cannot grade")
    if not all(isinstance(cost, (int, float)) and not math.isnan(cost) for cost in costs):
        raise DataError("holds a likelihood that is not a number")
    return None, tuple(map(float, costs))


def _named(name: str) -> str:
    match = _NORMALISED.fullmatch(name)
    if match is None:
        return name
    return "acc_norm_no_space" if match[1] == "True" else "acc_norm"


def _flat(golds: Any) -> list[str]:
    return [str(part) for gold in golds for part in (gold if isinstance(gold, list) else [gold])]


def _generation(doc: Mapping[str, Any]) -> dict[str, Any]:
    stops, size = doc.get("stop_sequences"), doc.get("generation_size")
    settings: dict[str, Any] = {"until": list(stops) if isinstance(stops, list) else [], "do_sample": False}
    return {**settings, "max_gen_toks": size} if isinstance(size, int) else settings


def _prompt(doc: Mapping[str, Any], response: Mapping[str, Any], tokenizer: Tokenizer | None) -> tuple[str, bool]:
    """The prompt as text, and whether it was rebuilt without a chat template."""
    input_text, ids = response.get("input"), response.get("input_tokens")
    if isinstance(input_text, str) and input_text:
        return input_text, False
    if isinstance(input_text, list) and input_text:
        raise DataError(
            "was sent as chat messages, which only a chat API can repeat",
            hint="Record the run with an engine that renders the chat template itself",
        )
    try:
        plain = _plain(doc)
    except (TypeError, LookupError, AttributeError):
        raise DataError("has unreadable few-shot examples before its question") from None
    if tokenizer is None or not isinstance(ids, list) or not ids:
        return plain, True
    bare = strip_bos([int(token_id) for token_id in ids], tokenizer)
    if tokenizer.encode(plain, add_special_tokens=False).ids == bare:
        return plain, False
    text = tokenizer.decode(bare, skip_special_tokens=False)
    if tokenizer.encode(text, add_special_tokens=False).ids != bare:
        raise DataError(
            "has only token ids as its prompt, and they do not fit this model's tokenizer",
            hint="Set tokenizer to the recorded model's, or record with vLLM",
        )
    return text, False


def _plain(doc: Mapping[str, Any]) -> str:
    """Join a prompt as lighteval 0.13 does: instruction, examples with their first gold, question."""
    parts = [doc["instruction"]] if isinstance(doc.get("instruction"), str) else []
    for shot in doc.get("fewshot_samples") or ():
        gold = shot["gold_index"]
        first = shot["choices"][gold[0] if isinstance(gold, list) else gold]
        parts.append(f"{_question(shot)} {_flat([first])[0].strip()}")
    return "\n\n".join([*parts, _question(doc)])


def _question(doc: Mapping[str, Any]) -> str:
    query, instruction = str(doc["query"]), doc.get("instruction")
    if isinstance(instruction, str) and query.startswith(instruction):
        return query[len(instruction) :].strip()
    return query
