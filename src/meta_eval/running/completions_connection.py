"""A connection to a server of OpenAI's ``/v1/completions``, which finds out what the server supports."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any

from meta_eval.backends.base import BackendError
from meta_eval.backends.settings import RunSettings
from meta_eval.messages.escaping import one_line
from meta_eval.messages.logs import log
from meta_eval.running import completions
from meta_eval.running.completions import FORCED, PROBE, Abilities
from meta_eval.running.connection import TO_SAY, Connection, NoPageError
from meta_eval.running.grammar_forcing import GRAMMAR, build_grammar_request, check_written
from meta_eval.running.transport import CutError, Failed, GarbledError, Json, parse_body

# The most characters of a server's name.
_LONGEST_NAME = 200


class _RefusedError(Exception):
    """The server refuses even the simplest request."""


class CompletionsConnection(Connection):
    """A server with OpenAI's ``/v1/completions``.

    Attributes:
        can: Its abilities.
    """

    def __init__(self, url: str, settings: RunSettings, model: str, key: str | None) -> None:
        super().__init__(url, settings, model, key)
        self.can = Abilities()
        self._met = False
        self._learning = asyncio.Lock()

    async def meet(self) -> None:
        """Check that the server answers and has the model; the first time, also find its abilities."""
        try:
            status, headers, raw = await self._transport.request("GET", "/models", timeout=TO_SAY)
            self._refuse_strangers(status, raw)
            self._refuse_for_now(status, {}, self._words(raw))
            card = self._card(parse_body(raw)) if status == 200 else {}
            if self._met:
                return
            if status != 200:
                log.warning(f"{self.url} does not list its models ({status}): assuming that it serves {self._model}")
            self.engine = await self._engine(card, headers)
            await self._learn()
            self._met = True
        except GarbledError as error:
            raise Failed(str(error)) from None

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
        return GRAMMAR if await self._tried(build_grammar_request(prompt, ids), check_written) else ""

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

    def _card(self, answer: Json) -> Json:
        """Find the server's entry of the requested model."""
        cards = _models(answer)
        for same in _SAME:
            for card in cards:
                if isinstance(card.get("id"), str) and any(same(name, self._model) for name in _names(card)):
                    self._check_length(card)
                    self._model = card["id"]
                    return card
        names = ", ".join(str(card.get("id")) for card in cards[:8]) or "nothing"
        raise BackendError(
            f"serves {names}, not {self._model}", where=self.url,
            hint="Set model_name to the served name and tokenizer to the model's hub id or folder; or start the server "
            "with --served-model-name",
        )  # fmt: skip

    def _check_length(self, card: Json) -> None:
        meta = card.get("meta")  # llama.cpp: context of a slot
        longest = card.get("max_model_len", meta.get("n_ctx") if isinstance(meta, dict) else None)
        max_model_len = self._settings.max_model_len
        if not isinstance(longest, int):
            log.warning(
                f"{self.url} does not report its context length: max_model_len={max_model_len:,} is not checked"
            )
        elif longest < max_model_len:
            raise BackendError(
                f"serves contexts of {longest:,} tokens, and max_model_len is {max_model_len:,}", where=self.url,
                hint=f"Serve it with --max-model-len {max_model_len} (llama.cpp: -c, shared by its slots), or lower "
                "max_model_len",
            )  # fmt: skip

    async def _engine(self, card: Json, headers: Mapping[str, str]) -> str:
        name = card.get("owned_by") or headers.get("Server") or "server"
        try:
            status, _, raw = await self._transport.request("GET", "/version", timeout=TO_SAY, root=True)
            version = parse_body(raw).get("version") if status == 200 else None
        except (GarbledError, Failed):
            version = None
        # The name is stored with every answer.
        return self._transport.hide_key(
            one_line(f"{name} {version}" if isinstance(version, str) else str(name))[:_LONGEST_NAME]
        )

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
            status, _, raw = await self._transport.request("POST", "/chat/completions", body, timeout=TO_SAY)
            answered = status == 200 and "choices" in parse_body(raw)
        except (GarbledError, CutError, Failed):
            return
        if answered:
            raise BackendError(
                "serves only /chat/completions, which adds a second chat template to the prompts",
                where=self.url,
                hint="Serve the model with /v1/completions, as vLLM, SGLang and llama.cpp do",
            )


def _models(answer: Json) -> list[Json]:
    """The models that a server lists."""
    listed = answer.get("data")
    return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []


def _names(card: Json) -> Iterator[str]:
    """The server's names of a model: vLLM uses name or path, llama.cpp also aliases."""
    aliases = card.get("aliases")
    for name in (card.get("id"), card.get("root"), *(aliases if isinstance(aliases, list) else ())):
        if isinstance(name, str):
            yield name


def _is_tagged(name: str, model: str) -> bool:
    return name == f"{model}:latest"


def _is_file_of(name: str, model: str) -> bool:
    return name.endswith(".gguf") and model in (PurePath(name).name, PurePath(name).stem)


# Ways to match a server's model name with the requested name: equal; with Ollama's tag; as a file of llama.cpp.
_SAME: tuple[Callable[[str, str], bool], ...] = (
    str.__eq__,
    _is_tagged,
    _is_file_of,
)
