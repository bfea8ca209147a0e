"""Runs vLLM in this process, and yields each answer as soon as it is finished.

``LLM.generate`` returns nothing before its last answer. So its engine is stepped here, and each answer is on disk as
soon as it is done.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meta_eval.ask.served import diagnose_engine
from meta_eval.harness.settings import read_model_args
from meta_eval.plugins.engines.output import redirect_output
from meta_eval.plugins.engines.vllm.serve import VLLM_EXTRA
from meta_eval.sockets import Answer, BackendError, Client, Request, RunSettings, explain_too_long

# Requests in the engine for each that it works on, so that it never waits.
_AHEAD = 2


@dataclass(slots=True)
class _Open:
    """A request in progress, with the results of its parts. Each continuation of choices may be a part."""

    request: Request
    parts: int
    started: float
    done: dict[int, Any] = field(default_factory=dict)


class VllmClient(Client):
    """vLLM in this process.

    Choices of a single token need one prefill: the engine returns the log-probabilities of their ids
    (``logprob_token_ids``). Other choices need a prefill per continuation, with the context from the prefix cache. By
    default vLLM skips the cache with ``prompt_logprobs``, because cached tokens have none; here only those after the
    context are needed. If the cache held more than the context, the continuation is repeated without the cache. A
    forced text needs one prefill (``prompt_logprobs``); the answer's part is kept.
    """

    def __init__(self, settings: RunSettings, *, model: str, logs: Path, end: Sequence[str] = ()) -> None:
        super().__init__(settings, model=model, logs=logs, end=end)
        self._log = logs / "vllm.log"
        self._numbers = itertools.count()
        self._reading_cache: dict[str, Any] = {}  # the parameter that allows cache reads with prompt_logprobs

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        # vLLM logs to stdout otherwise, which is for machines.
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
        try:
            with redirect_output(self._log):
                import vllm

                self._version = vllm.__version__
                self._params = vllm.SamplingParams
                self._lora = self._lora_request()
                self._llm = vllm.LLM(**self._arguments())
        except ModuleNotFoundError as error:
            raise BackendError(
                f"{error.name} is not installed", where="backend vllm", hint=f"pip install {VLLM_EXTRA}"
            ) from None
        except Exception as error:
            raise diagnose_engine(error, self._log, where="backend vllm") from error
        self._engine = self._llm.llm_engine
        parameters = signature(self._params).parameters
        self._can_ask_ids = "logprob_token_ids" in parameters
        self._reading_cache = {"skip_reading_prefix_cache": False} if "skip_reading_prefix_cache" in parameters else {}
        # Lists of numbers instead of an object for each token of a prompt.
        self._flat = "flat_logprobs" in parameters
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Shut it down now: at exit its threads may outlive the interpreter and abort.
        core = getattr(getattr(self, "_engine", None), "engine_core", None)
        with contextlib.suppress(Exception), redirect_output(self._log):
            if core is not None:
                core.shutdown()

    @property
    def engine(self) -> str:
        return f"vllm {self._version}"

    def answer(self, requests: Iterable[Request]) -> Iterator[Answer]:
        room = self._engine.vllm_config.scheduler_config.max_num_seqs * _AHEAD
        left = iter(requests)
        owners: dict[str, tuple[_Open, int]] = {}
        ended = False
        while True:
            while not ended and len(owners) < room:
                request = next(left, None)
                if request is None:
                    ended = True
                else:
                    refused = self._add(request, owners)
                    if refused is not None:
                        yield refused
            if not owners:
                return
            if not self._engine.has_unfinished_requests():
                raise BackendError(f"vLLM lost {len(owners):,} requests", where="backend vllm")
            try:
                outputs = self._engine.step()
            except Exception as error:
                raise diagnose_engine(error, self._log, where="backend vllm") from error
            for output in outputs:
                if output.finished and output.request_id in owners:
                    opened, part = owners.pop(output.request_id)
                    if self._lacks_its_own(opened.request, output):
                        ids, params = list(self._parts(opened.request, cached=False))[part]
                        owners[self._enqueue(ids, params)] = opened, part
                        continue
                    opened.done[part] = output
                    if len(opened.done) == opened.parts:
                        yield self._make_answer(opened)

    def _add(self, request: Request, owners: dict[str, tuple[_Open, int]]) -> Answer | None:
        """Add a request to the engine; return its refusal, if any."""
        now = time.time()
        why = explain_too_long(request, self.settings.max_model_len)
        if why is not None:
            return request.answer(error=why, retry=False)
        parts = list(self._parts(request))
        opened = _Open(request, len(parts), now)
        for part, (ids, params) in enumerate(parts):
            try:
                name = self._enqueue(ids, params)
            except ValueError as error:  # vLLM's validation errors are ValueErrors
                return request.answer(error=f"vLLM refuses it: {error}"[:500], retry=False)
            owners[name] = opened, part
        return None

    def _enqueue(self, ids: list[int], params: Any) -> str:
        prompt = {"prompt_token_ids": ids}
        if hasattr(self._llm, "enqueue"):
            (name,) = self._llm.enqueue([prompt], params, lora_request=self._lora, use_tqdm=False)
            return str(name).partition("-")[0]  # outputs lack the suffix
        name = str(next(self._numbers))  # older engines
        self._engine.add_request(name, prompt, params, lora_request=self._lora)
        return name

    def _lacks_its_own(self, request: Request, output: Any) -> bool:
        """Whether log-probabilities of a continuation are missing because the cache held some of its tokens."""
        if request.kind != "choices" or self._in_one_pass(request) or not self._reading_cache:
            return False
        # The context's last token predicts the continuation's first, so it must have been computed.
        return (output.num_cached_tokens or 0) >= len(request.prompt_ids or ())

    def _parts(self, request: Request, *, cached: bool = True) -> Iterator[tuple[list[int], Any]]:
        """Token ids and parameters of each prompt of a request.

        Args:
            request: The request.
            cached: Read contexts from the prefix cache.
        """
        prompt = list(request.prompt_ids or ())
        if request.kind == "generate":
            yield prompt, self._params(**self._sampling(request))
        elif request.kind == "force":
            yield [*prompt, *request.forced_ids], self._params(**self._forcing(request))
        elif self._in_one_pass(request):
            ids = [continuation[0] for continuation in request.continuation_ids or ()]
            yield (
                prompt,
                self._params(max_tokens=1, temperature=0, logprob_token_ids=ids, detokenize=False),
            )
        else:
            reading = self._reading_cache if cached else {}
            for continuation in request.continuation_ids or ():
                params = self._params(max_tokens=1, temperature=0, prompt_logprobs=1, detokenize=False, **reading)
                yield [*prompt, *continuation], params

    def _in_one_pass(self, request: Request) -> bool:
        return self._can_ask_ids and request.one_token_each

    def _forcing(self, request: Request) -> dict[str, Any]:
        """The parameters for forcing. vLLM returns ranks and likeliest tokens for the whole prompt only
        (``prompt_logprob_start`` needs named ids and returns no ranks)."""
        return {
            "max_tokens": 1, "temperature": 0, "prompt_logprobs": max(1, request.top_k), "detokenize": False,
            **({"flat_logprobs": True} if self._flat else {}),
        }  # fmt: skip

    def _sampling(self, request: Request) -> dict[str, Any]:
        """Make sampling parameters as lm-eval does: greedy unless do_sample, special tokens kept."""
        stop = [*request.stop, *self.end]
        return {
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            **request.sampling,
            "max_tokens": request.max_tokens,
            "stop": list(dict.fromkeys(stop)),
        }

    def _make_answer(self, opened: _Open) -> Answer:
        request, ended = opened.request, time.time()
        outputs = [opened.done[part] for part in range(opened.parts)]
        first = outputs[0]
        shared: dict[str, Any] = {
            "started": opened.started,
            "ended": ended,
            "prompt_tokens": len(opened.request.prompt_ids or ()),
            "cached_tokens": first.num_cached_tokens,
        }
        if request.kind == "generate":
            answer = first.outputs[0]
            if answer.finish_reason not in ("stop", "length"):
                return request.answer(error=f"vLLM ended it with {answer.finish_reason!r}", **shared)
            ids = list(answer.token_ids)
            return request.answer(
                text=answer.text, finish_reason=answer.finish_reason, token_ids=ids,
                completion_tokens=len(ids), **shared,
            )  # fmt: skip
        if request.kind == "force":
            last = first.prompt_logprobs[-len(request.forced_ids) :]
            places = ({t: (p.logprob, p.rank) for t, p in place.items()} for place in last)
            return request.answer_tokens(places, "vLLM", **shared)
        try:
            return request.answer(choices=self._choices(request, outputs), completion_tokens=0, **shared)
        except (KeyError, TypeError, ValueError):  # a preempted request that resumed from the cache
            return request.answer(error="vLLM left out log-probabilities of a continuation", **shared)

    def _choices(self, request: Request, outputs: Sequence[Any]) -> list[tuple[float, bool]]:
        continuations = request.continuation_ids or ()
        if not self._in_one_pass(request):
            return [_forced(output, ids) for output, ids in zip(outputs, continuations, strict=True)]
        answer = outputs[0].outputs[0]
        logprobs, greedy = answer.logprobs[0], answer.token_ids[0]
        return [(float(logprobs[ids[0]].logprob), ids[0] == greedy) for ids in continuations]

    def _arguments(self) -> dict[str, Any]:
        settings = self.settings
        engine_args = {**self._given}
        renamed = {"max_batch_size": "max_num_seqs"}
        arguments: dict[str, Any] = {
            "model": self.model,
            "tensor_parallel_size": settings.tensor_parallel_size,
            "dtype": settings.dtype,
            "gpu_memory_utilization": settings.gpu_memory_utilization,
            "max_model_len": settings.max_model_len,
            "seed": settings.seed,
            **({"tokenizer": settings.tokenizer} if settings.tokenizer else {}),
        }
        for name, value in engine_args.items():
            arguments[renamed.get(name, name)] = value
        if self._lora is not None:
            arguments["enable_lora"] = True
        return arguments

    @property
    def _given(self) -> dict[str, Any]:
        """The user's model_args, parsed as in lm-eval, without lm-eval's own."""
        typed = read_model_args(self.settings)
        for name in ("think_end_token", "enable_thinking", "chat_template_args", "prefix_token_id", "truncation_side"):
            if typed.pop(name, None) is not None:
                raise BackendError(
                    "is an lm-eval option that meta-eval run does not support", where=f"model_args.{name}",
                    hint="Remove it, or run the command that prepare prints",
                )  # fmt: skip
        typed.pop("lora_local_path", None)
        return typed

    def _lora_request(self) -> Any:
        path = read_model_args(self.settings).get("lora_local_path")
        if path is None:
            return None
        from vllm.lora.request import LoRARequest

        return LoRARequest("finetuned", 1, str(path))


def _forced(output: Any, continuation: Iterable[int]) -> tuple[float, bool]:
    """Sum the log-probabilities of a prompt's last tokens; also whether each is the likeliest."""
    ids = list(continuation)
    total, greedy = 0.0, True
    for token, place in zip(ids, output.prompt_logprobs[-len(ids) :], strict=True):
        total += float(place[token].logprob)
        greedy = greedy and place[token].rank == 1
    return total, greedy
