"""vLLM, which Meta's recipe uses."""

from __future__ import annotations

from collections.abc import Sequence

from meta_eval.engines.base import Engine, model_args_in
from meta_eval.engines.settings import Settings


class VLLM(Engine):
    """lm-eval's ``vllm``."""

    name = "vllm"
    imports = "vllm"
    install = "vllm"
    one_of_tokens = True
    reserved = {  # noqa: RUF012 (the base class says that it is one for all)
        "pretrained": "use model_name",
        "model": "use model_name",
        "tensor_parallel_size": "use the key tensor_parallel_size",
        "data_parallel_size": "use the key data_parallel_size",
        "gpu_memory_utilization": "use the key gpu_memory_utilization",
        "max_model_len": "use the key max_model_len",
        "max_length": "use the key max_model_len",
        "dtype": "use the key dtype",
        "seed": "use the key seed",
        "batch_size": "use the key batch_size",
        "add_bos_token": "it is always True: the prompts of a pack hold no BOS, and exactly one must be there",
        "max_gen_toks": "each task sets its own",
    }

    def arguments(self, settings: Settings) -> dict[str, object]:
        """``add_bos_token=True`` without a chat template gives exactly one BOS on every backend of lm-eval."""
        return {
            "pretrained": settings.model_name,
            "tensor_parallel_size": settings.tensor_parallel_size,
            "dtype": settings.dtype,
            "gpu_memory_utilization": settings.gpu_memory_utilization,
            "data_parallel_size": settings.data_parallel_size,
            "max_model_len": settings.max_model_len,
            "add_bos_token": True,
            "seed": settings.seed,
        }

    def says_bos(self, command: Sequence[str], *, added: bool) -> bool:
        arguments = model_args_in(command)
        return f"add_bos_token={added}" in arguments and "--apply_chat_template" not in command

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        if settings.data_parallel_size == 1:
            return ()
        return (
            f"data_parallel_size: {settings.data_parallel_size} in lm_eval itself: from 0.4.12 on it needs `ray`, one "
            "actor a copy, and loads the weights anew at every call; 0.4.11 is reported to hang. 1 is the safe choice "
            "there; meta-eval run with backend ray loads each copy once",
        )
