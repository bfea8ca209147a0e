"""Runs any other model class of lm-eval, in chunks of requests so that it can resume.

That of transformers also forces texts, which lm-eval's class does not.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meta_eval.ask.served import diagnose_engine
from meta_eval.harness.token_logprobs import TokenPlace
from meta_eval.pack.prompt_lengths import make_token_counter
from meta_eval.plugins.engines.output import redirect_output
from meta_eval.sockets import Answer, BackendError, Client, Request, RunSettings, explain_too_long, log

# Requests with the same kind and settings that are answered together. A crash loses at most these; within them lm-eval
# sorts by length.
_CHUNK = 64

# Batch size on a CPU. lm-eval's search for the largest batch would take hours there.
_CPU_BATCH = 8


class LmEvalClient(Client):
    """A model class of lm-eval, made with the arguments of the command that prepare prints.

    It returns only text: ``finish_reason`` is None, and the tokenizer counts tokens. Special tokens stay in the answers
    if the class supports that (lm-eval's own ``hf`` drops them).
    """

    def __init__(self, settings: RunSettings, *, model: str, logs: Path, end: Sequence[str] = ()) -> None:
        super().__init__(settings, model=model, logs=logs, end=end)
        self._where = f"backend {settings.backend}"
        self._log = logs / f"{settings.backend}.log"
        self._count = make_token_counter(settings.tokenizer_of(model))
        self._answered = self._unseen = False
        self._ends = self.end

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        settings = self.settings.model_copy(update={"model_name": self.model})
        command = self.backend.command(settings)
        arguments = command[command.index("--model_args") + 1]
        try:
            with redirect_output(self._log):
                import lm_eval.models  # noqa: F401 (fills the registry)
                from lm_eval.api.registry import get_model

                make = get_model(settings.backend)
                self._lm = make.create_from_arg_string(arguments, self._further(make))
                self._ends = tuple(dict.fromkeys((*self.end, *_keep_special_tokens(self._lm))))
                _fix_batch_size(self._lm)
                if "torch" in sys.modules:
                    sys.modules["torch"].manual_seed(settings.seed)
        except ModuleNotFoundError as error:
            install = self.backend.install
            raise BackendError(
                f"{error.name} is not installed", where=self._where, hint=f"pip install {install}"
            ) from None
        except Exception as error:
            unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            if isinstance(error, TypeError) and unknown and unknown[1] in settings.model_args:
                where, hint = f"model_args.{unknown[1]}", "Take it out, or write it as the engine does"
                raise BackendError(f"{self._where} has no such argument", where=where, hint=hint) from None
            raise diagnose_engine(error, self._log, where=self._where) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(Exception), redirect_output(self._log):
            engine = getattr(self._lm, "model", None)
            if engine is not None and hasattr(engine, "shutdown"):  # sglang's processes
                engine.shutdown()
            del self._lm
            _free_memory()

    @property
    def engine(self) -> str:
        return f"lm-eval {version('lm-eval')} {self.settings.backend}"

    def _further(self, make: Any) -> dict[str, Any]:
        """Further arguments that lm_eval passes. Without a device, its ``hf`` assumes CUDA."""
        torch = sys.modules.get("torch")
        takes_device = "device" in signature(make.__init__).parameters and "device" not in self.settings.model_args
        cpu = takes_device and torch is not None and not torch.cuda.is_available()
        return {"batch_size": self.settings.batch_size, **({"device": "cpu"} if cpu else {})}

    def answer(self, requests: Iterable[Request]) -> Iterator[Answer]:
        for _, alike in itertools.groupby(requests, key=_likeness):
            while some := list(itertools.islice(alike, _CHUNK)):
                yield from self._chunk(some)

    def _chunk(self, requests: Sequence[Request]) -> Iterator[Answer]:
        fit: list[Request] = []
        for request in requests:
            why = explain_too_long(request, self.settings.max_model_len)
            if why is None:
                fit.append(request)
            else:
                yield request.answer(error=why, retry=False)
        if not fit:
            return
        self._check_bos(fit[0])
        for batch in self._batches(fit):
            try:
                answers = self._ask(batch)
            except Exception as error:
                yield from self._one_by_one(batch, error)
            else:
                self._answered = True
                yield from answers

    def _batches(self, requests: Sequence[Request]) -> Iterator[Sequence[Request]]:
        """What a call gets: a batch of ``hf``, the longest prompts first, as it sorts them, so that each batch is kept
        and shown when it is done. On a CPU 64 requests take minutes. Other classes work on all requests at once."""
        size = getattr(self._lm, "batch_size_per_gpu", None)
        if not isinstance(size, int) or size < 1:
            yield requests
            return
        longest_first = sorted(requests, key=lambda request: -len(request.prompt_ids or ()))
        for start in range(0, len(requests), size):
            yield longest_first[start : start + size]

    def _one_by_one(self, requests: Sequence[Request], first: Exception) -> Iterator[Answer]:
        """Retry a failed chunk request by request, so that only bad requests fail. If all fail, the engine has
        failed."""
        log.warning(f"{len(requests):,} requests failed in one batch and are retried one by one: {_said_of(first)}")
        failed: list[Answer] = []
        for request in requests:
            _free_memory()
            try:
                answers = self._ask([request])
            except Exception as error:
                failed.append(request.answer(error=_said_of(error)))
            else:
                self._answered = True
                yield from answers
        if len(failed) == len(requests) > 1 and not self._answered:
            raise diagnose_engine(first, self._log, where=self._where) from first
        yield from failed

    def _ask(self, requests: Sequence[Request]) -> list[Answer]:
        started = time.time()
        instances = [instance for request in requests for instance in self._instances(request)]
        call = self._lm.generate_until if requests[0].kind == "generate" else self._lm.loglikelihood
        with redirect_output(self._log):
            answers = list(call(instances))
        if len(answers) != len(instances):
            raise RuntimeError(f"it gave {len(answers)} answers to {len(instances)} requests")
        shared: dict[str, Any] = {"started": started, "ended": time.time()}
        left = iter(answers)
        return [self._make_answer(request, left, shared) for request in requests]

    def _make_answer(self, request: Request, answers: Iterator[Any], shared: dict[str, Any]) -> Answer:
        prompt = None if request.prompt_ids is None else len(request.prompt_ids)
        if request.kind == "choices":
            choices = [
                (float(choice[0]), bool(choice[1])) for choice in itertools.islice(answers, len(request.continuations))
            ]
            return request.answer(choices=choices, prompt_tokens=prompt, completion_tokens=0, **shared)
        text = next(answers)
        written = self._count(text)
        return request.answer(text=text, prompt_tokens=prompt, completion_tokens=written, **shared)

    def _instances(self, request: Request) -> list[Any]:
        """Build the instances as lm-eval's tasks do."""
        from lm_eval.api.instance import Instance

        of = (request.task, request.doc, 1)
        if request.kind == "generate":
            stop = list(dict.fromkeys((*request.stop, *self._ends)))
            settings = {**(request.settings or {}), "until": stop, "max_gen_toks": request.max_tokens}
            return [Instance("generate_until", {}, (request.prompt, settings), 0, of)]
        return [
            Instance("loglikelihood", {}, (request.prompt, text), index, of)
            for index, text in enumerate(request.continuations)
        ]

    def _check_bos(self, request: Request) -> None:
        """Check that the model's class tokenizes a prompt as the pack does, with exactly one BOS."""
        prompt, ids = request.prompt, request.prompt_ids
        try:
            encoded = self._lm.tok_encode(prompt.rstrip() if request.kind == "choices" else prompt)
        except Exception:  # (a class without a tokenizer may do anything here)
            encoded = None
        if ids is None or not isinstance(encoded, list) or not all(isinstance(token, int) for token in encoded):
            if not self._unseen:
                log.warning(f"{self._where}: its tokens cannot be seen, so the BOS is not checked")
            self._unseen = True
            return
        if encoded == list(ids):
            return
        bos = ids[0]
        count = len(list(itertools.takewhile(lambda token: token == bos, encoded)))
        what = f"puts {count} BOS before a prompt and not one" if count != 1 else "makes other tokens of a prompt"
        raise BackendError(
            f"{what}: {encoded[:4]} and not {list(ids[:4])} ({request.id})", where=self._where,
            hint="Check the model's tokenizer files and add_bos_token",
        )  # fmt: skip


def _likeness(request: Request) -> str:
    """The settings that requests of a call must share."""
    return json.dumps([request.kind, request.stop, request.max_tokens, dict(request.settings or {})], sort_keys=True)


def _keep_special_tokens(lm: Any) -> list[str]:
    """Keep special tokens in decoded text. Return the texts that may then end or pad an answer."""
    decode = getattr(lm, "tok_decode", None)
    if decode is None or "skip_special_tokens" not in signature(decode).parameters:
        return []
    lm.tok_decode = partial(decode, skip_special_tokens=False)
    ends = getattr(getattr(getattr(lm, "model", None), "generation_config", None), "eos_token_id", None)
    ids = [*(ends if isinstance(ends, list) else [ends]), getattr(lm.tokenizer, "pad_token_id", None)]
    return [text for token in ids if token is not None and (text := lm.tok_decode([token]))]


def _fix_batch_size(lm: Any) -> None:
    """Search for the ``auto`` batch size once; lm-eval's ``hf`` would search again at each call."""
    if getattr(lm, "batch_size", None) == "auto" and hasattr(lm, "batch_size_per_gpu"):
        cpu = getattr(getattr(lm, "device", None), "type", "") == "cpu"
        lm.batch_size_per_gpu = _CPU_BATCH if cpu else lm._detect_batch_size()


def _said_of(error: Exception) -> str:
    if "out of memory" in str(error).lower() or type(error).__name__ == "OutOfMemoryError":
        return "the GPU has not enough memory for it: lower batch_size, or spread the model over more GPUs"
    return f"{type(error).__name__}: {error}"[:500]


def _free_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


class TransformersClient(LmEvalClient):
    """lm-eval's ``hf``. A forced text is one forward pass over token ids, so a laptop can hold a trusted copy."""

    def cannot(self, kind: str, *, has_tokenizer: bool) -> str | None:
        if kind == "force" and not has_tokenizer:
            return "the model's tokenizer is not on this machine: set tokenizer to a hub id or a folder"
        if kind == "force" and self._lm.backend != "causal":
            return "it is no causal model, so its prompt and answer are apart"
        return super().cannot(kind, has_tokenizer=has_tokenizer)

    def _ask(self, requests: Sequence[Request]) -> list[Answer]:
        if requests[0].kind != "force":
            return super()._ask(requests)
        return [self._force(request) for request in requests]

    def _force(self, request: Request) -> Answer:
        started = time.time()
        prompt, ids = list(request.prompt_ids or ()), list(request.forced_ids)
        places = list(self._measure(prompt, ids, max(1, request.top_k)))
        return request.answer_tokens(
            places, "transformers", prompt_tokens=len(prompt), started=started, ended=time.time()
        )

    def _measure(self, prompt: Sequence[int], ids: Sequence[int], top_k: int) -> Iterator[TokenPlace]:
        """The k likeliest tokens and the own one at each place of an answer; in float32, whatever the model's dtype."""
        import torch

        tokens = torch.tensor([[*prompt, *ids]], device=self._lm.device)
        # The class has no public call.
        logs = self._lm._model_call(tokens)[0, len(prompt) - 1 : -1].float().log_softmax(-1)
        own = logs.gather(1, tokens[0, len(prompt) :, None])
        top, ranks = logs.topk(top_k), (logs > own).sum(-1) + 1
        for token, value, rank, others, values in zip(
            ids, own[:, 0].tolist(), ranks.tolist(), top.indices.tolist(), top.values.tolist(), strict=True
        ):
            yield {**{other: (at, None) for other, at in zip(others, values, strict=True)}, token: (value, rank)}

    def _check_bos(self, request: Request) -> None:
        if request.kind != "force":  # that is asked with token ids
            super()._check_bos(request)
