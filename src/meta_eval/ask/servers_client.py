"""The client of HTTP servers of any protocol, with a number of concurrent requests to each.

A thread runs the connections; queues carry requests and answers. Each server has a worker per concurrent request.
Requests with a shared prefix wait for the same server, for its prefix cache. A worker without waiting requests takes
those of another server. So fast servers do more, and dead servers nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from meta_eval.ask.client import Client, explain_too_long
from meta_eval.ask.connection import Connection
from meta_eval.ask.pending_requests import count_shared_blocks
from meta_eval.ask.request import Request
from meta_eval.ask.served import Served
from meta_eval.ask.transport import CUT_BODY, CutError, Failed, GarbledError, draw_backoff
from meta_eval.base.hashing import hash_address
from meta_eval.base.logs import log
from meta_eval.harness.answer import Answer
from meta_eval.harness.settings import RunSettings, Settings
from meta_eval.pack.backends.base import BackendError
from meta_eval.pack.prompt_lengths import BYTES_PER_TOKEN

# Seconds after which a waiting request looks again: answers may have used fewer tokens than expected.
_LOOK = 0.2


class _Pace:
    """Spaces amounts evenly: no minute has more than the limit, and the last amount."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds = 0.0 if per_minute is None else 60.0 / per_minute
        self._free_at = 0.0

    def wait_s(self) -> float:
        """Seconds until the next amount is free."""
        return self._free_at - time.monotonic()

    def take(self, amount: float) -> None:
        """Take an amount."""
        self._free_at = max(self._free_at, time.monotonic()) + amount * self._seconds

    def correct(self, amount: float) -> None:
        """Take so much more; less, if it is negative."""
        self._free_at += amount * self._seconds


class RateLimit:
    """Lets requests go, in the order in which they come, at the limits of some settings.

    Tokens of a prompt are estimated from its length, those of an answer from earlier answers, at first from its limit.
    Once an answer is there, its own count is used.
    """

    def __init__(self, settings: Settings) -> None:
        self._is_on = settings.requests_per_minute is not None or settings.tokens_per_minute is not None
        self._requests, self._tokens = _Pace(settings.requests_per_minute), _Pace(settings.tokens_per_minute)
        self._turn = asyncio.Lock()
        self._answers = self._written = 0

    async def wait(self, request: Request) -> float:
        """Wait until a request may be sent.

        Returns: The tokens that it was expected to use.
        """
        if not self._is_on:
            return 0.0
        async with self._turn:
            while (left := max(self._requests.wait_s(), self._tokens.wait_s())) > 0:
                await asyncio.sleep(min(left, _LOOK))
            expected = self._expect(request)
            self._requests.take(1)
            self._tokens.take(expected)
            return expected

    def settle(self, expected: float, answer: Answer) -> None:
        """Replace the expected tokens of a request by those that it used, where the server counts them."""
        if self._is_on and answer.prompt_tokens is not None and answer.completion_tokens is not None:
            self._answers += 1
            self._written += answer.completion_tokens
            self._tokens.correct(answer.prompt_tokens + answer.completion_tokens - expected)

    def _expect(self, request: Request) -> float:
        prompt = len(request.prompt.encode("utf-8", "replace")) / BYTES_PER_TOKEN
        return prompt + (self._written / self._answers if self._answers else request.max_tokens)


_T = TypeVar("_T")
_Server = TypeVar("_Server", bound=Connection)

# Requests ready for each that a server works on, so that it never waits.
_AHEAD = 2

# Seconds that a run waits for its last server to come back.
_PATIENCE = 300.0

# Failures without any success after which the server is to blame, not the requests.
_HOPELESS = 16


class RefusedError(Exception):
    """A failure that a retry cannot help."""


@dataclass(slots=True)
class _Job:
    """A request in progress: how often it failed or was turned away, and when it was first asked."""

    request: Request
    failures: int = 0
    turned_away: int = 0
    first_asked: float | None = None


