"""A request of a pack, exactly as lm_eval would send it.

Nothing is added to a prompt, except a BOS when the prompt is given as token ids.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from meta_eval.base.hashing import hash_json, hash_text
from meta_eval.harness.answer import Answer
from meta_eval.harness.chat_messages import ASSISTANT, CONTINUE, make_conversation
from meta_eval.harness.token_logprobs import TokenPlace, collect_tokens

if TYPE_CHECKING:
    pass

# The id and the hash of a request. An answer may repeat the start of the hash, or nothing of it.
RequestKey = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model."""

    id: str
    """``TASK/DOC``. With several requests per doc ``TASK/DOC/N``."""

    task: str
    """The task."""

    doc: int
    """lm-eval's number of the doc."""

    repeat: int
    """The repeat, or the index of the first choice behind this prompt."""

    kind: str
    """The name of its `RequestKind`: ``generate`` (a text is answered with a text), ``chat`` (messages are answered
    with a message), ``choices`` (log-likelihood of each continuation), ``force`` (log-probability of each token of the
    only continuation), or that of a package."""

    prompt: str
    """The text, without BOS. For chat: a JSON object with ``messages`` and the other fields of the endpoint's body that
    belong to this doc (``tools``, …), never ``model``."""

    stop: tuple[str, ...] = ()
    """Stop sequences."""

    max_tokens: int = 0
    """Maximum number of tokens of an answer. 0 for choices and force."""

    settings: Mapping[str, Any] | None = None
    """Other generation settings of the task (``temperature``, ``do_sample``, …)."""

    continuations: tuple[str, ...] = ()
    """The choices. For force, the given text."""

    needs_greedy: bool = False
    """Whether the score uses the information that a continuation is greedy."""

    prompt_ids: Sequence[int] | None = field(default=None, compare=False)
    """The prompt with exactly one BOS, ready to be sent; None for chat, or if the model's tokenizer is not on this
    machine. Like the next two no part of what is asked: neither equality nor the hash depends on it."""

    continuation_ids: Sequence[Sequence[int]] | None = field(default=None, compare=False)
    """The tokens of each continuation after the prompt. For force, those of the only text. None likewise."""

    top_k: int = field(default=0, compare=False)
    """For force: how many likeliest tokens to return for each place."""

    _hashes: tuple[str, str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def prompt_sha256(self) -> str:
        """SHA-256 of the prompt in UTF-8, hex. An answer repeats it, so it cannot be used for another pack."""
        return self._hash()[0]

    @property
    def sha256(self) -> str:
        """SHA-256 of the whole request (prompt, kind, stop, max_tokens, settings, continuations), hex. An answer that
        repeats it cannot be used for a request with other settings.
        """
        return self._hash()[1]

    @property
    def key(self) -> RequestKey:
        """What its answer has as `Answer.key`."""
        return self.id, self.sha256

    @property
    def forced_ids(self) -> Sequence[int]:
        """For force: the tokens of the given text."""
        return (self.continuation_ids or ((),))[0]

    @property
    def one_token_each(self) -> bool:
        """Whether each continuation is a single, distinct token. A single prefill then scores all."""
        if self.continuation_ids is None or any(len(ids) != 1 for ids in self.continuation_ids):
            return False
        return len({ids[0] for ids in self.continuation_ids}) == len(self.continuation_ids)

    @property
    def is_sampled(self) -> bool:
        """Whether the task samples the answer."""
        settings = self.settings or {}
        return bool(settings.get("do_sample") or settings.get("temperature"))

    @property
    def sampling(self) -> dict[str, Any]:
        """The settings as an engine gets them: without ``do_sample``, and greedy unless the task samples."""
        settings = {name: value for name, value in (self.settings or {}).items() if name != "do_sample"}
        return settings if self.is_sampled else {**settings, "temperature": 0.0}

    def answer(self, **fields: Any) -> Answer:
        """An answer to it: the fields of `Answer` that an engine knows."""
        return Answer(id=self.id, prompt_sha256=self.prompt_sha256, request_sha256=self.sha256, **fields)

    def answer_tokens(self, places: Iterable[TokenPlace], by: str, **fields: Any) -> Answer:
        """An answer to a ``force`` request.

        Args:
            places: The place of each of the forced tokens.
            by: The engine, in an error: it left out some.
            fields: Other fields of `Answer`.
        """
        try:
            tokens = collect_tokens(self.forced_ids, places, self.top_k)
        except ValueError as error:
            return self.answer(error=f"{by} {error}", **fields)
        if why := tokens.explain_impossible():
            return self.answer(error=f"{by} gives an answer in which {why}", **fields)
        return self.answer(tokens=tokens, completion_tokens=len(self.forced_ids), **fields)

    def without_ids(self) -> Request:
        """The request without token ids, which take far more memory than texts."""
        return replace(self, prompt_ids=None, continuation_ids=None)

    def without_texts(self) -> Request:
        """The request with its hashes but no texts: small enough to keep those of all docs."""
        slim = replace(
            self, prompt="", settings=None, continuations=("",) * len(self.continuations), prompt_ids=None,
            continuation_ids=None,
        )  # fmt: skip
        object.__setattr__(slim, "_hashes", self._hash())
        return slim

    def _hash(self) -> tuple[str, str]:
        """The hashes of prompt and request, computed once."""
        if self._hashes is None:
            prompt = hash_text(self.prompt)
            content = [prompt, self.kind, self.stop, self.max_tokens, dict(self.settings or {}), self.continuations]
            object.__setattr__(self, "_hashes", (prompt, hash_json(content)))
        assert self._hashes is not None  # noqa: S101 (set above)
        return self._hashes


def choose_docs(docs: int, limit: float | None) -> range:
    """The docs that lm_eval runs under a ``--limit``: a number, or below 1 a share, rounded up."""
    if limit is None:
        return range(docs)
    return range(min(docs, math.ceil(docs * limit) if limit < 1 else int(limit)))


def read_conversation(request: Request, *, can_continue: bool = False) -> dict[str, Any]:
    """The messages of a request of kind ``chat`` or ``generate``, with the other fields of its doc.

    Args:
        request: The request. The text prompt of kind ``generate`` is parsed into messages.
        can_continue: Whether the endpoint continues an answer that the prompt begins.

    Raises:
        ValueError: A text prompt is not made of messages. The text continues "the prompt …".
    """
    if request.kind == "generate":
        return make_conversation(request.prompt, can_continue=can_continue)
    conversation: dict[str, Any] = json.loads(request.prompt)
    if can_continue and conversation["messages"][-1]["role"] == ASSISTANT:
        return {**CONTINUE, **conversation}
    return conversation
