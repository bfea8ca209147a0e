"""Servers that speak OpenAI's ``/v1/completions``, one or several, each given so many requests at a time.

A thread runs the connections; requests go to it and answers come back through queues. Each server has as many workers
as it may have requests. What begins alike waits for the same server, which has it in its prefix cache; a worker whose
server has nothing waiting takes what waits for another: fast servers take more, and those of a dead one take none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from meta_eval.backends.base import BackendError
from meta_eval.backends.server import base
from meta_eval.backends.settings import RunSettings
from meta_eval.notes import log
from meta_eval.running import completions
from meta_eval.running.client import Ask, Client, Said, too_long
from meta_eval.running.completions import GarbledError
from meta_eval.running.connection import Connection
from meta_eval.running.prefixes import alike
from meta_eval.running.serve import Served, serve
from meta_eval.running.transport import CutError, Failed, backoff

_T = TypeVar("_T")

# Requests that lie ready for each that a server works on, so that it never waits for us.
_AHEAD = 2

# Seconds for which a run waits for its last server to come back.
_PATIENCE = 300.0

# Requests that fail, with none answered, until it is the server and not the requests.
_HOPELESS = 16


class _Job:
    """A request on its way. What was answered of it is kept: of choices each continuation may be a request."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.failures = self.turned_away = 0
        self.first_asked: float | None = None
        self.choices: list[tuple[float, bool | None]] = []


class _Jobs:
    """What waits, a lane a server."""

    def __init__(self, servers: Sequence[Connection]) -> None:
        self._lanes: dict[Connection, deque[_Job]] = {server: deque() for server in servers}
        self._last = dict.fromkeys(servers, "")
        self._waiting = asyncio.Semaphore(0)

    def put_nowait(self, job: _Job) -> None:
        """Put it where the last one began as it does; where none did, to where the fewest wait."""
        prompt = job.ask.request.prompt
        lane = max(self._lanes, key=lambda one: (alike(self._last[one], prompt), -len(self._lanes[one])))
        self._last[lane] = prompt
        self._lanes[lane].append(job)
        self._waiting.release()

    async def get(self, server: Connection) -> _Job:
        await self._waiting.acquire()
        return (self._lanes[server] or max(self._lanes.values(), key=len)).popleft()


