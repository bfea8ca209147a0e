"""Servers with OpenAI's ``/v1/completions``: bodies and answers, the connection, the client, and the socket `Forcing`.

Servers accept different fields besides OpenAI's; `Abilities` has the fields that a server accepts. `Forcing` is for
further ways to score given tokens, for servers that return no log-probabilities of a prompt.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from meta_eval.ask.connection import SECONDS_TO_SAY, NoPageError, OpenAIConnection
from meta_eval.ask.request import Request
from meta_eval.ask.served import Served
from meta_eval.ask.servers_client import RefusedError, ServersClient
from meta_eval.ask.transport import CutError, Failed, GarbledError, Json
from meta_eval.base.errors import UserError
from meta_eval.base.extensions import find_extensions, load_extension
from meta_eval.base.hashing import normalise_url
from meta_eval.base.logs import log, report_progress
from meta_eval.harness.answer import Answer
from meta_eval.harness.chat_completion import read_usage
from meta_eval.harness.sample_parser import FILTERED
from meta_eval.harness.settings import RunSettings
from meta_eval.harness.token_logprobs import TokenLogprobs, TokenPlace, collect_tokens
from meta_eval.pack.backends.base import BackendError
from meta_eval.pack.backends.registry import suggest_backend
from meta_eval.pack.backends.server import Server

FORCINGS = "meta_eval.forcings"

# Sends a body to ``/v1/completions`` and returns the answer.
Send = Callable[[dict[str, Any]], Awaitable[Json]]


class Forcing(ABC):
    """Makes a server write given tokens, and reads their log-probabilities.

    A package registers it by an entry point of the group ``meta_eval.forcings``. It is loaded for a server that scores
    no tokens of a prompt.
    """

    name: str
    """Its name in messages."""

    @abstractmethod
    def build_probe(self, prompt: Sequence[int], ids: Sequence[int]) -> dict[str, Any]:
        """Build a request that shows whether a server can do it."""

    @abstractmethod
    def check_probe(self, answer: Json) -> None:
        """Raises: GarbledError: The server cannot."""

    @abstractmethod
    async def force(
        self, send: Send, prompt: Sequence[int], ids: Sequence[int], top_k: int
    ) -> tuple[list[TokenPlace], Json]:
        """Find the log-probabilities of given tokens after a prompt.

        Returns: The place of each token, with the ``top_k`` likeliest tokens; and the last answer.

        Raises:
            GarbledError: The server does not return them.
        """

    @abstractmethod
    async def score_labels(
        self, send: Send, prompt: Sequence[int], ids: Sequence[int]
    ) -> tuple[list[tuple[float, bool | None]], Json]:
        """Find the log-probability of each of several tokens after a prompt (nats), and whether it is the likeliest.

        Raises:
            GarbledError: The server does not return them.
        """


def list_forcings() -> list[Forcing]:
    """All ways, by name. A broken one is a warning."""
    found: list[Forcing] = []
    for extension in find_extensions(FORCINGS).values():
        try:
            found.append(load_extension(extension, Forcing, name=(str,)))
        except UserError as error:
            log.warning(str(error))
    return found


# Fields of vLLM and SGLang: return token ids; keep special tokens in the text; ignore penalties of the model's
# generation_config.json, which would change greedy answers.
EXTRAS: Mapping[str, Any] = {
    "return_token_ids": True,
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "repetition_penalty": 1.0,
}

# A prompt valid in any vocabulary, for testing a server.
PROBE = (0, 0, 0)

# Limit of counts that every JSON reader handles; and the longest text, which must fit a line of the journal.
_MOST = 2**53
# As many ranks fit a file of answers.
_MOST_RANKS = 2**31
_LONGEST = 4 * 2**20


@dataclass(slots=True)
class Abilities:
    """The abilities of a server."""

    token_ids: bool = True
    """Whether it takes prompts as token ids and uses exactly these."""

    extras: dict[str, Any] = field(default_factory=lambda: dict(EXTRAS))
    """Those of `EXTRAS` that it accepts."""

    labels: bool | None = None
    """Whether it returns log-probabilities of named tokens; None until tried."""

    forced: str | None = None
    """How it returns log-probabilities of given tokens: a name of `FORCED` or of ``forcing``, ``""`` if it does not;
    None until tried."""

    forcing: Forcing | None = None
    """What makes it write the tokens, where it scores none of a prompt."""


def build_text_request(request: Request, *, seed: int, end: Sequence[str], can: Abilities) -> dict[str, Any]:
    """Build a text request, greedy unless the task sets ``do_sample``. Each repeat has another seed; otherwise all
    samples of a prompt would be the same."""
    settings = request.sampling
    ids = request.prompt_ids if can.token_ids else None
    first_seed = settings.get("seed", seed)
    return {
        "prompt": request.prompt if ids is None else list(ids),
        **can.extras,
        **settings,
        "seed": first_seed + request.repeat if isinstance(first_seed, int) else first_seed,
        "max_tokens": request.max_tokens,
        "stop": list(dict.fromkeys((*request.stop, *end))),
    }


def build_label_request(prompt: Sequence[int], ids: Sequence[int]) -> dict[str, Any]:
    """Build a request for the log-probabilities of some tokens after a prompt."""
    return {
        "prompt": list(prompt), "max_tokens": 1, "temperature": 0.0, "logprobs": len(ids),
        "logprob_token_ids": list(ids), "return_tokens_as_token_ids": True,
    }  # fmt: skip


def build_forced_request(
    prompt: Sequence[int], continuation: Sequence[int], how: str, top_k: int = 1
) -> dict[str, Any]:
    """Build a request for the log-probabilities of a prompt's last tokens, and of the likeliest tokens at their
    places."""
    logprob_settings = {"prompt_logprobs": top_k} if how == "prompt_logprobs" else {"echo": True, "logprobs": top_k}
    return {"prompt": [*prompt, *continuation], "max_tokens": 1, "temperature": 0.0, **logprob_settings}


def read_completion(request: Request, answer: Json, *, end: Sequence[str], **shared: Any) -> Answer:
    """Parse the answer to a text request.

    Raises:
        GarbledError: It is not a completion, or the server aborted it.
    """
    choice = read_choice(answer)
    text, finish = choice.get("text"), choice.get("finish_reason")
    if text is None and finish == FILTERED:
        text = ""
    if not isinstance(text, str):
        raise GarbledError("a response without text")
    if len(text) > _LONGEST:
        raise GarbledError(f"a text of {len(text):,} characters")
    if finish not in ("stop", "length", FILTERED, None):
        raise GarbledError(f"it ended with {finish!r:.40}")
    for ending in end:  # servers that keep special tokens may keep the end token too
        text = text.removesuffix(ending)
    ids, usage = choice.get("token_ids"), read_usage(answer)
    ids = ids if isinstance(ids, list) and _are_counts(ids) else None
    return request.answer(
        text=text, finish_reason=finish, token_ids=ids,
        completion_tokens=usage.get("completion_tokens", len(ids) if ids is not None else None), **shared,
    )  # fmt: skip


def read_labels(answer: Json, ids: Sequence[int]) -> list[tuple[float, bool | None]]:
    """Parse the log-probability of each label, and whether it is the likeliest token.

    Raises:
        GarbledError: They are not all there.
    """
    logprobs: Any = read_choice(answer).get("logprobs")
    try:
        top, likeliest = logprobs["top_logprobs"][0], logprobs["tokens"][0]
        return [(_logprob(top[f"token_id:{label}"]), likeliest == f"token_id:{label}") for label in ids]
    except _ODD:
        raise GarbledError("a response without the requested log-probabilities") from None


def read_forced(answer: Json, continuation: Sequence[int], how: str) -> tuple[float, bool | None]:
    """Parse the sum of log-probabilities of a prompt's last tokens, and whether each is the likeliest.

    Raises:
        GarbledError: They are not all there.
    """
    return sum_tokens(read_prompt_tokens(answer, continuation, how))


def sum_tokens(tokens: TokenLogprobs) -> tuple[float, bool | None]:
    """The sum of log-probabilities, and whether each token is the likeliest."""
    return sum(tokens.logprobs), all(rank == 1 for rank in tokens.ranks)


def read_prompt_tokens(answer: Json, continuation: Sequence[int], how: str, top_k: int = 0) -> TokenLogprobs:
    """Read the log-probabilities of the last tokens of a prompt.

    Raises:
        GarbledError: They are not all there.
    """
    choice = read_choice(answer)
    try:
        return collect_tokens(continuation, _PLACES[how](choice, continuation, answer.get("usage")), top_k)
    except _ODD:
        raise GarbledError("a response without prompt log-probabilities") from None


def _prompt_logprobs(choice: Json, continuation: Sequence[int], _: object) -> list[TokenPlace]:
    places = choice["prompt_logprobs"][-len(continuation) :]
    return [
        {int(token): (_logprob(entry["logprob"]), _rank(entry["rank"])) for token, entry in of.items()} for of in places
    ]


def _echo(choice: Json, continuation: Sequence[int], usage: object) -> list[TokenPlace]:
    """Parse an echoed prompt with a generated token at the end, as lm-eval does; a server that counts none may have
    none. There are no ranks. Likeliest tokens are texts, which may repeat, so they are numbered down from -1, which is
    not a token."""
    logprobs = choice["logprobs"]
    own, top_logprobs = logprobs["token_logprobs"], logprobs["top_logprobs"]
    counts = usage if isinstance(usage, dict) else {}
    end = len(own) - (counts.get("completion_tokens") != 0 or counts.get("prompt_tokens") != len(own))
    places: list[TokenPlace] = []
    for token, logprob, top in zip(
        continuation, own[end - len(continuation) : end], top_logprobs[end - len(continuation) : end], strict=True
    ):
        others = sorted(map(_logprob, top.values()), reverse=True)
        if others[0] <= _logprob(logprob):
            others.remove(others[0])
        likelier = sum(value > logprob for value in others)
        place: dict[int, tuple[float, int | None]] = {token: (float(logprob), None if likelier else 1)}
        places.append(place | {-number: (value, None) for number, value in enumerate(others, 1)})
    return places


# Errors of reading a tree of the wrong form.
_ODD = (AttributeError, KeyError, IndexError, TypeError, ValueError)


def _logprob(value: object) -> float:
    """Raises: ValueError: It is not a finite number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST:
        return float(value)
    raise ValueError


