"""The client of servers with OpenAI's ``/v1/completions``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from meta_eval.ask import completions
from meta_eval.ask.completions_connection import CompletionsConnection
from meta_eval.ask.forcing import list_forcings
from meta_eval.ask.request import Request
from meta_eval.ask.served import Served
from meta_eval.ask.servers_client import RefusedError, ServersClient
from meta_eval.ask.transport import CutError, Failed, GarbledError, Json
from meta_eval.base.addresses import normalise_url
from meta_eval.base.logs import report_progress
from meta_eval.harness.answer import Answer
from meta_eval.harness.chat_completion import read_usage
from meta_eval.harness.token_logprobs import TokenLogprobs, collect_tokens
from meta_eval.pack.backends.server import Server


class ServerClient(ServersClient[CompletionsConnection]):
    """Completions over HTTP."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        # By request and prompt: the choices that are scored so far, so that a retry goes on behind them.
        self._begun: dict[tuple[Any, ...], list[tuple[float, bool | None]]] = {}

    def connect(self, url: str, model: str, key: str | None) -> CompletionsConnection:
        return CompletionsConnection(normalise_url(url), self.settings, model, key)

    def start_server(self) -> Served | None:
        if not isinstance(self.backend, Server):
            return None
        served: Served | None = self.backend.start_server(self.settings, self.model, self.logs)
        return served

    def cannot(self, kind: str, *, has_tokenizer: bool) -> str | None:
        if kind == "generate":
            return None
        if not has_tokenizer:
            return "the model's tokenizer is not on this machine: set tokenizer to a hub id or a folder"
        return self._on_loop(self._cannot(kind))

    async def _cannot(self, kind: str) -> str | None:
        for server in self._servers:
            if not server.up.is_set():
                continue
            if not server.can.token_ids:
                return f"{server.url} takes no token ids"
            try:
                if kind == "choices" and await server.can_label():
                    continue
                how = await server.how_forced()
            except (CutError, Failed):  # the requests themselves will show it
                continue
            if not how:
                named = "named tokens or of " if kind == "choices" else ""
                ways = (*completions.FORCED, *(forcing.name for forcing in list_forcings()))
                return f"{server.url} says no log-probabilities of {named}a prompt ({', '.join(ways)})"
            if server.can.forcing is not None and kind == "force":
                report_progress(f"{server.url} scores a text by writing it: a doc takes as long as its answer did")
        return None

    async def ask(self, server: CompletionsConnection, request: Request) -> Answer:
        if request.kind == "choices":
            return await self._choices(server, request)
        if request.kind == "force":
            return await self._force(server, request)
        body = completions.build_text_request(request, seed=self.settings.seed, end=self.end, can=server.can)
        answer = _checked(await server.complete(body), request.prompt_ids)
        return completions.read_text(request, answer, end=self.end, **self._shared(server, request, answer))

    async def _choices(self, server: CompletionsConnection, request: Request) -> Answer:
        if request.prompt_ids is None or request.continuation_ids is None or not server.can.token_ids:
            raise RefusedError("choices need token ids")
        if request.one_token_each and await server.can_label():
            ids = [continuation[0] for continuation in request.continuation_ids]
            answer = await self._scored(server, completions.build_label_request(request.prompt_ids, ids))
            choices = completions.read_labels(answer, ids)
        else:
            how = await server.how_forced()
            if not how:
                raise RefusedError("it returns no prompt log-probabilities")
            if (forcing := server.can.forcing) is not None and request.one_token_each:
                ids = [continuation[0] for continuation in request.continuation_ids]
                choices, answer = await forcing.score_labels(partial(self._scored, server), request.prompt_ids, ids)
            else:
                key = (request.id, *request.prompt_ids)
                choices = self._begun.setdefault(key, [])
                for continuation in request.continuation_ids[len(choices) :]:
                    tokens, answer = await self._score_tokens(server, request.prompt_ids, continuation, how)
                    choices.append(completions.sum_tokens(tokens))
                del self._begun[key]
        shared = {**self._shared(server, request, answer), "prompt_tokens": len(request.prompt_ids)}
        return request.answer(choices=choices, completion_tokens=0, **shared)

    async def _force(self, server: CompletionsConnection, request: Request) -> Answer:
        how = await server.how_forced()
        if request.prompt_ids is None or not server.can.token_ids:
            raise RefusedError("scoring a given answer needs token ids")
        if not how:
            raise RefusedError("it returns no prompt log-probabilities")
        if request.top_k and how == "echo":
            raise RefusedError("it returns no ids of the likeliest tokens (prompt_logprobs): leave --top-k out")
        ids = request.forced_ids
        tokens, answer = await self._score_tokens(server, request.prompt_ids, ids, how, request.top_k)
        shared = {**self._shared(server, request, answer), "prompt_tokens": len(request.prompt_ids)}
        return request.answer(tokens=tokens, completion_tokens=len(ids), **shared)

    async def _score_tokens(
        self, server: CompletionsConnection, prompt: Sequence[int], ids: Sequence[int], how: str, top_k: int = 0
    ) -> tuple[TokenLogprobs, Json]:
        """The log-probabilities of given tokens after a prompt; and the last answer."""
        if (forcing := server.can.forcing) is not None:
            places, answer = await forcing.force(partial(self._scored, server), prompt, ids, max(1, top_k))
            try:
                return collect_tokens(ids, places, top_k), answer
            except ValueError as error:
                raise GarbledError(f"a response that {error}") from None
        body = completions.build_forced_request(prompt, ids, how, max(1, top_k))
        answer = await self._scored(server, body)
        return completions.read_tokens(answer, ids, how, top_k), answer

    async def _scored(self, server: CompletionsConnection, body: dict[str, Any]) -> Json:
        return _checked(await server.complete({**server.can.extras, **body}), body["prompt"])

    def _shared(self, server: CompletionsConnection, request: Request, answer: Json) -> dict[str, Any]:
        usage, prompt_ids = read_usage(answer), request.prompt_ids
        return {
            "prompt_tokens": usage.get("prompt_tokens", None if prompt_ids is None else len(prompt_ids)),
            "cached_tokens": usage.get("cached_tokens"),
            "response_model": server.read_model_name(answer.get("model")),
        }


def _checked(answer: Json | str, prompt: Sequence[int] | None) -> Json:
    """Check that an answer belongs to the prompt that was sent.

    Raises:
        RefusedError: It does not.
    """
    why = answer if isinstance(answer, str) else completions.explain_other_prompt(answer, prompt)
    if isinstance(answer, str) or why:
        raise RefusedError(why)
    return answer
