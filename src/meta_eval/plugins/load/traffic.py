"""Made-up requests that fill a server beside the docs of a level.

Prompts are of four kinds in turn: long and unique; behind a beginning that others have too; short with a long answer;
short with a short answer. Some are given up before their answer. All are drawn by number from a seed, so that the same
load can be made again, and the texts are known without being kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from meta_eval.ask.request_kinds import encode_requests
from meta_eval.ask.transport import CutError, Failed, GarbledError
from meta_eval.base.hashing import hash_text
from meta_eval.sockets import BackendError, Encoder, RefusedError, Request, ServersClient, log

_WORDS = (
    "amber", "anvil", "apron", "badge", "barley", "basket", "beacon", "bellows", "bishop", "bobbin", "brook",
    "bucket", "candle", "canyon", "cedar", "chisel", "cinder", "clover", "cobalt", "compass", "copper", "cradle",
    "crane", "cricket", "dagger", "daisy", "delta", "drizzle", "ember", "falcon", "fathom", "fennel", "ferry",
    "flint", "gable", "garnet", "ginger", "glacier", "granite", "hammer", "harbour", "hazel", "heron", "hollow",
    "ivory", "jasmine", "kettle", "ladder", "lantern", "ledger", "lichen", "lobster", "magnet", "maple", "marble",
    "meadow", "mortar", "mustard", "nectar", "needle", "nickel", "oatmeal", "onyx", "orchard", "otter", "paddle",
    "parsley", "pebble", "pewter", "plover", "quarry", "quartz", "quiver", "raven", "ribbon", "rivet", "saddle",
    "saffron", "sandal", "sickle", "sparrow", "spindle", "spruce", "tallow", "tartan", "thicket", "thimble", "timber",
    "trellis", "tulip", "turnip", "umber", "velvet", "violet", "walnut", "whistle", "willow", "zephyr",
)  # fmt: skip

# Words and the most tokens of an answer, of each kind.
_LONG, _SHARED, _SHORT = 220, 160, 12
_TOKENS = (48, 48, 384, 8)

# Seconds after which a request is given up at most; and seconds after one that failed.
_LONGEST, _AFTER = 2.0, 0.5


def make_prompt(seed: str, number: int, context: int) -> tuple[str, int]:
    """The prompt of a number, and the most tokens of its answer.

    Args:
        seed: Of all prompts.
        number: Of this one.
        context: Tokens that the server reads and writes at most. A word has about three.
    """
    long, shared_words = min(_LONG, context // 8), min(_SHARED, context // 10)
    rng = random.Random(hash_text(f"{seed} {number}"))  # noqa: S311 (no secret)
    kind = number % len(_TOKENS)
    shared = random.Random(hash_text(f"{seed} beginning {number // 4 % 3}"))  # noqa: S311
    if kind == 0:
        text = f"Copy the words that begin with a vowel: {_draw(rng, long)}. The words are:"
    elif kind == 1:
        text = f"Here is a list: {_draw(shared, shared_words)}. Count how often it has {_draw(rng, 3)}. The count is"
    elif kind == 2:
        text = f"Tell a long story about {_draw(rng, _SHORT)}. It begins so:"
    else:
        text = f"Say one word that goes with {_draw(rng, 4)}:"
    return text, min(_TOKENS[kind], context // 4)


def _draw(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(words))


def make_requests(
    seed: str, kind: str, numbers: Iterator[int], encoder: Encoder | None, context: int
) -> Iterator[Request]:
    """Requests with these prompts, ready to be sent.

    Args:
        seed: Of the prompts.
        kind: ``generate`` or ``chat``.
        numbers: Of the prompts.
        encoder: Makes token ids of texts; None where the server reads the texts.
        context: As of `make_prompt`.
    """
    for number in numbers:
        text, tokens = make_prompt(seed, number, context)
        prompt = text if kind == "generate" else json.dumps({"messages": [{"role": "user", "content": text}]})
        settings = {"temperature": 1.0, "do_sample": True, "seed": number}
        request = Request(f"traffic/{number}", "traffic", number, 0, kind, prompt, (), tokens, settings)
        yield next(encode_requests([request], encoder))


@dataclass(slots=True)
class Counted:
    """What became of the made-up requests."""

    begun: int = 0
    """Prompts that were drawn, from 0 on."""

    answered: int = 0
    """Requests with an answer."""

    given_up: int = 0
    """Requests that were given up."""

    failed: int = 0
    """Requests that the server refused or could not answer."""


class Traffic:
    """Keeps so many made-up requests in flight at each server, inside the ``with`` block.

    Args:
        client: The open client of the servers.
        kind: ``generate`` or ``chat``.
        encoder: Of the model; None where the server reads texts.
        number: Requests in flight at each server.
        abort: The share that is given up.
        seed: Of the prompts.

    Attributes:
        counted: What became of them.
        slowest: The longest time of an answer, seconds.
    """

    def __init__(
        self, client: ServersClient[Any], kind: str, encoder: Encoder | None, number: int, abort: float, seed: str
    ) -> None:
        self._client, self._number, self._abort = client, number, abort
        self._rng = random.Random(hash_text(seed))  # noqa: S311 (no secret)
        self.counted = Counted()
        self.slowest = 0.0
        context = client.settings.max_model_len
        self._requests = make_requests(seed, kind, iter(self._numbers()), encoder, context)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._full = threading.Event()

    def _numbers(self) -> Iterator[int]:
        while True:
            self.counted.begun += 1
            yield self.counted.begun - 1

    def __enter__(self) -> Self:
        if self._number:
            self._thread.start()
            self._full.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._number:
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join(10)
        if not self._loop.is_running():
            self._loop.close()

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._main = self._loop.create_task(self._fill())
            self._loop.run_until_complete(self._main)

    def _stop(self) -> None:
        self._main.cancel()

    async def _fill(self) -> None:
        servers = self._client.connect_again()
        try:
            for server in servers:
                await server.meet()
            workers = [self._work(server) for server in servers for _ in range(self._number)]
            self._loop.call_later(0.2, self._full.set)
            await asyncio.gather(*workers)
        except (BackendError, CutError, Failed) as error:
            log.warning(f"no made-up requests: {error}")
        finally:
            self._full.set()
            for server in servers:
                await server.close()

    async def _work(self, server: Any) -> None:
        while True:
            request = next(self._requests)
            gives_up = self._rng.random() < self._abort
            patience = self._rng.uniform(0.02, _LONGEST) if gives_up else None
            began = time.monotonic()
            try:
                await asyncio.wait_for(self._client.ask(server, request), patience)
            except TimeoutError:
                self.counted.given_up += 1
            except (RefusedError, CutError, GarbledError, Failed):
                self.counted.failed += 1
                await asyncio.sleep(max(0.0, _AFTER - (time.monotonic() - began)))
            else:
                self.counted.answered += 1
                self.slowest = max(self.slowest, time.monotonic() - began)
