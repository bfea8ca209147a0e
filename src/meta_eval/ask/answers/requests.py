"""Builds the requests of a pack, exactly as lm_eval would send them.

lm-eval's own task builds its instances, and their content becomes the requests. Nothing is added to a prompt, except a
BOS when the prompt is given as token ids.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from meta_eval.base.errors import PackError
from meta_eval.base.hashing import hash_json, hash_text
from meta_eval.harness.chat_messages import ASSISTANT, CONTINUE, make_conversation
from meta_eval.harness.evaluator import Evaluator

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Docs whose instances are in memory at a time. lm-eval would keep those of all docs.
_CHUNK = 512

RequestKind = Literal["generate", "chat", "choices", "force"]


@dataclass(frozen=True, slots=True)
class RequestDigest:
    """A request without its texts: enough to find its answer, and small enough to keep those of all docs.

    Attributes:
        id, doc, kind, stop, max_tokens, needs_greedy, prompt_sha256, sha256: As of `Request`.
        continuations: Their number.
    """

    id: str
    doc: int
    kind: RequestKind
    stop: tuple[str, ...]
    max_tokens: int
    continuations: int
    needs_greedy: bool
    prompt_sha256: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model.

    Attributes:
        id: ``TASK/DOC``. With several requests per doc ``TASK/DOC/N``.
        task: The task.
        doc: lm-eval's number of the doc.
        repeat: The repeat, or the index of the first choice behind this prompt.
        kind: ``generate`` (a text is answered with a text), ``chat`` (messages are answered with a message),
            ``choices`` (log-likelihood of each continuation) or ``force`` (log-probability of each token of the only
            continuation).
        prompt: The text, without BOS. For chat: a JSON object with ``messages`` and the other fields of the endpoint's
            body that belong to this doc (``tools``, …), never ``model``.
        stop: Stop sequences.
        max_tokens: Maximum number of tokens of an answer. 0 for choices and force.
        settings: Other generation settings of the task (``temperature``, ``do_sample``, …).
        continuations: The choices. For force, the given text.
        needs_greedy: Whether the score uses the information that a continuation is greedy.
    """

    id: str
    task: str
    doc: int
    repeat: int
    kind: RequestKind
    prompt: str
    stop: tuple[str, ...] = ()
    max_tokens: int = 0
    settings: Mapping[str, Any] | None = None
    continuations: tuple[str, ...] = ()
    needs_greedy: bool = False

    @property
    def prompt_sha256(self) -> str:
        """SHA-256 of the prompt in UTF-8, hex. An answer repeats it, so it cannot be used for another pack."""
        return hash_text(self.prompt)

    @property
    def sha256(self) -> str:
        """SHA-256 of the whole request (prompt, kind, stop, max_tokens, settings, continuations), hex. An answer that
        repeats it cannot be used for a request with other settings.
        """
        return self.digest().sha256

    def digest(self) -> RequestDigest:
        """Compute both hashes, and leave out the texts."""
        prompt = self.prompt_sha256
        content = [prompt, self.kind, self.stop, self.max_tokens, dict(self.settings or {}), self.continuations]
        return RequestDigest(
            self.id, self.doc, self.kind, self.stop, self.max_tokens, len(self.continuations), self.needs_greedy,
            prompt, hash_json(content),
        )  # fmt: skip


def choose_docs(docs: int, limit: float | None) -> range:
    """The docs that lm_eval runs under a ``--limit``: a number, or below 1 a share, rounded up."""
    if limit is None:
        return range(docs)
    return range(min(docs, math.ceil(docs * limit) if limit < 1 else int(limit)))


def build_requests(
    evaluator: Evaluator, name: str, limit: float | None, docs: Sequence[int] | None = None
) -> Iterator[Request]:
    """Yield the requests of a task, in order.

    Args:
        evaluator: Evaluator of the pack.
        name: The task.
        limit: ``--limit`` of the pack's command.
        docs: Numbers of the docs to use. None means all.

    Raises:
        PackError: lm-eval cannot load the task, or it needs requests that the format cannot hold.
    """
    task = evaluator.load(name, listed=False)
    (split, all_docs), *_ = task.dataset.items()
    chosen: Sequence[int] = choose_docs(len(all_docs), limit)
    if docs is not None:
        chosen = [doc for doc in docs if doc in chosen]
    for start in range(0, len(chosen), _CHUNK):
        chunk = chosen[start : start + _CHUNK]
        task.dataset = {split: _read(all_docs, chunk)}
        groups: dict[int, list[Any]] = {}
        for instance in evaluator.instances(name, task):  # instances count the available docs from 0
            groups.setdefault(chunk[instance.doc_id], []).append(instance)
        for doc, instances in groups.items():
            instances.sort(key=lambda item: item.idx)
            by_prompt = _by_prompt(instances)
            if len(by_prompt) > 1:
                for part in by_prompt:
                    number = part[0].idx
                    yield _request(f"{name}/{doc}/{number}", name, doc, number, part, task)
                continue
            repeats = instances[0].repeats or 1
            for repeat in range(repeats):
                own_id = f"{name}/{doc}/{repeat}" if repeats > 1 else f"{name}/{doc}"
                yield _request(own_id, name, doc, repeat, instances, task)