def _rank(value: object) -> int:
    if isinstance(value, int) and _is_count(value) and 0 < value < _MOST_RANKS:
        return value
    raise ValueError


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _are_counts(values: list[Any]) -> bool:
    """As `_is_count` of each, faster: an answer may have thousands of tokens."""
    return set(map(type, values)) <= {int} and (not values or (min(values) >= 0 and max(values) < _MOST))


# Ways to request log-probabilities of a prompt's tokens, best first, each with its parser.
_PLACES: Mapping[str, Callable[[Json, Sequence[int], object], list[TokenPlace]]] = {
    "prompt_logprobs": _prompt_logprobs,
    "echo": _echo,
}
FORCED = tuple(_PLACES)


def read_choice(answer: Json) -> Json:
    """The only choice of a completion.

    Raises:
        GarbledError: There is not exactly one.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise GarbledError("a response that is not a completion")
    return choices[0]


def explain_other_prompt(answer: Json, sent: Sequence[int] | None) -> str | None:
    """Explain why the server read another prompt than was sent, or None: servers silently cut prompts, and add or omit
    a BOS.

    Args:
        answer: A completion.
        sent: The token ids of the prompt, even if its text was sent; None if unknown.
    """
    if sent is None:
        return None
    read = read_choice(answer).get("prompt_token_ids")
    if isinstance(read, list):
        if read == list(sent):
            return None
        place = next((n for n, (a, b) in enumerate(zip(read, sent, strict=False)) if a != b), min(len(read), len(sent)))
        return f"it read {len(read):,} tokens of prompt; not the {len(sent):,} that were meant, from {place:,} on"
    count = read_usage(answer).get("prompt_tokens")
    if count is None or count == len(sent):
        return None
    return f"it read {count:,} tokens of prompt, and {len(sent):,} were meant"


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
                    build_label_request(PROBE, ids), lambda answer: read_labels(answer, ids)
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
            body = build_forced_request(prompt, ids, how)
            if await self._tried(body, partial(read_forced, continuation=ids, how=how)):
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
            if explain_other_prompt(answer, PROBE):
                self.can = Abilities(token_ids=False, extras=self.can.extras)
        except (_RefusedError, NoPageError, GarbledError, CutError, Failed) as fault:
            if isinstance(fault, Failed) and fault.turned_away:
                raise
            await self._learn_with_text(fault)
        if not self.can.token_ids:
            log.warning(f"{self.url} takes no token ids: prompts are sent as text, and the server must add the BOS")
        if missing := [name for name in EXTRAS if name not in self.can.extras]:
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
                read_choice(answer)
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
            reply = await self._transport.request("POST", "/chat/completions", body, timeout=SECONDS_TO_SAY)
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
                ways = (*FORCED, *(forcing.name for forcing in list_forcings()))
                return f"{server.url} says no log-probabilities of {named}a prompt ({', '.join(ways)})"
            if server.can.forcing is not None and kind == "force":
                report_progress(f"{server.url} scores a text by writing it: a doc takes as long as its answer did")
        return None

    async def ask(self, server: CompletionsConnection, request: Request) -> Answer:
        if request.kind == "choices":
            return await self._choices(server, request)
        if request.kind == "force":
            return await self._force(server, request)
        body = build_text_request(request, seed=self.settings.seed, end=self.end, can=server.can)
        answer = _checked(await server.complete(body), request.prompt_ids)
        return read_completion(request, answer, end=self.end, **self._shared(server, request, answer))

    async def _choices(self, server: CompletionsConnection, request: Request) -> Answer:
        if request.prompt_ids is None or request.continuation_ids is None or not server.can.token_ids:
            raise RefusedError("choices need token ids")
        if request.one_token_each and await server.can_label():
            ids = [continuation[0] for continuation in request.continuation_ids]
            answer = await self._scored(server, build_label_request(request.prompt_ids, ids))
            choices = read_labels(answer, ids)
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
                    choices.append(sum_tokens(tokens))
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
                tokens = collect_tokens(ids, places, top_k)
            except ValueError as error:
                raise GarbledError(f"a response that {error}") from None
        else:
            answer = await self._scored(server, build_forced_request(prompt, ids, how, max(1, top_k)))
            meant, read = len(prompt) + len(ids), _count_places(read_choice(answer), how)
            if read is not None and read - meant not in ((0, 1) if how == "echo" else (0,)):
                raise RefusedError(f"it read {read:,} tokens of prompt, and {meant:,} were meant")
            tokens = read_prompt_tokens(answer, ids, how, top_k)
        if why := tokens.explain_impossible():
            raise GarbledError(f"a response in which {why}")
        return tokens, answer

    async def _scored(self, server: CompletionsConnection, body: dict[str, Any]) -> Json:
        return _checked(await server.complete({**server.can.extras, **body}), body["prompt"])

    def _shared(self, server: CompletionsConnection, request: Request, answer: Json) -> dict[str, Any]:
        usage, prompt_ids = read_usage(answer), request.prompt_ids
        return {
            "prompt_tokens": usage.get("prompt_tokens", None if prompt_ids is None else len(prompt_ids)),
            "cached_tokens": usage.get("cached_tokens"),
            "response_model": server.read_model_name(answer.get("model")),
        }


def _count_places(choice: Json, how: str) -> int | None:
    """The tokens of which a choice has log-probabilities; None if it has none."""
    logprobs = choice.get("logprobs")
    echoed = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
    places = echoed if how == "echo" else choice.get("prompt_logprobs")
    return len(places) if isinstance(places, list) else None


def _checked(answer: Json | str, prompt: Sequence[int] | None) -> Json:
    """Check that an answer belongs to the prompt that was sent.

    Raises:
        RefusedError: It does not.
    """
    why = answer if isinstance(answer, str) else explain_other_prompt(answer, prompt)
    if isinstance(answer, str) or why:
        raise RefusedError(why)
    return answer
