"""vLLM on a Ray cluster. lm_eval does not support it, so the printed command uses vLLM in a single process."""

from __future__ import annotations

from typing import Any

from meta_eval.pack.backends.base import load_class
from meta_eval.plugins.engines.vllm.backend import Vllm
from meta_eval.sockets import Backend, RunSettings, Settings


class Ray(Vllm):
    """``meta-eval run`` through ``ray.data.llm``. The printed command is vLLM's."""

    name = "ray"
    imports = "ray"
    install = "'ray[data]>=2.56' vllm"
    extra = "'ray[data]>=2.56' 'vllm>=0.18'"
    reloads_model = True  # Ray Data starts new workers for each pipeline
    restricts_tokens = False  # its tables cannot have ids as keys

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.plugins.engines.ray.ray_client:RayClient")

    def resolve(self, settings: Settings) -> Backend:  # noqa: ARG002 (it runs several copies itself)
        return self

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        return (
            "backend ray is meta-eval run's; lm_eval cannot ask a Ray cluster, and the printed command asks vllm on "
            "one machine",
            *Vllm().warnings(settings),
        )

    def command(self, run: RunSettings) -> tuple[str, ...]:
        return Vllm().command(run)
