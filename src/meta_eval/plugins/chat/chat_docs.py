"""Makes docs of chat requests and answers, graded by their text or by their tool calls.

A doc keeps its messages and what differs between requests. Settings that all requests share are the task's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from meta_eval.base.inputs import format_json
from meta_eval.base.secrets import HIDDEN, hide_secrets, is_secret
from meta_eval.harness.chat_completion import ChatChoice
from meta_eval.plugins.chat.assets.chat import text_match
from meta_eval.plugins.chat.assets.chat.tools import tool_calls
from meta_eval.sockets import DataError, plural

# Fields of a body that do not change what is asked.
_OF_CALLER = frozenset(
    (
        "model", "stream", "stream_options", "n", "user", "metadata", "store", "service_tier", "safety_identifier",
        "extra_headers", "extra_query", "timeout",
    )
)  # fmt: skip

# Fields that belong to the messages, also where all docs have the same.
_OF_DOC = frozenset(
    ("messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "response_format")
)

_LIMITS = ("max_completion_tokens", "max_tokens")


def split_bodies(bodies: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Split the bodies of a task's requests into those of each doc and lm-eval's generation settings.

    Args:
        bodies: What the endpoint got.

    Returns:
        Per doc its messages with the fields that differ or belong to them; and the settings that all share.

    Raises:
        DataError: A request asks for several answers.
    """
    for number, body in enumerate(bodies):
        if body.get("n") not in (None, 1):
            raise DataError(f"request {number} asks for several answers at once", hint="Send a request per answer")
    values = [
        {
            name: value if name in _OF_DOC else hide_secrets(value)
            for name, value in body.items()
            if name not in _OF_CALLER and value is not None and not is_secret(name, HIDDEN)
        }
        for body in bodies
    ]
    first = values[0]
    shared = {
        name: value
        for name, value in first.items()
        if name not in _OF_DOC and len({format_json(body.get(name)) for body in values}) == 1
    }
    docs = [{name: value for name, value in body.items() if name not in shared} for body in values]
    return docs, _make_generation(shared)


def _make_generation(shared: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under lm-eval's names. Without a temperature the endpoint's own counts, which samples."""
    stop = shared.get("stop", [])
    limit = next((shared[name] for name in _LIMITS if name in shared), None)
    return {
        "until": [stop] if isinstance(stop, str) else stop,
        "do_sample": shared.get("temperature") != 0,
        **({} if limit is None else {"max_gen_toks": limit}),
        **{name: value for name, value in shared.items() if name not in ("stop", *_LIMITS)},
    }


class ChatGrading(ABC):
    """How the answers of a task are graded."""

    grader: ClassVar[str]
    """The name of the grader in ``assets/chat``."""

    answer: ClassVar[Literal["text", "message"]]
    """What is graded: the text, or the whole message."""

    @abstractmethod
    def make_gold(self, choice: ChatChoice) -> object:
        """The gold if the record itself is right."""

    @abstractmethod
    def make_doc(self, body: Mapping[str, Any], gold: object) -> dict[str, Any]:
        """The columns of a doc that the grader reads; ``gold`` is also the target that a report shows.

        Raises:
            ValueError: The gold, or a tool of the request, is malformed. The text is one line.
        """

    @abstractmethod
    def format_answer(self, choice: ChatChoice) -> str:
        """The answer as the grader gets it."""

    def list_warnings(self) -> list[str]:
        """What is to be known of the docs that were made, each a sentence."""
        return []

    @abstractmethod
    def compute_verdict(self, doc: Mapping[str, Any], answer: str) -> float:
        """Whether an answer is right, as the grader says."""


class TextGrading(ChatGrading):
    """By the text, which must equal a gold without white space at the ends."""

    grader = "text_match"
    answer = "text"

    def make_gold(self, choice: ChatChoice) -> object:
        return choice.content

    def make_doc(self, body: Mapping[str, Any], gold: object) -> dict[str, Any]:  # noqa: ARG002
        texts = [gold] if isinstance(gold, str) else gold
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError("the gold is no text and no list of texts")
        return {"gold": texts[0], "golds": texts}

    def format_answer(self, choice: ChatChoice) -> str:
        return choice.content

    def compute_verdict(self, doc: Mapping[str, Any], answer: str) -> float:
        return text_match.exact_match(dict(doc), [answer])["exact_match"]


# The gold of a doc that has none.
_NO_GOLD = object()


class ToolGrading(ChatGrading):
    """By the tool calls."""

    grader = "tool_calls"
    answer = "message"

    def __init__(self) -> None:
        self._unchecked: set[str] = set()
        self._without_gold = 0

    def make_gold(self, choice: ChatChoice) -> object:
        """The calls. An answer that was cut before it said anything is no gold."""
        has_answer = bool(choice.tool_calls) or bool(choice.content.strip())
        return [call.as_json() for call in choice.tool_calls] if has_answer else _NO_GOLD

    def make_doc(self, body: Mapping[str, Any], gold: object) -> dict[str, Any]:
        tools = body.get("tools") or []
        self._unchecked |= tool_calls.find_unchecked(tools)
        if gold is _NO_GOLD:
            self._without_gold += 1
            return {"gold": "", "tools": tools}
        tool_calls.compare_calls(gold, {}, tools)
        return {"gold": format_json(gold), "gold_calls": gold, "tools": tools}

    def list_warnings(self) -> list[str]:
        warnings = []
        if self._unchecked:
            keywords = ", ".join(sorted(self._unchecked))
            warnings.append(f"the schemas of its tools have keywords that are not checked: {keywords}")
        if self._without_gold:
            empty = f"the recorded answer of {plural(self._without_gold, 'doc')} is empty, so there is no gold"
            warnings.append(f"{empty}, and every other answer counts as wrong too")
        return warnings

    def format_answer(self, choice: ChatChoice) -> str:
        return choice.format_message()

    def compute_verdict(self, doc: Mapping[str, Any], answer: str) -> float:
        verdict = tool_calls.process_results(doc, [answer])["exact_match"]
        assert isinstance(verdict, float)  # noqa: S101 (it is no list)
        return verdict


def choose_grading(bodies: Sequence[Mapping[str, Any]]) -> ChatGrading:
    """The grading of a task: by tool calls if any request offers tools."""
    return ToolGrading() if any(body.get("tools") for body in bodies) else TextGrading()
