"""Repeats requests until they are answered or have failed for good."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from meta_eval.ask.request import Request
from meta_eval.base.logs import log
from meta_eval.harness.answer import Answer

# Seconds before each round of requests. Requests that failed together, for example during a restart of the server, may
# succeed later.
ROUNDS = (0, 2, 10)


def ask_in_rounds(
    ask: Callable[[Iterable[Request]], Iterator[tuple[Request, Answer]]],
    requests: Iterable[Request],
) -> Iterator[Answer]:
    """Give the final answer or failure of each request.

    Args:
        ask: Sends requests.
        requests: All requests.
    """
    for number, wait in enumerate(ROUNDS):
        time.sleep(wait)
        retries: list[Request] = []
        for request, answer in ask(requests):
            if answer.error is not None and answer.retry and number + 1 < len(ROUNDS):
                retries.append(request.without_ids())
            else:
                yield answer
        if not retries:
            return
        log.warning(f"{len(retries):,} requests failed and are retried; the first is {retries[0].id}")
        requests = retries
