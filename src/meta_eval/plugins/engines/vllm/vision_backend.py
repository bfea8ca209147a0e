"""vLLM with lm-eval's vision models."""

from __future__ import annotations

from meta_eval.plugins.engines.lm_eval.backend import LmEvalModel
from meta_eval.plugins.engines.vllm.backend import Vllm
from meta_eval.sockets import Settings


class VllmVlm(LmEvalModel):
    """vLLM with lm-eval's vision models, with text-only prompts."""

    tokenizer = "tokenizer"
    args_of = Vllm.args_of
    tuning = Vllm.tuning

    def __init__(self) -> None:
        super().__init__("vllm-vlm", "vllm", "vllm")
        self.reserved = Vllm.reserved

    def arguments(self, settings: Settings) -> dict[str, object]:
        return Vllm().arguments(settings)

    def list_installs(self, settings: Settings) -> tuple[str, ...]:
        return Vllm().list_installs(settings)

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        return Vllm().warnings(settings)
