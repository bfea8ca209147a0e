"""The row of a details file: request, answer and metrics. `board_row` parses the older ones; here are lighteval's.

Since 0.10 lighteval writes ``doc``, ``model_response`` and ``metric``. It keeps prompts as text only with vLLM, else as
token ids. Without a tokenizer the prompt is rebuilt like its ``PromptManager`` without a chat template. Where the
tokenizer of the model decodes ids, the text must encode to the same ids.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meta_eval.pack.records.recorded_docs import RecordedDoc, format_chat_body
from meta_eval.sockets import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# The columns that identify a row of today's lighteval.
NESTED = frozenset(("doc", "model_response", "metric"))


@dataclass(slots=True)
class DetailsDoc(RecordedDoc):
    """A doc as its row has it, before its grader is known: no doc and gold of its own yet, metrics by plain names."""

    query: str = ""
    """The row's own text for the question."""

    choices: tuple[str, ...] = ()
    """The choices as recorded; empty if a text was generated."""

    golds: tuple[Any, ...] = ()
    """The indices of the right choices, or the right texts."""

    generation: dict[str, Any] | None = None
    """The generation settings, where the writer keeps them."""

    tokens: tuple[tuple[int, ...], ...] | None = None
    """The input ids of each request, without padding; None if not recorded."""

    truncated: bool = False
    """Whether the prompt was cut to the model's context."""

    own_continuations: bool = False
    """Whether the ids show that all choices continue the same prompt."""

    by_lighteval: bool = False
    """Whether today's lighteval, which has its own rules, asked and graded it."""

    rebuilt: bool = False
    """Whether the prompt was rebuilt here and could not be checked."""

    ending: str = ""
    """The text after each prompt, if each choice had its own."""

    @property
    def text(self) -> str | None:
        """The generated text; None for choices."""
        first = self.responses[0][0] if self.responses else None
        return first if isinstance(first, str) else None

    @property
    def likelihoods(self) -> list[float]:
        """The log-likelihood of each choice; empty if a text was generated."""
        return [] if self.text is not None else [cost for ((cost, _),) in self.responses or ()]

    @property
    def delimiter(self) -> str:
        """Delimiter between prompt and choice: empty if either side already has the space, else a space."""
        spaced = (
            self.by_lighteval or self.prompt[-1:].isspace() or all(choice.startswith(" ") for choice in self.choices)
        )
        return "" if spaced else " "

    @property
    def requests(self) -> list[str]:
        """The whole input of each request."""
        if self.prompts:
            return [prompt + self.ending for prompt in self.prompts]
        return [self.prompt + self.delimiter + choice for choice in self.choices] or [self.prompt]


# lighteval's names of metrics, and our names of those that a pack grades again.
_NORMALISED = re.compile(r"acc:logprob_normalization=LogProbCharNorm\(name='norm', ignore_first_space=(True|False)\)")


def read_lighteval_row(row: Mapping[str, Any], tokenizer: Tokenizer | None) -> DetailsDoc:
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
    responses = _answer(doc, response)
    is_text = isinstance(responses[0][0], str)
    prompt, rebuilt = _find_prompt(doc, response, tokenizer)
    metrics = {_named(name): float(value) for name, value in metric.items() if isinstance(value, (bool, int, float))}
    return DetailsDoc(
        doc={},
        prompt=prompt,
        gold="",
        responses=responses,
        metrics=metrics,
        query=doc["query"],
        choices=() if is_text else tuple(map(str, choices)),
        golds=tuple(_flat(choices[place] for place in right) if is_text else right),
        generation=_generation(doc) if is_text else None,
        truncated=bool(response.get("truncated_tokens_count")),
        by_lighteval=True,
        is_chat=isinstance(response.get("input"), list) and is_text,
        rebuilt=rebuilt,
    )


def make_choice_answers(costs: Sequence[float]) -> list[list[Any]]:
    """The answers of choices. Not recorded: whether one is the model's greedy output."""
    return [[[float(cost), False]] for cost in costs]


def _answer(doc: Mapping[str, Any], response: Mapping[str, Any]) -> list[list[Any]]:
    methods, texts, costs = doc.get("sampling_methods") or [], response.get("text"), response.get("logprobs")
    if isinstance(methods, list) and "PERPLEXITY" in methods:
        raise DataError("scores the likelihood of its whole text, which meta-eval cannot grade")
    if isinstance(texts, list) and texts:
        if len(texts) > 1:
            raise DataError(f"has {len(texts)} answers, and a pack asks once")
        final = response.get("text_post_processed")
        return [[str(final[0] if isinstance(final, list) and final else texts[0])]]
    if not isinstance(costs, list) or not costs:
        raise DataError("does not say what the model answered")
    if doc.get("unconditioned_query") is not None:
        raise DataError("was graded relative to the likelihood without a question, which meta-eval cannot grade")
    if not all(isinstance(cost, (int, float)) and not math.isnan(cost) for cost in costs):
        raise DataError("holds a likelihood that is not a number")
    return make_choice_answers(costs)


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


def _find_prompt(doc: Mapping[str, Any], response: Mapping[str, Any], tokenizer: Tokenizer | None) -> tuple[str, bool]:
    """The prompt as text, and whether it was rebuilt without a chat template."""
    input_text, ids = response.get("input"), response.get("input_tokens")
    if isinstance(input_text, str) and input_text:
        return input_text, False
    if isinstance(input_text, list) and input_text:
        return format_chat_body(input_text), False
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


def strip_bos(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Remove the tokens that the tokenizer puts in front of a text, as often as they occur."""
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    added = tokenizer.encode("a").ids[: -len(plain) or None]
    while added and ids[: len(added)] == added:
        ids = ids[len(added) :]
    return ids


def are_token_ids(some: Any) -> bool:
    """Whether a value can be token ids."""
    return isinstance(some, (list, tuple)) and all(type(token_id) is int and 0 <= token_id < 2**32 for token_id in some)


def recover_contexts(
    prompt: str, requests: Sequence[Sequence[int]], ending: Sequence[int], tokenizer: Tokenizer
) -> tuple[tuple[str, ...], str] | None:
    """Recover the prompt of each request and the common ending as text; None if the token ids do not show them.

    Args:
        prompt: The prompt that is kept as text; it must be among the recovered prompts.
        requests: The ids of each request. The last id of the ending may be missing, because it is not an input.
        ending: The ids of the ending.
        tokenizer: The model's.
    """
    for left_out in (0, 1):
        splits = [_split(list(ids), list(ending), left_out, tokenizer) for ids in requests]
        found_splits = [split for split in splits if split is not None]
        prompts, endings = tuple(split[0] for split in found_splits), {split[1] for split in found_splits}
        if (
            len(found_splits) == len(requests)
            and len(endings) == 1
            and len(set(prompts)) > 1
            and prompt.rstrip() in prompts
        ):
            return prompts, endings.pop()
    return None


def _split(ids: list[int], ending: list[int], left_out: int, tokenizer: Tokenizer) -> tuple[str, str] | None:
    all_ids = strip_bos(ids, tokenizer) + ending[len(ending) - left_out :]
    if not ending or len(all_ids) <= len(ending) or all_ids[-len(ending) :] != ending:
        return None
    context = tokenizer.decode(all_ids[: -len(ending)], skip_special_tokens=False)
    text = tokenizer.decode(all_ids, skip_special_tokens=False)
    if not text.startswith(context) or tokenizer.encode(text, add_special_tokens=False).ids != all_ids:
        return None
    # The harness, like lm-eval today, moves trailing white space of a prompt to the continuation.
    bare = context.rstrip()
    return bare, text[len(bare) :]
