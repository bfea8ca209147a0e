"""Limits of requests and tokens a minute, of all servers together."""

from __future__ import annotations

import asyncio
import time

from meta_eval.ask.request import Request
from meta_eval.harness.answer import Answer
from meta_eval.harness.settings import Settings
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
