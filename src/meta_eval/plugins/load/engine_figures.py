"""What an engine says of itself while it works: requests that run and wait, the use of its KV pool, preemptions.

vLLM, SGLang and llama.cpp have them at ``/metrics``, in the text form of Prometheus. Where the page is missing there
are no figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from meta_eval.sockets import Connection, DataError, LogEntry, ServersClient

# By our name, theirs: vLLM (new and old), SGLang, llama.cpp.
_NAMES = {
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"),
    "pool": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage",
             "llamacpp:kv_cache_usage_ratio"),
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions", "sglang:num_retracted_reqs"),
}  # fmt: skip
_LINE = re.compile(r"^([A-Za-z_:]+)(?:\{[^}\n]*\})? ([0-9.eE+-]+)(?!\S)", re.MULTILINE)

# The largest of each figure that can be.
_LARGEST = {"running": 1e12, "waiting": 1e12, "pool": 1.0, "preemptions": 1e12}
_EVERY_S, _PATIENCE_S, _IDLE_S = 0.5, 5.0, 60.0


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """What an engine said at a time; None for a figure that it does not have."""

    time: float
    """Seconds since 1970."""

    running: float | None = None
    """Requests that run."""

    waiting: float | None = None
    """Requests that wait."""

    pool: float | None = None
    """The share of the KV pool that is in use, 0 to 1."""

    preemptions: float | None = None
    """Requests that lost their place in the pool, since the engine began."""


def parse_metrics(page: str, at: float) -> EngineFigures | None:
    """Read a page of metrics, summed over engines but for the pool, of which the largest use counts; None without one
    of these figures. What cannot be is left out, such as a share above 1."""
    found: dict[str, float] = {}
    for name, value in _LINE.findall(page):
        for ours, theirs in _NAMES.items():
            if name in theirs:
                with contextlib.suppress(ValueError):
                    number = float(value)
                    before = found.get(ours, 0.0)
                    merged = max(before, number) if ours == "pool" else before + number
                    if number >= 0 and merged <= _LARGEST[ours]:
                        found[ours] = merged
    return EngineFigures(at, **found) if found else None


def read_engine_figures(kept: LogEntry) -> EngineFigures:
    """Read figures that were kept, as `dataclasses.asdict` gives them.

    Raises:
        DataError: One is none that `parse_metrics` gives.
    """
    at, values = kept.find_number("time"), {name: kept.find_number(name) for name in _LARGEST}
    if at is None or any(not 0 <= value <= _LARGEST[name] for name, value in values.items() if value is not None):
        raise DataError("are no figures of an engine", where=kept.where)
    return EngineFigures(at, **values)


class Watch:
    """Asks servers for their figures twice a second, inside the ``with`` block. It ends at a server without any.

    Args:
        client: The open client of the servers.

    Attributes:
        figures: What they said, in order.
    """

    def __init__(self, client: ServersClient[Any]) -> None:
        self.figures: list[EngineFigures] = []
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="figures", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(_PATIENCE_S)

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._watch())
        self._loop.close()

    async def _watch(self) -> None:
        servers = self._client.connect_again()
        try:
            await asyncio.gather(*map(self._read, servers))
        finally:
            for server in servers:
                await server.close()

    async def _read(self, server: Connection) -> None:
        while (page := await server.read_page("/metrics")) is not None:
            figures = parse_metrics(page, time.time())
            if figures is None:
                return
            self.figures.append(figures)
            await asyncio.sleep(_EVERY_S)


def wait_until_idle(client: ServersClient[Any], patience: float) -> bool:
    """Wait until no request runs or waits at any server. A server without figures gets so much time.

    Args:
        client: The open client of the servers.
        patience: How long an answer may take, seconds. A server with figures gets `_IDLE_S` at least.

    Returns: Whether they are idle, or said nothing.
    """
    return asyncio.run(_wait_until_idle(client, patience))


async def _wait_until_idle(client: ServersClient[Any], patience: float) -> bool:
    async def wait(server: Connection) -> bool:
        began = time.monotonic()
        while True:
            page = await server.read_page("/metrics")
            figures = parse_metrics(page, time.time()) if page is not None else None
            if figures is None or figures.running is None:
                await asyncio.sleep(max(0.0, patience - (time.monotonic() - began)))
                return True
            if not figures.running and not figures.waiting:
                return True
            if time.monotonic() - began > max(patience, _IDLE_S):
                return False
            await asyncio.sleep(_EVERY_S)

    servers = client.connect_again()
    try:
        return all(await asyncio.gather(*map(wait, servers)))
    finally:
        for server in servers:
            await server.close()