class _Jobs:
    """Waiting requests, in a lane per server."""

    def __init__(self, servers: Sequence[Connection]) -> None:
        self._lanes: dict[Connection, deque[_Job]] = {server: deque() for server in servers}
        self._last = dict.fromkeys(servers, "")
        self._waiting = asyncio.Semaphore(0)

    def put_nowait(self, job: _Job) -> None:
        """Put a request into the lane with a shared prefix, else into the shortest lane."""
        prompt = job.request.prompt
        lane = max(
            self._lanes, key=lambda server: (count_shared_blocks(self._last[server], prompt), -len(self._lanes[server]))
        )
        self._last[lane] = prompt
        self._lanes[lane].append(job)
        self._waiting.release()

    async def get(self, server: Connection) -> _Job:
        await self._waiting.acquire()
        return (self._lanes[server] or max(self._lanes.values(), key=len)).popleft()


def _name_kind(fault: Exception) -> str:
    """What a request is asked again for, in a few words."""
    words = str(fault)
    if isinstance(fault, CutError):
        return "half a body" if words == CUT_BODY else "closed connection"
    if isinstance(fault, GarbledError):
        return "cut stream" if words.startswith("a stream") else "answer in the wrong form"
    return words[:3] if words[:3].isdecimal() else "no answer in time"


