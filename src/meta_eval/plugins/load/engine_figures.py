"""What an engine says of itself while it works: requests that run and wait, the use of its KV pool, preemptions.

vLLM, SGLang and llama.cpp have them at ``/metrics``, in the text form of Prometheus. Where the page is missing there
are no figures.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

# By our name, theirs: vLLM (new and old), SGLang, llama.cpp.
_NAMES = {
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"),
    "pool": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage",
             "llamacpp:kv_cache_usage_ratio"),
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions", "sglang:num_retracted_reqs"),
}  # fmt: skip
_LINE = re.compile(r"^([A-Za-z_:]+)(?:\{[^}]*\})? ([0-9.eE+-]+)", re.MULTILINE)
_MOST_BYTES, _EVERY_S, _PATIENCE_S = 4 << 20, 0.5, 5.0


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
    of these figures."""
    found: dict[str, float] = {}
    for name, value in _LINE.findall(page):
        for ours, theirs in _NAMES.items():
            if name in theirs:
                with contextlib.suppress(ValueError):
                    number = float(value)
                    if 0 <= number < 1e12:
                        found[ours] = (
                            max(found.get(ours, 0.0), number) if ours == "pool" else found.get(ours, 0) + number
                        )
    return EngineFigures(at, **found) if found else None


def read_metrics(url: str) -> EngineFigures | None:
    """Ask a server; None where it does not say.

    Args:
        url: Its address, with ``/v1`` if it has that.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return None
    root = parts.path.rstrip("/").removesuffix("/v1")
    try:
        address = f"{parts.scheme}://{parts.netloc}{root}/metrics"
        with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:  # noqa: S310 (http alone, see above)
            page = answer.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return None
    return parse_metrics(page, time.time())


class Watch:
    """Asks servers for their figures twice a second, inside the ``with`` block. It ends at a server without any.

    Attributes:
        figures: What they said, in order.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.figures: list[EngineFigures] = []
        self._urls = tuple(urls)
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(url,), daemon=True) for url in self._urls]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(_PATIENCE_S)

    def _run(self, url: str) -> None:
        while (figures := read_metrics(url)) is not None:
            self.figures.append(figures)
            if self._end.wait(_EVERY_S):
                return
