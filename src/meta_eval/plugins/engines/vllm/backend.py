"""vLLM, which Meta's recipe uses too."""

from __future__ import annotations

from typing import Any

from meta_eval.pack.backends.base import AddedBos, load_class
from meta_eval.pack.backends.server import LmEvalBackend, Server
from meta_eval.plugins.engines.vllm.serve import VLLM_HINT, VLLM_TUNING, VllmServe, find_vllm
from meta_eval.sockets import Backend, RunSettings, Settings


class Vllm(LmEvalBackend):
    """vLLM in the process of the run, or lm-eval's ``vllm``."""

    name = "vllm"
    kinds = frozenset(("generate", "choices", "force"))
    needs_token_ids = True
    restricts_tokens = True
    added_bos = AddedBos(until=(0, 4, 9, 2), for_gemma=True)  # read in lm-eval 0.4.8 to 0.4.13, as those of its classes
    imports = "vllm"
    install = "vllm"
    extra = VLLM_HINT
    args_of = "vLLM"
    tuning = VLLM_TUNING
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
        """The arguments. ``add_bos_token=True`` without a chat template gives exactly one BOS on every backend of
        lm-eval. Several copies become one on all their GPUs: lm-eval 0.4.11 may hang with several, and later versions
        load the weights again for each batch of requests.
        """
        return {
            "pretrained": settings.model_name,
            "tensor_parallel_size": self.gpus(settings),
            "dtype": settings.dtype,
            "gpu_memory_utilization": settings.gpu_memory_utilization,
            "data_parallel_size": 1,
            "max_model_len": settings.max_model_len,
            "add_bos_token": True,
            "seed": settings.seed,
        }

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.plugins.engines.vllm.vllm_client:VllmClient")

    def list_installs(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002 (it needs the same for all)
        """lm-eval's extra."""
        return ("lm-eval[vllm]",)

    def resolve(self, settings: Settings) -> Backend:
        """A single copy of a model runs in this process. Several copies are served."""
        return _ServedVllm(VllmServe()) if settings.data_parallel_size > 1 else self

    def rounding(self, settings: Settings) -> dict[str, str]:
        eager = str(settings.model_args.get("enforce_eager", False)).lower()
        return {**super().rounding(settings), "enforce_eager": eager}

    def vary_rounding(self, settings: RunSettings) -> RunSettings:
        """Other batches, and the kernels of eager mode unless it is on already."""
        alone = 16 if str(settings.model_args.get("max_num_seqs")) == "1" else 1
        kept = {name: value for name, value in settings.model_args.items() if name != "max_batch_size"}
        args = {**kept, "enforce_eager": True, "max_num_seqs": alone}
        return settings.model_copy(update={"model_args": args})

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        if settings.data_parallel_size == 1:
            return ()
        copies, gpus = settings.data_parallel_size, self.gpus(settings)
        return (
            f"data_parallel_size: {copies}: the printed command has one copy on all {gpus} GPUs "
            f"(tensor_parallel_size={gpus}), since lm_eval may hang with {copies} copies. `meta-eval run` serves the "
            f"{copies} copies itself",
        )


class _ServedVllm(Server):
    """A ``vllm serve`` for all copies of the model. The run starts it."""

    name = "vllm"

    def starts_server(self, settings: Settings) -> bool:  # noqa: ARG002 (whatever they say)
        return True

    def check_installed(self, settings: Settings) -> None:
        find_vllm("serve" if settings.serve else f"backend {self.name}")
