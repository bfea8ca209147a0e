"""A connection to a server of OpenAI's ``/v1/completions``, which finds out what the server supports."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from meta_eval.ask import completions
from meta_eval.ask.completions import FORCED, PROBE, Abilities
from meta_eval.ask.connection import TO_SAY, NoPageError
from meta_eval.ask.forcing import list_forcings
from meta_eval.ask.openai_connection import OpenAIConnection
from meta_eval.ask.transport import CutError, Failed, GarbledError, Json
from meta_eval.base.logs import log
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.base import BackendError
from meta_eval.pack.backends.registry import suggest_backend


class _RefusedError(Exception):
    """The server refuses even the simplest request."""


class CompletionsConnection(OpenAIConnection):
    """A server with OpenAI's ``/v1/completions``.

    Attributes:
        can: Its abilities.
    """

    def __init__(self, url: str, settings: RunSettings, model: str, key: str | None) -> None:
        super().__init__(url, settings, model, key)
        self.can = Abilities()
        self._learning = asyncio.Lock()

    async def complete(self, body: Mapping[str, Any]) -> Json | str:
        """Get a completion, or the reason why the server will never give it; errors as of `post`."""
        return await self.post("/completions", {"model": self._model, **body})

    async def can_label(self) -> bool:
        """Whether it returns log-probabilities of named tokens; tried once."""
        async with self._learning:
            if self.can.labels is None:
                ids = [0, 1]
                self.can.labels = await self._tried(
                    completions.build_label_request(PROBE, ids), lambda answer: completions.read_labels(answer, ids)
                )
            return self.can.labels

    async def how_forced(self) -> str:
        """How it returns log-probabilities of given tokens; tried once, empty if it does not."""
        async with self._learning:
            if self.can.forced is None:
                self.can.forced = await self._find_how_forced()
            return self.can.forced

    async def _find_how_forced(self) -> str:
        prompt, ids = PROBE[:1], PROBE[1:]
        for how in FORCED:
            body = completions.build_forced_request(prompt, ids, how)
            if await self._tried(body, partial(completions.read_forced, continuation=ids, how=how)):
                return how
        for forcing in list_forcings():
            if await self._tried(forcing.build_probe(prompt, ids), forcing.check_probe):
                self.can.forcing = forcing
                return forcing.name
        return ""

    async def _tried(self, body: Mapping[str, Any], read: Callable[[Json], object]) -> bool:
        """Whether its answer can be parsed; two failures mean no."""
        for _ in range(2):
            try:
                answer = await self.complete(body)
                if isinstance(answer, str):
                    return False
                read(answer)
            except Failed as fault:
                if fault.turned_away:
                    raise
            except (GarbledError, NoPageError):
                return False
            else:
                return True
        return False

    async def _learn(self) -> None:
        """Find out whether it takes token ids, and which of `EXTRAS`.

        Servers without token ids refuse them, have no such page, fail or cut the connection. A text request shows
        whether token ids are the cause.
        """
        self.can = Abilities()
        try:
            answer = await self._accepted()
            if completions.explain_other_prompt(answer, PROBE):
                self.can = Abilities(token_ids=False, extras=self.can.extras)
        except (_RefusedError, NoPageError, GarbledError, CutError, Failed) as fault:
            if isinstance(fault, Failed) and fault.turned_away:
                raise
            await self._learn_with_text(fault)
        if not self.can.token_ids:
            log.warning(f"{self.url} takes no token ids: prompts are sent as text, and the server must add the BOS")
        if missing := [name for name in completions.EXTRAS if name not in self.can.extras]:
            log.warning(f"{self.url} does not accept {', '.join(missing)}: these fields are omitted")

    async def _learn_with_text(self, fault: Exception) -> None:
        """Find out the same with a text, after token ids failed with ``fault``; retry token ids if the fault may be
        temporary."""
        self.can = Abilities(token_ids=False)
        try:
            await self._accepted()
        except (_RefusedError, NoPageError) as refusal:
            await self._refuse_chat()
            if isinstance(refusal, NoPageError):
                raise
            raise BackendError(f"rejects the simplest request: {refusal}", where=self.url) from None
        except (GarbledError, CutError, Failed):
            if isinstance(fault, _RefusedError):
                raise BackendError(f"rejects token ids ({fault}) and returns no text", where=self.url) from None
            raise fault from None
        if not isinstance(fault, _RefusedError):
            of_text, self.can = self.can, Abilities()
            try:
                await self._accepted()
            except (_RefusedError, NoPageError, GarbledError, CutError, Failed):
                self.can = of_text

    async def _accepted(self) -> Json:
        """Send the simplest request, and drop for good the fields that the server refuses.

        Raises:
            _RefusedError: It refuses the request without these fields too.
            NoPageError, GarbledError, CutError, Failed: As `complete`.
        """
        while True:
            prompt: object = list(PROBE) if self.can.token_ids else "1"
            answer = await self.complete({"max_tokens": 1, "temperature": 0.0, **self.can.extras, "prompt": prompt})
            if not isinstance(answer, str):
                completions.read_choice(answer)
                return answer
            if not self.can.extras:
                raise _RefusedError(answer)
            rejected = [name for name in self.can.extras if re.search(rf"\b{name}\b", answer)]
            for name in rejected or tuple(self.can.extras):
                del self.can.extras[name]

    async def _refuse_chat(self) -> None:
        """Refuse a server with only a chat endpoint.

        Raises:
            BackendError: It has only chat.
        """
        body = {"model": self._model, "max_tokens": 1, "messages": [{"role": "user", "content": "1"}]}
        try:
            reply = await self._transport.request("POST", "/chat/completions", body, timeout=TO_SAY)
            answered = reply.status == 200 and "choices" in reply.read_json()
        except (GarbledError, CutError, Failed):
            return
        if answered:
            raise BackendError(
                "serves only /chat/completions, which adds a second chat template to the prompts",
                where=self.url,
                hint="Serve the model with /v1/completions, as vLLM, SGLang and llama.cpp do"
                + suggest_backend("chat", ", or "),
            )
