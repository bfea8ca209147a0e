"""As much of vLLM as a run asks for, without a model: what it answers follows from the prompt's token ids alone.

Put the folder of this file on PYTHONPATH. STAND_IN_SECONDS is how long each answer takes.
"""

from __future__ import annotations

import hashlib
import os
import time
from types import SimpleNamespace
from typing import Any

__version__ = "0.0.0"

# Tokens of a block of the prefix cache.
BLOCK = 4


class SamplingParams:
    def __init__(
        self,
        *,
        logprob_token_ids: list[int] | None = None,
        skip_reading_prefix_cache: bool | None = None,
        prompt_logprobs: int | None = None,
        **others: Any,
    ) -> None:
        self.logprob_token_ids, self.others = logprob_token_ids, others
        unsaid = skip_reading_prefix_cache is None
        self.reads_cache = prompt_logprobs is None if unsaid else not skip_reading_prefix_cache


class _Engine:
    vllm_config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=2))

    def __init__(self) -> None:
        self._waiting: list[tuple[str, list[int], SamplingParams]] = []
        self._cache: set[tuple[int, ...]] = set()
        self.computed = 0  # tokens

    def add_request(self, name: str, prompt: dict[str, Any], params: SamplingParams, lora_request: Any = None) -> None:
        self._waiting.append((name, prompt["prompt_token_ids"], params))

    def has_unfinished_requests(self) -> bool:
        return bool(self._waiting)

    def step(self) -> list[Any]:
        time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0")))
        name, ids, params = self._waiting.pop(0)
        letter = "ABCD"[_number(ids) % 4]
        result = params.logprob_token_ids or []
        answer = SimpleNamespace(
            finish_reason="stop", text=f"The best answer is {letter}.", token_ids=result[:1] or [1, 2, 3],
            logprobs=[{token: SimpleNamespace(logprob=_logprob([*ids, token])) for token in result}],
        )  # fmt: skip
        cached = self._cached(ids) if params.reads_cache else 0
        self.computed += len(ids) - cached
        self._cache |= {tuple(ids[:end]) for end in range(BLOCK, len(ids) + 1, BLOCK)}
        likely: list[Any] = [
            {token: SimpleNamespace(logprob=_logprob(ids[:at]), rank=1)} for at, token in enumerate(ids)
        ]
        likely[: cached + 1] = [{-1: None}] * (cached + 1)  # what was not computed is whatever lay in memory
        return [
            SimpleNamespace(
                request_id=name, finished=True, num_cached_tokens=cached, outputs=[answer], prompt_logprobs=likely
            )
        ]

    def _cached(self, ids: list[int]) -> int:
        """Whole blocks that were computed before, and never the last token."""
        ends = range(BLOCK, len(ids), BLOCK)
        return max((end for end in ends if tuple(ids[:end]) in self._cache), default=0)


class LLM:
    def __init__(self, **arguments: Any) -> None:
        self.llm_engine = _Engine()


def _number(ids: list[int]) -> int:
    return int.from_bytes(hashlib.sha256(repr(ids).encode()).digest()[:4])


def _logprob(ids: list[int]) -> float:
    return -_number(ids) / 2**32
