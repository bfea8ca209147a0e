"""How the answers to a doc ended: complete, at the limit of tokens, by a content filter, or before the first word.

A thinking model that reaches the limit before it answers is told from a wrong one: its answer is empty, or a text in
which the tags of the reasoning are still open. The open tag alone is enough, without a token count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from meta_eval.harness.chat_completion import has_open_reasoning, split_reasoning
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.sample_parser import FILTERED, find_limit, read_outputs, read_settings

# The column of a record's docs that says how the recorded answer ended, as the finish reason of samples.
RECORDED_FINISH_REASON = "recorded_finish_reason"

_MESSAGE_FIELDS = {"content", "tool_calls", "finish_reason"}


class _Ending(NamedTuple):
    """How an answer ended.

    Attributes:
        is_empty: Whether it has neither text nor tool call.
        hits_limit: Whether it reached its limit of tokens; None if unknown.
        is_cut: Whether it was cut; None if unknown.
        is_thinking: Whether its reasoning was cut: at the limit, or its closing tag is missing and no engine says that
            it stopped by itself.
    """

    is_empty: bool
    hits_limit: bool | None
    is_cut: bool | None
    is_thinking: bool


def add_endings(doc: DocResult, sample: Mapping[str, Any], count_tokens: Callable[[str], int] | None) -> None:
    """Record how each answer to a doc ended. The engine's finish reason is used, or else the token count.

    Args:
        doc: The doc of the sample.
        sample: The sample from lm_eval or `meta-eval grade`.
        count_tokens: Counts the tokens of an answer; without it, it is unknown whether long answers were cut.
    """
    texts, limit = read_outputs(sample), find_limit(sample)
    if not texts or "allowed_token_ids" in read_settings(sample):  # choices are never cut
        doc.limit_hit, doc.cuts, doc.recorded_cut = False, (False,), False
        return
    reasons = sample.get("finish_reasons") if len(texts) > 1 else [sample.get("finish_reason")]
    ends = reasons if isinstance(reasons, list) and len(reasons) == len(texts) else [None] * len(texts)
    endings = [_find_ending(text, end, limit, count_tokens) for text, end in zip(texts, ends, strict=True)]
    hits = [ending.hits_limit for ending in endings]
    doc.limit_hit = True if True in hits else None if None in hits else False
    doc.cuts = tuple(ending.is_cut for ending in endings)
    doc.answer_empty = all(ending.is_empty for ending in endings)
    doc.is_cut_thinking = any(ending.is_thinking for ending in endings)
    task_doc = sample["doc"] if isinstance(sample["doc"], dict) else {}
    if isinstance(recorded := task_doc.get("recorded_output"), str):
        ending = _find_ending(recorded, task_doc.get(RECORDED_FINISH_REASON), limit, count_tokens)
        doc.recorded_cut, doc.is_recorded_cut_thinking = ending.is_cut, ending.is_thinking


def _find_ending(text: str, end: object, limit: int | None, count_tokens: Callable[[str], int] | None) -> _Ending:
    """How an answer ended: a text, or the JSON text of a chat message."""
    has_calls = False
    if (message := _parse_message(text)) is not None:
        text, has_calls = str(message["content"] or ""), bool(message["tool_calls"])
        end = message["finish_reason"] if end is None else end
    hits_limit = _hits_limit(text, end, limit, count_tokens)
    is_empty = not text.strip() and not has_calls
    is_open = not has_calls and end in (None, "length") and has_open_reasoning(text)
    is_cut = True if end == FILTERED or is_empty or is_open else hits_limit
    is_thinking = is_open or (hits_limit is True and not has_calls and not split_reasoning(text, cut=True)[1].strip())
    return _Ending(is_empty, hits_limit, is_cut, is_thinking)


def _parse_message(text: str) -> dict[str, Any] | None:
    """A chat message whose tool calls are graded; None of any other text."""
    if not text.startswith("{"):
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and message.keys() == _MESSAGE_FIELDS else None


def _hits_limit(text: str, end: object, limit: int | None, count_tokens: Callable[[str], int] | None) -> bool | None:
    """Whether an answer reached its token limit. A token has at least a byte, so an answer with fewer bytes cannot have
    reached it; tokens of longer answers must be counted.
    """
    if isinstance(end, str):
        return end == "length"
    if limit is None:
        return None
    if len(text) < limit and len(text.encode("utf-8", "surrogatepass")) < limit:
        return False
    return count_tokens(text) >= limit if count_tokens else None