class ServerClient(Client):
    """Completions over HTTP: of servers that are there, or of one that it starts (``serve: true``)."""

    def __init__(self, settings: RunSettings, *, model: str, logs: Path, end: Sequence[str] = ()) -> None:
        super().__init__(settings, model=model, logs=logs, end=end)
        self._served: Served | None = None
        self._servers: list[Connection] = []
        self._answered = self._hopeless = 0
        self._turned_away = False

    def __enter__(self) -> Self:
        settings = self.settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="servers", daemon=True)
        self._thread.start()
        try:
            if self.backend.starts_server(settings):
                self._served = serve(settings, self.model, self.logs)
                urls: tuple[str, ...] = (self._served.url,)
            else:
                urls = settings.base_url
            if not urls:
                raise BackendError(
                    "is not set", where="base_url",
                    hint="Name the server, such as http://localhost:8000/v1, or set `serve: true` to start one",
                )  # fmt: skip
            self._on_loop(self._connect(urls))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._on_loop(self._disconnect())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            if not self._thread.is_alive():
                self._loop.close()
        finally:
            if self._served is not None:
                self._served.stop()

    @property
    def engine(self) -> str:
        return next(one.engine for one in self._servers if one.engine)

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
                if not (kind == "choices" and await server.can_label()) and not await server.how_forced():
                    named = "named tokens or of " if kind == "choices" else ""
                    return f"{server.url} says no log-probabilities of {named}a prompt (prompt_logprobs, echo)"
            except (CutError, Failed):  # the requests themselves will tell
                continue
        return None

    def answer(self, asks: Iterable[Ask]) -> Iterator[Said]:
        left, under_way, ended = iter(asks), 0, False
        room = self.settings.concurrency * len(self._servers) * _AHEAD
        jobs = _Jobs(self._servers)
        said: queue.SimpleQueue[Said | BaseException] = queue.SimpleQueue()
        workers = self._on_loop(self._start(jobs, said))
        try:
            while True:
                # What is there goes out first: the file keeps it before the next requests are built.
                while not ended and under_way < room and said.empty():
                    ask = next(left, None)
                    if ask is None:
                        ended = True
                    elif why := too_long(ask, self.settings.max_model_len):
                        yield Said(ask.request, error=why, again=False)
                    else:
                        under_way += 1
                        self._loop.call_soon_threadsafe(jobs.put_nowait, _Job(ask))
                if not under_way:
                    return
                one = said.get()
                if isinstance(one, BaseException):
                    self._on_loop(_cancelled(workers))
                    while not said.empty():  # what was answered meanwhile is kept
                        if isinstance(other := said.get(), Said):
                            yield other
                    raise one
                under_way -= 1
                yield one
        finally:
            if self._loop.is_running():  # not where the client was left before
                self._on_loop(_cancelled(workers))

    def _on_loop(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _connect(self, urls: Sequence[str]) -> None:
        """Meet all servers; those that do not answer yet are looked for again while others work."""
        key = os.environ.get("OPENAI_API_KEY")
        self._servers = [Connection(base(url), self.settings, self._asked_for, key) for url in urls]
        met = await asyncio.gather(*(one.meet() for one in self._servers), return_exceptions=True)
        faults = [fault for fault in met if isinstance(fault, BaseException)]
        for server, fault in zip(self._servers, met, strict=True):
            if fault is None:
                server.up.set()
            elif not isinstance(fault, (CutError, Failed)):
                raise fault
            elif len(faults) < len(self._servers):
                log.warning(f"{server.url} does not answer ({fault}): the others are asked")
        if len(faults) == len(self._servers):
            hint = "Start it, or name the right address with base_url"
            raise BackendError(f"does not answer: {faults[0]}", where=self._servers[0].url, hint=hint)

    async def _disconnect(self) -> None:
        for server in self._servers:
            await server.close()
        await _cancelled([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])

    async def _start(self, jobs: _Jobs, said: queue.SimpleQueue[Said | BaseException]) -> list[asyncio.Task[None]]:
        async def guarded(work: Coroutine[Any, Any, None]) -> None:
            try:
                await work
            except Exception as error:
                said.put(error)

        tasks = []
        for server in self._servers:
            tasks.append(asyncio.create_task(guarded(self._watch(server))))
            for _ in range(self.settings.concurrency):
                tasks.append(asyncio.create_task(guarded(self._work(server, jobs, said))))
        return tasks

    async def _work(self, server: Connection, jobs: _Jobs, said: queue.SimpleQueue[Said | BaseException]) -> None:
        """One of the requests that a server may have at a time, over and over."""
        while True:
            await server.ready()
            job = await jobs.get(server)
            if not server.is_ready:
                jobs.put_nowait(job)
                continue
            job.first_asked = job.first_asked or time.time()
            try:
                done = await self._ask(server, job)
            except _RefusedError as why:
                done = self._failed(server, job, why, again=False)
            except (CutError, GarbledError, Failed) as fault:
                if isinstance(fault, CutError):
                    server.up.clear()
                if self._may_be_asked_again(job, fault):
                    await asyncio.sleep(self._pause(server, job, fault))
                    jobs.put_nowait(job)
                    continue
                done = self._failed(server, job, fault, again=True)
            self._count(server, done)
            said.put(done)

    def _failed(self, server: Connection, job: _Job, why: Exception, *, again: bool) -> Said:
        said = f"{server.url}: {why}"
        return Said(job.ask.request, error=said, again=again, started=job.first_asked, ended=time.time())

    def _may_be_asked_again(self, job: _Job, fault: Exception) -> bool:
        """Being turned away is no fault of a request, and ends only with its time."""
        if isinstance(fault, Failed) and fault.turned_away:
            if not self._turned_away:
                self._turned_away = True
                log.warning(f"turned away with {fault}: asking again when it may pass")
            job.turned_away += 1
            return time.time() - (job.first_asked or 0) < self.settings.request_timeout
        job.failures += 1
        return job.failures <= self.settings.retries

    def _pause(self, server: Connection, job: _Job, fault: Exception) -> float:
        """Seconds before a request is asked again. A server that names some is left alone for them by all."""
        if isinstance(fault, Failed) and fault.retry_after is not None:
            server.leave_alone(fault.retry_after)
            return 0.0
        # The worker sleeps: a server that is overloaded is asked less.
        return backoff(job.failures + job.turned_away)

    def _count(self, server: Connection, done: Said) -> None:
        """Where nothing at all is answered the requests are not to blame, and hours of trying help nobody.

        Raises:
            BackendError: So it is.
        """
        if done.error is None:
            self._answered += 1
        elif not self._answered:
            self._hopeless += 1
            if self._hopeless >= _HOPELESS:
                raise BackendError(
                    f"none of {self._hopeless} requests was answered; the last one: {done.error}", where=server.url
                )

    async def _watch(self, server: Connection) -> None:
        """Look after one server: when it is down, until it is up again.

        Raises:
            BackendError: It is another one now; or no server is left, and none came back.
        """
        while True:
            await server.down()
            began, attempt = time.monotonic(), 0
            while True:
                if self._served is not None and (ended := self._served.ended()) is not None:
                    raise ended
                try:
                    await server.meet()
                except (CutError, Failed) as fault:
                    if not attempt:
                        log.warning(f"{server.url} does not answer ({fault}): waiting for it")
                    patience = min(_PATIENCE, self.settings.request_timeout)
                    if time.monotonic() - began > patience and not any(one.up.is_set() for one in self._servers):
                        raise BackendError(
                            f"did not answer for {patience:.0f} seconds: {fault}", where=server.url,
                            hint="Every answer so far is kept: start it, and run the same command again",
                        ) from None  # fmt: skip
                    attempt += 1
                    await asyncio.sleep(backoff(attempt, most=30.0))
                else:
                    if attempt:
                        log.warning(f"{server.url} answers again")
                    server.up.set()
                    break

    async def _ask(self, server: Connection, job: _Job) -> Said:
        ask, can = job.ask, server.can
        if ask.request.kind == "choices":
            return await self._choices(server, job)
        if ask.request.kind == "force":
            return await self._force(server, job)
        body = completions.generation(ask, seed=self.settings.seed, end=self.end, can=can)
        answer = _checked(await server.complete(body), ask.prompt_ids)
        return completions.read_text(ask, answer, end=self.end, **self._shared(job, answer))

    async def _choices(self, server: Connection, job: _Job) -> Said:
        ask = job.ask
        if ask.prompt_ids is None or ask.continuation_ids is None or not server.can.token_ids:
            raise _RefusedError("choices need token ids")
        if ask.one_token_each and await server.can_label():
            ids = [one[0] for one in ask.continuation_ids]
            answer = await self._scored(server, completions.labels(ask.prompt_ids, ids))
            job.choices = completions.read_labels(answer, ids)
        else:
            how = await server.how_forced()
            if not how:
                raise _RefusedError("it says no log-probabilities of a prompt")
            for continuation in ask.continuation_ids[len(job.choices) :]:
                answer = await self._scored(server, completions.forced(ask.prompt_ids, continuation, how))
                job.choices.append(completions.read_forced(answer, continuation, how))
        shared = {**self._shared(job, answer), "prompt_tokens": len(ask.prompt_ids)}
        return Said(ask.request, choices=job.choices, completion_tokens=0, **shared)

    async def _force(self, server: Connection, job: _Job) -> Said:
        ask, how = job.ask, await server.how_forced()
        if ask.prompt_ids is None or not server.can.token_ids:
            raise _RefusedError("to force an answer needs token ids")
        if not how:
            raise _RefusedError("it says no log-probabilities of a prompt")
        if ask.top_k and how == "echo":
            raise _RefusedError("it names no ids of the likeliest tokens (prompt_logprobs): leave --top-k out")
        ids = ask.forced_ids
        answer = await self._scored(server, completions.forced(ask.prompt_ids, ids, how, max(1, ask.top_k)))
        found = completions.read_tokens(answer, ids, how, ask.top_k)
        shared = {**self._shared(job, answer), "prompt_tokens": len(ask.prompt_ids)}
        return Said(ask.request, forced=found, completion_tokens=len(ids), **shared)

    async def _scored(self, server: Connection, body: dict[str, Any]) -> completions.Json:
        return _checked(await server.complete({**server.can.extras, **body}), body["prompt"])

    def _shared(self, job: _Job, answer: completions.Json) -> dict[str, Any]:
        usage = completions.usage_of(answer)
        known = job.ask.prompt_ids
        return {
            "started": job.first_asked,
            "ended": time.time(),
            "prompt_tokens": usage.get("prompt_tokens", None if known is None else len(known)),
            "cached_tokens": usage.get("cached_tokens"),
        }

    @property
    def _asked_for(self) -> str:
        return self._served.name if self._served is not None else self.model


class _RefusedError(Exception):
    """What asking again does not help."""


def _checked(answer: completions.Json | str, prompt: Sequence[int] | None) -> completions.Json:
    """An answer to the very prompt that was meant.

    Raises:
        _RefusedError: It is none.
    """
    why = answer if isinstance(answer, str) else completions.other_prompt(answer, prompt)
    if isinstance(answer, str) or why:
        raise _RefusedError(why)
    return answer


async def _cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(Exception):
        await asyncio.gather(*tasks, return_exceptions=True)
