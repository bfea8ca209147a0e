"""The client of endpoints with OpenAI's ``/v1/chat/completions``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from meta_eval.answers.chat_body import make_chat_body, parse_fields, read_conversation
from meta_eval.backends.server import normalise_url
from meta_eval.messages.logs import log
from meta_eval.results.chat_completion import ChatCompletion, read_chat_completion
from meta_eval.results.sample_parser import FILTERED
from meta_eval.running.chat_connection import ChatConnection
from meta_eval.running.chat_faults import is_filtered
from meta_eval.running.client import EngineResponse
from meta_eval.running.servers_client import Job, RefusedError, ServersClient
from meta_eval.running.transport import GarbledError

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

    def connect(self, url: str, model: str, key: str | None) -> ChatConnection:
        return ChatConnection(normalise_url(url), self.settings, model, key)

    async def ask(self, server: ChatConnection, job: Job) -> EngineResponse:
        request = job.ask.request
        try:
            conversation = read_conversation(request, can_continue=bool(self.fields.get("continue_final_message")))
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
            return EngineResponse(request, text="", finish_reason=FILTERED, started=started, ended=time.time())
        try:
            read = read_chat_completion(answer)
        except ValueError as error:
            raise GarbledError(server.hide_key(f"a response that {error}")) from None
        self._note_oddities(request.id, read, has_tools=bool(conversation.get("tools")))
        calls = [(call.name, server.hide_key(call.arguments)) for call in read.tool_calls]
        return EngineResponse(
            request, text=server.hide_key(read.content), finish_reason=read.finish_reason,
            reasoning=read.reasoning and server.hide_key(read.reasoning),
            tool_calls=[{"name": name, "arguments": arguments} for name, arguments in calls],
            prompt_tokens=read.prompt_tokens, completion_tokens=read.completion_tokens,
            cached_tokens=read.cached_tokens, started=started, ended=time.time(),
        )  # fmt: skip

    def _note_oddities(self, name: str, read: ChatCompletion, *, has_tools: bool) -> None:
        """Say once what an endpoint does that those who use it may not expect. The answer is kept as it is."""
        choice = read.choices[0]
        if choice.reasoning_form is not None:
            self._place = self._place or choice.reasoning_form
            if choice.reasoning_form != self._place:
                here, before = _PLACES[choice.reasoning_form], _PLACES[self._place]
                self._note(name, f"reasoning is in {here}, and was in {before}", "it is kept apart in both")
        if has_tools and choice.has_call_in_text:
            self._note(name, "a tool call is in the text, and not in tool_calls", "it counts as text")
        if not all(map(_is_object, (call.arguments for call in choice.tool_calls))):
            self._note(name, "the arguments of a tool call are no JSON object", "they are kept as they are")
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
