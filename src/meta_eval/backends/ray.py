"""vLLM on a Ray cluster, which lm_eval knows nothing of: the printed command asks vLLM in one process."""

from __future__ import annotations

from typing import Any

from meta_eval.backends.base import Backend, load_class
from meta_eval.backends.settings import RunSettings, Settings
from meta_eval.backends.vllm import Vllm


class Ray(Vllm):
    """``meta-eval run`` through ``ray.data.llm``; the command is that of vLLM."""

    name = "ray"
    imports = "ray"
    install = "'ray[data]>=2.56' vllm"
    extra = "'meta-eval[ray]'"
    reloads_model = True  # Ray Data starts its workers for each pipeline
    restricts_tokens = False  # the rows of its tables take no ids for keys

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.running.ray_client:RayClient")

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
