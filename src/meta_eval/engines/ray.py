"""vLLM on a Ray cluster, which lm_eval knows nothing of: the printed command asks vLLM in one process."""

from __future__ import annotations

from meta_eval.engines.settings import RunSettings, Settings
from meta_eval.engines.vllm import VLLM


class Ray(VLLM):
    """``meta-eval run`` through ``ray.data.llm``; the command is that of vLLM."""

    name = "ray"
    imports = "ray"
    install = "'ray[data]>=2.56' vllm"
    one_of_tokens = False  # the rows of its tables take no ids for keys

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        return (
            "backend ray is meta-eval run's; lm_eval cannot ask a Ray cluster, and the printed command asks vllm on "
            "one machine",
            *VLLM().warnings(settings),
        )

    def command(self, run: RunSettings) -> tuple[str, ...]:
        return VLLM().command(run)
