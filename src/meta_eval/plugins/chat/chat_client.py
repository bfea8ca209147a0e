"""The client of endpoints with OpenAI's ``/v1/chat/completions``."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from meta_eval.ask.request import read_conversation
from meta_eval.ask.transport import CutError, Failed, GarbledError, draw_backoff
from meta_eval.base.display import one_line
from meta_eval.base.hashing import normalise_url
from meta_eval.base.logs import report_progress
from meta_eval.harness.chat_completion import ChatCompletion, read_chat_completion
from meta_eval.harness.provenance import CUT_EARLY
from meta_eval.harness.sample_parser import FILTERED
from meta_eval.pack.chat_rendering import find_chat_template
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.plugins.chat.chat_backend import CONTINUED, parse_fields
from meta_eval.plugins.chat.chat_body import make_chat_body
from meta_eval.plugins.chat.chat_connection import ChatConnection
from meta_eval.plugins.chat.chat_faults import is_filtered
from meta_eval.plugins.chat.endpoint_check import EndpointCheck, compare_recorded_prompts
from meta_eval.sockets import Answer, Encoder, RefusedError, Request, ServersClient, log

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Attempts of a request of the check, and the longest pause between them, in seconds.
_TRIES, _LONGEST_PAUSE = 4, 60.0

# Where reasoning was found, in words.
_PLACES: Mapping[str, str] = {
    "reasoning": "the field reasoning",
    "reasoning_content": "the field reasoning_content",
    "parts": "parts of the content",
    "tags": "tags in the text",
}


class ChatClient(ServersClient[ChatConnection]):
    """Chat completions over HTTP.

    Attributes:
        oddities: How often answers were in another form than expected, by what was seen.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.fields = parse_fields(self.settings.model_args)
        self.oddities: dict[str, int] = {}
        self._place: str | None = None

    def cannot_ask(self, request: Request) -> str | None:
        try:
            self._read(request)
        except ValueError as error:
            return f"the prompt {error}"
        return None

    def _read(self, request: Request) -> dict[str, Any]:
        return read_conversation(request, can_continue=bool(self.fields.get(CONTINUED)))

    def examine(self, requests: Iterable[Request]) -> Mapping[str, Any]:
        with_tools, requests = None, list(requests)
        for request in requests:
            conversation = read_conversation(request, can_continue=True)
            with_tools = with_tools or (conversation if conversation.get("tools") else None)
        model = self.settings.tokenizer_of(self.model)
        tokenizer = find_tokenizer(model)
        encoder = None if tokenizer is None else _make_encoder(tokenizer)
        template, checks, faults = find_chat_template(model), [], []
        recorded = compare_recorded_prompts(requests, template, encoder, self.fields)
        for server in self._servers:
            if server.up.is_set():
                report_progress(f"checking {server.url}")
                check = EndpointCheck(partial(self._ask_once, server), self.fields, template, encoder, with_tools)
                findings = [*self._on_loop(check.run()), *filter(None, [recorded])]
                checks.append({"checks": [finding.as_json() for finding in findings]})
                faults += [
                    f"{server.url}: {finding.name}: {finding.what}" for finding in findings if finding.passed is False
                ]
        for fault in faults:
            log.warning(fault)
        return {"checked": checks}

    async def _ask_once(self, server: ChatConnection, body: Mapping[str, Any]) -> ChatCompletion | str:
        """Ask until there is an answer, or give the reason why there is none."""
        why = ""
        for failures in range(1, _TRIES + 1):
            try:
                answer = await server.complete(body)
                return one_line(answer) if isinstance(answer, str) else read_chat_completion(answer)
            except (CutError, Failed, ValueError) as fault:
                why = one_line(str(fault))
                pause = fault.retry_after if isinstance(fault, Failed) else None
                if pause is not None and pause > _LONGEST_PAUSE:
                    break  # to ask sooner is in vain
                await asyncio.sleep(draw_backoff(failures) if pause is None else pause)
        return why

    def summarise(self) -> Mapping[str, Any]:
        omitted = {name: words for server in self._servers for name, words in server.omitted.items()}
        seen = {**super().summarise(), "omitted": omitted, "oddities": self.oddities}
        return {name: value for name, value in seen.items() if value}

    def connect(self, url: str, model: str, key: str | None) -> ChatConnection:
        return ChatConnection(normalise_url(url), self.settings, model, key)

    async def ask(self, server: ChatConnection, request: Request) -> Answer:
        try:
            conversation = self._read(request)
        except ValueError as error:
            raise RefusedError(f"the prompt {error}") from None
        body = make_chat_body(
            request, conversation, model=self.model, seed=self.settings.seed, fields=self.fields
        )  # fmt: skip
        started = time.time()
        answer = await server.complete(body)
        if isinstance(answer, str):
            if not is_filtered(answer):
                raise RefusedError(answer)
            return request.answer(text="", finish_reason=FILTERED, started=started, ended=time.time())
        try:
            read = read_chat_completion(answer)
        except ValueError as error:
            raise GarbledError(f"a response that {error}") from None
        self._note_oddities(request.id, read, body)
        return request.answer(
            text=read.content, finish_reason=read.finish_reason, reasoning=read.reasoning,
            tool_calls=tuple(read.tool_calls),
            prompt_tokens=read.prompt_tokens, completion_tokens=read.completion_tokens,
            cached_tokens=read.cached_tokens, started=started, ended=time.time(),
            response_model=server.read_model_name(read.model),
        )  # fmt: skip

    def _note_oddities(self, name: str, read: ChatCompletion, body: Mapping[str, Any]) -> None:
        """Say once what an endpoint does that those who use it may not expect. The answer is kept as it is."""
        choice = read.choices[0]
        if choice.reasoning_form is not None:
            self._place = self._place or choice.reasoning_form
            if choice.reasoning_form != self._place:
                here, before = _PLACES[choice.reasoning_form], _PLACES[self._place]
                self._note(name, f"reasoning is in {here}, and was in {before}", "it is kept apart in both")
        if body.get("tools") and choice.has_call_in_text:
            self._note(name, "a tool call is in the text, and not in tool_calls", "it counts as text")
        if not all(map(_is_object, (call.arguments for call in choice.tool_calls))):
            self._note(name, "the arguments of a tool call are no JSON object", "they are kept as they are")
        limit = body.get("max_tokens", body.get("max_completion_tokens"))
        tokens = read.completion_tokens
        if choice.finish_reason == "length" and isinstance(limit, int) and tokens is not None and tokens < limit:
            self._note(name, CUT_EARLY, f"at {tokens:,} of {limit:,} tokens")
        if len(read.choices) > 1:
            self._note(name, f"{len(read.choices)} answers to a request for one", "the first counts")
        if read.prompt_tokens is None:
            self._note(name, "usage.prompt_tokens is missing", "costs and limits of tokens are unknown")

    def _note(self, name: str, what: str, meaning: str) -> None:
        self.oddities[what] = self.oddities.get(what, 0) + 1
        if self.oddities[what] == 1:
            log.warning(f"{name}: {what}: {meaning}")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _make_encoder(tokenizer: Tokenizer) -> Encoder:
    """An encoder that puts the tokenizer's BOS before recorded prompts, if it has a single one."""
    try:
        return Encoder(tokenizer, needs_bos=False)
    except ValueError:
        return Encoder(tokenizer, needs_bos=False, add_bos=False)
