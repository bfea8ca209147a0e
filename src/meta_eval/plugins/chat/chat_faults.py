"""What a chat endpoint means when it refuses a request, each in its own words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# Fields without which it would be another question. All others may be left out.
_QUESTION = frozenset(
    (
        "model", "messages", "tools", "tool_choice", "functions", "function_call", "response_format", "n",
        "continue_final_message", "add_generation_prompt",
    )
)  # fmt: skip

# What leaving a field out means for the answers.
OMITTED: Mapping[str, str] = {
    "temperature": "it samples with a temperature of its own",
    "stop": "texts are cut here at stop texts, after the endpoint wrote them to their end",
    "stream": "answers come whole",
    "stream_options": "it may not count tokens",
    "seed": "sampled answers cannot be repeated",
}

# The two names of the limit of an answer.
LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

_UNKNOWN = re.compile(
    r"unknown|unrecogni[sz]ed|unsupported|not supported|not (?:currently )?(?:permitted|allowed|accepted|available)|"
    r"unexpected|extra_forbidden|extra inputs|extra fields|extraneous|does ?n[o']t support|cannot find field|"
    r"no such (?:field|parameter)|not (?:a )?(?:valid|known) (?:field|parameter|argument)|strictly positive|"
    r"deprecated for this model|greater than 0(?!\.?\d)",
    re.IGNORECASE,
)
# After these words follow fields that the endpoint does accept.
_ACCEPTED = re.compile(
    r"expected (?:one of|`)|did you mean|\buse ['`\"]|(?:valid|known|allowed|accepted|supported) "
    r"(?:fields|parameters|arguments|values|properties)",
    re.IGNORECASE,
)
_TOO_MANY_STOPS = re.compile(
    r"\bstop\b.{0,80}(?:at most|maximum|too (?:many|long)|no more than|up to)|"
    r"(?:at most|maximum|too many).{0,40}\bstop\b",
    re.IGNORECASE | re.DOTALL,
)
_FILTERED = re.compile(
    r"content[ _-]?(?:filter|management|policy|moderation)|data_inspection_failed|inappropriate content|"
    r"content exists risk|responsible ?ai|requires moderation|was flagged|been flagged|violat\w+ (?:our|the) usage",
    re.IGNORECASE,
)


def find_refused_field(words: str, fields: Iterable[str]) -> str | None:
    """Find the field that an endpoint does not accept, of those that may be left out.

    Args:
        words: Why it refuses the request.
        fields: The names of the request's fields.

    Returns: The name; None if it refuses the request for another reason, or a field that belongs to the question.
    """
    if "stop" in fields and _TOO_MANY_STOPS.search(words):
        return "stop"
    if not _UNKNOWN.search(words):
        return None
    refused = _ACCEPTED.split(words, maxsplit=1)[0]
    names = {variant: name for name in fields for variant in (name, _camel(name))}
    for match in re.finditer(r"[A-Za-z_][A-Za-z0-9_]*", refused):
        name = names.get(match[0])
        if name is not None and (name not in _QUESTION or _is_quoted(refused, match)):
            return None if name in _QUESTION else name
    return None


def is_filtered(words: str) -> bool:
    """Whether an endpoint refuses to answer because of what a prompt says."""
    return bool(_FILTERED.search(words))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


def _is_quoted(text: str, match: re.Match[str]) -> bool:
    """Whether a word is quoted: ``model`` and ``tools`` are also words of plain English."""
    before, after = text[: match.start()][-1:], text[match.end() :][:1]
    return before in "'\"`[.(" and after in "'\"`]:)" and bool(before) and bool(after)
