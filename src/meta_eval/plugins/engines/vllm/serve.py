"""``vllm serve``: the program that serves a model for a run."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval.pack.backends.base import describe_missing
from meta_eval.pack.backends.server import OF_CLIENT
from meta_eval.sockets import BackendError, RunSettings, ServerProgram, Settings, log

# What our extra vllm installs. The package itself is on no registry yet, so a hint names what it needs.
VLLM_EXTRA = "'vllm>=0.18'"
# The same in a sentence, with what README says for a checkout.
VLLM_HINT = f"{VLLM_EXTRA} on a machine with a GPU (in a checkout: pip install '.[vllm]')"

# Arguments of lm-eval's vllm backend that vLLM calls differently, and those that vLLM does not have.
_RENAMED = {"max_batch_size": "max_num_seqs"}
_LM_EVAL_ONLY = frozenset(
    ("chat_template_args", "enable_thinking", "prefix_token_id", "think_end_token", "truncation_side")
)

# vLLM's arguments of speed and memory.
VLLM_TUNING = frozenset(
    (
        "async_scheduling", "block_size", "cpu_offload_gb", "device", "disable_custom_all_reduce", "disable_log_stats",
        "distributed_executor_backend", "enable_chunked_prefill", "enable_prefix_caching", "enforce_eager",
        "max_batch_size", "max_num_batched_tokens", "max_num_seqs", "num_gpu_blocks_override", "pipeline_parallel_size",
        "swap_space",
    )
)  # fmt: skip

# Served name of a LoRA adapter.
ADAPTER = "finetuned"


class VllmServe(ServerProgram):
    """vLLM's server, for backend ``server`` and for several copies of a model."""

    name = "vllm serve"
    args_of = "vLLM"
    tuning = VLLM_TUNING
    spans_nodes = True
    reserved = {  # noqa: RUF012 (the base class says that it is one for all)
        "generation_config": "it is always vllm: the model's own could bring penalties and a limit to the answers"
    }

    def check_installed(self) -> None:
        find_vllm()

    def command(self, settings: Settings, model: str, port: int, *, host: str | None) -> tuple[str, ...]:
        return ("vllm", *list_arguments(settings, model, port, host=host))

    def short_command(self, model: str, *, dtype: str, max_model_len: int) -> tuple[str, ...]:
        return ("vllm", "serve", model, "--dtype", dtype, "--max-model-len", str(max_model_len))

    def start(self, settings: RunSettings, model: str, logs: Path) -> Any:
        from meta_eval.ask.served import HOST, start_server

        if settings.base_url:
            raise BackendError(
                "`serve: true` starts a server, and base_url names another", where="serve",
                hint="Remove one of the two",
            )  # fmt: skip
        if not settings.serve:
            log.warning(
                f"data_parallel_size: {settings.data_parallel_size} copies of the model run in one `vllm serve`, which "
                "this run starts and asks"
            )

        def command(port: int) -> Sequence[str]:
            try:
                return [*find_vllm(), *list_arguments(settings, model, port, host=HOST)]
            except ValueError as error:
                raise BackendError(
                    "is an lm-eval option, not a flag of `vllm serve`", where=f"model_args.{error}",
                    hint="Remove it, or run the command that prepare prints",
                ) from None  # fmt: skip

        name = ADAPTER if "lora_local_path" in settings.model_args else model
        # With a key in its environment it would require that key of us.
        return start_server(command, self.name, name, logs, unset=("VLLM_API_KEY",))


def find_vllm(where: str = "serve") -> list[str]:
    """The command of vLLM: in this environment, else on the shell's path.

    Args:
        where: What asks for it, for the error.

    Raises:
        BackendError: It is not installed.
    """
    if importlib.util.find_spec("vllm") is not None:
        return [sys.executable, "-P", "-m", "vllm.entrypoints.cli.main"]
    program = shutil.which("vllm")
    if program is None:
        raise describe_missing("vllm", VLLM_HINT, where=where)
    return [program]


def list_arguments(settings: Settings, model: str, port: int, *, host: str | None) -> tuple[str, ...]:
    """The arguments of ``vllm`` that serve a model for a run.

    ``--generation-config vllm`` ignores the model's generation_config.json. That may hold a repetition penalty, which
    changes greedy answers, or a limit that shortens them. ``--enable-prompt-tokens-details`` reports cached tokens.

    Raises:
        ValueError: model_args has an argument that only lm-eval knows. The text is its name.
    """
    argv = ["serve", model]
    argv += ["--host", host] if host else []
    argv += ["--port", str(port)]
    argv += ["--tensor-parallel-size", str(settings.tensor_parallel_size)]
    argv += ["--data-parallel-size", str(settings.data_parallel_size)]
    argv += ["--dtype", settings.dtype]
    argv += ["--max-model-len", str(settings.max_model_len)]
    argv += ["--gpu-memory-utilization", str(settings.gpu_memory_utilization)]
    argv += ["--seed", str(settings.seed)]
    argv += ["--tokenizer", settings.tokenizer] if settings.tokenizer else []
    argv += ["--generation-config", "vllm", "--enable-prompt-tokens-details", "--disable-uvicorn-access-log"]
    for name, value in sorted(settings.model_args.items()):
        if name not in OF_CLIENT:
            argv += _flag(name, value)
    return tuple(argv)


def _flag(name: str, value: object) -> Sequence[str]:
    """Format an argument: ``enforce_eager: true`` becomes ``--enforce-eager``, false becomes ``--no-enforce-eager``."""
    if name in _LM_EVAL_ONLY:
        raise ValueError(name)
    if name == "lora_local_path":
        return "--enable-lora", "--lora-modules", f"{ADAPTER}={value}"
    flag = _RENAMED.get(name, name).replace("_", "-")
    flags: Mapping[str, Sequence[str]] = {"true": (f"--{flag}",), "false": (f"--no-{flag}",)}
    return flags.get(str(value).lower(), (f"--{flag}", str(value)))
