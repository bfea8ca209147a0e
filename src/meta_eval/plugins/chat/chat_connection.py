"""A connection to an endpoint of ``/v1/chat/completions``, which finds out which fields it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval.ask.connection import OpenAIConnection
from meta_eval.ask.transport import Json, Reply
from meta_eval.plugins.chat.chat_faults import LIMITS, OMITTED, find_refused_field, is_filtered
from meta_eval.plugins.chat.chat_stream import StreamMerger
from meta_eval.plugins.chat.run_keys import ChatKeys
from meta_eval.sockets import BackendError, RunSettings, log

# The page of the endpoint.
_PAGE = "/chat/completions"


class ChatConnection(OpenAIConnection):
    """A chat endpoint.

    Attributes:
        omitted: Fields that it does not accept, each with its own words. They are left out of every request.
        renamed: Fields that it knows under another name.
    """

    _make_merger = StreamMerger

    def __init__(self, url: str, settings: RunSettings, model: str, key: str | None) -> None:
        super().__init__(url, settings, model, key)
        self.omitted: dict[str, str] = {}
        self.renamed: dict[str, str] = {}

    async def complete(self, body: Mapping[str, Any]) -> Json | str:
        """Get a chat completion, or the reason why the endpoint will never give it; errors as of `post`.

        A field that it does not accept is left out for good, which is said once, and the request is sent again.
        """
        while True:
            sent = self._adapt(body)
            answer = await self.post(_PAGE, sent)
            field = find_refused_field(answer, sent) if isinstance(answer, str) else None
            if not isinstance(answer, str) or field is None or not self._leave_out(field, answer, sent):
                return answer

    def _adapt(self, body: Mapping[str, Any]) -> dict[str, Any]:
        fields = {self.renamed.get(name, name): value for name, value in body.items() if name not in self.omitted}
        if self._settings.read_keys(ChatKeys).stream and "stream" not in self.omitted:
            fields["stream"] = True
            if "stream_options" not in self.omitted:
                fields["stream_options"] = {"include_usage": True}
        return {**fields, "model": self._model}

    def _leave_out(self, field: str, words: str, sent: Mapping[str, Any]) -> bool:
        """Leave a field out from now on, or call it by its other name. False if neither helps."""
        other = LIMITS.get(field)
        if other is not None:
            if field in self.renamed.values():  # it refuses both names
                return False
            if other not in self.renamed.values():
                self.renamed[field] = other
                log.warning(f"{self.url} knows {field} as {other} ({words})")
            return other not in sent
        if field not in self.omitted:
            self.omitted[field] = words
            meaning = f": {OMITTED[field]}" if field in OMITTED else ""
            log.warning(f"{self.url} does not accept {field} ({words}): it is left out{meaning}")
        return True

    async def _learn(self) -> None:
        """Nothing: what it accepts shows in its answers."""

    def _card(self, answer: Json) -> Json:
        try:
            return super()._card(answer)
        except BackendError as error:
            if "max_model_len" in str(error):
                raise
            log.warning(f"{error}. Requests still name {self._model}")
            return {}

    def _refuse_strangers(self, reply: Reply) -> None:
        if not is_filtered(reply.read_words()):  # some answer 403 to what a prompt says
            super()._refuse_strangers(reply)
