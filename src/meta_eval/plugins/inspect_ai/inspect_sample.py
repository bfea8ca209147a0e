"""Reads a sample of an inspect_ai log: the question, what was sent, the answer, its end and its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meta_eval.base.inputs import format_json
from meta_eval.pack.records.log_entries import read_number, to_number
from meta_eval.sockets import DataError, LogEntry, RecordedDoc, record_answer

# How inspect_ai counts the values of its scorers (`value_to_float`): right, partly right, wrong, no answer.
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}

# How an answer ended, by the stop reason of the model.
_ENDS = {
    "stop": "stop", "max_tokens": "length", "model_length": "length", "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}  # fmt: skip

# Limits of a sample that end it before the model is done.
_CUTS = ("context", "time", "working", "message", "token", "turn", "cost")

_ATTACHED = "attachment://"

# The most characters that references of a log stand for: so many, and those of its attachments so many times.
_FREE, _TIMES = 2**26, 16


class Attachments:
    """Resolves the references of a log to attachments, one sample after the other.

    A log may name an attachment many times: so a small one could ask for all memory.
    """

    def __init__(self) -> None:
        self._texts: Mapping[str, Any] = {}
        self._left, self._where = _FREE, ""

    def read(self, sample: LogEntry) -> None:
        """Resolve references of this sample from now on.

        Raises:
            DataError: Its attachments are no object.
        """
        self._texts, self._where = sample.find_entry("attachments").tree, sample.where
        self._left += _TIMES * sum(len(text) for text in self._texts.values() if isinstance(text, str))

    def resolve(self, text: str) -> str:
        """The text that a reference stands for; any other text as it is.

        Raises:
            DataError: The log resolves to too much.
        """
        if not text.startswith(_ATTACHED):
            return text
        attached = self._texts.get(text.removeprefix(_ATTACHED))
        if not isinstance(attached, str):
            return text
        self._left -= len(attached)
        if self._left < 0:
            raise DataError(
                f"names its attachments so often that their texts are {_TIMES} times as long and more than "
                f"{_FREE // 2**20} MiB: it is no log of inspect_ai", where=self._where,
            )  # fmt: skip
        return attached


def read_logged_sample(sample: LogEntry, model: str | None, attachments: Attachments) -> tuple[RecordedDoc, bool]:
    """Read a sample.

    Args:
        sample: The sample.
        model: The model of the run.
        attachments: Those of the log.

    Returns:
        The answer, and whether it was made in several turns.

    Raises:
        DataError: A member has another type, or its attachments are too long.
    """
    attachments.read(sample)
    key = sample.find_key("id")
    if key is None:
        raise DataError("has no id", where=sample.where)
    messages = [read_message(message, attachments) for message in sample.find_entries("messages")]
    sent, turns = split_prompt(messages, [str(m.tree.get("source")) for m in sample.find_entries("messages")])
    output = sample.find_entry("output")
    choices = output.find_entries("choices")
    answer: str | None = ""
    end = None
    if choices:
        answer = _read_answer(choices[0].find_entry("message"), attachments)
        end = _ENDS.get(choices[0].find_text("stop_reason") or "")
    limit = sample.tree.get("limit")
    cut_by = limit.get("type") if isinstance(limit, dict) else limit
    if cut_by in _CUTS:
        end = "length"
    golds = _read_golds(sample)
    given = sample.find_list("choices")
    return record_answer(
        key=key,
        repeat=sample.find_count("epoch") or 1,
        question={
            "query": _read_input(sample, attachments),
            **({"choices": [attachments.resolve(str(choice)) for choice in given]} if given else {}),
        },
        gold=golds[0],
        other_golds=tuple(golds[1:]),
        prompt=sent or None,
        answer=answer,
        verdicts=read_scores(sample),
        extracted=_read_extracted(sample),
        finish_reason=end,
        completion_tokens=_read_tokens(sample, output, model if turns > 1 else None),
        fault=_find_fault(sample),
        turns=messages[len(sent) :] if turns > 1 else (),
    ), turns > 1


def _read_golds(sample: LogEntry) -> list[str]:
    target = sample.tree.get("target")
    golds = target if isinstance(target, list) else [target]
    if not all(isinstance(gold, str | int | float | None) for gold in golds):
        raise sample.refuse("target", target, "a text or a list of texts")
    return ["" if gold is None else str(gold) for gold in golds] or [""]


def _read_input(sample: LogEntry, attachments: Attachments) -> str:
    given = sample.tree.get("input")
    if isinstance(given, str):
        return attachments.resolve(given)
    messages = [read_message(message, attachments) for message in sample.find_entries("input")]
    texts = [message["content"] for message in messages]
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else format_json(messages)


def read_message(message: LogEntry, attachments: Attachments) -> dict[str, Any]:
    """A message as a chat endpoint takes it, without the ids that differ from run to run.

    Raises:
        DataError: It has no role.
    """
    made: dict[str, Any] = {"role": message.text("role"), "content": _read_content(message, attachments)}
    if calls := message.find_entries("tool_calls"):
        made["tool_calls"] = [
            {"function": call.tree.get("function"), "arguments": call.tree.get("arguments")} for call in calls
        ]
    return made


def _read_content(message: LogEntry, attachments: Attachments) -> Any:
    """The text of a message, or its parts where one is no text. Reasoning is no part of what was said."""
    content = message.tree.get("content")
    if content is None or isinstance(content, str):
        return attachments.resolve(content or "")
    parts = message.find_entries("content")
    kept = [part.tree for part in parts if part.tree.get("type") != "reasoning"]
    if all(part.get("type") == "text" and isinstance(part.get("text"), str) for part in kept):
        return "\n".join(attachments.resolve(part["text"]) for part in kept)
    return [
        {name: attachments.resolve(value) if isinstance(value, str) else value for name, value in part.items()}
        for part in kept
    ]


def split_prompt(messages: Sequence[dict[str, Any]], sources: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    """Split off what was sent before the model first answered, and count its answers.

    Args:
        messages: All messages of a sample.
        sources: Where each came from: ``generate`` for the model, in newer logs.
    """
    told = "generate" in sources
    made = [
        number
        for number, (message, source) in enumerate(zip(messages, sources, strict=True))
        if message["role"] == "assistant" and (source == "generate" or not told)
    ]
    return list(messages[: made[0]] if made else messages), len(made)


def _read_answer(message: LogEntry, attachments: Attachments) -> str | None:
    """The text of an answer; of an answer that only calls tools, the calls as JSON. None where a part is no part of
    inspect_ai, as in logs of the R package vitals, whose texts are empty objects there."""
    content = _read_content(message, attachments)
    if isinstance(content, list) and any(
        not isinstance(kind := part.get("type"), str) or (kind == "text" and not isinstance(part.get("text"), str))
        for part in content
    ):
        return None
    text = content if isinstance(content, str) else format_json(content)
    if text or not (calls := message.find_entries("tool_calls")):
        return text
    return format_json([{name: call.tree.get(name) for name in ("function", "arguments")} for call in calls])


def read_scores(sample: LogEntry) -> dict[str, float]:
    """The verdicts of a sample by scorer; of a scorer with several values by ``scorer/name``.

    Values that are no numbers are left out, and so is what was not scored.
    """
    scores = sample.find_entry("scores").tree
    if not scores and isinstance(sample.tree.get("score"), dict):  # logs of version 1
        scores = {"score": sample.tree["score"]}
    verdicts: dict[str, float] = {}
    for name in scores:
        value = LogEntry.of(scores[name], f"{sample.where}, scores, {name}").tree.get("value")
        named = {f"{name}/{part}": some for part, some in value.items()} if isinstance(value, dict) else {name: value}
        for label, some in named.items():
            number = to_verdict(some)
            if number is not None:
                verdicts[label] = number
    return verdicts


def to_verdict(value: object) -> float | None:
    """A score as a number: letters, words and digits as inspect_ai counts them; None for what is no number."""
    if isinstance(value, str):
        known = _LETTERS.get(value, _WORDS.get(value.lower()))
        return read_number(value) if known is None else known
    return to_number(value)


def _read_extracted(sample: LogEntry) -> str | None:
    """What the first scorer took from the answer."""
    for name in sample.find_entry("scores").tree:
        score = sample.find_entry("scores").find_entry(name)
        answer = score.tree.get("answer")
        return answer if isinstance(answer, str) else None
    return None


def _read_tokens(sample: LogEntry, output: LogEntry, model: str | None) -> int | None:
    # That of a sample is of a judge, too, which may be the model itself: so a single turn has its own.
    usage, own = sample.find_entry("model_usage"), output.find_entry("usage")
    return (usage.find_entry(model) if model is not None and model in usage else own).find_count("output_tokens")


def _find_fault(sample: LogEntry) -> str | None:
    """Why a sample has no answer that counts; None if it has one."""
    if sample.tree.get("invalidation"):
        return "it was declared invalid"
    error = sample.tree.get("error")
    if not error or sample.tree.get("scores"):
        return None
    message = error.get("message") if isinstance(error, dict) else error
    return f"it ended with an error: {message}"