def _read(docs: Any, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Read some docs at once: from `datasets`, each alone takes several times as long."""
    if isinstance(docs, list):
        return [docs[number] for number in numbers]
    rows: list[dict[str, Any]] = docs.with_format("arrow")[list(numbers)].to_pylist()
    return rows


def _by_prompt(instances: Sequence[Any]) -> list[list[Any]]:
    """Group consecutive instances of a doc by prompt.

    Each choice may have its own prompt (winogrande), or all may be scored again after an empty prompt
    (acc_mutual_info).
    """
    if any(instance.request_type != "loglikelihood" for instance in instances):
        return [list(instances)]
    return [list(part) for _, part in itertools.groupby(instances, key=lambda instance: instance.args[0])]


def _request(own_id: str, name: str, doc: int, repeat: int, instances: Sequence[Any], task: Any) -> Request:
    first = instances[0]
    prompt = first.args[0]
    if first.request_type == "generate_until" and len(instances) == 1:
        settings = dict(first.args[1])
        stop, limit = settings.pop("until", None) or (), settings.pop("max_gen_toks", None)
        if not isinstance(limit, int):
            raise PackError("generation_kwargs.max_gen_toks is not set", where=f"task {name}")
        stop = (stop,) if isinstance(stop, str) else tuple(stop)
        kind: RequestKind = "chat" if is_asked_as_chat(task) else "generate"
        return Request(own_id, name, doc, repeat, kind, prompt, stop, limit, settings)
    if first.request_type == "loglikelihood" and all(instance.args[0] == prompt for instance in instances):
        texts = tuple(instance.args[1] for instance in instances)
        greedy = str(task.OUTPUT_TYPE) == "loglikelihood"
        return Request(own_id, name, doc, repeat, "choices", prompt, continuations=texts, needs_greedy=greedy)
    raise PackError(
        f"makes {len(instances)} {first.request_type} requests per doc, which a requests file cannot hold",
        where=f"task {name}",
        hint="Run it with lm_eval itself",
    )


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


def is_asked_as_chat(task: Any) -> bool:
    """Whether the prompts of a task of lm-eval are chat messages: ``metadata: {meta_eval: {asked_as: chat}}``."""
    return _read_block(task).get("asked_as") == "chat"


def is_graded_as_message(task: Any) -> bool:
    """Whether a task of lm-eval grades a whole message, with its tool calls: ``metadata: {meta_eval: {answer:
    message}}``."""
    return _read_block(task).get("answer") == "message"


def _read_block(task: Any) -> Mapping[str, Any]:
    block = (task.config.metadata or {}).get("meta_eval")
    return block if isinstance(block, Mapping) else {}


class Encoder:
    """Encodes prompts and continuations as token ids, as lm-eval's engines do.

    Args:
        tokenizer: The model's.
        needs_bos: Whether to refuse a tokenizer that adds no BOS. Llama's adds it; others may not.
        add_bos: Whether each prompt starts with BOS. False if a record was made without it.
        end: The end token. As in lm-eval, it stands for an empty prompt if the tokenizer has no BOS.

    Attributes:
        bos: The token before each prompt, or None.

    Raises:
        ValueError: The tokenizer has no single BOS.
    """

    bos: int | None

    def __init__(
        self, tokenizer: Tokenizer, *, needs_bos: bool = True, add_bos: bool = True, end: str | None = None
    ) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        special_ids = tokenizer.encode("", add_special_tokens=True).ids
        last = tokenizer.token_to_id(end) if end else None
        self._empty_prompt = special_ids[:1] or ([last] if last is not None else [])
        added = special_ids if add_bos else []
        if len(added) > 1 or (add_bos and needs_bos and not added):
            raise ValueError(f"puts {len(added)} tokens before a text instead of one BOS")
        self.bos = int(added[0]) if added else None

    def encode_text(self, text: str) -> list[int]:
        """Encode a text without BOS."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """Encode a prompt with its BOS, which a text may bring."""
        (ids,) = self._ids([text])
        return ids

    def encode_spelled(self, text: str) -> list[int]:
        """Encode a text, and read special tokens as plain characters."""
        self._tokenizer.encode_special_tokens = True
        try:
            return self.encode_text(text)
        finally:
            self._tokenizer.encode_special_tokens = False

    def encode_requests(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        """Encode requests as the token-id fields of the file.

        Continuations of choices are encoded as lm-eval does: the tokens that the whole text has after the prompt's
        tokens. The continuation of force is encoded on its own, because an engine would have generated it after the
        prompt's tokens. Chat has no token ids: the endpoint makes them with its own template.
        """
        texts: list[str] = []
        for request in requests:
            if request.kind == "chat":
                continue
            texts.append(choose_context(request))
            if request.kind == "choices":
                texts += [request.prompt + text for text in request.continuations]
        ids = iter(self._ids(texts))
        all_fields: list[dict[str, Any]] = []
        for request in requests:
            if request.kind == "chat":
                all_fields.append({})
                continue
            context = next(ids)
            fields: dict[str, Any] = {"prompt_token_ids": context}
            if request.kind == "choices":
                fields["prompt_token_ids"] = context or self._empty_prompt
                fields["continuation_token_ids"] = [next(ids)[len(context) :] for _ in request.continuations]
            elif request.kind == "force":
                fields["continuation_token_ids"] = [self.encode_text(text) for text in request.continuations]
            all_fields.append(fields)
        return all_fields

    def _ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        for encoded in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            ids: list[int] = encoded.ids
            yield ids if self.bos is None or ids[:1] == [self.bos] else [self.bos, *ids]


def choose_context(request: Request) -> str:
    """The prompt as it is tokenised. Before choices, lm-eval moves white space at its end to the continuations."""
    return request.prompt.rstrip() if request.kind == "choices" else request.prompt