class ServersClient(Client, Generic[_Server]):
    """Sends requests to HTTP servers: existing servers, or a server that it starts (``serve: true``).

    A backend for another protocol implements `connect` and `ask`. This class distributes requests, at most
    ``concurrency`` at a time for each server, and retries them.
    """

    @abstractmethod
    def connect(self, url: str, model: str, key: str | None) -> _Server:
        """Make a connection to a server.

        Args:
            url: Its address in `base_url`.
            model: The model to request.
            key: The API key; None for none.
        """

    @abstractmethod
    async def ask(self, server: _Server, request: Request) -> Answer:
        """Send a request to a server, once. An answer without ``started`` and ``ended`` gets the times of all attempts.

        Raises:
            RefusedError: It will never answer it.
            CutError, GarbledError, Failed: It did not answer, and a retry may help.
            BackendError: It will not answer any of our requests.
        """

    def start_server(self) -> Served | None:
        """Start the server of this run; None if it exists already."""
        return None

    def connect_again(self) -> list[_Server]:
        """Further connections to the same servers, inside the ``with`` block, in the event loop of the caller."""
        key = read_key(self.settings.api_key_env)
        return [self.connect(server.url, self._asked_for, key) for server in self._servers]

    def __init__(self, settings: RunSettings, *, model: str, logs: Path, end: Sequence[str] = ()) -> None:
        super().__init__(settings, model=model, logs=logs, end=end)
        self._served: Served | None = None
        self._servers: list[_Server] = []
        self._answered = self._hopeless = 0
        self._turned_away = False
        self._retries: Counter[str] = Counter()
        self._endpoints: dict[_Server, str] = {}
        self._named_another = False
        self._limit = RateLimit(settings)

    def __enter__(self) -> Self:
        settings = self.settings
        self._loop = asyncio.new_event_loop()
        # A request that fails says so itself; asyncio would write a traceback, too, where memory runs out.
        self._loop.set_exception_handler(lambda *_: None)
        self._thread = threading.Thread(target=self._run_loop, name="servers", daemon=True)
        self._thread.start()
        try:
            self._served = self.start_server()
            urls = settings.base_url if self._served is None else (self._served.url,)
            if not urls:
                engine = self.backend.args_of if self.backend.can_serve else ""
                start = f"; or let the run start {engine} with `serve: true`" if engine else ""
                printed = " (`meta-eval prepare` prints the command)" if self.backend.can_serve else ""
                hint = f"Start a server{printed} and name its address, such as http://localhost:8000/v1{start}"
                raise BackendError("is not set", where="base_url", hint=hint)
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

    def summarise(self) -> Mapping[str, Any]:
        return {"retries": dict(sorted(self._retries.items()))} if self._retries else {}

    @property
    def engine(self) -> str:
        return next(server.engine for server in self._servers if server.engine)

    def answer(self, requests: Iterable[Request]) -> Iterator[Answer]:
        left, under_way, ended = iter(requests), 0, False
        room = self.settings.concurrency * len(self._servers) * _AHEAD
        jobs = _Jobs(self._servers)
        answers: queue.SimpleQueue[Answer | BaseException] = queue.SimpleQueue()
        workers = self._on_loop(self._start(jobs, answers))
        try:
            while True:
                # Yield finished answers first, so that they are kept before the next requests are built.
                while not ended and under_way < room and answers.empty():
                    request = next(left, None)
                    if request is None:
                        ended = True
                    elif why := explain_too_long(request, self.settings.max_model_len):
                        yield request.answer(error=why, retry=False)
                    else:
                        under_way += 1
                        self._loop.call_soon_threadsafe(jobs.put_nowait, _Job(request))
                if not under_way:
                    return
                answer = answers.get()
                if isinstance(answer, BaseException):
                    yield from self._stop_asking(workers, answers)
                    raise answer
                under_way -= 1
                yield answer
        except KeyboardInterrupt:
            yield from self._stop_asking(workers, answers)
            raise
        finally:
            if self._loop.is_running():  # unless the client was already closed
                self._on_loop(_cancelled(workers))

    def _stop_asking(self, workers: Any, answers: queue.SimpleQueue[Answer | BaseException]) -> Iterator[Answer]:
        """What was answered meanwhile, which is kept."""
        self._on_loop(_cancelled(workers))
        while not answers.empty():
            if isinstance(answer := answers.get(), Answer):
                yield answer

    def _run_loop(self) -> None:
        """Run the loop until it is stopped, also where the code of another package ends the program: the caller gets
        that exception, and nobody waits for ever."""
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                continue
            return

    def _on_loop(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _connect(self, urls: Sequence[str]) -> None:
        """Connect to all servers; those that do not answer yet are retried while others work."""
        key = read_key(self.settings.api_key_env)
        self._servers = [self.connect(url, self._asked_for, key) for url in urls]
        self._endpoints = dict(zip(self._servers, map(hash_address, urls), strict=True))
        met = await asyncio.gather(*(server.meet() for server in self._servers), return_exceptions=True)
        faults = [fault for fault in met if isinstance(fault, BaseException)]
        for server, fault in zip(self._servers, met, strict=True):
            if fault is None:
                server.up.set()
            elif isinstance(fault, GarbledError):
                raise BackendError(
                    f"is not the kind of server that backend {self.backend.name} asks: {fault}",
                    where=server.url,
                    hint="Name the right address with base_url, or another backend",
                )
            elif not isinstance(fault, (CutError, Failed)):
                raise fault
            elif len(faults) < len(self._servers):
                log.warning(f"{server.url} does not answer ({fault}): using the other servers")
        if len(faults) == len(self._servers):
            hint = "Start it, or name the right address with base_url"
            raise BackendError(f"does not answer: {faults[0]}", where=self._servers[0].url, hint=hint)

    async def _disconnect(self) -> None:
        for server in self._servers:
            await server.close()
        await _cancelled([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])

    async def _start(self, jobs: _Jobs, answers: queue.SimpleQueue[Answer | BaseException]) -> list[asyncio.Task[None]]:
        async def guarded(work: Coroutine[Any, Any, None]) -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                answers.put(error)

        tasks = []
        for server in self._servers:
            tasks.append(asyncio.create_task(guarded(self._watch(server))))
            for _ in range(self.settings.concurrency):
                tasks.append(asyncio.create_task(guarded(self._work(server, jobs, answers))))
        return tasks

    async def _work(self, server: _Server, jobs: _Jobs, answers: queue.SimpleQueue[Answer | BaseException]) -> None:
        """A worker: sends requests to a server, one after another."""
        while True:
            await server.wait_until_ready()
            job = await jobs.get(server)
            if not server.is_ready:
                jobs.put_nowait(job)
                continue
            expected = await self._limit.wait(job.request)
            job.first_asked = job.first_asked or time.time()
            try:
                done = self._attribute(server, job, await self.ask(server, job.request))
                self._limit.settle(expected, done)
            except RefusedError as why:
                done = self._failed(server, job, why, retry=False)
            except (CutError, GarbledError, Failed) as fault:
                if isinstance(fault, CutError):
                    server.up.clear()
                if self._may_be_asked_again(job, fault):
                    self._retries[_name_kind(fault)] += 1
                    await asyncio.sleep(self._pause(server, job, fault))
                    jobs.put_nowait(job)
                    continue
                done = self._failed(server, job, fault, retry=True)
            self._count(server, done)
            answers.put(done)

    def _attribute(self, server: _Server, job: _Job, answer: Answer) -> Answer:
        """Say when and which address answered, and on stderr the first time that an answer names another model. A
        server of the run's own has one model, whatever it calls it."""
        if answer.started is None:
            answer = replace(answer, started=job.first_asked, ended=time.time())
        if self._served is not None:
            return replace(answer, response_model=None)
        if answer.response_model not in (None, self.model) and not self._named_another:
            self._named_another = True
            log.warning(f"{server.url}: asked for {self.model}, and an answer names {answer.response_model}")
        return replace(answer, endpoint=self._endpoints[server])

    def _failed(self, server: _Server, job: _Job, why: Exception, *, retry: bool) -> Answer:
        message = f"{server.url}: {why}"
        return job.request.answer(error=message, retry=retry, started=job.first_asked, ended=time.time())

    def _may_be_asked_again(self, job: _Job, fault: Exception) -> bool:
        """Whether to retry a request. A request that was turned away is retried until its time is over."""
        if isinstance(fault, Failed) and fault.turned_away:
            if not self._turned_away:
                self._turned_away = True
                log.warning(f"rejected with {fault}: retrying later")
            job.turned_away += 1
            return time.time() - (job.first_asked or 0) < self.settings.request_timeout
        job.failures += 1
        return job.failures <= self.settings.retries

    def _pause(self, server: _Server, job: _Job, fault: Exception) -> float:
        """Seconds before a retry. If the server names a time, all workers wait so long."""
        if isinstance(fault, Failed) and fault.retry_after is not None:
            server.pause(fault.retry_after)
            return 0.0
        # The worker sleeps, so an overloaded server gets fewer requests.
        return draw_backoff(job.failures + job.turned_away)

    def _count(self, server: _Server, done: Answer) -> None:
        """Give up if nothing at all is answered: the requests are not to blame, and retries cannot help.

        Raises:
            BackendError: Nothing is answered.
        """
        if done.error is None:
            self._answered += 1
        elif not self._answered:
            self._hopeless += 1
            if self._hopeless >= _HOPELESS:
                raise BackendError(
                    f"none of {self._hopeless} requests was answered; the last error: {done.error}", where=server.url,
                    hint="Look into the server's log, then rerun the same command",
                )  # fmt: skip

    async def _watch(self, server: _Server) -> None:
        """Watch a server; when it is down, wait until it is up again.

        Raises:
            BackendError: It changed its engine or model; or no server is left, and none came back.
        """
        while True:
            await server.wait_until_down()
            began, attempt = time.monotonic(), 0
            while True:
                if self._served is not None and (ended := self._served.ended()) is not None:
                    raise ended
                try:
                    await server.meet()
                except (CutError, GarbledError, Failed) as fault:
                    if not attempt:
                        log.warning(f"{server.url} does not answer ({fault}): waiting for it")
                    patience = min(_PATIENCE, self.settings.request_timeout)
                    if time.monotonic() - began > patience and not any(other.up.is_set() for other in self._servers):
                        raise BackendError(
                            f"did not answer for {patience:.0f} seconds: {fault}", where=server.url,
                            hint="Start it again",
                        ) from None  # fmt: skip
                    attempt += 1
                    await asyncio.sleep(draw_backoff(attempt, most=30.0))
                else:
                    if attempt:
                        log.warning(f"{server.url} answers again")
                    server.up.set()
                    break

    @property
    def _asked_for(self) -> str:
        return self._served.name if self._served is not None else self.model


def read_key(variable: str) -> str | None:
    """Read the API key of an environment variable; None without one.

    Raises:
        BackendError: It cannot be sent, or a variable other than the default is not set.
    """
    key = os.environ.get(variable, "").strip()
    if not key and variable != Settings.model_fields["api_key_env"].default:
        raise BackendError(
            "is not set", where=f"the environment variable {variable}", hint="Set it, or leave api_key_env out"
        )
    if not key.isascii() or not key.isprintable():
        raise BackendError(
            "holds a character that no key has", where=f"the environment variable {variable}", hint="Copy the key again"
        )
    return key or None


async def _cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(Exception):
        await asyncio.gather(*tasks, return_exceptions=True)
