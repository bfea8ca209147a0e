"""Runs transformers through lm-eval's class for it, and also forces texts, which that class does not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from meta_eval.plugins.engines.lm_eval.lm_eval_client import LmEvalClient
from meta_eval.sockets import Answer, Request, TokenPlace, collect_tokens


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
        try:
            forced = collect_tokens(ids, self._measure(prompt, ids, max(1, request.top_k)), request.top_k)
        except ValueError as error:
            return request.answer(error=f"transformers {error}")
        return request.answer(
            tokens=forced, prompt_tokens=len(prompt), completion_tokens=len(ids), started=started,
            ended=time.time(),
        )  # fmt: skip

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
